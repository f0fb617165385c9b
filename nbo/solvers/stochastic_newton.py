"""The paper's stochastic family (Algorithms 4-5) and the single-loop methods that it generalises, from one loop."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._dual import borrowed, dual
from nbo._updates import add_scaled, add_scaled_change, blend, copy, move, scale
from nbo._validation import choice, flag, fraction, integer
from nbo.coordinates import Room, move_along
from nbo.gradient_estimators import PAGE, SAGA, SGD, STORM, Point, estimate
from nbo.minibatches import AnyOracles, Components, Data, empty_components, lower_hvp
from nbo.oracles import OracleCounts
from nbo.problem import BilevelProblem
from nbo.sampling import B1, B2, B3, B4, INNER, Stream, draw
from nbo.schedules import LoopValues, Schedule, validate_weight, value
from nbo.solvers.base import PAPER
from nbo.solvers.stochastic import StochasticSolver

Array = npt.NDArray[Any]

#: Where the single-loop methods are from.
SOBA_PAPER = (
    "Dagreou, Ablin, Vaiter and Moreau, 2022, A Framework for Bilevel Optimization That Enables Stochastic and Global "
    "Variance Reduction Algorithms (NeurIPS)"
)
SPABA_PAPER = (
    "Chu, Xu, Yao and Zhang, 2024, SPABA: A Single-Loop and Probabilistic Stochastic Bilevel Algorithm Achieving "
    "Optimal Sample Complexity (ICML)"
)

#: Inner steps, each of which has a stream of batches of its own, at most.
MOST_INNER_STEPS = 1000


class NewtonSettings(NamedTuple):
    """What `newton_loop` is told.

    Attributes
    ----------
    n_inner : int
        T.
    averages : bool
        Whether x moves along a moving average of D_x.
    """

    n_inner: int
    averages: bool


@dual
def newton_loop(
    o: AnyOracles,
    memory: Any,
    point: Point,
    feasible: Any,
    values: LoopValues,
    settings: NewtonSettings,
    k0: int,
    k1: int,
) -> None:
    """Do iterations k0 .. k1 - 1: Newton directions by T + 1 steps on minibatch Hessians, then a move.

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    memory : NamedTuple
        The estimator's memory, changed in place.
    point : Point
        The iterate, and where the directions go.
    feasible : FeasibleSet or pair of ndarray
        The feasible set of x; compiled, its bounds.
    values : LoopValues
        Step sizes, and the weight of the past.
    settings : NewtonSettings
        The rest.
    k0 : int
        The first iteration.
    k1 : int
        The iteration to stop before.
    """
    o, memory, point, feasible = borrowed(o), borrowed(memory), borrowed(point), borrowed(feasible)
    V, HV, d = point.V, point.HV, point.d
    for k in range(k0, k1):
        past = value(values.weight, k, k0)
        estimate(memory, o, point, k, past)
        gamma = value(values.inner, k, k0)
        for r in range(2):
            scale(V[r], gamma, d[r])
        for t in range(settings.n_inner):
            lower_hvp(o, draw(o.streams, INNER + t, k), point.x, point.y, V, HV)
            for r in range(2):
                add_scaled_change(V[r], gamma, d[r], HV[r])
        if k == k1 - 1:
            copy(point.x_left, point.x)
        add_scaled(point.y, -1.0, V[0])
        add_scaled(point.u, -1.0, V[1])
        move_upper(o, point, value(values.upper, k, k0), past if k > 0 else 0.0, settings.averages, feasible)


@dual
def move_upper(o: AnyOracles, point: Point, alpha: float, past: float, averages: bool, feasible: Any) -> None:
    """Move x along -d_x or along its moving average.

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    point : Point
        The iterate, and where the directions go.
    alpha : float
        The step.
    past : float
        The weight of the average so far.
    averages : bool
        Whether x moves along a moving average of D_x.
    feasible : FeasibleSet or pair of ndarray
        The feasible set of x; compiled, its bounds.
    """
    if averages:
        blend(point.average, past, point.d_x)
        move(point.x, alpha, point.average, feasible)
    else:
        move_along(o.coordinates, point.x, alpha, point.d_x, feasible)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StochasticNewton(StochasticSolver):
    """NSBO (paper, Algorithms 4-5): stochastic Newton directions for y and u by one inner solver.

    At the old (x, y, u), with D_y, D_u and D_x estimates of grad_2 g, H u - grad_2 f and grad_1 f - J u: v = gamma D_y
    and w = gamma D_u; for t = 0 .. T - 1, (v, w) <- (v, w) - gamma (H^t (v, w) - (D_y, D_u)) with a fresh minibatch
    Hessian H^t; then x <- project(x - alpha D_x), y <- y - v, u <- u - w (errata A1, A4, A5, E7).

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha.
    inner_step_size : float or callable, optional
        gamma; left out, 1/((T + 2) L) with L the largest curvature of batches at the start (counted).
    batch_size : int or "full", optional
        The size of every batch; 64 by default.
    batch_sizes : dict, optional
        Sizes of single batches.
    sampler : {"epoch", "window", "iid"}
        How batches are drawn.
    eval_every : int, optional
        Iterations between two evaluations of f.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    share_batches : bool
        Whether one lower batch ("B2") serves D_y, H u and J u.
    """

    source: ClassVar[str] = PAPER

    share_batches: bool = False

    def __post_init__(self) -> None:
        flag("share_batches", self.share_batches)
        super().__post_init__()

    def steps(self) -> int:
        """Return T.

        Returns
        -------
        int
            0 unless the method has inner steps.
        """
        return 0

    def averages(self) -> bool:
        """Tell whether x moves along a moving average of D_x.

        Returns
        -------
        bool
            False by default.
        """
        return False

    def points(self) -> int:
        """Return at how many points the estimator looks on one batch.

        Returns
        -------
        int
            1, or 2 for recursive estimators.
        """
        return 1

    def margin(self, noisy: bool) -> float:
        """Return T + 2: slow modes take T + 1 steps at once, noise included; see `StochasticSolver.margin`."""
        return self.steps() + 2.0 if noisy else 1.0

    def shares(self) -> bool:
        """Tell whether one lower batch serves D_y, H u and J u; see `StochasticSolver.shares`."""
        return self.share_batches

    def kernels(self, fused: bool) -> tuple[str, ...]:
        """Leave out what fused or missing steps do not call; see `StochasticSolver.kernels`."""
        if not self.share_batches:
            return (*super().kernels(fused), "lower_grad_y_and_hvp")
        parts = ("lower_parts",) if fused else ("lower_grad_y_and_hvp", "lower_jvp")
        return (*parts, "upper_grad", *(["lower_hvp"] if self.steps() else []))

    def loop(self) -> Callable[..., None]:
        """Return `newton_loop`; see `StochasticSolver.loop`."""
        return newton_loop

    def settings(self) -> NewtonSettings:
        """Return T and whether x moves along an average; see `StochasticSolver.settings`."""
        return NewtonSettings(self.steps(), self.averages())

    def draws(self) -> Mapping[str, int]:
        """Return one draw of every batch; see `StochasticSolver.draws`."""
        apart = 0 if self.share_batches else 1
        return {"B1": apart, "B2": 1, "B3": 1, "B4": apart, "B1t": self.steps()}

    def cost_per_iteration(self, dim_y: int) -> OracleCounts:
        """Return the oracle calls of one iteration on minibatches.

        Parameters
        ----------
        dim_y : int
            n.

        Returns
        -------
        OracleCounts
            1 lower_grad_y, 1 upper_grad, 1 lower_jvp and 2T + 1 lower_hvp; twice the first three and 2T + 2
            lower_hvp where an estimator looks at two points.
        """
        points, products = self.points(), self.points() + 2 * self.steps()
        return OracleCounts(upper_grad=points, lower_grad_y=points, lower_jvp=points, lower_hvp=products)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _InnerSteps(StochasticNewton):
    n_inner: int = 1

    def __post_init__(self) -> None:
        integer("n_inner", self.n_inner, maximum=MOST_INNER_STEPS)
        super().__post_init__()

    def steps(self) -> int:
        return self.n_inner


class _Sgd(StochasticNewton):
    def memory(
        self, problem: BilevelProblem, room: Room, streams: list[Stream], stored: Data, dtype: np.dtype[Any]
    ) -> SGD:
        return SGD()

    def touches_batches_only(self) -> bool:
        return not self.averages()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Saga(StochasticNewton):
    initialization: str = "full"

    def __post_init__(self) -> None:
        choice("initialization", self.initialization, ("full", "zero"))
        super().__post_init__()
        if self.sampler != "epoch":
            raise ValueError(
                f"sampler: found {self.sampler!r}; expected 'epoch' for {self.name}, whose memory has a row for every "
                "block of an epoch"
            )

    def memory(
        self, problem: BilevelProblem, room: Room, streams: list[Stream], stored: Data, dtype: np.dtype[Any]
    ) -> SAGA:
        m, n = problem.dim_x, problem.dim_y
        blocks = [stream.blocks for stream in streams[:4]]
        if self.share_batches:
            blocks[B1] = blocks[B4] = blocks[B2]
        return SAGA(
            parts=empty_components(room, n, dtype),
            grad=np.zeros((blocks[B2], n), dtype),
            hvp=np.zeros((blocks[B1], n), dtype),
            jvp=np.zeros((1, m) if getattr(problem, "x_per_sample", False) else (blocks[B4], m), dtype),
            upper_x=np.zeros((blocks[B3], room.upper), dtype),
            upper_y=np.zeros((blocks[B3], n), dtype),
            mean_y=np.zeros((3, n)),
            mean_jvp=np.zeros(m),
            mean_upper_x=np.zeros(room.upper),
            jvp_blocks=blocks[B4],
            full=self.initialization == "full",
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MomentumNewton(StochasticNewton):
    """NSBO whose directions keep a part of the last ones.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha.
    inner_step_size : float or callable, optional
        gamma.
    batch_size : int or "full", optional
        The size of every batch; 64 by default.
    batch_sizes : dict, optional
        Sizes of single batches.
    sampler : {"epoch", "window", "iid"}
        How batches are drawn.
    eval_every : int, optional
        Iterations between two evaluations of f.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    share_batches : bool
        Whether one lower batch ("B2") serves D_y, H u and J u.
    momentum : float or callable
        The weight of the past, in [0, 1], or a schedule k -> weight.
    """

    momentum: Schedule = 0.9

    def __post_init__(self) -> None:
        validate_weight("momentum", self.momentum)
        super().__post_init__()

    def weight(self) -> Schedule:
        """Return `momentum`; see `StochasticSolver.weight`."""
        return self.momentum


class _Storm(MomentumNewton):
    def points(self) -> int:
        return 2

    def memory(
        self, problem: BilevelProblem, room: Room, streams: list[Stream], stored: Data, dtype: np.dtype[Any]
    ) -> STORM:
        return STORM(*two_points(problem, room, dtype))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PageNewton(StochasticNewton):
    """NSBO with PAGE estimates: directions over all samples now and then, else corrected ones.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha.
    inner_step_size : float or callable, optional
        gamma.
    batch_size : int or "full", optional
        The size of every batch; 64 by default.
    batch_sizes : dict, optional
        Sizes of single batches.
    sampler : {"epoch", "window", "iid"}
        How batches are drawn.
    eval_every : int, optional
        Iterations between two evaluations of f.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    share_batches : bool
        Whether one lower batch ("B2") serves D_y, H u and J u.
    """

    @abc.abstractmethod
    def full_iterations(self, batch: Stream) -> tuple[float, int]:
        """Return when directions are over all samples.

        Parameters
        ----------
        batch : Stream
            Of D_y.

        Returns
        -------
        probability : float
            Of an iteration.
        period : int
            If positive, every so many iterations instead.
        """

    def points(self) -> int:
        """Return 2; see `StochasticNewton.points`."""
        return 2

    def memory(
        self, problem: BilevelProblem, room: Room, streams: list[Stream], stored: Data, dtype: np.dtype[Any]
    ) -> PAGE:
        """Return the memory of PAGE; see `StochasticSolver.memory`."""
        probability, period = self.full_iterations(streams[B2])
        return PAGE(*two_points(problem, room, dtype), probability, period, stored)


def two_points(
    problem: BilevelProblem, room: Room, dtype: np.dtype[Any]
) -> tuple[Components, Components, Components, Array, Array, Array]:
    """Return the rooms of an estimator that looks at two points.

    Parameters
    ----------
    problem : BilevelProblem
        For the dimensions.
    room : Room
        The sizes of arrays in the space of x.
    dtype : dtype
        Of y.

    Returns
    -------
    tuple
        Of three `Components` (new, old and last estimates) and the old x, y, u.
    """
    new, old, last = (empty_components(room, problem.dim_y, dtype) for _ in range(3))
    y, u = np.zeros((2, problem.dim_y), dtype)
    return new, old, last, np.zeros(problem.dim_x), y, u


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Page(PageNewton):
    probability: float | None = None

    def __post_init__(self) -> None:
        if self.probability is not None:
            fraction("probability", self.probability)
        super().__post_init__()

    def full_iterations(self, batch: Stream) -> tuple[float, int]:
        probability = batch.size / (batch.n + batch.size) if self.probability is None else self.probability
        return float(probability), 0


class _Averaged(MomentumNewton):
    def averages(self) -> bool:
        return True


@dataclasses.dataclass(frozen=True, kw_only=True)
class NSBOSGD(_Sgd, _InnerSteps):
    """NSBO-SGD(T) (paper, Algorithms 4-5): stochastic Newton directions from plain minibatches.

    The Newton directions of `StochasticNewton` with minibatch means for D_y, D_u and D_x.
    Costs 1 lower_grad_y, 1 upper_grad, 1 lower_jvp and 2T + 1 lower_hvp an iteration, on minibatches.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha such as `nbo.schedules.PowerDecay`.
    inner_step_size : float or callable, optional
        gamma; left out, 1/((T + 2) L) with L the largest curvature of batches at the start (counted).
    batch_size : int or "full", optional
        The size of every batch; 64, of "B2" 256 (paper, appendix C.2), by default, capped at the number of samples.
    batch_sizes : dict, optional
        Sizes of single batches, "B1" (Hessian in D_u), "B2" (D_y), "B3" (grad f), "B4" (Jacobian) and "B1t"
        (inner Hessians); they override `batch_size`.
    sampler : {"epoch", "window", "iid"}
        How batches are drawn, see `nbo.sampling.SAMPLERS`.
    eval_every : int, optional
        Iterations between two evaluations of f; a twentieth of `max_iter` by default.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    share_batches : bool
        Whether one lower batch ("B2") serves D_y, H u and J u; False by default.
    n_inner : int
        T; 1 as in the paper's experiments, which is two inner steps.
    """

    name: ClassVar[str] = "nsbo-sgd"
    description: ClassVar[str] = "stochastic Newton directions, plain minibatches (paper, Algorithms 4-5)"
    cost: ClassVar[str] = "1 upper_grad, 1 lower_grad_y, 2*T+1 lower_hvp, 1 lower_jvp"
    default_sizes: ClassVar[Mapping[str, int]] = {"B2": 256}


@dataclasses.dataclass(frozen=True, kw_only=True)
class NSBOSAGA(_Saga, _InnerSteps):
    """NSBO-SAGA(T) (paper, Section 4.4): stochastic Newton directions from SAGA estimates.

    The Newton directions of `StochasticNewton` with SAGA estimates of the five parts of D_y, D_u and D_x; the
    inner Hessians are plain minibatches. Memory: 3n + 2m numbers a block.
    Costs 1 lower_grad_y, 1 upper_grad, 1 lower_jvp and 2T + 1 lower_hvp an iteration, on minibatches.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha such as `nbo.schedules.PowerDecay`.
    inner_step_size : float or callable, optional
        gamma; left out, 1/((T + 2) L) with L the largest curvature of batches at the start (counted).
    batch_size : int or "full", optional
        The size of every batch; 64 by default, capped at the number of samples.
    batch_sizes : dict, optional
        Sizes of single batches, "B1" (Hessian in D_u), "B2" (D_y), "B3" (grad f), "B4" (Jacobian) and "B1t"
        (inner Hessians); they override `batch_size`.
    sampler : {"epoch"}
        How batches are drawn, see `nbo.sampling.SAMPLERS`; SAGA's memory has a row for each block of an epoch.
    eval_every : int, optional
        Iterations between two evaluations of f; a twentieth of `max_iter` by default.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    share_batches : bool
        Whether one lower batch ("B2") serves D_y, H u and J u; False by default.
    n_inner : int
        T; 1 as in the paper's experiments, which is two inner steps.
    initialization : {"full", "zero"}
        How the memory starts: with the estimates of all blocks at the first point (an epoch of every
        oracle, counted), or with zeros, with which the first epoch overshoots.
    """

    name: ClassVar[str] = "nsbo-saga"
    description: ClassVar[str] = "stochastic Newton directions, SAGA estimates (paper, Section 4.4)"
    cost: ClassVar[str] = "1 upper_grad, 1 lower_grad_y, 2*T+1 lower_hvp, 1 lower_jvp"
    cost_note: ClassVar[str] = "and an epoch of all at the start"
    storage: ClassVar[str] = "3n + 2m numbers a block of samples"


@dataclasses.dataclass(frozen=True, kw_only=True)
class MANSBOSAGA(_Averaged, _Saga, _InnerSteps):
    """MA-NSBO-SAGA(T) (paper, Section 4.4): NSBO-SAGA whose x moves along a moving average of D_x.

    h <- beta h + (1 - beta) D_x, from the first D_x on, and x <- project(x - alpha h). All else as in `NSBOSAGA`.
    Costs 1 lower_grad_y, 1 upper_grad, 1 lower_jvp and 2T + 1 lower_hvp an iteration, on minibatches.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha such as `nbo.schedules.PowerDecay`.
    inner_step_size : float or callable, optional
        gamma; left out, 1/((T + 2) L) with L the largest curvature of batches at the start (counted).
    batch_size : int or "full", optional
        The size of every batch; 64 by default, capped at the number of samples.
    batch_sizes : dict, optional
        Sizes of single batches, "B1" (Hessian in D_u), "B2" (D_y), "B3" (grad f), "B4" (Jacobian) and "B1t"
        (inner Hessians); they override `batch_size`.
    sampler : {"epoch"}
        How batches are drawn, see `nbo.sampling.SAMPLERS`; SAGA's memory has a row for each block of an epoch.
    eval_every : int, optional
        Iterations between two evaluations of f; a twentieth of `max_iter` by default.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    share_batches : bool
        Whether one lower batch ("B2") serves D_y, H u and J u; False by default.
    n_inner : int
        T; 1 as in the paper's experiments, which is two inner steps.
    initialization : {"full", "zero"}
        How the memory starts: with the estimates of all blocks at the first point (an epoch of every
        oracle, counted), or with zeros, with which the first epoch overshoots.
    momentum : float or callable
        Weight beta of the old direction in h <- beta h + (1 - beta) D_x, from 0 to 1, or a schedule; 0.9
        (the paper's for IJCNN1; it takes 0.8 for Covtype and 0.99 for MNIST).
    """

    name: ClassVar[str] = "ma-nsbo-saga"
    description: ClassVar[str] = "NSBO-SAGA with a moving average of D_x (paper, Section 4.4)"
    cost: ClassVar[str] = "1 upper_grad, 1 lower_grad_y, 2*T+1 lower_hvp, 1 lower_jvp"
    cost_note: ClassVar[str] = "and an epoch of all at the start"
    storage: ClassVar[str] = "3n + 2m numbers a block of samples"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NSBOSTORM(_Storm, _InnerSteps):
    """NSBO-STORM(T): stochastic Newton directions from STORM estimates.

    The Newton directions of `StochasticNewton` with D <- D_b(new) + (1 - eta) (D - D_b(old)) for all five parts, one
    batch b at two points. Costs 2 lower_grad_y, 2 upper_grad, 2 lower_jvp and 2T + 2 lower_hvp an iteration, on
    minibatches.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha such as `nbo.schedules.PowerDecay`.
    inner_step_size : float or callable, optional
        gamma; left out, 1/((T + 2) L) with L the largest curvature of batches at the start (counted).
    batch_size : int or "full", optional
        The size of every batch; 64 by default, capped at the number of samples.
    batch_sizes : dict, optional
        Sizes of single batches, "B1" (Hessian in D_u), "B2" (D_y), "B3" (grad f), "B4" (Jacobian) and "B1t"
        (inner Hessians); they override `batch_size`.
    sampler : {"epoch", "window", "iid"}
        How batches are drawn, see `nbo.sampling.SAMPLERS`.
    eval_every : int, optional
        Iterations between two evaluations of f; a twentieth of `max_iter` by default.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    share_batches : bool
        Whether one lower batch ("B2") serves D_y, H u and J u; False by default.
    n_inner : int
        T; 1 as in the paper's experiments, which is two inner steps.
    momentum : float or callable
        Weight 1 - eta of the old estimate, from 0 (plain SGD) to 1, or a schedule; 0.9 (benchmark-derived).
    """

    name: ClassVar[str] = "nsbo-storm"
    description: ClassVar[str] = "stochastic Newton directions, STORM estimates (paper, Remark 2.2)"
    cost: ClassVar[str] = "2 upper_grad, 2 lower_grad_y, 2*T+2 lower_hvp, 2 lower_jvp"
    cost_note: ClassVar[str] = "as nsbo-sgd in the first"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NSBOPAGE(_Page, _InnerSteps):
    """NSBO-PAGE(T): stochastic Newton directions from PAGE estimates.

    The Newton directions of `StochasticNewton` with directions over all samples with some probability (the first time
    always), else D <- D + D_b(new) - D_b(old) for all five parts. Costs 2 lower_grad_y, 2 upper_grad, 2 lower_jvp and
    2T + 2 lower_hvp an iteration on minibatches, or 1, 1, 1 and 1 over all samples and 2T lower_hvp on minibatches.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha such as `nbo.schedules.PowerDecay`.
    inner_step_size : float or callable, optional
        gamma; left out, 1/((T + 2) L) with L the largest curvature of batches at the start (counted).
    batch_size : int or "full", optional
        The size of every batch; 64 by default, capped at the number of samples.
    batch_sizes : dict, optional
        Sizes of single batches, "B1" (Hessian in D_u), "B2" (D_y), "B3" (grad f), "B4" (Jacobian) and "B1t"
        (inner Hessians); they override `batch_size`.
    sampler : {"epoch", "window", "iid"}
        How batches are drawn, see `nbo.sampling.SAMPLERS`.
    eval_every : int, optional
        Iterations between two evaluations of f; a twentieth of `max_iter` by default.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    share_batches : bool
        Whether one lower batch ("B2") serves D_y, H u and J u; False by default.
    n_inner : int
        T; 1 as in the paper's experiments, which is two inner steps.
    probability : float, optional
        Of directions over all samples; |B2| / (n + |B2|) by default, as in PAGE's paper.
    """

    name: ClassVar[str] = "nsbo-page"
    description: ClassVar[str] = "stochastic Newton directions, PAGE estimates (paper, Remark 2.2)"
    cost: ClassVar[str] = "2 upper_grad, 2 lower_grad_y, 2*T+2 lower_hvp, 2 lower_jvp"
    cost_note: ClassVar[str] = "in some iterations 1 of each over all samples instead"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SOBA(_Sgd):
    """SOBA (Dagreou, Ablin, Vaiter and Moreau, 2022): NSBO with T = 0 and plain minibatches.

    Jacobi order, everything at the old point: y <- y - rho D_y, u <- u - rho D_u, x <- project(x - alpha D_x), with
    u = +H^{-1} grad_2 f, which is minus the v of that paper (errata C1).
    Costs 1 lower_grad_y, 1 upper_grad, 1 lower_jvp and 1 lower_hvp an iteration, on minibatches.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha such as `nbo.schedules.PowerDecay`; the paper's decays are exponents
        3/5 for alpha
        and 2/5 for rho, the public benchmark's 1/2 for both.
    inner_step_size : float or callable, optional
        rho; left out, 1/(2 L) with L the largest curvature of batches at the start (counted).
    batch_size : int or "full", optional
        The size of every batch; 64 by default, capped at the number of samples.
    batch_sizes : dict, optional
        Sizes of single batches, "B2" (lower) and "B3" (upper); with `share_batches=False` also "B1"
        (Hessian) and "B4" (Jacobian); they override `batch_size`.
    sampler : {"epoch", "window", "iid"}
        How batches are drawn, see `nbo.sampling.SAMPLERS`.
    eval_every : int, optional
        Iterations between two evaluations of f; a twentieth of `max_iter` by default.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    share_batches : bool
        Whether one lower batch ("B2") serves D_y, H u and J u; True by default.
    """

    name: ClassVar[str] = "soba"
    description: ClassVar[str] = "single loop, plain minibatches (Dagreou et al., 2022); NSBO-SGD with T = 0"
    source: ClassVar[str] = SOBA_PAPER
    cost: ClassVar[str] = "1 upper_grad, 1 lower_grad_y, 1 lower_hvp, 1 lower_jvp"
    share_batches: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class SABA(_Saga):
    """SABA (Dagreou, Ablin, Vaiter and Moreau, 2022): NSBO with T = 0 and SAGA estimates, constant steps.

    Jacobi order, everything at the old point: y <- y - rho D_y, u <- u - rho D_u, x <- project(x - alpha D_x), with
    u = +H^{-1} grad_2 f, from SAGA estimates of the five parts. Memory: 3n + 2m numbers a block.
    Costs 1 lower_grad_y, 1 upper_grad, 1 lower_jvp and 1 lower_hvp an iteration, on minibatches.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha such as `nbo.schedules.PowerDecay`.
    inner_step_size : float or callable, optional
        rho; left out, 1/(2 L) with L the largest curvature of batches at the start (counted).
    batch_size : int or "full", optional
        The size of every batch; 64 by default, capped at the number of samples.
    batch_sizes : dict, optional
        Sizes of single batches, "B2" (lower) and "B3" (upper); with `share_batches=False` also "B1"
        (Hessian) and "B4" (Jacobian); they override `batch_size`.
    sampler : {"epoch"}
        How batches are drawn, see `nbo.sampling.SAMPLERS`; SAGA's memory has a row for each block of an epoch.
    eval_every : int, optional
        Iterations between two evaluations of f; a twentieth of `max_iter` by default.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    share_batches : bool
        Whether one lower batch ("B2") serves D_y, H u and J u; True by default.
    initialization : {"full", "zero"}
        How the memory starts: with the estimates of all blocks at the first point (an epoch of every
        oracle, counted), or with zeros, with which the first epoch overshoots.
    """

    name: ClassVar[str] = "saba"
    description: ClassVar[str] = "single loop, SAGA estimates (Dagreou et al., 2022); NSBO-SAGA with T = 0"
    source: ClassVar[str] = SOBA_PAPER
    cost: ClassVar[str] = "1 upper_grad, 1 lower_grad_y, 1 lower_hvp, 1 lower_jvp"
    cost_note: ClassVar[str] = "and an epoch of all at the start"
    storage: ClassVar[str] = "3n + 2m numbers a block of samples"
    share_batches: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class MASABA(_Averaged, _Saga):
    """MA-SABA (Chu et al., 2024): SABA whose x moves along a moving average of D_x.

    h <- beta h + (1 - beta) D_x, from the first D_x on, and x <- project(x - alpha h). All else as in `SABA`.
    Costs 1 lower_grad_y, 1 upper_grad, 1 lower_jvp and 1 lower_hvp an iteration, on minibatches.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha such as `nbo.schedules.PowerDecay`.
    inner_step_size : float or callable, optional
        rho; left out, 1/(2 L) with L the largest curvature of batches at the start (counted).
    batch_size : int or "full", optional
        The size of every batch; 64 by default, capped at the number of samples.
    batch_sizes : dict, optional
        Sizes of single batches, "B2" (lower) and "B3" (upper); with `share_batches=False` also "B1"
        (Hessian) and "B4" (Jacobian); they override `batch_size`.
    sampler : {"epoch"}
        How batches are drawn, see `nbo.sampling.SAMPLERS`; SAGA's memory has a row for each block of an epoch.
    eval_every : int, optional
        Iterations between two evaluations of f; a twentieth of `max_iter` by default.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    share_batches : bool
        Whether one lower batch ("B2") serves D_y, H u and J u; True by default.
    initialization : {"full", "zero"}
        How the memory starts: with the estimates of all blocks at the first point (an epoch of every
        oracle, counted), or with zeros, with which the first epoch overshoots.
    momentum : float or callable
        Weight beta of the old direction in h <- beta h + (1 - beta) D_x, from 0 to 1, or a schedule; 0.9
        (the paper's for IJCNN1; it takes 0.8 for Covtype and 0.99 for MNIST).
    """

    name: ClassVar[str] = "ma-saba"
    description: ClassVar[str] = "SABA with a moving average of D_x (Chu et al., 2024)"
    source: ClassVar[str] = SPABA_PAPER
    cost: ClassVar[str] = "1 upper_grad, 1 lower_grad_y, 1 lower_hvp, 1 lower_jvp"
    cost_note: ClassVar[str] = "and an epoch of all at the start"
    storage: ClassVar[str] = "3n + 2m numbers a block of samples"
    share_batches: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class SPABA(_Page):
    """SPABA (Chu et al., 2024): NSBO with T = 0 and PAGE estimates.

    Jacobi order, everything at the old point: y <- y - rho D_y, u <- u - rho D_u, x <- project(x - alpha D_x), with
    u = +H^{-1} grad_2 f, from PAGE estimates: directions over all samples with some
    probability (the first time always), else D <- D + D_b(new) - D_b(old). Costs 2 lower_grad_y, 2 upper_grad,
    2 lower_jvp and 2 lower_hvp an iteration on minibatches, or 1 of each over all samples.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha such as `nbo.schedules.PowerDecay`.
    inner_step_size : float or callable, optional
        rho; left out, 1/(2 L) with L the largest curvature of batches at the start (counted).
    batch_size : int or "full", optional
        The size of every batch; 64 by default, capped at the number of samples.
    batch_sizes : dict, optional
        Sizes of single batches, "B2" (lower) and "B3" (upper); with `share_batches=False` also "B1"
        (Hessian) and "B4" (Jacobian); they override `batch_size`.
    sampler : {"epoch", "window", "iid"}
        How batches are drawn, see `nbo.sampling.SAMPLERS`.
    eval_every : int, optional
        Iterations between two evaluations of f; a twentieth of `max_iter` by default.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    share_batches : bool
        Whether one lower batch ("B2") serves D_y, H u and J u; True by default.
    probability : float, optional
        Of directions over all samples; |B2| / (n + |B2|) by default, as in PAGE's paper.
    """

    name: ClassVar[str] = "spaba"
    description: ClassVar[str] = "single loop, PAGE estimates (Chu et al., 2024)"
    source: ClassVar[str] = SPABA_PAPER
    cost: ClassVar[str] = "2 upper_grad, 2 lower_grad_y, 2 lower_hvp, 2 lower_jvp"
    cost_note: ClassVar[str] = "in some iterations 1 of each over all samples instead"
    share_batches: bool = True

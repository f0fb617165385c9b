"""Double loops on minibatches: several steps on y, then u estimated at the new y, then a step on x (Gauss-Seidel)."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nbo._dual import borrowed, dual
from nbo._updates import add_scaled, copy
from nbo._validation import integer
from nbo.adjoint_estimators import (
    AdjointEstimator,
    HypergradientMemory,
    WarmSteps,
    hypergradient_at,
    hypergradient_memory,
    most_products,
)
from nbo.coordinates import Room, move_along
from nbo.gradient_estimators import Point
from nbo.minibatches import Data, Oracles, lower_grad_y
from nbo.oracles import OracleCounts
from nbo.problem import BilevelProblem
from nbo.sampling import B2, Stream, draw
from nbo.schedules import LoopValues, value
from nbo.solvers.double_loop import AMIGO_PAPER
from nbo.solvers.neumann import NeumannSolver
from nbo.solvers.stochastic import MOST_STEPS, StochasticSolver


class DoubleLoopSettings(NamedTuple):
    """What `double_loop` is told.

    Attributes
    ----------
    n_lower_steps : int
        Q.
    n_linear_steps : int
        N.
    """

    n_lower_steps: int
    n_linear_steps: int


@dual
def double_loop(
    o: Oracles,
    memory: HypergradientMemory,
    point: Point,
    feasible: Any,
    values: LoopValues,
    settings: DoubleLoopSettings,
    k0: int,
    k1: int,
) -> None:
    """Do iterations k0 .. k1 - 1: steps on y, then u at the new y, then x at both, a fresh batch each.

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    memory : HypergradientMemory
        Room for estimates; the class of its estimator decides how u is estimated.
    point : Point
        The iterate, and where the directions go.
    feasible : FeasibleSet or pair of ndarray
        The feasible set of x; compiled, its bounds.
    values : LoopValues
        Step sizes; the weight is not used.
    settings : DoubleLoopSettings
        The numbers of steps.
    k0 : int
        The first iteration.
    k1 : int
        The iteration to stop before.
    """
    o, memory, point, feasible = borrowed(o), borrowed(memory), borrowed(point), borrowed(feasible)
    x, y, u, d = point.x, point.y, point.u, point.d
    n_lower_steps, n_linear_steps = settings.n_lower_steps, settings.n_linear_steps
    for k in range(k0, k1):
        rho = value(values.inner, k, k0)
        for q in range(n_lower_steps):
            lower_grad_y(o, draw(o.streams, B2, k * n_lower_steps + q), x, y, d[0])
            add_scaled(y, -rho, d[0])
        hypergradient_at(memory, o, k, x, y, u, d[1], value(values.linear, k, k0), n_linear_steps, point.d_x)
        if k == k1 - 1:
            copy(point.x_left, x)
        move_along(o.coordinates, x, value(values.upper, k, k0), point.d_x, feasible)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StochasticDoubleLoop(StochasticSolver):
    """Q steps on y, an estimate of u at the new y from N products, then a step on x, all on minibatches.

    y: Q steps y <- y - rho grad_2 g_b, a fresh batch each. u: its `estimator`, on fresh Hessian batches, with grad_2 f
    of one batch b'. x <- project(x - alpha (grad_1 f_b' - J_b'' u)).

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha.
    inner_step_size : float or callable, optional
        rho; left out, 1/(2 L) with L the largest curvature of batches at the start (counted).
    batch_size : int or "full", optional
        The size of every batch; 64 by default.
    batch_sizes : dict, optional
        Sizes of single batches, "B1" (Hessian), "B2" (grad_2 g), "B3" (grad f) and "B4" (Jacobian).
    sampler : {"epoch", "window", "iid"}
        How batches are drawn.
    eval_every : int, optional
        Iterations between two evaluations of f.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    """

    @abc.abstractmethod
    def estimator(self) -> type[AdjointEstimator]:
        """Return how u is estimated.

        Returns
        -------
        type
            A class of `nbo.adjoint_estimators`.
        """

    @abc.abstractmethod
    def numbers(self) -> tuple[int, int]:
        """Return the numbers of steps.

        Returns
        -------
        tuple of int
            Q and N.
        """

    def loop(self) -> Callable[..., None]:
        """Return `double_loop`; see `StochasticSolver.loop`."""
        return double_loop

    def settings(self) -> DoubleLoopSettings:
        """Return Q and N; see `StochasticSolver.settings`."""
        return DoubleLoopSettings(*self.numbers())

    def memory(
        self, problem: BilevelProblem, room: Room, streams: list[Stream], stored: Data, dtype: np.dtype[Any]
    ) -> HypergradientMemory:
        """Return room for minibatch estimates; see `StochasticSolver.memory`."""
        return hypergradient_memory(self.estimator(), room, problem.dim_y, dtype)

    def touches_batches_only(self) -> bool:
        """Return True: x moves along the estimate of one batch; see `StochasticSolver.touches_batches_only`."""
        return True

    def draws(self) -> Mapping[str, int]:
        """Return one batch for each product, each step on y, grad f and J u; see `StochasticSolver.draws`."""
        lower, linear = self.numbers()
        return {"B1": most_products(self.estimator(), linear), "B2": lower, "B3": 1, "B4": 1}

    def cost_per_iteration(self, dim_y: int) -> OracleCounts:
        """Return Q lower_grad_y, the most lower_hvp, 1 upper_grad, 1 lower_jvp.

        Parameters
        ----------
        dim_y : int
            n.

        Returns
        -------
        OracleCounts
            On minibatches.
        """
        lower, linear = self.numbers()
        products = most_products(self.estimator(), linear)
        return OracleCounts(upper_grad=1, lower_grad_y=lower, lower_hvp=products, lower_jvp=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NeumannDoubleLoop(NeumannSolver, StochasticDoubleLoop):
    """A double loop whose u is a truncated Neumann series, with a step eta of its own and no memory of the last u.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha.
    inner_step_size : float or callable, optional
        rho; left out, 1/(2 L) with L the largest curvature of batches at the start (counted).
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
    linear_step_size : float or callable, optional
        eta of the series; left out, the first rho, since a decaying one would shorten the sum.
    n_linear_steps : int
        N.
    n_lower_steps : int
        Q.
    """

    n_lower_steps: int = 10

    def __post_init__(self) -> None:
        integer("n_lower_steps", self.n_lower_steps, minimum=1, maximum=MOST_STEPS)
        super().__post_init__()

    def numbers(self) -> tuple[int, int]:
        """Return Q and the N of the estimator; see `StochasticDoubleLoop.numbers`."""
        return self.n_lower_steps, self.steps()


@dataclasses.dataclass(frozen=True, kw_only=True)
class AmIGOSGD(StochasticDoubleLoop):
    """AmIGO on minibatches (Arbel and Mairal, 2022): Q steps on y, N on u, both warm-started, then one on x.

    y: Q steps y <- y - rho grad_2 g_b, a fresh batch each. u, at the new y: N steps u <- u - rho (H_b u - grad_2 f_b'),
    a fresh Hessian batch b each, b' drawn once. x <- project(x - alpha (grad_1 f_b' - J_b'' u)). Costs Q lower_grad_y,
    N lower_hvp, 1 upper_grad and 1 lower_jvp an iteration, on minibatches.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha; constant in that paper.
    inner_step_size : float or callable, optional
        rho, for y and u; left out, 1/(2 L) with L the largest curvature of batches at the start (counted).
    batch_size : int or "full", optional
        The size of every batch; 64 by default, capped at the number of samples.
    batch_sizes : dict, optional
        Sizes of single batches, "B1" (Hessian), "B2" (grad_2 g), "B3" (grad f) and "B4" (Jacobian); they override
        `batch_size`.
    sampler : {"epoch", "window", "iid"}
        How batches are drawn, see `nbo.sampling.SAMPLERS`.
    eval_every : int, optional
        Iterations between two evaluations of f; a twentieth of `max_iter` by default.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    n_lower_steps : int
        Q; 10 (paper of NBO, appendix C.2).
    n_linear_steps : int, optional
        N; Q when left out.
    """

    name: ClassVar[str] = "amigo-sgd"
    description: ClassVar[str] = "double loop, warm-started steps on minibatches (Arbel and Mairal, 2022)"
    source: ClassVar[str] = AMIGO_PAPER
    cost: ClassVar[str] = "1 upper_grad, Q lower_grad_y, N lower_hvp, 1 lower_jvp"
    implied: ClassVar[Mapping[str, int | str]] = {"n_linear_steps": "n_lower_steps"}

    n_lower_steps: int = 10
    n_linear_steps: int | None = None

    def __post_init__(self) -> None:
        integer("n_lower_steps", self.n_lower_steps, minimum=1, maximum=MOST_STEPS)
        if self.n_linear_steps is not None:
            integer("n_linear_steps", self.n_linear_steps, minimum=1, maximum=MOST_STEPS)
        super().__post_init__()

    def estimator(self) -> type[AdjointEstimator]:
        """Return warm-started steps; see `StochasticDoubleLoop.estimator`."""
        return WarmSteps

    def numbers(self) -> tuple[int, int]:
        """Return Q and N; see `StochasticDoubleLoop.numbers`."""
        return self.n_lower_steps, self.n_linear_steps or self.n_lower_steps

"""VRBO: SPIDER recursions within a double loop, renewed over all samples (Yang, Ji and Liang, 2021)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nbo._dual import borrowed, dual
from nbo._updates import add_scaled, copy, move
from nbo._validation import integer
from nbo.adjoint_estimators import AdjointEstimator, NeumannSum
from nbo.coordinates import Room
from nbo.gradient_estimators import Point
from nbo.minibatches import Data, Oracles
from nbo.problem import BilevelProblem
from nbo.sampling import B2, EPOCH, Stream, Streams, make_streams
from nbo.schedules import LoopValues, value
from nbo.solvers.stochastic import LONGEST_PERIOD, MOST_STEPS
from nbo.solvers.stochastic_recursion import RecursiveSolver, TwoPoints, correct_directions, two_hypergradients


class VRBOSettings(NamedTuple):
    """What `vrbo_loop` is told.

    Attributes
    ----------
    n_lower_steps : int
        Q.
    n_linear_steps : int
        N.
    """

    n_lower_steps: int
    n_linear_steps: int


class VRBOMemory(NamedTuple):
    """The memory of `vrbo_loop`.

    Attributes
    ----------
    points : TwoPoints
        The old point, and rooms.
    stored : Data
        All samples.
    everything : Streams
        Whose batches are all samples.
    period : int
        Iterations between two directions over all samples.
    """

    points: TwoPoints
    stored: Data
    everything: Streams
    period: int


@dual
def vrbo_loop(
    o: Oracles,
    memory: VRBOMemory,
    point: Point,
    feasible: Any,
    values: LoopValues,
    settings: VRBOSettings,
    k0: int,
    k1: int,
) -> None:
    """Do iterations k0 .. k1 - 1: a step on x, then Q on y, the directions corrected after each.

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    memory : VRBOMemory
        The old point, and rooms.
    point : Point
        The iterate, and the directions.
    feasible : FeasibleSet or pair of ndarray
        The feasible set of x; compiled, its bounds.
    values : LoopValues
        Step sizes.
    settings : VRBOSettings
        The rest.
    k0 : int
        The first iteration.
    k1 : int
        The iteration to stop before.
    """
    o, memory, point, feasible = borrowed(o), borrowed(memory), borrowed(point), borrowed(feasible)
    all_samples = Oracles(o.kernels, memory.stored, memory.everything, o.counts, o.coordinates)
    points, Q, N = memory.points, settings.n_lower_steps, settings.n_linear_steps
    for k in range(k0, k1):
        rho, eta, first = value(values.inner, k, k0), value(values.linear, k, k0), k * (Q + 1)
        if k % memory.period == 0:
            correct_directions(points, all_samples, point, k, 0.0, eta, N)
        move(point.x, value(values.upper, k, k0), point.d_x, feasible)
        correct_directions(points, o, point, first, 1.0, eta, N)
        for q in range(Q):
            add_scaled(point.y, -rho, point.d[0])
            correct_directions(points, o, point, first + 1 + q, 1.0, eta, N)
        if k == k1 - 1:
            copy(point.x_left, point.x)


@dataclasses.dataclass(frozen=True, kw_only=True)
class VRBO(RecursiveSolver):
    """VRBO (Yang, Ji and Liang, 2021): a step on x, then Q on y, along SPIDER estimates, u by a Neumann sum.

    With D_b(x, y) = (grad_2 g_b, grad_1 f_b - J_b u_b) and u_b the sum of `nbo.StocBiO`: every p iterations D is that
    of all samples at (x, y). Then x <- project(x - alpha D_x), after which

        D <- D + D_b(x, y) - D_b(x_old, y_old)

    from the point before, on fresh batches b, the same at both points; and Q times y <- y - rho D_y, each followed by
    such a correction. The one between the step on x and the first on y is part of it, so that D always belongs to the
    current (x, y). That the last step on y is followed by one, and the default of p, are unverified at the original
    source: `period` and `n_lower_steps` set them. Costs 2 (Q + 1) lower_grad_y, upper_grad and lower_jvp each and
    2 (Q + 1) N lower_hvp an iteration, on minibatches, and every p iterations 1 of the first three and N lower_hvp over
    all samples.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha; constant in that paper.
    inner_step_size : float or callable, optional
        rho, for y; left out, 1/(2 L) with L the largest curvature of batches at the start (counted).
    batch_size : int or "full", optional
        The size of every batch; 64 (paper of NBO, appendix C.2) by default, capped at the number of samples.
    batch_sizes : dict, optional
        Sizes of single batches, "B1" (Hessians of the series), "B2" (grad_2 g), "B3" (grad f) and "B4" (Jacobian);
        they override `batch_size`.
    sampler : {"epoch", "window", "iid"}
        How batches are drawn, see `nbo.sampling.SAMPLERS`.
    eval_every : int, optional
        Iterations between two evaluations of f; a twentieth of `max_iter` by default.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    linear_step_size : float or callable, optional
        eta; left out, the first rho (benchmark-derived: one step for both).
    n_linear_steps : int
        N; 10 (benchmark-derived).
    n_lower_steps : int
        Q; 3 (a practical value).
    period : int, optional
        p; by default as many iterations as draw an epoch of "B2" (a practical value).
    """

    name: ClassVar[str] = "vrbo"
    description: ClassVar[str] = "double loop, SPIDER estimates, Neumann sum (Yang, Ji and Liang, 2021)"
    source: ClassVar[str] = "Yang, Ji and Liang, 2021, Provably Faster Algorithms for Bilevel Optimization (NeurIPS)"
    cost: ClassVar[str] = "2*(Q+1) upper_grad, 2*(Q+1) lower_grad_y, 2*(Q+1)*N lower_hvp, 2*(Q+1) lower_jvp"
    cost_note: ClassVar[str] = (
        "and every period iterations those of one hypergradient and 1 lower_grad_y over all samples"
    )

    n_lower_steps: int = 3
    period: int | None = None

    def __post_init__(self) -> None:
        integer("n_lower_steps", self.n_lower_steps, minimum=1, maximum=MOST_STEPS)
        if self.period is not None:
            integer("period", self.period, minimum=1, maximum=LONGEST_PERIOD)
        super().__post_init__()

    def estimator(self) -> type[AdjointEstimator]:
        """Return the sum; see `NeumannSolver.estimator`."""
        return NeumannSum

    def corrections(self) -> int:
        """Return Q + 1; see `RecursiveSolver.corrections`."""
        return self.n_lower_steps + 1

    def loop(self) -> Callable[..., None]:
        """Return `vrbo_loop`; see `StochasticSolver.loop`."""
        return vrbo_loop

    def settings(self) -> VRBOSettings:
        """Return Q and N; see `StochasticSolver.settings`."""
        return VRBOSettings(self.n_lower_steps, self.n_linear_steps)

    def memory(
        self, problem: BilevelProblem, room: Room, streams: list[Stream], stored: Data, dtype: np.dtype[Any]
    ) -> VRBOMemory:
        """Return the old point, rooms and all samples; see `StochasticSolver.memory`."""
        points = two_hypergradients(self.estimator(), problem, room, dtype)
        everything = make_streams(EPOCH, 0, [stream._replace(size=stream.n) for stream in streams], wraps=True)
        period = -(-streams[B2].blocks // self.corrections()) if self.period is None else self.period
        return VRBOMemory(points, stored, everything, period)

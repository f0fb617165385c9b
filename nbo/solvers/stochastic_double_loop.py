"""Double-loop baselines on minibatches: several steps on y, then on u at the new y, then one on x (Gauss-Seidel)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nbo._dual import borrowed, dual
from nbo._updates import add_scaled, copy, subtract
from nbo._validation import integer
from nbo.coordinates import Room, hypergradient_from, move_along
from nbo.gradient_estimators import Point
from nbo.minibatches import Components, Data, Oracles, empty_components, lower_grad_y, lower_hvp, lower_jvp, upper_grad
from nbo.oracles import OracleCounts
from nbo.problem import BilevelProblem
from nbo.sampling import B1, B2, B3, B4, Stream, draw
from nbo.schedules import LoopValues, value
from nbo.solvers.stochastic import StochasticSolver


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
    memory: Components,
    point: Point,
    feasible: Any,
    values: LoopValues,
    settings: DoubleLoopSettings,
    k0: int,
    k1: int,
) -> None:
    """Do iterations k0 .. k1 - 1: steps on y, then on u at the new y, then on x at both, a fresh batch each.

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    memory : Components
        Room for estimates.
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
    x, y, u, d, parts = point.x, point.y, point.u, point.d, memory
    n_lower_steps, n_linear_steps = settings.n_lower_steps, settings.n_linear_steps
    U = u.reshape((1, u.shape[0]))
    for k in range(k0, k1):
        rho = value(values.inner, k, k0)
        for q in range(n_lower_steps):
            lower_grad_y(o, draw(o.streams, B2, k * n_lower_steps + q), x, y, d[0])
            add_scaled(y, -rho, d[0])
        upper_grad(o, draw(o.streams, B3, k), x, y, parts.upper_x, parts.upper_y)
        for q in range(n_linear_steps):
            lower_hvp(o, draw(o.streams, B1, k * n_linear_steps + q), x, y, U, parts.lower[1:])
            subtract(d[1], parts.lower[1], parts.upper_y)
            add_scaled(u, -rho, d[1])
        lower_jvp(o, draw(o.streams, B4, k), x, y, u, parts.jvp)
        hypergradient_from(point.d_x, parts.upper_x, parts.jvp)
        if k == k1 - 1:
            copy(point.x_left, x)
        move_along(o.coordinates, x, value(values.upper, k, k0), point.d_x, feasible)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AmIGOSGD(StochasticSolver):
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

    n_lower_steps: int = 10
    n_linear_steps: int | None = None

    def __post_init__(self) -> None:
        integer("n_lower_steps", self.n_lower_steps, minimum=1)
        if self.n_linear_steps is not None:
            integer("n_linear_steps", self.n_linear_steps, minimum=1)
        super().__post_init__()

    def kernels(self, fused: bool) -> tuple[str, ...]:
        """Leave out the fused ones; see `StochasticSolver.kernels`."""
        return ("lower_grad_y", "lower_hvp", "lower_jvp", "upper_grad")

    def loop(self) -> Callable[..., None]:
        """Return `double_loop`; see `StochasticSolver.loop`."""
        return double_loop

    def settings(self) -> DoubleLoopSettings:
        """Return Q and N; see `StochasticSolver.settings`."""
        return DoubleLoopSettings(self.n_lower_steps, self.n_linear_steps or self.n_lower_steps)

    def memory(
        self, problem: BilevelProblem, room: Room, streams: list[Stream], stored: Data, dtype: np.dtype[Any]
    ) -> Components:
        """Return room for minibatch estimates; see `StochasticSolver.memory`."""
        return empty_components(room, problem.dim_y, dtype)

    def touches_batches_only(self) -> bool:
        """Return True: x moves along the estimate of one batch; see `StochasticSolver.touches_batches_only`."""
        return True

    def draws(self) -> Mapping[str, int]:
        """Return N, Q, 1 and 1; see `StochasticSolver.draws`."""
        lower, linear = self.settings()
        return {"B1": linear, "B2": lower, "B3": 1, "B4": 1}

    def cost_per_iteration(self, dim_y: int) -> OracleCounts:
        """Return Q lower_grad_y, N lower_hvp, 1 upper_grad, 1 lower_jvp; see `StochasticSolver.cost_per_iteration`."""
        lower, linear = self.settings()
        return OracleCounts(upper_grad=1, lower_grad_y=lower, lower_hvp=linear, lower_jvp=1)

"""F2SA: a fully first-order method by a penalty on the lower level (Kwon, Kwon, Wright and Nowak, 2023)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._dual import borrowed, dual
from nbo._updates import add_scaled, copy, scale, subtract
from nbo._validation import flag, integer, real
from nbo.coordinates import Room, hypergradient_from, move_along
from nbo.gradient_estimators import Point
from nbo.minibatches import Data, Oracles, lower_grad_x, lower_grad_y, upper_grad
from nbo.oracles import OracleCounts
from nbo.problem import BilevelProblem
from nbo.sampling import B1, B2, B3, B4, Stream, draw
from nbo.schedules import LoopValues, value
from nbo.solvers.stochastic import MOST_STEPS, StochasticSolver

Array = npt.NDArray[Any]


class PenaltySettings(NamedTuple):
    """What `penalty_loop` is told.

    Attributes
    ----------
    n_lower_steps : int
        Q.
    multiplier, increment : float
        lam in the first iteration, and by how much it grows in each.
    z_batches : int
        The role of the batches of the second sequence.
    """

    n_lower_steps: int
    multiplier: float
    increment: float
    z_batches: int


class PenaltyMemory(NamedTuple):
    """The rooms of `penalty_loop`.

    Attributes
    ----------
    upper_x, upper_y : ndarray
        Both parts of grad f, (m,) or empty, and (n,).
    at_y, at_z : ndarray
        grad_1 g at both lower points, (m,) or as `Coordinates` say.
    """

    upper_x: Array
    upper_y: Array
    at_y: Array
    at_z: Array


@dual
def penalty_loop(
    o: Oracles,
    memory: PenaltyMemory,
    point: Point,
    feasible: Any,
    values: LoopValues,
    settings: PenaltySettings,
    k0: int,
    k1: int,
) -> None:
    """Do iterations k0 .. k1 - 1: steps on both lower sequences, then one on x.

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    memory : PenaltyMemory
        Rooms.
    point : Point
        The iterate, with z in the place of u, and where the directions go.
    feasible : FeasibleSet or pair of ndarray
        The feasible set of x; compiled, its bounds.
    values : LoopValues
        Step sizes.
    settings : PenaltySettings
        The rest.
    k0 : int
        The first iteration.
    k1 : int
        The iteration to stop before.
    """
    o, memory, point, feasible = borrowed(o), borrowed(memory), borrowed(point), borrowed(feasible)
    x, y, z, d, Q = point.x, point.y, point.u, point.d, settings.n_lower_steps
    for k in range(k0, k1):
        rho, lam = value(values.inner, k, k0), settings.multiplier + k * settings.increment
        for q in range(Q):
            lower_grad_y(o, draw(o.streams, B2, k * Q + q), x, y, d[1])
            lower_grad_y(o, draw(o.streams, settings.z_batches, k * Q + q), x, z, d[0])
            upper_grad(o, draw(o.streams, B3, k * (Q + 1) + q), x, y, memory.upper_x, memory.upper_y)
            add_scaled(d[1], 1.0 / lam, memory.upper_y)
            add_scaled(y, -rho, d[1])
            add_scaled(z, -rho, d[0])
        scale(d[1], lam, d[1])
        upper_grad(o, draw(o.streams, B3, k * (Q + 1) + Q), x, y, memory.upper_x, memory.upper_y)
        batch = draw(o.streams, B4, k)
        lower_grad_x(o, batch, x, y, memory.at_y)
        lower_grad_x(o, batch, x, z, memory.at_z)
        subtract(memory.at_z, memory.at_z, memory.at_y)
        scale(memory.at_z, lam, memory.at_z)
        hypergradient_from(point.d_x, memory.upper_x, memory.at_z)
        if k == k1 - 1:
            copy(point.x_left, x)
        move_along(o.coordinates, x, value(values.upper, k, k0), point.d_x, feasible)


@dataclasses.dataclass(frozen=True, kw_only=True)
class F2SA(StochasticSolver):
    """F2SA (Kwon, Kwon, Wright and Nowak, 2023): two lower sequences, y with the upper level and z without it.

    First-order: neither Hessian nor Jacobian products. With the multiplier lam_k = multiplier + k multiplier_increment,
    Q times

        y <- y - rho (grad_2 f_b(x, y)/lam + grad_2 g_b(x, y)),    z <- z - rho grad_2 g_b(x, z),

    then x <- project(x - alpha D_x) with

        D_x = grad_1 f_b(x, y) + lam (grad_1 g_b(x, y) - grad_1 g_b(x, z))

    at the newest y and z, one batch for both gradients of g. The direction of exact y and z differs from the
    hypergradient by O(1/lam). Costs 2 Q lower_grad_y, Q + 1 upper_grad and 2 lower_grad_x an iteration, on minibatches;
    with ``batch_size="full"`` it is the deterministic method.

    There is no u: in the result z stands in its place, and u0 is not used, since z always starts as y0. lam (z - y)
    tends to H^{-1} grad_2 f, where lam = multiplier + (nit - 1) multiplier_increment is that of the last iteration. The
    history's ``lower_grad_norm`` is |grad_2 g(x, z)|, its ``adjoint_residual`` |grad_2 f + lam grad_2 g(x, y)|.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha.
    inner_step_size : float or callable, optional
        rho, for y and z; left out, 1/(2 L) with L the largest curvature of batches of g, by
        differences of gradients (counted), 2 replaced by 2 + 1/multiplier for the part of f.
    batch_size : int or "full", optional
        The size of every batch; 64 (paper of NBO, appendix C.2) by default, capped at the number of samples.
    batch_sizes : dict, optional
        Sizes of single batches, "B2" (grad_2 g), "B3" (grad f), "B4" (grad_1 g) and, without `share_batches`,
        "B1" (grad_2 g at z); they override `batch_size`.
    sampler : {"epoch", "window", "iid"}
        How batches are drawn, see `nbo.sampling.SAMPLERS`.
    eval_every : int, optional
        Iterations between two evaluations of f; a twentieth of `max_iter` by default.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    n_lower_steps : int
        Q; 10 (paper of NBO, appendix C.2).
    multiplier : float
        lam in the first iteration; 1 (a practical value: schedules of it are unverified at the original source).
    multiplier_increment : float
        What is added to lam in each iteration; 0.1 (a practical value). With 0, x tends to a point off the solution.
    share_batches : bool
        Whether one batch serves grad_2 g of a step on y and on z, so that their noise cancels in D_x; True (a practical
        value, unverified at the original source).
    """

    name: ClassVar[str] = "f2sa"
    description: ClassVar[str] = "first-order penalty method, two lower sequences (Kwon et al., 2023)"
    source: ClassVar[str] = (
        "Kwon, Kwon, Wright and Nowak, 2023, A Fully First-Order Method for Stochastic Bilevel Optimization (ICML)"
    )
    cost: ClassVar[str] = "Q+1 upper_grad, 2*Q lower_grad_y, 2 lower_grad_x"
    storage: ClassVar[str] = ""
    needs: ClassVar[tuple[str, ...]] = ("lower_grad_x",)
    spares: ClassVar[tuple[str, ...]] = ("lower_hvp", "lower_jvp")
    starts_anew: ClassVar[bool] = False

    n_lower_steps: int = 10
    multiplier: float = 1.0
    multiplier_increment: float = 0.1
    share_batches: bool = True

    def __post_init__(self) -> None:
        integer("n_lower_steps", self.n_lower_steps, minimum=1, maximum=MOST_STEPS)
        real("multiplier", self.multiplier, positive=True)
        real("multiplier_increment", self.multiplier_increment, minimum=0.0)
        flag("share_batches", self.share_batches)
        super().__post_init__()

    def starting_u(self, y: Array, given: Array | None) -> Array:
        """Return y, the first z; see `Solver.starting_u`."""
        return y.copy()

    def margin(self, noisy: bool) -> float:
        """Leave room for the curvature of f/lam; see `StochasticSolver.margin`."""
        return super().margin(noisy) + 1 / self.multiplier

    def kernels(self, fused: bool) -> tuple[str, ...]:
        """Name the three gradients; see `StochasticSolver.kernels`."""
        return ("lower_grad_y", "lower_grad_x", "upper_grad")

    def loop(self) -> Callable[..., None]:
        """Return `penalty_loop`; see `StochasticSolver.loop`."""
        return penalty_loop

    def settings(self) -> PenaltySettings:
        """Return the options in numbers; see `StochasticSolver.settings`."""
        multiplier, increment = float(self.multiplier), float(self.multiplier_increment)
        return PenaltySettings(self.n_lower_steps, multiplier, increment, B2 if self.share_batches else B1)

    def memory(
        self, problem: BilevelProblem, room: Room, streams: list[Stream], stored: Data, dtype: np.dtype[Any]
    ) -> PenaltyMemory:
        """Return rooms; see `StochasticSolver.memory`."""
        return PenaltyMemory(
            np.zeros(room.upper), np.zeros(problem.dim_y, dtype), np.zeros(room.jvp), np.zeros(room.jvp)
        )

    def touches_batches_only(self) -> bool:
        """Return True: both gradients of g in D_x are of one batch; see `StochasticSolver.touches_batches_only`."""
        return True

    def draws(self) -> Mapping[str, int]:
        """Return Q, Q + 1 and 1; see `StochasticSolver.draws`."""
        Q = self.n_lower_steps
        return {"B1": 0 if self.share_batches else Q, "B2": Q, "B3": Q + 1, "B4": 1}

    def cost_per_iteration(self, dim_y: int) -> OracleCounts:
        """Return 2 Q lower_grad_y, Q + 1 upper_grad and 2 lower_grad_x.

        Parameters
        ----------
        dim_y : int
            n.

        Returns
        -------
        OracleCounts
            On minibatches.
        """
        Q = self.n_lower_steps
        return OracleCounts(upper_grad=Q + 1, lower_grad_y=2 * Q, lower_grad_x=2)

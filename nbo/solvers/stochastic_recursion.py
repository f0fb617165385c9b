"""Loops whose directions of y and x are corrected by differences between two points (STORM)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._dual import borrowed, dual
from nbo._updates import add_scaled, copy, correct, move
from nbo.adjoint_estimators import (
    HypergradientMemory,
    hypergradient_at,
    hypergradient_memory,
    most_products,
)
from nbo.coordinates import Room
from nbo.gradient_estimators import Point
from nbo.minibatches import Data, Oracles, lower_grad_y
from nbo.oracles import OracleCounts
from nbo.problem import BilevelProblem
from nbo.sampling import B2, Stream, draw
from nbo.schedules import LoopValues, PowerRise, Schedule, validate_weight, value
from nbo.solvers.neumann import NeumannSolver

Array = npt.NDArray[Any]

#: The rate of the theory, with a constant of one.
RISE = PowerRise(1.0, 2 / 3)


class TwoPoints(NamedTuple):
    """Rooms for directions at two points.

    Attributes
    ----------
    hypergradient : HypergradientMemory
        Of one hypergradient at a time.
    new_y, old_y : ndarray
        grad_2 g at both points, (n,).
    new_x, old_x : ndarray
        Hypergradients at both points, (m,).
    x, y : ndarray
        The old point, (m,) and (n,).
    u, residual : ndarray
        What belongs to the hypergradient there, (n,) each.
    """

    hypergradient: HypergradientMemory
    new_y: Array
    old_y: Array
    new_x: Array
    old_x: Array
    x: Array
    y: Array
    u: Array
    residual: Array


def two_hypergradients(kind: type[Any], problem: BilevelProblem, room: Room, dtype: np.dtype[Any]) -> TwoPoints:
    """Return rooms.

    Parameters
    ----------
    kind : type
        The estimator of u.
    problem : BilevelProblem
        For the dimensions.
    room : Room
        The sizes of arrays in the space of x.
    dtype : dtype
        Of y.

    Returns
    -------
    TwoPoints
        Zeros.
    """
    new_y, old_y, y, u, residual = np.zeros((5, problem.dim_y), dtype)
    new_x, old_x, x = np.zeros((3, problem.dim_x))
    hypergradient = hypergradient_memory(kind, room, problem.dim_y, dtype)
    return TwoPoints(hypergradient, new_y, old_y, new_x, old_x, x, y, u, residual)


@dual
def correct_directions(memory: TwoPoints, o: Oracles, point: Point, c: int, past: float, eta: float, n: int) -> None:
    """Do D <- D_b(new) + past (D - D_b(old)) for D_y and D_x on one set of batches, and keep the point as the old one.

    Parameters
    ----------
    memory : TwoPoints
        The old point, and rooms.
    o : Oracles
        What reaches the problem.
    point : Point
        The new point, and the directions.
    c : int
        The number of the batches.
    past : float
        The weight of the past; at 0 the old point is not looked at.
    eta : float
        The step of the estimator of u.
    n : int
        Its N.
    """
    h = memory.hypergradient
    batch = draw(o.streams, B2, c)
    lower_grad_y(o, batch, point.x, point.y, memory.new_y)
    hypergradient_at(h, o, c, point.x, point.y, point.u, point.d[1], eta, n, memory.new_x)
    if past > 0.0:
        lower_grad_y(o, batch, memory.x, memory.y, memory.old_y)
        hypergradient_at(h, o, c, memory.x, memory.y, memory.u, memory.residual, eta, n, memory.old_x)
    correct(point.d[0], past, memory.new_y, memory.old_y)
    correct(point.d_x, past, memory.new_x, memory.old_x)
    copy(memory.x, point.x)
    copy(memory.y, point.y)


class MomentumSettings(NamedTuple):
    """What `momentum_loop` is told.

    Attributes
    ----------
    n_linear_steps : int
        N.
    """

    n_linear_steps: int


@dual
def momentum_loop(
    o: Oracles,
    memory: TwoPoints,
    point: Point,
    feasible: Any,
    values: LoopValues,
    settings: MomentumSettings,
    k0: int,
    k1: int,
) -> None:
    """Do iterations k0 .. k1 - 1: STORM directions of y and x at the old point, then both steps.

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    memory : TwoPoints
        The old point, and rooms.
    point : Point
        The iterate, and the directions.
    feasible : FeasibleSet or pair of ndarray
        The feasible set of x; compiled, its bounds.
    values : LoopValues
        Step sizes, and the weight of the past.
    settings : MomentumSettings
        The rest.
    k0 : int
        The first iteration.
    k1 : int
        The iteration to stop before.
    """
    o, memory, point, feasible = borrowed(o), borrowed(memory), borrowed(point), borrowed(feasible)
    for k in range(k0, k1):
        past = value(values.weight, k, k0) if k > 0 else 0.0
        correct_directions(memory, o, point, k, past, value(values.linear, k, k0), settings.n_linear_steps)
        if k == k1 - 1:
            copy(point.x_left, point.x)
        add_scaled(point.y, -value(values.inner, k, k0), point.d[0])
        move(point.x, value(values.upper, k, k0), point.d_x, feasible)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecursiveSolver(NeumannSolver):
    """A method with corrected directions of y and x, and u from scratch by N products at each point.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha.
    inner_step_size : float or callable, optional
        rho.
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
        eta of the estimator of u; left out, the first rho.
    n_linear_steps : int
        N.
    """

    def corrections(self) -> int:
        """Return how often an iteration corrects its directions.

        Returns
        -------
        int
            1 by default.
        """
        return 1

    def products(self) -> int:
        """Return the most products with H of one hypergradient.

        Returns
        -------
        int
            By the estimator.
        """
        return most_products(self.estimator(), self.steps())

    def draws(self) -> Mapping[str, int]:
        """Return the batches of the corrections; see `StochasticSolver.draws`."""
        count = self.corrections()
        return {"B1": count * self.products(), "B2": count, "B3": count, "B4": count}

    def cost_per_iteration(self, dim_y: int) -> OracleCounts:
        """Return the calls of the corrections, each at two points.

        Parameters
        ----------
        dim_y : int
            n.

        Returns
        -------
        OracleCounts
            On minibatches: 2 upper_grad, lower_grad_y and lower_jvp and at most 2 `products` lower_hvp a correction.
        """
        calls = 2 * self.corrections()
        products = calls * self.products()
        return OracleCounts(upper_grad=calls, lower_grad_y=calls, lower_hvp=products, lower_jvp=calls)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MomentumSolver(RecursiveSolver):
    """STORM directions of y and x: D <- D_b(new) + beta (D - D_b(old)), then both steps (Jacobi order).

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha.
    inner_step_size : float or callable, optional
        rho.
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
        eta of the estimator of u; left out, the first rho.
    n_linear_steps : int
        N.
    momentum : float or callable
        beta.
    """

    momentum: Schedule = RISE

    def __post_init__(self) -> None:
        validate_weight("momentum", self.momentum)
        super().__post_init__()

    def weight(self) -> Schedule:
        """Return `momentum`; see `StochasticSolver.weight`."""
        return self.momentum

    def loop(self) -> Callable[..., None]:
        """Return `momentum_loop`; see `StochasticSolver.loop`."""
        return momentum_loop

    def settings(self) -> MomentumSettings:
        """Return N; see `StochasticSolver.settings`."""
        return MomentumSettings(self.steps())

    def memory(
        self, problem: BilevelProblem, room: Room, streams: list[Stream], stored: Data, dtype: np.dtype[Any]
    ) -> TwoPoints:
        """Return the old point and rooms; see `StochasticSolver.memory`."""
        return two_hypergradients(self.estimator(), problem, room, dtype)

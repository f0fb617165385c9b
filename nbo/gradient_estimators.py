"""Estimators of the directions D_y, D_u and D_x from minibatches: SGD, SAGA, STORM and PAGE.

An estimator is the class of its memory, a NamedTuple, and one function that runs in plain Python and inside compiled
loops. It writes d_y = grad_2 g, d_u = H u - grad_2 f and d_x = grad_1 f - J u for the point at hand. A new one is such
a pair and an entry in the table at the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._dual import by_class, dual
from nbo._updates import add_scaled, copy, correct, replace, replace_at, subtract
from nbo.coordinates import Dense, Room, Scattered, hypergradient_from
from nbo.minibatches import (
    AnyOracles,
    Components,
    Data,
    FusedOracles,
    Oracles,
    SharedOracles,
    components,
    directions,
    full_components,
    lower_grad_y,
    lower_hvp,
    lower_jvp,
    lower_parts_on,
    upper_grad,
)
from nbo.sampling import B1, B2, B3, B4, Batch, block_of, coin, draw

Array = npt.NDArray[Any]


class Point(NamedTuple):
    """The iterate of a loop and its room to work in.

    Attributes
    ----------
    x, y, u : ndarray
        The iterate, (m,), (n,), (n,).
    x_left : ndarray
        The x that the last iteration started from, (m,).
    d_x : ndarray
        The last estimate of the hypergradient, (m,) or as `Coordinates` say.
    average : ndarray
        Its moving average, (m,).
    d : ndarray
        d_y and d_u, (2, n).
    V, HV : ndarray
        Inner iterates v, w and their products, (2, n).
    """

    x: Array
    y: Array
    u: Array
    x_left: Array
    d_x: Array
    average: Array
    d: Array
    V: Array
    HV: Array


def new_point(x: Array, y: Array, u: Array, room: Room) -> Point:
    """Return a point with room to work in.

    Parameters
    ----------
    x, y, u : ndarray
        The iterate, copied.
    room : Room
        The sizes in the space of x.

    Returns
    -------
    Point
        Zeros besides.
    """
    lower = np.zeros((3, 2, y.shape[0]), dtype=y.dtype)
    x_left, average = np.zeros((2, x.shape[0]))
    return Point(x.copy(), y.copy(), u.copy(), x_left, np.zeros(room.jvp), average, *lower)


class SGD(NamedTuple):
    """The plain minibatch estimate, without memory."""


class SAGA(NamedTuple):
    """Defazio, Bach and Lacoste-Julien (2014): new - remembered + mean of the memory, a row for every block.

    Attributes
    ----------
    parts : Components
        Room for the new estimate.
    grad, hvp, jvp, upper_x, upper_y : ndarray
        Rows, (blocks, n) or (blocks, m), in the type of y. Where x has an entry for each sample, jvp has one row for
        all blocks, (1, samples), an entry for each stored sample.
    mean_y, mean_jvp, mean_upper_x : ndarray
        Means of the rows of grad, hvp and upper_y, (3, n), of jvp, (m,), and of upper_x, (m,) or empty, float64.
    jvp_blocks : int
        Blocks behind jvp.
    full : bool
        Whether the rows start as the estimates at the first point; zero otherwise.
    """

    parts: Components
    grad: Array
    hvp: Array
    jvp: Array
    upper_x: Array
    upper_y: Array
    mean_y: Array
    mean_jvp: Array
    mean_upper_x: Array
    jvp_blocks: int
    full: bool


class STORM(NamedTuple):
    """Cutkosky and Orabona (2019): new + momentum (last estimate - old), both of one batch, at two points.

    Attributes
    ----------
    parts, old_parts : Components
        Room for the estimates at the new and the old point.
    estimate : Components
        The last estimate.
    x, y, u : ndarray
        The old point.
    """

    parts: Components
    old_parts: Components
    estimate: Components
    x: Array
    y: Array
    u: Array


class PAGE(NamedTuple):
    """Li, Bao, Zhang and Richtarik (2021): all samples now and then, else last estimate + new - old.

    Attributes
    ----------
    parts, old_parts : Components
        Room for the estimates at the new and the old point.
    estimate : Components
        The last estimate.
    x, y, u : ndarray
        The old point.
    probability : float
        Of an iteration over all samples; the first one is such.
    period : int
        Where positive, these are the iterations k = 0, period, 2 period, ... instead (SARAH; Nguyen et al., 2017).
    stored : Data
        All samples.
    """

    parts: Components
    old_parts: Components
    estimate: Components
    x: Array
    y: Array
    u: Array
    probability: float
    period: int
    stored: Data


class UpperSTORM(NamedTuple):
    """Plain minibatches for D_y and D_u, STORM for D_x alone.

    Attributes
    ----------
    parts, old_parts, estimate, x, y, u : object
        As of `STORM`.
    """

    parts: Components
    old_parts: Components
    estimate: Components
    x: Array
    y: Array
    u: Array


@dual
def combine(parts: Components, point: Point) -> None:
    """Write the directions from their five parts.

    Parameters
    ----------
    parts : Components
        The five parts.
    point : Point
        The iterate, and where the directions go.
    """
    copy(point.d[0], parts.lower[0])
    subtract(point.d[1], parts.lower[1], parts.upper_y)
    hypergradient_from(point.d_x, parts.upper_x, parts.jvp)


@dual
def estimate_sgd(memory: SGD, o: AnyOracles, point: Point, k: int, momentum: float) -> None:
    """Estimate from one batch a role.

    Parameters
    ----------
    memory : NamedTuple
        The estimator's memory, changed in place.
    o : Oracles
        What reaches the problem.
    point : Point
        The iterate, and where the directions go.
    k : int
        The iteration.
    momentum : float
        The weight of the past, for estimators that have one.
    """
    directions(o, k, point.x, point.y, point.u, point.d, point.d_x)


@dual
def remember(row: Array, mean: Array, new: Array, n_rows: int) -> None:
    """Set a row of a memory that is filled for the first time.

    Parameters
    ----------
    row : ndarray
        The row.
    mean : ndarray
        The mean of all rows.
    new : ndarray
        The estimate that it gets.
    n_rows : int
        How many rows there are.
    """
    copy(row, new)
    add_scaled(mean, 1.0 / n_rows, row)


@dual
def _remember_rows(coordinates: Dense, o: AnyOracles, memory: SAGA, batch: Batch) -> None:
    remember(memory.jvp[batch.block], memory.mean_jvp, memory.parts.jvp, memory.jvp_blocks)


@dual
def _remember_entries(coordinates: Scattered, o: AnyOracles, memory: SAGA, batch: Batch) -> None:
    rows, row, share = o.data.lower[-1], memory.jvp[0], 1.0 / memory.jvp_blocks
    for i in range(batch.lo, batch.hi):
        row[i] = coordinates.entries[i - batch.lo]
        memory.mean_jvp[rows[i]] += share * row[i]


#: Sets what a memory holds of J u on a block for the first time: (coordinates, oracles, memory, batch).
remember_jvp = by_class({Dense: _remember_rows, Scattered: _remember_entries})


@dual
def _replace_rows(coordinates: Dense, o: AnyOracles, memory: SAGA, block: int) -> None:
    replace(memory.parts.jvp, memory.jvp[block], memory.mean_jvp, memory.jvp_blocks)


@dual
def _replace_entries(coordinates: Scattered, o: AnyOracles, memory: SAGA, block: int) -> None:
    n, blocks = memory.jvp.shape[1], memory.jvp_blocks
    lo, hi = block * n // blocks, (block + 1) * n // blocks
    rows, entries = o.data.lower[-1], coordinates.entries
    replace_at(memory.parts.jvp, memory.jvp[0], memory.mean_jvp, blocks, rows, lo, hi, entries)


#: Does `replace` for J u: (coordinates, oracles, memory, block).
replace_jvp = by_class({Dense: _replace_rows, Scattered: _replace_entries})


@dual
def remember_lower_apart(o: Oracles, memory: SAGA, point: Point) -> None:
    """Fill the lower rows of a memory, from the blocks of a batch for each part.

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    memory : SAGA
        The memory, zeros.
    point : Point
        The iterate.
    """
    parts, x, y, u = memory.parts, point.x, point.y, point.u
    U = u.reshape((1, u.shape[0]))
    for j in range(memory.grad.shape[0]):
        lower_grad_y(o, block_of(o.streams, B2, j), x, y, parts.lower[0])
        remember(memory.grad[j], memory.mean_y[0], parts.lower[0], memory.grad.shape[0])
    for j in range(memory.hvp.shape[0]):
        lower_hvp(o, block_of(o.streams, B1, j), x, y, U, parts.lower[1:])
        remember(memory.hvp[j], memory.mean_y[1], parts.lower[1], memory.hvp.shape[0])
    for j in range(memory.jvp_blocks):
        batch = block_of(o.streams, B4, j)
        lower_jvp(o, batch, x, y, u, parts.jvp)
        remember_jvp(o.coordinates, o, memory, batch)


@dual
def remember_lower_shared(o: SharedOracles | FusedOracles, memory: SAGA, point: Point) -> None:
    """Fill the lower rows of a memory, all from the same blocks.

    Parameters
    ----------
    o : SharedOracles or FusedOracles
        What reaches the problem.
    memory : SAGA
        The memory, zeros.
    point : Point
        The iterate.
    """
    parts, n_rows = memory.parts, memory.grad.shape[0]
    for j in range(n_rows):
        batch = block_of(o.streams, B2, j)
        lower_parts_on(o, batch, point.x, point.y, point.u, parts.lower, parts.jvp)
        remember(memory.grad[j], memory.mean_y[0], parts.lower[0], n_rows)
        remember(memory.hvp[j], memory.mean_y[1], parts.lower[1], n_rows)
        remember_jvp(o.coordinates, o, memory, batch)


#: Fills the lower rows of a memory for the first time: (oracles, memory, point).
remember_lower = by_class(
    {Oracles: remember_lower_apart, SharedOracles: remember_lower_shared, FusedOracles: remember_lower_shared}
)


@dual
def remember_upper(o: AnyOracles, memory: SAGA, point: Point) -> None:
    """Fill the upper rows of a memory for the first time.

    Parameters
    ----------
    o : Oracles or SharedOracles
        What reaches the problem.
    memory : SAGA
        The memory, zeros.
    point : Point
        The iterate.
    """
    parts, n_rows = memory.parts, memory.upper_x.shape[0]
    for j in range(n_rows):
        upper_grad(o, block_of(o.streams, B3, j), point.x, point.y, parts.upper_x, parts.upper_y)
        remember(memory.upper_x[j], memory.mean_upper_x, parts.upper_x, n_rows)
        remember(memory.upper_y[j], memory.mean_y[2], parts.upper_y, n_rows)


@dual
def estimate_saga(memory: SAGA, o: AnyOracles, point: Point, k: int, momentum: float) -> None:
    """Estimate from one batch a role and the memory of its block; O(m + n), whatever the size of the memory.

    Parameters
    ----------
    memory : NamedTuple
        The estimator's memory, changed in place.
    o : Oracles
        What reaches the problem.
    point : Point
        The iterate, and where the directions go.
    k : int
        The iteration.
    momentum : float
        The weight of the past, for estimators that have one.
    """
    parts = memory.parts
    if k == 0 and memory.full:
        remember_lower(o, memory, point)
        remember_upper(o, memory, point)
    blocks = components(o, k, point.x, point.y, point.u, parts)
    replace(parts.lower[0], memory.grad[blocks.grad], memory.mean_y[0], memory.grad.shape[0])
    replace(parts.lower[1], memory.hvp[blocks.hvp], memory.mean_y[1], memory.hvp.shape[0])
    replace(parts.upper_y, memory.upper_y[blocks.upper], memory.mean_y[2], memory.upper_y.shape[0])
    replace_jvp(o.coordinates, o, memory, blocks.jvp)
    replace(parts.upper_x, memory.upper_x[blocks.upper], memory.mean_upper_x, memory.upper_x.shape[0])
    combine(parts, point)


@dual
def correct_all(estimate: Components, weight: float, new: Components, old: Components) -> None:
    """Do estimate <- new + weight (estimate - old) for all parts.

    Parameters
    ----------
    estimate : Components
        The estimate, changed in place.
    weight : float
        The weight of the past.
    new : Components
        The parts at the new point.
    old : Components
        The parts at the old point.
    """
    for row in range(2):
        correct(estimate.lower[row], weight, new.lower[row], old.lower[row])
    correct(estimate.jvp, weight, new.jvp, old.jvp)
    correct(estimate.upper_x, weight, new.upper_x, old.upper_x)
    correct(estimate.upper_y, weight, new.upper_y, old.upper_y)


@dual
def keep_point(memory: STORM | UpperSTORM | PAGE, point: Point) -> None:
    """Keep the point as the old one.

    Parameters
    ----------
    memory : STORM, UpperSTORM or PAGE
        The memory.
    point : Point
        The iterate.
    """
    copy(memory.x, point.x)
    copy(memory.y, point.y)
    copy(memory.u, point.u)


@dual
def finish(memory: STORM | PAGE, point: Point) -> None:
    """Write the directions from an estimate, and keep the point as the old one.

    Parameters
    ----------
    memory : STORM or PAGE
        The memory.
    point : Point
        The iterate, and where the directions go.
    """
    keep_point(memory, point)
    combine(memory.estimate, point)


@dual
def estimate_storm(memory: STORM, o: AnyOracles, point: Point, k: int, momentum: float) -> None:
    """Estimate from one batch a role at the new and the old point; the first time from the new one alone.

    Parameters
    ----------
    memory : NamedTuple
        The estimator's memory, changed in place.
    o : Oracles
        What reaches the problem.
    point : Point
        The iterate, and where the directions go.
    k : int
        The iteration.
    momentum : float
        The weight of the past, for estimators that have one.
    """
    components(o, k, point.x, point.y, point.u, memory.parts)
    if k > 0:
        components(o, k, memory.x, memory.y, memory.u, memory.old_parts)
    correct_all(memory.estimate, momentum if k > 0 else 0.0, memory.parts, memory.old_parts)
    finish(memory, point)


@dual
def _jvp_batch_apart(o: Oracles, k: int) -> Batch:
    return draw(o.streams, B4, k)


@dual
def _jvp_batch_shared(o: SharedOracles | FusedOracles, k: int) -> Batch:
    return draw(o.streams, B2, k)


#: Returns the batch of J u in iteration k: (oracles, k).
jvp_batch = by_class({Oracles: _jvp_batch_apart, SharedOracles: _jvp_batch_shared, FusedOracles: _jvp_batch_shared})


@dual
def estimate_upper_storm(memory: UpperSTORM, o: AnyOracles, point: Point, k: int, momentum: float) -> None:
    """Estimate D_y and D_u from one batch a role, D_x from one at the new and the old point.

    Parameters
    ----------
    memory : NamedTuple
        The estimator's memory, changed in place.
    o : Oracles
        What reaches the problem.
    point : Point
        The iterate, and where the directions go.
    k : int
        The iteration.
    momentum : float
        The weight of the past.
    """
    new, old, estimate = memory.parts, memory.old_parts, memory.estimate
    components(o, k, point.x, point.y, point.u, new)
    if k > 0:
        lower_jvp(o, jvp_batch(o, k), memory.x, memory.y, memory.u, old.jvp)
        upper_grad(o, draw(o.streams, B3, k), memory.x, memory.y, old.upper_x, old.upper_y)
    past = momentum if k > 0 else 0.0
    copy(point.d[0], new.lower[0])
    subtract(point.d[1], new.lower[1], new.upper_y)
    correct(estimate.jvp, past, new.jvp, old.jvp)
    correct(estimate.upper_x, past, new.upper_x, old.upper_x)
    hypergradient_from(point.d_x, estimate.upper_x, estimate.jvp)
    keep_point(memory, point)


@dual
def _all_samples_of(o: Oracles, stored: Data) -> Oracles:
    return Oracles(o.kernels, stored, o.streams, o.counts, o.coordinates)


@dual
def _all_samples_of_shared(o: SharedOracles, stored: Data) -> SharedOracles:
    return SharedOracles(o.kernels, stored, o.streams, o.counts, o.coordinates)


@dual
def _all_samples_of_fused(o: FusedOracles, stored: Data) -> FusedOracles:
    return FusedOracles(o.kernels, stored, o.streams, o.counts, o.coordinates)


#: Returns oracles over other data: (oracles, data).
with_all_samples = by_class(
    {Oracles: _all_samples_of, SharedOracles: _all_samples_of_shared, FusedOracles: _all_samples_of_fused}
)


@dual
def estimate_page(memory: PAGE, o: AnyOracles, point: Point, k: int, momentum: float) -> None:
    """Estimate from all samples, or from one batch a role at the new and the old point.

    Parameters
    ----------
    memory : NamedTuple
        The estimator's memory, changed in place.
    o : Oracles
        What reaches the problem.
    point : Point
        The iterate, and where the directions go.
    k : int
        The iteration.
    momentum : float
        The weight of the past, for estimators that have one.
    """
    due = k % memory.period == 0 if memory.period > 0 else coin(o.streams, k) < memory.probability
    if k == 0 or due:
        full_components(with_all_samples(o, memory.stored), point.x, point.y, point.u, memory.estimate)
    else:
        components(o, k, point.x, point.y, point.u, memory.parts)
        components(o, k, memory.x, memory.y, memory.u, memory.old_parts)
        correct_all(memory.estimate, 1.0, memory.parts, memory.old_parts)
    finish(memory, point)


#: Writes the directions at a point: (memory, oracles, point, iteration, momentum).
estimate = by_class(
    {
        SGD: estimate_sgd,
        SAGA: estimate_saga,
        STORM: estimate_storm,
        UpperSTORM: estimate_upper_storm,
        PAGE: estimate_page,
    }
)

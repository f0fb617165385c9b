"""Where the numbers of J u and of D_x lie: in a vector like x, or in one entry for each sample of a batch.

Where x has an entry for each lower sample, a batch touches as many entries of x as it has samples. Loops then keep to
these if nothing else in the space of x is dense, and scatter them into a vector otherwise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._dual import by_class, dual
from nbo._updates import add_at, clear, move, move_at, scale, subtract

Array = npt.NDArray[Any]


class Dense(NamedTuple):
    """J u and D_x are vectors like x."""


class Scattered(NamedTuple):
    """J u comes by samples and is scattered into a vector like x, as D_x is.

    Attributes
    ----------
    entries : ndarray
        J u of the last batch, an entry for each of its samples; room for all samples.
    """

    entries: Array


class Entries(NamedTuple):
    """J u and D_x have an entry for each sample of a batch.

    Attributes
    ----------
    rows : ndarray of int
        The entries of x that belong to the last batch; room for the largest batch.
    size : ndarray of int
        How many they are, (1,).
    """

    rows: Array
    size: Array


Coordinates = Dense | Scattered | Entries


class Room(NamedTuple):
    """The sizes of arrays in the space of x.

    Attributes
    ----------
    jvp : int
        Of J u and D_x: m, or the samples of the largest batch.
    upper : int
        Of grad_1 f: m, or 0 where it is zero.
    """

    jvp: int
    upper: int


def coordinates_for(problem: Any, n_samples: int, largest_batch: int, sparse: bool) -> tuple[Coordinates, Room]:
    """Return how a method reaches the space of x.

    Parameters
    ----------
    problem : BilevelProblem
        Which may declare `x_per_sample` and `upper_uses_x`.
    n_samples, largest_batch : int
        Lower samples: all, and those of the largest batch for J u.
    sparse : bool
        Whether the method keeps nothing dense in the space of x.

    Returns
    -------
    coordinates : Coordinates
        For loops.
    room : Room
        For their arrays.
    """
    upper = problem.dim_x if getattr(problem, "upper_uses_x", True) else 0
    if not getattr(problem, "x_per_sample", False):
        return Dense(), Room(problem.dim_x, upper)
    if sparse and not upper:
        return Entries(np.zeros(largest_batch, np.int64), np.zeros(1, np.int64)), Room(largest_batch, 0)
    return Scattered(np.zeros(n_samples)), Room(problem.dim_x, upper)


def dense_direction(coordinates: Coordinates, d_x: Array, dim_x: int) -> Array:
    """Return D_x as a vector like x.

    Parameters
    ----------
    coordinates : Coordinates
        How it lies.
    d_x : ndarray
        As loops keep it.
    dim_x : int
        m.

    Returns
    -------
    ndarray
        A copy, (m,).
    """
    if not isinstance(coordinates, Entries):
        return d_x.copy()
    vector, count = np.zeros(dim_x), int(coordinates.size[0])
    np.add.at(vector, coordinates.rows[:count], d_x[:count])
    return vector


@dual
def _start_dense(coordinates: Dense | Scattered, out: Array) -> None:
    clear(out)


@dual
def _start_entries(coordinates: Entries, out: Array) -> None:
    coordinates.size[0] = 0


#: Gets ready for J u of a batch: (coordinates, out).
start_jvp = by_class({Dense: _start_dense, Scattered: _start_dense, Entries: _start_entries})


@dual
def _room_dense(coordinates: Dense, out: Array, first: int, last: int) -> Array:
    return out


@dual
def _room_scattered(coordinates: Scattered, out: Array, first: int, last: int) -> Array:
    entries = coordinates.entries[first:last]
    clear(entries)
    return entries


@dual
def _room_entries(coordinates: Entries, out: Array, first: int, last: int) -> Array:
    entries = out[first:last]
    clear(entries)
    return entries


#: Returns what a kernel adds J u to, for samples first .. last - 1 of a batch: (coordinates, out, first, last).
room_for_jvp = by_class({Dense: _room_dense, Scattered: _room_scattered, Entries: _room_entries})


@dual
def _keep_dense(coordinates: Dense, out: Array, rows: Array, lo: int, first: int, last: int) -> None:
    return


@dual
def _keep_scattered(coordinates: Scattered, out: Array, rows: Array, lo: int, first: int, last: int) -> None:
    add_at(out, rows, lo, lo + last - first, coordinates.entries[first:last])


@dual
def _keep_entries(coordinates: Entries, out: Array, rows: Array, lo: int, first: int, last: int) -> None:
    for i in range(first, last):
        coordinates.rows[i] = rows[lo + i - first]
    coordinates.size[0] = last


#: Puts away what a kernel added, on rows from lo on: (coordinates, out, rows, lo, first, last).
keep_jvp = by_class({Dense: _keep_dense, Scattered: _keep_scattered, Entries: _keep_entries})


@dual
def _move_dense(coordinates: Dense | Scattered, x: Array, step: float, direction: Array, feasible: Any) -> None:
    move(x, step, direction, feasible)


@dual
def _move_entries(coordinates: Entries, x: Array, step: float, direction: Array, feasible: Any) -> None:
    move_at(x, step, direction, coordinates.rows, coordinates.size[0], feasible)


#: Moves x along a direction: (coordinates, x, step, direction, feasible).
move_along = by_class({Dense: _move_dense, Scattered: _move_dense, Entries: _move_entries})


@dual
def hypergradient_from(d_x: Array, upper_x: Array, jvp: Array) -> None:
    """Write D_x = grad_1 f - J u, where grad_1 f may have no entries, as it is zero.

    Parameters
    ----------
    d_x : ndarray
        Where it goes.
    upper_x, jvp : ndarray
        The two parts.
    """
    if upper_x.shape[0] > 0:
        subtract(d_x, upper_x, jvp)
    else:
        scale(d_x, -1.0, jvp)

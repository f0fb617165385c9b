"""Oracles on minibatches as loops use them: one batch of one role at a time, counted, compiled or plain."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._dual import by_class, dual
from nbo._updates import clear, scale
from nbo.coordinates import Coordinates, Room, keep_jvp, room_for_jvp, start_jvp
from nbo.oracles import KINDS
from nbo.sampling import B1, B2, B3, B4, Batch, Streams, draw

Array = npt.NDArray[Any]

UPPER_GRAD, LOWER_GRAD_Y, LOWER_HVP, LOWER_JVP, LOWER_GRAD_X = (
    KINDS.index(name) for name in ("upper_grad", "lower_grad_y", "lower_hvp", "lower_jvp", "lower_grad_x")
)


class Data(NamedTuple):
    """What kernels read.

    Attributes
    ----------
    lower, upper : tuple
        Arrays with one entry or row a sample (CSR matrices as (values, indices, indptr)); the last one, `row`, holds
        the original index of each stored sample.
    common : tuple
        Arrays and numbers that belong to no sample.
    """

    lower: tuple[Any, ...]
    upper: tuple[Any, ...]
    common: tuple[Any, ...]


class Kernels(NamedTuple):
    """The functions that loops call, each adding `scale` times a sum over stored rows to its output.

    Attributes
    ----------
    lower_grad_y : callable
        (data, lo, hi, scale, x, y, out), out (n,).
    lower_hvp : callable
        (data, lo, hi, scale, x, y, V, out), V and out (k, n).
    lower_grad_y_and_hvp : callable
        (data, lo, hi, scale, x, y, u, out), out (2, n).
    lower_jvp : callable
        (data, lo, hi, scale, x, y, u, out), out (m,).
    lower_parts : callable
        (data, lo, hi, scale, x, y, u, out_pair, out_samples), the last two as one; not of every problem.
    upper_grad : callable
        (data, lo, hi, scale, x, y, out_x, out_y).
    lower_grad_x : callable
        (data, lo, hi, scale, x, y, out), out (m,) or with an entry for each row; not of every problem.
    """

    lower_grad_y: Any
    lower_hvp: Any
    lower_grad_y_and_hvp: Any
    lower_jvp: Any
    lower_parts: Any
    upper_grad: Any
    lower_grad_x: Any


class Oracles(NamedTuple):
    """All that a loop needs of a problem, with a batch of its own for D_y, H u and J u each.

    Attributes
    ----------
    kernels : Kernels
        The functions.
    data : Data
        What they read.
    streams : Streams
        Where batches come from.
    counts : ndarray of int
        Calls and samples by kind, (2, kinds), in the order of `nbo.oracles.KINDS`.
    coordinates : Coordinates
        Where the numbers of J u go.
    """

    kernels: Kernels
    data: Data
    streams: Streams
    counts: Array
    coordinates: Coordinates


class SharedOracles(NamedTuple):
    """The same with one lower batch for D_y, H u and J u: a class of its own, so that loops compile for one way only.

    Attributes
    ----------
    kernels, data, streams, counts, coordinates : object
        See `Oracles`.
    """

    kernels: Kernels
    data: Data
    streams: Streams
    counts: Array
    coordinates: Coordinates


class FusedOracles(NamedTuple):
    """The same for problems that have one kernel for all three.

    Attributes
    ----------
    kernels, data, streams, counts, coordinates : object
        See `Oracles`.
    """

    kernels: Kernels
    data: Data
    streams: Streams
    counts: Array
    coordinates: Coordinates


AnyOracles = Oracles | SharedOracles | FusedOracles


class Components(NamedTuple):
    """Minibatch estimates of the five parts of the directions.

    Attributes
    ----------
    lower : ndarray
        grad_2 g and H u, (2, n).
    jvp : ndarray
        J u, (m,) or as `Coordinates` say.
    upper_x, upper_y : ndarray
        grad_1 f, (m,) or empty where it is zero, and grad_2 f, (n,).
    """

    lower: Array
    jvp: Array
    upper_x: Array
    upper_y: Array


class Blocks(NamedTuple):
    """The blocks that the parts of a `Components` came from.

    Attributes
    ----------
    grad, hvp, jvp, upper : int
        Of grad_2 g, H u, J u, and both parts of grad f.
    """

    grad: int
    hvp: int
    jvp: int
    upper: int


def empty_components(room: Room, dim_y: int, dtype: npt.DTypeLike) -> Components:
    """Return room for estimates.

    Parameters
    ----------
    room : Room
        The sizes in the space of x.
    dim_y : int
        n.
    dtype : dtype
        Of the parts in the space of y.

    Returns
    -------
    Components
        Zeros.
    """
    return Components(np.zeros((2, dim_y), dtype), np.zeros(room.jvp), np.zeros(room.upper), np.zeros(dim_y, dtype))


@dual
def count(o: AnyOracles, kind: int, times: int, batch: Batch) -> None:
    """Count calls of one oracle on one batch.

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    kind : int
        The oracle, a place in `nbo.oracles.KINDS`.
    times : int
        How many calls.
    batch : Batch
        The batch.
    """
    o.counts[0, kind] += times
    o.counts[1, kind] += times * (batch.hi - batch.lo + batch.rest)


@dual
def lower_grad_y(o: AnyOracles, batch: Batch, x: Array, y: Array, out: Array) -> None:
    """Write grad_2 g, (n,).

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    batch : Batch
        The batch.
    x : ndarray
        The upper point, (m,).
    y : ndarray
        The lower point, (n,).
    out : ndarray
        Where the result goes.
    """
    count(o, LOWER_GRAD_Y, 1, batch)
    clear(out)
    lo, hi, rest = batch.lo, batch.hi, batch.rest
    while lo < hi:
        o.kernels.lower_grad_y(o.data, lo, hi, batch.scale, x, y, out)
        lo, hi, rest = 0, rest, 0


@dual
def lower_hvp(o: AnyOracles, batch: Batch, x: Array, y: Array, V: Array, out: Array) -> None:
    """Write H v for each row of V, (k, n).

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    batch : Batch
        The batch.
    x : ndarray
        The upper point, (m,).
    y : ndarray
        The lower point, (n,).
    V : ndarray
        Directions in rows, (k, n).
    out : ndarray
        Where the result goes.
    """
    count(o, LOWER_HVP, V.shape[0], batch)
    for row in range(out.shape[0]):
        clear(out[row])
    lo, hi, rest = batch.lo, batch.hi, batch.rest
    while lo < hi:
        o.kernels.lower_hvp(o.data, lo, hi, batch.scale, x, y, V, out)
        lo, hi, rest = 0, rest, 0


@dual
def lower_grad_y_and_hvp(o: AnyOracles, batch: Batch, x: Array, y: Array, u: Array, out: Array) -> None:
    """Write grad_2 g and H u, (2, n).

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    batch : Batch
        The batch.
    x : ndarray
        The upper point, (m,).
    y : ndarray
        The lower point, (n,).
    u : ndarray
        The direction, (n,).
    out : ndarray
        Where the result goes.
    """
    count(o, LOWER_GRAD_Y, 1, batch)
    count(o, LOWER_HVP, 1, batch)
    for row in range(out.shape[0]):
        clear(out[row])
    lo, hi, rest = batch.lo, batch.hi, batch.rest
    while lo < hi:
        o.kernels.lower_grad_y_and_hvp(o.data, lo, hi, batch.scale, x, y, u, out)
        lo, hi, rest = 0, rest, 0


@dual
def lower_jvp(o: AnyOracles, batch: Batch, x: Array, y: Array, u: Array, out: Array) -> None:
    """Write J u, (m,) or as `Coordinates` say.

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    batch : Batch
        The batch.
    x : ndarray
        The upper point, (m,).
    y : ndarray
        The lower point, (n,).
    u : ndarray
        The direction, (n,).
    out : ndarray
        Where the result goes.
    """
    count(o, LOWER_JVP, 1, batch)
    start_jvp(o.coordinates, out)
    lo, hi, rest, done = batch.lo, batch.hi, batch.rest, 0
    while lo < hi:
        last = done + hi - lo
        room = room_for_jvp(o.coordinates, out, done, last)
        o.kernels.lower_jvp(o.data, lo, hi, batch.scale, x, y, u, room)
        keep_jvp(o.coordinates, out, o.data.lower[-1], lo, done, last)
        lo, hi, rest, done = 0, rest, 0, last


@dual
def lower_grad_x(o: AnyOracles, batch: Batch, x: Array, y: Array, out: Array) -> None:
    """Write grad_1 g, (m,) or as `Coordinates` say.

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    batch : Batch
        The batch.
    x : ndarray
        The upper point, (m,).
    y : ndarray
        The lower point, (n,).
    out : ndarray
        Where the result goes.
    """
    count(o, LOWER_GRAD_X, 1, batch)
    start_jvp(o.coordinates, out)
    lo, hi, rest, done = batch.lo, batch.hi, batch.rest, 0
    while lo < hi:
        last = done + hi - lo
        room = room_for_jvp(o.coordinates, out, done, last)
        o.kernels.lower_grad_x(o.data, lo, hi, batch.scale, x, y, room)
        keep_jvp(o.coordinates, out, o.data.lower[-1], lo, done, last)
        lo, hi, rest, done = 0, rest, 0, last


@dual
def add_upper_grad(o: AnyOracles, batch: Batch, factor: float, x: Array, y: Array, out_x: Array, out_y: Array) -> None:
    """Add a multiple of grad_1 f and grad_2 f, (m,) and (n,).

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    batch : Batch
        The batch.
    factor : float
        The multiple.
    x : ndarray
        The upper point, (m,).
    y : ndarray
        The lower point, (n,).
    out_x : ndarray
        What grad_1 f is added to, (m,).
    out_y : ndarray
        What grad_2 f is added to, (n,).
    """
    count(o, UPPER_GRAD, 1, batch)
    lo, hi, rest = batch.lo, batch.hi, batch.rest
    while lo < hi:
        o.kernels.upper_grad(o.data, lo, hi, factor * batch.scale, x, y, out_x, out_y)
        lo, hi, rest = 0, rest, 0


@dual
def upper_grad(o: AnyOracles, batch: Batch, x: Array, y: Array, out_x: Array, out_y: Array) -> None:
    """Write grad_1 f and grad_2 f, (m,) and (n,).

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    batch : Batch
        The batch.
    x : ndarray
        The upper point, (m,).
    y : ndarray
        The lower point, (n,).
    out_x : ndarray
        Where grad_1 f goes, (m,).
    out_y : ndarray
        Where grad_2 f goes, (n,).
    """
    clear(out_x)
    clear(out_y)
    add_upper_grad(o, batch, 1.0, x, y, out_x, out_y)


@dual
def _parts_by_two_kernels(
    o: Oracles | SharedOracles, batch: Batch, x: Array, y: Array, u: Array, lower: Array, jvp: Array
) -> None:
    lower_grad_y_and_hvp(o, batch, x, y, u, lower)
    lower_jvp(o, batch, x, y, u, jvp)


@dual
def _parts_by_one_kernel(o: FusedOracles, batch: Batch, x: Array, y: Array, u: Array, lower: Array, jvp: Array) -> None:
    for kind in (LOWER_GRAD_Y, LOWER_HVP, LOWER_JVP):
        count(o, kind, 1, batch)
    for row in range(lower.shape[0]):
        clear(lower[row])
    start_jvp(o.coordinates, jvp)
    lo, hi, rest, done = batch.lo, batch.hi, batch.rest, 0
    while lo < hi:
        last = done + hi - lo
        room = room_for_jvp(o.coordinates, jvp, done, last)
        o.kernels.lower_parts(o.data, lo, hi, batch.scale, x, y, u, lower, room)
        keep_jvp(o.coordinates, jvp, o.data.lower[-1], lo, done, last)
        lo, hi, rest, done = 0, rest, 0, last


#: Writes grad_2 g and H u, (2, n), and J u on one batch: (oracles, batch, x, y, u, lower, jvp).
lower_parts_on = by_class(
    {Oracles: _parts_by_two_kernels, SharedOracles: _parts_by_two_kernels, FusedOracles: _parts_by_one_kernel}
)


@dual
def lower_parts_apart(
    o: Oracles, k: int, x: Array, y: Array, u: Array, lower: Array, jvp: Array
) -> tuple[int, int, int]:
    """Write grad_2 g, H u and J u, on a batch each.

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    k : int
        The iteration.
    x, y, u : ndarray
        The point, (m,), (n,), (n,).
    lower, jvp : ndarray
        Where grad_2 g and H u, (2, n), and J u, (m,), go.

    Returns
    -------
    tuple of int
        The blocks that they came from.
    """
    batch_y = draw(o.streams, B2, k)
    lower_grad_y(o, batch_y, x, y, lower[0])
    batch_u = draw(o.streams, B1, k)
    lower_hvp(o, batch_u, x, y, u.reshape((1, u.shape[0])), lower[1:])
    batch_x = draw(o.streams, B4, k)
    lower_jvp(o, batch_x, x, y, u, jvp)
    return batch_y.block, batch_u.block, batch_x.block


@dual
def lower_parts_shared(
    o: SharedOracles | FusedOracles, k: int, x: Array, y: Array, u: Array, lower: Array, jvp: Array
) -> tuple[int, int, int]:
    """Write grad_2 g, H u and J u, on one batch.

    Parameters
    ----------
    o : SharedOracles or FusedOracles
        What reaches the problem.
    k : int
        The iteration.
    x, y, u : ndarray
        The point, (m,), (n,), (n,).
    lower, jvp : ndarray
        Where grad_2 g and H u, (2, n), and J u, (m,), go.

    Returns
    -------
    tuple of int
        The blocks that they came from.
    """
    batch = draw(o.streams, B2, k)
    lower_parts_on(o, batch, x, y, u, lower, jvp)
    return batch.block, batch.block, batch.block


#: Writes the three lower parts on the batches of iteration k: (oracles, k, x, y, u, lower, jvp).
lower_parts = by_class(
    {Oracles: lower_parts_apart, SharedOracles: lower_parts_shared, FusedOracles: lower_parts_shared}
)


@dual
def directions(o: AnyOracles, k: int, x: Array, y: Array, u: Array, d: Array, d_x: Array) -> None:
    """Write grad_2 g, H u - grad_2 f and grad_1 f - J u on the batches of iteration k, without room for their parts.

    Kernels add to what is there and take any factor: the upper level enters with a minus, and d_x changes its sign.

    Parameters
    ----------
    o : Oracles or SharedOracles
        What reaches the problem.
    k : int
        The iteration.
    x, y, u : ndarray
        The point, (m,), (n,), (n,).
    d, d_x : ndarray
        Where the directions go, (2, n) and (m,).
    """
    lower_parts(o, k, x, y, u, d, d_x)
    add_upper_grad(o, draw(o.streams, B3, k), -1.0, x, y, d_x, d[1])
    scale(d_x, -1.0, d_x)


@dual
def components(o: AnyOracles, k: int, x: Array, y: Array, u: Array, out: Components) -> Blocks:
    """Write the five parts on the batches of iteration k, the same ones at each call.

    Parameters
    ----------
    o : Oracles or SharedOracles
        What reaches the problem.
    k : int
        The iteration.
    x, y, u : ndarray
        The point, (m,), (n,), (n,).
    out : Components
        Where the parts go.

    Returns
    -------
    Blocks
        Where they came from.
    """
    grad, hvp, jvp = lower_parts(o, k, x, y, u, out.lower, out.jvp)
    upper = draw(o.streams, B3, k)
    upper_grad(o, upper, x, y, out.upper_x, out.upper_y)
    return Blocks(grad, hvp, jvp, upper.block)


@dual
def full_components(o: AnyOracles, x: Array, y: Array, u: Array, out: Components) -> None:
    """Write the five parts over all rows of the data.

    Parameters
    ----------
    o : Oracles
        What reaches the problem.
    x : ndarray
        The upper point, (m,).
    y : ndarray
        The lower point, (n,).
    u : ndarray
        The adjoint point, (n,).
    out : Components
        Where the parts go.
    """
    n_lower, n_upper = o.data.lower[-1].shape[0], o.data.upper[-1].shape[0]
    lower, upper = Batch(0, n_lower, 0, 1.0 / n_lower, 0), Batch(0, n_upper, 0, 1.0 / n_upper, 0)
    lower_parts_on(o, lower, x, y, u, out.lower, out.jvp)
    upper_grad(o, upper, x, y, out.upper_x, out.upper_y)

"""Minibatch samplers: streams of batches whose draws are functions of a counter, the same compiled and plain.

A draw depends on the seed, its role and its counter alone, so a run can stop anywhere and go on without any state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._dual import dual
from nbo._validation import integer, validate_random_state

Array = npt.NDArray[Any]

EPOCH, WINDOW, IID = range(3)

#: Names of the samplers.
#:
#: - ``"epoch"``: the shuffled samples are cut into balanced blocks, each used once an epoch, in a fresh order;
#: - ``"window"``: neighbours in the shuffled samples from a random start, past the end from the beginning;
#: - ``"iid"``: independent samples with replacement.
SAMPLERS = {"epoch": EPOCH, "window": WINDOW, "iid": IID}

#: Roles of batches, each a stream of its own: B_1 (Hessian in D_u), B_2 (D_y), B_3 (grad f), B_4 (Jacobian), a coin,
#: and from `INNER` on B_1^t, one for every t.
B1, B2, B3, B4, COIN, INNER = range(6)

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_MASK = (1 << 64) - 1
#: Keys of the two shuffles; roles stay far below.
_SHUFFLES = {"lower": 1 << 40, "upper": (1 << 40) + 1}


class Batch(NamedTuple):
    """Stored rows lo .. hi - 1 and, past the end, 0 .. rest - 1.

    Attributes
    ----------
    lo, hi, rest : int
        The rows.
    scale : float
        What the sum over them is multiplied with to estimate the mean over all samples.
    block : int
        The number of the block; 0 where there are none.
    """

    lo: int
    hi: int
    rest: int
    scale: float
    block: int


#: Columns of the table of a `Streams`.
_KEY, _N, _SIZE, _BLOCKS, _END, _EPOCH, _FIRST_AT, _OFFSET, _COLUMNS = range(9)


class Streams(NamedTuple):
    """The streams of all roles.

    Attributes
    ----------
    kind : int
        `EPOCH`, `WINDOW` or `IID`.
    table : ndarray of int
        One row a role: key, number of samples, batch size, blocks of an epoch, row after which a window starts again,
        epoch whose order is in `order` (-1: none), and for independent samples the counter of the first batch at hand
        and its row.
    order : ndarray of int
        The orders of blocks of the current epochs, (roles, blocks).
    """

    kind: int
    table: Array
    order: Array


def _mix_compiled(key, counter):  # type: ignore[no-untyped-def]
    z = np.uint64(key) + np.uint64(counter + 1) * np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_FIRST)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_SECOND)
    return z ^ (z >> np.uint64(31))


@dual(compiled=_mix_compiled)
def mix(key: int, counter: int) -> int:
    """Return the 64 random bits of one counter (splitmix64; Steele, Lea and Flood, 2014).

    Parameters
    ----------
    key : int
        The key, 64 bits.
    counter : int
        The number of the draw.

    Returns
    -------
    int
        64 random bits.
    """
    z = (int(key) + (int(counter) + 1) * _GOLDEN) & _MASK
    z = ((z ^ (z >> 30)) * _FIRST) & _MASK
    z = ((z ^ (z >> 27)) * _SECOND) & _MASK
    return z ^ (z >> 31)


def _below_compiled(bits, n):  # type: ignore[no-untyped-def]
    return np.int64(((bits >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@dual(compiled=_below_compiled)
def below(bits: int, n: int) -> int:
    """Return a number 0 .. n - 1 from random bits, for n far below 2^32.

    Parameters
    ----------
    bits : int
        64 random bits.
    n : int
        The bound.

    Returns
    -------
    int
        0 .. n - 1.
    """
    return ((bits >> 32) * int(n)) >> 32


def _unit_compiled(bits):  # type: ignore[no-untyped-def]
    return np.float64(bits >> np.uint64(11)) * 2.0**-53


@dual(compiled=_unit_compiled)
def unit(bits: int) -> float:
    """Return a number in [0, 1) from random bits.

    Parameters
    ----------
    bits : int
        64 random bits.

    Returns
    -------
    float
        In [0, 1).
    """
    return (bits >> 11) * 2.0**-53


@dual
def reorder(key: int, order: Array) -> None:
    """Write a random permutation of 0 .. len(order) - 1 (Fisher and Yates).

    Parameters
    ----------
    key : int
        The key, 64 bits.
    order : ndarray of int
        Where it goes.
    """
    for i in range(order.shape[0]):
        order[i] = i
    for i in range(order.shape[0] - 1, 0, -1):
        j = below(mix(key, i), i + 1)
        order[i], order[j] = order[j], order[i]


@dual
def block_of(streams: Streams, role: int, block: int) -> Batch:
    """Return one of the balanced blocks of a role.

    Parameters
    ----------
    streams : Streams
        The streams.
    role : int
        The role.
    block : int
        The number of the block.

    Returns
    -------
    Batch
        The batch.
    """
    n, blocks = streams.table[role, _N], streams.table[role, _BLOCKS]
    return Batch(block * n // blocks, (block + 1) * n // blocks, 0, blocks / n, block)


@dual
def draw(streams: Streams, role: int, counter: int) -> Batch:
    """Return the batch of a role for one counter.

    Parameters
    ----------
    streams : Streams
        The streams.
    role : int
        The role.
    counter : int
        The number of the draw.

    Returns
    -------
    Batch
        The batch.
    """
    stream = streams.table[role]
    n, size = stream[_N], stream[_SIZE]
    if streams.kind == IID:
        start = stream[_OFFSET] + (counter - stream[_FIRST_AT]) * size
        return Batch(start, start + size, 0, 1.0 / size, 0)
    if streams.kind == WINDOW:
        start = below(mix(stream[_KEY], counter), n)
        end = min(start + size, stream[_END])
        return Batch(start, end, start + size - end, 1.0 / size, 0)
    blocks = stream[_BLOCKS]
    epoch = counter // blocks
    if stream[_EPOCH] != epoch:
        reorder(mix(stream[_KEY], epoch), streams.order[role, :blocks])
        stream[_EPOCH] = epoch
    return block_of(streams, role, streams.order[role, counter - epoch * blocks])


@dual
def coin(streams: Streams, counter: int) -> float:
    """Return the coin of one counter, uniform in [0, 1).

    Parameters
    ----------
    streams : Streams
        The streams.
    counter : int
        The number of the draw.

    Returns
    -------
    float
        In [0, 1).
    """
    return unit(mix(streams.table[COIN, _KEY], counter))


def integer_state(random_state: Any) -> int:
    """Return the integer that gives the same run as a random state.

    Parameters
    ----------
    random_state : None, int or numpy.random.Generator
        None draws a fresh one, an integer stands for itself, a generator is asked for one and so moves on.

    Returns
    -------
    int
        At least 0.

    Raises
    ------
    TypeError, ValueError
        For anything else.
    """
    validate_random_state(random_state)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(1 << 64, dtype=np.uint64))
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    return int(random_state)


def seed_of(random_state: int) -> int:
    """Return the 64-bit seed of a run.

    Parameters
    ----------
    random_state : int
        From `integer_state`.

    Returns
    -------
    int
        The seed.
    """
    return int(np.random.SeedSequence(random_state).generate_state(1, np.uint64)[0])


def _mix_all(key: int | Array, counters: Array) -> Array:
    """Return `mix` of arrays of counters or keys, on which the arithmetic of the compiled form works as well."""
    with np.errstate(over="ignore"):
        return _mix_compiled(np.asarray(key, dtype=np.uint64), counters)


def shuffled(seed: int, level: str, n: int) -> Array:
    """Return the order in which the samples of a level are stored, a random permutation.

    Parameters
    ----------
    seed : int
        From `seed_of`.
    level : {"lower", "upper"}
        The level.
    n : int
        Its number of samples.

    Returns
    -------
    ndarray of int
        The original index of each stored row.
    """
    return np.argsort(_mix_all(mix(seed, _SHUFFLES[level]), np.arange(n)), kind="stable")


class Stream(NamedTuple):
    """One role of a run.

    Attributes
    ----------
    level : {"lower", "upper"}
        Which samples it draws.
    n, size : int
        Their number, and the size of a batch.
    draws : int
        Batches an iteration.
    """

    level: str
    n: int
    size: int
    draws: int = 1

    @property
    def blocks(self) -> int:
        """The blocks of an epoch."""
        return -(-self.n // self.size)


def make_streams(kind: int, seed: int, roles: Sequence[Stream], wraps: bool) -> Streams:
    """Return the streams of a run.

    Parameters
    ----------
    kind : int
        `EPOCH`, `WINDOW` or `IID`.
    seed : int
        From `seed_of`.
    roles : sequence of Stream
        All roles in order.
    wraps : bool
        Whether a window past the end is two ranges of rows; where not, rows are stored twice over.

    Returns
    -------
    Streams
        With nothing drawn yet.
    """
    table = np.zeros((len(roles), _COLUMNS), dtype=np.int64)
    for row, (role, stream) in zip(table, enumerate(roles), strict=True):
        row[_KEY] = np.uint64(mix(seed, role)).astype(np.int64)
        row[_N], row[_SIZE] = stream.n, stream.size
        row[_BLOCKS] = stream.blocks
        row[_END] = stream.n if wraps else 2 * stream.n
        row[_EPOCH] = -1
    width = int(table[:, _BLOCKS].max()) if kind == EPOCH else 1
    return Streams(kind, table, np.zeros((len(roles), width), dtype=np.int64))


def independent_rows(streams: Streams, roles: Sequence[Stream], level: str, start: int, stop: int) -> Array:
    """Return the rows of a level that iterations start .. stop - 1 draw, and note in the streams where they are.

    Parameters
    ----------
    streams : Streams
        Of kind `IID`.
    roles : sequence of Stream
        Its roles.
    level : {"lower", "upper"}
        The level.
    start, stop : int
        The iterations.

    Returns
    -------
    ndarray of int
        Stored rows in the order in which batches take them.
    """
    chosen, offset = [np.empty(0, dtype=np.int64)], 0
    for role, stream in enumerate(roles):
        if stream.level != level or not stream.draws:
            continue
        counters = np.arange(start * stream.draws, stop * stream.draws)
        keys = _mix_all(int(streams.table[role, _KEY]) & _MASK, counters)
        bits = _mix_all(keys[:, np.newaxis], np.arange(stream.size)[np.newaxis])
        chosen.append(_below_compiled(bits, stream.n).ravel())
        streams.table[role, _FIRST_AT], streams.table[role, _OFFSET] = start * stream.draws, offset
        offset += chosen[-1].size
    return np.concatenate(chosen)


def validate_batch_size(name: str, value: Any) -> None:
    """Raise unless `value` is a positive integer or ``"full"``.

    Parameters
    ----------
    name : str
        The option, for messages.
    value : int or "full"
        What was given.

    Raises
    ------
    TypeError, ValueError
        For anything else.
    """
    if not isinstance(value, str):
        integer(name, value, minimum=1)
    elif value != "full":
        raise ValueError(f"{name}: found {value!r}; expected a positive integer or 'full'")


def batch_size(name: str, value: int | str, n: int) -> int:
    """Return a validated batch size as a number.

    Parameters
    ----------
    name : str
        The option, for messages.
    value : int or "full"
        What was given.
    n : int
        How many samples there are.

    Returns
    -------
    int
        1 .. n.

    Raises
    ------
    ValueError
        If it is larger than `n`.
    """
    if isinstance(value, str):
        return n
    if value > n:
        raise ValueError(f"{name}: found {value}; expected at most {n}, the number of samples of that level")
    return int(value)

"""Minibatch samplers: which samples a batch holds, how often, and that a draw depends on its counter alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from nbo.sampling import (
    B1,
    B2,
    B3,
    COIN,
    EPOCH,
    IID,
    INNER,
    SAMPLERS,
    WINDOW,
    Stream,
    _below_compiled,
    _mix_all,
    _mix_compiled,
    _unit_compiled,
    batch_size,
    below,
    block_of,
    coin,
    draw,
    independent_rows,
    integer_state,
    make_streams,
    mix,
    reorder,
    seed_of,
    shuffled,
    unit,
    validate_batch_size,
)

SEEDS = st.integers(0, 2**64 - 1)
SIZES = st.integers(1, 50).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n)))


def roles_of(n, size, n_upper=7, upper_size=3, draws=1):
    """Four roles, the coin and two inner ones."""
    lower = Stream("lower", n, size, draws)
    return [lower, lower, Stream("upper", n_upper, upper_size), lower, Stream("none", 1, 1, 0), lower, lower]


def rows_of(batch, n):
    """The stored rows of a batch, where rows may be stored twice over."""
    return [i % n for i in range(batch.lo, batch.hi)] + list(range(batch.rest))


def drawn(kind, seed, role, counters, n=40, size=6, **kwargs):
    """The rows of some draws of one role."""
    roles = roles_of(n, size, **kwargs)
    streams = make_streams(kind, seed, roles, wraps=True)
    counters = list(counters)
    if kind != IID:
        return [rows_of(draw(streams, role, k), roles[role].n) for k in counters]
    rows = independent_rows(streams, roles, roles[role].level, 0, max(counters) + 1)
    return [rows[(b := draw(streams, role, k)).lo : b.hi].tolist() for k in counters]


def p_value(found, n):
    """Of the hypothesis that numbers 0 .. n - 1 are equally likely."""
    return stats.chisquare(np.bincount(np.ravel(found), minlength=n)).pvalue


@given(SIZES, SEEDS)
def test_an_epoch_takes_every_sample_once_in_balanced_blocks(sizes, seed):
    n, size = sizes
    blocks = -(-n // size)
    streams = make_streams(EPOCH, seed, roles_of(n, size), wraps=False)
    for epoch in range(3):
        batches = [draw(streams, B2, epoch * blocks + j) for j in range(blocks)]
        assert sorted(i for batch in batches for i in rows_of(batch, n)) == list(range(n))
        lengths = [batch.hi - batch.lo for batch in batches]
        assert max(lengths) - min(lengths) <= 1 and 1 <= max(lengths) <= size
        assert sorted(batch.block for batch in batches) == list(range(blocks))
        for batch in batches:
            assert batch.rest == 0 and batch.scale == blocks / n
            assert tuple(batch) == tuple(block_of(streams, B2, batch.block))


def test_every_epoch_has_an_order_of_its_own():
    n_blocks, epochs = 20, 50
    streams = make_streams(EPOCH, 5, roles_of(40, 2), wraps=False)
    blocks = [draw(streams, B1, k).block for k in range(n_blocks * epochs)]
    orders = {tuple(blocks[e * n_blocks : (e + 1) * n_blocks]) for e in range(epochs)}
    assert len(orders) == epochs
    assert tuple(range(n_blocks)) not in orders  # neither is the first one as stored


def test_blocks_come_equally_often_at_each_place_of_an_epoch():
    streams = make_streams(EPOCH, 11, roles_of(10, 2), wraps=False)
    blocks = np.array([draw(streams, B1, k).block for k in range(5 * 600)]).reshape(600, 5)
    for place in blocks.T:
        assert p_value(place, 5) > 1e-3


@given(SIZES, SEEDS, st.lists(st.integers(0, 300), min_size=1, max_size=12))
def test_a_draw_depends_on_its_counter_alone(sizes, seed, counters):
    n, size = sizes
    for kind in (EPOCH, WINDOW):
        streams = make_streams(kind, seed, roles_of(n, size), wraps=False)
        for k in counters:
            fresh = make_streams(kind, seed, roles_of(n, size), wraps=False)
            assert tuple(draw(streams, B2, k)) == tuple(draw(fresh, B2, k))


@given(SIZES, SEEDS, st.integers(0, 10**12))
def test_windows_are_neighbours_and_start_again_past_the_end(sizes, seed, k):
    n, size = sizes
    two_ranges = draw(make_streams(WINDOW, seed, roles_of(n, size), wraps=True), B2, k)
    doubled = draw(make_streams(WINDOW, seed, roles_of(n, size), wraps=False), B2, k)
    assert rows_of(two_ranges, n) == rows_of(doubled, n) == [(two_ranges.lo + i) % n for i in range(size)]
    assert two_ranges.hi <= n and doubled.hi <= 2 * n and doubled.rest == 0
    assert two_ranges.hi - two_ranges.lo + two_ranges.rest == size
    assert two_ranges.scale == doubled.scale == 1 / size


def test_windows_start_anywhere_equally_often():
    streams = make_streams(WINDOW, 3, roles_of(13, 5), wraps=True)
    starts = [draw(streams, B1, k).lo for k in range(4000)]
    assert p_value(starts, 13) > 1e-3
    assert p_value([13 * a + b for a, b in itertools.pairwise(starts)], 169) > 1e-3


@settings(max_examples=50)
@given(SIZES, SEEDS, st.integers(0, 1000), st.integers(1, 3), st.data())
def test_independent_samples_do_not_depend_on_chunks(sizes, seed, start, draws, data):
    n, size = sizes
    roles = roles_of(n, size, draws=draws)
    cuts = data.draw(st.lists(st.integers(start + 1, start + 9), max_size=4))
    edges = sorted({start, start + 10, *cuts})
    results = []
    for chunks in ([(start, start + 10)], list(itertools.pairwise(edges))):
        streams, found = make_streams(IID, seed, roles, wraps=True), []
        for k0, k1 in chunks:
            rows = {level: independent_rows(streams, roles, level, k0, k1) for level in ("lower", "upper")}
            for role in (B1, B2, B3, INNER, INNER + 1):
                level, times = roles[role].level, roles[role].draws
                for counter in range(k0 * times, k1 * times):
                    batch = draw(streams, role, counter)
                    assert batch.hi - batch.lo == roles[role].size and batch.rest == 0
                    assert batch.scale == 1 / roles[role].size and batch.hi <= rows[level].size
                    found.append((role, counter, rows[level][batch.lo : batch.hi].tolist()))
        results.append(sorted(found))
    assert results[0] == results[1]
    assert all(0 <= i < roles[role].n for role, _, batch in results[0] for i in batch)


def test_chunks_of_independent_samples_hold_what_batches_take_and_no_more():
    roles = roles_of(40, 6)
    streams = make_streams(IID, 1, roles, wraps=True)
    assert independent_rows(streams, roles, "lower", 4, 9).size == 5 * 6 * 5
    assert independent_rows(streams, roles, "upper", 4, 9).size == 5 * 3


def test_independent_samples_are_uniform_and_independent():
    rows = np.ravel(drawn(IID, 8, B1, range(1500), n=11, size=5))
    assert rows.size == 7500
    assert p_value(rows, 11) > 1e-3
    assert p_value(11 * rows[:-1:2] + rows[1::2], 121) > 1e-3
    assert p_value(11 * rows[:-5] + rows[5:], 121) > 1e-3  # one batch and the next


@pytest.mark.parametrize("kind", SAMPLERS.values(), ids=SAMPLERS)
def test_roles_and_seeds_are_streams_of_their_own(kind):
    found = [tuple(map(tuple, drawn(kind, 9, role, range(30)))) for role in (B1, B2, 3, INNER, INNER + 1)]
    found += [tuple(map(tuple, drawn(kind, 10, B1, range(30))))]
    assert len(set(found)) == len(found)
    assert found[0] == tuple(map(tuple, drawn(kind, 9, B1, range(30))))
    if kind != EPOCH:  # neither is one role another one, some draws later
        first, second = ([tuple(b) for b in drawn(kind, 9, r, range(200))] for r in (INNER, INNER + 1))
        assert sum(a == b for shift in range(20) for a, b in zip(first[shift:], second, strict=False)) < 400


def test_two_roles_are_uncorrelated():
    streams = make_streams(WINDOW, 21, roles_of(8, 2), wraps=True)
    pairs = [8 * draw(streams, INNER, k).lo + draw(streams, INNER + 1, k).lo for k in range(4000)]
    assert p_value(pairs, 64) > 1e-3


def test_coins_are_uniform_and_no_batch_role():
    streams = make_streams(EPOCH, 4, roles_of(40, 6), wraps=True)
    coins = np.array([coin(streams, k) for k in range(4000)])
    assert stats.kstest(coins, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(coins[:-1], coins[1:])[0, 1]) < 0.05
    assert coins[17] == unit(mix(int(streams.table[COIN, 0]), 17))


def test_splitmix64():
    """Known outputs of the generator, for the states 0 and 1234567."""
    assert [mix(0, k) for k in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [mix(1234567, k) for k in range(2)] == [6457827717110365317, 3203168211198807973]


@given(SEEDS, st.lists(st.integers(0, 2**62), min_size=1, max_size=5))
def test_random_bits_are_the_same_in_all_three_forms(key, counters):
    plain = [mix(key, k) for k in counters]
    signed = np.uint64(key).astype(np.int64)  # as tables of streams hold keys
    assert plain == [mix(signed, np.int64(k)) for k in counters]
    assert plain == _mix_all(key, np.array(counters)).tolist()
    assert plain == [int(_mix_all(np.array([key], np.uint64), np.array([k]))[0]) for k in counters]
    with np.errstate(over="ignore"):
        assert plain == [int(_mix_compiled(signed, np.int64(k))) for k in counters]


@given(SEEDS, st.integers(1, 10**6))
def test_numbers_from_bits_are_the_same_in_both_forms(bits, n):
    assert 0 <= below(bits, n) < n and below(bits, n) == _below_compiled(np.uint64(bits), np.int64(n))
    assert 0 <= unit(bits) < 1 and unit(bits) == _unit_compiled(np.uint64(bits))


def test_numbers_from_bits_reach_both_ends():
    assert below(0, 7) == 0 and below(2**64 - 1, 7) == 6
    assert unit(0) == 0 and unit(2**64 - 1) == 1 - 2.0**-53
    assert p_value([below(mix(1, k), 6) for k in range(6000)], 6) > 1e-3


def test_permutations_are_equally_likely():
    order, found = np.zeros(4, dtype=np.int64), []
    numbers = {p: i for i, p in enumerate(itertools.permutations(range(4)))}
    for key in range(4800):
        reorder(mix(77, key), order)
        found.append(numbers[tuple(order)])
    assert p_value(found, 24) > 1e-3


@given(SEEDS, st.integers(1, 60))
def test_shuffles_are_permutations(seed, n):
    order = shuffled(seed, "lower", n)
    np.testing.assert_array_equal(np.sort(order), np.arange(n))
    np.testing.assert_array_equal(order, shuffled(seed, "lower", n))


def test_shuffles_are_uniform_and_differ_by_level_and_seed():
    assert not np.array_equal(shuffled(1, "lower", 50), shuffled(1, "upper", 50))
    assert not np.array_equal(shuffled(1, "lower", 50), shuffled(2, "lower", 50))
    places = np.array([shuffled(seed_of(k), "upper", 6) for k in range(3000)])
    for place in places.T:
        assert p_value(place, 6) > 1e-4


def test_seeds():
    assert integer_state(10**30) == 10**30
    assert integer_state(np.int32(3)) == 3 and type(integer_state(np.int32(3))) is int
    assert integer_state(None) != integer_state(None)
    first, second = np.random.default_rng(0), np.random.default_rng(0)
    states = [integer_state(first) for _ in range(20)]
    assert len(set(states)) == 20
    assert states == [integer_state(second) for _ in range(20)]
    seeds = [seed_of(state) for state in (*states, 0, 10**30)]
    assert len(set(seeds)) == 22
    assert max(seeds) >= 2**63 and all(0 <= seed < 2**64 for seed in seeds)


@pytest.mark.parametrize("random_state", [-1, 1.5, "0", True, np.random.RandomState(0)])
def test_other_random_states_are_refused(random_state):
    with pytest.raises((TypeError, ValueError), match="random_state: found"):
        integer_state(random_state)


def test_batch_sizes():
    assert batch_size("batch_size", "full", 9) == batch_size("batch_size", 9, 9) == 9
    assert batch_size("batch_size", np.int64(1), 9) == 1
    with pytest.raises(ValueError, match=r"batch_sizes\['B2'\]: found 10; expected at most 9, the number of samples"):
        batch_size("batch_sizes['B2']", 10, 9)
    for value in (1, np.int64(7), 10**9, "full"):
        validate_batch_size("batch_size", value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "found 0; expected an integer >= 1"),
        (-1, "found -1"),
        (1.5, r"found 1\.5"),
        (True, "found True"),
        (None, "found None"),
        ("half", "found 'half'; expected .*'full'"),
    ],
)
def test_other_batch_sizes_are_refused(value, message):
    with pytest.raises((TypeError, ValueError), match=r"batch_sizes\['B2'\]: " + message):
        validate_batch_size("batch_sizes['B2']", value)

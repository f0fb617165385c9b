"""Estimators of the directions: unbiased, equal to a plain reimplementation, exact where they ought to be."""

from __future__ import annotations

import copy
import math
import tracemalloc

import numpy as np
import pytest
from reference_problems import PlainLogistic, SampledQuadratic, logistic_data

import nbo
from nbo.coordinates import Dense, Room
from nbo.gradient_estimators import PAGE, SAGA, SGD, STORM, Point, estimate, new_point
from nbo.minibatches import Kernels, Oracles, SharedOracles, components, empty_components, full_components
from nbo.oracles import KINDS
from nbo.plain_oracles import PlainOracles
from nbo.sampling import B2, B3, EPOCH, IID, WINDOW, Stream, coin, draw, make_streams
from nbo.solvers import REGISTRY

#: Sizes of B1, B2, B3 and B4: 2, 4, 6 and 3 blocks of 23 lower and 17 upper samples, and their least common multiple.
SIZES, PERIOD = (12, 6, 3, 8), 12
PARTS = ("grad", "hvp", "jvp", "upper_x", "upper_y")


def logistic(dtype=np.float64):
    A, b, A_val, b_val = logistic_data(23, 17, 4)
    return PlainLogistic(A.astype(dtype), b, A_val.astype(dtype), b_val)


PROBLEMS = {"logistic": logistic, "quadratic": SampledQuadratic}


@pytest.fixture(params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param]()


def oracles(problem, *, sizes=SIZES, kind=EPOCH, share=False, seed=7):
    """What a loop gets of a problem."""
    n, n_upper = problem.n_samples_lower, problem.n_samples_upper
    levels = (("lower", n), ("lower", n), ("upper", n_upper), ("lower", n))
    roles = [Stream(level, count, size) for (level, count), size in zip(levels, sizes, strict=True)]
    backend = PlainOracles(problem)
    streams = make_streams(kind, seed, [*roles, Stream("none", 1, 1, 0)], wraps=True)
    data = backend.data(seed)
    counts = np.zeros((2, len(KINDS)), dtype=np.int64)
    return (SharedOracles if share else Oracles)(backend.kernels(Kernels._fields), data, streams, counts, Dense())


def room_of(problem):
    """Room for vectors like x throughout."""
    return Room(problem.dim_x, problem.dim_x)


def memory_of(method, problem, o, **options):
    """The memory that a method makes for the blocks of `oracles`."""
    solver = REGISTRY[method](step_size=0.1, share_batches=isinstance(o, SharedOracles), **options)
    streams = [Stream("lower", int(n), int(size)) for n, size in o.streams.table[:4, 1:3]]
    return solver.memory(problem, room_of(problem), streams, o.data, np.dtype(problem.dtype))


def point_of(problem, seed):
    rng = np.random.default_rng(seed)
    x, y, u = rng.standard_normal(problem.dim_x), *rng.standard_normal((2, problem.dim_y)).astype(problem.dtype)
    return new_point(x, y, u, room_of(problem))


def as_dict(parts):
    return {"grad": parts.lower[0], "hvp": parts.lower[1]} | {k: getattr(parts, k) for k in PARTS[2:]}


def full(problem, point, lower=None, upper=None):
    """The five parts over all or some samples, straight from the problem."""
    x, y, u = point.x, point.y, point.u
    products = (getattr(problem, name)(x, y, u, batch=lower) for name in ("lower_hvp", "lower_jvp"))
    parts = problem.lower_grad_y(x, y, batch=lower), *products, *problem.upper_grad(x, y, batch=upper)
    return dict(zip(PARTS, parts, strict=True))


def directions(parts):
    return np.concatenate((parts["grad"], parts["hvp"] - parts["upper_y"], parts["upper_x"] - parts["jvp"]))


def found_directions(point: Point):
    return np.concatenate((point.d[0], point.d[1], point.d_x))


def parts_of(problem, o, point, k):
    """The five parts on the batches of one iteration."""
    parts = empty_components(room_of(problem), problem.dim_y, problem.dtype)
    components(o, k, point.x, point.y, point.u, parts)
    return as_dict(parts)


def estimated(memory):
    """Where an estimator with a memory leaves the five parts."""
    return as_dict(memory.estimate if isinstance(memory, (STORM, PAGE)) else memory.parts)


def mean_over_epochs(memory, o, point, start, momentum=0.0):
    """The mean of the estimates of `PERIOD` iterations, which take every block of every role equally often."""
    totals = dict.fromkeys(PARTS, 0.0)
    for k in range(start, start + PERIOD):
        trial = copy.deepcopy(memory)
        estimate(trial, o, point, k, momentum)
        found = estimated(trial)
        np.testing.assert_allclose(found_directions(point), directions(found), rtol=0, atol=1e-15)
        totals = {name: totals[name] + found[name] / PERIOD for name in PARTS}
    return totals


def assert_parts(found, expected, atol=1e-12):
    for name in PARTS:
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=atol, err_msg=name)


@pytest.mark.parametrize("share", [False, True])
def test_single_blocks_differ_from_the_whole(problem, share):
    """Without which the tests below could not fail."""
    o, point = oracles(problem, share=share), point_of(problem, 1)
    parts = parts_of(problem, o, point, 0)
    same = {name for name, value in full(problem, point).items() if np.allclose(parts[name], value, atol=1e-3)}
    assert same == (set() if isinstance(problem, SampledQuadratic) else {"upper_x"})  # which is zero


@pytest.mark.parametrize("share", [False, True])
def test_sgd_is_unbiased(problem, share):
    o, point, total = oracles(problem, share=share), point_of(problem, 1), 0.0
    totals, iterations = dict.fromkeys(PARTS, 0.0), range(10 * PERIOD, 11 * PERIOD)
    for k in iterations:
        parts = parts_of(problem, o, point, k)
        estimate(SGD(), o, point, k, 0.0)
        np.testing.assert_allclose(found_directions(point), directions(parts), rtol=0, atol=1e-14)
        totals = {name: totals[name] + parts[name] / PERIOD for name in PARTS}
        total += found_directions(point) / PERIOD
    assert_parts(totals, full(problem, point))
    np.testing.assert_allclose(total, directions(full(problem, point)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("share", [False, True])
def test_saga_is_unbiased(problem, share):
    o, point = oracles(problem, share=share), point_of(problem, 1)
    memory = memory_of("nsbo-saga", problem, o)
    for k in range(17):  # fills a memory at other points
        estimate(memory, o, point_of(problem, 100 + k), k, 0.0)
    assert_parts(mean_over_epochs(memory, o, point, 10 * PERIOD), full(problem, point))


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.7, 1.0])
def test_increments_of_storm_are_unbiased(problem, momentum, share):
    o, old, new = oracles(problem, share=share), point_of(problem, 1), point_of(problem, 2)
    memory = memory_of("nsbo-storm", problem, o)
    estimate(memory, o, point_of(problem, 3), 0, momentum)
    estimate(memory, o, old, 1, momentum)
    last, at_old, at_new = copy.deepcopy(estimated(memory)), full(problem, old), full(problem, new)
    expected = {name: at_new[name] + momentum * (last[name] - at_old[name]) for name in PARTS}
    assert_parts(mean_over_epochs(memory, o, new, PERIOD, momentum), expected)


@pytest.mark.parametrize("share", [False, True])
def test_increments_of_page_are_unbiased(problem, share):
    o, old, new = oracles(problem, share=share), point_of(problem, 1), point_of(problem, 2)
    memory = memory_of("nsbo-page", problem, o, probability=0.0)
    estimate(memory, o, point_of(problem, 3), 0, 0.0)
    assert_parts(estimated(memory), full(problem, point_of(problem, 3)))
    estimate(memory, o, old, 1, 0.0)
    last, at_old, at_new = copy.deepcopy(estimated(memory)), full(problem, old), full(problem, new)
    expected = {name: last[name] + at_new[name] - at_old[name] for name in PARTS}
    assert_parts(mean_over_epochs(memory, o, new, PERIOD), expected)


def test_windows_are_unbiased(problem):
    """The mean over windows from every start, each of which is equally likely."""
    o, point = oracles(problem, sizes=(5, 5, 4, 5), kind=WINDOW, share=True), point_of(problem, 1)
    lower, upper = {}, {}
    for k in range(400):
        parts = parts_of(problem, o, point, k)
        estimate(SGD(), o, point, k, 0.0)
        np.testing.assert_allclose(found_directions(point), directions(parts), rtol=0, atol=1e-14)
        lower[draw(o.streams, B2, k).lo] = [parts[name] for name in PARTS[:3]]
        upper[draw(o.streams, B3, k).lo] = [parts[name] for name in PARTS[3:]]
    assert sorted(lower) == list(range(23)) and sorted(upper) == list(range(17))
    means = [np.mean(parts, axis=0) for level in (lower, upper) for parts in zip(*level.values(), strict=True)]
    assert_parts(dict(zip(PARTS, means, strict=True)), full(problem, point))


def test_independent_samples_count_as_often_as_they_were_drawn(problem):
    lower, upper = np.array([3, 3, 22, 0, 3]), np.array([16, 5, 16, 1])
    o, point = oracles(problem, sizes=(5, 5, 4, 5), kind=IID, share=True), point_of(problem, 1)
    o = o._replace(data=PlainOracles(problem).chosen(lower, upper))
    expected = full(problem, point, lower, upper)
    assert_parts(parts_of(problem, o, point, 0), expected)
    estimate(SGD(), o, point, 0, 0.0)
    np.testing.assert_allclose(found_directions(point), directions(expected), rtol=0, atol=1e-12)


def saga_by_hand(problem, o, points, full_start):
    """Directions of SAGA from tables of all rows and their means, computed afresh each time."""
    first, roles = (
        points[0],
        {
            "grad": 1,
            "hvp": 1 if isinstance(o, SharedOracles) else 0,
            "jvp": 1 if isinstance(o, SharedOracles) else 3,
            "upper": 2,
        },
    )

    def block(kind, j, p):
        n, blocks = o.streams.table[roles[kind], 1], o.streams.table[roles[kind], 3]
        lo, hi = j * n // blocks, (j + 1) * n // blocks
        rows = (o.data.upper if kind == "upper" else o.data.lower)[-1]
        batch, factor = rows[lo:hi], (hi - lo) * blocks / n
        if kind == "upper":
            return factor * np.concatenate(problem.upper_grad(p.x, p.y, batch=batch))
        name = {"grad": "lower_grad_y", "hvp": "lower_hvp", "jvp": "lower_jvp"}[kind]
        return factor * getattr(problem, name)(p.x, p.y, *(() if kind == "grad" else (p.u,)), batch=batch)

    tables = {
        kind: np.array([block(kind, j, first) for j in range(o.streams.table[role, 3])]) * full_start
        for kind, role in roles.items()
    }
    for k, p in enumerate(points):
        found = {}
        for kind, role in roles.items():
            j, table = draw(o.streams, role, k).block, tables[kind]
            new, mean = block(kind, j, p), table.mean(0)
            found[kind] = new - table[j] + mean
            table[j] = new
        m = problem.dim_x
        upper = found.pop("upper")
        yield directions(found | {"upper_x": upper[:m], "upper_y": upper[m:]})


@pytest.mark.parametrize("initialization", ["full", "zero"])
@pytest.mark.parametrize("share", [False, True])
def test_saga_equals_one_that_keeps_all_rows(problem, share, initialization):
    o = oracles(problem, share=share)
    memory = memory_of("nsbo-saga", problem, o, initialization=initialization)
    points = [point_of(problem, k) for k in range(40)]
    expected = list(saga_by_hand(problem, oracles(problem, share=share), points, initialization == "full"))
    for k, (point, wanted) in enumerate(zip(points, expected, strict=True)):
        estimate(memory, o, point, k, 0.0)
        np.testing.assert_allclose(found_directions(point), wanted, rtol=0, atol=1e-12, err_msg=f"{k}")


def means(memory: SAGA):
    in_x = memory.mean_jvp, memory.mean_upper_x
    return dict(zip(PARTS, (memory.mean_y[0], memory.mean_y[1], *in_x, memory.mean_y[2]), strict=True))


@pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 1e-12), (np.float32, 2e-6)], ids=["double", "single"])
@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_mean_of_saga_is_the_mean_of_its_rows(name, share, dtype, atol):
    problem = PROBLEMS[name](dtype)
    o, rng = oracles(problem, share=share), np.random.default_rng(0)
    memory, point = memory_of("nsbo-saga", problem, o), point_of(problem, 0)
    estimate(memory, o, point, 0, 0.0)
    exact = full(problem, point)
    assert_parts(means(memory), exact, atol)  # full initialisation
    np.testing.assert_allclose(found_directions(point), directions(exact), rtol=0, atol=10 * atol)
    for k in range(1, 1000):
        for part in (point.x, point.y, point.u):
            part[:] = 0.9 * part + 0.1 * rng.standard_normal(part.shape)
        estimate(memory, o, point, k, 0.0)
    assert all(getattr(memory, part).dtype == dtype for part in PARTS)
    assert_parts(means(memory), {part: getattr(memory, part).mean(0, dtype=np.float64) for part in PARTS}, atol)
    assert np.abs(means(memory)["grad"] - exact["grad"]).max() > 1e-2


def test_a_first_pass_fills_a_memory_of_zeros():
    problem = SampledQuadratic()
    o, point = oracles(problem, sizes=(6, 6, 5, 6), share=True), point_of(problem, 1)
    memory = memory_of("nsbo-saga", problem, o, initialization="zero")
    for k in range(4):
        estimate(memory, o, point, k, 0.0)
    assert_parts(means(memory), full(problem, point))
    assert o.counts[0].sum() == 4 * 4


@pytest.mark.parametrize("share", [False, True])
def test_storm_without_momentum_is_sgd(problem, share):
    ours, theirs = oracles(problem, share=share), oracles(problem, share=share)
    storm, sgd = memory_of("nsbo-storm", problem, ours), memory_of("nsbo-sgd", problem, theirs)
    assert isinstance(storm, STORM) and isinstance(sgd, SGD)
    for k in range(9):
        a, b = point_of(problem, k), point_of(problem, k)
        estimate(storm, ours, a, k, 0.0)
        estimate(sgd, theirs, b, k, 0.0)
        np.testing.assert_array_equal(found_directions(a), found_directions(b))


def test_page_with_probability_one_is_the_full_batch(problem):
    o = oracles(problem)
    memory = memory_of("nsbo-page", problem, o, probability=1.0)
    for k in range(5):
        point = point_of(problem, k)
        estimate(memory, o, point, k, 0.0)
        np.testing.assert_allclose(found_directions(point), directions(full(problem, point)), rtol=0, atol=1e-14)
    samples = dict(zip(KINDS, o.counts[1].tolist(), strict=True))
    assert samples["lower_grad_y"] == samples["lower_hvp"] == samples["lower_jvp"] == 5 * 23
    assert samples["upper_grad"] == 5 * 17


def test_page_takes_all_samples_when_the_coin_says_so():
    problem = SampledQuadratic()
    o, size = oracles(problem), SIZES[1]
    memory, k_all = memory_of("nsbo-page", problem, o), []
    assert memory.probability == size / (23 + size)
    for k in range(300):
        before = o.counts[0].sum()
        estimate(memory, o, point_of(problem, 0), k, 0.0)
        calls = o.counts[0].sum() - before
        assert calls in (4, 8)
        if calls == 4:
            k_all.append(k)
    assert k_all == [k for k in range(300) if k == 0 or coin(o.streams, k) < memory.probability]
    expected, deviation = 300 * memory.probability, math.sqrt(300 * memory.probability * (1 - memory.probability))
    assert abs(len(k_all) - expected) < 3 * deviation


def test_parts_over_all_samples(problem):
    o, point = oracles(problem), point_of(problem, 4)
    parts = empty_components(room_of(problem), problem.dim_y, problem.dtype)
    full_components(o, point.x, point.y, point.u, parts)
    assert_parts(as_dict(parts), full(problem, point), atol=1e-14)


def test_the_choice_follows_the_class_of_the_memory():
    with pytest.raises(KeyError):
        estimate((), None, None, 0, 0.0)


def test_a_new_point_is_a_copy():
    x, y = np.ones(2), np.ones(3, dtype=np.float32)
    point = new_point(x, y, y, Room(2, 2))
    point.x[:], point.y[:] = 5, 6
    assert (x == 1).all() and (y == 1).all() and (point.u == 1).all()
    assert point.d.dtype == point.V.dtype == np.float32 and point.d_x.dtype == np.float64


def test_room_in_the_space_of_x_follows_what_is_reached():
    """D_x has the length of J u, grad_1 f none where it is zero; x itself stays whole."""
    point, parts = new_point(np.ones(9), np.ones(2), np.ones(2), Room(3, 0)), empty_components(Room(3, 0), 2, float)
    assert (point.x.shape, point.x_left.shape, point.average.shape, point.d_x.shape) == ((9,), (9,), (9,), (3,))
    assert (parts.jvp.shape, parts.upper_x.shape, parts.lower.shape) == ((3,), (0,), (2, 2))


def test_an_iteration_of_saga_does_not_copy_its_table():
    """Public code copies the whole of it; here an iteration allocates a few vectors, whatever the number of rows."""
    problem = PlainLogistic(*logistic_data(2000, 400, 50))
    solver = REGISTRY["saba"](step_size=0.01, inner_step_size=0.1, batch_size=2, initialization="zero")
    table, passing = 1000 * 50 * 8, []  # bytes of the smallest of its parts, and what comes and goes

    def watched(intermediate_result):
        now, peak = tracemalloc.get_traced_memory()
        passing.append(peak - now)
        tracemalloc.reset_peak()

    tracemalloc.start()
    try:
        nbo.minimize(problem, np.full(50, -1.0), method=solver, max_iter=40, random_state=0, callback=watched)
    finally:
        tracemalloc.stop()
    assert len(passing) == 20 and max(passing[1:]) < 0.2 * table

"""Stochastic methods on plain problems: what they compute, count, refuse, and how their runs end."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from reference_problems import DRAWN, STOCHASTIC, PlainLogistic, SelfCounting, calls, logistic_data

import nbo
from nbo.linear_solvers import CurvatureError
from nbo.sampling import seed_of, shuffled
from nbo.schedules import PowerDecay
from nbo.solvers import REGISTRY, stochastic

DATA = logistic_data(61, 43, 4)
STEPS = {"step_size": 0.05, "inner_step_size": 0.5}
SAGA_METHODS = [name for name in STOCHASTIC if "initialization" in nbo.methods()[name].options]
PAGE_METHODS = [name for name in STOCHASTIC if "probability" in nbo.methods()[name].options]
AVERAGED = ["ma-nsbo-saga", "ma-saba"]
ZERO = {"initialization": "zero"}
#: Every method with every sampler that it accepts.
RUNS = [(m, s) for m in STOCHASTIC for s in ("epoch", "window", "iid") if s == "epoch" or m not in SAGA_METHODS]
X0 = np.full(4, -2.0)
#: A start whose first d_x is not zero.
START = {"y0": [0.5, -1.0, 0.3, 0.8], "u0": [1.0, 0.4, -0.6, 0.2]}


@pytest.fixture
def problem():
    return PlainLogistic(*DATA)


def run(problem, method, *, max_iter=25, seed=5, x0=X0, keywords=(), **options):
    """A run with fixed steps and batches of 8, unless options say otherwise."""
    return nbo.minimize(
        problem, x0, method=method, max_iter=max_iter, random_state=seed,
        options=STEPS | {"batch_size": 8} | options, **dict(keywords),
    )  # fmt: skip


def assert_same(a, b, atol=None):
    """The same iterates, to the bit unless a tolerance is given."""
    for part in ("x", "y", "u", "jac"):
        if atol is None:
            np.testing.assert_array_equal(a[part], b[part], err_msg=part)
        else:
            np.testing.assert_allclose(a[part], b[part], rtol=0, atol=atol, err_msg=part)
    assert a.nit == b.nit


# Methods


def assert_same_run(found, expected, counts=True):
    """The same course of two full-batch methods, to rounding."""
    assert_same(found, expected, atol=1e-12)
    for column in ("value", "hypergrad_norm", "lower_grad_norm", "adjoint_residual"):
        np.testing.assert_allclose(found.history[column], expected.history[column], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found.history.iteration, expected.history.iteration)
    if counts:
        assert found.counts == expected.counts and found.samples == expected.samples


@pytest.mark.parametrize(
    ("method", "options", "deterministic", "theirs"),
    [
        ("soba", {}, "nbo-gd", {"n_inner": 0}),
        ("soba", {"share_batches": False}, "nbo-gd", {"n_inner": 0}),
        ("nsbo-sgd", {"n_inner": 0}, "nbo-gd", {"n_inner": 0}),
        ("nsbo-sgd", {"n_inner": 1}, "nbo-gd", {"n_inner": 1}),
        ("nsbo-sgd", {"n_inner": 4, "share_batches": True}, "nbo-gd", {"n_inner": 4}),
        ("nsbo-storm", {"n_inner": 2}, "nbo-gd", {"n_inner": 2}),
        ("nsbo-page", {"n_inner": 2}, "nbo-gd", {"n_inner": 2}),
        ("nsbo-page", {"n_inner": 2, "probability": 1.0}, "nbo-gd", {"n_inner": 2}),
        ("nsbo-saga", {"n_inner": 3}, "nbo-gd", {"n_inner": 3}),
        ("saba", {}, "nbo-gd", {"n_inner": 0}),
        ("spaba", {}, "nbo-gd", {"n_inner": 0}),
        ("amigo-sgd", {"n_lower_steps": 3}, "amigo-gd", {"n_lower_steps": 3}),
        ("amigo-sgd", {"n_lower_steps": 2, "n_linear_steps": 5}, "amigo-gd", {"n_lower_steps": 2, "n_linear_steps": 5}),
        ("amigo-sgd", {"n_lower_steps": 4, "n_linear_steps": 1}, "amigo-gd", {"n_lower_steps": 4, "n_linear_steps": 1}),
    ],
    ids=lambda value: value if isinstance(value, str) else "".join(f"{k}={v}" for k, v in value.items()),
)
@pytest.mark.parametrize("sampler", ["epoch", "window"])
def test_full_batches_give_the_deterministic_method(problem, method, options, deterministic, theirs, sampler):
    if sampler == "window" and method in SAGA_METHODS:
        sampler = "epoch"
    found = run(problem, method, batch_size="full", eval_every=1, sampler=sampler, **options)
    expected = nbo.minimize(problem, X0, method=deterministic, tol=0, max_iter=25, options=STEPS | theirs)
    one_point = method in ("soba", "nsbo-sgd", "amigo-sgd") or options.get("probability") == 1.0
    assert_same_run(found, expected, counts=one_point)
    if method in SAGA_METHODS:  # and an epoch to fill the memory
        extra = nbo.OracleCounts(upper_grad=1, lower_grad_y=1, lower_hvp=1, lower_jvp=1)
        assert found.counts == expected.counts + extra


@pytest.mark.parametrize("method", STOCHASTIC)
def test_a_problem_without_samples_is_one_sample(method):
    plain = nbo.problems.Quadratic.family(n=5, m=3, kappa=4)
    samplers = ["epoch"] if method in SAGA_METHODS else ["epoch", "window", "iid"]
    runs = []
    for sampler in samplers:
        counting = SelfCounting(plain)
        options = {"step_size": 0.006, "inner_step_size": 1.0, "sampler": sampler, "probability": 0.0}
        options |= {"n_linear_steps": 40, "truncation": "sum", "multiplier": 3000.0}
        options = {name: value for name, value in options.items() if name in nbo.methods()[method].options}
        runs.append(nbo.minimize(counting, np.zeros(3), method=method, max_iter=600, random_state=0, options=options))
        np.testing.assert_allclose(runs[-1].x, plain.x_star(), atol=1e-3)
        assert runs[-1].counts + runs[-1].evaluation_counts == counting.seen()
        assert runs[-1].samples == runs[-1].counts
        assert_same(runs[-1], runs[0])


@pytest.mark.parametrize(
    ("method", "options", "general", "theirs"),
    [
        ("soba", {}, "nsbo-sgd", {"n_inner": 0, "share_batches": True}),
        ("soba", {"share_batches": False}, "nsbo-sgd", {"n_inner": 0}),
        ("saba", {}, "nsbo-saga", {"n_inner": 0, "share_batches": True}),
        ("saba", ZERO, "nsbo-saga", ZERO | {"n_inner": 0, "share_batches": True}),
        ("ma-saba", {"momentum": 0.8}, "ma-nsbo-saga", {"n_inner": 0, "share_batches": True, "momentum": 0.8}),
        ("ma-saba", {"momentum": 0.0}, "saba", {}),
        ("ma-nsbo-saga", {"momentum": 0.0}, "nsbo-saga", {}),
        ("spaba", {}, "nsbo-page", {"n_inner": 0, "share_batches": True}),
        ("nsbo-storm", {"momentum": 0.0, "n_inner": 2}, "nsbo-sgd", {"n_inner": 2}),
        ("nsbo-storm", {"momentum": 0.0, "share_batches": True}, "nsbo-sgd", {"share_batches": True}),
    ],
)  # fmt: skip
def test_methods_are_special_cases_of_others(problem, method, options, general, theirs):
    assert_same(run(problem, method, max_iter=40, **options), run(problem, general, max_iter=40, **theirs))


@pytest.mark.parametrize("method", ["nsbo-page", "spaba"])
def test_page_with_probability_one_uses_all_samples(problem, method):
    """Of the inner Hessians, which stay minibatches, there are none here."""
    inner = {} if method == "spaba" else {"n_inner": 0}
    found = run(problem, method, probability=1.0, **inner)
    assert_same(found, run(problem, "soba", batch_size="full"))


@pytest.mark.parametrize(("averaged", "plain"), [("ma-saba", "saba"), ("ma-nsbo-saga", "nsbo-saga")])
def test_the_average_starts_at_the_first_direction(problem, averaged, plain):
    first = run(problem, averaged, max_iter=1, momentum=0.9, keywords=START)
    assert_same(first, run(problem, plain, max_iter=1, keywords=START))
    assert np.abs(first.jac).max() > 1e-2
    second = run(problem, averaged, max_iter=2, momentum=0.9, keywords=START)
    average = 0.9 * first.jac + 0.1 * second.jac
    np.testing.assert_allclose(second.x, X0 - 0.05 * (first.jac + average), rtol=0, atol=1e-14)
    assert np.abs(first.jac - second.jac).max() > 1e-3


@pytest.mark.parametrize("method", [*AVERAGED, "nsbo-storm"])
def test_momentum_schedules(problem, method):
    constant = run(problem, method, momentum=0.6)
    assert_same(run(problem, method, momentum=lambda k: 0.6), constant)
    assert_same(run(problem, method, momentum=PowerDecay(0.6, 0.0)), constant)
    decay = run(problem, method, momentum=PowerDecay(0.6, 0.5))
    assert_same(run(problem, method, momentum=lambda k: 0.6 / (k + 1) ** 0.5), decay, atol=1e-14)
    assert np.abs(decay.x - constant.x).max() > 1e-6


def test_step_schedules(problem):
    options = {"step_size": PowerDecay(0.3, 0.6), "inner_step_size": PowerDecay(0.5, 0.4)}
    decaying = run(problem, "nsbo-sgd", **options)
    called = {"step_size": [], "inner_step_size": []}

    def noted(name):
        def schedule(k):
            called[name].append(k)
            return options[name](k)

        return schedule

    assert_same(run(problem, "nsbo-sgd", **{name: noted(name) for name in options}), decaying)
    assert called == {name: list(range(25)) for name in options}
    constant = run(problem, "nsbo-sgd", step_size=0.3)
    assert_same(run(problem, "nsbo-sgd", step_size=PowerDecay(0.3, 0)), constant)
    assert np.abs(decaying.x - constant.x).max() > 1e-6


@pytest.mark.parametrize("as_function", [False, True])
@pytest.mark.parametrize(("method", "deterministic"), [("nsbo-sgd", "nbo-gd"), ("amigo-sgd", "amigo-gd")])
def test_schedules_are_those_of_the_deterministic_method(problem, method, deterministic, as_function):
    steps = {"step_size": PowerDecay(0.3, 0.6), "inner_step_size": PowerDecay(0.5, 0.4)}
    given = {name: (lambda k, s=schedule: s(k)) if as_function else schedule for name, schedule in steps.items()}
    found = run(problem, method, batch_size="full", eval_every=1, keywords=START, **given)
    expected = nbo.minimize(problem, X0, method=deterministic, tol=0, max_iter=25, options=steps, **START)
    assert_same_run(found, expected)


# Counts


#: Options with which no iteration but the first one looks at all samples.
RARELY_FULL = {"probability": 0.0, "period": 10**6}


def expected_cost(method, options, n_iter):
    """Of methods that look at two points in all iterations but the first one, which lacks the old point."""
    cost = REGISTRY[method](**STEPS | options).cost_per_iteration(4)
    if method == "vrbo":  # the first iteration looks at all samples besides
        return cost * n_iter + nbo.OracleCounts(upper_grad=1, lower_grad_y=1, lower_jvp=1, lower_hvp=10)
    inner = 2 * options.get("n_inner", 0)
    products = {"sustain": 9, "mrbo": 10}.get(method, 1)
    one_point = nbo.OracleCounts(upper_grad=1, lower_grad_y=1, lower_jvp=1, lower_hvp=products + inner)
    first = one_point if cost.upper_grad == cost.lower_jvp == 2 else cost
    return first + cost * (n_iter - 1)


@pytest.mark.parametrize("share", [None, False, True])
@pytest.mark.parametrize(("method", "sampler"), RUNS)
def test_counts_equal_what_the_problem_sees(problem, method, sampler, share):
    names = nbo.methods()[method].options
    if share is not None and "share_batches" not in names:
        return
    options = {} if share is None else {"share_batches": share}
    options |= {"n_inner": 3} if "n_inner" in names else {}
    options |= ZERO if method in SAGA_METHODS else {}
    options |= {name: value for name, value in RARELY_FULL.items() if name in names}
    found = run(problem, method, sampler=sampler, eval_every=4, **options)
    calls, samples = problem.seen()
    assert found.counts + found.evaluation_counts == calls
    assert found.evaluation_counts == nbo.OracleCounts(upper_value=8)  # 0, 4, .., 24 and the last
    assert found.samples + nbo.OracleCounts(upper_value=8 * 43) == samples
    cost = expected_cost(method, options, 25)
    if method in DRAWN:
        assert found.counts.lower_hvp < cost.lower_hvp
        cost = dataclasses.replace(cost, lower_hvp=found.counts.lower_hvp)
    assert found.counts == cost


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("method", SAGA_METHODS)
def test_a_full_initialization_is_counted(problem, method, share):
    found = run(problem, method, share_batches=share, batch_sizes={"B2": 10, "B3": 20})
    n_lower, n_upper = 7, 3  # blocks of 61 and 43 samples
    n_apart = n_lower if share else 8
    extra = nbo.OracleCounts(upper_grad=n_upper, lower_grad_y=n_lower, lower_hvp=n_apart, lower_jvp=n_apart)
    assert found.counts == REGISTRY[method](**STEPS).cost_per_iteration(4) * 25 + extra
    assert found.counts + found.evaluation_counts == problem.seen()[0]
    assert found.samples + nbo.OracleCounts(upper_value=43 * found.evaluation_counts.upper_value) == problem.seen()[1]


@pytest.mark.parametrize("sampler", ["epoch", "window", "iid"])
@pytest.mark.parametrize("method", PAGE_METHODS)
def test_iterations_over_all_samples_are_counted(problem, method, sampler):
    found = run(problem, method, max_iter=200, probability=0.25, sampler=sampler)
    n_full = 2 * 200 - found.counts.upper_grad
    assert 30 < n_full < 72
    assert found.counts + found.evaluation_counts == problem.seen()[0]
    assert found.samples + nbo.OracleCounts(upper_value=43 * found.evaluation_counts.upper_value) == problem.seen()[1]
    minibatches = found.samples.upper_grad - 43 * n_full
    assert abs(minibatches - 8 * 2 * (200 - n_full)) <= (2 * 200 if sampler == "epoch" else 0)


@pytest.mark.parametrize(
    ("method", "options", "oracle", "size"),
    [
        ("nsbo-sgd", {"batch_sizes": {"B2": 20}}, "lower_grad_y", 20),
        ("nsbo-sgd", {"batch_sizes": {"B3": 3}}, "upper_grad", 3),
        ("nsbo-sgd", {"batch_sizes": {"B4": "full"}}, "lower_jvp", 61),
        ("nsbo-sgd", {"batch_sizes": {"B1": 5}, "n_inner": 0}, "lower_hvp", 5),
        ("nsbo-sgd", {"batch_size": None}, "lower_grad_y", 61),  # 256, capped
        ("nsbo-sgd", {"batch_size": None}, "upper_grad", 43),
        ("soba", {"batch_sizes": {"B2": 20}}, "lower_jvp", 20),
        ("soba", {"batch_sizes": {"B2": 20}}, "lower_hvp", 20),
        ("amigo-sgd", {"batch_sizes": {"B1": 5}}, "lower_hvp", 5),
        ("amigo-sgd", {"batch_sizes": {"B3": 7}}, "upper_grad", 7),
    ],
)  # fmt: skip
@pytest.mark.parametrize("sampler", ["window", "iid"])
def test_batches_have_the_sizes_asked_for(problem, method, options, oracle, size, sampler):
    found = run(problem, method, sampler=sampler, **options)
    assert getattr(found.samples, oracle) == size * getattr(found.counts, oracle)


def test_inner_hessians_have_a_size_of_their_own(problem):
    found = run(problem, "nsbo-sgd", sampler="window", batch_sizes={"B1": 5, "B1t": 11}, n_inner=2)
    assert found.samples.lower_hvp == 25 * (5 + 4 * 11)


def test_default_sizes():
    big = PlainLogistic(*logistic_data(400, 300, 3))
    for method, grad in (("nsbo-sgd", 256), ("nsbo-saga", 64), ("soba", 64), ("amigo-sgd", 64)):
        solver = REGISTRY[method](**STEPS)
        sizes = [s.size for s in solver.streams(big) if s.draws]
        assert sizes == [grad if i == (1 if method == "nsbo-sgd" else -1) else 64 for i in range(len(sizes))]


class Recording(PlainLogistic):
    """Keeps the arguments of every call."""

    def __init__(self, *data):
        super().__init__(*data)
        self.arguments = []

    def _rows(self, name, batch):
        self.arguments.append((name, batch))
        return super()._rows(name, batch)


def test_each_inner_step_has_a_fresh_hessian_for_both_directions():
    problem = Recording(*DATA)
    run(problem, "nsbo-sgd", n_inner=3, max_iter=30)
    batches = [tuple(batch) for name, batch in problem.arguments if name == "lower_hvp"]
    for k in range(30):
        of_u, *inner = batches[7 * k : 7 * k + 7]
        assert inner[0::2] == inner[1::2]  # v and w
        assert len({of_u, *inner}) > 1
    differing = [len(set(batches[7 * k : 7 * k + 7])) for k in range(30)]
    assert np.mean(differing) > 3  # of four; 8 blocks of each role are the same ones


def test_both_parts_of_the_upper_gradient_come_from_one_batch():
    problem = Recording(*DATA)
    found = run(problem, "nsbo-sgd", max_iter=9)
    assert found.counts.upper_grad == 9 == sum(name == "upper_grad" for name, _ in problem.arguments)


def test_a_shared_batch_is_one_batch():
    problem = Recording(*DATA)
    run(problem, "soba", max_iter=20)
    calls = [(name, tuple(batch)) for name, batch in problem.arguments if name.startswith("lower")]
    for k in range(20):
        three = calls[3 * k : 3 * k + 3]
        assert {name for name, _ in three} == {"lower_grad_y", "lower_hvp", "lower_jvp"}
        assert len({batch for _, batch in three}) == 1


@pytest.mark.parametrize(("oracle", "n_epochs"), [("lower_grad_y", 6), ("lower_hvp", 10)])
def test_an_epoch_goes_over_every_sample_once(oracle, n_epochs):
    """Over 3 and 5 draws an iteration, from 8 blocks."""
    problem = Recording(*DATA)
    run(problem, "amigo-sgd", n_lower_steps=3, n_linear_steps=5, max_iter=16)
    batches = [batch for name, batch in problem.arguments if name == oracle]
    epochs = [tuple(np.concatenate(batches[start : start + 8])) for start in range(0, len(batches), 8)]
    assert all(sorted(epoch) == list(range(61)) for epoch in epochs)
    assert len(set(epochs)) == len(epochs) == n_epochs and epochs[0] != tuple(range(61))


def test_the_estimated_inner_step_of_full_batches(problem):
    found = run(problem, "soba", inner_step_size=None, batch_size="full")
    assert found.counts.lower_hvp == 25 + 4  # no more products than n
    H = np.array([problem.lower_hvp(X0, np.zeros(4), row) for row in np.eye(4)])
    assert found.chosen["inner_step_size"] == pytest.approx(1 / np.linalg.eigvalsh(H)[-1], rel=1e-9)


@pytest.mark.parametrize(
    ("method", "options", "size", "margin"),
    [
        ("soba", {}, 8, 2),
        ("amigo-sgd", {}, 8, 2),
        ("nsbo-saga", {}, 8, 3),
        ("nsbo-sgd", {"n_inner": 4, "batch_sizes": {"B2": 8, "B3": 2}, "batch_size": 30}, 8, 6),
        ("saba", {"batch_size": 2}, 2, 2),
    ],
)
def test_the_estimated_inner_step(problem, method, options, size, margin):
    """The largest curvature of all blocks, once, however the run is cut into pieces."""
    found = run(problem, method, inner_step_size=None, eval_every=3, **options)
    seen = problem.seen()
    assert (found.counts.lower_hvp, found.samples.lower_hvp) == (seen[0].lower_hvp, seen[1].lower_hvp)
    order, n_blocks = shuffled(seed_of(5), "lower", 61), -(-61 // size)
    largest = 0.0
    for k in range(n_blocks):
        rows = order[k * 61 // n_blocks : (k + 1) * 61 // n_blocks]
        H = np.array([problem.lower_hvp(X0, np.zeros(4), row, batch=rows) for row in np.eye(4)])
        largest = max(largest, np.linalg.eigvalsh(H)[-1])
    assert found.chosen["inner_step_size"] == pytest.approx(1 / (margin * largest), rel=1e-9)


def test_an_inner_step_for_independent_samples_has_a_margin(problem):
    """A batch of n with replacement is not the sample."""
    full, most = (
        run(problem, "soba", inner_step_size=None, batch_sizes={"B2": size}, sampler="iid") for size in ("full", 60)
    )
    steps = full.chosen["inner_step_size"], most.chosen["inner_step_size"]
    assert 0.5 < steps[0] / steps[1] < 2


def test_one_large_row_is_found_among_many_batches():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((3000, 4))
    A[17] *= 50
    problem = PlainLogistic(A, np.sign(A[:, 0] + 0.1), A[:50], np.sign(A[:50, 0] + 0.1))
    found = run(problem, "saba", inner_step_size=None, batch_size=20, max_iter=2)
    assert found.samples.lower_hvp == problem.seen()[1].lower_hvp
    assert found.chosen["inner_step_size"] < 2 / (A[17] @ A[17] / 20 / 4)


@pytest.mark.parametrize("batch_size", [4, 16])
@pytest.mark.parametrize("method", [*SAGA_METHODS, *PAGE_METHODS])
def test_estimated_inner_steps_are_small_enough(method, batch_size):
    """Rows of different sizes, on which 1 / lambda_max(H) diverges; x stands still."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((400, 6)) * rng.lognormal(size=(400, 1))
    problem = PlainLogistic(rows[:200], np.sign(rows[:200, 0] + 0.5), rows[200:], np.sign(rows[200:, 0] + 0.5))
    options = {"step_size": 1e-9, "inner_step_size": None, "batch_size": batch_size}
    found = run(problem, method, x0=np.full(6, -2.0), max_iter=8000, **options)
    exact = nbo.hypergradient(problem, found.x)
    assert np.linalg.norm(found.y - exact.y) < 1e-3 * np.linalg.norm(exact.y)
    assert np.linalg.norm(found.u - exact.u) < 1e-2 * np.linalg.norm(exact.u)


def test_what_a_method_chose_gives_the_same_run(problem):
    first = run(problem, "nsbo-sgd", seed=None, inner_step_size=None)
    assert str(first.chosen["random_state"]) in repr(first)
    again = run(problem, "nsbo-sgd", seed=first.chosen["random_state"], inner_step_size=first.chosen["inner_step_size"])
    assert_same(again, first)
    assert set(again.chosen) == {"random_state"}


def test_an_inner_step_that_cannot_be_estimated_is_an_error(problem):
    product = problem.lower_hvp
    problem.lower_hvp = lambda x, y, v, batch=None: -product(x, y, v, batch=batch)
    with pytest.raises(CurvatureError, match="must be strongly convex"):
        run(problem, "soba", inner_step_size=None)
    problem.lower_hvp = lambda x, y, v, batch=None: v * np.nan
    with pytest.raises(ValueError, match="lower_hvp returned a value that is not finite"):
        run(problem, "soba", inner_step_size=None)


# Randomness


@pytest.mark.parametrize(("method", "sampler"), RUNS)
def test_results_depend_on_the_seed_alone(method, sampler, monkeypatch):
    """Not on when f is evaluated, nor on where chunks end, nor on earlier runs of the solver."""
    options = {
        "step_size": PowerDecay(0.5, 0.3), "inner_step_size": lambda k: 0.6 / (1 + k / 50), "batch_size": 8,
        "sampler": sampler, "n_inner": 2, "momentum": PowerDecay(0.9, 0.1),
    }  # fmt: skip
    options = {name: option for name, option in options.items() if name in nbo.methods()[method].options}
    solver = REGISTRY[method](**options)

    def solve(problem, seed=3, **changes):
        method = dataclasses.replace(solver, **changes) if changes else solver
        return method.solve(problem, X0, max_iter=40, random_state=seed)

    reference = solve(PlainLogistic(*DATA))
    assert np.abs(solve(PlainLogistic(*DATA), seed=4).x - reference.x).max() > 1e-9
    for seconds in (stochastic.CHUNK_SECONDS, 0.0, 1e9):
        monkeypatch.setattr(stochastic, "CHUNK_SECONDS", seconds)
        for changes in ({}, {"eval_every": 1}, {"eval_every": 13}):
            found = solve(PlainLogistic(*DATA), **changes)
            assert_same(found, reference)
            assert found.counts == reference.counts and found.samples == reference.samples
            for row, k in enumerate(found.history.iteration):
                for other in np.flatnonzero(reference.history.iteration == k):
                    for column in (
                        "value",
                        "hypergrad_norm",
                        "lower_grad_norm",
                        "adjoint_residual",
                        "samples_lower_hvp",
                    ):
                        np.testing.assert_array_equal(found.history[column][row], reference.history[column][other])


def test_chunks_are_cut_as_asked(problem, monkeypatch):
    """Without which the test above would compare equals."""
    lengths = []
    original = stochastic.StochasticSession._run
    monkeypatch.setattr(
        stochastic.StochasticSession, "_run",
        lambda self, start, stop: (lengths.append(stop - start), original(self, start, stop))[1],
    )  # fmt: skip
    for seconds, expected in ((0.0, [1] * 25), (1e9, [1, 8, 16])):
        monkeypatch.setattr(stochastic, "CHUNK_SECONDS", seconds)
        lengths.clear()
        run(problem, "soba", eval_every=25)
        assert lengths == expected


def test_frequent_evaluations_do_not_cut_chunks_to_single_iterations(problem, monkeypatch):
    """Entering a compiled loop takes half a millisecond here, an iteration ten microseconds."""
    lengths = []
    original = stochastic.StochasticSession._run

    def timed(self, start, stop):
        lengths.append(stop - start)
        original(self, start, stop)
        return 5e-4 + 1e-5 * (stop - start)

    monkeypatch.setattr(stochastic.StochasticSession, "_run", timed)
    run(problem, "soba", max_iter=2000, eval_every=10**6, eval_seconds=1e-4)
    assert lengths[0] == 1 and 500 <= max(lengths) <= 1500


def test_independent_samples_are_copied_for_few_iterations_at_a_time(problem, monkeypatch):
    whole = run(problem, "nsbo-sgd", sampler="iid")
    monkeypatch.setattr(stochastic, "INDEPENDENT_ROWS", 100)
    monkeypatch.setattr(stochastic, "CHUNK_SECONDS", 1e9)
    asked = []
    original = stochastic.independent_rows
    monkeypatch.setattr(stochastic, "independent_rows", lambda *args: (r := original(*args), asked.append(r.size))[0])
    assert_same(run(problem, "nsbo-sgd", sampler="iid", eval_every=25), whole)
    assert 32 <= max(asked) <= 100


def test_the_same_seed_gives_the_same_bits_in_a_fresh_process(problem):
    code = """
import numpy as np, nbo
from reference_problems import PlainLogistic, logistic_data
for method, sampler in (("nsbo-sgd", "epoch"), ("nsbo-storm", "iid"), ("spaba", "window"), ("ma-saba", "epoch")):
    options = {"step_size": 0.05, "inner_step_size": 0.5, "batch_size": 8, "sampler": sampler}
    found = nbo.minimize(PlainLogistic(*logistic_data(61, 43, 4)), np.full(4, -2.0), method=method, max_iter=25,
                         random_state=5, options=options)
    print(np.concatenate((found.x, found.y, found.u)).tobytes().hex())
"""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    here = []
    for method, sampler in (("nsbo-sgd", "epoch"), ("nsbo-storm", "iid"), ("spaba", "window"), ("ma-saba", "epoch")):
        found = run(problem, method, sampler=sampler)
        here.append(np.concatenate((found.x, found.y, found.u)).tobytes().hex())
    assert done.stdout.split() == here and len(set(here)) == 4


def test_random_states(problem):
    generator = np.random.default_rng(1)
    first, second = run(problem, "soba", seed=generator), run(problem, "soba", seed=generator)
    assert np.abs(first.x - second.x).max() > 1e-9
    assert_same(run(problem, "soba", seed=np.random.default_rng(1)), first)
    for given in (first, run(problem, "soba", seed=None), run(problem, "soba", seed=7)):
        assert_same(run(problem, "soba", seed=given.chosen["random_state"]), given)
    assert np.abs(run(problem, "soba", seed=None).x - run(problem, "soba", seed=None).x).max() > 1e-9
    before = np.random.get_state()[1].copy()
    run(problem, "soba", seed=None)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # the global generator is left alone


# Problems


def test_inputs_stay_as_they_are(problem):
    x0, y0, u0, sizes = X0.copy(), np.full(4, 0.1), np.full(4, 0.2), {"B2": 5}
    data = [a.copy() for a in DATA]
    for method in STOCHASTIC:
        run(problem, method, x0=x0, batch_sizes=sizes, keywords={"y0": y0, "u0": u0})
    assert (x0 == -2).all() and (y0 == 0.1).all() and (u0 == 0.2).all() and sizes == {"B2": 5}
    for array, copy in zip(DATA, data, strict=True):
        np.testing.assert_array_equal(array, copy)


class Keeping(PlainLogistic):
    """Keeps the arrays that oracles are given, as they were and as they are."""

    def __init__(self, *data):
        super().__init__(*data)
        self.kept = []

    def _keep(self, name, *arrays):
        self.kept += [(name, a, a.copy()) for a in arrays if a is not None]

    def upper_grad(self, x, y, batch=None):
        self._keep("upper_grad", x, y, batch)
        return super().upper_grad(x, y, batch)

    def lower_grad_y(self, x, y, batch=None):
        self._keep("lower_grad_y", x, y, batch)
        return super().lower_grad_y(x, y, batch)

    def lower_hvp(self, x, y, v, batch=None):
        self._keep("lower_hvp", x, y, v, batch)
        return super().lower_hvp(x, y, v, batch)

    def lower_jvp(self, x, y, u, batch=None):
        self._keep("lower_jvp", x, y, u, batch)
        return super().lower_jvp(x, y, u, batch)

    def lower_grad_x(self, x, y, batch=None):
        self._keep("lower_grad_x", x, y, batch)
        return super().lower_grad_x(x, y, batch)


@pytest.mark.parametrize("method", STOCHASTIC)
def test_oracles_get_read_only_arrays_that_stay(method):
    problem = Keeping(*DATA)
    run(problem, method)
    assert {name for name, *_ in problem.kept} == calls(method)
    for name, array, copy in problem.kept:
        assert not array.flags.writeable, name
        np.testing.assert_array_equal(array, copy, err_msg=name)


def test_oracles_may_reuse_their_buffers(problem):
    class Reusing(PlainLogistic):
        def lower_hvp(self, x, y, v, batch=None):
            self.buffer = getattr(self, "buffer", np.empty(4))
            self.buffer[:] = super().lower_hvp(x, y, v, batch)
            return self.buffer

    assert_same(run(Reusing(*DATA), "nsbo-storm", n_inner=2), run(problem, "nsbo-storm", n_inner=2))


@pytest.mark.parametrize("method", STOCHASTIC)
def test_bounds(problem, method):
    lower, upper = np.array([-2.0, -2.1, -3.0, -2.001]), np.array([-1.9, -1.0, -2.0, -1.5])
    problem.bounds = (-2.05, -1.95)
    for bounds, (low, high) in ((None, (-2.05, -1.95)), ((lower, upper), (lower, upper))):
        seen = []
        found = run(
            problem, method, max_iter=60, step_size=20.0, eval_every=1,
            keywords={"bounds": bounds, "callback": lambda xk, seen=seen: seen.append(xk)},
        )  # fmt: skip
        assert all((x >= low).all() and (x <= high).all() for x in seen) and len(seen) == 60
        assert ((found.x == low) | (found.x == high)).any()


class OnBall(nbo.problems.Quadratic):
    """x in a ball, by a projection of its own."""

    def project(self, x):
        return x / max(1.0, float(np.linalg.norm(x)) / 0.3)


def test_a_problem_with_its_own_projection():
    problem = OnBall.family(n=5, m=3, kappa=8)
    steps = {"step_size": 0.02, "inner_step_size": 0.5}
    found = nbo.minimize(problem, np.zeros(3), method="soba", max_iter=200, options=steps, random_state=0)
    expected = nbo.minimize(
        problem, np.zeros(3), method="nbo-gd", tol=0, max_iter=200, options=steps | {"n_inner": 0, "eval_every": 10}
    )
    assert np.linalg.norm(found.x) == pytest.approx(0.3)
    assert_same_run(found, expected)


def test_a_problem_with_its_own_projection_may_diverge():
    problem = OnBall.family(n=5, m=3, kappa=8)
    steps = {"step_size": 0.02, "inner_step_size": 50.0, "eval_every": 3000}
    found = nbo.minimize(problem, np.zeros(3), method="soba", max_iter=3000, options=steps, random_state=0)
    assert found.status == "diverged" and np.isfinite(found.x).all()


def test_single_precision_stays_single(problem):
    A, b, A_val, b_val = DATA
    types = Counter()

    class Typed(PlainLogistic):
        def lower_hvp(self, x, y, v, batch=None):
            types[x.dtype, y.dtype, v.dtype] += 1
            return super().lower_hvp(x, y, v, batch)

        def upper_grad(self, x, y, batch=None):
            types[x.dtype, y.dtype] += 1
            return super().upper_grad(x, y, batch)

    single = Typed(A.astype(np.float32), b, A_val.astype(np.float32), b_val)
    for method in STOCHASTIC:
        found, double = run(single, method), run(problem, method)
        assert found.x.dtype == found.y.dtype == np.float64
        for part in (found.y, found.u):
            np.testing.assert_array_equal(part, part.astype(np.float32), err_msg=method)
        assert (found.x != found.x.astype(np.float32)).any()
        np.testing.assert_allclose(found.x, double.x, atol=1e-5)
        np.testing.assert_allclose(found.y, double.y, atol=1e-5)
    f4, f8 = np.dtype(np.float32), np.dtype(np.float64)
    assert set(types) == {(f8, f4, f4), (f8, f4)}


WRONG = {
    "lower_grad_y": (np.zeros(3), r"lower_grad_y: returned an array of shape \(3,\).*expected shape \(4,\)"),
    "lower_hvp": (np.zeros((4, 1)), r"lower_hvp: returned an array of shape \(4, 1\)"),
    "lower_jvp": (0.0, r"lower_jvp: returned an array of shape \(\)"),
    "upper_grad": (np.zeros(4), r"upper_grad: returned ndarray; expected a pair"),
}


@pytest.mark.parametrize("method", ["nsbo-sgd", "saba", "nsbo-page", "amigo-sgd"])
@pytest.mark.parametrize("oracle", WRONG)
def test_wrong_results_of_batch_oracles_are_named(problem, method, oracle):
    value, message = WRONG[oracle]
    setattr(problem, oracle, lambda *args, batch=None: value)
    with pytest.raises((TypeError, ValueError), match=message):
        run(problem, method)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ((np.zeros(3), np.zeros(4)), r"upper_grad \(first part\).*\(3,\)"),
        ((np.zeros(4), np.zeros(5)), r"upper_grad \(second part\).*\(5,\)"),
        ((np.zeros(4), np.zeros(4, dtype=complex)), r"upper_grad \(second part\).*complex"),
        ((np.zeros(4), np.ma.masked_array(np.zeros(4), mask=[1, 0, 0, 0])), "upper_grad .*masked"),
        (None, "upper_grad: returned NoneType; expected a pair"),
    ],
)
def test_wrong_parts_of_the_upper_gradient_are_named(problem, pair, message):
    problem.upper_grad = lambda x, y, batch=None: pair
    with pytest.raises((TypeError, ValueError), match=message):
        run(problem, "soba")


def test_errors_of_oracles_pass(problem):
    def fail(x, y, batch=None):
        raise LookupError("mine")

    problem.lower_grad_y = fail
    with pytest.raises(LookupError, match="mine"):
        run(problem, "soba")


# Options


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("nsbo-sgd", {"batch_sizes": {"B5": 3}}, "batch_sizes: found B5; nsbo-sgd .* has B1, B2, B3, B4, B1t"),
        ("nsbo-sgd", {"batch_sizes": {"b1": 3, 2: 1}}, "batch_sizes: found b1, 2"),
        ("nsbo-sgd", {"batch_sizes": {"B1t": 3}, "n_inner": 0}, "batch_sizes: found B1t"),
        ("nsbo-sgd", {"batch_sizes": {"B1": 3}, "share_batches": True}, "batch_sizes: found B1;"),
        ("nsbo-saga", {"batch_sizes": {"B4": 3}, "share_batches": True}, "batch_sizes: found B4;"),
        ("soba", {"batch_sizes": {"B1t": 3}}, "batch_sizes: found B1t; soba .* has B2, B3"),
        ("soba", {"batch_sizes": {"B1": 3}}, "batch_sizes: found B1;"),
        ("amigo-sgd", {"batch_sizes": {"B1t": 3}}, "batch_sizes: found B1t"),
        ("soba", {"batch_sizes": [("B2", 3)]}, "batch_sizes: found list; expected a dict"),
        ("soba", {"batch_sizes": {"B2": 62}}, r"batch_sizes\['B2'\]: found 62; expected at most 61"),
        ("soba", {"batch_sizes": {"B3": 44}}, r"batch_sizes\['B3'\]: found 44; expected at most 43"),
        ("soba", {"batch_sizes": {"B3": 0}}, r"batch_sizes\['B3'\]: found 0"),
        ("soba", {"batch_sizes": {"B3": None}}, r"batch_sizes\['B3'\]: found None"),
        ("soba", {"batch_size": 44}, "batch_size: found 44; expected at most 43, the number of samples"),
        ("soba", {"batch_size": 0}, "batch_size: found 0"),
        ("soba", {"batch_size": -1}, "batch_size: found -1"),
        ("soba", {"batch_size": 1.5}, r"batch_size: found 1\.5"),
        ("soba", {"batch_size": True}, "batch_size: found True"),
        ("soba", {"batch_size": "half"}, "batch_size: found 'half'; expected .*'full'"),
        ("soba", {"sampler": "random"}, "sampler: found 'random'; expected one of 'epoch', 'window', 'iid'"),
        ("soba", {"sampler": 1}, "sampler: found 1"),
        *((m, {"sampler": "window"}, "sampler: found 'window'; expected 'epoch'") for m in SAGA_METHODS),
        *((m, {"sampler": "iid"}, "sampler: found 'iid'; expected 'epoch'") for m in SAGA_METHODS),
        ("saba", {"initialization": "half"}, "initialization: found 'half'; expected one of 'full', 'zero'"),
        ("ma-saba", {"momentum": 1.5}, "momentum: found 1.5; expected a number from 0 to 1"),
        ("ma-saba", {"momentum": -0.1}, "momentum: found -0.1"),
        ("nsbo-storm", {"momentum": "most"}, "momentum: found 'most'"),
        ("nsbo-storm", {"momentum": np.nan}, "momentum: found nan"),
        ("nsbo-storm", {"momentum": lambda k: 1.5}, r"momentum \(the schedule at k = 0\): found 1.5"),
        ("nsbo-storm", {"momentum": lambda k: -k / 9}, r"momentum \(the schedule at k = 1\): found -0.1"),
        ("nsbo-storm", {"momentum": PowerDecay(2.0, 0.5)}, "momentum.*: found 2"),
        ("ma-saba", {"momentum": PowerDecay(1.01, 0.0)}, "momentum.*: found 1.01"),
        ("nsbo-page", {"probability": 1.5}, "probability: found 1.5; expected a number from 0 to 1"),
        ("spaba", {"probability": -1}, "probability: found -1"),
        ("nsbo-sgd", {"n_inner": -1}, "n_inner: found -1"),
        ("nsbo-sgd", {"n_inner": 1.0}, r"n_inner: found 1\.0"),
        ("nsbo-sgd", {"n_inner": 10**8}, "n_inner: found 100000000; expected an integer from 0 to 1000"),
        ("nsbo-sgd", {"share_batches": 1}, "share_batches: found 1; expected True or False"),
        ("amigo-sgd", {"n_lower_steps": 0}, "n_lower_steps: found 0"),
        ("amigo-sgd", {"n_linear_steps": 0}, "n_linear_steps: found 0"),
        ("soba", {"step_size": None}, "step_size: method 'soba' needs one; expected a positive number or a schedule"),
        ("soba", {"step_size": 0.0}, r"step_size: found 0\.0"),
        ("soba", {"step_size": PowerDecay}, "step_size: found the class PowerDecay; expected an object"),
        ("ma-saba", {"momentum": PowerDecay}, "momentum: found the class PowerDecay; expected an object"),
        ("soba", {"inner_step_size": -1.0}, r"inner_step_size: found -1\.0"),
        ("soba", {"step_size": lambda k: 11.0 - k}, r"step_size \(the schedule at k = 11\): found 0"),
        ("soba", {"step_size": lambda k: np.nan}, r"step_size \(the schedule at k = 0\): found nan"),
        ("soba", {"step_size": lambda k: 0}, r"step_size \(the schedule at k = 0\): found 0"),
        ("soba", {"inner_step_size": lambda k: None}, r"inner_step_size \(the schedule at k = 0\): found None"),
        ("soba", {"eval_every": 0}, "eval_every: found 0"),
        ("soba", {"eval_seconds": 0}, "eval_seconds: found 0"),
        ("soba", {"n_inner": 1}, "n_inner"),
        ("amigo-sgd", {"share_batches": True}, "share_batches"),
        ("nsbo-sgd", {"momentum": 0.5}, "momentum"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)  # fmt: skip
def test_bad_options_are_refused(problem, method, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        run(problem, method, **options)


def test_oracles_without_a_batch_are_named(problem):
    problem.lower_hvp = lambda x, y, v: v
    with pytest.raises(TypeError, match="problem: lower_hvp of PlainLogistic takes no argument batch"):
        run(problem, "soba")


def test_an_infinite_direction_is_divergence_wherever_chunks_end(problem):
    """A projection onto bounds makes it finite, and it may be gone at the end of the chunk."""
    calls = Counter()
    jvp = problem.lower_jvp

    def once_infinite(x, y, u, batch=None):
        calls["jvp"] += 1
        return np.full(problem.dim_x, np.inf) if calls["jvp"] == 20 else jvp(x, y, u, batch)

    problem.lower_jvp = once_infinite
    found = run(problem, "soba", max_iter=400, eval_every=400, keywords={"bounds": (-9.0, 1.0)})
    assert found.status == "diverged"


def test_divergence_from_the_start_blames_the_oracles_too(problem):
    problem.lower_jvp = lambda x, y, u, batch=None: np.full(problem.dim_x, np.nan)
    found = run(problem, "soba")
    assert found.status == "diverged" and "nbo.check_problem" in found.message


def test_messages_tell_what_was_chosen_and_what_to_do(problem):
    found = run(problem, "soba", step_size=1e3, inner_step_size=None, keywords={"bounds": (-9.0, 300.0)})
    assert found.status == "diverged"
    chosen = found.chosen["inner_step_size"]
    assert f"narrower bounds of x or a smaller inner_step_size, which was {chosen:.3g}" in found.message


def test_growing_values_are_mentioned(problem):
    found = run(problem, "soba", max_iter=12, inner_step_size=30.0, eval_every=12)
    assert found.status == "iteration_limit" and found.fun > 1e3
    assert (
        f"f went from {found.history.value[0]:.3g} to {found.fun:.3g}, so the steps may be too large" in found.message
    )
    assert "may be too large" not in run(problem, "soba").message


def test_a_time_limit_brings_evaluations(problem):
    found = run(problem, "soba", max_iter=10**9, keywords={"max_time": 0.2})
    assert found.status == "time_limit" and len(found.history) > 5


def test_no_time_limit_may_be_said(problem):
    assert run(problem, "soba", keywords={"max_time": np.inf}).status == "iteration_limit"


def test_a_problem_without_its_numbers_of_samples_is_refused(problem):
    del problem.n_samples_upper
    with pytest.raises((TypeError, ValueError), match=r"problem\.n_samples_upper"):
        run(problem, "soba")


def test_bounds_and_an_own_projection_exclude_each_other():
    with pytest.raises(ValueError, match=r"bounds: OnBall defines project\(\)"):
        nbo.minimize(OnBall.family(n=3, m=3, kappa=2), np.zeros(3), method="soba", bounds=(0, 1), options=STEPS)


# Runs


@pytest.mark.parametrize(
    ("method", "options", "n_iter"),
    [
        ("soba", {"batch_size": 8}, 80),
        ("soba", {"batch_size": 8, "batch_sizes": {"B2": 16}}, 40),
        ("nsbo-sgd", {"batch_size": 8, "batch_sizes": {"B1": 6}}, 110),
        ("nsbo-sgd", {}, 10),
        ("saba", {"batch_size": 20}, 40),
        ("amigo-sgd", {"batch_sizes": {"B1": 30}}, 30),
        ("soba", {"batch_size": "full"}, 10),
    ],
)
def test_a_run_has_ten_epochs_and_twenty_evaluations(problem, method, options, n_iter):
    found = nbo.minimize(problem, X0, method=method, random_state=0, options=STEPS | options)
    every = max(1, -(-n_iter // 20))
    assert found.nit == n_iter and found.status == "iteration_limit" and not found.success
    assert "usual end of a stochastic method" in found.message
    grid = [*range(0, n_iter + 1, every), *([n_iter] if n_iter % every else [])]
    assert found.history.iteration.tolist() == grid


def test_the_history(problem):
    found = run(problem, "nsbo-saga", eval_every=6)
    history = found.history
    assert len({column.size for column in history.values()}) == 1
    assert history.iteration.tolist() == [0, 6, 12, 18, 24, 25]
    for kind, total in found.counts.as_dict().items():
        assert history[kind][0] == 0 and history[kind][-1] == total
    for kind, total in found.samples.as_dict().items():
        column = history[f"samples_{kind}"]
        assert column[0] == 0 and column[-1] == total and (np.diff(column) >= 0).all()
    assert history.value[-1] == found.fun == problem.upper_value(found.x, found.y)
    assert history.value.min() == found.best.fun
    assert np.isnan(history.hypergrad_norm[0]) and np.isfinite(history.hypergrad_norm[1:]).all()
    assert (np.diff(history.seconds) >= 0).all() and history.seconds[0] == 0


def test_norms_are_those_of_the_last_iteration(problem):
    problem.bounds = (-2.001, 2.0)
    before, found = (run(problem, "soba", max_iter=k, batch_size="full") for k in (7, 8))
    d_y = problem.lower_grad_y(before.x, before.y)
    grad_1, grad_2 = problem.upper_grad(before.x, before.y)
    d_u = problem.lower_hvp(before.x, before.y, before.u) - grad_2
    d_x = grad_1 - problem.lower_jvp(before.x, before.y, before.u)
    np.testing.assert_allclose(found.jac, d_x, atol=1e-14)
    expected = np.linalg.norm(before.x - np.clip(before.x - d_x, -2.001, 2.0)), *map(np.linalg.norm, (d_y, d_u))
    np.testing.assert_allclose((found.hypergrad_norm, found.lower_grad_norm, found.adjoint_residual), expected)


def test_evaluations_by_time(problem, monkeypatch):
    monkeypatch.setattr(stochastic, "SHORTEST_CHUNK", 0.0)
    found = run(problem, "soba", eval_every=10**6, eval_seconds=1e-12)
    assert found.history.iteration.tolist() == list(range(26))
    rare = run(problem, "soba", eval_every=10, eval_seconds=1e6)
    assert rare.history.iteration.tolist() == [0, 10, 20, 25]
    assert_same(found, rare)


def test_callbacks_see_evaluated_iterates(problem):
    seen = []

    def look(intermediate_result):
        seen.append(intermediate_result)

    found = run(problem, "saba", eval_every=7, keywords={"callback": look})
    assert [r.nit for r in seen] == [7, 14, 21]
    for r in seen:
        part = run(PlainLogistic(*DATA), "saba", max_iter=r.nit)
        assert_same(r, part)
        assert r.counts == part.counts and r.fun == part.fun
        r.x[:] = np.nan  # a copy
    assert_same(found, run(problem, "saba"))


def stops_by_exception(xk):
    raise StopIteration


@pytest.mark.parametrize("callback", [stops_by_exception, lambda xk: True])
def test_callbacks_stop(problem, callback):
    found = run(problem, "soba", eval_every=7, keywords={"callback": callback})
    assert found.status == "stopped" and found.nit == 7 and "stopped by the callback" in found.message
    assert_same(found, run(problem, "soba", max_iter=7))


def test_no_time_at_all(problem):
    found = run(problem, "saba", keywords={"max_time": 0})
    assert found.status == "time_limit" and found.nit == 0
    np.testing.assert_array_equal(found.x, X0)
    assert found.counts == nbo.OracleCounts() and np.isnan(found.jac).all()


def test_no_iterations_at_all(problem):
    found = run(problem, "saba", max_iter=0)
    assert found.status == "iteration_limit" and found.nit == 0 and found.history.iteration.tolist() == [0]


def test_little_time(problem):
    def slow(x, y, batch=None):
        time.sleep(0.002)
        return PlainLogistic.lower_grad_y(problem, x, y, batch)

    problem.lower_grad_y = slow
    found = run(problem, "soba", max_iter=10**6, keywords={"max_time": 0.05})
    assert found.status == "time_limit" and 0 < found.nit < 1000
    assert_same(found, run(PlainLogistic(*DATA), "soba", max_iter=found.nit))


def after_calls(oracle, n_calls, act):
    """A problem one of whose oracles does something else from one call on."""
    problem = PlainLogistic(*DATA)
    original = getattr(problem, oracle)

    def watched(*args, **kwargs):
        value = original(*args, **kwargs)
        return act(value, problem.calls[oracle] - n_calls) if problem.calls[oracle] >= n_calls else value

    setattr(problem, oracle, watched)
    return problem


def spoilt(value, _):
    return (value[0], value[1] * np.nan) if isinstance(value, tuple) else value * np.nan


@pytest.mark.parametrize(("method", "oracle"), [(m, oracle) for m in STOCHASTIC for oracle in sorted(calls(m))])
def test_a_nan_in_a_batch_is_divergence(method, oracle):
    """All oracles are called at least once an iteration."""
    problem = after_calls(oracle, 150, spoilt)
    found = run(problem, method, max_iter=300, eval_every=3)
    assert found.status == "diverged" and not found.success and found.nit < 200, found.message
    for part in "xyu":
        assert np.isfinite(found[part]).all()
        np.testing.assert_array_equal(found[part], found.best[part == "y" or 2 * (part == "u")])
    assert found.fun == found.best.fun == found.history.value.min()
    assert found.message.startswith(f"diverged after {found.nit} iterations")


@pytest.mark.parametrize("oracle", ["lower_jvp", "upper_grad"])
def test_an_infinite_direction_is_divergence(oracle):
    """Also where bounds keep x finite."""

    def infinite(value, _):
        return (value[0] + np.inf, value[1]) if isinstance(value, tuple) else value + np.inf

    found = run(after_calls(oracle, 150, infinite), "soba", max_iter=300, eval_every=3)
    assert found.status == "diverged", (found.message, found.jac)
    assert found.nit < 160


@pytest.mark.parametrize(("method", "sampler"), RUNS)
def test_a_sample_that_is_nan_is_divergence(method, sampler):
    A, b, A_val, b_val = DATA
    bad = A.copy()
    bad[17, 1] = np.nan
    found = run(PlainLogistic(bad, b, A_val, b_val), method, max_iter=500, eval_every=1, sampler=sampler)
    assert found.status == "diverged" and found.nit < 500
    assert all(np.isfinite(found[part]).all() for part in "xyu") and np.isfinite(found.fun)


@pytest.mark.parametrize("method", STOCHASTIC)
@pytest.mark.parametrize("step", [{"step_size": 1e4}, {"inner_step_size": 500.0}], ids=["outer", "inner"])
def test_too_large_steps_diverge(method, step):
    problem = nbo.problems.Quadratic.family(n=5, m=3, kappa=8)
    options = {"step_size": 0.01, "inner_step_size": 0.5} | step
    found = nbo.minimize(problem, np.zeros(3), method=method, max_iter=5000, options=options, random_state=0)
    assert (
        found.status == "diverged"
        and "use a smaller step_size, narrower bounds of x or a smaller inner_step_size" in found.message
    )
    assert all(np.isfinite(found[part]).all() for part in "xyu")
    np.testing.assert_array_equal(found.x, found.best.x)


def test_a_value_that_is_not_finite_at_the_start_is_an_error(problem):
    problem.upper_value = lambda x, y: np.nan
    with pytest.raises(ValueError, match="upper_value returned a value that is not finite at the starting point"):
        run(problem, "soba")


def interrupt(value, _):
    raise KeyboardInterrupt


def press_once(value, since):
    if since == 0:
        os.kill(os.getpid(), signal.SIGINT)
    return value


def press_twice(value, since):
    if since in (0, 5):
        os.kill(os.getpid(), signal.SIGINT)
    return value


@pytest.mark.parametrize("act", [interrupt, press_once, press_twice])
@pytest.mark.parametrize("seconds", [0.0, 1e9], ids=["short", "long"])
@pytest.mark.parametrize("oracle", ["lower_grad_y", "upper_grad"])
@pytest.mark.parametrize("method", ["nsbo-saga", "nsbo-storm", "amigo-sgd"])
def test_interruptions(method, oracle, seconds, act, monkeypatch):
    """A signal waits for the end of a chunk; an exception, or a second signal, ends it at once."""
    monkeypatch.setattr(stochastic, "CHUNK_SECONDS", seconds)
    problem = after_calls(oracle, 100, act)
    found = run(problem, method, max_iter=1000, eval_every=1000)
    assert found.status == "interrupted" and 0 < found.nit < 1000
    assert found.message.startswith(f"interrupted after {found.nit} iterations")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    whole = run(PlainLogistic(*DATA), method, max_iter=found.nit)
    for part in "xyu":
        assert np.isfinite(found[part]).all()
        np.testing.assert_array_equal(found[part], whole[part])
    assert found.fun == whole.fun
    assert found.counts + found.evaluation_counts == problem.seen()[0]
    in_time = act is press_once or (act is press_twice and not seconds)
    assert (found.counts == whole.counts) == in_time


@pytest.mark.parametrize(("method", "sampler"), RUNS)
def test_runs_go_on_from_a_checkpoint(problem, method, sampler, tmp_path):
    options = {"sampler": sampler, "eval_every": 6, "inner_step_size": None, "step_size": PowerDecay(0.05)}
    whole = run(problem, method, max_iter=40, **options)
    run(PlainLogistic(*DATA), method, max_iter=17, **options).save(tmp_path / "run.npz")
    found = nbo.resume(tmp_path / "run.npz", PlainLogistic(*DATA), max_iter=40)
    assert_same(found, whole)
    assert found.counts == whole.counts and found.samples == whole.samples and found.fun == whole.fun
    for column in whole.history:
        if column != "seconds":
            np.testing.assert_array_equal(found.history[column], whole.history[column], err_msg=column)


def test_a_run_that_ended_within_an_iteration_cannot_go_on(tmp_path):
    found = run(after_calls("lower_jvp", 20, interrupt), "soba", max_iter=300)
    with pytest.raises(ValueError, match="interrupted within an iteration"):
        found.save(tmp_path / "run.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("again", [False, True])
def test_an_interrupted_evaluation(problem, again):
    evaluate, calls = problem.upper_value, []

    def watched(x, y):
        calls.append(x)
        if len(calls) == 3 or (len(calls) > 3 and again):
            raise KeyboardInterrupt
        return evaluate(x, y)

    problem.upper_value = watched
    found = run(problem, "soba", eval_every=5)
    whole = run(PlainLogistic(*DATA), "soba", max_iter=10)
    assert found.status == "interrupted" and found.nit == 10
    for part in "xyu":
        np.testing.assert_array_equal(found[part], whole[part])
    assert np.isnan(found.fun) if again else found.fun == whole.fun


def test_an_interrupted_estimate_of_the_inner_step():
    found = run(after_calls("lower_hvp", 2, interrupt), "soba", inner_step_size=None)
    assert found.status == "interrupted" and found.nit == 0 and found.counts == nbo.OracleCounts(lower_hvp=2)
    np.testing.assert_array_equal(found.x, X0)


def test_an_interrupted_first_evaluation(problem):
    def stop(x, y, batch=None):
        raise KeyboardInterrupt

    problem.upper_value = stop
    with pytest.raises(KeyboardInterrupt):
        run(problem, "soba")


@pytest.mark.parametrize("method", STOCHASTIC)
def test_methods_come_near_the_solution(method):
    """Of the problem whose solution the deterministic method knows to many digits."""
    problem = PlainLogistic(*logistic_data(200, 150, 3), bounds=(-4.0, 1.0))
    exact = nbo.minimize(problem, np.zeros(3), method="nbo-cg", tol=1e-9)
    assert exact.success
    options = {"step_size": PowerDecay(10.0, 0.2), "inner_step_size": 0.5, "batch_size": 50}
    found = nbo.minimize(problem, np.zeros(3), method=method, max_iter=400, options=options, random_state=1)
    start = nbo.hypergradient(problem, np.zeros(3)).value
    assert nbo.hypergradient(problem, found.x).value - exact.fun < 0.03 * (start - exact.fun)

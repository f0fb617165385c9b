"""L-BFGS on the lower level: its pairs, its line search and what it calls."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_problems import Overriding, SelfCounting

import nbo
from nbo.lbfgs import DECREASE, LBFGS, SLOPE, TRIALS
from nbo.oracles import CountedProblem, OracleCounts
from nbo.problems import NonQuadratic, Quadratic
from nbo.quasi_newton import has_curvature, inverse_product

X = np.zeros(3)


def dense_inverse(pairs, n):
    """The inverse BFGS matrix by its textbook recursion, from s'r/r'r I of the newest pair."""
    s, r = pairs[-1]
    B = (s @ r) / (r @ r) * np.eye(n)
    for s, r in pairs:
        V = np.eye(n) - np.outer(r, s) / (s @ r)
        B = V.T @ B @ V + np.outer(s, s) / (s @ r)
    return B


def recorded(problem, x, y, **options):
    """A minimisation and all points that it went through."""
    points = []

    def extra(k, point, pairs, length):
        assert k == len(points) + 1
        points.append(point)
        return pairs

    found = LBFGS(**options).minimize(CountedProblem(problem), x, y, extra=extra)
    return found, points


@settings(max_examples=25)
@given(st.integers(2, 8), st.integers(1, 6), st.integers(1, 12), st.integers(0, 99))
def test_pairs_and_directions_equal_dense_bfgs_also_after_the_memory_has_wrapped(n, memory, n_steps, seed):
    problem = Quadratic.family(n, 3, 10)
    y0 = np.random.default_rng(seed).standard_normal(n)
    found, points = recorded(problem, X, y0, n_steps=n_steps, memory=memory, tol=1e-6)
    ys = [y0, *(p.y for p in points)]
    grads = [problem.H @ y - problem.c for y in ys]
    pairs = [(b - a, h - g) for a, b, g, h in zip(ys, ys[1:], grads, grads[1:], strict=False)][-memory:]
    assert len(found.pairs) == len(pairs)
    for (s, r), (s_hand, r_hand) in zip(found.pairs, pairs, strict=True):
        np.testing.assert_allclose(s, s_hand, atol=1e-14)
        np.testing.assert_allclose(r, r_hand, atol=1e-13)
    if pairs:
        v = np.linspace(-1, 2, n)
        np.testing.assert_allclose(inverse_product(found.pairs, v), dense_inverse(pairs, n) @ v, rtol=1e-6, atol=1e-8)
    for k in range(1, len(points)):  # each step lies along -B grad of the pairs that were there
        before = [(b - a, h - g) for a, b, g, h in zip(ys, ys[1:], grads, grads[1:], strict=False)][:k][-memory:]
        p, step = -dense_inverse(before, n) @ grads[k], ys[k + 1] - ys[k]
        np.testing.assert_allclose(step, p * (step @ p) / (p @ p), atol=1e-7 * np.linalg.norm(step))


def test_with_exact_line_searches_a_full_memory_gives_the_inverse_after_n_steps():
    problem = Quadratic.family(n=6, m=3, kappa=30)
    lbfgs, H = LBFGS(6, memory=6), problem.H
    y, pairs = np.zeros(6), ()
    for _ in range(6):
        grad = H @ y - problem.c
        p = -inverse_product(pairs, grad)
        s = -(p @ grad) / (p @ H @ p) * p
        y, pairs = y + s, lbfgs.with_pair(pairs, s, H @ s)
    assert len(pairs) == 6
    np.testing.assert_allclose(y, problem.y_star(X), atol=1e-9)
    for v in np.eye(6):
        np.testing.assert_allclose(inverse_product(pairs, v), np.linalg.solve(H, v), atol=1e-8)


def test_every_step_meets_the_strong_wolfe_conditions():
    problem = NonQuadratic(np.eye(4), np.ones(4), np.ones(4), mu=0.05, L=3.0)
    x, y = np.array([3.0, -2.0, 0.5, 1.0]), np.full(4, 20.0)
    _, points = recorded(problem, x, y, n_steps=12, tol=1e-3)
    assert len(points) > 4
    for point in points:
        s, before = point.y - y, problem.lower_grad_y(x, y) @ (point.y - y)
        assert before < 0
        assert problem.lower_value(x, point.y) <= problem.lower_value(x, y) + DECREASE * before + 1e-13
        assert abs(problem.lower_grad_y(x, point.y) @ s) <= SLOPE * abs(before)
        y = point.y


class Recording(SelfCounting):
    """Notes at which points each oracle is called, and counts lower models."""

    def __init__(self, problem):
        super().__init__(problem)
        self.seen_at, self.models = [], 0

    def _call(self, name, *arguments):
        self.seen_at.append((name, *(a.tobytes() for a in arguments)))
        return super()._call(name, *arguments)

    def lower_model(self, x, y):
        self.models += 1
        return super().lower_model(x, y)


@pytest.mark.parametrize("initial_step", [0.3, 1.0, 300.0])
def test_no_point_is_evaluated_twice_and_each_has_one_model(initial_step):
    problem = Recording(Quadratic.family(n=7, m=3, kappa=100))
    view = CountedProblem(problem)
    found = LBFGS(200, 1e-9, initial_step=initial_step).minimize(view, X, np.ones(7))
    assert found.point.grad_norm <= 1e-9 and not found.stalled
    assert len(problem.seen_at) == len(set(problem.seen_at))
    assert problem.models == len({tuple(point) for _, *point in problem.seen_at})
    assert view.counts == problem.seen()
    assert view.counts.lower_hvp == view.counts.upper_grad == 0
    assert max(view.counts.lower_value, view.counts.lower_grad_y) <= TRIALS * found.n_steps + 1


def test_a_start_that_meets_the_tolerance_costs_one_gradient():
    view = CountedProblem(Quadratic.family(n=5, m=3, kappa=8))
    found = LBFGS(10, 1e-8).minimize(view, X, view.problem.y_star(X))
    assert (found.n_steps, found.stalled, found.pairs) == (0, False, ())
    assert view.counts == OracleCounts(lower_grad_y=1)


def test_the_first_trial_is_the_initial_step_along_the_gradient():
    problem = Recording(Quadratic.family(n=5, m=3, kappa=8))
    grad = problem.lower_grad_y(X, np.ones(5))
    problem.seen_at.clear()
    LBFGS(1, initial_step=0.25).minimize(CountedProblem(problem), X, np.ones(5))
    trials = [np.frombuffer(y) for name, _, y in problem.seen_at if name == "lower_value"]
    np.testing.assert_allclose(trials[1], np.ones(5) - 0.25 * min(1, 1 / np.linalg.norm(grad)) * grad, atol=1e-15)


@pytest.mark.parametrize("oracle", ["lower_value", "lower_grad_y"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_trial_that_is_not_finite_is_too_long_a_step(oracle, bad):
    inner = Overriding().inner
    x = np.ones(2)
    reach = 1.5 * np.linalg.norm(inner.y_star(x)) + 1

    def faulty(x, y):
        return getattr(inner, oracle)(x, y) * (1.0 if np.linalg.norm(y) < reach else bad)

    view = CountedProblem(Overriding(**{oracle: faulty}))
    with np.errstate(invalid="ignore"):
        found = LBFGS(60, 1e-8, initial_step=1e5).minimize(view, x, np.zeros(3))
    np.testing.assert_allclose(found.point.y, inner.y_star(x), atol=1e-7)


def test_a_start_that_is_not_finite_is_an_error():
    view = CountedProblem(Overriding(lower_value=lambda x, y: np.nan))
    with pytest.raises(nbo.oracles.NonFiniteOracleError):
        LBFGS(5).minimize(view, np.ones(2), np.zeros(3))


def test_a_function_that_no_step_lowers_ends_within_the_budget():
    start = np.zeros(3)
    view = CountedProblem(Overriding(lower_value=lambda x, y: 0.0 if not y.any() else 1.0 + np.linalg.norm(y)))
    found = LBFGS(5).minimize(view, np.ones(2), start)
    assert found.stalled and (found.point.y == start).all()
    assert view.counts.lower_value <= TRIALS + 1 and view.counts.lower_grad_y <= TRIALS + 1


def test_below_rounding_slopes_decide():
    """Values that are the same to rounding long before the gradient is small."""
    inner = Overriding().inner
    problem = Overriding(lower_value=lambda x, y: 1e9 + inner.lower_value(x, y))
    x = np.ones(2)
    found = LBFGS(200, 1e-12).minimize(CountedProblem(problem), x, np.zeros(3))
    assert found.point.grad_norm <= 1e-12
    stalled = LBFGS(500).minimize(CountedProblem(problem), x, np.zeros(3))
    assert stalled.point.grad_norm <= 1e-14


def test_single_precision_stays_single():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 4)).astype(np.float32)
    b = np.where(A @ np.ones(4) + rng.standard_normal(60) > 0, 1, -1)
    problem = nbo.problems.BinaryLogistic(A[:40], b[:40], A[40:], b[40:])
    found = LBFGS(40, 1e-5).minimize(CountedProblem(problem), np.full(4, -2.0), np.zeros(4, np.float32))
    assert found.point.y.dtype == found.point.grad.dtype == np.float32
    assert {a.dtype for pair in found.pairs for a in pair} == {np.dtype(np.float32)}
    assert found.point.grad_norm <= 1e-5
    assert inverse_product(found.pairs, found.point.grad).dtype == np.float32


def test_pairs_without_curvature_are_left_out():
    lbfgs = LBFGS(3, memory=2)
    s = np.array([1.0, 0.0])
    pairs = lbfgs.with_pair((), s, 2 * s)
    assert has_curvature(s, 2 * s) and not has_curvature(s, -s) and not has_curvature(s, np.array([0.0, 1.0]))
    assert lbfgs.with_pair(pairs, s, -s) == pairs
    assert len(lbfgs.with_pair((*pairs, *pairs), s, 3 * s)) == 2
    np.testing.assert_array_equal(inverse_product((), np.arange(3.0)), np.arange(3.0))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"n_steps": -1}, "n_steps"),
        ({"n_steps": 2, "tol": -1.0}, "tol"),
        ({"n_steps": 2, "memory": 0}, "memory"),
        ({"n_steps": 2, "initial_step": 0.0}, "initial_step"),
    ],
)
def test_bad_options(options, error):
    with pytest.raises(ValueError, match=f"^{error}: found"):
        LBFGS(**options)


def test_the_line_search_is_imported_when_it_is_needed():
    code = "import sys, nbo, nbo.lbfgs; assert 'scipy.optimize' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

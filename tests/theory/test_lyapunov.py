"""The Lyapunov tracker: its numbers against definitions, and that it can find violations."""

import math

import numpy as np
import pytest
from reference_problems import SelfCounting
from theory_instances import instance, non_quadratic

import nbo
from nbo.theory import Lyapunov, theoretical_parameters


def tracked(problem, x0, y0, u0, *, method="nbo-gd", factor=1.0, max_iter=20, phi_star=None, constants=None, **kwargs):
    """A run with its tracker."""
    c = problem.constants() if constants is None else constants
    p = theoretical_parameters(c, method)
    tracker = Lyapunov(problem, c, phi_star, step_size=factor * p.alpha, start=(x0, y0, u0))
    options = p.options() | {"step_size": factor * p.alpha}
    res = nbo.minimize(
        problem,
        x0,
        y0=y0,
        u0=u0,
        method=method,
        options=options,
        tol=0.0,
        max_iter=max_iter,
        callback=tracker,
        **kwargs,
    )
    return tracker, res


def test_rows_are_what_they_are_called():
    """Every number of a row, from the closed forms and the plain iteration."""
    problem, x = instance("non-quadratic:4")
    c = problem.constants()
    p = theoretical_parameters(c)
    y, u = problem.y_star(x) + np.array([0.1, -0.2]), problem.u_star(x) + np.array([0.5, -0.1])
    tracker, res = tracked(problem, x, y, u, max_iter=5, phi_star=0.25)
    assert [row.iteration for row in tracker.rows] == [0, 1, 2, 3, 4, 5]

    def V(x, y, u):
        e_y, e_u = y - problem.y_star(x), u - problem.u_star(x)
        return problem.phi(x) - 0.25 + 4 * c.L1 * e_y @ e_y + c.mu**2 / (8 * c.L1) * e_u @ e_u

    for row in tracker.rows:
        d_x = problem.upper_grad(x, y)[0] - problem.lower_jvp(x, y, u)
        e_y, e_u = y - problem.y_star(x), u - problem.u_star(x)
        grad = problem.grad_phi(x)
        assert pytest.approx(V(x, y, u)) == row.V and row.phi == pytest.approx(problem.phi(x))
        assert row.y_distance == pytest.approx(np.linalg.norm(e_y))
        assert row.u_distance == pytest.approx(np.linalg.norm(e_u))
        assert row.grad_norm == pytest.approx(np.linalg.norm(grad))
        if row.iteration == 5:
            assert math.isnan(row.slack) and math.isnan(row.d_x_norm)
            break
        H = np.diag(problem.lower_hvp(x, y, np.ones(2)))
        v, w = np.zeros(2), np.zeros(2)
        for _ in range(p.T + 1):
            v = v - p.gamma * (H @ v - problem.lower_grad_y(x, y))
            w = w - p.gamma * (H @ w - (H @ u - problem.upper_grad(x, y)[1]))
        x_new, y_new, u_new = x - p.alpha * d_x, y - v, u - w
        promised = p.alpha / 2 * grad @ grad + p.alpha / 8 * d_x @ d_x + c.L1 / 2 * e_y @ e_y
        promised += 7 * c.mu**2 / (128 * c.L1) * e_u @ e_u
        assert row.d_x_norm == pytest.approx(np.linalg.norm(d_x)) and row.terms == pytest.approx(promised)
        assert row.slack == pytest.approx(V(x, y, u) - V(x_new, y_new, u_new) - promised, rel=1e-6)
        x, y, u = x_new, y_new, u_new
    assert np.allclose(res.x, x) and tracker.summary().violations == ()


def test_solved_references_equal_closed_forms():
    problem, x0 = instance("non-quadratic:8")
    start = nbo.initialization.box1(problem, x0)
    closed, _ = tracked(problem, x0, start.y, start.u)
    plain = SelfCounting(problem)
    solved, res = tracked(plain, x0, start.y, start.u, constants=problem.constants())
    for a, b in zip(closed.rows, solved.rows, strict=True):
        assert np.allclose(a[:7], b[:7], rtol=1e-9, atol=1e-12, equal_nan=True)
        assert a.slack == pytest.approx(b.slack, rel=1e-5, abs=1e-14, nan_ok=True)
    assert closed.counts == nbo.OracleCounts() and solved.counts.lower_hvp > 0
    extra = plain.seen() - res.counts - res.evaluation_counts - solved.counts
    # besides the solutions one gradient of f an iterate, for the rounding of Phi
    assert extra == nbo.OracleCounts(upper_grad=len(solved.rows))
    assert solved.seconds > 0


@pytest.mark.parametrize("kind", ["quadratic", "non-quadratic"])
def test_a_step_100_times_too_large_violates_the_descent(kind):
    problem, x0 = instance(f"{kind}:8")
    start = nbo.initialization.box1(problem, x0)
    summary = tracked(problem, x0, start.y, start.u, factor=100, max_iter=150)[0].summary()
    assert not summary.ok and {violation.what for violation in summary.violations} == {"descent"}
    assert summary.descent_slack < 0 and max(v.excess for v in summary.violations) > 0.1


def test_a_start_beyond_the_radii_violates_the_invariants():
    problem, x0 = instance("non-quadratic:8")
    c = problem.constants()
    y0 = problem.y_star(x0) + np.array([1.1 * c.mu / (2 * c.L_g2), 0])
    u0 = problem.u_star(x0) + np.array([0, 1.2 * 5 * c.L1 / (2 * c.L_g2)])
    summary = tracked(problem, x0, y0, u0)[0].summary()
    first = [v for v in summary.violations if v.iteration == 0 and v.what != "descent"]
    assert [v.what for v in first] == ["y-invariant", "u-invariant"]
    assert [v.excess for v in first] == pytest.approx([0.1, 0.2])
    assert summary.y_slack == pytest.approx(-0.1) and summary.u_slack == pytest.approx(-0.2)


def test_wrong_constants_are_found_out():
    """With a tenth of the true constants the step is too large, whatever the start."""
    problem, x0 = instance("quadratic:8")
    c = problem.constants()
    wrong = nbo.theory.ProblemConstants(mu=c.L_g1 / 1.01, L_g1=c.L_g1, L_g2=0, L_f0=1, L_f1=c.L_f1, C_f0=1)
    tracker, _ = tracked(problem, x0, np.zeros(5), np.zeros(5), constants=wrong)
    assert tracker.summary().violations


def test_steps_that_a_bound_cuts_are_told():
    problem, x0 = instance("non-quadratic:4")
    toward = x0 - 1e-6 * np.sign(problem.grad_phi(x0))
    bounds = np.minimum(x0, toward), np.maximum(x0, toward)
    start = nbo.initialization.box1(problem, x0)
    summary = tracked(problem, x0, start.y, start.u, bounds=bounds)[0].summary()
    assert summary.n_clipped > 0 and not summary.ok and not summary.violations


def test_without_a_start_checks_begin_with_the_first_iteration():
    problem, x0 = instance("non-quadratic:4")
    start = nbo.initialization.box1(problem, x0)
    p = theoretical_parameters(problem.constants())
    tracker = Lyapunov(problem)
    settings = {"y0": start.y, "u0": start.u, "tol": 0.0, "max_iter": 6, "callback": tracker}
    nbo.minimize(problem, x0, method=p.solver(), **settings)
    assert [row.iteration for row in tracker.rows] == [1, 2, 3, 4, 5, 6] and tracker.summary().n_checked == 5
    sparse = Lyapunov(problem)
    nbo.minimize(
        problem, x0, method="nbo-gd", options=p.options() | {"eval_every": 2}, **(settings | {"callback": sparse})
    )
    assert [row.iteration for row in sparse.rows] == [2, 4, 6] and sparse.summary().n_checked == 0
    assert not sparse.summary().ok and sparse.summary().n_missing == 2
    assert sparse.summary().reason.startswith("iterates are missing")
    with pytest.raises(ValueError, match="callback: found iteration 1 after 6; expected a Lyapunov object of its own"):
        nbo.minimize(problem, x0, method=p.solver(), **settings)


@pytest.mark.parametrize("method", ["nbo-gd", "nbo-cg"])
def test_steps_of_another_size_are_told(method):
    problem, x0 = instance("non-quadratic:4")
    start = nbo.initialization.box1(problem, x0)
    alpha = theoretical_parameters(problem.constants()).alpha
    for options in ({"step_size": 1.01 * alpha}, {"step_size": 0.5 * alpha}, {}):
        tracker = Lyapunov(problem, start=(x0, start.y, start.u))
        settings = {"y0": start.y, "u0": start.u, "tol": 0.0, "max_iter": 4, "callback": tracker}
        nbo.minimize(problem, x0, method=method, options=options, **settings)
        summary = tracker.summary()
        assert summary.n_other + summary.n_clipped == 4 and summary.n_checked == 0
        assert summary.n_other == 4 or not options
        assert options == {} or summary.reason == "steps are not alpha d_x with the given step_size"


def test_rounding_is_no_violation():
    """At a solution nothing moves but by rounding, which hides the decrease."""
    problem = nbo.problems.Quadratic.family(n=5, m=3, kappa=4)
    x0 = problem.x_star()
    tracker, _ = tracked(problem, x0, problem.y_star(x0), problem.u_star(x0))
    summary = tracker.summary()
    assert not summary.violations and summary.n_unresolved == summary.n_checked == 20
    assert math.isnan(summary.descent_slack) and not summary.ok


def test_bad_arguments_are_refused():
    problem, x0 = instance("quadratic:4")
    for call, message in (
        (lambda: Lyapunov(nbo.problems.ConvexToy(3)), "constants: ConvexToy has none"),
        (lambda: Lyapunov(problem, phi_star="low"), "phi_star: found 'low'"),
        (lambda: Lyapunov(problem, step_size=0), "step_size: found 0"),
        (lambda: Lyapunov(problem, constants=4), "constants: found int; expected a ProblemConstants"),
        (lambda: Lyapunov(problem, start=(x0, np.zeros(2), np.zeros(5))), r"y0: found shape \(2,\)"),
        (lambda: Lyapunov(problem, start=(x0, np.zeros(5))), r"start: found 2 parts; expected \(x0, y0, u0\)"),
        (lambda: Lyapunov(problem).summary(), "rows: found no iterate"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call()


def test_phi_star_shifts_v_alone():
    problem, x0 = instance("quadratic:4")
    best = problem.phi(problem.x_star())
    runs = [tracked(problem, x0, np.zeros(5), np.zeros(5), phi_star=value)[0] for value in (None, best)]
    for a, b in zip(*(run.rows for run in runs), strict=True):
        assert pytest.approx(best) == a.V - b.V and a.slack == pytest.approx(b.slack, nan_ok=True)
    assert non_quadratic(4).phi(x0[:2]) >= 0

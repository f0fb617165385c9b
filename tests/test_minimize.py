"""The contract of `minimize` over all methods."""

import dataclasses
import pickle
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_problems import (
    CHOOSING,
    DETERMINISTIC,
    EARLY,
    GIVEN,
    Overriding,
    Required,
    SelfCounting,
    fixed_options,
    logistic_data,
)
from scipy.optimize import Bounds, OptimizeResult

import nbo
from nbo._clock import compilation
from nbo.solvers import REGISTRY

METHODS = DETERMINISTIC


@pytest.fixture
def problem():
    return nbo.problems.Quadratic.family(n=5, m=3, kappa=8)


@pytest.mark.parametrize("method", CHOOSING)
def test_reaches_the_closed_form_without_a_step_size(problem, method):
    result = nbo.minimize(problem, np.zeros(3), method=method, tol=1e-8, max_iter=5000)
    assert result.status == nbo.Status.CONVERGED == "converged" and result.success
    np.testing.assert_allclose(result.x, problem.x_star(), atol=1e-6)
    np.testing.assert_allclose(result.y, problem.y_star(result.x), atol=1e-6)
    np.testing.assert_allclose(result.u, problem.u_star(result.x), atol=1e-6)
    assert max(result.hypergrad_norm, result.lower_grad_norm, result.adjoint_residual) <= 1e-8


@pytest.mark.parametrize("method", CHOOSING)
@pytest.mark.parametrize("step_size", [None, 0.002])
def test_converges_with_given_inner_steps(problem, method, step_size):
    options = fixed_options(method, step_size, 0.5)
    result = nbo.minimize(problem, np.zeros(3), method=method, tol=1e-6, max_iter=20_000, options=options)
    assert result.success, result.message
    np.testing.assert_allclose(result.x, problem.x_star(), atol=1e-4)


@pytest.mark.parametrize("method", CHOOSING)
def test_reaches_a_stationary_point_of_a_nonquadratic_problem(method):
    problem = nbo.problems.NonQuadratic([[1.0, 0.2], [-0.3, 0.8]], [2.0, -1.5], [0.0, 0.5], mu=0.2, L=1.0)
    result = nbo.minimize(problem, [0.5, 0.5], method=method, tol=1e-7, max_iter=5000)
    assert result.success
    np.testing.assert_allclose(problem.grad_phi(result.x), 0, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("given_steps", [True, False])
@pytest.mark.parametrize("watched", [True, False])
def test_counts_equal_what_the_problem_sees(problem, method, given_steps, watched):
    counting = SelfCounting(problem)
    seen = []
    given_steps = given_steps or method in GIVEN
    result = nbo.minimize(
        counting, np.zeros(3), method=method, tol=0, max_iter=23,
        callback=(lambda xk: seen.append(xk)) if watched else None,
        options=(fixed_options(method) if given_steps else {}) | {"eval_every": 5},
    )  # fmt: skip
    assert result.counts + result.evaluation_counts == counting.seen()
    assert result.evaluation_counts == nbo.OracleCounts(upper_value=6)  # 0, 5, 10, 15, 20 and the last
    assert len(seen) == (4 if watched else 0)
    if given_steps:
        per_iteration = REGISTRY[method](**fixed_options(method)).cost_per_iteration(5)
        bound = per_iteration * 23
        for kind in EARLY.get(method, ()):
            assert getattr(result.counts, kind) <= getattr(bound, kind)
            bound = dataclasses.replace(bound, **{kind: getattr(result.counts, kind)})
        assert result.counts == bound


@pytest.mark.parametrize(
    ("method", "options", "products"),
    [
        ("nbo-gd", {"n_inner": 0}, 1),
        ("nbo-gd", {"n_inner": 4}, 9),
        ("nbo-chebyshev", {"n_inner": 4}, 9),
        ("nbo-cg", {"n_inner": 1}, 5),
        ("nbo-lanczos", {"n_inner": 1}, 5),
        ("nbo-block-cg", {"n_inner": 1}, 5),
        ("nbo-cholesky", {}, 6),
        ("amigo-gd", {"n_lower_steps": 7}, 7),
        ("amigo-gd", {"n_lower_steps": 7, "n_linear_steps": 2}, 2),
        ("amigo-cg", {"n_linear_steps": 2}, 3),
        ("no-loop-aid", {}, 1),
    ],
)
def test_products_of_an_iteration(problem, method, options, products):
    result = nbo.minimize(
        problem, np.ones(3), method=method, tol=0, max_iter=3, options=fixed_options(method) | options
    )
    assert result.counts.lower_hvp == 3 * products
    assert result.counts.upper_grad == result.counts.lower_jvp == 3
    assert result.counts.lower_grad_y == 3 * options.get("n_lower_steps", 10 if method.startswith("ami") else 1)


def test_the_newton_point_variant(problem):
    """d_x at y - v, u - w (paper, Section 2.1), by hand with exact directions."""
    options = {"step_size": 0.02, "variant": "newton-point"}
    x, y, u = np.zeros(3), np.zeros(5), np.zeros(5)
    result = nbo.minimize(problem, x, method="nbo-cholesky", tol=0, max_iter=4, options=options)
    for _ in range(4):
        grad_2 = problem.upper_grad(x, y)[1]
        y_new = y - np.linalg.solve(problem.H, problem.lower_grad_y(x, y))
        u_new = u - np.linalg.solve(problem.H, problem.H @ u - grad_2)
        d_x = problem.upper_grad(x, y_new)[0] - problem.lower_jvp(x, y_new, u_new)
        x, y, u = x - 0.02 * d_x, y_new, u_new
    np.testing.assert_allclose(result.x, x, atol=1e-12)
    assert result.counts.upper_grad == 8
    adaptive = nbo.minimize(problem, np.zeros(3), method="nbo-cg", tol=1e-8, options={"variant": "newton-point"})
    np.testing.assert_allclose(adaptive.x, problem.x_star(), atol=1e-6)


def test_nbo_gd_without_inner_steps_is_the_single_loop_method(problem):
    x, y, u = np.full(3, 0.1), np.ones(5), np.ones(5)
    result = nbo.minimize(
        problem, x, y0=y, u0=u, method="nbo-gd", tol=0, max_iter=30,
        options={"step_size": 0.01, "inner_step_size": 0.4, "n_inner": 0},
    )  # fmt: skip
    for _ in range(30):
        grad_1, grad_2 = problem.upper_grad(x, y)
        x, y, u = (
            x - 0.01 * (grad_1 - problem.lower_jvp(x, y, u)),
            y - 0.4 * problem.lower_grad_y(x, y),
            u - 0.4 * (problem.lower_hvp(x, y, u) - grad_2),
        )
    np.testing.assert_allclose(np.concatenate([result.x, result.y, result.u]), np.concatenate([x, y, u]), atol=1e-13)


@settings(max_examples=20)
@given(st.integers(0, 6), st.integers(1, 6), st.integers(1, 4), st.floats(1, 100), st.floats(0.05, 1.0))
def test_on_a_quadratic_nbo_gd_takes_gradient_steps_on_y(T, n, m, kappa, gamma):
    problem = nbo.problems.Quadratic.family(n, m, kappa if n > 1 else 1.0)
    x0, y = np.ones(m), np.linspace(-1, 1, n)
    result = nbo.minimize(
        problem, x0, y0=y, method="nbo-gd", tol=0, max_iter=1,
        options={"step_size": 0.1, "inner_step_size": gamma, "n_inner": T},
    )  # fmt: skip
    for _ in range(T + 1):
        y = y - gamma * problem.lower_grad_y(x0, y)
    np.testing.assert_allclose(result.y, y, atol=1e-12)


def test_krylov_methods_with_n_steps_equal_cholesky():
    problem = nbo.problems.BinaryLogistic(*logistic_data(p=4), prior=(-3.0, 1.0))
    runs = {
        method: nbo.minimize(
            problem, np.full(4, -3.0), method=method, tol=0, max_iter=15,
            options={"step_size": 1.0} | ({} if method == "nbo-cholesky" else {"n_inner": inner}),
        )
        for method, inner in {"nbo-cg": 11, "nbo-lanczos": 3, "nbo-block-cg": 3, "nbo-cholesky": 0}.items()
    }  # fmt: skip
    for part in "xyu":
        for run in runs.values():
            np.testing.assert_allclose(run[part], runs["nbo-cholesky"][part], atol=1e-9)


def test_no_loop_aid_is_amigo_with_one_step(problem):
    steps = {"step_size": 0.01, "inner_step_size": 0.5}
    a = nbo.minimize(problem, np.zeros(3), method="no-loop-aid", max_iter=20, options=steps)
    b = nbo.minimize(problem, np.zeros(3), method="amigo-gd", max_iter=20, options=steps | {"n_lower_steps": 1})
    np.testing.assert_array_equal(a.x, b.x)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_call_gives_the_same_bits_and_keeps_inputs(problem, method):
    x0, y0, u0 = np.ones(3), np.ones(5), np.ones(5)
    options = fixed_options(method) if method in GIVEN else {}
    solver = REGISTRY[method](**options)
    runs = [nbo.minimize(problem, x0, y0=y0, u0=u0, method=solver, max_iter=40) for _ in range(2)]
    runs.append(
        nbo.minimize(problem, x0, y0=y0, u0=u0, method=method, max_iter=40, options=options, callback=lambda xk: None)
    )
    for run in runs[1:]:
        for part in "xyu":
            np.testing.assert_array_equal(run[part], runs[0][part])
        assert run.counts == runs[0].counts and run.method == method
    for array in (x0, y0, u0):
        assert (array == 1).all()


def test_results_and_solvers_pickle(problem):
    result = nbo.minimize(problem, np.zeros(3), max_iter=5)
    again = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(again.x, result.x)
    assert again.status == result.status and again.counts == result.counts
    np.testing.assert_array_equal(again.history.value, result.history["value"])
    solver = nbo.NBOGD(step_size=0.1, n_inner=3)
    assert pickle.loads(pickle.dumps(solver)) == solver


@pytest.mark.parametrize("bounds", [(-0.2, 0.1), (np.full(3, -0.2), 0.1), Bounds(-0.2, 0.1)])
def test_bounds(problem, bounds):
    result = nbo.minimize(problem, np.zeros(3), bounds=bounds, tol=1e-8)
    assert result.success and (result.x >= -0.2).all() and (result.x <= 0.1).all()
    projected = result.x - np.clip(result.x - problem.grad_phi(result.x), -0.2, 0.1)
    np.testing.assert_allclose(projected, 0, atol=1e-6)
    assert (np.abs(result.x - problem.x_star()) > 1e-3).any()


def test_equal_bounds_fix_an_entry(problem):
    result = nbo.minimize(problem, np.zeros(3), bounds=([0, -np.inf, -np.inf], [0, np.inf, np.inf]), tol=1e-8)
    assert result.success and result.x[0] == 0
    np.testing.assert_allclose(problem.grad_phi(result.x)[1:], 0, atol=1e-6)


def test_a_projection_that_is_no_box(problem):
    class OnBall(nbo.problems.Quadratic):
        def project(self, x):
            return x / max(1.0, np.linalg.norm(x) / 0.3)

    ball = OnBall(problem.H, problem.B, problem.c, problem.d, problem.e)
    result = nbo.minimize(ball, np.zeros(3), tol=1e-7)
    assert result.success and np.linalg.norm(result.x) == pytest.approx(0.3)
    assert np.linalg.norm(ball.project(result.x - problem.grad_phi(result.x)) - result.x) < 1e-5
    with pytest.raises(ValueError, match=r"bounds: OnBall defines project\(\)"):
        nbo.minimize(ball, np.zeros(3), bounds=(0, 1))


# --- history, callbacks, statuses


def test_history(problem):
    result = nbo.minimize(problem, np.zeros(3), method="nbo-cg", max_iter=12, tol=0, options={"eval_every": 5})
    history = result.history
    np.testing.assert_array_equal(history.iteration, [0, 5, 10, 12])
    assert {len(history[name]) for name in history} == {4}
    np.testing.assert_array_equal(history["lower_grad_y"], history.iteration)
    assert np.isnan(history.hypergrad_norm[0]) and np.isfinite(history.hypergrad_norm[1:]).all()
    assert history.value[-1] == result.fun and (np.diff(history.seconds) >= 0).all()
    assert result.best.fun == history.value.min()
    assert result.fun == problem.upper_value(result.x, result.y)
    with pytest.raises(AttributeError, match="no column 'nothing'; it has iteration"):
        _ = history.nothing


def test_callbacks_as_in_scipy(problem):
    def by_name(intermediate_result):
        assert isinstance(intermediate_result, OptimizeResult)
        intermediate_result.x[:] = 99  # a copy
        results.append(intermediate_result)

    results, points = [], []
    with_result = nbo.minimize(problem, np.zeros(3), callback=by_name, max_iter=6, tol=0)
    with_point = nbo.minimize(problem, np.zeros(3), callback=lambda xk: points.append(xk), max_iter=6, tol=0)
    plain = nbo.minimize(problem, np.zeros(3), max_iter=6, tol=0)
    np.testing.assert_array_equal(with_result.x, plain.x)
    np.testing.assert_array_equal(with_point.x, points[-1])
    assert [r.nit for r in results] == [1, 2, 3, 4, 5, 6]
    assert results[-1].fun == plain.fun and results[-1].counts == plain.counts


@pytest.mark.parametrize("how", ["raise", "return"])
def test_a_callback_stops_the_run(problem, how):
    def stop(intermediate_result):
        if intermediate_result.nit == 3:
            if how == "raise":
                raise StopIteration
            return True
        return None

    result = nbo.minimize(problem, np.zeros(3), callback=stop)
    assert result.status == "stopped" and result.nit == 3 and not result.success
    assert "stopped by the callback after 3 iterations" in result.message


def test_an_exception_in_a_callback_is_the_callers(problem):
    def fail(xk):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        nbo.minimize(problem, np.zeros(3), callback=fail)


@pytest.mark.parametrize("where", ["callback", "lower_hvp", "upper_value"])
def test_interruption_returns_the_last_completed_iterate(where):
    calls = 0

    def interrupt(*arguments):
        nonlocal calls
        calls += 1
        if calls == 9:
            raise KeyboardInterrupt
        return None if where == "callback" else getattr(inner, where)(*arguments)

    problem = Overriding(**({} if where == "callback" else {where: interrupt}))
    inner = problem.inner
    run = {"method": "nbo-gd", "tol": 0, "options": fixed_options("nbo-gd")}
    result = nbo.minimize(problem, np.zeros(2), callback=interrupt if where == "callback" else None, **run)
    assert result.status == "interrupted" and not result.success
    straight = nbo.minimize(Overriding(), np.zeros(2), max_iter=result.nit, **run)
    np.testing.assert_array_equal(result.x, straight.x)
    assert result.fun == straight.fun and "interrupted after" in result.message


@pytest.mark.parametrize("method", METHODS)
def test_a_step_far_too_large_diverges_to_the_best_finite_point(problem, method):
    result = nbo.minimize(problem, np.ones(3), method=method, options=fixed_options(method, step_size=1e6))
    assert result.status == "diverged" and not result.success
    for part in "xyu":
        np.testing.assert_array_equal(result[part], result.best._asdict()[part])
        assert np.isfinite(result[part]).all()
    assert result.fun == result.best.fun == result.history.value.min()
    assert "diverged after" in result.message and "smaller step_size" in result.message


def test_an_inner_step_far_too_large_diverges(problem):
    result = nbo.minimize(problem, np.ones(3), method="nbo-gd", options=fixed_options("nbo-gd", 0.01, 1e8))
    assert result.status == "diverged" and np.isfinite(result.x).all()


def test_an_oracle_that_fails_later_is_divergence_that_names_it():
    calls = 0

    def later(x, y):
        nonlocal calls
        calls += 1
        return Overriding().inner.lower_grad_y(x, y) * (np.nan if calls > 5 else 1)

    result = nbo.minimize(Overriding(lower_grad_y=later), np.zeros(2), method="nbo-cg", max_iter=50)
    assert result.status == "diverged" and result.nit == 5 and "lower_grad_y returned" in result.message


def test_a_tolerance_below_rounding_is_told():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 4)).astype(np.float32)
    b = (1e4 * A.sum(axis=1)).astype(np.float32)
    problem = nbo.problems.Ridge(A[:40], b[:40], A[40:], b[40:], penalty="shared")
    found = nbo.minimize(problem, [-3.0], method="nbo-cg", max_iter=60)
    assert "tol is below what rounding in float32 allows here, give a larger one, or data in float64" in found.message
    for max_iter, tol in ((1, 1e-5), (60, 0)):
        early = nbo.minimize(problem, [-3.0], method="nbo-cg", max_iter=max_iter, tol=tol)
        assert "rounding" not in early.message


def test_entries_at_a_bound_are_told():
    problem = nbo.problems.Quadratic.family(n=4, m=3, kappa=10)
    free = nbo.minimize(problem, np.zeros(3))
    assert free.success and "at a bound" not in free.message
    lower, upper = free.x - 1, free.x + 1
    upper[:2] = free.x[:2] - 0.5
    for fixed in (False, True):  # an entry that cannot move is no news
        if fixed:
            upper[2] = lower[2]
        found = nbo.minimize(problem, lower, bounds=(lower, upper))
        movable = slice(0, 2 if fixed else 3)
        held = int(((found.x == lower) | (found.x == upper))[movable].sum())
        assert found.success and held > 0
        assert found.message.endswith(f"; {held} of 3 entries of x are at a bound")


def test_limits(problem):
    result = nbo.minimize(problem, np.zeros(3), max_iter=4, tol=0)
    assert result.status == "iteration_limit" and result.nit == 4 and "max_iter" in result.message
    nothing = nbo.minimize(problem, np.ones(3), max_iter=0)
    assert nothing.nit == 0 and np.isnan(nothing.jac).all() and nothing.counts == nbo.OracleCounts()
    np.testing.assert_array_equal(nothing.x, np.ones(3))


class FakeClock:
    """Seconds that pass only when something says so."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)

    def costing(self, seconds, function):
        def costly(*arguments):
            self.now += seconds
            return function(*arguments)

        return costly


def test_only_the_solver_spends_solver_time(monkeypatch):
    clock, inner = FakeClock(monkeypatch), Overriding().inner
    problem = Overriding(
        lower_grad_y=clock.costing(1.0, inner.lower_grad_y), upper_value=clock.costing(100.0, inner.upper_value)
    )
    result = nbo.minimize(
        problem, np.zeros(2), method="nbo-cg", max_iter=5, tol=0, options={"step_size": 0.01},
        callback=clock.costing(1000.0, lambda xk: None),
    )  # fmt: skip
    assert result.seconds == 5.0
    np.testing.assert_array_equal(result.history.seconds, [0, 1, 2, 3, 4, 5])


def test_compilation_is_no_solver_time(monkeypatch):
    clock, inner = FakeClock(monkeypatch), Overriding().inner

    def compiles(x, y):
        with compilation:
            clock.now += 7.0
        clock.now += 1.0
        return inner.lower_grad_y(x, y)

    problem = Overriding(lower_grad_y=compiles)
    result = nbo.minimize(problem, np.zeros(2), method="nbo-cg", max_iter=3, tol=0, options={"step_size": 0.01})
    assert result.seconds == 3.0 and result.compile_seconds == 21.0


def test_time_limit(monkeypatch):
    clock, inner = FakeClock(monkeypatch), Overriding().inner
    problem = Overriding(lower_grad_y=clock.costing(1.0, inner.lower_grad_y))
    result = nbo.minimize(problem, np.zeros(2), method="nbo-cg", max_time=2.5, tol=0)
    assert result.status == "time_limit" and result.nit == 3 and "2.5 s" in result.message
    assert nbo.minimize(problem, np.zeros(2), max_time=0).nit == 0


def test_the_first_iterates_of_a_flat_upper_gradient_are_no_solution():
    """At y0 = u0 = 0 d_x = grad_1 f = 0, which says nothing."""
    problem = nbo.problems.BinaryLogistic(*logistic_data(), penalty="shared")
    result = nbo.minimize(problem, [-3.0], tol=1e-6)
    assert result.success and result.nit > 3
    assert abs(nbo.hypergradient(problem, result.x).grad[0]) < 1e-4 or result.x[0] in problem.bounds[0]


# --- bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x0": np.zeros(2)}, r"x0: found shape \(2,\); expected a vector of shape \(3,\) \(dim_x\)"),
        ({"x0": np.zeros((3, 1))}, r"x0: found shape \(3, 1\)"),
        ({"x0": [0, np.nan, 0]}, r"x0: found nan at index 1"),
        ({"x0": [0, np.inf, 0]}, r"x0: found inf at index 1"),
        ({"x0": ["a", "b", "c"]}, r"x0: found an array of type <U1"),
        ({"x0": np.zeros(3, dtype=complex)}, r"x0: found an array of type complex128"),
        ({"x0": None}, r"x0: found an array of type object"),
        ({"y0": np.zeros(4)}, r"y0: found shape \(4,\); expected a vector of shape \(5,\) \(dim_y\)"),
        ({"u0": np.full(5, np.nan)}, r"u0: found nan at index 0 \(5 of 5"),
        ({"x0": np.ma.masked_less([1.0, 0.0, -1.0], 0)}, "x0: found a masked array"),
        ({"tol": 10**400}, "tol: found inf"),
        ({"tol": np.timedelta64(3)}, r"tol: found .*timedelta64"),
        ({"max_iter": np.timedelta64(3)}, r"max_iter: found .*timedelta64"),
        ({"bounds": [(-1, 1)] * 3}, r"bounds: found a list of 3 pairs; expected one pair \(lower, upper\)"),
        ({"tol": -1}, r"tol: found -1.0; expected a number >= 0"),
        ({"tol": "small"}, r"tol: found 'small' \(str\)"),
        ({"tol": np.nan}, r"tol: found nan"),
        ({"max_iter": 2.5}, r"max_iter: found 2.5 \(float\); expected an integer >= 0"),
        ({"max_iter": -1}, r"max_iter: found -1"),
        ({"max_time": -1}, r"max_time: found -1"),
        ({"callback": 3}, r"callback: found int; expected a callable"),
        ({"random_state": "seed"}, r"random_state: found 'seed'"),
        ({"random_state": -1}, r"random_state: found -1"),
        ({"bounds": (1, 0)}, r"bounds: found lower 1 > upper 0 at index 0"),
        ({"bounds": (0, np.nan)}, r"bounds \(upper\): found NaN at index 0"),
        ({"bounds": (np.zeros(2), 1)}, r"bounds \(lower\): found shape \(2,\); expected a scalar or .*\(3,\)"),
        ({"bounds": 3}, r"bounds: found 3; expected a pair"),
        ({"bounds": (1, 2)}, r"x0: found 0 at index 0; expected a value within the bounds \[1, 2\]"),
        ({"method": "nbo_gdd"}, r"method: found 'nbo_gdd'; did you mean 'nbo-gd'\? expected one of nbo-gd, nbo-cg"),
        ({"method": "xyzzy"}, r"method: found 'xyzzy'; expected one of"),
        ({"method": 3}, r"method: found int; expected a name"),
        ({"options": 3}, r"options: found int; expected a dict"),
        ({"options": {"n_iner": 1}}, r"'nbo-cg' has no option 'n_iner'; it has eval_every, n_inner, step_size"),
        ({"options": {"n_inner": 1}, "method": "auto"}, r"method 'auto' has no option 'n_inner'"),
        ({"options": {"n_inner": 1.5}}, r"n_inner: found 1.5 \(float\); expected an integer >= 0"),
        ({"options": {"n_inner": True}}, r"n_inner: found True \(bool\)"),
        ({"options": {"n_inner": -1}}, r"n_inner: found -1"),
        ({"options": {"step_size": -0.1}}, r"step_size: found -0.1; expected a positive number"),
        ({"options": {"step_size": 0}}, r"step_size: found 0.0; expected a positive number"),
        ({"options": {"step_size": "auto"}}, r"step_size: found 'auto' \(str\)"),
        ({"options": {"step_size": lambda k: -1.0}}, r"step_size \(the schedule at k = 0\): found -1.0"),
        ({"options": {"eval_every": 0}}, r"eval_every: found 0; expected an integer >= 1"),
        ({"options": {"variant": "new"}}, r"variant: found 'new'; expected one of 'old-point', 'newton-point'"),
        ({"method": nbo.NBOCG(), "options": {"n_inner": 1}}, r"options: found n_inner beside a solver object"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(problem, arguments, message):
    x0 = arguments.get("x0", np.zeros(3))
    rest = {"method": "nbo-cg"} | {k: v for k, v in arguments.items() if k != "x0"}
    with pytest.raises((TypeError, ValueError), match=message):
        nbo.minimize(problem, x0, **rest)


@pytest.mark.parametrize(
    ("method", "option", "value", "message"),
    [
        ("nbo-gd", "inner_step_size", -1, "inner_step_size: found -1"),
        ("nbo-chebyshev", "spectrum", (0.0, 1.0), r"spectrum: found \(0.0, 1.0\)"),
        ("nbo-chebyshev", "spectrum", 3, "spectrum: found 3"),
        ("amigo-gd", "n_lower_steps", 0, "n_lower_steps: found 0; expected an integer >= 1"),
        ("amigo-cg", "n_linear_steps", 2.0, r"n_linear_steps: found 2.0 \(float\)"),
    ],
)
def test_bad_options_of_single_methods(problem, method, option, value, message):
    with pytest.raises((TypeError, ValueError), match=message):
        nbo.minimize(problem, np.zeros(3), method=method, options={option: value})


def test_a_missing_optional_oracle_is_named_before_the_start():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Needy(nbo.NBOGD):
        needs = ("lower_grad_x", "upper_hvp")

    problem = Required(nbo.problems.Quadratic.family(3, 2, 2))
    with pytest.raises(TypeError, match="Required does not define lower_grad_x, upper_hvp, which method 'nbo-gd'"):
        nbo.minimize(problem, np.zeros(2), method=Needy())
    assert problem.seen() == nbo.OracleCounts()


@pytest.mark.parametrize("method", CHOOSING)
@pytest.mark.parametrize("factor", [-1.0, 0.0])
def test_a_hessian_that_is_not_positive_definite_is_reported(method, factor):
    problem = Overriding(lower_hvp=lambda x, y, v: factor * v)
    with pytest.raises(ArithmeticError, match=r"the Hessian of g in y has curvature .*strongly convex in y"):
        nbo.minimize(problem, np.ones(2), method=method)


@pytest.mark.parametrize("method", CHOOSING)
def test_a_curvature_that_is_lost_on_the_way_ends_the_run(method):
    calls = 0

    def later(x, y, v):
        nonlocal calls
        calls += 1
        return (-1 if calls > 60 else 1) * Overriding().inner.lower_hvp(x, y, v)

    result = nbo.minimize(Overriding(lower_hvp=later), np.zeros(2), method=method, tol=0, max_iter=500)
    assert np.isfinite(result.x).all()
    if method in ("nbo-cg", "nbo-lanczos", "nbo-block-cg", "nbo-cholesky"):
        assert result.status == "diverged" and "strongly convex" in result.message


def test_evaluations_off_the_grid_do_not_lose_a_diverged_or_interrupted_run(problem):
    for method in METHODS:
        options = fixed_options(method, step_size=1e3) | {"eval_every": 1000}
        result = nbo.minimize(problem, np.zeros(3), method=method, max_iter=3000, options=options)
        assert result.status == "diverged" and np.isfinite(result.x).all(), method
    calls = 0

    def interrupt(x, y):
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return Overriding().inner.upper_value(x, y)

    options = {"step_size": 0.01, "eval_every": 100}
    result = nbo.minimize(Overriding(upper_value=interrupt), np.zeros(2), max_iter=5, options=options)
    assert result.status == "interrupted" and result.nit == 5 and np.isnan(result.fun)


@pytest.mark.parametrize("kind", ["float16", "longdouble", "int64", "garbage"])
def test_only_two_types_of_y(kind):
    problem = Overriding()
    problem.dtype = kind
    with pytest.raises(TypeError, match=r"problem.dtype: found .*; expected float64 or float32"):
        nbo.minimize(problem, np.zeros(2))


def test_methods_lists_everything():
    found = nbo.methods()
    assert list(found) == [*REGISTRY]
    for name, info in found.items():
        assert info.name == name and str(info) == info.description and "\n" not in info.description
        assert "step_size" in info.options and isinstance(info.needs, tuple)
    assert found["nbo-gd"].options["n_inner"] == 1


def test_a_scalar_start_and_schedules():
    problem = nbo.problems.BinaryLogistic(*logistic_data(), penalty="shared")
    ks = []

    def schedule(k):
        ks.append(k)
        return 0.5 / (k + 1)

    result = nbo.minimize(problem, -3, method="nbo-gd", max_iter=4, tol=0,
                          options={"step_size": schedule, "inner_step_size": lambda k: np.float32(0.1)})  # fmt: skip
    assert result.x.shape == (1,) and ks == [0, 1, 2, 3]


def test_where_evaluations_fall_does_not_decide_about_divergence(problem):
    for every in (1, 7, 100):
        options = {"step_size": 1e6, "eval_every": every}
        assert nbo.minimize(problem, np.ones(3), max_iter=12, options=options).status == "diverged"


def test_a_lower_level_that_is_singular_to_rounding_is_no_crash():
    problem = nbo.problems.Quadratic(np.diag([1.0, 1e-19]), np.eye(2), [1.0, 0.0], [0.0, 0.0], [0.0, 0.0])
    for method in CHOOSING:
        assert np.isfinite(nbo.minimize(problem, [0.1, 0.0], method=method, max_iter=30).x).all()

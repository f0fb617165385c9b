"""The automatic method: it arrives from any start, never rises, and says how accurate it is."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_problems import Exponentials, Overriding, PlainLogistic, SelfCounting, logistic_data
from scipy.optimize import minimize_scalar

import nbo
from nbo.monotone_step import MonotoneStep


def problems():
    return {
        "quadratic": nbo.problems.Quadratic.family(n=12, m=4, kappa=1e3),
        "toy": nbo.problems.NonQuadratic(np.eye(3), np.array([2.0, -3.0, 0.5]), np.zeros(3), mu=0.1, L=1),
        "logistic": nbo.problems.BinaryLogistic(*logistic_data(150, 80, 6)),
        "shared": nbo.problems.BinaryLogistic(*logistic_data(150, 80, 6), penalty="shared"),
        "plain": PlainLogistic(*logistic_data(150, 80, 6)),
    }


@pytest.mark.parametrize("name", problems())
def test_it_arrives_and_the_error_is_what_it_says(name):
    problem = problems()[name]
    found = nbo.minimize(problem, np.zeros(problem.dim_x), tol=1e-6)
    assert found.success, found.message
    assert found.hypergrad_norm + found.hypergrad_error <= 1e-6
    truth = nbo.hypergradient(problem, found.x, tol=1e-11)
    assert np.linalg.norm(found.jac - truth.grad) <= found.hypergrad_error + truth.error
    assert found.hypergrad_error_kind in ("bound", "estimate")
    assert f"hypergrad_error = {found.hypergrad_error:.3g} ({found.hypergrad_error_kind})" in found.message


def test_bounds_by_constants_are_labelled_so():
    quadratic, plain = problems()["quadratic"], problems()["plain"]
    assert nbo.minimize(quadratic, np.zeros(4)).hypergrad_error_kind == "bound"
    assert nbo.minimize(plain, np.zeros(6)).hypergrad_error_kind == "estimate"  # it has no constants
    other = nbo.minimize(quadratic, np.zeros(4), method="nbo-cg")
    assert np.isnan(other.hypergrad_error) and other.hypergrad_error_kind == "unknown"


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.floats(-9.0, 12.0), st.floats(-3, 3), st.integers(0, 5), st.sampled_from(["shared", "feature"]), st.booleans()
)
def test_phi_never_rises_from_any_start(x0, size, seed, penalty, intercept):
    data = logistic_data(60, 40, 4, seed=seed)
    problem = nbo.problems.BinaryLogistic(*data, penalty=penalty, fit_intercept=intercept, bounds=(-9.5, 12.0))
    y0 = 10.0**size * np.random.default_rng(seed).standard_normal(problem.dim_y)
    seen = []
    found = nbo.minimize(
        problem, np.full(problem.dim_x, x0), y0=y0, max_iter=60, tol=1e-5, callback=lambda xk: seen.append(xk)
    )
    values = [nbo.hypergradient(problem, x).value for x in seen[1:]]
    assert np.isfinite(found.x).all() and np.isfinite(found.y).all() and np.isfinite(found.fun)
    assert all(after <= before + 1e-6 for before, after in itertools.pairwise(values))
    assert found.status in ("converged", "iteration_limit", "stalled")


def test_a_flat_trial_that_is_worse_is_no_solution():
    """Beyond the minimiser Phi may be flat, as where penalties are so strong that no model is left."""
    problem = nbo.problems.BinaryLogistic(*logistic_data(60, 40, 4, seed=5), fit_intercept=True, bounds=(-9.5, 12.0))
    y0 = 10.0 * np.random.default_rng(5).standard_normal(5)
    found = nbo.minimize(problem, np.full(4, 7.30078125), y0=y0)
    assert found.success and found.fun <= found.history.value[1:].min() + 1e-6


def test_one_penalty_is_the_minimiser_that_scipy_finds():
    problem = problems()["shared"]
    found = nbo.minimize(problem, [3.0], tol=1e-8)
    reference = minimize_scalar(
        lambda x: nbo.hypergradient(problem, [x], tol=1e-11).value, bounds=(-10, 5), method="bounded",
        options={"xatol": 1e-8},
    )  # fmt: skip
    assert found.x[0] == pytest.approx(reference.x, abs=1e-3) and found.fun <= reference.fun + 1e-9


@pytest.mark.parametrize("bounds", [(-2.0, 1.0), (-np.inf, np.inf), (-1.0, -1.0), (-1.5, np.inf)])
def test_bounds(bounds):
    problem = problems()["logistic"]
    found = nbo.minimize(problem, np.full(6, -1.0), bounds=bounds, tol=1e-6)
    assert found.success and (found.x >= bounds[0]).all() and (found.x <= bounds[1]).all()
    step = np.clip(found.x - nbo.hypergradient(problem, found.x).grad, *bounds) - found.x
    assert np.linalg.norm(step) <= 1e-6


def test_a_start_at_every_bound():
    problem = problems()["logistic"]
    for corner in (-9.0, 12.0):
        found = nbo.minimize(problem, np.full(6, corner), bounds=(-9.0, 12.0))
        assert np.isfinite(found.fun) and found.fun <= found.history.value[1] + 1e-8


def test_units_of_both_objectives_do_not_matter():
    class Scaled(nbo.problems.Quadratic):
        a = b = 1.0

        def upper_value(self, x, y):
            return self.a * super().upper_value(x, y)

        def upper_grad(self, x, y):
            return tuple(self.a * part for part in super().upper_grad(x, y))

        def lower_value(self, x, y):
            return self.b * super().lower_value(x, y)

        def lower_grad_y(self, x, y):
            return self.b * super().lower_grad_y(x, y)

        def lower_hvp(self, x, y, v):
            return self.b * super().lower_hvp(x, y, v)

        def lower_jvp(self, x, y, u):
            return self.b * super().lower_jvp(x, y, u)

        constants = nbo.BilevelProblem.constants

    p = nbo.problems.Quadratic.family(n=8, m=3, kappa=50)
    runs = []
    for a, b in ((1.0, 1.0), (1e-6, 1e5), (1e7, 1e-4)):
        problem = Scaled(p.H, p.B, p.c, p.d, p.e)
        problem.a, problem.b = a, b
        runs.append(nbo.minimize(problem, np.zeros(3), tol=1e-6 * a))
        assert runs[-1].success
        np.testing.assert_allclose(runs[-1].x, p.x_star(), rtol=1e-5)
    assert max(run.nit for run in runs) <= min(run.nit for run in runs) + 3


def test_counts_are_those_of_the_problem():
    for penalty in ("shared", "feature"):
        counting = SelfCounting(nbo.problems.BinaryLogistic(*logistic_data(60, 40, 4), penalty=penalty))
        found = nbo.minimize(counting, np.zeros(counting.dim_x))
        assert found.counts + found.evaluation_counts == counting.seen()


def test_a_trial_that_fails_is_taken_back():
    inner = Overriding().inner

    def breaks(x, y):
        return inner.upper_value(x, y) if np.abs(x).max() < 0.6 else np.nan

    found = nbo.minimize(Overriding(upper_value=breaks), np.zeros(2), max_iter=40)
    assert np.isfinite(found.fun) and np.abs(found.x).max() < 0.6 and np.isfinite(found.y).all()


def test_float32():
    data = [a.astype(np.float32) for a in logistic_data(150, 80, 5)]
    problem = nbo.problems.BinaryLogistic(*data, penalty="shared")
    found = nbo.minimize(problem, [0.0], tol=1e-4)
    exact = nbo.minimize(nbo.problems.BinaryLogistic(*[a.astype(float) for a in data], penalty="shared"), [0.0])
    assert found.success and found.x[0] == pytest.approx(exact.x[0], abs=0.05)


def test_a_given_step_is_taken():
    problem = problems()["quadratic"]
    first = nbo.minimize(problem, np.zeros(4), max_iter=1, tol=0, options={"step_size": 1e-4})
    np.testing.assert_allclose(first.x, -1e-4 * problem.grad_phi(np.zeros(4)), rtol=1e-3)


def test_few_newton_steps_let_x_rest():
    problem = problems()["shared"]
    short = nbo.minimize(problem, [0.0], options={"n_lower_steps": 1, "n_linear_steps": 2}, max_iter=400)
    usual = nbo.minimize(problem, [0.0])
    assert short.success and short.nit > usual.nit
    np.testing.assert_allclose(short.fun, usual.fun, atol=1e-6)


def test_many_slow_samples_suggest_a_stochastic_method(monkeypatch):
    A, b, A_val, b_val = logistic_data(400, 40, 3)
    problem = nbo.problems.BinaryLogistic(A, b, A_val, b_val)
    monkeypatch.setattr("nbo.solvers.automatic.MANY_ROWS", 300)
    monkeypatch.setattr("nbo.solvers.automatic.SLOW", 0.0)
    found = nbo.minimize(problem, np.zeros(3), max_iter=2, tol=0)
    assert "for 400 samples with" in found.message and "a stochastic method such as 'ma-saba'" in found.message
    monkeypatch.setattr("nbo.solvers.automatic.SLOW", 1e9)
    assert "stochastic" not in nbo.minimize(problem, np.zeros(3), max_iter=2, tol=0).message


def test_a_separable_set_ends_at_its_bound():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((80, 3))
    A[:, 0] += np.sign(A[:, 0])
    b = np.where(A[:, 0] > 0, 1, -1)
    problem = nbo.problems.BinaryLogistic(A[:50], b[:50], A[50:], b[50:], penalty="shared", fit_intercept=True)
    found = nbo.minimize(problem, [-3.9], max_iter=100)
    assert np.isfinite(found.y).all() and found.message.endswith("1 of 1 entries of x are at a bound")


def test_the_method_of_steps_has_no_hidden_state():
    assert MonotoneStep() == MonotoneStep()
    solver = nbo.Auto(n_lower_steps=3)
    problem = problems()["shared"]
    first, second = (nbo.minimize(problem, [0.0], method=solver) for _ in range(2))
    np.testing.assert_array_equal(first.x, second.x)
    assert first.counts == second.counts


TARGET = np.array([1.0, -0.5, 0.0, 2.0])


@pytest.mark.parametrize("start", [-300.0, -30.0, 0.0, 30.0, 60.0, 300.0, 700.0])
def test_a_start_where_the_hessian_differs_by_orders(start):
    found = nbo.minimize(Exponentials(TARGET), np.zeros(4), y0=np.full(4, start))
    assert found.success, found.message
    np.testing.assert_allclose(found.x, TARGET, atol=1e-4)
    np.testing.assert_allclose(found.y, found.x, atol=1e-6)


@pytest.mark.parametrize("x0", [1e3, 1e6, 1e10])
def test_a_start_far_away_is_forgotten(x0):
    problem = problems()["quadratic"]
    near, far = (nbo.minimize(problem, np.full(4, size)) for size in (1.0, x0))
    assert near.success and far.success
    np.testing.assert_allclose(far.fun, near.fun, rtol=1e-6)


def test_oracles_that_do_not_fit_end_no_run_as_converged():
    problem, x0 = problems()["quadratic"], np.ones(4)
    wrong = Overriding(problem, lower_grad_y=lambda x, y: -problem.lower_grad_y(x, y))
    with pytest.raises(ArithmeticError, match=r"g does not fall along the Newton direction.*nbo.check_problem"):
        nbo.minimize(wrong, x0, y0=np.ones(12))
    wrong = Overriding(problem, lower_jvp=lambda x, y, u: 3 * problem.lower_jvp(x, y, u))
    found = nbo.minimize(wrong, x0)
    assert found.status == "stalled" and found.nit < 200
    assert "60 in a row changed neither f nor the hypergradient" in found.message and "check_problem" in found.message


@pytest.mark.parametrize("tol", [0.0, 1e-30])
def test_a_tolerance_beyond_rounding_ends_a_run(tol):
    found = nbo.minimize(problems()["logistic"], np.zeros(6), tol=tol)
    assert found.status == "stalled" and found.nit < 250 and found.hypergrad_norm < 1e-10
    resumed = nbo.minimize(problems()["logistic"], found.x, y0=found.y, u0=found.u, tol=1e-9)
    assert resumed.success and resumed.nit <= 3


def times(scale, problem):
    """The problem in other units of f."""
    return Overriding(
        problem,
        upper_value=lambda x, y: scale * problem.upper_value(x, y),
        upper_grad=lambda x, y: tuple(scale * part for part in problem.upper_grad(x, y)),
    )


@pytest.mark.parametrize(("name", "bounds"), [("toy", None), ("plain", (-9.0, 12.0))])
def test_tiny_objectives_are_solved_to_tiny_tolerances(name, bounds):
    problem = problems()[name]
    x0 = np.zeros(problem.dim_x)
    usual = nbo.minimize(problem, x0, bounds=bounds)
    found = nbo.minimize(times(1e-30, problem), x0, bounds=bounds, tol=1e-35)
    assert usual.success and found.success and found.nit == usual.nit
    np.testing.assert_allclose(found.x, usual.x, rtol=1e-6)


def test_an_error_is_no_smaller_than_rounding():
    large = times(1e14, problems()["plain"])
    found = nbo.minimize(large, np.zeros(6), tol=1e-9, bounds=(-9.0, 12.0))
    assert found.status == "stalled"
    parts = np.linalg.norm(found.jac)  # one entry is held by a bound, and its rounding remains
    assert found.hypergrad_error >= 1e-15 * parts > 1e3 * 1e-9
    assert nbo.hypergradient(large, found.x, y0=found.y).error >= 1e-15 * parts

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_problems import Overriding, SelfCounting, logistic_data

import nbo


@settings(max_examples=25)
@given(st.floats(-12, 4), st.floats(0, 1e3), st.integers(0, 99))
def test_logistic_problems_are_solved_from_any_start(x, size, seed):
    problem = nbo.problems.BinaryLogistic(*logistic_data(seed=seed % 5), penalty="shared")
    y0 = size * np.random.default_rng(seed).standard_normal(5)
    found = nbo.solve_lower_level(problem, [x], y0=y0)
    assert found.success and found.grad_norm <= 1e-8
    assert np.linalg.norm(problem.lower_grad_y(np.array([x]), found.y)) <= 1e-8


@pytest.mark.parametrize("n", [5, 400])  # Cholesky and conjugate gradients
def test_both_linear_solvers(n):
    problem = nbo.problems.Quadratic.family(n, 2, 30)
    x = np.array([0.3, -1.0])
    found = nbo.solve_lower_level(problem, x, tol=1e-10)
    np.testing.assert_allclose(found.y, problem.y_star(x), atol=1e-8)
    h = nbo.hypergradient(problem, x)
    np.testing.assert_allclose(h.grad, problem.grad_phi(x), atol=1e-8)
    np.testing.assert_allclose(h.u, problem.u_star(x), atol=1e-8)


@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-9])
def test_the_bound_holds(tol):
    rng = np.random.default_rng(0)
    for seed in range(10):
        problem = nbo.problems.NonQuadratic(
            rng.standard_normal((4, 3)) / 2, 2 * rng.standard_normal(4), np.zeros(3), mu=0.05, L=1.0
        )
        x = np.random.default_rng(seed).standard_normal(3)
        h = nbo.hypergradient(problem, x, tol=tol)
        assert h.error_kind in ("bound", "estimate") and h.success
        if h.error_kind == "bound":
            assert np.linalg.norm(h.grad - problem.grad_phi(x)) <= h.error + 1e-13


def test_the_formula_of_the_bound():
    problem = nbo.problems.BinaryLogistic(*logistic_data(), penalty="shared")
    x = np.array([-2.0])
    h, c = nbo.hypergradient(problem, x), problem.constants(bounds=(x, x))
    q = c.L_g1 / c.mu
    L1 = c.L_f1 + c.L_g2 * c.L_f0 / c.mu
    assert h.error == pytest.approx((L1 * (1 + q) * h.lower_grad_norm + c.L_g1 * h.adjoint_residual) / c.mu)
    assert h.error_kind == "bound" and h.error < 1e-6


def test_without_constants_the_error_is_an_estimate():
    problem = Overriding()
    h = nbo.hypergradient(problem, np.ones(2), tol=1e-4)
    assert h.error_kind == "estimate" and np.linalg.norm(h.grad - problem.inner.grad_phi(np.ones(2))) <= h.error + 1e-12


def test_constants_without_the_bounds_argument_are_used():
    class Own(nbo.problems.Quadratic):
        def constants(self):
            return super().constants()

    p = nbo.problems.Quadratic.family(3, 2, 4)
    assert nbo.hypergradient(Own(p.H, p.B, p.c, p.d, p.e), np.zeros(2)).error_kind == "bound"


def test_counts_are_exact():
    for function in (nbo.hypergradient, nbo.solve_lower_level):
        problem = SelfCounting(nbo.problems.NonQuadratic(np.ones((3, 2)), np.ones(3), np.zeros(2), mu=0.1, L=1))
        assert function(problem, np.ones(2)).counts == problem.seen()


def test_a_rounding_floor_ends_the_search():
    data = [X.astype(np.float32) for X in logistic_data(n=400, p=5)]
    problem = nbo.problems.BinaryLogistic(*data, penalty="shared")
    found = nbo.solve_lower_level(problem, [-6.0], tol=1e-14)
    assert not found.success and found.grad_norm < 1e-5 and found.n_newton < 40
    assert "rounding in float32 allows no more progress: give a larger tol, or data in float64" in found.message
    assert not nbo.hypergradient(problem, [-6.0], tol=1e-14).success


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_tolerance_that_is_left_out_is_within_reach(dtype):
    data = [X.astype(dtype) for X in logistic_data(n=400, p=5)]
    problem = nbo.problems.BinaryLogistic(*data, penalty="shared")
    for function in (nbo.hypergradient, nbo.solve_lower_level):
        found = function(problem, [-6.0])
        assert found.success, found.message
        assert f"tol = {1e-4 if dtype == np.float32 else 1e-8:g}" in found.message


def test_oracles_that_do_not_fit_together_are_not_called_rounding():
    class Wrong(nbo.problems.NonQuadratic):
        calls = 0

        def lower_value(self, x, y):
            self.calls += 1
            return float(self.calls)

        def lower_hvp(self, x, y, v):
            return 0.1 * super().lower_hvp(x, y, v)  # so that full steps are too long, and values have to decide

    problem = Wrong(np.ones((3, 2)), np.ones(3), np.zeros(2), mu=0.1, L=1)
    for function in (nbo.hypergradient, nbo.solve_lower_level):
        found = function(problem, np.full(2, 9.0))
        assert not found.success and "see nbo.check_problem" in found.message and "rounding" not in found.message


def test_solutions_compare_by_identity():
    problem = nbo.problems.Quadratic.family(5, 2, 4)
    for function in (nbo.hypergradient, nbo.solve_lower_level):
        one, other = function(problem, np.ones(2)), function(problem, np.ones(2))
        assert one == one and one != other and len({one, other}) == 2


def test_solutions_print_in_lines():
    problem = nbo.problems.Quadratic.family(50, 2, 4)
    for found in (nbo.solve_lower_level(problem, np.ones(2)), nbo.hypergradient(problem, np.ones(2))):
        shown = repr(found).splitlines()
        assert [line.split(":")[0].strip() for line in shown] == [f.name for f in dataclasses.fields(found)]
        assert max(map(len, shown)) < 120


def test_a_limit_of_iterations_is_told(monkeypatch):
    monkeypatch.setattr(nbo.lower_level, "MAX_NEWTON", 1)
    problem = nbo.problems.NonQuadratic(np.ones((3, 2)), np.ones(3), np.zeros(2), mu=0.1, L=1)
    for function in (nbo.hypergradient, nbo.solve_lower_level):
        found = function(problem, np.full(2, 9.0), tol=1e-14)
        assert "the limit of iterations was reached" in found.message and not found.success


def test_bad_arguments_and_oracles():
    problem = Overriding()
    for arguments, message in (
        ({"x": np.zeros(3)}, r"x: found shape \(3,\)"),
        ({"x": np.zeros(2), "y0": np.zeros(2)}, r"y0: found shape \(2,\)"),
        ({"x": np.zeros(2), "tol": 0}, "tol: found 0.0; expected a positive number"),
        ({"x": [np.nan, 0]}, "x: found nan"),
    ):
        for function in (nbo.hypergradient, nbo.solve_lower_level):
            with pytest.raises(ValueError, match=message):
                function(problem, **arguments)
    with pytest.raises(ValueError, match="lower_grad_y returned a value that is not finite at this x"):
        nbo.hypergradient(Overriding(lower_grad_y=lambda x, y: y * np.nan), np.zeros(2))
    with pytest.raises(ArithmeticError, match="strongly convex"):
        nbo.hypergradient(Overriding(lower_hvp=lambda x, y, v: -v), np.ones(2))


def test_floating_point_settings_of_the_caller_do_not_matter():
    problem = nbo.problems.BinaryLogistic(*logistic_data())
    with np.errstate(all="raise"):
        h = nbo.hypergradient(problem, np.full(5, -9.0), y0=np.full(5, 300.0))
        assert nbo.minimize(problem, np.zeros(5), max_iter=30).nit > 0
    assert h.success
    with pytest.raises(ValueError, match="not finite at this x"):
        nbo.hypergradient(nbo.problems.Quadratic.family(3, 2, 4), np.full(2, 1e200))


def test_constants_that_are_none():
    class Wrong(nbo.problems.Quadratic):
        def constants(self, bounds=None):
            return None

    p = nbo.problems.Quadratic.family(3, 2, 4)
    with pytest.raises(TypeError, match="constants: returned NoneType; expected a ProblemConstants"):
        nbo.hypergradient(Wrong(p.H, p.B, p.c, p.d, p.e), np.zeros(2))


def test_an_estimate_is_never_zero_and_an_error_of_constants_is_not_swallowed():
    class Plain(nbo.problems.Quadratic):
        constants = nbo.BilevelProblem.constants

    base = nbo.problems.Quadratic.family(6, 2, 1e9)
    h = nbo.hypergradient(Plain(base.H, base.B, base.c, base.d, base.e), np.ones(2))
    assert h.error_kind == "estimate" and h.error >= 1e-15 * np.linalg.norm(h.grad) > 0

    class Mistaken(nbo.problems.Quadratic):
        def constants(self, bounds=None):
            return nbo.theory.ProblemConstants(mu=2, L_g1=1, L_g2=0, L_f0=1, L_f1=1, C_f0=1)

    with pytest.raises(ValueError, match="mu, L_g1: found 2, 1"):
        nbo.hypergradient(Mistaken(base.H, base.B, base.c, base.d, base.e), np.ones(2))

"""Quadratic and NonQuadratic: oracles by Taylor slopes, closed forms against solvers and differences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, approx_fprime, check_grad, minimize

import nbo


def nonquadratic(n=4, m=3, kappa=10.0, seed=0):
    rng = np.random.default_rng(seed)
    return nbo.problems.NonQuadratic(
        rng.standard_normal((n, m)) / np.sqrt(n),
        2 * rng.standard_normal(n),
        rng.standard_normal(m),
        mu=1 / kappa,
        L=1.0,
    )


PROBLEMS = st.one_of(
    st.builds(
        lambda n, m, kappa: nbo.problems.Quadratic.family(n, m, kappa if n > 1 else 1.0),
        st.integers(1, 8), st.integers(1, 5), st.floats(1, 1e3),
    ),
    st.builds(nonquadratic, st.integers(1, 6), st.integers(1, 4), st.floats(1, 1e3), st.integers(0, 99)),
)  # fmt: skip


@settings(max_examples=40)
@given(PROBLEMS, st.integers(0, 99))
def test_oracles(problem, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal(problem.dim_x), 3 * rng.standard_normal(problem.dim_y)
    report = nbo.check_problem(problem, x, y, random_state=seed)
    assert report, str(report)


@settings(max_examples=40)
@given(PROBLEMS, st.integers(0, 99))
def test_closed_forms(problem, seed):
    x = np.random.default_rng(seed).standard_normal(problem.dim_x)
    y, u = problem.y_star(x), problem.u_star(x)
    grad_1, grad_2 = problem.upper_grad(x, y)
    scale = 1 + np.abs(y).max()
    np.testing.assert_allclose(problem.lower_grad_y(x, y), 0, atol=1e-11 * scale)
    np.testing.assert_allclose(problem.lower_hvp(x, y, u), grad_2, atol=1e-10 * scale)
    np.testing.assert_allclose(problem.grad_phi(x), grad_1 - problem.lower_jvp(x, y, u), rtol=1e-9, atol=1e-9 * scale)
    assert problem.phi(x) == problem.upper_value(x, y)


@pytest.mark.parametrize("problem", [nbo.problems.Quadratic.family(5, 3, 20), nonquadratic()])
def test_gradient_of_phi_by_differences(problem):
    x = np.array([0.3, -0.4, 0.2])
    assert check_grad(problem.phi, problem.grad_phi, x) < 1e-4 * np.linalg.norm(problem.grad_phi(x))
    hypergradient = nbo.hypergradient(problem, x)
    np.testing.assert_allclose(hypergradient.grad, problem.grad_phi(x), atol=1e-9)
    assert hypergradient.value == pytest.approx(problem.phi(x), rel=1e-12)


def test_minimiser_of_the_quadratic():
    problem = nbo.problems.Quadratic.family(6, 3, 50, s=2.0, rho=0.3)
    found = minimize(problem.phi, np.zeros(3), jac=problem.grad_phi, tol=1e-12).x
    np.testing.assert_allclose(problem.x_star(), found, atol=1e-5)
    np.testing.assert_allclose(problem.grad_phi(problem.x_star()), 0, atol=1e-11)


def test_the_family_has_its_condition_number():
    for kappa in (1.0, 30.0, 1e4):
        eigenvalues = np.linalg.eigvalsh(nbo.problems.Quadratic.family(7, 4, kappa, L=3.0).H)
        assert eigenvalues[-1] == pytest.approx(3.0) and eigenvalues[-1] / eigenvalues[0] == pytest.approx(kappa)
    assert np.linalg.norm(nbo.problems.Quadratic.family(4, 7, 2, beta=0.7).B, 2) <= 0.7 + 1e-12


def test_the_nonquadratic_family_has_its_condition_number():
    for kappa in (1.0, 30.0):
        problem = nbo.problems.NonQuadratic.family(kappa, L=3.0, beta=0.7, s=2.0, rho=0.5)
        c = problem.constants()
        assert c.kappa == pytest.approx(kappa) and pytest.approx(3.0) == c.L_g1
        assert np.linalg.norm(problem.B, 2) == pytest.approx(0.7)
        np.testing.assert_array_equal(problem.d, [2, -np.sqrt(kappa)])
        assert (problem.dim_x, problem.dim_y, problem.s, problem.rho) == (2, 2, 2.0, 0.5)
        assert not problem.e.any()
    far = nbo.problems.NonQuadratic.family(1e4)
    y = np.array([-100.0, 100.0])  # both bounds of psi'' are nearly reached
    np.testing.assert_allclose(far.lower_hvp(np.zeros(2), y, np.ones(2)), [far.mu, far.L], rtol=0.5)


def test_the_inverse_of_psi_has_no_cancellation():
    problem = nbo.problems.NonQuadratic([[1.0]], [0.0], [0.0], mu=1e-6, L=1.0)
    for x in (-1e6, -1.0, -1e-9, 1e-12, 1e-3, 5.0, 1e8):
        y = problem.y_star([x])
        assert abs(problem.lower_grad_y(np.array([x]), y)[0]) <= 1e-9 * max(abs(x), 1e-9 * abs(y[0]), 1e-12)


@settings(max_examples=30)
@given(st.integers(0, 999))
def test_constants_bound_sampled_derivatives(seed):
    rng = np.random.default_rng(seed)
    for problem in (nonquadratic(seed=seed % 7), nbo.problems.Quadratic.family(4, 3, 10)):
        c = problem.constants(bounds=(-5, 5))
        x, x2 = rng.uniform(-5, 5, (2, problem.dim_x))
        y, y2, v = rng.standard_normal((3, problem.dim_y)) * 3
        Hv = problem.lower_hvp(x, y, v)
        assert c.mu * (v @ v) <= v @ Hv * (1 + 1e-9) and np.linalg.norm(Hv) <= c.L_g1 * np.linalg.norm(v) * (1 + 1e-9)
        assert np.linalg.norm(problem.lower_jvp(x, y, v)) <= c.L_g1 * np.linalg.norm(v) * (1 + 1e-9)
        change = np.linalg.norm(Hv - problem.lower_hvp(x2, y2, v))
        assert change <= c.L_g2 * np.linalg.norm(np.r_[x - x2, y - y2]) * np.linalg.norm(v) * (1 + 1e-9) + 1e-12
        first, second = (np.concatenate(problem.upper_grad(*p)) for p in ((x, y), (x2, y2)))
        assert np.linalg.norm(first - second) <= c.L_f1 * np.linalg.norm(np.r_[x - x2, y - y2]) * (1 + 1e-9)
        on_graph = problem.upper_grad(x, problem.y_star(x))
        assert np.linalg.norm(on_graph[0]) <= c.C_f0 + 1e-12 and np.linalg.norm(on_graph[1]) <= c.L_f0 + 1e-12
        gap = np.linalg.norm(problem.grad_phi(x) - problem.grad_phi(x2))
        assert gap <= c.L_Phi * np.linalg.norm(x - x2) * (1 + 1e-9)
        assert np.linalg.norm(problem.grad_phi(x)) <= c.L2 * (1 + 1e-9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"H": np.ones((2, 3))}, r"H: found a matrix of shape \(2, 3\)"),
        ({"H": [[1.0, 0.5], [0.0, 1.0]]}, "not symmetric"),
        ({"H": [[1.0, 2.0], [2.0, 1.0]]}, "not positive definite"),
        ({"H": [[np.nan, 0], [0, 1]]}, r"H: found nan at index \(0, 0\)"),
        ({"B": np.ones((3, 1))}, r"B: found shape \(3, 1\); expected \(2, any\)"),
        ({"c": np.ones(3)}, r"c: found shape \(3,\)"),
        ({"e": np.ones(2)}, r"e: found shape \(2,\)"),
        ({"s": -1}, r"s: found -1.0; expected a number >= 0"),
        ({"rho": "x"}, "rho: found 'x'"),
    ],
)
def test_bad_quadratics(changes, message):
    good = {"H": np.eye(2), "B": np.ones((2, 1)), "c": np.ones(2), "d": np.ones(2), "e": np.ones(1)}
    with pytest.raises((TypeError, ValueError), match=message):
        nbo.problems.Quadratic(**(good | changes))


def test_other_bad_arguments():
    with pytest.raises(ValueError, match=r"kappa: found 0.5; expected a number >= 1"):
        nbo.problems.Quadratic.family(3, 2, 0.5)
    with pytest.raises(ValueError, match=r"kappa: found 5 with n = 1"):
        nbo.problems.Quadratic.family(1, 2, 5)
    with pytest.raises(ValueError, match=r"kappa: found 0.5; expected a number >= 1"):
        nbo.problems.NonQuadratic.family(0.5)
    with pytest.raises(ValueError, match=r"L: found -1.0; expected a positive number"):
        nbo.problems.NonQuadratic.family(2, L=-1)
    with pytest.raises(ValueError, match=r"mu: found 2 > L = 1"):
        nbo.problems.NonQuadratic(np.ones((2, 1)), np.ones(2), np.ones(1), mu=2, L=1)
    with pytest.raises(ValueError, match="not strongly convex"):
        nbo.problems.Quadratic.family(2, 3, 4, rho=0).x_star()


def test_inputs_are_copied_and_fingerprints_tell_problems_apart():
    H = np.eye(2)
    a = nbo.problems.Quadratic(H, np.ones((2, 1)), np.ones(2), np.ones(2), np.ones(1))
    H[0, 0] = 5
    assert a.H[0, 0] == 1
    same = nbo.problems.Quadratic(np.eye(2), np.ones((2, 1)), np.ones(2), np.ones(2), np.ones(1))
    other = nbo.problems.Quadratic(np.eye(2), np.ones((2, 1)), np.ones(2), np.ones(2), np.ones(1), rho=0.2)
    assert a.fingerprint() == same.fingerprint() != other.fingerprint()
    assert nonquadratic().fingerprint() != nonquadratic(seed=1).fingerprint()


def test_jacobian_of_the_lower_solution():
    """dy*/dx = -H^{-1} J' by the implicit function theorem, against differences."""
    problem = nonquadratic()
    x = np.array([0.3, -0.4, 0.2])
    y = problem.y_star(x)
    for i in range(4):
        unit = np.eye(4)[i]
        row = approx_fprime(x, lambda z, i=i: problem.y_star(z)[i], 1e-7)
        u = unit / problem.lower_hvp(x, y, unit)[i]
        np.testing.assert_allclose(row, -problem.lower_jvp(x, y, u), atol=1e-5)


def test_constants_take_any_bounds_that_a_run_takes():
    problem = nbo.problems.Quadratic.family(3, 2, 4)
    problem.bounds = Bounds(-0.1, 0.1)
    assert problem.constants().C_f0 < np.inf
    assert problem.fingerprint() != nbo.problems.Quadratic.family(3, 2, 4).fingerprint()
    for bounds, message in (((2, -2), "found lower 2 > upper -2"), ((0, np.nan), "NaN"), ((np.zeros(3), 1), "shape")):
        with pytest.raises(ValueError, match=message):
            problem.constants(bounds=bounds)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbo.linear_solvers import (
    BlockConjugateGradient,
    Chebyshev,
    Cholesky,
    ConjugateGradient,
    GradientDescent,
    LanczosSubspace,
    lanczos,
)


class System:
    """A symmetric positive definite H that counts its products, with right-hand sides."""

    def __init__(self, n=8, k=2, kappa=50.0, seed=0, dtype=float):
        rng = np.random.default_rng(seed)
        q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        self.H = ((q * np.geomspace(1 / kappa, 1, n)) @ q.T).astype(dtype)
        self.rhs = rng.standard_normal((k, n)).astype(dtype)
        self.exact = np.linalg.solve(self.H.astype(float), self.rhs.T.astype(float)).T
        self.products = 0

    def hvp(self, V):
        assert V.ndim == 2
        self.products += V.shape[0]
        return V @ self.H


ALL = [
    GradientDescent(0.9, 4),
    Chebyshev((0.02, 1.0), 4),
    ConjugateGradient(4),
    LanczosSubspace(4),
    BlockConjugateGradient(4),
    Cholesky(),
]


@pytest.mark.parametrize("solver", ALL, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_products_are_counted_and_inputs_kept(solver, k):
    system = System(k=k)
    before = system.rhs.copy()
    solution = solver.solve(system.hvp, system.rhs)
    assert solution.n_products == system.products
    assert solution.solution.shape == system.rhs.shape and solution.residual_norms.shape == (k,)
    np.testing.assert_array_equal(system.rhs, before)


@pytest.mark.parametrize("solver", ALL, ids=lambda s: type(s).__name__)
def test_rows_are_solved_apart(solver):
    """Every solver but block CG treats a row as if it were alone."""
    if isinstance(solver, BlockConjugateGradient):
        solver = BlockConjugateGradient(8)
    system = System()
    both = solver.solve(system.hvp, system.rhs).solution
    alone = [solver.solve(system.hvp, system.rhs[i : i + 1]).solution[0] for i in range(2)]
    np.testing.assert_allclose(both, alone, atol=1e-9)


@pytest.mark.parametrize("solver", ALL, ids=lambda s: type(s).__name__)
def test_reported_residual(solver):
    system = System()
    solution = solver.solve(system.hvp, system.rhs)
    if isinstance(solver, GradientDescent | Chebyshev):  # the residual before the last step
        shorter = type(solver)(getattr(solver, "step_size", None) or solver.spectrum, 3)
        at = shorter.solve(system.hvp, system.rhs).solution
    else:
        at = solution.solution
    np.testing.assert_allclose(
        solution.residual_norms, np.linalg.norm(system.rhs - at @ system.H, axis=1), rtol=1e-8, atol=1e-12
    )


def test_gradient_descent_is_the_recursion():
    system = System()
    v = np.zeros_like(system.rhs)
    for _ in range(6):
        v = v - 0.7 * (v @ system.H) + 0.7 * system.rhs
    solution = GradientDescent(0.7, 6).solve(system.hvp, system.rhs)
    np.testing.assert_allclose(solution.solution, v, rtol=1e-13)
    assert solution.n_products == 10 and not solution.enlarged


def test_a_step_beyond_two_over_lambda_is_noticed():
    system = System()
    assert GradientDescent(2.5, 6).solve(system.hvp, system.rhs).enlarged
    assert Chebyshev((0.01, 0.3), 6).solve(system.hvp, system.rhs).enlarged


@pytest.mark.parametrize("steps", [2, 5, 9])
def test_chebyshev_reaches_the_optimal_factor(steps):
    system = System(kappa=30.0)
    residual = system.rhs - Chebyshev((1 / 30, 1.0), steps).solve(system.hvp, system.rhs).solution @ system.H
    c = (np.sqrt(30) + 1) / (np.sqrt(30) - 1)
    bound = 2 / (c**steps + c**-steps)
    assert (np.linalg.norm(residual, axis=1) <= (1 + 1e-10) * bound * np.linalg.norm(system.rhs, axis=1)).all()


def test_chebyshev_with_one_eigenvalue_is_exact_at_once():
    solution = Chebyshev((2.0, 2.0), 3).solve(lambda V: 2 * V, np.ones((2, 3)))
    np.testing.assert_allclose(solution.solution, 0.5)


@given(st.integers(1, 9), st.integers(1, 3), st.floats(1, 1e4), st.integers(0, 1000))
def test_krylov_with_n_steps_equals_cholesky(n, k, kappa, seed):
    system = System(n, k, kappa if n > 1 else 1.0, seed)
    exact = Cholesky().solve(system.hvp, system.rhs).solution
    scale = np.abs(exact).max()
    # CG loses orthogonality in floating point: give it spare steps, which end early anyway
    for solver in (ConjugateGradient(4 * n), LanczosSubspace(n), BlockConjugateGradient(2 * n)):
        np.testing.assert_allclose(solver.solve(system.hvp, system.rhs).solution, exact, atol=1e-7 * scale)


def test_cg_stops_early_and_costs_nothing_more():
    solution = ConjugateGradient(100).solve(lambda V: 3 * V, np.ones((2, 4)))
    assert solution.n_products == 2
    np.testing.assert_allclose(solution.solution, 1 / 3)


@pytest.mark.parametrize("solver", ALL, ids=lambda s: type(s).__name__)
def test_zero_and_equal_right_hand_sides(solver):
    system = System()
    rhs = np.stack([np.zeros(8), system.rhs[0]])
    solution = solver.solve(system.hvp, rhs)
    np.testing.assert_array_equal(solution.solution[0], 0)
    assert np.isfinite(solution.solution).all()
    same = solver.solve(system.hvp, np.stack([system.rhs[0]] * 2)).solution
    np.testing.assert_allclose(same[0], same[1], rtol=1e-10)


def test_block_cg_is_no_slower_than_cg():
    system = System(n=30, kappa=1e3)

    def errors(solver):
        gap = solver.solve(system.hvp, system.rhs).solution - system.exact
        return np.sqrt(np.einsum("ij,ij->i", gap @ system.H, gap))

    for steps in (2, 5, 10):
        block, single = errors(BlockConjugateGradient(steps)), errors(ConjugateGradient(steps))
        assert (block <= single * (1 + 1e-9)).all()


def test_float32_stays_float32():
    system = System(dtype=np.float32)
    for solver in ALL:
        assert solver.solve(system.hvp, system.rhs).solution.dtype == np.float32


def test_lanczos_factorisation():
    system = System()
    (basis, _) = lanczos(system.hvp, system.rhs, 5)
    np.testing.assert_allclose(basis.vectors @ basis.vectors.T, np.eye(5), atol=1e-13)
    np.testing.assert_allclose(basis.vectors @ system.H @ basis.vectors.T, basis.tridiagonal(), atol=1e-13)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"step_size: found -1"):
        GradientDescent(-1.0, 2)
    with pytest.raises(TypeError, match=r"n_steps: found 1.5"):
        ConjugateGradient(1.5)
    with pytest.raises(ValueError, match=r"spectrum: found \(2.0, 1.0\); expected a pair \(mu, L\)"):
        Chebyshev((2.0, 1.0), 2)
    with pytest.raises(ValueError, match=r"dim_y = 8; expected at most max_dim = 4"):
        Cholesky(max_dim=4).solve(System().hvp, System().rhs)
    with pytest.raises(ArithmeticError, match="strongly convex"):
        Cholesky().solve(lambda V: -V, np.ones((1, 3)))

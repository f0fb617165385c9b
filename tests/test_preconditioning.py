"""Preconditioned conjugate gradients by blocks, and when a Hessian is formed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_problems import SelfCounting, logistic_data

import nbo
from nbo.linear_solvers import ConjugateGradient, CurvatureError
from nbo.oracles import CountedProblem
from nbo.preconditioning import AT_ONCE, FormedHessian, InnerSystem, SystemMemory, conjugate_gradients


def definite(n, seed, kappa=100.0):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return (Q * np.geomspace(1, kappa, n)) @ Q.T


def product(*blocks):
    """The product with a block diagonal matrix on rows, and a record of what it was called with."""
    calls = []

    def hvp(V):
        calls.append(V.copy())
        return np.concatenate([part @ H for part, H in zip(np.split(V, len(blocks), axis=1), blocks, strict=True)], 1)

    return hvp, calls


def formed(H):
    nowhere = np.zeros(0)
    return FormedHessian(H, nowhere, nowhere, np.linalg.cholesky(H), nowhere)


@settings(max_examples=30)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 12), st.integers(0, 999))
def test_every_block_is_solved(k, blocks, size, seed):
    matrices = [definite(size, seed + i) for i in range(blocks)]
    rhs = np.random.default_rng(seed).standard_normal((k, blocks * size))
    hvp, calls = product(*matrices)
    found = conjugate_gradients(hvp, rhs, 1e-9 * np.linalg.norm(rhs, axis=1), blocks=blocks)
    np.testing.assert_allclose(hvp(found.solution), rhs, atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(hvp(found.solution) - rhs, axis=1), found.residual_norms, atol=1e-9)
    assert found.n_products == sum(len(V) for V in calls[:-2])


def test_without_blocks_it_is_plain_cg():
    H, rhs = definite(9, 0), np.random.default_rng(1).standard_normal((2, 9))
    for steps in (1, 3, 6):
        plain = ConjugateGradient(steps).solve(lambda V: V @ H, rhs)
        found = conjugate_gradients(lambda V: V @ H, rhs, np.zeros(2), n_steps=steps)
        np.testing.assert_allclose(found.solution, plain.solution, rtol=1e-10)
        np.testing.assert_allclose(found.residual_norms, plain.residual_norms, rtol=1e-8)
        assert found.n_products == plain.n_products == 2 * steps


def test_the_inverse_as_preconditioner_takes_one_step():
    H, rhs = definite(9, 0, 1e6), np.random.default_rng(1).standard_normal((2, 9))
    found = conjugate_gradients(lambda V: V @ H, rhs, 1e-8 * np.ones(2), preconditioner=formed(H))
    assert found.n_products == 2 and (found.residual_norms <= 1e-8).all()


def test_a_block_that_is_done_has_directions_of_zero():
    easy, hard = np.eye(6), definite(6, 3, 1e4)
    hvp, calls = product(easy, hard)
    rhs = np.random.default_rng(0).standard_normal((1, 12))
    conjugate_gradients(hvp, rhs, np.array([1e-8]), blocks=2)
    assert calls[0][:, :6].any() and all(not V[:, :6].any() and V[:, 6:].any() for V in calls[1:])
    assert len(calls) > 3


def test_a_radius_bounds_every_block():
    hvp, _ = product(definite(6, 1), definite(6, 2))
    rhs = np.random.default_rng(0).standard_normal((1, 12))
    whole = conjugate_gradients(hvp, rhs, np.array([1e-10]), blocks=2).solution.reshape(2, 6)
    radius = 0.5 * np.linalg.norm(whole, axis=1).min()
    cut = conjugate_gradients(hvp, rhs, np.array([1e-10]), blocks=2, radius=radius).solution.reshape(2, 6)
    np.testing.assert_allclose(np.linalg.norm(cut, axis=1), radius)
    assert (np.einsum("ij,ij->i", cut, rhs.reshape(2, 6)) > 0).all()


def test_indefinite_matrices_are_told():
    with pytest.raises(CurvatureError, match="curvature -"):
        conjugate_gradients(lambda V: -V, np.ones((1, 3)), np.zeros(1))


def test_flat_directions_end_a_block():
    H = np.diag([1.0, 0.0])
    rhs = np.array([[0.0, 2.0]])
    with pytest.raises(CurvatureError, match="curvature 0"):
        conjugate_gradients(lambda V: V @ H, rhs, np.zeros(1))
    found = conjugate_gradients(lambda V: V @ H, rhs, np.zeros(1), flat="take")
    np.testing.assert_array_equal(found.solution, rhs)
    damped = np.diag([1.0, 1e-14])
    found = conjugate_gradients(
        lambda V: V @ H, np.array([[1.0, 2.0]]), np.zeros(1), flat="take", preconditioner=formed(damped)
    )
    assert np.isfinite(found.solution).all() and (found.solution @ [1.0, 2.0] > 0).all()


def solved(problem, x, y, memory=None, n_steps=500):
    view = CountedProblem(problem)
    system = InnerSystem(view, memory or SystemMemory(), n_steps)
    model = view.lower_model(np.asarray(x, dtype=float), y)
    rhs = np.random.default_rng(0).standard_normal((1, problem.dim_y))
    found = system.solve(model, rhs, np.array([1e-9]))
    np.testing.assert_allclose(model.hvp(found.solution), rhs, atol=1e-7)
    return view.counts.lower_hvp - 1, system.memory


def test_small_hessians_are_formed_at_once_and_follow_the_penalties():
    problem = SelfCounting(nbo.problems.BinaryLogistic(*logistic_data(60, 20, 9)))
    y = np.full(9, 0.1)
    products, memory = solved(problem, np.full(9, -3.0), y)
    assert products <= 9 + 2 and memory.formed is not None
    again, memory = solved(problem, np.full(9, 2.0), y, memory)
    assert again <= 1 + 2  # one product with ones at the new x, and a nearly exact preconditioner
    np.testing.assert_array_equal(memory.formed.x_of_factor, np.full(9, 2.0))
    unmoved, same = solved(problem, np.full(9, 2.0), y, memory)
    assert unmoved <= 2 and same.formed is memory.formed


def test_a_large_hessian_is_formed_when_products_have_paid_for_it():
    rng = np.random.default_rng(0)
    n = AT_ONCE + 16
    A = rng.standard_normal((300, n)) * np.geomspace(1, 0.003, n)
    problem = nbo.problems.Ridge(A[:200], A[:200].sum(axis=1), A[200:], A[200:].sum(axis=1), penalty="shared")
    y = np.zeros(n)
    plain, memory = solved(problem, [-12.0], y)
    assert memory.formed is None and memory.spent == plain - 3 >= n / 2
    formed, memory = solved(problem, [-12.0], y, memory)
    assert memory.formed is not None and n <= formed <= n + 3 and memory.spent == 0
    later, _ = solved(problem, [-12.0], y, memory)
    assert later <= 3


def test_one_factor_serves_all_folds():
    A, b, _, _ = logistic_data(90, 20, 6)
    problem = nbo.problems.CrossValidation(nbo.problems.BinaryLogistic(A, b, A, b, penalty="shared"), 3, random_state=0)
    products, memory = solved(problem, [-2.0], np.zeros(18))
    assert memory.formed.matrix.shape == (6, 6) and 6 < products <= 6 + 8


def test_a_hessian_whose_change_is_not_diagonal_is_formed_anew():
    class Turning(nbo.problems.Quadratic):
        """H depends on x in all its entries."""

        def lower_hvp(self, x, y, v):
            e = np.ones(self.dim_y) / self.dim_y
            return super().lower_hvp(x, y, v) + 1e4 * (1 - x[0]) * e * (e @ v)

    p = nbo.problems.Quadratic.family(n=5, m=2, kappa=4)
    problem = Turning(p.H, p.B, p.c, p.d, p.e)
    _, memory = solved(problem, [0.0, 0.0], np.zeros(5))
    products, following = solved(problem, [1.0, 0.0], np.zeros(5), memory)
    assert following.formed.x_at[0] == 1.0 and products >= 5


def test_memory_is_part_of_a_checkpoint(tmp_path):
    problem = nbo.problems.BinaryLogistic(*logistic_data(60, 20, 5))
    half = nbo.minimize(problem, np.zeros(5), max_iter=3, tol=0)
    half.save(tmp_path / "half.npz")
    whole = nbo.minimize(problem, np.zeros(5), max_iter=6, tol=0)
    found = nbo.resume(tmp_path / "half.npz", problem, max_iter=6)
    np.testing.assert_array_equal(found.x, whole.x)
    assert found.counts == whole.counts


@settings(max_examples=30)
@given(st.integers(-300, 300), st.integers(-300, 300), st.integers(0, 99))
def test_units_do_not_matter(of_matrix, of_rhs, seed):
    H, rhs = definite(6, seed), np.random.default_rng(seed).standard_normal((2, 6))
    if abs(of_rhs - of_matrix) > 300:
        of_rhs = of_matrix
    found = conjugate_gradients(lambda V: 10.0**of_matrix * (V @ H), 10.0**of_rhs * rhs, np.zeros(2))
    expected = np.linalg.solve(H, rhs.T).T
    np.testing.assert_allclose(found.solution / 10.0 ** (of_rhs - of_matrix), expected, rtol=1e-6, atol=1e-9)


def test_rounding_is_no_negative_curvature():
    """Along the weakest direction of an ill-conditioned H products are noise."""
    H, rhs = np.diag([1e16, 1.0, 1.0]), np.array([[1.0, 1.0, 1.0]])

    def hvp(V):
        return V @ H - 2.0 * np.abs(V).sum(axis=1, keepdims=True) * np.array([0.0, 1.0, 1.0])

    with pytest.raises(CurvatureError, match="curvature -"):
        conjugate_gradients(hvp, np.array([[0.0, 1.0, 1.0]]), np.zeros(1), flat="take")
    found = conjugate_gradients(hvp, rhs, np.zeros(1), flat="rounding")
    assert np.isfinite(found.solution).all() and found.residual_norms[0] > 0


def test_a_useless_factor_is_replaced():
    class Exponentials(nbo.BilevelProblem):
        """g = sum e^y - e^x y, whose Hessian shrinks by orders on the way to its minimiser."""

        dim_x = dim_y = 3

        def upper_value(self, x, y):
            return float(y @ y) / 2

        def upper_grad(self, x, y):
            return np.zeros(3), y

        def lower_value(self, x, y):
            return float(np.sum(np.exp(y) - np.exp(x) * y))

        def lower_grad_y(self, x, y):
            return np.exp(y) - np.exp(x)

        def lower_hvp(self, x, y, v):
            return np.exp(y) * v

        def lower_jvp(self, x, y, u):
            return -np.exp(x) * u

    problem = Exponentials()
    far = np.array([60.0, 200.0, -300.0])
    found = nbo.solve_lower_level(problem, np.ones(3), y0=far, tol=1e-10)
    assert not found.success and found.n_newton == 200  # each step takes 1 off an exponent, that is all
    found = nbo.solve_lower_level(problem, np.ones(3), y0=found.y, tol=1e-10)
    np.testing.assert_allclose(found.y, 1, atol=1e-10)
    result = nbo.minimize(problem, np.ones(3), y0=[60.0, 30.0, -300.0])
    assert result.success
    np.testing.assert_allclose(result.x, 0, atol=1e-4)

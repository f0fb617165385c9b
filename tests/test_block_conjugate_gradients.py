"""Preconditioned conjugate gradients by blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbo.block_conjugate_gradients import conjugate_gradients
from nbo.linear_solvers import ConjugateGradient, CurvatureError
from nbo.preconditioning import FormedHessian


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

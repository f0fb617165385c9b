import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nbo.quasi_newton import MEMORY, add_pair, has_curvature, inverse_product, lbfgs_direction


def pairs_of(H, n_pairs, seed=0):
    rng = np.random.default_rng(seed)
    pairs = ()
    for _ in range(n_pairs):
        s = rng.standard_normal(len(H))
        pairs = add_pair(pairs, s, H @ s)
    return pairs


def bfgs_matrix(pairs, n):
    """The inverse BFGS matrix by its textbook update."""
    s, r = pairs[-1]
    B = (s @ r) / (r @ r) * np.eye(n)
    for s, r in pairs:
        V = np.eye(n) - np.outer(r, s) / (s @ r)
        B = V.T @ B @ V + np.outer(s, s) / (s @ r)
    return B


@given(st.integers(1, 8), st.integers(1, 10), st.integers(0, 99))
def test_equals_the_update_of_the_matrix(n, n_pairs, seed):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((n, n))
    pairs, gradient = pairs_of(root @ root.T + np.eye(n), n_pairs, seed), rng.standard_normal(n)
    found = lbfgs_direction(gradient, pairs, np.ones(n, bool))
    np.testing.assert_allclose(found, bfgs_matrix(pairs, n) @ gradient, rtol=1e-7, atol=1e-9)
    assert found @ gradient > 0


def test_fixed_coordinates_do_not_move_and_do_not_count():
    H = np.diag([1.0, 4.0, 9.0]) + 0.1
    free = np.array([True, False, True])
    reduced = tuple((s[free], r[free]) for s, r in pairs_of(H, 4))
    gradient = np.array([1.0, 7.0, -2.0])
    found = lbfgs_direction(gradient, pairs_of(H, 4), free)
    assert found[1] == 0
    np.testing.assert_allclose(found[free], lbfgs_direction(gradient[free], reduced, np.ones(2, bool)))


def test_pairs_without_positive_curvature_are_left_out():
    free = np.ones(2, bool)
    bad = add_pair((), np.array([1.0, 0.0]), np.array([-1.0, 0.0]))
    assert lbfgs_direction(np.ones(2), bad, free) is None
    assert lbfgs_direction(np.ones(2), (), free) is None
    good = add_pair(bad, np.array([0.0, 1.0]), np.array([0.0, 2.0]))
    np.testing.assert_allclose(lbfgs_direction(np.ones(2), good, free), [0.5, 0.5])


def test_the_memory_is_limited():
    assert len(pairs_of(np.eye(3), MEMORY + 5)) == MEMORY
    assert add_pair((), np.zeros(3), np.ones(3)) == ()


def test_a_memory_of_another_size():
    pairs = ()
    for k in range(1, 6):
        pairs = add_pair(pairs, np.full(2, float(k)), np.full(2, 2.0 * k), memory=3)
    assert [s[0] for s, _ in pairs] == [3.0, 4.0, 5.0]
    assert add_pair(pairs, np.ones(2), np.ones(2), memory=0) == ()


def test_the_product_keeps_the_type_and_its_argument():
    pairs = tuple((s.astype(np.float32), r.astype(np.float32)) for s, r in pairs_of(np.diag([1.0, 3.0, 9.0]), 4))
    v = np.ones(3, dtype=np.float32)
    assert inverse_product(pairs, v).dtype == np.float32
    assert (v == 1).all()
    assert inverse_product((), v) is not v


def test_curvature():
    s = np.array([1.0, 0.0])
    assert has_curvature(s, np.array([1e-3, 1.0]))
    assert not has_curvature(s, np.array([1e-7, 1.0])) and not has_curvature(s, np.zeros(2))

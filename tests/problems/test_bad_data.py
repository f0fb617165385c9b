"""Data that the problems with linear models must not take, or must not share."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import nbo
from nbo.problems import BinaryLogistic, MultinomialLogistic, Ridge

A = np.random.default_rng(0).standard_normal((8, 3))
SIGNS = np.array([1, -1] * 4)
CLASSES = np.array([0, 1, 2, 0, 1, 2, 0, 1])


def whole(dtype):
    """A CSR matrix with doubled entries, which SciPy joins in place."""
    parts = np.array([1, 2, 3, 4], dtype), np.array([0, 0, 1, 1]), np.array([0, 2, 4])
    return sp.csr_matrix(parts, shape=(2, 2))


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_what_scipy_reorders_in_place_changes_nothing(dtype):
    matrix = whole(dtype)
    problem = BinaryLogistic(matrix, [1, -1], whole(dtype), [1, -1], penalty="shared")
    y = np.array([0.3, -0.7])
    before = problem.lower_value(np.zeros(1), y)
    expected = np.mean(np.logaddexp(0, -np.array([1, -1]) * (whole(dtype) @ y))) + y @ y / 2
    assert before == pytest.approx(expected, abs=1e-14)
    matrix.sum_duplicates()
    if dtype == np.int64:  # values were converted, so that nothing is shared
        assert problem.lower_value(np.zeros(1), y) == before


def test_targets_and_labels_are_copies():
    targets, labels = A[:, 0].copy(), SIGNS.astype(float)
    ridge, logistic = Ridge(A, targets, A, targets), BinaryLogistic(A, labels, A, labels)
    targets[:], labels[:] = 0, 0
    np.testing.assert_array_equal(ridge.b[:, 0], A[:, 0])
    np.testing.assert_array_equal(logistic.b, SIGNS)
    for b in (ridge.b, logistic.b):
        with pytest.raises(ValueError, match="read-only"):
            b[0] = 5


@pytest.mark.parametrize(
    ("b", "b_val", "options", "message"),
    [
        (np.where(CLASSES > 1, np.nan, CLASSES.astype(object)), CLASSES, {}, "b: found nan at index 2"),
        (
            np.array(["a", "b", np.nan, "a", "b", "a", "b", "a"], object),
            ["a"] * 8,
            {},
            "b: found labels of mixed types",
        ),
        (CLASSES, CLASSES == 0, {}, "b_val: found labels of type bool; expected int64"),
        (np.array([2**63, 1] * 4, np.uint64) + np.uint64(1), np.full(8, 0.5), {}, "b: .*float64 cannot hold"),
        (CLASSES, CLASSES, {"n_classes": 2**31}, "n_classes: found 2147483648; expected an integer from 2"),
        (CLASSES, CLASSES, {"penalty": [[0, 1], [2]]}, "penalty: not an array"),
        (CLASSES, CLASSES, {"penalty": np.ma.masked_equal([0, 1, 2], 1)}, "penalty: found a masked array"),
        (CLASSES, CLASSES, {"prior": ((0, [1]), 1)}, "prior: found"),
        (CLASSES, CLASSES, {"bounds": (np.inf, np.inf)}, "bounds: found a lower bound inf"),
        (CLASSES, CLASSES, {"sample_weight": np.full(8, 1e308)}, "sample_weight: found weights whose sum is inf"),
    ],
)
def test_refused(b, b_val, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        MultinomialLogistic(A, b, A, b_val, **options)


def test_objects_that_are_numbers_are_numbers():
    given = CLASSES.astype(object)
    for options in ({}, {"n_classes": 3}):
        assert MultinomialLogistic(A, given, A, CLASSES, **options).classes.tolist() == [0, 1, 2]
    assert BinaryLogistic(A, SIGNS.astype(object), A, SIGNS).b.tolist() == SIGNS.tolist()


@pytest.mark.parametrize("axis", ["row", "col"])
def test_coordinates_outside_of_a_matrix_are_refused(axis):
    """SciPy's conversion would follow them out of memory."""
    matrix = sp.coo_matrix(A)
    getattr(matrix, axis)[0] = 10**6
    with pytest.raises(ValueError, match=r"A: found a coo matrix .* indices from 0 to 1000000"):
        BinaryLogistic(matrix, SIGNS, A, SIGNS)


def test_ragged_rows_are_named():
    with pytest.raises(ValueError, match="A: not an array"):
        BinaryLogistic([[1, 2], [3]], [1, -1], A, SIGNS)


def test_small_weights_have_bounds():
    lower, upper = BinaryLogistic(A, SIGNS, A, SIGNS, sample_weight=np.full(8, 1e-12)).bounds
    assert (lower < upper).all() and np.isfinite(lower).all()


def test_kept_curvatures_of_another_size_are_refused():
    problem = BinaryLogistic(A, SIGNS, A, SIGNS)
    with pytest.raises(ValueError, match=r"curvatures: found shape \(0, 8\); expected \(1, 8\)"):
        problem.kept_hvp(np.zeros(3), np.zeros((0, 8)), np.eye(3))


def test_synthetic_data_that_float64_cannot_hold():
    with pytest.raises(ValueError, match="r: found 1e"):
        nbo.datasets.make_synthetic_logistic(n_train=8, n_val=4, p=2, r=1e300)

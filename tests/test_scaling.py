"""Scaling of columns: agreement with scikit-learn, units of any size, and columns that have no scale."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from nbo._scaling import Scaling
from nbo.datasets import DataError

NAMES = ("u", "v", "w")


def rows(seed=0, n=20):
    return np.random.default_rng(seed).standard_normal((n, 3)) * [1, 50, 1e-3] + [0, 7, 2]


@given(seed=st.integers(0, 1000))
def test_dense_columns_are_standardised_and_sparse_ones_divided_by_the_largest(seed):
    A, other = rows(seed), rows(seed + 1, n=4)
    dense, sparse = Scaling.fitted(A, NAMES), Scaling.fitted(sp.csr_matrix(A), NAMES)
    np.testing.assert_allclose(dense.scaled(other, NAMES), StandardScaler().fit(A).transform(other), rtol=1e-6)
    np.testing.assert_allclose(
        sparse.scaled(sp.csr_matrix(other), NAMES).toarray(), MaxAbsScaler().fit(A).transform(other), rtol=1e-12
    )


@given(exponent=st.integers(-900, 900))
def test_units_of_any_size_give_the_same(exponent):
    A = rows()
    unit = 2.0**exponent
    np.testing.assert_array_equal(
        Scaling.fitted(A * unit, NAMES).scaled(A * unit, NAMES), Scaling.fitted(A, NAMES).scaled(A, NAMES)
    )


def test_constant_columns_become_zero():
    A = rows()
    A[:, 1] = 0.1
    scaling = Scaling.fitted(A, NAMES)
    assert scaling.constant.tolist() == [False, True, False]
    assert not scaling.scaled(A, NAMES)[:, 1].any()
    empty = sp.csr_matrix(np.diag([1.0, 0, 2]))
    assert np.isfinite(Scaling.fitted(empty, NAMES).scaled(empty, NAMES).data).all()


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_what_has_no_scale_is_named(kind):
    A = rows()
    A[:, 1] *= 1e300
    with pytest.raises(DataError, match="column 'v' is too large to standardise: its largest magnitude in the train"):
        Scaling.fitted(kind(A), NAMES)
    A[:, 1] = 1e-300
    with pytest.raises(DataError, match="column 'v' is too small to standardise"):
        Scaling.fitted(kind(A), NAMES)
    scaling = Scaling.fitted(kind(rows()), NAMES)
    far = rows(n=4)
    far[2, 0] = -1e200
    with pytest.raises(DataError, match="column 'u' is too large to standardise: it holds -1e\\+200 in row 3, more"):
        scaling.scaled(kind(far), NAMES)
    with pytest.raises(DataError, match="in row 31, more"):
        scaling.scaled(kind(far), NAMES, np.array([10, 20, 30, 40]))

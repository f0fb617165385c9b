"""sparho's search chooses its penalty on the validation rows and is refitted on all rows."""

from __future__ import annotations

import numpy as np
import pytest

from nbo.benchmarks._real_sets import RealSet, Rows, real_rows

pytest.importorskip("sparho")
from nbo.benchmarks._sparse_search import SparseModel


def regression_rows():
    rng = np.random.default_rng(0)
    X, truth = rng.standard_normal((90, 12)) + 3.0, np.r_[2.0, -1.0, np.zeros(10)]
    y = X @ truth + 50.0 + 0.1 * rng.standard_normal(90)
    parts = [slice(0, 40), slice(40, 60), slice(60, 90)]
    pieces = [part for rows in parts for part in (X[rows], y[rows])]
    return Rows("regression", *pieces, X[:60], y[:60], []), truth


def test_regression_finds_coefficients_and_level():
    rows, truth = regression_rows()
    model = SparseModel(rows)
    np.testing.assert_allclose(model.coef_[:-1], truth, atol=0.1)
    assert model.coef_[-1] == pytest.approx(50, abs=1)
    assert np.mean((model.predict(rows.X_test) - rows.y_test) ** 2) < 0.1


def test_classification_predicts_with_probabilities_that_fit():
    rows = real_rows(RealSet("breast_cancer", 1, 1), seed=0)
    model = SparseModel(rows)
    assert 0 < np.count_nonzero(model.coef_[:-1]) < 30
    probabilities = model.predict_proba(rows.X_test)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(probabilities[:, 1] > 0.5, model.predict(rows.X_test) == 1)
    assert np.mean(model.predict(rows.X_test) != rows.y_test) < 0.1

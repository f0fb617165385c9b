"""Another package for bilevel tuning: one L1 penalty by sparho's hypergradients, for data with its kinds of model."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from nbo.benchmarks._real_sets import Array, Rows
from nbo.datasets import Samples

#: Steps of the search; its own default is 100.
N_STEPS = 30

#: The start, as a share of the penalty from which on all coefficients are zero.
START = 0.01


class SparseModel:
    """A linear model whose L1 penalty was tuned on validation rows, refitted on all rows.

    Parameters
    ----------
    rows : Rows
        Two classes, -1 and +1, or a regression.

    Attributes
    ----------
    coef_ : ndarray
        Coefficients; the last one is the intercept.
    """

    def __init__(self, rows: Rows) -> None:
        self._is_regression = rows.task == "regression"
        self.coef_ = _regression(rows) if self._is_regression else _classification(rows)

    def decision_function(self, X: Samples) -> Array:
        """Return the values of the linear function."""
        return np.asarray(X @ self.coef_[:-1] + self.coef_[-1])

    def predict(self, X: Samples) -> Array:
        """Return labels or targets."""
        found = self.decision_function(X)
        return found if self._is_regression else np.where(found > 0, 1.0, -1.0)

    def predict_proba(self, X: Samples) -> Array:
        """Return the probabilities of -1 and +1."""
        from scipy.special import expit

        margins = self.decision_function(X)
        return np.stack([expit(-margins), expit(margins)], axis=1)


def _package() -> Any:
    return importlib.import_module("sparho")


def _regression(rows: Rows) -> Array:
    """Tune a Lasso; the package has no intercepts, so that columns and targets are centred."""
    sparho = _package()
    centre, level = np.asarray(rows.X_all.mean(axis=0)).ravel(), float(rows.y_all.mean())
    A, b = np.asfortranarray(rows.X_all - centre), rows.y_all - level
    start = START * np.abs(A.T @ b).max() / len(b)
    problem = sparho.Problem(sparho.SquaredLoss(), sparho.L1(), A, b)
    coef = _search(problem, start, sparho.adapters.SklearnLasso(), sparho.HeldOutMSE(*rows.one_split[0]))
    return np.append(coef, level - centre @ coef)


def _classification(rows: Rows) -> Array:
    """Tune a logistic regression, whose intercept is the coefficient of a column of ones and penalised with it."""
    sparho = _package()
    ones = np.ones((len(rows.y_all), 1))
    sparse = sp.issparse(rows.X_all)
    A = sp.hstack([rows.X_all, ones], format="csr") if sparse else np.hstack([rows.X_all, ones])
    start = START * np.abs(A.T @ rows.y_all).max() / 2
    problem = sparho.Problem(sparho.LogisticLoss(), sparho.L1(), A, rows.y_all)
    solver = sparho.adapters.SklearnLogisticRegression()
    return _search(problem, start, solver, sparho.HeldOutLogistic(*rows.one_split[0]))


def _search(problem: Any, start: float, solver: Any, criterion: Any) -> Array:
    with warnings.catch_warnings():
        # The release names the penalty to scikit-learn in a way that is deprecated and still does what it says.
        warnings.filterwarnings("ignore", "'penalty' was deprecated", FutureWarning)
        warnings.filterwarnings("ignore", "Inconsistent values: penalty", UserWarning)
        # Where a hypergradient cannot be had, the search stays where it is for a step.
        warnings.filterwarnings("ignore", "implicit_forward: CG failed", RuntimeWarning)
        found = _package().hoag_search(problem, start, solver=solver, criterion=criterion, n_iter=N_STEPS)
    return np.asarray(found.best_coef)

"""Who takes part in the comparison of estimators: the same rows, the same criterion, one fit each."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nbo.benchmarks._real_sets import Pair, RealSet, Rows

SPLIT, FOLDS = "one split", "5 folds"

#: What every ratio of a loss or time refers to.
BASELINES = ("LogisticRegressionCV", "RidgeCV")
SHARED, FEATURE, CLASS = "nbo shared", "nbo feature", "nbo class"

#: Inverse penalties, those of LogisticRegressionCV's ``Cs=10``; a ridge takes their inverses.
GRID = np.logspace(-4, 4, 10)

#: Enough for most fits of lbfgs; those that do not end are counted.
_MAX_ITER = 1000


class Model(NamedTuple):
    """Somebody who takes part.

    Attributes
    ----------
    name : str
        For the table.
    criterion : str
        ``SPLIT`` or ``FOLDS``.
    fit : callable
        Takes `Rows` and returns a fitted estimator.
    """

    name: str
    criterion: str
    fit: Callable[[Rows], Any]


def models(chosen: RealSet, task: str) -> list[Model]:
    """Return who takes part on a set, each baseline before those that are compared with it.

    Parameters
    ----------
    chosen : RealSet
        The set.
    task : str
        ``"binary"``, ``"multiclass"`` or ``"regression"``.

    Returns
    -------
    list of Model
        First all with a single split, then all with folds.
    """
    found = []
    for criterion, pairs in ((SPLIT, lambda rows: rows.one_split), (FOLDS, lambda rows: rows.folds)):
        baseline = _ridge_cv if task == "regression" else _logistic_cv
        name = BASELINES[task == "regression"]
        found.append(Model(name, criterion, _fitted_on(pairs, baseline, chosen.solver)))
        if chosen.has_grid:
            search = _ridge_search if task == "regression" else _logistic_search
            found.append(Model("GridSearchCV", criterion, _fitted_on(pairs, search, chosen.solver)))
        structures = (SHARED, FEATURE, CLASS) if task == "multiclass" else (SHARED, FEATURE)
        found += [Model(structure, criterion, _nbo(structure.split()[1], criterion)) for structure in structures]
        if criterion == SPLIT and task != "multiclass" and sparho_is_installed():
            found.append(Model("sparho L1", criterion, _sparse_model))
    return found


def sparho_is_installed() -> bool:
    """Tell whether the other package can take part.

    Returns
    -------
    bool
        Nothing is imported.
    """
    return importlib.util.find_spec("sparho") is not None


def _sparse_model(rows: Rows) -> Any:
    from nbo.benchmarks._sparse_search import SparseModel

    return SparseModel(rows)


def _fitted_on(
    pairs: Callable[[Rows], list[Pair]], make: Callable[[list[Pair], str], Any], solver: str
) -> Callable[[Rows], Any]:
    return lambda rows: make(pairs(rows), solver).fit(rows.X_all, rows.y_all)


def _nbo(penalty: str, criterion: str) -> Callable[[Rows], Any]:
    def fit(rows: Rows) -> Any:
        from nbo.sklearn import BilevelLogisticRegression, BilevelRidge

        estimator = BilevelRidge if rows.task == "regression" else BilevelLogisticRegression
        if criterion == FOLDS:
            return estimator(penalty, cv=rows.folds).fit(rows.X_all, rows.y_all)
        return estimator(penalty).fit(rows.X, rows.y, X_val=rows.X_val, y_val=rows.y_val)

    return fit


def _logistic_cv(pairs: list[Pair], solver: str) -> Any:
    from sklearn.linear_model import LogisticRegressionCV

    return LogisticRegressionCV(
        Cs=len(GRID),
        cv=pairs,
        l1_ratios=(0,),
        max_iter=_MAX_ITER,
        scoring="neg_log_loss",
        solver=solver,
        use_legacy_attributes=False,
    )


def _logistic_search(pairs: list[Pair], solver: str) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    model = LogisticRegression(max_iter=_MAX_ITER, solver=solver)
    return GridSearchCV(model, {"C": GRID}, cv=pairs, scoring="neg_log_loss")


def _ridge_cv(pairs: list[Pair], solver: str) -> Any:
    from sklearn.linear_model import RidgeCV

    return RidgeCV(alphas=GRID, cv=pairs, scoring="neg_mean_squared_error")


def _ridge_search(pairs: list[Pair], solver: str) -> Any:
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV

    return GridSearchCV(Ridge(), {"alpha": GRID}, cv=pairs, scoring="neg_mean_squared_error")

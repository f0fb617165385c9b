"""Real data sets in random parts, as the comparison of estimators takes them."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from nbo.datasets import Samples, load
from nbo.datasets._parts import scaled, split, subset

Array = np.ndarray[Any, Any]
#: Training and held-out row numbers.
Pair = tuple[Array, Array]

#: Shares of the test rows, and of the validation rows in what is left: 60, 20 and 20 per cent.
CUTS = {"test": 0.2, "validation": 0.25}

#: Folds of the cross-validation.
N_FOLDS = 5


class RealSet(NamedTuple):
    """A data set and how it is used.

    Attributes
    ----------
    name : str
        As `nbo.datasets.load` knows it.
    n_seeds : int
        How many splits.
    effort : float
        Rough seconds of all fits of a split, for the time that is left.
    is_small : bool
        Whether it has fewer than 12,000 rows, so that the test loss varies from split to split.
    degree : int
        Of polynomial features; 1 for the columns as they are.
    solver : str
        Of scikit-learn's logistic regressions.
    has_grid : bool
        Whether ``GridSearchCV`` takes part; on 62,061 columns and 20 classes it would take most of the time.
    sizes : tuple of int, optional
        How many training and validation rows to take; such a set keeps its official test part.
    """

    name: str
    n_seeds: int
    effort: float
    is_small: bool = True
    degree: int = 1
    solver: str = "lbfgs"
    has_grid: bool = True
    sizes: tuple[int, int] | None = None


SETS = (
    RealSet("breast_cancer", 10, 1),
    RealSet("digits", 10, 5),
    RealSet("housing", 10, 1, degree=2),
    RealSet("abalone", 10, 1),
    # Separable: lbfgs does not end at the largest C, and a Newton method on 112 columns does at once.
    RealSet("mushrooms", 10, 5, solver="newton-cholesky"),
    RealSet("phishing", 10, 5),
    RealSet("california", 3, 1, is_small=False),
    RealSet("a9a", 3, 40, is_small=False),
    RealSet("w8a", 3, 20, is_small=False),
    RealSet("covtype_50k", 3, 400, is_small=False),
    RealSet("news20", 1, 800, is_small=False, has_grid=False),
    RealSet("mnist", 1, 200, is_small=False, sizes=(7_500, 2_500)),
)

QUICK_SETS = tuple(chosen._replace(n_seeds=2) for chosen in SETS if chosen.name in ("breast_cancer", "housing"))


class Rows(NamedTuple):
    """A split of a data set.

    Attributes
    ----------
    task : str
        ``"binary"``, ``"multiclass"`` or ``"regression"``.
    X, y, X_val, y_val, X_test, y_test : ndarray or csr_matrix
        The parts.
    X_all, y_all : ndarray or csr_matrix
        Training rows and below them the validation rows.
    folds : list of tuple
        Row numbers of `X_all` to train on and to hold out.
    """

    task: str
    X: Samples
    y: Array
    X_val: Samples
    y_val: Array
    X_test: Samples
    y_test: Array
    X_all: Samples
    y_all: Array
    folds: list[Pair]

    @property
    def one_split(self) -> list[Pair]:
        """The validation rows as the only fold."""
        n, n_all = len(self.y), len(self.y_all)
        return [(np.arange(n), np.arange(n, n_all))]


def real_rows(chosen: RealSet, seed: int, at_most: int | None = None) -> Rows:
    """Return a random split, stratified by label, with dense columns scaled by the training rows.

    Parameters
    ----------
    chosen : RealSet
        The set.
    seed : int
        Of the split and the folds.
    at_most : int, optional
        Take that many of its rows, if it has more.

    Returns
    -------
    Rows
        Dense columns have mean 0 and standard deviation 1; sparse ones are left as they are.

    Raises
    ------
    FileNotFoundError
        If the files of the set are not there.
    """
    task, parts = _pool(chosen.name, chosen.sizes, seed if chosen.sizes else 0)
    stratify = task != "regression"
    if at_most is not None and at_most < len(parts["train"][1]):
        parts = parts | {"train": subset(parts["train"], at_most, stratify, seed)}
    parts = split(parts, CUTS, stratify, seed)
    samples = {name: _expanded(A, chosen.degree) for name, (A, _) in parts.items()}
    samples = scaled(samples, not sp.issparse(samples["train"]), np.dtype(np.float64))
    order = ("train", "validation", "test")
    (X, X_val, X_test), (y, y_val, y_test) = [samples[n] for n in order], [parts[n][1] for n in order]
    X_all, y_all = _stacked([X, X_val]), np.concatenate([y, y_val])
    return Rows(task, X, y, X_val, y_val, X_test, y_test, X_all, y_all, _folds(y_all, stratify, seed))


@functools.lru_cache(maxsize=1)  # a set is parsed once for all its splits
def _pool(name: str, sizes: tuple[int, int] | None, seed: int) -> tuple[str, dict[str, tuple[Samples, Array]]]:
    n_train, n_val = sizes or (None, None)
    data = load(name, random_state=seed, standardize=False, n_train=n_train, n_val=n_val)
    parts = [(data.A, data.b), (data.A_val, data.b_val)]
    assert data.A_test is not None and data.b_test is not None
    test = (data.A_test, data.b_test)
    kept = {"test": test} if sizes else {}
    pooled = parts if sizes else [*parts, test]
    return data.task, {"train": (_stacked([A for A, _ in pooled]), np.concatenate([b for _, b in pooled])), **kept}


def _stacked(parts: list[Samples]) -> Samples:
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.vstack(parts)


def _expanded(A: Samples, degree: int) -> Samples:
    from sklearn.preprocessing import PolynomialFeatures

    return A if degree == 1 else PolynomialFeatures(degree, include_bias=False).fit_transform(A)


def _folds(y: Array, stratify: bool, seed: int) -> list[Pair]:
    from sklearn.model_selection import KFold, StratifiedKFold

    splitter = (StratifiedKFold if stratify else KFold)(N_FOLDS, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros((len(y), 1)), y))

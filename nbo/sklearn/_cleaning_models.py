"""The softmax models of label cleaning, and how strong a penalty predicts best."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit

from nbo.lower_level import solve_lower_level
from nbo.problems import CrossValidation, HyperCleaning, MultinomialLogistic
from nbo.sklearn._distinct import DistinctRows
from nbo.sklearn._running import minimized

Array = npt.NDArray[Any]

#: Trusted rows beyond which one split tells the strength of the penalty, and the folds that do so below.
_MANY, _FOLDS = 1000, 5
#: The strength C of too few trusted rows to be split; scikit-learn's default.
_STRENGTH = 1.0
#: How far log C may be from that, as few rows may not tell: the standard deviation of a prior.
_STRENGTH_SCALE = 1.0
#: Of the stage that finds the strength: a hundredth of a log penalty matters to nobody.
_STRENGTH_TOL, _STRENGTH_ITER = 1e-3, 20
#: On |grad_2 g|: of models whose predictions are used, and of the final one.
MODEL_TOL, _FINAL_TOL = 3e-3, 3e-4


class Settings(NamedTuple):
    """What a person may choose.

    Attributes
    ----------
    ridge : float or None
        c_r; None is automatic.
    fit_intercept : bool
        Whether models have an intercept.
    tol : float
        Of hyper-cleaning.
    max_iter : int
        Of hyper-cleaning.
    verbose : int
        Whether iterations are printed.
    n_classes : int
        c.
    random : numpy.random.RandomState
        Splits rows.
    """

    ridge: float | None
    fit_intercept: bool
    tol: float
    max_iter: int
    verbose: int
    n_classes: int
    random: np.random.RandomState


class Model(NamedTuple):
    """A softmax model.

    Attributes
    ----------
    problem : MultinomialLogistic or HyperCleaning
        Which knows how to predict.
    y : ndarray
        Its parameters.
    """

    problem: Any
    y: Array

    def probabilities(self, A: Any) -> Array:
        """Return those of the classes.

        Parameters
        ----------
        A : ndarray or CSR
            (n, p).

        Returns
        -------
        ndarray
            (n, c).
        """
        if not A.shape[0]:
            return np.empty((0, self.problem.n_outputs))
        scores = self.problem.decision_function(A, self.y)
        return np.asarray(softmax(scores, axis=1), dtype=np.float64)


def n_held_out(share: float, n: int) -> int:
    """Return how many rows a share of them is, where some are left on both sides.

    Parameters
    ----------
    share : float
        Between 0 and 1.
    n : int
        The number of rows, at least 2.

    Returns
    -------
    int
        From 1 to n - 1.
    """
    return min(max(round(share * n), 1), n - 1)


def split(codes: Array, share: float, random: np.random.RandomState) -> tuple[Array, Array]:
    """Hold out some rows, stratified by class where every class has enough.

    Parameters
    ----------
    codes : ndarray of int
        Labels as numbers of classes, (n,).
    share : float
        Of the rows, to hold out; at least one is held out and one is left.
    random : numpy.random.RandomState
        Chooses them.

    Returns
    -------
    rest : ndarray of int
        Numbers of rows.
    held_out : ndarray of int
        The others.
    """
    n, sizes = codes.size, np.bincount(codes)
    held_out = n_held_out(share, n)
    sizes = sizes[sizes > 0]
    stratified = sizes.min() >= 2 and min(held_out, n - held_out) >= sizes.size
    splitter = StratifiedShuffleSplit if stratified else ShuffleSplit
    return next(splitter(1, test_size=held_out, random_state=random).split(np.zeros((n, 1)), codes))


def folds(codes: Array, k: int, random: np.random.RandomState) -> list[tuple[Array, Array]]:
    """Divide rows into folds, stratified where every class has a row for each.

    Parameters
    ----------
    codes : ndarray of int
        Labels as numbers of classes, (n,).
    k : int
        The number of folds.
    random : numpy.random.RandomState
        Chooses them.

    Returns
    -------
    list of tuple of ndarray
        Numbers of other rows and of those of the fold; fewer than k rows are one fold.
    """
    if codes.size < k:
        return [(np.arange(0), np.arange(codes.size))]
    sizes = np.bincount(codes)
    splitter = StratifiedKFold if sizes[sizes > 0].min() >= k else KFold
    return list(splitter(k, shuffle=True, random_state=random).split(np.zeros((codes.size, 1)), codes))


def strength(trusted: DistinctRows, settings: Settings) -> float:
    """Return the C (scikit-learn's) with which a model of trusted rows predicts held-out ones best.

    Parameters
    ----------
    trusted : DistinctRows
        The trusted rows.
    settings : Settings
        Of the user.

    Returns
    -------
    float
        From one split of many rows, by cross-validation of fewer ones, and 1 for too few to be split.
    """
    n = trusted.codes.size
    if n < _FOLDS * settings.n_classes:
        return _STRENGTH
    many = n > _MANY
    pairs = (
        [split(trusted.codes, 1 / _FOLDS, settings.random)] if many else folds(trusted.codes, _FOLDS, settings.random)
    )
    total = float(np.mean([trusted.weights[rest].sum() for rest, _ in pairs]))
    x0 = -np.log(_STRENGTH * total)
    with _all_classes():
        problem = CrossValidation(_logistic(trusted, settings, prior=(x0, _STRENGTH_SCALE)), pairs)
    result = minimized(problem, np.clip([x0], *problem.bounds), tol=_STRENGTH_TOL, max_iter=_STRENGTH_ITER)
    return float(np.exp(-result.x[0]) / total)


def fitted(rows: DistinctRows, C: float, settings: Settings, *, final: bool = False) -> Model:
    """Fit a model to weighted rows.

    Parameters
    ----------
    rows : DistinctRows
        The rows.
    C : float
        The strength, as scikit-learn has it.
    settings : Settings
        Of the user.
    final : bool
        Whether it is fitted accurately.

    Returns
    -------
    Model
        Of all classes.
    """
    problem = _logistic(rows, settings)
    x = np.array([-np.log(C * float(rows.weights.sum()))])
    return Model(problem, solve_lower_level(problem, x, tol=_FINAL_TOL if final else MODEL_TOL).y)


def hyper_cleaning(rows: DistinctRows, trusted: DistinctRows, ridge: float, settings: Settings) -> HyperCleaning:
    """Return the problem of weighing rows by trusted ones.

    Parameters
    ----------
    rows, trusted : DistinctRows
        The training and the validation rows.
    ridge : float
        c_r.
    settings : Settings
        Of the user.

    Returns
    -------
    HyperCleaning
        With a model of all classes.
    """
    with _all_classes():
        return HyperCleaning(
            rows.A,
            rows.codes,
            trusted.A,
            trusted.codes,
            n_classes=settings.n_classes,
            ridge=ridge,
            sample_weight=rows.weights,
            sample_weight_val=trusted.weights,
            fit_intercept=settings.fit_intercept,
        )


def _logistic(rows: DistinctRows, settings: Settings, prior: Any = None) -> MultinomialLogistic:
    """Return the problem of a model of all classes, whose validation rows, which nobody uses, are one of the rows."""
    held_out = rows.chosen(np.arange(1))
    with _all_classes():
        return MultinomialLogistic(
            rows.A,
            rows.codes,
            held_out.A,
            held_out.codes,
            n_classes=settings.n_classes,
            penalty="shared",
            prior=prior,
            sample_weight=rows.weights,
            sample_weight_val=held_out.weights,
            fit_intercept=settings.fit_intercept,
        )


@contextmanager
def _all_classes() -> Iterator[None]:
    """Say nothing of classes that a part lacks: all parts have all classes here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"b(_val)?: the \w+ rows have no sample of|folds: training rows lack")
        yield

"""Test rows, folds and scaling: from a data set to what the models are fitted to."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nbo._scaling import Scaling
from nbo.datasets import DataError, Samples, TaskTable

#: Fewest rows of a class, so that every part has some of each, and fewest rows without classes.
MIN_ROWS_PER_LABEL, MIN_ROWS = 5, 10

#: The share of rows that nothing but the comparison sees.
TEST_SHARE = 0.2

#: The share of the others that a single split holds out, a fifth of all rows.
HELD_OUT_SHARE = 0.25


class Part(NamedTuple):
    """Scaled rows, and what is to be predicted of them.

    Attributes
    ----------
    A : ndarray or scipy.sparse.csr_matrix, shape (n, p)
        The rows.
    b : ndarray, shape (n,)
        Numbers of classes, or targets.
    """

    A: Samples
    b: np.ndarray


@dataclass(frozen=True, eq=False)
class TuningData:
    """The parts of a data set, scaled by statistics of the rows that are no test rows.

    Attributes
    ----------
    task : str
        As in :class:`nbo.datasets.TaskTable`.
    development, test : Part
        The rows that tune and fit, and those that only judge.
    folds : tuple of pairs of ndarray
        Training and held-out rows of every fold, numbers of development rows.
    criterion : str
        What the folds are, in words.
    center, scale : ndarray, shape (p,)
        A scaled column is (column - center) / scale; `center` is zero for sparse data.
    constant : ndarray, shape (p,)
        Which columns have one and the same value in all development rows.
    notes : tuple of str
        What is odd about the folds.
    """

    task: str
    development: Part
    test: Part
    folds: tuple[tuple[np.ndarray, np.ndarray], ...]
    criterion: str
    center: np.ndarray
    scale: np.ndarray
    constant: np.ndarray
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        sizes = ", ".join(f"{rows:,} {name}" for name, rows in self.sizes().items())
        return f"<TuningData: {sizes} rows of {self.n_features:,} features, {self.criterion}>"

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.scale)

    @property
    def n_train(self) -> float:
        """Mean number of training rows of a fold, which relates a log penalty to scikit-learn's strengths."""
        return float(np.mean([train.size for train, _ in self.folds]))

    def sizes(self) -> dict[str, int]:
        """Return the number of rows of each part.

        Returns
        -------
        dict
            ``tuning`` and ``test`` -> number of rows.
        """
        return {"tuning": len(self.development.b), "test": len(self.test.b)}

    def original_units(self, coefficients: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the coefficients and the intercepts that act on unscaled rows.

        Parameters
        ----------
        coefficients : ndarray, shape (p,) or (c, p)
            Coefficients on scaled columns.
        intercept : ndarray, shape () or (c,)
            The intercepts that go with them.

        Returns
        -------
        ndarray, shape (p,) or (c, p)
            Coefficients on the columns of the data set.
        ndarray, shape () or (c,)
            The intercepts that go with them.
        """
        original = coefficients / self.scale
        return original, np.asarray(intercept - original @ self.center)


def prepare(dataset: TaskTable, cv: int, seed: int) -> TuningData:
    """Set test rows aside, divide the others into folds, and scale all.

    Parameters
    ----------
    dataset : TaskTable
        The data.
    cv : int
        Number of folds; 1 for a single split that holds out a quarter.
    seed : int
        Seed of the shuffles.

    Returns
    -------
    TuningData
        Dense columns are standardised and sparse ones divided by their largest magnitude, with statistics of
        the development rows alone; constant columns become harmless.

    Raises
    ------
    DataError
        If there are too few rows, or a column is too large or too small to be scaled.
    ValueError
        If there are more folds than rows.
    """
    development, test = split_rows(dataset, seed)
    names = dataset.feature_names
    scaling = Scaling.fitted(dataset.A[development], names)
    tuning, held = (Part(scaling.scaled(dataset.A[rows], names, rows), dataset.b[rows]) for rows in (development, test))
    folds, criterion, notes = _divided(tuning, dataset.task, cv, seed)
    center = scaling.center * scaling.units
    return TuningData(dataset.task, tuning, held, folds, criterion, center, scaling.scale, scaling.constant, notes)


def _divided(
    rows: Part, task: str, cv: int, seed: int
) -> tuple[tuple[tuple[np.ndarray, np.ndarray], ...], str, tuple[str, ...]]:
    """Return the folds as the estimators make them, what they are called, and what is odd about them."""
    from nbo.sklearn._criterion import criterion
    from nbo.sklearn._rows import GivenRows

    n = len(rows.b)
    given = GivenRows(rows.A, rows.b, None, np.arange(n), n)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = criterion(HELD_OUT_SHARE if cv == 1 else cv, given, None if task == "regression" else rows.b, seed)
    notes = tuple(f"data: {str(warned.message).removeprefix('cv: ')}" for warned in caught)
    return tuple(found.pairs), found.text, notes


def split_rows(dataset: TaskTable, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Divide row numbers into 80 % and 20 %, stratified by class.

    Parameters
    ----------
    dataset : TaskTable
        The data.
    seed : int
        Seed of the shuffle.

    Returns
    -------
    development : ndarray
        Sorted numbers of the 80 %.
    test : ndarray
        Those of the others.

    Raises
    ------
    DataError
        If a class has fewer than five rows, or there are fewer than ten rows without classes.
    """
    from sklearn.model_selection import train_test_split

    n = len(dataset.b)
    if dataset.task == "regression" and n < MIN_ROWS:
        raise DataError(f"too few rows: found {n}; expected at least {MIN_ROWS}")
    for code, name in enumerate(dataset.label_names):
        found = int(np.sum(dataset.b == code))
        if found < MIN_ROWS_PER_LABEL:
            raise DataError(
                f"too few rows: label {name!r} has {found}; expected at least {MIN_ROWS_PER_LABEL} "
                "of each label for training, validation and test"
            )
    classes = None if dataset.task == "regression" else dataset.b
    development, test = train_test_split(
        np.arange(n), test_size=round(TEST_SHARE * n), stratify=classes, random_state=seed
    )
    return np.sort(development), np.sort(test)

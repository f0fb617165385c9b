"""Splits, scaling, and the constant column: from a data set to what the tuning stages work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from nbo.datasets import BinaryTable, DataError, Samples

#: Fewest rows of a label, so that a 60/20/20 split gives every part at least one of them.
MIN_ROWS_PER_LABEL = 5

#: Sizes that a column may have: coefficients in its units, and products with them, stay far from the ends of float64.
SMALLEST, LARGEST = 1e-280, 1e280

#: Largest scaled value. Beyond it the values of the training rows are rounding errors beside it, and no fit converges.
LARGEST_SCALED = 1e15

_SHARES = {"validation": 0.2, "test": 0.2}


class Part(NamedTuple):
    """Scaled rows with a last column of ones, and their labels.

    Attributes
    ----------
    A : ndarray or scipy.sparse.csr_matrix, shape (n, p + 1)
        The rows.
    b : ndarray, shape (n,)
        Labels -1 and +1.
    """

    A: Samples
    b: np.ndarray


@dataclass(frozen=True, eq=False)
class TuningData:
    """The parts of a data set, scaled by statistics of the training rows.

    Attributes
    ----------
    train, validation, test : Part
        The stratified 60/20/20 split.
    development : Part
        Training rows followed by validation rows, for refits.
    center, scale : ndarray, shape (p,)
        A scaled column is (column - center) / scale; `center` is zero for sparse data.
    constant : ndarray, shape (p,)
        Which columns have one and the same value in all training rows.
    """

    train: Part
    validation: Part
    test: Part
    development: Part
    center: np.ndarray
    scale: np.ndarray
    constant: np.ndarray

    def __repr__(self) -> str:
        sizes = ", ".join(f"{rows:,} {name}" for name, rows in self.sizes().items())
        return f"<TuningData: {sizes} rows of {self.n_features:,} features>"

    @property
    def n_features(self) -> int:
        """Number of columns without the constant one."""
        return len(self.scale)

    def sizes(self) -> dict[str, int]:
        """Return the number of rows of each part.

        Returns
        -------
        dict
            ``train``, ``validation`` and ``test`` -> number of rows.
        """
        return {name: len(getattr(self, name).b) for name in ("train", "validation", "test")}

    def original_units(self, coefficients: np.ndarray, intercept: float) -> tuple[np.ndarray, float]:
        """Return the coefficients and the intercept that act on unscaled rows.

        Parameters
        ----------
        coefficients : ndarray, shape (p,)
            Coefficients on scaled columns.
        intercept : float
            The intercept that goes with them.

        Returns
        -------
        ndarray, shape (p,)
            Coefficients on the columns of the data set.
        float
            The intercept that goes with them.
        """
        original = coefficients / self.scale
        return original, float(intercept - self.center @ original)


def prepare(dataset: BinaryTable, seed: int) -> TuningData:
    """Split a data set 60/20/20, stratified by label, and scale it.

    Parameters
    ----------
    dataset : BinaryTable
        The data.
    seed : int
        Seed of the shuffles.

    Returns
    -------
    TuningData
        Dense columns are standardised and sparse ones divided by their largest magnitude, with statistics of
        the training rows alone; constant columns become harmless.

    Raises
    ------
    DataError
        If a label has fewer than five rows, or a column is too large or too small to be scaled.
    """
    rows = split_rows(dataset.b, dataset.label_names, seed)
    train = dataset.A[rows["train"]]
    constant = _never_varies(train)
    units = _units(train, dataset.feature_names)
    scaler = _Scaler.fitted(train, units, constant)
    scale = scaler.spread * units
    scaled = {name: scaler.scaled(dataset.A[chosen]) for name, chosen in rows.items()}
    _check_scaled(scaled, rows, dataset, scale)
    parts = {name: Part(with_ones(scaled[name]), dataset.b[chosen]) for name, chosen in rows.items()}
    return TuningData(
        **parts,
        development=_stacked(parts["train"], parts["validation"]),
        center=scaler.center * units,
        scale=scale,
        constant=constant,
    )


def split_rows(b: np.ndarray, label_names: tuple[str, str], seed: int) -> dict[str, np.ndarray]:
    """Split row numbers 60/20/20, stratified by label.

    Parameters
    ----------
    b : ndarray, shape (n,)
        Labels -1 and +1.
    label_names : tuple of str
        What the labels stand for, for messages.
    seed : int
        Seed of the shuffles.

    Returns
    -------
    dict
        ``train``, ``validation`` and ``test`` -> sorted row numbers.

    Raises
    ------
    DataError
        If a label has fewer than five rows.
    """
    from sklearn.model_selection import train_test_split

    for label, name in zip((-1, 1), label_names, strict=True):
        found = int(np.sum(b == label))
        if found < MIN_ROWS_PER_LABEL:
            raise DataError(
                f"too few rows: label {name!r} has {found}; expected at least {MIN_ROWS_PER_LABEL} "
                "of each label for training, validation and test"
            )
    n_rows, rest, parts = len(b), np.arange(len(b)), {}
    for name, share in _SHARES.items():
        rest, chosen = train_test_split(rest, test_size=round(share * n_rows), stratify=b[rest], random_state=seed)
        parts[name] = np.sort(chosen)
    parts["train"] = np.sort(rest)
    return parts


def with_ones(A: Samples) -> Samples:
    """Append the constant column whose coefficient is the intercept.

    Parameters
    ----------
    A : ndarray or sparse matrix, shape (n, p)
        Rows.

    Returns
    -------
    ndarray or scipy.sparse.csr_matrix, shape (n, p + 1)
        The same rows with a last entry of one.
    """
    ones = np.ones((A.shape[0], 1))
    if sp.issparse(A):
        return sp.hstack([A, sp.csr_matrix(ones)], format="csr")
    return np.hstack([A, ones])


class _Scaler(NamedTuple):
    """Maps a column to (column / unit - center) / spread.

    Statistics of columns in units of their own neither overflow nor vanish, whatever the size of the numbers.
    """

    units: np.ndarray
    center: np.ndarray
    spread: np.ndarray

    @classmethod
    def fitted(cls, A: Samples, units: np.ndarray, constant: np.ndarray) -> _Scaler:
        if sp.issparse(A):
            largest = _largest(A)
            return cls(units, np.zeros(len(units)), np.where(largest > 0, largest / units, 1.0))
        own = A / units
        center = np.where(constant, own[0], own.mean(axis=0))  # exact where a mean might be rounded
        return cls(units, center, np.where(constant, 1.0, (own - center).std(axis=0)))

    def scaled(self, A: Samples) -> Samples:
        with np.errstate(over="ignore"):  # of rows that are far beyond those of the fit
            if not sp.issparse(A):
                return (A / self.units - self.center) / self.spread
            values = A.data / self.units[A.indices] / self.spread[A.indices]
            return sp.csr_matrix((values, A.indices, A.indptr), shape=A.shape)


def _largest(A: Samples) -> np.ndarray:
    """The largest magnitude in every column."""
    if sp.issparse(A):
        return np.asarray(abs(A).max(axis=0).toarray().ravel())
    return np.asarray(np.maximum(A.max(axis=0), -A.min(axis=0)))


def _units(A: Samples, names: tuple[str, ...]) -> np.ndarray:
    """The power of two below the largest magnitude in every column: divisions by it are exact."""
    largest = _largest(A)
    for wrong, size in ((largest > LARGEST, "large"), ((largest > 0) & (largest < SMALLEST), "small")):
        if wrong.any():
            column = int(np.argmax(wrong))
            raise DataError(
                f"column {names[column]!r} is too {size} to standardise: its largest magnitude in the training rows is "
                f"{largest[column]:.2g}; expected one between {SMALLEST:g} and {LARGEST:g} (change its unit)"
            )
    return np.ldexp(1.0, np.frexp(np.where(largest > 0, largest, 1.0))[1] - 1)


def _check_scaled(
    scaled: Mapping[str, Samples], rows: Mapping[str, np.ndarray], dataset: BinaryTable, scale: np.ndarray
) -> None:
    for name, A in scaled.items():
        sizes = _largest(A)
        column = int(np.argmax(sizes))
        if sizes[column] > LARGEST_SCALED:
            values = abs(A[:, [column]].toarray() if sp.issparse(A) else A[:, [column]])
            row = int(rows[name][np.argmax(values)])
            raise DataError(
                f"column {dataset.feature_names[column]!r} is too large to standardise: it holds "
                f"{dataset.A[row, column]:.2g} in row {row + 1}, more than {LARGEST_SCALED:g} times its scale in the "
                f"training rows, {scale[column]:.2g}"
            )


def _never_varies(A: Samples) -> np.ndarray:
    smallest, largest = A.min(axis=0), A.max(axis=0)
    if sp.issparse(A):
        smallest, largest = smallest.toarray().ravel(), largest.toarray().ravel()
    return np.asarray(smallest == largest)


def _stacked(first: Part, second: Part) -> Part:
    stack = sp.vstack if sp.issparse(first.A) else np.vstack
    A: Samples = stack([first.A, second.A])
    return Part(A.tocsr() if sp.issparse(A) else A, np.concatenate([first.b, second.b]))

"""Scaling of columns for linear models, whatever the size of the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from nbo.datasets import DataError, Samples

#: Sizes that a column may have: coefficients in its units, and products with them, stay far from the ends of float64.
SMALLEST, LARGEST = 1e-280, 1e280

#: Largest scaled value. Beyond it the values of the training rows are rounding errors beside it, and no fit converges.
LARGEST_SCALED = 1e15


class Scaling(NamedTuple):
    """Maps a column to (column / unit - center) / spread: dense ones standardised, sparse ones by largest magnitude.

    Statistics of columns in units of their own neither overflow nor vanish. A column with one and the same value in all
    rows of the fit is `constant`; it becomes harmless.
    """

    units: np.ndarray
    center: np.ndarray
    spread: np.ndarray
    constant: np.ndarray

    @classmethod
    def fitted(cls, A: Samples, names: Sequence[str]) -> Scaling:
        """Return the scaling of the columns of training rows, or raise a `DataError` that names one without a scale."""
        units, constant = _units(A, names), _never_varies(A)
        if sp.issparse(A):
            largest = _largest(A)
            return cls(units, np.zeros(len(units)), np.where(largest > 0, largest / units, 1.0), constant)
        own = A / units
        center = np.where(constant, own[0], own.mean(axis=0))  # exact where a mean might be rounded
        return cls(units, center, np.where(constant, 1.0, (own - center).std(axis=0)), constant)

    @property
    def scale(self) -> np.ndarray:
        """What a column is divided by in all."""
        return self.spread * self.units

    def scaled(self, A: Samples, names: Sequence[str], numbers: np.ndarray | None = None) -> Samples:
        """Return scaled rows; a `DataError` names a value that is too large and its row, by its number from zero."""
        with np.errstate(over="ignore"):  # of rows that are far beyond those of the fit
            if sp.issparse(A):
                values = A.data / self.units[A.indices] / self.spread[A.indices]
                found: Samples = sp.csr_matrix((values, A.indices, A.indptr), shape=A.shape)
            else:
                found = (A / self.units - self.center) / self.spread
        sizes = _largest(found)
        column = int(np.argmax(sizes))
        if sizes[column] > LARGEST_SCALED:
            values = abs(found[:, [column]].toarray() if sp.issparse(found) else found[:, [column]])
            row = int(np.argmax(values))
            raise DataError(
                f"column {names[column]!r} is too large to standardise: it holds {A[row, column]:.2g} in row "
                f"{(row if numbers is None else int(numbers[row])) + 1}, more than {LARGEST_SCALED:g} times its scale "
                f"in the training rows, {self.scale[column]:.2g}"
            )
        return found


def _largest(A: Samples) -> np.ndarray:
    """The largest magnitude in every column."""
    if sp.issparse(A):
        return np.asarray(abs(A).max(axis=0).toarray().ravel())
    return np.asarray(np.maximum(A.max(axis=0), -A.min(axis=0)))


def _units(A: Samples, names: Sequence[str]) -> np.ndarray:
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


def _never_varies(A: Samples) -> np.ndarray:
    smallest, largest = A.min(axis=0), A.max(axis=0)
    if sp.issparse(A):
        smallest, largest = smallest.toarray().ravel(), largest.toarray().ravel()
    return np.asarray(smallest == largest)

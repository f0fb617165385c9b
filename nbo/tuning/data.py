"""Splits, scaling, and the constant column: from a data set to what the tuning stages work on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from nbo._scaling import Scaling
from nbo.datasets import BinaryTable, DataError, Samples

#: Fewest rows of a label, so that a 60/20/20 split gives every part at least one of them.
MIN_ROWS_PER_LABEL = 5

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
    scaling = Scaling.fitted(dataset.A[rows["train"]], dataset.feature_names)
    scaled = {name: scaling.scaled(dataset.A[chosen], dataset.feature_names, chosen) for name, chosen in rows.items()}
    parts = {name: Part(with_ones(scaled[name]), dataset.b[chosen]) for name, chosen in rows.items()}
    return TuningData(
        **parts,
        development=_stacked(parts["train"], parts["validation"]),
        center=scaling.center * scaling.units,
        scale=scaling.scale,
        constant=scaling.constant,
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


def _stacked(first: Part, second: Part) -> Part:
    stack = sp.vstack if sp.issparse(first.A) else np.vstack
    A: Samples = stack([first.A, second.A])
    return Part(A.tocsr() if sp.issparse(A) else A, np.concatenate([first.b, second.b]))

"""Copies of a row as one row: what is learnt then depends neither on the order of rows nor on how copies are given."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Array = npt.NDArray[Any]


class DistinctRows(NamedTuple):
    """Rows of positive weight, no two of which agree in features and label.

    Attributes
    ----------
    A : ndarray or CSR
        (m, p).
    codes : ndarray of int
        Labels as numbers of classes, (m,).
    weights : ndarray
        Summed over copies, (m,).
    """

    A: Any
    codes: Array
    weights: Array

    def chosen(self, rows: Array) -> DistinctRows:
        """Return some of the rows.

        Parameters
        ----------
        rows : ndarray
            Their numbers.

        Returns
        -------
        DistinctRows
            In that order.
        """
        return DistinctRows(self.A[rows], self.codes[rows], self.weights[rows])

    def weighted(self, factors: Array) -> DistinctRows:
        """Return the rows with other weights.

        Parameters
        ----------
        factors : ndarray
            What to multiply the weights by, (m,).

        Returns
        -------
        DistinctRows
            With the same rows.
        """
        return self._replace(weights=self.weights * factors)

    def moved(self, center: Array) -> DistinctRows:
        """Return the rows with another origin.

        Parameters
        ----------
        center : ndarray
            What to subtract from each row, (p,).

        Returns
        -------
        DistinctRows
            With the same labels and weights.
        """
        return self._replace(A=self.A - center)

    def single(self) -> DistinctRows:
        """Return the rows in single precision, which halves the time of every pass over them.

        Returns
        -------
        DistinctRows
            With the same labels and weights.
        """
        return self._replace(A=self.A.astype(np.float32, copy=False))


def distinct(A: Any, codes: Array, weights: Array | None) -> tuple[DistinctRows, Array]:
    """Merge copies of rows.

    Parameters
    ----------
    A : ndarray or CSR
        (n, p).
    codes : ndarray of int
        (n,).
    weights : ndarray or None
        (n,), positive; None for ones.

    Returns
    -------
    rows : DistinctRows
        In an order that is arbitrary and the same for every order of the given rows.
    place : ndarray of int
        Which of them each given row is, (n,).
    """
    _, first, place = np.unique(_digests(A, codes), return_index=True, return_inverse=True)
    place = place.ravel()
    return DistinctRows(A[first], codes[first], np.bincount(place, weights=weights).astype(np.float64)), place


def together(first: DistinctRows, second: DistinctRows) -> DistinctRows:
    """Return the rows of two parts.

    Parameters
    ----------
    first, second : DistinctRows
        The parts, both dense or both sparse.

    Returns
    -------
    DistinctRows
        The first part's rows, then the second one's.
    """
    sparse = sp.issparse(first.A)
    A = sp.vstack((first.A, second.A), format="csr") if sparse else np.concatenate((first.A, second.A))
    codes, weights = (np.concatenate((first[k], second[k])) for k in (1, 2))
    return DistinctRows(A, codes, weights)


def _digests(A: Any, codes: Array) -> Array:
    """Return 16 bytes a row, equal where features and labels are: sorting those is cheaper than sorting rows."""
    labels = codes.astype(np.int64)
    if sp.issparse(A):
        A = A.copy()
        A.sum_duplicates()
        A.eliminate_zeros()
        ends, columns = A.indptr, A.indices.astype(np.int64)
        parts: Iterator[tuple[Array, ...]] = ((columns[i:j], A.data[i:j]) for i, j in itertools.pairwise(ends))
    else:
        parts = ((row + 0.0,) for row in A)  # -0.0 is 0.0
    found = np.empty(len(labels), "V16")
    for i, arrays in enumerate(parts):
        digest = blake2b(labels[i].tobytes(), digest_size=16)
        for array in arrays:
            digest.update(np.ascontiguousarray(array).data)
        found[i] = digest.digest()
    return found

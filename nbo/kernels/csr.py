"""Products with a block of rows in compressed sparse form: margins, and their transpose.

`rows` is (values, indices, indptr). The one or two columns are the last axis of `columns` and of the sums, so that
what one index names lies in one cache line. Indices are unsigned, which frees the loops of tests for negative ones.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numba import types

from nbo.kernels.engine import array, helper
from nbo.kernels.storage import WIDE, Workspace, block_rows, plain_array, real_dtype


@helper
def margins(rows, lo, hi, columns, out):  # type: ignore[no-untyped-def]
    """Store the products of a block of rows with one or two columns: out[c, i - lo] = rows[i] . columns[:, c].

    Parameters
    ----------
    rows : tuple of arrays
        (values, indices, indptr) of all rows.
    lo, hi : int
        The block is lo <= i < hi.
    columns : (p, k) array
        The columns, k = 1 or 2.
    out : (k, hi - lo or more) array
        Receives the products.
    """
    if out.shape[0] == 1:
        _margins_1(rows, lo, hi, columns, out[0])
    else:
        _margins_2(rows, lo, hi, columns, out[0], out[1])


@helper
def accumulate(rows, lo, hi, coefficients, out):  # type: ignore[no-untyped-def]
    """Add combinations of a block of rows: out[:, c] += sum_i coefficients[c, i - lo] rows[i].

    Parameters
    ----------
    rows : tuple of arrays
        (values, indices, indptr) of all rows.
    lo, hi : int
        The block is lo <= i < hi.
    coefficients : (k, hi - lo or more) array
        One or two coefficients a row.
    out : (p, k) array
        The sums.
    """
    if coefficients.shape[0] == 1:
        _accumulate_1(rows, lo, hi, coefficients[0], out)
    else:
        _accumulate_2(rows, lo, hi, coefficients[0], coefficients[1], out)


@helper
def _margins_1(rows, lo, hi, columns, s):  # type: ignore[no-untyped-def]
    values, indices, indptr = rows
    for i in range(lo, hi):
        total = values.dtype.type(0)
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            total += values[e] * columns[indices[e], 0]
        s[i - lo] = total


@helper
def _margins_2(rows, lo, hi, columns, s, t):  # type: ignore[no-untyped-def]
    values, indices, indptr = rows
    for i in range(lo, hi):
        first, second = values.dtype.type(0), values.dtype.type(0)
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            a, j = values[e], indices[e]
            first += a * columns[j, 0]
            second += a * columns[j, 1]
        s[i - lo], t[i - lo] = first, second


@helper
def _accumulate_1(rows, lo, hi, s, out):  # type: ignore[no-untyped-def]
    values, indices, indptr = rows
    for i in range(lo, hi):
        first = s[i - lo]
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            out[indices[e], 0] += values[e] * first


@helper
def _accumulate_2(rows, lo, hi, s, t, out):  # type: ignore[no-untyped-def]
    values, indices, indptr = rows
    for i in range(lo, hi):
        first, second = s[i - lo], t[i - lo]
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            a, j = values[e], indices[e]
            out[j, 0] += a * first
            out[j, 1] += a * second


def block_margins(rows, lo, hi, columns, products):  # type: ignore[no-untyped-def]
    """Store the products of a few rows with vectors; see `nbo.kernels.blocks.margins`.

    Parameters
    ----------
    rows : tuple of arrays
        (values, indices, indptr) of all rows.
    lo, hi : int
        The block is lo <= i < hi.
    columns : tuple of (p,) array
        The vectors.
    products : (k or more, hi - lo or more) array
        Receives the products.
    """
    values, indices, indptr = rows
    for c in range(len(columns)):
        column = columns[c]
        for i in range(lo, hi):
            total = values.dtype.type(0)
            for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                total += values[e] * column[indices[e]]
            products[c, i - lo] = total


def block_accumulate(rows, lo, hi, coefficients, sums):  # type: ignore[no-untyped-def]
    """Add combinations of a few rows; see `nbo.kernels.blocks.accumulate`.

    Parameters
    ----------
    rows : tuple of arrays
        (values, indices, indptr) of all rows.
    lo, hi : int
        The block is lo <= i < hi.
    coefficients : (k or more, hi - lo or more) array
        One coefficient a row for each sum.
    sums : tuple of (p,) array
        What is added to.
    """
    values, indices, indptr = rows
    for c in range(len(sums)):
        total = sums[c]
        for i in range(lo, hi):
            factor = coefficients[c, i - lo]
            for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                total[indices[e]] += values[e] * factor


#: Columns in one product with a block of vectors: one cache line or two for what an index names.
_GROUP = 16


class CsrRows:
    """A CSR matrix as the kernels take it; `DenseRows` describes the attributes.

    Parameters
    ----------
    A : csr_matrix or csr_array
        Float32 or float64 with int32 or int64 indices; its arrays are viewed and not copied. Rows may be
        empty and may name a column twice.
    """

    part_dtype = np.dtype(np.float64)

    def __init__(self, A: Any) -> None:
        if A.format != "csr":
            raise TypeError(f"A is a sparse matrix in {A.format} format, expected CSR")
        self._matrix = A
        self._dtype = real_dtype("A", A.dtype)
        data = plain_array("A.data", A.data, A.data.shape, self._dtype)
        self.arrays = (data, _unsigned("A.indices", A.indices), _unsigned("A.indptr", A.indptr))
        self.type = types.Tuple([array(part.dtype, 1) for part in self.arrays])
        # SciPy sums in the dtype of the data, which is too coarse for long sums in single precision.
        self.wide = WIDE if self._dtype == np.float64 else sys.maxsize
        self._block = block_rows(sum(part.nbytes for part in self.arrays[:2]) / max(1, A.shape[0]))

    def workspace(self, columns: np.ndarray) -> Workspace:
        """Return the arguments for a pass with one or two vectors.

        Parameters
        ----------
        columns : (k, p) ndarray
            The vectors to multiply.

        Returns
        -------
        Workspace
            Buffers of this call alone, so that threads can share the object.
        """
        count, n_features = columns.shape
        scratch = np.empty((count, self._block), self._dtype)
        part, total = np.zeros((n_features, count)), np.zeros((0, 0))
        return Workspace(np.ascontiguousarray(columns.T), scratch, self._matrix.shape[0], part, total)

    def sums(self, work: Workspace) -> np.ndarray:
        """Return what a pass has summed.

        Parameters
        ----------
        work : Workspace
            The arguments that the pass was given.

        Returns
        -------
        (k, p) ndarray
            The sums in the dtype of the data.
        """
        return np.ascontiguousarray(work.part.T, self._dtype)

    def wide_product(self, weights: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Return V A' diag(weights) A by sparse matrix products over groups of columns.

        Parameters
        ----------
        weights : (n,) ndarray
            One weight a row.
        V : (k, p) ndarray
            The vectors to multiply.

        Returns
        -------
        (k, p) ndarray
            The products in the dtype of the data.
        """
        products = np.empty(V.shape, self._dtype)
        for c in range(0, len(V), _GROUP):
            margins = self._matrix @ V[c : c + _GROUP].T
            products[c : c + _GROUP] = (self._matrix.T @ (weights[:, np.newaxis] * margins)).T
        return products


def _unsigned(name: str, indices: np.ndarray) -> np.ndarray:
    if indices.dtype not in (np.int32, np.int64):
        raise ValueError(f"{name} has dtype {indices.dtype}, expected int32 or int64")
    plain = plain_array(name, indices, indices.shape, indices.dtype)
    return plain.view(np.uint32 if plain.dtype == np.int32 else np.uint64)

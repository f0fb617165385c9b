"""Products with a few rows in compressed sparse form: margins, and their transpose.

`rows` is (values, indices, indptr). Vectors are taken two at a time, so that an entry is loaded once for both. Indices
are unsigned, which frees loops of tests for negative ones. Where there are many vectors and a pass over many entries,
they had better be turned: all numbers of a column then lie side by side, and an entry finds them in a few lines of the
cache instead of one a vector.
"""

from __future__ import annotations

import numpy as np

from nbo.kernels.engine import helper


def block_margins(rows, lo, hi, matrices, products):  # type: ignore[no-untyped-def]
    """Store the products of a few rows with the rows of matrices; see `nbo.kernels.blocks.margins`.

    Parameters
    ----------
    rows : tuple of arrays
        (values, indices, indptr) of all rows.
    lo, hi : int
        The block is lo <= i < hi.
    matrices : tuple of (k, p or more) array
        The vectors.
    products : (columns, rows) array
        Receives the products.
    """
    first = 0
    for m in range(len(matrices)):
        M = matrices[m]
        paired = M.shape[0] - M.shape[0] % 2
        for q in range(0, paired, 2):
            _pair_margins(rows, lo, hi, M[q], M[q + 1], products[first + q], products[first + q + 1])
        if paired < M.shape[0]:
            _single_margins(rows, lo, hi, M[paired], products[first + paired])
        first += M.shape[0]


def block_accumulate(rows, lo, hi, coefficients, matrices):  # type: ignore[no-untyped-def]
    """Add combinations of a few rows to the rows of matrices; see `nbo.kernels.blocks.accumulate`.

    Parameters
    ----------
    rows : tuple of arrays
        (values, indices, indptr) of all rows.
    lo, hi : int
        The block is lo <= i < hi.
    coefficients : (columns, rows) array
        A coefficient for each row.
    matrices : tuple of (k, p or more) array
        What is added to.
    """
    first = 0
    for m in range(len(matrices)):
        M = matrices[m]
        paired = M.shape[0] - M.shape[0] % 2
        for q in range(0, paired, 2):
            _add_pair(rows, lo, hi, coefficients[first + q], coefficients[first + q + 1], M[q], M[q + 1])
        if paired < M.shape[0]:
            _add_single(rows, lo, hi, coefficients[first + paired], M[paired])
        first += M.shape[0]


#: Vectors, and entries for each column, from which turning them takes less time than it saves.
_VECTORS, _ENTRIES = 4, 4


def turning_pays(rows, lo, hi, vectors):  # type: ignore[no-untyped-def]
    """Tell whether a pass over some rows had better turn its vectors; see `nbo.kernels.blocks.turning_pays`.

    Parameters
    ----------
    rows : tuple of arrays
        (values, indices, indptr) of all rows.
    lo, hi : int
        The rows are lo <= i < hi.
    vectors : (k, p or more) array
        The vectors.

    Returns
    -------
    bool
        Whether they are many, and the entries, too.
    """
    _, _, indptr = rows
    entries = np.int64(indptr[hi]) - np.int64(indptr[lo])
    return vectors.shape[0] >= _VECTORS and entries >= _ENTRIES * vectors.shape[1]


def turned_margins(rows, lo, hi, turned, products):  # type: ignore[no-untyped-def]
    """Store the products of a few rows with turned vectors; see `nbo.kernels.blocks.turned_margins`.

    Parameters
    ----------
    rows : tuple of arrays
        (values, indices, indptr) of all rows.
    lo, hi : int
        The block is lo <= i < hi.
    turned : (p or more, k) array
        The vectors in columns.
    products : (columns, rows) array
        Receives the products.
    """
    values, indices, indptr = rows
    k = turned.shape[1]
    totals = np.empty(k, values.dtype)
    for i in range(lo, hi):
        totals[:] = 0
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            a, j = values[e], indices[e]
            for q in range(k):
                totals[q] += a * turned[j, q]
        for q in range(k):
            products[q, i - lo] = totals[q]


def turned_accumulate(rows, lo, hi, coefficients, turned):  # type: ignore[no-untyped-def]
    """Add combinations of a few rows to turned vectors; see `nbo.kernels.blocks.turned_accumulate`.

    Parameters
    ----------
    rows : tuple of arrays
        (values, indices, indptr) of all rows.
    lo, hi : int
        The block is lo <= i < hi.
    coefficients : (columns, rows) array
        A coefficient for each row.
    turned : (p or more, k) array
        What is added to.
    """
    values, indices, indptr = rows
    k = turned.shape[1]
    mine = np.empty(k, values.dtype)
    for i in range(lo, hi):
        for q in range(k):
            mine[q] = coefficients[q, i - lo]
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            a, j = values[e], indices[e]
            for q in range(k):
                turned[j, q] += a * mine[q]


@helper(forceinline=True)
def _single_margins(rows, lo, hi, v, s):  # type: ignore[no-untyped-def]
    values, indices, indptr = rows
    for i in range(lo, hi):
        total = values.dtype.type(0)
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            total += values[e] * v[indices[e]]
        s[i - lo] = total


@helper(forceinline=True)
def _pair_margins(rows, lo, hi, v, w, s, t):  # type: ignore[no-untyped-def]
    values, indices, indptr = rows
    for i in range(lo, hi):
        first, second = values.dtype.type(0), values.dtype.type(0)
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            a, j = values[e], indices[e]
            first += a * v[j]
            second += a * w[j]
        s[i - lo], t[i - lo] = first, second


@helper(forceinline=True)
def _add_single(rows, lo, hi, s, v):  # type: ignore[no-untyped-def]
    values, indices, indptr = rows
    for i in range(lo, hi):
        first = s[i - lo]
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            v[indices[e]] += values[e] * first


@helper(forceinline=True)
def _add_pair(rows, lo, hi, s, t, v, w):  # type: ignore[no-untyped-def]
    values, indices, indptr = rows
    for i in range(lo, hi):
        first, second = s[i - lo], t[i - lo]
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            a, j = values[e], indices[e]
            v[j] += a * first
            w[j] += a * second

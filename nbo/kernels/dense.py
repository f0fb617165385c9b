"""Products with a block of dense rows that lies in a near cache: margins, and their transpose.

Both work on one or two columns at once, so that an element of the block is loaded once for both. `rows[lo:hi]` is
taken first and indexed from zero, which frees the loops of tests for negative indices.
"""

from __future__ import annotations

import numpy as np

from nbo.kernels.engine import array, helper
from nbo.kernels.storage import WIDE, Workspace, aligned_zeros, block_rows, plain_array, real_dtype

#: Bytes from which rows are read one after the other: the prefetcher follows one long stream best. Shorter rows are
#: taken four at a time, since the sums across vector lanes at the end of each would else dominate.
LONG_ROW = 512

#: Single-precision sums run over at most this many rows before they are added to sums in double precision.
SINGLE_PRECISION_ROWS = 512


@helper
def margins(rows, lo, hi, columns, out):  # type: ignore[no-untyped-def]
    """Store the products of a block of rows with one or two columns: out[c, i - lo] = rows[i] . columns[c].

    Parameters
    ----------
    rows : (n, p) array
        All rows.
    lo, hi : int
        The block is lo <= i < hi.
    columns : (k, width) array
        The columns, k = 1 or 2, width >= p.
    out : (k, hi - lo or more) array
        Receives the products.
    """
    A = rows[lo:hi]
    grouped = 0 if A.shape[1] * A.itemsize >= LONG_ROW else A.shape[0] // 4
    if out.shape[0] == 1:
        _margins_1(A, grouped, columns[0], out[0])
    else:
        _margins_2(A, grouped, columns[0], columns[1], out[0], out[1])


@helper
def accumulate(rows, lo, hi, coefficients, out):  # type: ignore[no-untyped-def]
    """Add combinations of a block of rows: out[c] += sum_i coefficients[c, i - lo] rows[i].

    Parameters
    ----------
    rows : (n, p) array
        All rows.
    lo, hi : int
        The block is lo <= i < hi.
    coefficients : (k, hi - lo or more) array
        One or two coefficients a row.
    out : (k, width) array
        The sums, width >= p.
    """
    A = rows[lo:hi]
    if coefficients.shape[0] == 1:
        _accumulate_1(A, coefficients[0], out[0])
    else:
        _accumulate_2(A, coefficients[0], coefficients[1], out[0], out[1])


@helper
def _margins_1(A, grouped, v, s):  # type: ignore[no-untyped-def]
    zero = A.dtype.type(0)
    for q in range(grouped):
        i = 4 * q
        a, b, c, d = A[i], A[i + 1], A[i + 2], A[i + 3]
        s0, s1, s2, s3 = zero, zero, zero, zero
        for j in range(A.shape[1]):
            x = v[j]
            s0 += a[j] * x
            s1 += b[j] * x
            s2 += c[j] * x
            s3 += d[j] * x
        s[i], s[i + 1], s[i + 2], s[i + 3] = s0, s1, s2, s3
    for i in range(4 * grouped, A.shape[0]):
        a = A[i]
        s0 = zero
        for j in range(A.shape[1]):
            s0 += a[j] * v[j]
        s[i] = s0


@helper
def _margins_2(A, grouped, v, w, s, t):  # type: ignore[no-untyped-def]
    zero = A.dtype.type(0)
    for q in range(grouped):
        i = 4 * q
        a, b, c, d = A[i], A[i + 1], A[i + 2], A[i + 3]
        s0, s1, s2, s3 = zero, zero, zero, zero
        t0, t1, t2, t3 = zero, zero, zero, zero
        for j in range(A.shape[1]):
            x, y = v[j], w[j]
            s0 += a[j] * x
            s1 += b[j] * x
            s2 += c[j] * x
            s3 += d[j] * x
            t0 += a[j] * y
            t1 += b[j] * y
            t2 += c[j] * y
            t3 += d[j] * y
        s[i], s[i + 1], s[i + 2], s[i + 3] = s0, s1, s2, s3
        t[i], t[i + 1], t[i + 2], t[i + 3] = t0, t1, t2, t3
    for i in range(4 * grouped, A.shape[0]):
        a = A[i]
        s0, t0 = zero, zero
        for j in range(A.shape[1]):
            s0 += a[j] * v[j]
            t0 += a[j] * w[j]
        s[i], t[i] = s0, t0


@helper
def _accumulate_1(A, s, g):  # type: ignore[no-untyped-def]
    grouped = A.shape[0] // 4
    for q in range(grouped):
        i = 4 * q
        a, b, c, d = A[i], A[i + 1], A[i + 2], A[i + 3]
        s0, s1, s2, s3 = s[i], s[i + 1], s[i + 2], s[i + 3]
        for j in range(A.shape[1]):
            g[j] += a[j] * s0 + b[j] * s1 + c[j] * s2 + d[j] * s3
    for i in range(4 * grouped, A.shape[0]):
        a, s0 = A[i], s[i]
        for j in range(A.shape[1]):
            g[j] += a[j] * s0


@helper
def _accumulate_2(A, s, t, g, h):  # type: ignore[no-untyped-def]
    grouped = A.shape[0] // 4
    for q in range(grouped):
        i = 4 * q
        a, b, c, d = A[i], A[i + 1], A[i + 2], A[i + 3]
        s0, s1, s2, s3 = s[i], s[i + 1], s[i + 2], s[i + 3]
        t0, t1, t2, t3 = t[i], t[i + 1], t[i + 2], t[i + 3]
        for j in range(A.shape[1]):
            # Both columns in turn: each element then stays in a register instead of being loaded twice.
            x, y = a[j] * s0 + b[j] * s1, a[j] * t0 + b[j] * t1
            x += c[j] * s2 + d[j] * s3
            y += c[j] * t2 + d[j] * t3
            g[j] += x
            h[j] += y
    for i in range(4 * grouped, A.shape[0]):
        a, s0, t0 = A[i], s[i], t[i]
        for j in range(A.shape[1]):
            g[j] += a[j] * s0
            h[j] += a[j] * t0


class DenseRows:
    """A C-contiguous array as the kernels take it.

    Parameters
    ----------
    A : (n, p) ndarray
        Float32 or float64, C-contiguous; viewed and not copied.

    Attributes
    ----------
    arrays, type : ndarray, numba type
        What is handed to a kernel as `rows`, and its type.
    part_dtype : numpy.dtype
        The type of the partial sums.
    wide : int
        Number of columns from which `wide_product` is the faster way.
    """

    wide = WIDE

    def __init__(self, A: np.ndarray) -> None:
        dtype = real_dtype("A", np.asarray(A).dtype)
        self.arrays = plain_array("A", A, np.shape(A), dtype)
        if self.arrays.ndim != 2:
            raise ValueError(f"A has {self.arrays.ndim} dimensions, expected 2")
        self.type = array(dtype, 2)
        self.part_dtype = dtype
        self._block = block_rows(dtype.itemsize * A.shape[1])
        self._flush = len(A) if dtype == np.float64 else SINGLE_PRECISION_ROWS
        # A whole number of cache lines, so that the second column is aligned like the first.
        self._width = -(-A.shape[1] * dtype.itemsize // 64) * 64 // dtype.itemsize

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
        count = len(columns)
        buffer = aligned_zeros((2 * count, self._width), self.part_dtype)
        buffer[:count, : columns.shape[1]] = columns
        scratch = np.empty((count, self._block), self.part_dtype)
        total = np.zeros((count, self._width) if self._flush < len(self.arrays) else (0, 0))
        return Workspace(buffer[:count], scratch, self._flush, buffer[count:], total)

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
        total = work.total if self._flush < len(self.arrays) else work.part
        return total[:, : self.arrays.shape[1]].astype(self.part_dtype)

    def wide_product(self, weights: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Return V A' diag(weights) A by matrix products over blocks of rows.

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
        total = np.zeros(V.shape)
        for lo in range(0, len(weights), SINGLE_PRECISION_ROWS):
            block = slice(lo, lo + SINGLE_PRECISION_ROWS)
            A = self.arrays[block]
            total += (V @ A.T * weights[block]) @ A
        return total.astype(self.part_dtype)

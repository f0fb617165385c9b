"""What the storage formats share: checks of what callers hand in, and the size of a block of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

#: Bytes of rows that a pass takes at a time: they are read twice, the second time from the second-level cache.
BLOCK_BYTES = 1 << 18

_MAX_BLOCK = 1024

#: From so many columns on, matrix products are faster than passes with two columns each.
WIDE = 8


class Workspace(NamedTuple):
    """Arguments of a kernel that belong to one call.

    Attributes
    ----------
    columns : ndarray
        The vectors to multiply, in the layout of the kernels.
    scratch : ndarray
        Room for the margins of a block of rows, (columns, rows).
    flush : int
        Number of rows after which the sums in `part` move to `total`.
    part, total : ndarray
        Zeroed sums; `total` is empty when one part is all.
    """

    columns: np.ndarray
    scratch: np.ndarray
    flush: int
    part: np.ndarray
    total: np.ndarray


def block_rows(bytes_per_row: float) -> int:
    """Return the number of rows that a pass takes at a time.

    Parameters
    ----------
    bytes_per_row : float
        Mean size of a row.

    Returns
    -------
    int
        A multiple of 8.
    """
    return 8 * max(1, int(min(BLOCK_BYTES / max(bytes_per_row, 1.0), _MAX_BLOCK) / 8))


def plain_array(name: str, array: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return a view of an array as a base-class ndarray, after checks that cost nothing.

    Parameters
    ----------
    name : str
        Name of the argument, for messages.
    array : ndarray
        The array, which may be a memory map.
    shape : tuple of int
        Its expected shape.
    dtype : dtype
        Its expected dtype.

    Returns
    -------
    ndarray
        The same memory.

    Raises
    ------
    TypeError, ValueError
        If the array is not what is expected, or not C-contiguous and aligned.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} is a {type(array).__name__}, expected a numpy array")
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(f"{name} has shape {array.shape} and dtype {array.dtype}, expected {shape} and {dtype}")
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise ValueError(f"{name} must be C-contiguous and aligned in memory")
    return np.asarray(array)


def real_dtype(name: str, dtype: np.dtype) -> np.dtype:
    """Return a dtype that the kernels work in, or refuse it.

    Parameters
    ----------
    name : str
        Name of the argument, for messages.
    dtype : dtype
        Its dtype.

    Returns
    -------
    dtype
        The same.

    Raises
    ------
    ValueError
        If it is neither float32 nor float64.
    """
    if dtype not in (np.float64, np.float32):
        raise ValueError(f"{name} has dtype {dtype}, expected float64 or float32")
    return dtype


def aligned_zeros(shape: tuple[int, int], dtype: Any) -> np.ndarray:
    """Return zeros whose first element starts a cache line, so that vector loads do not straddle two.

    Parameters
    ----------
    shape : pair of int
        The shape.
    dtype : dtype
        The dtype.

    Returns
    -------
    ndarray
        C-contiguous zeros.
    """
    size = shape[0] * shape[1]
    itemsize = np.dtype(dtype).itemsize
    buffer = np.zeros(size + 64 // itemsize, dtype)
    start = -buffer.ctypes.data % 64 // itemsize
    return buffer[start : start + size].reshape(shape)

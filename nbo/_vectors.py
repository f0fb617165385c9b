"""Norms of short vectors, without the overhead that the general routines have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dnrm2, snrm2

Array = npt.NDArray[Any]

#: BLAS scales what would overflow or underflow, unlike the square root of a dot product.
_NORMS = {"f": snrm2}


def norm(a: Array) -> float:
    """Return the Euclidean norm of a vector, whatever its scale.

    Parameters
    ----------
    a : ndarray
        (n,).

    Returns
    -------
    float
        |a|; NaN where an entry is NaN.
    """
    return _NORMS.get(a.dtype.char, dnrm2)(a) if a.size else 0.0


def binary_unit(a: Array) -> float:
    """Return a power of two by which the largest entry is in [1, 2): a division by it does not round.

    Parameters
    ----------
    a : ndarray
        Of any shape.

    Returns
    -------
    float
        1 if nothing but zeros is there, or something that is not finite.
    """
    largest = float(np.abs(a).max(initial=0.0))
    if largest == 0 or not math.isfinite(largest):
        return 1.0
    return math.ldexp(1.0, max(math.frexp(largest)[1] - 1, -1021))


def row_norms(rows: Array) -> Array:
    """Return the Euclidean norm of every row of a few.

    Parameters
    ----------
    rows : ndarray
        (k, n).

    Returns
    -------
    ndarray
        (k,), float64.
    """
    return np.array([norm(row) for row in rows])


def all_finite(a: Array) -> bool:
    """Tell whether every entry is finite; the sum of squares tells at once unless it overflows.

    Parameters
    ----------
    a : ndarray
        Contiguous, of any shape.

    Returns
    -------
    bool
        False if there is a NaN or an infinity.
    """
    flat = a.reshape(-1)
    return math.isfinite(np.dot(flat, flat)) or bool(np.isfinite(a).all())

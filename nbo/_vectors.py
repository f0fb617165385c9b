"""Norms of short vectors, without the overhead that the general routines have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def norm(a: Array) -> float:
    """Return the Euclidean norm of a vector.

    Parameters
    ----------
    a : ndarray
        (n,).

    Returns
    -------
    float
        |a|.
    """
    return math.sqrt(np.dot(a, a))


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

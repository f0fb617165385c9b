"""Limited-memory BFGS: pairs of differences and products with the inverse matrix that they define."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Pairs = tuple[tuple[Array, Array], ...]

#: Pairs that are kept.
MEMORY = 10
#: A pair counts only if its curvature s'r is at least this part of |s| |r|.
CURVATURE = 1e-6


def add_pair(pairs: Pairs, s: Array, r: Array, memory: int = MEMORY) -> Pairs:
    """Return the memory with one more pair of differences, the oldest dropped beyond `memory`.

    Parameters
    ----------
    pairs : tuple
        (s, r) of earlier steps, oldest first.
    s, r : ndarray
        The changes of the variable and of the gradient, of equal shapes.
    memory : int
        Pairs that are kept; 0 for none.

    Returns
    -------
    tuple
        The new memory.
    """
    return (*pairs, (s, r))[max(len(pairs) + 1 - memory, 0) :] if s.any() else pairs


def has_curvature(s: Array, r: Array) -> bool:
    """Tell whether the curvature along a pair is clearly positive, as an update of a definite matrix needs.

    Parameters
    ----------
    s, r : ndarray
        The pair.

    Returns
    -------
    bool
        Whether s'r > `CURVATURE` |s| |r| > 0.
    """
    return float(s @ r) > CURVATURE * np.sqrt(float(s @ s) * float(r @ r)) > 0


def inverse_product(pairs: Pairs, vector: Array) -> Array:
    """Return B vector with B the inverse BFGS matrix of the pairs (two-loop recursion; Nocedal, 1980).

    The initial matrix is s'r/r'r times the identity, of the newest pair; without pairs B is the identity.

    Parameters
    ----------
    pairs : tuple
        Pairs with positive curvature s'r, oldest first.
    vector : ndarray
        What to multiply.

    Returns
    -------
    ndarray
        The product, of the same type.
    """
    q = vector.copy()
    if not pairs:
        return q
    curvatures = [float(s @ r) for s, r in pairs]
    weights = []
    for (s, r), s_r in zip(reversed(pairs), reversed(curvatures), strict=True):
        weights.append(float(s @ q) / s_r)
        q = q - weights[-1] * r
    newest = pairs[-1][1]
    q *= curvatures[-1] / float(newest @ newest)
    for (s, r), s_r, weight in zip(pairs, curvatures, reversed(weights), strict=True):
        q = q + (weight - float(r @ q) / s_r) * s
    return q


def lbfgs_direction(gradient: Array, pairs: Pairs, free: Array) -> Array | None:
    """Return B gradient with B the inverse BFGS matrix of the pairs, in the free coordinates alone.

    Pairs are restricted to the free coordinates and left out where their curvature there is not
    clearly positive.

    Parameters
    ----------
    gradient : ndarray
        (m,).
    pairs : tuple
        From `add_pair`.
    free : ndarray of bool
        The coordinates that may move, (m,).

    Returns
    -------
    ndarray or None
        The direction, (m,), zero in the other coordinates, of positive inner product with the
        gradient; None if no pair is usable.
    """
    restricted = ((np.where(free, s, 0.0), np.where(free, r, 0.0)) for s, r in pairs)
    used = tuple(pair for pair in restricted if has_curvature(*pair))
    return inverse_product(used, np.where(free, gradient, 0.0)) if used else None

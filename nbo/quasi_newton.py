"""Limited-memory BFGS directions on a face of the feasible set."""

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


def add_pair(pairs: Pairs, s: Array, r: Array) -> Pairs:
    """Return the memory with one more pair of differences, the oldest dropped beyond `MEMORY`.

    Parameters
    ----------
    pairs : tuple
        (s, r) of earlier steps, oldest first.
    s, r : ndarray
        The changes of x and of the gradient, (m,) each.

    Returns
    -------
    tuple
        The new memory.
    """
    return (*pairs, (s, r))[-MEMORY:] if s.any() else pairs


def lbfgs_direction(gradient: Array, pairs: Pairs, free: Array) -> Array | None:
    """Return B gradient with B the inverse BFGS matrix of the pairs, in the free coordinates alone.

    Pairs are restricted to the free coordinates and left out where their curvature there is not
    clearly positive. The initial matrix is s'r/r'r times the identity, of the newest pair.

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
    used = []
    for s, r in pairs:
        s, r = np.where(free, s, 0.0), np.where(free, r, 0.0)
        s_r, r_r = float(s @ r), float(r @ r)
        if s_r > CURVATURE * np.sqrt(float(s @ s) * r_r) > 0:
            used.append((s, r, s_r, r_r))
    if not used:
        return None
    q = np.where(free, gradient, 0.0)
    weights = []
    for s, r, s_r, _ in reversed(used):
        weights.append(float(s @ q) / s_r)
        q = q - weights[-1] * r
    q *= used[-1][2] / used[-1][3]
    for (s, r, s_r, _), weight in zip(used, reversed(weights), strict=True):
        q = q + (weight - float(r @ q) / s_r) * s
    return q

"""Penalties on a matrix W of c rows: e^x by entry or by row, or a constant.

Vectors come as matrices with a multiple of c rows, of which row r belongs to output r mod c. Of each row, the
first p entries are penalised; an intercept after them is not, but for the term 1/2 (sum of intercepts)^2 that softmax
needs, whose predictions do not change with it. The functions are small beside the passes over data and the same for all
kernels, so they are compiled once and called.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nbo.kernels import links
from nbo.kernels.blocks import BLOCK, STRIDE, scratch
from nbo.kernels.engine import helper


class Penalty(NamedTuple):
    """1/2 factor |W|^2, or 1/2 sum_{q,j} e^{x_{k(q,j)}} w_qj^2. One class for all, so that all share compiled code.

    Attributes
    ----------
    n_outputs, n_features : int
        c and p.
    sums_intercepts : bool
        Whether 1/2 (sum of intercepts)^2 is added.
    groups : (c, p) array of unsigned int
        k; for a constant penalty (0, 0).
    by_row : bool
        Whether k depends on q alone, so that c exponentials are enough.
    limit : float
        e^x is evaluated at x clipped to this size.
    factor : float
        Of a constant penalty.
    """

    n_outputs: int
    n_features: int
    sums_intercepts: bool
    groups: Any
    by_row: bool
    limit: float
    factor: float


def penalty(
    n_outputs: int,
    n_features: int,
    sums_intercepts: bool,
    *,
    groups: Any = None,
    limit: float = 0.0,
    factor: float = 0.0,
) -> Penalty:
    """Return the description of a penalty.

    Parameters
    ----------
    n_outputs, n_features : int
        c and p.
    sums_intercepts : bool
        Whether 1/2 (sum of intercepts)^2 is added.
    groups : (c, p) array of int, optional
        The number of the log penalty of each entry; without it the penalty is constant.
    limit : float
        e^x is evaluated at x clipped to this size.
    factor : float
        Of a constant penalty.

    Returns
    -------
    Penalty
        For the functions of this module.
    """
    # unsigned, which frees loops of tests for negative indices
    ids = np.zeros((0, 0), np.uint32) if groups is None else np.ascontiguousarray(groups, np.uint32)
    by_row = groups is not None and n_features > 1 and bool((ids == ids[:, :1]).all())
    return Penalty(n_outputs, n_features, sums_intercepts, ids, by_row, float(limit), float(factor))


@helper(forceinline=True)
def _exponential(exponent, limit):  # type: ignore[no-untyped-def]
    exponent = limit if exponent > limit else exponent  # comparisons that leave a NaN as it is
    return links.exp(-limit if exponent < -limit else exponent)


@helper(forceinline=True)
def _has_row_factors(penalty):  # type: ignore[no-untyped-def]
    return penalty.by_row or penalty.groups.shape[0] == 0


@helper(forceinline=True)
def _row_factor(penalty, x, q):  # type: ignore[no-untyped-def]
    """Return the factor of a whole row."""
    return _exponential(x[penalty.groups[q, 0]], penalty.limit) if penalty.by_row else penalty.factor


@helper
def _store_factors(penalty, x, q, start, count, weight, factors):  # type: ignore[no-untyped-def]
    """Store weight times the factors of the entries start .. start + count - 1 of row q."""
    if _has_row_factors(penalty):
        factor = weight * _row_factor(penalty, x, q)
        for j in range(count):
            factors[j] = factor
    else:
        for j in range(count):
            factors[j] = x[penalty.groups[q, start + j]]
        for j in range(-(-count // STRIDE) * STRIDE):
            factors[j] = _exponential(factors[j], penalty.limit) * weight


@helper
def add_penalty(penalty, x, weight, V, S):  # type: ignore[no-untyped-def]
    """Add weight times the penalty's Hessian times vectors, which for W is also its gradient.

    Parameters
    ----------
    penalty : Penalty
        The penalty.
    x : (m,) array
        The upper variable.
    weight : float
        What it is multiplied by.
    V, S : matrix
        The vectors, and what is added to.
    """
    c, p = penalty.n_outputs, penalty.n_features
    if _has_row_factors(penalty):
        for r in range(V.shape[0]):
            factor = S.dtype.type(weight * _row_factor(penalty, x, r % c))
            for j in range(p):
                S[r, j] += factor * V[r, j]
    else:
        _add_entries(penalty, x, weight, V, S)
    if penalty.sums_intercepts:
        _add_intercepts(c, p, weight, V, S)


@helper
def _add_entries(penalty, x, weight, V, S):  # type: ignore[no-untyped-def]
    """Add entries times a factor each."""
    c, p, factors = penalty.n_outputs, penalty.n_features, scratch(x, 1)[0]
    for q in range(c):
        for start in range(0, p, BLOCK):
            count = min(BLOCK, p - start)
            _store_factors(penalty, x, q, start, count, weight, factors)
            for r in range(q, V.shape[0], c):
                for j in range(count):
                    S[r, start + j] += factors[j] * V[r, start + j]


@helper
def _add_intercepts(c, last, weight, V, S):  # type: ignore[no-untyped-def]
    """Add the gradient or a product of the Hessian of 1/2 (sum of intercepts)^2."""
    for base in range(0, V.shape[0], c):
        total = 0.0
        for q in range(c):
            total += V[base + q, last]
        for q in range(c):
            S[base + q, last] += weight * total


@helper
def add_cross(penalty, x, weight, W, U, out):  # type: ignore[no-untyped-def]
    """Add weight times the mixed derivative times U, for every group the sum of e^x w u.

    Parameters
    ----------
    penalty : Penalty
        The penalty.
    x : (m,) array
        The upper variable.
    weight : float
        What it is multiplied by.
    W, U : (c, p or p + 1) array
        The model and the direction.
    out : (m,) array
        What is added to; untouched if the penalty is constant.
    """
    c, p, factors = penalty.n_outputs, penalty.n_features, scratch(x, 1)[0]
    if penalty.groups.shape[0] == 0:
        return
    for q in range(c):
        for start in range(0, p, BLOCK):
            count = min(BLOCK, p - start)
            _store_factors(penalty, x, q, start, count, weight, factors)
            for j in range(count):
                factors[j] *= W[q, start + j] * U[q, start + j]
            if penalty.by_row:
                out[penalty.groups[q, 0]] += _total(factors, count)
            else:
                for j in range(count):
                    out[penalty.groups[q, start + j]] += factors[j]


@helper
def _total(numbers, count):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(count):
        total += numbers[j]
    return total


@helper
def penalty_value(penalty, x, W):  # type: ignore[no-untyped-def]
    """Return the penalty.

    Parameters
    ----------
    penalty : Penalty
        The penalty.
    x : (m,) array
        The upper variable.
    W : (c, p or p + 1) array
        The model.

    Returns
    -------
    float
        At least 0.
    """
    c, p, total, factors = penalty.n_outputs, penalty.n_features, 0.0, scratch(x, 1)[0]
    for q in range(c):
        for start in range(0, p, BLOCK):
            count = min(BLOCK, p - start)
            _store_factors(penalty, x, q, start, count, 0.5, factors)
            for j in range(count):
                factors[j] *= W[q, start + j] * W[q, start + j]
            total += _total(factors, count)
    if penalty.sums_intercepts:
        intercepts = 0.0
        for q in range(c):
            intercepts += W[q, p]
        total += intercepts * intercepts / 2
    return total

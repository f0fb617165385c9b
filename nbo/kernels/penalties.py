"""Penalties on a matrix W of c rows: e^x by entry or by row, or a constant.

Vectors come as tuples of matrices with a multiple of c rows, of which row r belongs to output r mod c. Of each row, the
first p entries are penalised; an intercept after them is not, but for the term 1/2 (sum of intercepts)^2 that softmax
needs, whose predictions do not change with it.
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
def _entry_factors(penalty, x, q, start, count, weight, factors):  # type: ignore[no-untyped-def]
    """Store weight * e^x for the entries start .. start + count - 1 of row q."""
    for j in range(count):
        factors[j] = x[penalty.groups[q, start + j]]
    for j in range(-(-count // STRIDE) * STRIDE):
        factors[j] = _exponential(factors[j], penalty.limit) * weight


@helper(forceinline=True)
def _has_row_factors(penalty):  # type: ignore[no-untyped-def]
    return penalty.by_row or penalty.groups.shape[0] == 0


@helper(forceinline=True)
def _row_factor(penalty, x, q):  # type: ignore[no-untyped-def]
    """Return the factor of a whole row."""
    return _exponential(x[penalty.groups[q, 0]], penalty.limit) if penalty.by_row else penalty.factor


@helper(forceinline=True)
def _inner(w, u, p):  # type: ignore[no-untyped-def]
    total = w.dtype.type(0)
    for j in range(p):
        total += w[j] * u[j]
    return total


@helper(forceinline=True)
def add_penalty(penalty, x, weight, vectors, sums):  # type: ignore[no-untyped-def]
    """Add weight times the penalty's Hessian times vectors, which for W is also its gradient.

    Parameters
    ----------
    penalty : Penalty
        The penalty.
    x : (m,) array
        The upper variable.
    weight : float
        What it is multiplied by.
    vectors, sums : tuple of matrices
        The vectors, and what is added to.
    """
    c, p = penalty.n_outputs, penalty.n_features
    if _has_row_factors(penalty):
        for q in range(c):
            _add_row(c, p, q, weight * _row_factor(penalty, x, q), vectors, sums)
    else:
        _add_entries(penalty, x, weight, vectors, sums)
    if penalty.sums_intercepts:
        _add_intercepts(penalty, weight, vectors, sums)


@helper(forceinline=True)
def _add_entries(penalty, x, weight, vectors, sums):  # type: ignore[no-untyped-def]
    """Add entries times a factor each."""
    c, p, factors = penalty.n_outputs, penalty.n_features, scratch(x, 1)[0]
    for q in range(c):
        for start in range(0, p, BLOCK):
            count = min(BLOCK, p - start)
            _entry_factors(penalty, x, q, start, count, weight, factors)
            for m in range(len(vectors)):
                for r in range(q, vectors[m].shape[0], c):
                    vector, total = vectors[m][r], sums[m][r]
                    for j in range(count):
                        total[start + j] += factors[j] * vector[start + j]


@helper(forceinline=True)
def _add_row(c, p, q, factor, vectors, sums):  # type: ignore[no-untyped-def]
    """Add factor times row q of every c rows."""
    for m in range(len(vectors)):
        for r in range(q, vectors[m].shape[0], c):
            vector, total = vectors[m][r], sums[m][r]
            a = total.dtype.type(factor)
            for j in range(p):
                total[j] += a * vector[j]


@helper(forceinline=True)
def _add_intercepts(penalty, weight, vectors, sums):  # type: ignore[no-untyped-def]
    """Add the gradient or a product of the Hessian of 1/2 (sum of intercepts)^2."""
    c, last = penalty.n_outputs, penalty.n_features
    for m in range(len(vectors)):
        V, S = vectors[m], sums[m]
        for base in range(0, V.shape[0], c):
            total = 0.0
            for q in range(c):
                total += V[base + q, last]
            for q in range(c):
                S[base + q, last] += weight * total


@helper(forceinline=True)
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
    c, p = penalty.n_outputs, penalty.n_features
    if penalty.by_row:
        for q in range(c):
            out[penalty.groups[q, 0]] += weight * _row_factor(penalty, x, q) * _inner(W[q], U[q], p)
    elif penalty.groups.shape[0] > 0:
        factors = scratch(x, 1)[0]
        for q in range(c):
            for start in range(0, p, BLOCK):
                count = min(BLOCK, p - start)
                _entry_factors(penalty, x, q, start, count, weight, factors)
                for j in range(count):
                    out[penalty.groups[q, start + j]] += factors[j] * W[q, start + j] * U[q, start + j]


@helper(forceinline=True)
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
    c, p, total = penalty.n_outputs, penalty.n_features, 0.0
    if _has_row_factors(penalty):
        for q in range(c):
            total += _row_factor(penalty, x, q) / 2 * _inner(W[q], W[q], p)
    else:
        factors = scratch(x, 1)[0]
        for q in range(c):
            for start in range(0, p, BLOCK):
                count = min(BLOCK, p - start)
                _entry_factors(penalty, x, q, start, count, 0.5, factors)
                for j in range(count):
                    total += factors[j] * W[q, start + j] * W[q, start + j]
    if penalty.sums_intercepts:
        intercepts = 0.0
        for q in range(c):
            intercepts += W[q, p]
        total += intercepts * intercepts / 2
    return total

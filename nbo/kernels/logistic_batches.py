"""Kernels of penalised binary logistic regression over ranges of stored rows, for the loops of stochastic methods.

Each adds ``scale`` times the sum over rows lo .. hi - 1 of one derivative of
G_i(x, y) = log(1 + exp(-b_i a_i'y)) + r(x, y), with the penalty r = 1/2 sum_j e^{x_{k(j)}} y_j^2 at the lower level and
the prior r = c/2 |x - x_0|^2 at the upper one. Rows are taken in blocks: first their margins, then the derivatives of
the losses, then the combination of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nbo.kernels import links
from nbo.kernels.blocks import BLOCK, VECTORS, accumulate, margins, scratch
from nbo.kernels.engine import helper
from nbo.problems._penalty import LARGEST_EXPONENT

#: A loop over a multiple of so many numbers is vectorised without a remainder, which would cost more than the rest
#: where numbers are few. Loops run on to a multiple; the numbers at the end of a scratch mean nothing.
STRIDE = 32

#: The row of a scratch for second derivatives of the losses.
SECOND = VECTORS - 1


def common(groups: np.ndarray, center: np.ndarray, curvature: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Return what the kernels read besides the samples.

    Parameters
    ----------
    groups : (p,) ndarray of int
        The number of the log penalty of each feature.
    center : (m,) ndarray
        The prior's center.
    curvature : float
        The prior's curvature; zero without a prior.

    Returns
    -------
    tuple
        For `nbo.minibatches.Data`.
    """
    # Unsigned, which frees the loops of tests for negative indices.
    return np.ascontiguousarray(groups, np.uint32), np.ascontiguousarray(center, np.float64), float(curvature)


def lower_value(data, lo, hi, scale, x, y, out):  # type: ignore[no-untyped-def]
    """Add g to out[0].

    Parameters
    ----------
    data : Data
        Both levels are (A, b, row) and `common` comes from the function of that name.
    lo, hi : int
        The rows are lo <= i < hi.
    scale : float
        The factor of the sum over them.
    x : (m,) array
        Log penalties.
    y : (p,) array
        The model, of A's dtype.
    out : (1,) array
        What is added to.
    """
    out[0] += scale * (_losses(data.lower, lo, hi, y) + (hi - lo) * _penalty(data.common, x, y))


def lower_grad_y(data, lo, hi, scale, x, y, out):  # type: ignore[no-untyped-def]
    """Add grad_2 g.

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    out : (p,) array
        What is added to.
    """
    _add_slopes(data.lower, lo, hi, scale, y, out)
    _add_penalty(data.common, x, scale * (hi - lo), (y,), (out,))


def lower_hvp(data, lo, hi, scale, x, y, V, out):  # type: ignore[no-untyped-def]
    """Add H v for each row of V, two at a time.

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    V, out : (k, p) array
        The directions, and what is added to.
    """
    last, weight = V.shape[0] - 1, scale * (hi - lo)
    for r in range(0, last, 2):
        _add_curvatures(data.lower, lo, hi, scale, y, (V[r], V[r + 1]), (out[r], out[r + 1]))
        _add_penalty(data.common, x, weight, (V[r], V[r + 1]), (out[r], out[r + 1]))
    if last % 2 == 0:
        _add_curvatures(data.lower, lo, hi, scale, y, (V[last],), (out[last],))
        _add_penalty(data.common, x, weight, (V[last],), (out[last],))


def lower_grad_y_and_hvp(data, lo, hi, scale, x, y, u, out):  # type: ignore[no-untyped-def]
    """Add grad_2 g and H u.

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    u : (p,) array
        The direction.
    out : (2, p) array
        What is added to.
    """
    A, b, _ = data.lower
    work = scratch(y)
    for start in range(lo, hi, BLOCK):
        stop = min(start + BLOCK, hi)
        margins(A, start, stop, (y, u), work)
        _differentiate(b, start, stop - start, y.dtype.type(scale), work[0], work[SECOND])
        _multiply(stop - start, work[SECOND], work[1])
        accumulate(A, start, stop, work, (out[0], out[1]))
    _add_penalty(data.common, x, scale * (hi - lo), (y, u), (out[0], out[1]))


def lower_jvp(data, lo, hi, scale, x, y, u, out):  # type: ignore[no-untyped-def]
    """Add J u, the sum over a group of e^x y_j u_j.

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    u : (p,) array
        The direction.
    out : (m,) array
        What is added to.
    """
    _add_cross(data.common, x, scale * (hi - lo), y, u, out)


def lower_grad_x(data, lo, hi, scale, x, y, out):  # type: ignore[no-untyped-def]
    """Add grad_1 g, half of J y.

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    out : (m,) array
        What is added to.
    """
    _add_cross(data.common, x, scale * (hi - lo) / 2, y, y, out)


def upper_value(data, lo, hi, scale, x, y, out):  # type: ignore[no-untyped-def]
    """Add f to out[0].

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    out : (1,) array
        What is added to.
    """
    _, center, curvature = data.common
    squares = 0.0
    for j in range(x.shape[0]):
        squares += (x[j] - center[j]) ** 2
    out[0] += scale * (_losses(data.upper, lo, hi, y) + (hi - lo) * curvature / 2 * squares)


def upper_grad(data, lo, hi, scale, x, y, out_x, out_y):  # type: ignore[no-untyped-def]
    """Add grad_1 f and grad_2 f.

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    out_x, out_y : (m,) array, (p,) array
        What is added to.
    """
    _add_slopes(data.upper, lo, hi, scale, y, out_y)
    _, center, curvature = data.common
    if curvature > 0:
        for j in range(x.shape[0]):
            out_x[j] += scale * (hi - lo) * curvature * (x[j] - center[j])


def upper_hvp(data, lo, hi, scale, x, y, V, out):  # type: ignore[no-untyped-def]
    """Add nabla_22^2 f v for each row of V, two at a time.

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    V, out : (k, p) array
        The directions, and what is added to.
    """
    last = V.shape[0] - 1
    for r in range(0, last, 2):
        _add_curvatures(data.upper, lo, hi, scale, y, (V[r], V[r + 1]), (out[r], out[r + 1]))
    if last % 2 == 0:
        _add_curvatures(data.upper, lo, hi, scale, y, (V[last],), (out[last],))


def upper_jvp(data, lo, hi, scale, x, y, u, out):  # type: ignore[no-untyped-def]
    """Add nabla_12^2 f u, which is zero.

    Parameters
    ----------
    data, lo, hi, scale, x, y, u, out : object
        As for `lower_jvp`.
    """


#: The kernels of `nbo.CompiledProblem` by their names.
KERNELS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        lower_value,
        lower_grad_y,
        lower_hvp,
        lower_grad_y_and_hvp,
        lower_jvp,
        lower_grad_x,
        upper_value,
        upper_grad,
        upper_hvp,
        upper_jvp,
    )
}


@helper(inline="always")
def _add_slopes(level, lo, hi, scale, y, out):  # type: ignore[no-untyped-def]
    """Add the gradient of the losses."""
    A, b, _ = level
    work = scratch(y)
    for start in range(lo, hi, BLOCK):
        stop = min(start + BLOCK, hi)
        margins(A, start, stop, (y,), work)
        _differentiate(b, start, stop - start, y.dtype.type(scale), work[0], work[SECOND])
        accumulate(A, start, stop, work, (out,))


@helper(inline="always")
def _add_curvatures(level, lo, hi, scale, y, vectors, sums):  # type: ignore[no-untyped-def]
    """Add the products of the losses' Hessian with one or two vectors."""
    A, b, _ = level
    work = scratch(y)
    for start in range(lo, hi, BLOCK):
        stop = min(start + BLOCK, hi)
        margins(A, start, stop, (*vectors, y), work)
        _differentiate(b, start, stop - start, y.dtype.type(scale), work[len(vectors)], work[SECOND])
        for c in range(len(vectors)):
            _multiply(stop - start, work[SECOND], work[c])
        accumulate(A, start, stop, work, sums)


@helper(inline="always")
def _losses(level, lo, hi, y):  # type: ignore[no-untyped-def]
    """Return the sum of the losses, in double precision."""
    A, b, _ = level
    work = scratch(y)
    total = 0.0
    for start in range(lo, hi, BLOCK):
        stop = min(start + BLOCK, hi)
        margins(A, start, stop, (y,), work)
        for i in range(stop - start):
            total += links.softplus(-b[start + i] * work[0, i])
    return total


@helper(forceinline=True)
def _differentiate(b, start, count, scale, products, curvatures):  # type: ignore[no-untyped-def]
    """Turn products a_i'y into scaled first derivatives of the losses in them, and store the second ones."""
    for i in range(count):
        products[i] *= b[start + i]
    for i in range(-(-count // STRIDE) * STRIDE):
        slope, curvature = links.loss_derivatives(products[i])
        products[i] = slope * scale
        curvatures[i] = curvature * scale
    for i in range(count):
        products[i] *= b[start + i]


@helper(forceinline=True)
def _multiply(count, factors, products):  # type: ignore[no-untyped-def]
    for i in range(-(-count // STRIDE) * STRIDE):
        products[i] *= factors[i]


@helper(forceinline=True)
def _factors(common, x, start, count, weight, factors):  # type: ignore[no-untyped-def]
    """Store weight * e^x for some features."""
    groups = common[0]
    for j in range(count):
        factors[j] = x[groups[start + j]]
    for j in range(-(-count // STRIDE) * STRIDE):
        exponent = factors[j]
        exponent = LARGEST_EXPONENT if exponent > LARGEST_EXPONENT else exponent
        exponent = -LARGEST_EXPONENT if exponent < -LARGEST_EXPONENT else exponent
        factors[j] = links.exp(exponent) * weight


@helper(inline="always")
def _add_penalty(common, x, weight, vectors, sums):  # type: ignore[no-untyped-def]
    """Add weight * e^x v for each vector, which for y is also the penalty's gradient."""
    factors = scratch(x)[0]
    n_features = vectors[0].shape[0]
    for start in range(0, n_features, BLOCK):
        count = min(BLOCK, n_features - start)
        _factors(common, x, start, count, weight, factors)
        for c in range(len(vectors)):
            vector, total = vectors[c], sums[c]
            for j in range(count):
                total[start + j] += factors[j] * vector[start + j]


@helper(inline="always")
def _add_cross(common, x, weight, y, u, out):  # type: ignore[no-untyped-def]
    """Add weight times the sum over every group of e^x y_j u_j."""
    groups = common[0]
    factors = scratch(x)[0]
    for start in range(0, y.shape[0], BLOCK):
        count = min(BLOCK, y.shape[0] - start)
        _factors(common, x, start, count, weight, factors)
        for j in range(count):
            out[groups[start + j]] += factors[j] * y[start + j] * u[start + j]


@helper(inline="always")
def _penalty(common, x, y):  # type: ignore[no-untyped-def]
    """Return 1/2 sum_j e^x y_j^2."""
    factors = scratch(x)[0]
    total = 0.0
    for start in range(0, y.shape[0], BLOCK):
        count = min(BLOCK, y.shape[0] - start)
        _factors(common, x, start, count, 0.5, factors)
        for j in range(count):
            total += factors[j] * y[start + j] * y[start + j]
    return total

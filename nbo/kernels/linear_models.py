"""Kernels of linear models over ranges of stored rows, from a loss, a weighting of the rows and a penalty.

Each adds ``scale`` times the sum over rows lo .. hi - 1 of one derivative of
G_i(x, y) = weight_i loss(A_i W', b_i) + penalty(x, W) at the lower level, and of
F_i = weight_i loss(A_i W', b_i) + c/2 |x - x_0|^2 at the upper one. W is y by rows, (c, p) or with an intercept
(c, p + 1). Rows are taken in blocks: first their margins, then the derivatives of the losses, then the combination of
the rows. `data.lower` and `data.upper` are (A, b, weights, row), `data.common` a `Common`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nbo._dual import by_class
from nbo._kernel_forms import KEEPING
from nbo.kernels import links
from nbo.kernels.blocks import (
    accumulate,
    by_rows,
    margins,
    turned_accumulate,
    turned_margins,
    turning_pays,
    workspace,
)
from nbo.kernels.engine import helper
from nbo.kernels.losses import (
    SPARE,
    along,
    keep,
    losses,
    outputs,
    point_outputs,
    prepare,
    prepare_products,
    products,
    recall,
    slopes,
    spare,
)
from nbo.kernels.penalties import add_cross, add_penalty, penalty_value


class GivenWeights(NamedTuple):
    """Rows of the lower level count as their sample weights say."""


class LearnedWeights(NamedTuple):
    """Rows of the lower level count as sigma(x_i) times their sample weight, with i the original index of the row."""


class Prior(NamedTuple):
    """c/2 |x - x_0|^2 at the upper level.

    Attributes
    ----------
    center : (m,) array
        x_0.
    curvature : float
        c; zero for no prior.
    """

    center: Any
    curvature: float


class Common(NamedTuple):
    """What the kernels read besides the samples.

    Attributes
    ----------
    loss : nbo.kernels.losses.Logistic, Softmax or Squared
        Of both levels.
    weighting : GivenWeights or LearnedWeights
        Of the lower level.
    penalty : Penalty
        Of the lower level.
    prior : Prior
        Of the upper level.
    """

    loss: Any
    weighting: Any
    penalty: Any
    prior: Prior


def _given_factors(weighting, level, x, start, count, scale, factors):  # type: ignore[no-untyped-def]
    weights = level[2]
    a = factors.dtype.type(scale)
    for i in range(count):
        factors[i] = a * weights[start + i]


def _learned_factors(weighting, level, x, start, count, scale, factors):  # type: ignore[no-untyped-def]
    _, _, weights, row = level
    a = factors.dtype.type(scale)
    for i in range(count):
        factors[i] = a * weights[start + i] * factors.dtype.type(links.sigmoid(x[row[start + i]]))


#: Stores scale times the weights of rows: (weighting, level, x, start, count, scale, factors).
_factors = by_class({GivenWeights: _given_factors, LearnedWeights: _learned_factors})


@helper(inline="always")
def _matrix(loss, y):  # type: ignore[no-untyped-def]
    """Return y, (n,), by rows."""
    return by_rows(y, outputs(loss), loss.width)


@helper(inline="always")
def _matrices(loss, V):  # type: ignore[no-untyped-def]
    """Return the rows of V, (k, n), by rows, below each other."""
    return by_rows(V, V.shape[0] * outputs(loss), loss.width)


@helper(inline="always")
def _margins(loss, A, start, stop, vectors, work):  # type: ignore[no-untyped-def]
    margins(A, start, stop, vectors, work)
    _add_all_intercepts(loss, stop - start, vectors, work)


@helper(inline="always")
def _add_all_intercepts(loss, count, vectors, work):  # type: ignore[no-untyped-def]
    if loss.width > loss.n_features:
        first = 0
        for m in range(len(vectors)):
            _add_intercepts(loss.n_features, count, vectors[m], work[first:])
            first += vectors[m].shape[0]


@helper(inline="always")
def _accumulate(loss, A, start, stop, work, sums):  # type: ignore[no-untyped-def]
    accumulate(A, start, stop, work, sums)
    _sum_up_all(loss, stop - start, work, sums)


@helper(inline="always")
def _sum_up_all(loss, count, work, sums):  # type: ignore[no-untyped-def]
    if loss.width > loss.n_features:
        first = 0
        for m in range(len(sums)):
            _sum_up(loss.n_features, count, work[first:], sums[m])
            first += sums[m].shape[0]


@helper
def _turned(M, wanted):  # type: ignore[no-untyped-def]
    """Return the transpose of a matrix in memory of its own, of no size where it is not wanted."""
    turned = np.empty((M.shape[1] if wanted else 0, M.shape[0]), M.dtype)
    for j in range(turned.shape[0]):
        for q in range(M.shape[0]):
            turned[j, q] = M[q, j]
    return turned


@helper
def _turn_back(loss, turned, M):  # type: ignore[no-untyped-def]
    """Store all columns but the intercepts' of a matrix from its transpose."""
    for q in range(M.shape[0]):
        for j in range(loss.n_features):
            M[q, j] = turned[j, q]


@helper
def _add_intercepts(column, count, V, work):  # type: ignore[no-untyped-def]
    """Add the last column of a matrix to the margins."""
    for q in range(V.shape[0]):
        intercept = V[q, column]
        for i in range(count):
            work[q, i] += intercept


@helper
def _sum_up(column, count, work, S):  # type: ignore[no-untyped-def]
    """Add the sums of coefficients to the last column of a matrix."""
    for q in range(S.shape[0]):
        total = work.dtype.type(0)
        for i in range(count):
            total += work[q, i]
        S[q, column] += total


@helper(inline="always")
def _losses(level, loss, weighting, lo, hi, scale, x, y):  # type: ignore[no-untyped-def]
    """Return scale times the weighted sum of the losses, in double precision."""
    A, b, _, _ = level
    W, work, value = _matrix(loss, y), workspace(y, outputs(loss) + SPARE), 0.0
    for start in range(lo, hi, work.shape[1]):
        stop = min(start + work.shape[1], hi)
        _margins(loss, A, start, stop, (W,), work)
        _factors(weighting, level, x, start, stop - start, scale, spare(work, 0))
        losses(loss, b, start, stop - start, work)
        factors, values = spare(work, 0), spare(work, 1)
        for i in range(stop - start):
            value += factors[i] * values[i]
    return value


@helper(inline="always")
def _add_slopes(level, loss, weighting, lo, hi, scale, x, y, out):  # type: ignore[no-untyped-def]
    """Add the gradient of the losses."""
    W, S, work = _matrix(loss, y), _matrix(loss, out), workspace(y, outputs(loss) + SPARE)
    for start in range(lo, hi, work.shape[1]):
        stop = min(start + work.shape[1], hi)
        _prepare(level, loss, weighting, start, stop, scale, x, (W,), work)
        slopes(loss, level[1], start, stop - start, work)
        _accumulate(loss, level[0], start, stop, work, (S,))


@helper(inline="always")
def _prepare(level, loss, weighting, start, stop, scale, x, vectors, work):  # type: ignore[no-untyped-def]
    """Do what comes before the slopes and products of a block."""
    _margins(loss, level[0], start, stop, vectors, work)
    _factors(weighting, level, x, start, stop - start, scale, spare(work, 0))
    prepare(loss, level[1], start, stop - start, work)


@helper(inline="always")
def _finish(level, loss, start, stop, n_vectors, work, sums):  # type: ignore[no-untyped-def]
    """Add the slopes and products of a block."""
    products(loss, stop - start, work, outputs(loss), outputs(loss) + n_vectors)
    slopes(loss, level[1], start, stop - start, work)
    _accumulate(loss, level[0], start, stop, work, sums)


@helper(inline="always")
def _add_slopes_and_products(  # type: ignore[no-untyped-def]
    level, loss, weighting, lo, hi, scale, x, y, V, out_y, out_V
):
    """Add the gradient of the losses and the products of their Hessian."""
    W, work = _matrix(loss, y), workspace(y, outputs(loss) + V.shape[0] + SPARE)
    for start in range(lo, hi, work.shape[1]):
        stop = min(start + work.shape[1], hi)
        _prepare(level, loss, weighting, start, stop, scale, x, (W, V), work)
        _finish(level, loss, start, stop, V.shape[0], work, (out_y, out_V))


@helper(inline="always")
def _add_and_keep(  # type: ignore[no-untyped-def]
    level, loss, weighting, lo, hi, scale, x, y, V, out_y, out_V, curvatures
):
    """Do the same and store what more products need."""
    W, work = _matrix(loss, y), workspace(y, outputs(loss) + V.shape[0] + SPARE)
    for start in range(lo, hi, work.shape[1]):
        stop = min(start + work.shape[1], hi)
        _prepare(level, loss, weighting, start, stop, scale, x, (W, V), work)
        keep(loss, start, stop - start, work, curvatures)
        _finish(level, loss, start, stop, V.shape[0], work, (out_y, out_V))


@helper(inline="always")
def _add_products(level, loss, weighting, lo, hi, scale, x, y, V, out):  # type: ignore[no-untyped-def]
    """Add products of the losses' Hessian."""
    c = point_outputs(loss)
    W, work = by_rows(y, c, loss.width), workspace(y, c + V.shape[0] + SPARE)
    for start in range(lo, hi, work.shape[1]):
        stop = min(start + work.shape[1], hi)
        _margins(loss, level[0], start, stop, (W, V), work)
        _factors(weighting, level, x, start, stop - start, scale, spare(work, 0))
        prepare_products(loss, level[1], start, stop - start, work)
        products(loss, stop - start, work, c, c + V.shape[0])
        _accumulate(loss, level[0], start, stop, work[c:], (out,))


@helper(inline="always")
def _add_kept_products(level, loss, weighting, lo, hi, scale, x, V, out, curvatures):  # type: ignore[no-untyped-def]
    """Add products of the losses' Hessian with what `_add_slopes_and_products` stored."""
    A, _, _, _ = level
    c = outputs(loss)
    work = workspace(V, c + V.shape[0] + SPARE)
    turns = turning_pays(A, lo, hi, V)
    turned, sums = _turned(V, turns), _turned(out, turns)
    for start in range(lo, hi, work.shape[1]):
        stop = min(start + work.shape[1], hi)
        if turns:
            turned_margins(A, start, stop, turned, work[c:])
            _add_all_intercepts(loss, stop - start, (V,), work[c:])
        else:
            _margins(loss, A, start, stop, (V,), work[c:])
        _factors(weighting, level, x, start, stop - start, scale, spare(work, 0))
        recall(loss, start, stop - start, work, curvatures)
        products(loss, stop - start, work, c, c + V.shape[0])
        if turns:
            turned_accumulate(A, start, stop, work[c:], sums)
            _sum_up_all(loss, stop - start, work[c:], (out,))
        else:
            _accumulate(loss, A, start, stop, work[c:], (out,))
    if turns:
        _turn_back(loss, sums, out)


@helper(forceinline=True)
def _add_by_trust(level, start, stop, scale, x, values, out):  # type: ignore[no-untyped-def]
    """Add scale w_i sigma'(x_i) times a number for each row of a block."""
    _, _, weights, row = level
    for i in range(stop - start):
        _, slope = links.loss_derivatives(x[row[start + i]])
        out[i] += scale * weights[start + i] * slope * values[i]


def _given_rows(weighting, level, loss, start, stop, scale, x, work, out):  # type: ignore[no-untyped-def]
    return


def _learned_rows(weighting, level, loss, start, stop, scale, x, work, out):  # type: ignore[no-untyped-def]
    along(loss, level[1], start, stop - start, work, outputs(loss))
    _add_by_trust(level, start, stop, scale, x, spare(work, 2), out)


#: Adds what a block of rows gives of J u, an entry each: (weighting, level, loss, start, stop, scale, x, work, out).
_add_rows_of_jvp = by_class({GivenWeights: _given_rows, LearnedWeights: _learned_rows})


def _no_losses_of_jvp(weighting, level, loss, lo, hi, scale, x, y, u, out):  # type: ignore[no-untyped-def]
    return


def _learned_losses_of_jvp(weighting, level, loss, lo, hi, scale, x, y, u, out):  # type: ignore[no-untyped-def]
    W, U, work = _matrix(loss, y), _matrix(loss, u), workspace(y, 2 * outputs(loss) + SPARE)
    for start in range(lo, hi, work.shape[1]):
        stop = min(start + work.shape[1], hi)
        _prepare(level, loss, weighting, start, stop, scale, x, (W, U), work)
        _add_rows_of_jvp(weighting, level, loss, start, stop, scale, x, work, out[start - lo :])


#: Adds what all rows give of J u, an entry each: (weighting, level, loss, lo, hi, scale, x, y, u, out).
_add_losses_of_jvp = by_class({GivenWeights: _no_losses_of_jvp, LearnedWeights: _learned_losses_of_jvp})


def _given_penalty(weighting, penalty, x, weight, W, U, out):  # type: ignore[no-untyped-def]
    add_cross(penalty, x, weight, W, U, out)


def _learned_penalty(weighting, penalty, x, weight, W, U, out):  # type: ignore[no-untyped-def]
    return


#: Adds what the penalty gives of J u: (weighting, penalty, x, weight, W, U, out).
_add_penalty_of_jvp = by_class({GivenWeights: _given_penalty, LearnedWeights: _learned_penalty})


@helper(inline="always")
def _add_parts(level, loss, weighting, lo, hi, scale, x, W, U, G, HU, out):  # type: ignore[no-untyped-def]
    """Add the losses' part of grad_2 g and H u, and what rows give of J u."""
    work = workspace(U, 2 * outputs(loss) + SPARE)
    for start in range(lo, hi, work.shape[1]):
        stop = min(start + work.shape[1], hi)
        _prepare(level, loss, weighting, start, stop, scale, x, (W, U), work)
        _add_rows_of_jvp(weighting, level, loss, start, stop, scale, x, work, out[start - lo :])
        _finish(level, loss, start, stop, outputs(loss), work, (G, HU))


def _given_grad_x(weighting, level, loss, penalty, lo, hi, scale, x, y, out):  # type: ignore[no-untyped-def]
    add_cross(penalty, x, scale * (hi - lo) / 2, _matrix(loss, y), _matrix(loss, y), out)


def _learned_grad_x(weighting, level, loss, penalty, lo, hi, scale, x, y, out):  # type: ignore[no-untyped-def]
    A, b, _, _ = level
    W, work = _matrix(loss, y), workspace(y, outputs(loss) + SPARE)
    for start in range(lo, hi, work.shape[1]):
        stop = min(start + work.shape[1], hi)
        _margins(loss, A, start, stop, (W,), work)
        losses(loss, b, start, stop - start, work)
        _add_by_trust(level, start, stop, scale, x, spare(work, 1), out[start - lo :])


#: Adds grad_1 g, shaped as J u is: (weighting, level, loss, penalty, lo, hi, scale, x, y, out).
_add_grad_x = by_class({GivenWeights: _given_grad_x, LearnedWeights: _learned_grad_x})


def lower_value(data, lo, hi, scale, x, y, out):  # type: ignore[no-untyped-def]
    """Add g to out[0].

    Parameters
    ----------
    data : Data
        Both levels are (A, b, weights, row) and `common` is a `Common`.
    lo, hi : int
        The rows are lo <= i < hi.
    scale : float
        The factor of the sum over them.
    x : (m,) array
        The upper variable.
    y : (n,) array
        The model, of A's dtype.
    out : (1,) array
        What is added to.
    """
    loss, weighting, penalty, _ = data.common
    out[0] += _losses(data.lower, loss, weighting, lo, hi, scale, x, y)
    out[0] += scale * (hi - lo) * penalty_value(penalty, x, _matrix(loss, y))


def lower_grad_y(data, lo, hi, scale, x, y, out):  # type: ignore[no-untyped-def]
    """Add grad_2 g.

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    out : (n,) array
        What is added to.
    """
    loss, weighting, penalty, _ = data.common
    _add_slopes(data.lower, loss, weighting, lo, hi, scale, x, y, out)
    add_penalty(penalty, x, scale * (hi - lo), _matrix(loss, y), _matrix(loss, out))


def lower_hvp(data, lo, hi, scale, x, y, V, out):  # type: ignore[no-untyped-def]
    """Add H v for each row of V, in one pass over the rows.

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    V, out : (k, n) array
        The directions, and what is added to.
    """
    loss, weighting, penalty, _ = data.common
    vectors, sums = _matrices(loss, V), _matrices(loss, out)
    _add_products(data.lower, loss, weighting, lo, hi, scale, x, y, vectors, sums)
    add_penalty(penalty, x, scale * (hi - lo), vectors, sums)


def lower_grad_y_and_hvp(data, lo, hi, scale, x, y, u, out):  # type: ignore[no-untyped-def]
    """Add grad_2 g and H u.

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    u : (n,) array
        The direction.
    out : (2, n) array
        What is added to.
    """
    loss, weighting, penalty, _ = data.common
    W, U, G, HU = _matrix(loss, y), _matrix(loss, u), _matrix(loss, out[0]), _matrix(loss, out[1])
    _add_slopes_and_products(data.lower, loss, weighting, lo, hi, scale, x, y, U, G, HU)
    add_penalty(penalty, x, scale * (hi - lo), W, G)
    add_penalty(penalty, x, scale * (hi - lo), U, HU)


def lower_parts(data, lo, hi, scale, x, y, u, out_pair, out_samples):  # type: ignore[no-untyped-def]
    """Add grad_2 g, H u and J u in one pass over the rows.

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    u : (n,) array
        The direction.
    out_pair : (2, n) array
        What grad_2 g and H u are added to.
    out_samples : (m,) array, or (hi - lo,) with learned weights
        What J u is added to.
    """
    loss, weighting, penalty, _ = data.common
    W, U, G, HU = _matrix(loss, y), _matrix(loss, u), _matrix(loss, out_pair[0]), _matrix(loss, out_pair[1])
    _add_parts(data.lower, loss, weighting, lo, hi, scale, x, W, U, G, HU, out_samples)
    _add_penalty_of_jvp(weighting, penalty, x, scale * (hi - lo), W, U, out_samples)
    add_penalty(penalty, x, scale * (hi - lo), W, G)
    add_penalty(penalty, x, scale * (hi - lo), U, HU)


def lower_pass(data, lo, hi, scale, x, y, V, out_y, out_V, out_curvatures):  # type: ignore[no-untyped-def]
    """Add grad_2 g and H v for each row of V, and store what `lower_kept_hvp` needs.

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    V : (k, n) array
        The directions; there may be none.
    out_y, out_V : (n,) array, (k, n) array
        What is added to.
    out_curvatures : (loss.n_curvatures, n_samples) array
        Of which the columns lo .. hi - 1 are written.
    """
    loss, weighting, penalty, _ = data.common
    W, vectors, G, sums = _matrix(loss, y), _matrices(loss, V), _matrix(loss, out_y), _matrices(loss, out_V)
    _add_and_keep(data.lower, loss, weighting, lo, hi, scale, x, y, vectors, G, sums, out_curvatures)
    add_penalty(penalty, x, scale * (hi - lo), W, G)
    add_penalty(penalty, x, scale * (hi - lo), vectors, sums)


def lower_kept_hvp(data, lo, hi, scale, x, curvatures, V, out):  # type: ignore[no-untyped-def]
    """Add H v for each row of V at the point at which `lower_pass` stored the curvatures.

    Parameters
    ----------
    data, lo, hi, scale, x : object
        As for `lower_value`.
    curvatures : (loss.n_curvatures, n_samples) array
        What was stored.
    V, out : (k, n) array
        The directions, and what is added to.
    """
    loss, weighting, penalty, _ = data.common
    vectors, sums = _matrices(loss, V), _matrices(loss, out)
    _add_kept_products(data.lower, loss, weighting, lo, hi, scale, x, vectors, sums, curvatures)
    add_penalty(penalty, x, scale * (hi - lo), vectors, sums)


def lower_jvp(data, lo, hi, scale, x, y, u, out):  # type: ignore[no-untyped-def]
    """Add J u: the sums of e^x w u over groups, or sigma'(x_i) times the derivative of the loss of row i along u.

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    u : (n,) array
        The direction.
    out : (m,) array, or (hi - lo,) with learned weights
        What is added to.
    """
    loss, weighting, penalty, _ = data.common
    _add_losses_of_jvp(weighting, data.lower, loss, lo, hi, scale, x, y, u, out)
    _add_penalty_of_jvp(weighting, penalty, x, scale * (hi - lo), _matrix(loss, y), _matrix(loss, u), out)


def lower_grad_x(data, lo, hi, scale, x, y, out):  # type: ignore[no-untyped-def]
    """Add grad_1 g: half of J y, or sigma'(x_i) times the loss of row i.

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    out : (m,) array, or (hi - lo,) with learned weights
        What is added to.
    """
    loss, weighting, penalty, _ = data.common
    _add_grad_x(weighting, data.lower, loss, penalty, lo, hi, scale, x, y, out)


def upper_value(data, lo, hi, scale, x, y, out):  # type: ignore[no-untyped-def]
    """Add f to out[0].

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    out : (1,) array
        What is added to.
    """
    loss, _, _, prior = data.common
    out[0] += _losses(data.upper, loss, GivenWeights(), lo, hi, scale, x, y)
    squares = 0.0
    for j in range(prior.center.shape[0]):
        squares += (x[j] - prior.center[j]) ** 2
    out[0] += scale * (hi - lo) * prior.curvature / 2 * squares


def upper_grad(data, lo, hi, scale, x, y, out_x, out_y):  # type: ignore[no-untyped-def]
    """Add grad_1 f, which is zero without a prior, and grad_2 f.

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    out_x, out_y : (m,) array, (n,) array
        What is added to.
    """
    loss, _, _, prior = data.common
    _add_slopes(data.upper, loss, GivenWeights(), lo, hi, scale, x, y, out_y)
    for j in range(prior.center.shape[0]):
        out_x[j] += scale * (hi - lo) * prior.curvature * (x[j] - prior.center[j])


def upper_hvp(data, lo, hi, scale, x, y, V, out):  # type: ignore[no-untyped-def]
    """Add nabla_22^2 f v for each row of V, in one pass over the rows.

    Parameters
    ----------
    data, lo, hi, scale, x, y : object
        As for `lower_value`.
    V, out : (k, n) array
        The directions, and what is added to.
    """
    loss = data.common.loss
    _add_products(data.upper, loss, GivenWeights(), lo, hi, scale, x, y, _matrices(loss, V), _matrices(loss, out))


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
        lower_parts,
        lower_pass,
        lower_kept_hvp,
        lower_jvp,
        lower_grad_x,
        upper_value,
        upper_grad,
        upper_hvp,
        upper_jvp,
    )
}

#: Those of losses whose second derivative is constant.
UNKEPT = {name: kernel for name, kernel in KERNELS.items() if name not in KEEPING}

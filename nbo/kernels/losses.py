"""Losses of linear models on a block of rows: logistic, softmax and squared, each by the class of its description.

`work` has a row for each column of margins: those of the c outputs first, then those of directions, c each. The
functions make them into what the rows of the data are combined with. Its last rows are room for numbers that belong to
rows of the data: the last one holds their factors, such as weight over number of samples. Loops over the rows of a
block run on to a multiple of `STRIDE`; what they write there means nothing.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from nbo._dual import by_class
from nbo.kernels import links
from nbo.kernels.blocks import STRIDE
from nbo.kernels.engine import helper

#: Rows of `work` besides those of margins.
SPARE = 4


class Logistic(NamedTuple):
    """log(1 + exp(-b m)) of one margin m and a label b = -1 or +1.

    Attributes
    ----------
    n_outputs, n_features, width : int
        c, which is 1, p, and p or with an intercept p + 1.
    """

    n_outputs: int
    n_features: int
    width: int

    @property
    def n_curvatures(self) -> int:
        """What the second derivative needs of each row."""
        return 1


class Softmax(NamedTuple):
    """log sum_q exp(m_q) - m_b of c margins and a class b = 0 .. c - 1.

    Attributes
    ----------
    n_outputs, n_features, width : int
        c, p, and p or with an intercept p + 1.
    """

    n_outputs: int
    n_features: int
    width: int

    @property
    def n_curvatures(self) -> int:
        """What the second derivative needs of each row."""
        return self.n_outputs


class Squared(NamedTuple):
    """1/2 sum_q (m_q - b_q)^2 of c margins and targets.

    Attributes
    ----------
    n_outputs, n_features, width : int
        c, p, and p or with an intercept p + 1.
    """

    n_outputs: int
    n_features: int
    width: int

    @property
    def n_curvatures(self) -> int:
        """What the second derivative needs of each row."""
        return 0


@helper(inline="always")
def spare(work, r):  # type: ignore[no-untyped-def]
    """Return one of the last rows of `work`.

    Parameters
    ----------
    work : (columns, rows) array
        The room of a block.
    r : int
        Which one, from the end; 0 is the row of the factors.

    Returns
    -------
    (rows,) array
        A view.
    """
    return work[work.shape[0] - 1 - r]


@helper(inline="always")
def padded(count):  # type: ignore[no-untyped-def]
    """Return up to where loops over rows of a block go.

    Parameters
    ----------
    count : int
        The rows of the block.

    Returns
    -------
    int
        A multiple of `STRIDE`.
    """
    return -(-count // STRIDE) * STRIDE


@helper(forceinline=True)
def scale_rows(work, first, last, factors, count):  # type: ignore[no-untyped-def]
    """Multiply rows of `work` by factors.

    Parameters
    ----------
    work : (columns, rows) array
        The room of a block, changed in place.
    first, last : int
        Its rows first .. last - 1.
    factors : (rows,) array
        A factor for each row of the block.
    count : int
        The rows of the block.
    """
    for q in range(first, last):
        for i in range(padded(count)):
            work[q, i] *= factors[i]


# --- logistic: after `prepare`, work[0] is the slope, and the second spare row the curvature ---


def _logistic_losses(loss, b, start, count, work):  # type: ignore[no-untyped-def]
    values = spare(work, 1)
    for i in range(count):
        values[i] = -b[start + i] * work[0, i]
    for i in range(padded(count)):
        values[i] = links.softplus(values[i])


def _logistic_prepare(loss, b, start, count, work):  # type: ignore[no-untyped-def]
    products, curvatures = work[0], spare(work, 1)
    for i in range(count):
        products[i] *= b[start + i]
    for i in range(padded(count)):
        products[i], curvatures[i] = links.loss_derivatives(products[i])
    for i in range(count):
        products[i] *= b[start + i]


def _logistic_along(loss, b, start, count, work, first):  # type: ignore[no-untyped-def]
    values = spare(work, 2)
    for i in range(padded(count)):
        values[i] = work[0, i] * work[first, i]


def _logistic_slopes(loss, b, start, count, work):  # type: ignore[no-untyped-def]
    scale_rows(work, 0, 1, spare(work, 0), count)


def _logistic_products(loss, count, work, first, last):  # type: ignore[no-untyped-def]
    factors, curvatures = spare(work, 0), spare(work, 1)
    for q in range(first, last):
        for i in range(padded(count)):
            work[q, i] *= factors[i] * curvatures[i]


def _logistic_keep(loss, start, count, work, curvatures):  # type: ignore[no-untyped-def]
    kept, row = curvatures[0], spare(work, 1)
    for i in range(count):
        kept[start + i] = row[i]


def _logistic_recall(loss, start, count, work, curvatures):  # type: ignore[no-untyped-def]
    kept, row = curvatures[0], spare(work, 1)
    for i in range(count):
        row[i] = kept[start + i]


# --- softmax: after `prepare`, the first rows of `work` are the probabilities ---


@helper(forceinline=True)
def _exponentials(n_outputs, count, work):  # type: ignore[no-untyped-def]
    """Turn margins into exp(m - largest m); the largest ones and the sums go to the spare rows."""
    largest, total = spare(work, 1), spare(work, 2)
    for i in range(padded(count)):
        largest[i] = work[0, i]
        total[i] = 0
    for q in range(1, n_outputs):
        for i in range(padded(count)):
            m, top = work[q, i], largest[i]
            largest[i] = m if m > top else top
    for q in range(n_outputs):
        for i in range(padded(count)):
            e = links.exp(work[q, i] - largest[i])
            work[q, i] = e
            total[i] += e


def _softmax_losses(loss, b, start, count, work):  # type: ignore[no-untyped-def]
    largest, total, chosen = spare(work, 1), spare(work, 2), spare(work, 3)
    for i in range(count):
        chosen[i] = work[b[start + i], i]
    _exponentials(loss.n_outputs, count, work)
    for i in range(count):
        largest[i] = math.log(total[i]) + (largest[i] - chosen[i])


def _softmax_prepare(loss, b, start, count, work):  # type: ignore[no-untyped-def]
    _exponentials(loss.n_outputs, count, work)
    total = spare(work, 2)
    for i in range(padded(count)):
        total[i] = 1 / total[i]
    scale_rows(work, 0, loss.n_outputs, total, count)


def _softmax_along(loss, b, start, count, work, first):  # type: ignore[no-untyped-def]
    values = spare(work, 2)
    for i in range(count):
        values[i] = -work[first + b[start + i], i]
    for q in range(loss.n_outputs):
        for i in range(count):
            values[i] += work[q, i] * work[first + q, i]


def _softmax_slopes(loss, b, start, count, work):  # type: ignore[no-untyped-def]
    for i in range(count):
        work[b[start + i], i] -= 1
    scale_rows(work, 0, loss.n_outputs, spare(work, 0), count)


def _softmax_products(loss, count, work, first, last):  # type: ignore[no-untyped-def]
    factors, mean = spare(work, 0), spare(work, 1)
    for base in range(first, last, loss.n_outputs):
        for i in range(padded(count)):
            mean[i] = 0
        for q in range(loss.n_outputs):
            for i in range(padded(count)):
                mean[i] += work[q, i] * work[base + q, i]
        for q in range(loss.n_outputs):
            for i in range(padded(count)):
                work[base + q, i] = factors[i] * work[q, i] * (work[base + q, i] - mean[i])


def _softmax_keep(loss, start, count, work, curvatures):  # type: ignore[no-untyped-def]
    for q in range(loss.n_outputs):
        for i in range(count):
            curvatures[q, start + i] = work[q, i]


def _softmax_recall(loss, start, count, work, curvatures):  # type: ignore[no-untyped-def]
    for q in range(loss.n_outputs):
        for i in range(count):
            work[q, i] = curvatures[q, start + i]


# --- squared: after `prepare`, the first rows of `work` are the residuals ---


def _squared_losses(loss, b, start, count, work):  # type: ignore[no-untyped-def]
    values = spare(work, 1)
    for i in range(count):
        values[i] = 0
    for q in range(loss.n_outputs):
        for i in range(count):
            residual = work[q, i] - b[start + i, q]
            values[i] += residual * residual / 2


def _squared_prepare(loss, b, start, count, work):  # type: ignore[no-untyped-def]
    for q in range(loss.n_outputs):
        for i in range(count):
            work[q, i] -= b[start + i, q]


def _squared_along(loss, b, start, count, work, first):  # type: ignore[no-untyped-def]
    values = spare(work, 2)
    for i in range(count):
        values[i] = 0
    for q in range(loss.n_outputs):
        for i in range(count):
            values[i] += work[q, i] * work[first + q, i]


def _squared_slopes(loss, b, start, count, work):  # type: ignore[no-untyped-def]
    scale_rows(work, 0, loss.n_outputs, spare(work, 0), count)


def _squared_products(loss, count, work, first, last):  # type: ignore[no-untyped-def]
    scale_rows(work, first, last, spare(work, 0), count)


def _nothing_prepared(loss, b, start, count, work):  # type: ignore[no-untyped-def]
    return


def _nothing_kept(loss, start, count, work, curvatures):  # type: ignore[no-untyped-def]
    return


def _one_output(loss):  # type: ignore[no-untyped-def]
    return 1


def _many_outputs(loss):  # type: ignore[no-untyped-def]
    return loss.n_outputs


def _no_outputs(loss):  # type: ignore[no-untyped-def]
    return 0


def _table(logistic: Any, softmax: Any, squared: Any) -> Any:
    return by_class({Logistic: logistic, Softmax: softmax, Squared: squared})


#: Returns c, for one output as a constant, which spares the compiler the code for more.
outputs = _table(_one_output, _many_outputs, _many_outputs)

#: Returns of how many outputs the second derivative needs the margins.
point_outputs = _table(_one_output, _many_outputs, _no_outputs)

#: Turns margins into the losses of the rows start .. start + count - 1, in the second spare row:
#: (loss, b, start, count, work).
losses = _table(_logistic_losses, _softmax_losses, _squared_losses)

#: Makes margins into what the other functions need: (loss, b, start, count, work).
prepare = _table(_logistic_prepare, _softmax_prepare, _squared_prepare)

#: Does so for `products` alone.
prepare_products = _table(_logistic_prepare, _softmax_prepare, _nothing_prepared)

#: Writes the derivative along a direction, whose margins start at row `first`, to the third spare row:
#: (loss, b, start, count, work, first).
along = _table(_logistic_along, _softmax_along, _squared_along)

#: Makes the first c rows into factor times derivative, as the last step: (loss, b, start, count, work).
slopes = _table(_logistic_slopes, _softmax_slopes, _squared_slopes)

#: Makes the margins of directions in rows first .. last - 1 into factor times second derivative times direction:
#: (loss, count, work, first, last).
products = _table(_logistic_products, _softmax_products, _squared_products)

#: Writes what `products` needs to an array (n_curvatures, n): (loss, start, count, work, curvatures).
keep = _table(_logistic_keep, _softmax_keep, _nothing_kept)

#: Reads it again in place of `prepare`.
recall = _table(_logistic_recall, _softmax_recall, _nothing_kept)

"""Updates of vectors in place, as array expressions in plain Python and as loops in compiled code.

Array expressions inside compiled loops are slow to compile and allocate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._dual import dual

Array = npt.NDArray[Any]


def _clear_loop(target):  # type: ignore[no-untyped-def]
    for i in range(target.shape[0]):
        target[i] = 0


@dual(compiled=_clear_loop)
def clear(target: Array) -> None:
    """Do target <- 0."""
    target[:] = 0


def _copy_loop(target, source):  # type: ignore[no-untyped-def]
    for i in range(target.shape[0]):
        target[i] = source[i]


@dual(compiled=_copy_loop)
def copy(target: Array, source: Array) -> None:
    """Do target <- source."""
    target[:] = source


def _add_scaled_loop(target, factor, source):  # type: ignore[no-untyped-def]
    a = target.dtype.type(factor)
    for i in range(target.shape[0]):
        target[i] += a * source[i]


@dual(compiled=_add_scaled_loop)
def add_scaled(target: Array, factor: float, source: Array) -> None:
    """Do target <- target + factor source."""
    target += target.dtype.type(factor) * source


def _add_scaled_change_loop(target, factor, left, right):  # type: ignore[no-untyped-def]
    a = target.dtype.type(factor)
    for i in range(target.shape[0]):
        target[i] += a * (left[i] - right[i])


@dual(compiled=_add_scaled_change_loop)
def add_scaled_change(target: Array, factor: float, left: Array, right: Array) -> None:
    """Do target <- target + factor (left - right)."""
    target += target.dtype.type(factor) * (left - right)


def _scale_loop(target, factor, source):  # type: ignore[no-untyped-def]
    a = target.dtype.type(factor)
    for i in range(target.shape[0]):
        target[i] = a * source[i]


@dual(compiled=_scale_loop)
def scale(target: Array, factor: float, source: Array) -> None:
    """Do target <- factor source."""
    target[:] = target.dtype.type(factor) * source


def _subtract_loop(target, left, right):  # type: ignore[no-untyped-def]
    for i in range(target.shape[0]):
        target[i] = left[i] - right[i]


@dual(compiled=_subtract_loop)
def subtract(target: Array, left: Array, right: Array) -> None:
    """Do target <- left - right."""
    target[:] = left - right


def _blend_loop(target, weight, source):  # type: ignore[no-untyped-def]
    a = target.dtype.type(weight)
    for i in range(target.shape[0]):
        target[i] = source[i] + a * (target[i] - source[i])


@dual(compiled=_blend_loop)
def blend(target: Array, weight: float, source: Array) -> None:
    """Do target <- weight target + (1 - weight) source; with the weight 0 exactly the source."""
    target[:] = source + target.dtype.type(weight) * (target - source)


def _correct_loop(target, weight, new, old):  # type: ignore[no-untyped-def]
    a = target.dtype.type(weight)
    for i in range(target.shape[0]):
        target[i] = new[i] + a * (target[i] - old[i])


@dual(compiled=_correct_loop)
def correct(target: Array, weight: float, new: Array, old: Array) -> None:
    """Do target <- new + weight (target - old), the recursion of variance-reduced estimators."""
    target[:] = new + target.dtype.type(weight) * (target - old)


def _replace_loop(estimate, row, mean, n_rows):  # type: ignore[no-untyped-def]
    share = 1.0 / n_rows
    for i in range(estimate.shape[0]):
        old = row[i]
        row[i] = estimate[i]
        # of what the row holds, in the mean's type, so that the mean stays the mean of the rows
        change = np.float64(row[i]) - np.float64(old)
        estimate[i] = change + mean[i]
        mean[i] += share * change


@dual(compiled=_replace_loop)
def replace(estimate: Array, row: Array, mean: Array, n_rows: int) -> None:
    """Store a new row and do estimate <- new - old + mean, then mean <- mean + (new - old) / n_rows (SAGA)."""
    old = row.astype(mean.dtype)
    row[:] = estimate
    change = row - old  # of what the row holds, in the mean's type, so that the mean stays the mean of the rows
    estimate[:] = change + mean
    mean += change / float(n_rows)


def _move_loop(x, step, direction, feasible):  # type: ignore[no-untyped-def]
    lower, upper = feasible
    for i in range(x.shape[0]):
        value = x[i] - step * direction[i]
        # No bound may hide divergence; np.isfinite is value - value == 0, which reordering makes true for infinities.
        value = value if abs(value) < np.inf else np.nan
        value = lower[i] if value < lower[i] else value  # comparisons that leave a NaN as it is
        x[i] = upper[i] if value > upper[i] else value


@dual(compiled=_move_loop)
def move(x: Array, step: float, direction: Array, feasible: Any) -> None:
    """Do x <- project(x - step direction), NaN where that is not finite; compiled, boxes as a pair of bounds only."""
    moved = x - step * direction
    x[:] = feasible(moved)
    x[~np.isfinite(moved)] = np.nan  # no bound may hide divergence


def _add_at_loop(target, rows, lo, hi, source):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        target[rows[i]] += source[i - lo]


@dual(compiled=_add_at_loop)
def add_at(target: Array, rows: Array, lo: int, hi: int, source: Array) -> None:
    """Do target[rows[i]] <- target[rows[i]] + source[i - lo] for lo <= i < hi, one after the other."""
    np.add.at(target, rows[lo:hi], source[: hi - lo])


def _replace_at_loop(estimate, row, mean, n_rows, rows, lo, hi, new):  # type: ignore[no-untyped-def]
    share = 1.0 / n_rows
    for j in range(estimate.shape[0]):
        estimate[j] = mean[j]
    for i in range(lo, hi):
        j, old = rows[i], row[i]
        row[i] = new[i - lo]
        change = np.float64(row[i]) - np.float64(old)
        estimate[j] += change
        mean[j] += share * change


@dual(compiled=_replace_at_loop)
def replace_at(
    estimate: Array, row: Array, mean: Array, n_rows: int, rows: Array, lo: int, hi: int, new: Array
) -> None:
    """Do `replace` for a row that is zero outside of rows[lo:hi], of which `row` and `new` hold these entries alone."""
    estimate[:] = mean
    old = row[lo:hi].astype(mean.dtype)
    row[lo:hi] = new[: hi - lo]
    change = row[lo:hi] - old
    estimate[rows[lo:hi]] += change
    mean[rows[lo:hi]] += change / float(n_rows)


def _move_at_loop(x, step, direction, rows, count, feasible):  # type: ignore[no-untyped-def]
    lower, upper = feasible
    for i in range(count):
        x[rows[i]] -= step * direction[i]
    for i in range(count):
        j = rows[i]
        value = x[j] if abs(x[j]) < np.inf else np.nan
        value = lower[j] if value < lower[j] else value
        x[j] = upper[j] if value > upper[j] else value


@dual(compiled=_move_at_loop)
def move_at(x: Array, step: float, direction: Array, rows: Array, count: int, feasible: Any) -> None:
    """Do `move` for a direction that is zero outside of rows[:count], of which it has one entry each."""
    touched = rows[:count]
    np.subtract.at(x, touched, step * direction[:count])
    moved = x[touched]
    x[touched] = feasible(x)[touched]
    x[touched[~np.isfinite(moved)]] = np.nan  # no bound may hide divergence

"""Powers of a number, such as kappa, fitted to counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._validation import real

#: Of the intervals.
CONFIDENCE = 0.95


class Exponent(NamedTuple):
    """The p in y = c x^p, fitted.

    Attributes
    ----------
    value : float
        The least-squares slope of log y over log x.
    low, high : float or None
        The ends of its 95 % confidence interval; None for fewer than three points.
    """

    value: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.value:.2f}{interval}"


def fitted_exponent(x: Sequence[float], y: Sequence[float]) -> Exponent:
    """Fit log y = p log x + const by least squares.

    The interval is Student's with n - 2 degrees of freedom. It tells how straight the line is over these points; terms
    of lower order and logarithms bend it, and raise or lower p.

    Parameters
    ----------
    x, y : sequence of float
        Positive numbers, at least two different ones in `x`.

    Returns
    -------
    Exponent
        p and its interval.

    Raises
    ------
    ValueError
        If the lengths differ, `y` has a number that is not positive or `x` is constant.
    """
    if len(x) != len(y):
        raise ValueError(f"y: found {len(y)} numbers; expected {len(x)}, one for each of x")
    logs, targets = _logarithms("x", x), _logarithms("y", y)
    if np.ptp(logs) == 0:
        raise ValueError(f"x: found {list(x)}; expected at least two different numbers")
    spread = logs - logs.mean()
    value = float(spread @ targets / (spread @ spread))
    degrees = len(x) - 2
    if degrees < 1:
        return Exponent(value, None, None)
    from scipy import stats

    residuals = targets - targets.mean() - value * spread
    error = math.sqrt(float(residuals @ residuals) / degrees / float(spread @ spread))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, degrees)) * error
    return Exponent(value, value - half, value + half)


def _logarithms(name: str, values: Sequence[float]) -> npt.NDArray[np.float64]:
    # integers may be too large for int64
    return np.log([real(f"{name}[{i}]", value, positive=True) for i, value in enumerate(values)])

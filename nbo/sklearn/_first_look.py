"""Where to start tuning a shared penalty: values at strengths a factor of ten apart, from the strongest on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._vectors import norm
from nbo.inexact_newton import LowerPoint, LowerSolver
from nbo.linear_solvers import CurvatureError
from nbo.oracles import CountedProblem, NonFiniteOracleError, OracleCounts
from nbo.preconditioning import InnerSystem, SystemMemory
from nbo.problems import CrossValidation

Array = npt.NDArray[np.float64]

#: Between two log penalties.
_SPACING = np.log(10.0)
#: The error of a model, relative to it: the values are only compared.
_ERROR = 1e-2
#: So many values in a row that are above the lowest by more than that part of it end the look.
_RISES, _RISE = 2, 1e-3
#: The most Newton steps for a value, and of conjugate gradients for a step.
_NEWTON, _LINEAR = 30, 100


class FirstLook(NamedTuple):
    """What was found.

    Attributes
    ----------
    x : float
        The log penalty of the lowest value.
    y : ndarray or None
        The models there, (n,).
    untuned : float
        The value at C = 1; NaN where it has none.
    counts : OracleCounts
        The oracle calls.
    """

    x: float
    y: Array | None
    untuned: float
    counts: OracleCounts


def first_look(problem: CrossValidation, x_untuned: float, limits: tuple[float, float]) -> FirstLook:
    """Compare the criterion at some log penalties.

    Phi may be flat at C = 1 and have its minimum where penalties are stronger by orders, as with many rows and weak
    signals, and a long step from there may jump over it. Strong penalties come first: their models are small and their
    systems well-conditioned, and each is the start of the next.

    Parameters
    ----------
    problem : CrossValidation
        With one shared penalty.
    x_untuned : float
        The log penalty of C = 1.
    limits : tuple of float
        The box of the log penalty.

    Returns
    -------
    FirstLook
        At C = 1 if nothing could be compared.
    """
    view = CountedProblem(problem)
    solved = _Path(view)
    lowest, at, y, rises = np.inf, x_untuned, None, 0
    for x in _log_penalties(x_untuned, limits):
        if rises >= _RISES and x != x_untuned:
            continue
        value = solved.value(x)
        if x == x_untuned:
            untuned = value
        rises = rises + 1 if value > lowest + _RISE * abs(lowest) else 0
        if value < lowest:
            lowest, at, y = value, x, solved.y
    return FirstLook(at, y, untuned, view.counts)


def _log_penalties(x_untuned: float, limits: tuple[float, float]) -> list[float]:
    """Return those of C = 10, 1, 0.1, ... down to 1/n, where hardly a model is left, the strongest first."""
    strongest = max(int(np.ceil(-x_untuned / _SPACING)), 1)
    chosen = [x_untuned + k * _SPACING for k in range(strongest, -2, -1)]
    return [x for x in chosen if limits[0] <= x <= limits[1] or x == x_untuned]


class _Path:
    """Models at one log penalty after the other, each from the one before."""

    def __init__(self, view: CountedProblem) -> None:
        self._view, self._system = view, InnerSystem(view, SystemMemory(), _LINEAR)
        self.y = np.zeros(view.dim_y, dtype=view.dtype)

    def value(self, x: float) -> float:
        """Return the criterion, infinite where there is none."""
        at = np.array([x])
        solver = LowerSolver(self._view, at, self._system, _NEWTON)

        def is_enough(point: LowerPoint) -> bool:
            return point.norm == 0 or (solver.whole > 0 and solver.error <= _ERROR * norm(point.y))

        try:
            with np.errstate(all="ignore"):
                point, _ = solver.minimize(self.y, is_enough)
                value = self._view.upper_value(at, point.y)
        except (NonFiniteOracleError, CurvatureError):
            return np.inf
        self.y = point.y
        return value

"""Globalised inexact Newton steps on the lower level: from any start, down to the rounding floor."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._vectors import norm
from nbo.oracles import CountedProblem, NonFiniteOracleError
from nbo.problem import LowerModel

Array = npt.NDArray[Any]

#: A full step is taken at once if it shortens the gradient to this part; values of g decide about others.
SHORTER = 0.9
#: The part of the promised decrease of g that has to come true (Armijo).
SUFFICIENT = 1e-4
#: Steps that are tried along a direction,
TRIALS = 40
#: each this part of the one before, at least and at most.
SHORTEST, LONGEST = 0.1, 0.5
#: Values that rise down to such a step are no matter of rounding.
TINY = 1e-3
#: A promised decrease of so many rounding units of g is too small for values to tell.
UNITS = 1e2


class LowerPoint(NamedTuple):
    """A lower-level iterate with its model and gradient.

    Attributes
    ----------
    y : ndarray
        (n,).
    model : LowerModel
        The lower level there.
    grad : ndarray
        grad_2 g, (n,).
    norm : float
        |grad_2 g|.
    """

    y: Array
    model: LowerModel
    grad: Array
    norm: float


def lower_point(view: CountedProblem, x: Array, y: Array) -> LowerPoint:
    """Evaluate grad_2 g; costs 1 lower_grad_y.

    Parameters
    ----------
    view : CountedProblem
        The oracles.
    x, y : ndarray
        The point, (m,) and (n,).

    Returns
    -------
    LowerPoint
        With the gradient.
    """
    model = view.lower_model(x, y)
    grad = model.grad_y()
    return LowerPoint(y, model, grad, norm(grad))


def at_rounding(dtype: np.dtype[Any]) -> str:
    """Say that no more progress is possible.

    Parameters
    ----------
    dtype : dtype
        Of y.

    Returns
    -------
    str
        With what to do.
    """
    other = ", or data in float64" if dtype == np.float32 else ""
    return f"rounding in {dtype} allows no more progress: give a larger tol{other}"


#: g rises along a Newton direction.
NO_DESCENT = "g does not fall along the Newton direction, as if oracles did not fit together: see nbo.check_problem"


def newton_step(view: CountedProblem, x: Array, point: LowerPoint, direction: Array) -> LowerPoint | str:
    """Move y along minus a Newton direction, as far as g or its gradient shrinks.

    For convex g the full step is safe if it shortens the gradient clearly, since the squared gradient falls along
    Newton directions, too; that needs no value of g and works down to the rounding floor. Otherwise the step is
    shortened until g has fallen enough (Armijo), and where the promised decrease is too small for values to tell, the
    gradient decides.

    Costs 1 lower_grad_y for a full step; else up to 40 lower_value and 2 lower_grad_y.

    Parameters
    ----------
    view : CountedProblem
        The oracles.
    x : ndarray
        (m,).
    point : LowerPoint
        Where the step starts.
    direction : ndarray
        About H^{-1} grad_2 g, (n,).

    Returns
    -------
    LowerPoint or str
        The new point, or why there is none.
    """
    slope = float(np.vdot(point.grad, direction))
    if not slope > 0:
        return NO_DESCENT if slope < 0 else at_rounding(view.dtype)
    try:
        full = lower_point(view, x, point.y - direction)
        if full.norm <= SHORTER * point.norm:
            return full
    except NonFiniteOracleError:
        full = None
    return _backtrack(view, x, point, direction, slope, full)


def _backtrack(
    view: CountedProblem, x: Array, point: LowerPoint, direction: Array, slope: float, full: LowerPoint | None
) -> LowerPoint | str:
    """Shorten the step until g, or where rounding hides it its gradient, has fallen."""
    value, step, trial = point.model.value(), 1.0, full
    floor = UNITS * float(np.finfo(view.dtype).eps) * max(abs(value), 1e-300)
    for _ in range(TRIALS):
        y, found = point.y - point.y.dtype.type(step) * direction, np.inf
        try:
            if slope * step <= floor:
                trial = trial or lower_point(view, x, y)
                if trial.norm < point.norm:
                    return trial
                return at_rounding(view.dtype) if step >= TINY else NO_DESCENT
            model = view.lower_model(x, y) if trial is None else trial.model
            found = model.value()
            if found <= value - SUFFICIENT * step * slope:
                return trial or lower_point(view, x, y)
        except NonFiniteOracleError:
            pass
        # the minimiser of the parabola through both values and the slope
        factor = slope * step / (2 * (found - value + slope * step))
        step, trial = step * min(max(factor, SHORTEST), LONGEST), None
    return NO_DESCENT

"""Globalised inexact Newton steps on the lower level: from any start, down to the rounding floor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._vectors import norm
from nbo.linear_solvers import CurvatureError
from nbo.oracles import CountedProblem, NonFiniteOracleError
from nbo.preconditioning import InnerSystem
from nbo.problem import LowerModel

Array = npt.NDArray[Any]

#: A full step is taken at once if it shortens the gradient to this part, and g does not rise at its end by more than
#: that part of how it fell at its start; values of g decide about others.
SHORTER, OVERSHOT = 0.9, 0.1
#: The part of the promised decrease of g that has to come true (Armijo).
SUFFICIENT = 1e-4
#: So many steps are tried along a direction, each this part of the one before, at least and at most.
PATIENCE, SHORTEST, LONGEST = 5, 0.1, 0.5
#: Then the order of magnitude is searched for by bisection, to such a factor: where H is nearly zero, the direction may
#: be too long by hundreds of orders.
NEAR = 10.0
#: The most steps in all.
TRIALS = 24
#: Values that rise down to such a step are no matter of rounding.
TINY = 1e-3
#: The first Newton system is solved to this part of its right-hand side, later ones as the progress of the steps
#: suggests (Eisenstat and Walker, 1996, choice 2), no further than to the second number: far from y* accurate
#: directions are waste.
FORCING, LEAST = 0.1, 1e-3
#: The error of y is estimated after full steps that shorten the gradient to this part: far from y* they may shorten it
#: to 1/e (exponentials) or 8/27 (fourth powers), however far the way still is.
CONTRACTED = 0.25
#: A direction may be so many times longer than the move that the one before allowed, or than itself if it was cut to
#: what could be trusted and a full step.
SHORTENED, LENGTHENED = 1.5, 4.0
#: Why a descent ended whose steps ran out.
OUT_OF_STEPS = "the limit of iterations was reached"
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


class NoDescentError(CurvatureError):
    """g was found not to fall along a Newton direction, though y is not solved for: no method can go on from there."""

    def __init__(self) -> None:
        ArithmeticError.__init__(self, NO_DESCENT)


def newton_step(view: CountedProblem, x: Array, point: LowerPoint, direction: Array) -> LowerPoint | str:
    """Move y along minus a Newton direction, as far as g or its gradient shrinks.

    For convex g the full step is safe if it shortens the gradient clearly and g hardly rises at its end: g is lower
    there than at the start by convexity. That needs no value of g and works down to the rounding floor. Otherwise the
    step is shortened until g has fallen enough (Armijo), and where the promised decrease is too small for values to
    tell, the gradient decides.

    Costs 1 lower_grad_y for a full step; else up to 25 lower_value and 2 lower_grad_y.

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
        if full.norm <= SHORTER * point.norm and float(full.grad @ direction) >= -OVERSHOT * slope:
            return full
    except NonFiniteOracleError:
        full = None
    return _Line(view, x, point, direction, slope, full).shortened()


class _Line:
    """g along minus a direction from a point.

    Parameters
    ----------
    view : CountedProblem
        The oracles.
    x : ndarray
        (m,).
    point : LowerPoint
        The start.
    direction : ndarray
        (n,).
    slope : float
        The product of the direction with the gradient, positive.
    full : LowerPoint or None
        The point at the full step, if it is known.
    """

    def __init__(
        self, view: CountedProblem, x: Array, point: LowerPoint, direction: Array, slope: float, full: LowerPoint | None
    ) -> None:
        self._view, self._x, self._point, self._direction = view, x, point, direction
        self._slope, self._full = slope, full
        self._value = point.model.value()
        #: The step whose promised decrease values can no longer tell.
        self.least = max(UNITS * float(np.finfo(view.dtype).eps) * abs(self._value) / slope, 1e-300)

    def _end(self, step: float) -> Array:
        return self._point.y - self._point.y.dtype.type(step) * self._direction

    def at(self, step: float) -> LowerPoint:
        """Return the point of a step, with its gradient."""
        return self._full if step == 1 and self._full is not None else lower_point(self._view, self._x, self._end(step))

    def found(self, step: float) -> float:
        """Return g at the end of a step; infinite where it is not finite."""
        try:
            if step == 1 and self._full is not None:
                return self._full.model.value()
            return self._view.lower_model(self._x, self._end(step)).value()
        except NonFiniteOracleError:
            return np.inf

    def is_lower(self, step: float, found: float) -> bool:
        """Tell whether g has fallen enough (Armijo)."""
        return found <= self._value - SUFFICIENT * step * self._slope

    def shorter(self, step: float, found: float) -> float:
        """Return the step to the minimiser of the parabola through both values and the slope, within limits."""
        factor = self._slope * step / (2 * (found - self._value + self._slope * step))
        return step * min(max(factor, SHORTEST), LONGEST)

    def order(self, longest: float) -> float | None:
        """Return about the longest step by which g falls enough, below one by which it does not."""
        low, high, best = self.least, longest, None
        while high > NEAR * low:
            middle = math.sqrt(low) * math.sqrt(high)
            if self.is_lower(middle, self.found(middle)):
                low = best = middle
            else:
                high = middle
        return best

    def shortened(self) -> LowerPoint | str:
        """Shorten the step until g, or where rounding hides it its gradient, has fallen."""
        step = 1.0
        try:
            for _ in range(PATIENCE):
                if step <= self.least:
                    break
                found = self.found(step)
                if self.is_lower(step, found):
                    return self.at(step)
                step = self.shorter(step, found)
            best = self.order(step) if step > self.least else None
            if best is not None:
                return self.at(best)
            step = min(step, self.least)
            last = self.at(step)
        except NonFiniteOracleError:
            return NO_DESCENT
        if last.norm < self._point.norm:
            return last
        return at_rounding(self._view.dtype) if step >= TINY else NO_DESCENT


class LowerSolver:
    """Newton's method on g(x, .).

    Parameters
    ----------
    view : CountedProblem
        The oracles.
    x : ndarray
        (m,).
    system : InnerSystem
        Solves Newton systems.
    n_steps : int
        The most steps, over the life of this object.

    Attributes
    ----------
    error : float
        An estimate of |y - y*| at the last point; infinite where the last step was not a whole one: no other can tell.
    whole : int
        How many steps in a row were full Newton steps that shortened the gradient clearly.
    left : int
        The steps that are left.
    """

    def __init__(self, view: CountedProblem, x: Array, system: InnerSystem, n_steps: int) -> None:
        self._view, self._x, self._system = view, x, system
        self._radius = np.inf
        self.error, self.whole, self.left = np.inf, 0, n_steps

    def minimize(self, y: Array, enough: Callable[[LowerPoint], bool]) -> tuple[LowerPoint, str]:
        """Descend from a start.

        Parameters
        ----------
        y : ndarray
            The start, (n,).
        enough : callable
            Whether to end at a point.

        Returns
        -------
        point : LowerPoint
            The last one.
        why : str
            Why it did not go on; empty if there was no need to.
        """
        point, forcing = lower_point(self._view, self._x, y), FORCING
        while not enough(point):
            if self.left <= 0:
                return point, OUT_OF_STEPS
            following = self.step(point, forcing)
            if isinstance(following, str):
                return point, following
            forcing = _next_forcing(forcing, following.norm / point.norm)
            point = following
        return point, ""

    def step(self, point: LowerPoint, forcing: float) -> LowerPoint | str:
        """Take one step.

        Parameters
        ----------
        point : LowerPoint
            Where it starts.
        forcing : float
            The residual of the Newton system, relative to its right-hand side.

        Returns
        -------
        LowerPoint or str
            Where it ends, or why there is none.
        """
        self.left -= 1
        limits = np.array([forcing * point.norm])
        found = self._system.solve(point.model, point.grad[None], limits, self._radius, flat="take")
        direction = found.solution[0]
        following = newton_step(self._view, self._x, point, direction)
        length = norm(direction)
        if isinstance(following, str):
            self.error = min(self.error, length)
            return following
        cut = length >= 0.9 * self._radius
        full = self._trust(length, norm(following.y - point.y), cut) and not cut
        whole = full and following.norm <= CONTRACTED * point.norm
        self.whole = self.whole + 1 if whole else 0
        self.error = length * min(following.norm / (point.norm or 1.0), 1.0) if whole else np.inf
        if whole and (direction := self._system.rough_solution(following.grad)) is not None:
            # where entries of the gradient differ by orders, its norm says little about most of them
            self.error = max(self.error, norm(direction))
        return following

    def _trust(self, length: float, moved: float, cut: bool) -> bool:
        """Bound the next direction by the move that this one allowed, and tell whether it was a full step."""
        if moved < 0.9 * length:  # a longer direction would be computed in vain
            self._radius = SHORTENED * moved
            return False
        if cut:
            self._radius *= LENGTHENED
        return True


def _next_forcing(forcing: float, ratio: float) -> float:
    """Return how accurately to solve the next Newton system, after a step that shortened the gradient by a ratio."""
    usual = 0.9 * ratio**2
    if 0.9 * forcing**2 > 0.1:  # not at once
        usual = max(usual, 0.9 * forcing**2)
    return min(max(usual, LEAST), FORCING)

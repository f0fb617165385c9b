"""Limited-memory BFGS on the lower level: g(x, .) is minimised from a start, and the secant pairs are kept."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._validation import integer, real
from nbo._vectors import norm
from nbo.oracles import CountedModel, CountedProblem, NonFiniteOracleError
from nbo.quasi_newton import MEMORY, Pairs, add_pair, has_curvature, inverse_product
from nbo.upper_steps import ROUNDING

Array = npt.NDArray[Any]

#: The most points that an iteration evaluates, and the most of one search for a step length.
TRIALS, SEARCH = 30, 10
#: The strong Wolfe conditions: the part of the slope that the decrease reaches, and that the new slope falls below
#: (Nocedal and Wright, 2006, Numerical Optimization, Section 3.1, for quasi-Newton methods).
DECREASE, SLOPE = 1e-4, 0.9
#: A search all of whose trials were too long is followed by one with so much shorter ones.
SHORTER = 2.0**-10
#: So many steps below rounding that reach no smaller gradient end a minimisation.
PATIENCE = 30
#: A change of the gradient by so many rounding units of the first one makes no pair.
NOISE = 10.0


class Point:
    """A point of the lower level, whose value and gradient are evaluated when they are first asked for.

    Parameters
    ----------
    view : CountedProblem
        The oracles.
    x, y : ndarray
        The point, (m,) and (n,).

    Attributes
    ----------
    y : ndarray
        (n,).
    model : CountedModel
        g around it, the one that both come from.
    """

    def __init__(self, view: CountedProblem, x: Array, y: Array) -> None:
        self.y = y
        self.model: CountedModel = view.lower_model(x, y)

    @cached_property
    def value(self) -> float:
        """g(x, y)."""
        return self.model.value()

    @cached_property
    def grad(self) -> Array:
        """grad_2 g(x, y), (n,)."""
        return self.model.grad_y()

    @cached_property
    def grad_norm(self) -> float:
        """|grad_2 g(x, y)|."""
        return norm(self.grad)


class LowerMinimum(NamedTuple):
    """Where a minimisation of g(x, .) ended.

    Attributes
    ----------
    point : Point
        The end, whose gradient is known.
    pairs : tuple
        The secant pairs, newest last.
    n_steps : int
        Iterations done.
    stalled : bool
        Whether no further step was found, as it happens at the rounding floor.
    """

    point: Point
    pairs: Pairs
    n_steps: int
    stalled: bool


#: Called after each iteration with its number from 1, the point, the pairs and the length of the step; returns pairs.
Extra = Callable[[int, Point, Pairs, float], Pairs]


@dataclasses.dataclass(frozen=True)
class LBFGS:
    """Minimisation of g(x, .) by y <- y - t B grad_2 g with B the inverse BFGS matrix of the newest pairs.

    A pair is s = y_new - y, r = grad_2 g(x, y_new) - grad_2 g(x, y), kept where it is no rounding error. The step t
    meets the strong Wolfe conditions (`scipy.optimize.line_search`); a trial point that is not finite counts as too
    long. Where the decrease to expect is below rounding, slopes decide: t = 1, or the secant step where the slope is
    then no flatter; `PATIENCE` such steps without a smaller |grad_2 g| are the end, at the smallest.

    An iteration costs at most `TRIALS` lower_value and lower_grad_y, usually one of each, and the start one of each
    (no lower_value where the start meets the tolerance).

    Parameters
    ----------
    n_steps : int
        The most iterations; 0 evaluates the start alone.
    tol : float
        It ends where |grad_2 g| is at most this.
    memory : int
        Pairs that are kept.
    initial_step : float
        The first trial t of a line search; without pairs that times min(1, 1/|grad_2 g|).
    """

    n_steps: int
    tol: float = 0.0
    memory: int = MEMORY
    initial_step: float = 1.0

    def __post_init__(self) -> None:
        integer("n_steps", self.n_steps)
        real("tol", self.tol, minimum=0.0)
        integer("memory", self.memory, minimum=1)
        real("initial_step", self.initial_step, positive=True)

    def minimize(
        self, view: CountedProblem, x: Array, start: Array | Point, pairs: Pairs = (), extra: Extra | None = None
    ) -> LowerMinimum:
        """Minimise g(x, .) from a start.

        Parameters
        ----------
        view : CountedProblem
            The oracles.
        x : ndarray
            The upper-level variable, (m,).
        start : ndarray or Point
            Where it starts: y, (n,), or the point of x and y, of which nothing is evaluated again.
        pairs : tuple
            Secant pairs of positive curvature to start with, newest last.
        extra : callable, optional
            Called after each iteration with its number from 1, the point, the pairs and |s|; it returns the pairs to
            go on with.

        Returns
        -------
        LowerMinimum
            The end.

        Raises
        ------
        NonFiniteOracleError
            If g or its gradient is not finite at the start.
        """
        point = best = start if isinstance(start, Point) else Point(view, x, start)
        idle, noise = 0, 0.0
        for k in range(self.n_steps):
            if point.grad_norm <= self.tol:
                return LowerMinimum(point, pairs, k, stalled=False)
            noise = noise or NOISE * float(np.finfo(view.dtype).eps) * point.grad_norm
            new, at_floor = self._step(view, x, point, pairs)
            if new is not None:
                change = new.grad - point.grad
                if norm(change) > noise:
                    pairs = self.with_pair(pairs, new.y - point.y, change)
                if extra is not None:
                    pairs = extra(k + 1, new, pairs, norm(new.y - point.y))
                improved = not at_floor or new.grad_norm < best.grad_norm
                best, idle = (new, 0) if improved else (best, idle + 1)
                point = new
            if new is None or idle >= PATIENCE:
                return LowerMinimum(best, pairs, k + 1, stalled=True)
        return LowerMinimum(point, pairs, self.n_steps, stalled=False)

    def with_pair(self, pairs: Pairs, s: Array, r: Array) -> Pairs:
        """Return the pairs with one more, which is left out unless its curvature is positive.

        Parameters
        ----------
        pairs : tuple
            The pairs so far.
        s, r : ndarray
            The new one.

        Returns
        -------
        tuple
            At most `memory` pairs.
        """
        return add_pair(pairs, s, r, self.memory) if has_curvature(s, r) else pairs[-self.memory :]

    def _step(self, view: CountedProblem, x: Array, point: Point, pairs: Pairs) -> tuple[Point | None, bool]:
        """Return the next point, None where none is better, and whether gradients decided."""
        direction = -inverse_product(pairs, point.grad)
        if not pairs:
            direction *= min(1.0, 1 / point.grad_norm)
        trials = _Trials(view, x, point)
        eps = float(np.finfo(view.dtype).eps)
        length = self.initial_step
        while True:
            trial = direction * view.dtype.type(length)
            expected = -float(trial @ point.grad)
            if not expected > ROUNDING * eps * abs(point.value):
                return _by_gradients(trials, trial if length < self.initial_step else direction), True
            new = trials.line_search(trial)
            if new is not None or trials.exhausted:
                return new, False
            length *= SHORTER


class _TooLongError(Exception):
    """Ends a line search at a gradient that is not finite, or beyond the budget."""


class _Trials:
    """The trial points of an iteration: each is evaluated once, and at most `TRIALS` of them."""

    def __init__(self, view: CountedProblem, x: Array, start: Point) -> None:
        self._view, self._x, self.start = view, x, start
        self._points = {start.y.tobytes(): start}
        self._values = {start.y.tobytes(): start.value}
        self._limit = SEARCH

    @property
    def exhausted(self) -> bool:
        """Whether no further point may be evaluated."""
        return len(self._points) > TRIALS

    def at(self, y: Array) -> Point:
        """Return the point at y, rounded to the type of the problem."""
        y = y.astype(self._view.dtype, copy=False)
        key = y.tobytes()
        if key not in self._points:
            if self.exhausted or len(self._points) > self._limit:
                raise _TooLongError
            self._points[key] = Point(self._view, self._x, y)
        return self._points[key]

    def value(self, y: Array) -> float:
        """Return g at y, infinite where it is not finite."""
        point = self.at(y)
        key = point.y.tobytes()
        if key not in self._values:
            try:
                self._values[key] = point.value
            except NonFiniteOracleError:
                self._values[key] = np.inf
        return self._values[key]

    def grad(self, y: Array) -> Array:
        """Return grad_2 g at y."""
        try:
            return self.at(y).grad
        except NonFiniteOracleError:
            raise _TooLongError from None

    def line_search(self, direction: Array) -> Point | None:
        """Return a point that meets the strong Wolfe conditions, or else the lowest one, if it is low enough."""
        from scipy.optimize import line_search

        start, alpha = self.start, None
        self._limit = len(self._points) - 1 + SEARCH
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # that it has failed is told by its result
            with contextlib.suppress(_TooLongError):
                alpha, *_ = line_search(
                    self.value, self.grad, start.y, direction, start.grad, start.value, c1=DECREASE, c2=SLOPE
                )
        best = min(self._values, key=self._values.__getitem__)
        if alpha is not None:
            found = self.at(start.y + alpha * direction)
            if self.value(found.y) < start.value:
                best = found.y.tobytes()
        return self._usable(self._points[best]) if self._values[best] < start.value else None

    @staticmethod
    def _usable(point: Point) -> Point | None:
        """Return a point if its gradient is finite, evaluating it if the search has not."""
        try:
            return point if np.isfinite(point.grad_norm) else None
        except NonFiniteOracleError:
            return None


def _by_gradients(trials: _Trials, direction: Array) -> Point | None:
    """Return the end of a whole step or, after it, of the secant step, whichever first makes the slope flat enough.

    Along a convex function it has then decreased, though its values are too coarse to show it.
    """
    start, length = trials.start, 1.0
    slope = float(direction @ start.grad)
    for _ in range(2):
        try:
            trial = trials.at(start.y + direction.dtype.type(length) * direction)
            new_slope = float(direction @ trial.grad)
        except (NonFiniteOracleError, _TooLongError):
            return None
        if abs(new_slope) <= -SLOPE * slope:
            return trial
        if not new_slope > slope:
            return None
        length *= slope / (slope - new_slope)
    return None

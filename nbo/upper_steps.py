"""How x moves along -d_x: by a given step size, or by one that follows the progress made."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._vectors import norm
from nbo.oracles import CountedProblem
from nbo.schedules import Schedule, step_at

Array = npt.NDArray[Any]
Memory = Mapping[str, Any]


class Directions(NamedTuple):
    """What one iteration of a deterministic method computed before x moves.

    Attributes
    ----------
    d_x : ndarray
        The hypergradient estimate, (m,).
    y, u : ndarray
        The new lower-level iterates, (n,) each.
    y_at : ndarray
        The y at which `d_x` was evaluated.
    u_change : ndarray
        The old u minus the new one, (n,).
    lower_grad_norm, adjoint_residual, upper_grad_norm : float
        |grad_2 g|, |H u - grad_2 f| and |grad_2 f|, at the point of `d_x` or one inner step before it.
    correction : float
        u' grad_2 g, the first-order error of f(x, y_at) as a value of Phi(x); zero where unknown.
    value_error : float
        The size of that error, known or estimated.
    memory : mapping
        What the method passes on.
    """

    d_x: Array
    y: Array
    u: Array
    y_at: Array
    u_change: Array
    lower_grad_norm: float
    adjoint_residual: float
    upper_grad_norm: float
    correction: float
    value_error: float
    memory: Memory


class Move(NamedTuple):
    """The iterates after an upper step.

    Attributes
    ----------
    x, y, u : ndarray
        The new iterates.
    memory : mapping
        To pass on.
    """

    x: Array
    y: Array
    u: Array
    memory: Memory


class UpperStep(abc.ABC):
    """How x moves along -d_x."""

    @abc.abstractmethod
    def move(self, view: CountedProblem, k: int, x: Array, step: Directions, project: Callable[[Array], Array]) -> Move:
        """Return the iterates after iteration `k`.

        Parameters
        ----------
        view : CountedProblem
            The problem, for rules that need values.
        k : int
            The iteration.
        x : ndarray
            The old upper iterate, (m,).
        step : Directions
            What the iteration computed.
        project : callable
            The projection onto the feasible set of x.

        Returns
        -------
        Move
            The new iterates.
        """


@dataclasses.dataclass(frozen=True)
class ScheduledStep(UpperStep):
    """x <- project(x - alpha_k d_x) with a given alpha_k.

    Parameters
    ----------
    schedule : float or callable
        alpha.
    """

    schedule: Schedule

    def move(self, view: CountedProblem, k: int, x: Array, step: Directions, project: Callable[[Array], Array]) -> Move:
        """Take the step.

        Parameters
        ----------
        view : CountedProblem
            Unused.
        k : int
            The iteration.
        x : ndarray
            The old iterate.
        step : Directions
            What the iteration computed.
        project : callable
            The projection.

        Returns
        -------
        Move
            The new iterates; no oracle calls.
        """
        alpha = step_at("step_size", self.schedule, k)
        return Move(project(x - alpha * step.d_x), step.y, step.u, step.memory)


@dataclasses.dataclass(frozen=True)
class Anchor:
    """The last accepted point of the adaptive step.

    Attributes
    ----------
    x, y, u, d_x : ndarray
        The iterate (y and u already improved once) and the hypergradient there.
    """

    x: Array
    y: Array
    u: Array
    d_x: Array


@dataclasses.dataclass(frozen=True)
class Progress:
    """What the adaptive step remembers.

    Attributes
    ----------
    accuracy : float
        The relative accuracy that it asks for.
    anchor : Anchor or None
        The last accepted point; None before the first one and while it is in doubt.
    step : float or None
        The last alpha.
    promised : float
        The decrease d_x'(x - x_trial) that the last move promised.
    values : tuple of float
        The last accepted values, each with its slack.
    floor : float
        What rounding alone may change in a value.
    failures : int
        Rejected trials in a row.
    waited : int
        Iterations at the current point.
    residual : float
        |grad_2 g| + |H u - grad_2 f| when the patience was last renewed.
    gap : float
        |J (u_old - u_new)| an iteration ago at the same point; zero where there is none.
    rate : float
        How fast that shrinks.
    """

    accuracy: float
    anchor: Anchor | None = None
    step: float | None = None
    promised: float = np.inf
    values: tuple[float, ...] = ()
    floor: float = 0.0
    failures: int = 0
    waited: int = 0
    residual: float = np.inf
    gap: float = 0.0
    rate: float = 0.0


@dataclasses.dataclass(frozen=True)
class AdaptiveStep(UpperStep):
    """A Barzilai-Borwein step that waits for an accurate hypergradient and backs off when Phi rises.

    x rests until the estimate at the current point is worth using:

    - the first-order error |u' grad_2 g| of the value is at most `ACCURACY` times the decrease that the
      last move promised (at the start: times |f|), and
    - the error of d_x that u still causes, |J (u_old - u_new)|/(1 - q) with q the rate at which that
      change shrinks, is at most `ACCURACY` times the projected hypergradient.

    The tracked value is then F = f(x, y) - u' grad_2 g, whose error is of second order. If F exceeds
    the largest of the last `WINDOW` accepted values (each with twice its first-order error for slack)
    less a small part of the promised decrease, x goes back to the last accepted point, along the same
    direction with a quarter of the step, and y and u are restored. After two such failures in a row the
    accepted point itself is in doubt (slow modes of H hide errors): it is evaluated anew, at a third of
    the accuracy so far. Otherwise the point is accepted, and the next step is s's/s'r, or s'r/r'r where
    that is less than a fifth of it, over the coordinates that moved (s and r are the changes of x and
    d_x).

    Costs at most 1 lower_jvp and 1 upper_value an iteration.
    """

    ACCURACY = 0.1
    SUFFICIENT = 1e-4
    WINDOW = 5
    GROWTH = 10.0
    #: A point at which so many iterations do not halve the residuals of y and u is a failed step.
    PATIENCE = 50
    #: Failures in a row that put the last accepted point in doubt, and what they do to the accuracy.
    FAILURES, TIGHTER, TIGHTEST = 2, 1 / 3, 1e-4
    #: The largest rate q that is believed.
    SLOWEST_RATE = 0.99

    def move(self, view: CountedProblem, k: int, x: Array, step: Directions, project: Callable[[Array], Array]) -> Move:
        """Rest, accept and move on, or go back.

        Parameters
        ----------
        view : CountedProblem
            The problem, for f and J.
        k : int
            The iteration.
        x : ndarray
            The current trial point.
        step : Directions
            What the iteration computed there.
        project : callable
            The projection.

        Returns
        -------
        Move
            The new iterates.
        """
        past = step.memory.get("upper") or Progress(self.ACCURACY)
        if step.value_error > max(past.accuracy * past.promised, past.floor):
            return self._rest(past, x, step, project)
        settled, past = self._settled(view, past, x, step, project)
        if not settled:
            return self._rest(past, x, step, project)
        value = view.upper_value(x, step.y_at) - step.correction
        past = dataclasses.replace(past, floor=1e2 * _eps(view) * abs(value))
        if past.anchor is None:
            if step.value_error > past.accuracy * abs(value):
                return self._rest(past, x, step, project)
        elif value > max(past.values) - self.SUFFICIENT * past.promised + 2 * step.value_error + past.floor:
            return self._back(past, past.anchor, step, project)
        return self._forward(past, x, step, value, project)

    def _settled(
        self, view: CountedProblem, past: Progress, x: Array, step: Directions, project: Callable[[Array], Array]
    ) -> tuple[bool, Progress]:
        """Tell whether u causes only a small error in d_x, judged by its last change and how fast that shrinks."""
        if step.adjoint_residual >= step.upper_grad_norm > 0:
            return False, past
        gap = norm(view.lower_model(x, step.y_at).jvp(step.u_change))
        rate = min(gap / past.gap, self.SLOWEST_RATE) if past.gap > 0 else past.rate
        wanted = past.accuracy * norm(x - project(x - step.d_x))
        settled = gap / (1 - rate) <= max(wanted, 1e2 * _eps(view) * norm(step.d_x))
        return settled, dataclasses.replace(past, gap=gap, rate=rate)

    def _rest(self, past: Progress, x: Array, step: Directions, project: Callable[[Array], Array]) -> Move:
        """Leave x where it is while y and u improve; give the point up when they do not."""
        residual = step.lower_grad_norm + step.adjoint_residual
        if past.waited % self.PATIENCE == 0:
            if past.anchor is not None and past.waited and residual > past.residual / 2:
                return self._back(past, past.anchor, step, project)
            past = dataclasses.replace(past, residual=residual)
        past = dataclasses.replace(past, waited=past.waited + 1)
        return Move(x, step.y, step.u, {**step.memory, "upper": past})

    def _back(self, past: Progress, anchor: Anchor, step: Directions, project: Callable[[Array], Array]) -> Move:
        """Return to the last accepted point, to leave it with a quarter of the step or to evaluate it anew."""
        assert past.step is not None
        alpha = past.step / 4
        new = project(anchor.x - alpha * anchor.d_x)
        past = dataclasses.replace(
            past,
            step=alpha,
            promised=float(anchor.d_x @ (anchor.x - new)),
            failures=past.failures + 1,
            waited=0,
            gap=0.0,
        )
        if past.failures >= self.FAILURES:
            accuracy = max(self.TIGHTEST, self.TIGHTER * past.accuracy)
            past = dataclasses.replace(past, accuracy=accuracy, anchor=None, values=())
            new = anchor.x
        return Move(new, anchor.y, anchor.u, {**step.memory, "upper": past})

    def _forward(
        self, past: Progress, x: Array, step: Directions, value: float, project: Callable[[Array], Array]
    ) -> Move:
        """Accept the current point and leave it with a Barzilai-Borwein step."""
        alpha = self._next_step(past, x, step.d_x)
        new = project(x - alpha * step.d_x)
        past = dataclasses.replace(
            past,
            anchor=Anchor(x, step.y, step.u, step.d_x),
            step=alpha,
            promised=float(step.d_x @ (x - new)),
            values=(*past.values, value + 2 * step.value_error)[-self.WINDOW :],
            failures=0,
            waited=0,
            gap=0.0,
        )
        return Move(new, step.y, step.u, {**step.memory, "upper": past})

    def _next_step(self, past: Progress, x: Array, d_x: Array) -> float:
        if past.step is None:
            largest = float(np.abs(d_x).max())
            return max(1.0, 0.1 * float(np.abs(x).max())) / largest if largest > 0 else 1.0
        if past.anchor is None:
            return past.step
        s = x - past.anchor.x
        r = np.where(s != 0, d_x - past.anchor.d_x, 0.0)
        s_r, r_r = float(s @ r), float(r @ r)
        if s_r <= 0 or r_r == 0:
            return past.step * (2.0 if s.any() else 1.0)
        long, short = float(s @ s) / s_r, s_r / r_r
        chosen = short if short < 0.2 * long else long
        return min(max(chosen, past.step / self.GROWTH), past.step * self.GROWTH)


def _eps(view: CountedProblem) -> float:
    return float(np.finfo(view.dtype).eps)

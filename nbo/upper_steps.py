"""How x moves along -d_x: by a given step size, or by one that follows the progress made."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._storable import storable
from nbo._vectors import norm
from nbo.feasible_sets import FeasibleSet
from nbo.oracles import CountedProblem
from nbo.quasi_newton import Pairs, add_pair, lbfgs_direction
from nbo.schedules import Schedule, step_at

Array = npt.NDArray[Any]
Memory = Mapping[str, Any]

#: Residuals of so many rounding units of the largest gradient are at the rounding floor.
ROUNDING = 1e2


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
    y_change, u_change : ndarray
        The old iterates minus the new ones, (n,) each.
    lower_grad_norm, adjoint_residual, upper_grad_norm : float
        |grad_2 g|, |H u - grad_2 f| and |grad_2 f|, at the point of `d_x` or one inner step before it.
    jvp_norm : float
        |J u|, the part of `d_x` that the errors of y and u reach.
    correction : float
        u' grad_2 g, the first-order error of f(x, y_at) as a value of Phi(x); zero where unknown.
    value_error : float
        An estimate of the error that is left after the correction.
    memory : mapping
        What the method passes on.
    lag : float
        How many times larger than the last changes the errors of y and u may be, because the inner
        steps reach slow modes of H only in part; 1 for exact directions.
    """

    d_x: Array
    y: Array
    u: Array
    y_at: Array
    y_change: Array
    u_change: Array
    lower_grad_norm: float
    adjoint_residual: float
    upper_grad_norm: float
    jvp_norm: float
    correction: float
    value_error: float
    memory: Memory
    lag: float = 1.0

    def reach(self, scales: Scales, eps: float) -> float:
        """Estimate by how much the errors of y and u change d_x, whatever the units of f and g.

        It is |J u| times the relative errors of y and u, judged by their last changes. An iterate whose
        residual is at the rounding floor has no error; one that changes by half of itself tells nothing.

        Parameters
        ----------
        scales : Scales
            The largest gradients seen.
        eps : float
            The rounding unit.

        Returns
        -------
        float
            In the units of d_x; infinite when it cannot be told.
        """
        total = 0.0
        for change, new, residual, scale in (
            (self.y_change, self.y, self.lower_grad_norm, scales.lower_grad),
            (self.u_change, self.u, self.adjoint_residual, scales.upper_grad),
        ):
            error, size = self.lag * norm(change), norm(new)
            if error == 0 or residual <= ROUNDING * eps * scale:
                continue
            if error > size / 2:
                return np.inf
            total += self.jvp_norm * error / size
        return total


@storable
class Scales(NamedTuple):
    """The largest |grad_2 g| and |grad_2 f| of a run, by which rounding is judged.

    Attributes
    ----------
    lower_grad, upper_grad : float
        The two norms.
    """

    lower_grad: float = 0.0
    upper_grad: float = 0.0

    def with_norms(self, lower_grad: float, upper_grad: float) -> Scales:
        """Return the scales after one more iteration.

        Parameters
        ----------
        lower_grad, upper_grad : float
            Its norms.

        Returns
        -------
        Scales
            The maxima.
        """
        return Scales(max(self.lower_grad, lower_grad), max(self.upper_grad, upper_grad))


class Move(NamedTuple):
    """The iterates after an upper step.

    Attributes
    ----------
    x, y, u : ndarray
        The new iterates.
    memory : mapping
        To pass on.
    solved : bool
        Whether the point that was left is a solution; x then stays there.
    shown : tuple of ndarray or None
        The x, y, u to report, where the new ones are a mere trial.
    """

    x: Array
    y: Array
    u: Array
    memory: Memory
    solved: bool = False
    shown: tuple[Array, Array, Array] | None = None


class UpperStep(abc.ABC):
    """How x moves along -d_x."""

    @abc.abstractmethod
    def move(
        self,
        view: CountedProblem,
        k: int,
        x: Array,
        step: Directions,
        project: FeasibleSet,
        scales: Scales,
        solved: bool,
    ) -> Move:
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
        project : FeasibleSet
            The feasible set of x.
        scales : Scales
            The largest gradients seen.
        solved : bool
            Whether the point meets the tolerance, so that it is left only if the rule rejects it.

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

    def move(
        self,
        view: CountedProblem,
        k: int,
        x: Array,
        step: Directions,
        project: FeasibleSet,
        scales: Scales,
        solved: bool,
    ) -> Move:
        """Take the step; see `UpperStep.move`."""
        alpha = step_at("step_size", self.schedule, k)
        return Move(project(x - alpha * step.d_x), step.y, step.u, step.memory, solved)


@storable
@dataclasses.dataclass(frozen=True)
class Anchor:
    """The last accepted point of the adaptive step.

    Attributes
    ----------
    x, y, u, d_x : ndarray
        The iterate (y and u already improved once) and the hypergradient there.
    direction : ndarray
        Trial points are project(x - step direction).
    """

    x: Array
    y: Array
    u: Array
    d_x: Array
    direction: Array

    @property
    def iterate(self) -> tuple[Array, Array, Array]:
        """The three iterates."""
        return self.x, self.y, self.u


@storable
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
        The last trial's factor of the direction.
    unit : float
        A displacement of x, in the largest entry, that has been safe.
    pairs : tuple
        Changes of x and d_x between accepted points.
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
    unit: float = 0.0
    pairs: Pairs = ()
    promised: float = np.inf
    values: tuple[float, ...] = ()
    floor: float = 0.0
    failures: int = 0
    waited: int = 0
    residual: float = np.inf
    gap: float = 0.0
    rate: float = 0.0


def iterations_at_rest(memory: Memory) -> int:
    """Return for how many iterations the adaptive step has left x where it is.

    Parameters
    ----------
    memory : mapping
        Of a method.

    Returns
    -------
    int
        Zero where x has just moved, and with given step sizes.
    """
    progress = memory.get("upper")
    return 0 if progress is None else progress.waited


@dataclasses.dataclass(frozen=True)
class AdaptiveStep(UpperStep):
    """A projected quasi-Newton step that waits for an accurate hypergradient and backs off when Phi rises.

    x rests until the estimate at the current point is worth using:

    - the error of the tracked value F = f(x, y) - u' grad_2 g, which is of second order, is estimated
      at most `ACCURACY` times the decrease that the last move promised (at the start: times |f|), and
    - |H u - grad_2 f| is at most `ACCURACY` |grad_2 f|, and the error of d_x that u still causes,
      |J (u_old - u_new)|/(1 - q) with q the rate at which that change shrinks (or, for gradient inner
      steps, what the estimated spectrum of H makes of it if that is more), is at most `ACCURACY` times
      the projected hypergradient.

    When waiting does not reduce the residuals any more, a trial point counts as failed, and the first
    point is left with the accuracy that there is.

    If F exceeds the largest of the last `WINDOW` accepted values (each with twice its error for slack)
    less a small part of the promised decrease, x goes back to the last accepted point, along the same
    direction with a quarter of the step, and y and u are restored. After three such failures in a row the
    accepted point itself is in doubt (slow modes of H hide errors): it is evaluated anew, at a third of
    the accuracy so far. Otherwise the point is accepted. The next direction is that of limited-memory
    BFGS in the coordinates that no bound holds, d_x itself at first; its largest entry is at most
    `GROWTH` times that of the last accepted move (the first move's is 1, or |x|/10 if that is more).

    The iterate that is reported is the last accepted point; trial points are not shown. Costs at most
    1 lower_jvp and 1 upper_value an iteration.
    """

    #: The relative accuracy that values and hypergradients need at first.
    ACCURACY = 0.1
    #: The part of the promised decrease that must come true.
    SUFFICIENT = 1e-4
    #: How many accepted values a new one is compared with.
    WINDOW = 2
    #: How much longer a move may be than the last accepted one.
    GROWTH = 10.0
    #: A very short accepted move shortens the next limit by no more than this.
    TINY = 1e-3
    #: So many iterations at a point must reduce the residuals of y and u ...
    PATIENCE = 50
    #: ... to this part, or it counts as a failed step.
    PROGRESS = 0.9
    #: Failures in a row that put the last accepted point in doubt,
    FAILURES = 3
    #: by which factor that tightens the accuracy,
    TIGHTER = 1 / 3
    #: and the tightest that it gets.
    TIGHTEST = 1e-4
    #: The largest rate q that is believed.
    SLOWEST_RATE = 0.99

    def move(
        self,
        view: CountedProblem,
        k: int,
        x: Array,
        step: Directions,
        project: FeasibleSet,
        scales: Scales,
        solved: bool,
    ) -> Move:
        """Rest, accept and move on, or go back; see `UpperStep.move`."""
        past = step.memory.get("upper") or Progress(self.ACCURACY)
        solved = solved and past.waited > 0  # y has followed x and u has seen it
        if not solved:
            ready, past = self._ready(view, past, x, step, project, scales)
            if not ready:
                patient, past = self._patience(past, step)
                if patient:
                    return self._rest(past, x, step)
                if past.anchor is not None:
                    return self._back(past, past.anchor, step, project)
        value = view.upper_value(x, step.y_at) - step.correction
        past = dataclasses.replace(past, floor=ROUNDING * _eps(view) * abs(value))
        if past.anchor is None:
            patient, past = self._patience(past, step)
            if step.value_error > past.accuracy * abs(value) and patient and not solved:
                return self._rest(past, x, step)
        elif value > max(past.values) - self.SUFFICIENT * past.promised + 2 * step.value_error + past.floor:
            return self._back(past, past.anchor, step, project)
        return self._forward(past, x, step, value, project)._replace(solved=solved)

    def _ready(
        self, view: CountedProblem, past: Progress, x: Array, step: Directions, project: FeasibleSet, scales: Scales
    ) -> tuple[bool, Progress]:
        """Tell whether y and u are accurate enough here to judge the point and to leave it."""
        # u says nothing about a y that has not followed x yet
        if past.waited == 0 or step.value_error > max(past.accuracy * past.promised, past.floor):
            return False, past
        rounding = ROUNDING * _eps(view)
        if step.adjoint_residual > max(self.ACCURACY * step.upper_grad_norm, rounding * scales.upper_grad):
            return False, past
        gap = norm(view.lower_model(x, step.y_at).jvp(step.u_change))
        rate = min(gap / past.gap, self.SLOWEST_RATE) if past.gap > 0 else past.rate
        wanted = past.accuracy * norm(project.gradient_map(x, step.d_x))
        settled = gap * max(step.lag, 1 / (1 - rate)) <= max(wanted, rounding * norm(step.d_x))
        return settled, dataclasses.replace(past, gap=gap, rate=rate)

    def _patience(self, past: Progress, step: Directions) -> tuple[bool, Progress]:
        """Tell whether waiting has paid: every so often, the residuals of y and u must have shrunk."""
        residual = step.lower_grad_norm + step.adjoint_residual
        if past.waited % self.PATIENCE:
            return True, past
        paid = past.waited == 0 or residual <= self.PROGRESS * past.residual
        return paid, dataclasses.replace(past, residual=residual)

    def _rest(self, past: Progress, x: Array, step: Directions) -> Move:
        """Leave x where it is while y and u improve."""
        past = dataclasses.replace(past, waited=past.waited + 1)
        shown = None if past.anchor is None else past.anchor.iterate
        return Move(x, step.y, step.u, {**step.memory, "upper": past}, shown=shown)

    def _back(self, past: Progress, anchor: Anchor, step: Directions, project: FeasibleSet) -> Move:
        """Return to the last accepted point, to leave it with a quarter of the step or to evaluate it anew."""
        assert past.step is not None
        alpha = past.step / 4
        new = project(anchor.x - alpha * anchor.direction)
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
            unit = float(np.abs(anchor.x - new).max()) / self.GROWTH
            past = dataclasses.replace(past, accuracy=accuracy, anchor=None, values=(), unit=unit)
            new = anchor.x
        return Move(new, anchor.y, anchor.u, {**step.memory, "upper": past}, shown=anchor.iterate)

    def _forward(self, past: Progress, x: Array, step: Directions, value: float, project: FeasibleSet) -> Move:
        """Accept the current point and leave it along a quasi-Newton direction."""
        if past.anchor is not None:
            moved = x - past.anchor.x
            pairs = add_pair(past.pairs, moved, step.d_x - past.anchor.d_x)
            past = dataclasses.replace(past, pairs=pairs, unit=max(float(np.abs(moved).max()), self.TINY * past.unit))
        else:
            past = dataclasses.replace(past, unit=past.unit or max(1.0, 0.1 * float(np.abs(x).max())) / self.GROWTH)
        direction = quasi_newton_direction(x, step.d_x, past.pairs, self.GROWTH * past.unit, project)
        new = project(x - direction)
        anchor = Anchor(x, step.y, step.u, step.d_x, direction)
        past = dataclasses.replace(
            past,
            anchor=anchor,
            step=1.0,
            promised=float(step.d_x @ (x - new)),
            values=(*past.values, value + 2 * step.value_error)[-self.WINDOW :],
            failures=0,
            waited=0,
            gap=0.0,
        )
        return Move(new, step.y, step.u, {**step.memory, "upper": past}, shown=anchor.iterate)


def quasi_newton_direction(x: Array, d_x: Array, pairs: Pairs, limit: float, project: FeasibleSet) -> Array:
    """Return the direction of a move of x, of which no entry is larger than a limit where values have to tell.

    That of limited-memory BFGS in the coordinates that no bound holds; d_x where no pair has curvature, or where the
    move would promise no decrease.

    Parameters
    ----------
    x, d_x : ndarray
        The point and the hypergradient, (m,) each.
    pairs : tuple
        Changes of x and d_x, from `nbo.quasi_newton.add_pair`.
    limit : float
        Of the largest entry.
    project : FeasibleSet
        The feasible set of x.

    Returns
    -------
    ndarray
        (m,); the move goes to project(x - direction).
    """
    free = project.free(x, d_x)
    found = None if free is None else lbfgs_direction(d_x, pairs, free)
    if found is not None and float(d_x @ (x - project(x - found))) > 0:
        return found * min(1.0, limit / max(float(np.abs(found).max()), 1e-300))
    moving = d_x if free is None else np.where(free, d_x, 0.0)
    largest = float(np.abs(moving).max())
    if largest == 0:
        return moving
    alpha = limit / largest
    for s, r in pairs[-1:]:
        if float(s @ r) > 0:
            # on a curved set d_x is long where the moves are short, so that their size is no limit for it
            inverse_curvature = float(s @ s) / float(s @ r)
            alpha = inverse_curvature if free is None else min(alpha, inverse_curvature)
    return d_x * alpha


def _eps(view: CountedProblem) -> float:
    return float(np.finfo(view.dtype).eps)

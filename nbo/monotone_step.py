"""A projected quasi-Newton move of x that takes back whatever does not lower Phi by more than the errors."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._storable import storable
from nbo._vectors import norm
from nbo.feasible_sets import FeasibleSet
from nbo.oracles import CountedProblem
from nbo.quasi_newton import Pairs, add_pair
from nbo.upper_steps import ROUNDING, Anchor, Directions, Memory, Move, Scales, UpperStep, quasi_newton_direction

Array = npt.NDArray[Any]


@storable
@dataclasses.dataclass(frozen=True)
class MonotoneProgress:
    """What `MonotoneStep` remembers.

    Attributes
    ----------
    anchor : Anchor or None
        The last accepted point; None before the first one and while it is evaluated anew.
    value, slack : float
        The corrected value there, and its error.
    size, error : float
        The projected hypergradient norm there, and its error.
    step : float
        The last trial's factor of the direction.
    unit : float
        The largest entry of the last accepted move.
    pairs : tuple
        Changes of x and d_x between accepted points.
    promised : float
        The decrease d_x'(x - x_trial) that the last move promised; infinite before the first one.
    failures : int
        Rejected trials in a row.
    accuracy : float
        The factor of the accuracies of inner solutions, lowered where they were in doubt.
    lowest, least : float
        The lowest corrected value and the least projected hypergradient norm of accepted points.
    idle : int
        Trials in a row that made no progress: neither did F fall by more than its errors nor the least norm by a tenth.
    """

    anchor: Anchor | None = None
    value: float = np.inf
    slack: float = 0.0
    size: float = np.inf
    error: float = 0.0
    step: float = 1.0
    unit: float = 0.0
    pairs: Pairs = ()
    promised: float = np.inf
    failures: int = 0
    accuracy: float = 1.0
    lowest: float = np.inf
    least: float = np.inf
    idle: int = 0


def progress_of(memory: Memory) -> MonotoneProgress:
    """Return what the step remembers.

    Parameters
    ----------
    memory : mapping
        Of a method.

    Returns
    -------
    MonotoneProgress
        As at the start where there is nothing yet.
    """
    return memory.get("upper") or MonotoneProgress()


@dataclasses.dataclass(frozen=True)
class MonotoneStep(UpperStep):
    """x <- project(x - t p) with p a quasi-Newton direction, accepted where F falls by more than its errors.

    F = f(x, y) - u' grad_2 g differs from Phi(x) by a product of both inner residuals; what is left, and rounding, is
    its slack e. A trial is accepted if F <= F_0 - `SUFFICIENT` d_x'(x_0 - x) + e + e_0, with (x_0, F_0) the last
    accepted point. Where the promised decrease d_x'(x_0 - x) is below the slack, values cannot tell, and the projected
    hypergradient must not grow, up to its errors. A rejected trial is followed by one nearer to x_0, at the minimiser
    of the parabola through what is known, and y and u are restored. After `FAILURES` rejections in a row the accepted
    point itself is in doubt: it is evaluated anew with a tenth of the inner errors.

    The direction is that of limited-memory BFGS in the coordinates that no bound holds. The first move changes the
    largest entry by `FIRST`, whatever the units of f; later ones change it by at most `GROWTH` times as much as the
    last accepted one. Costs 1 upper_value a trial.
    """

    #: The largest entry of the first move: x is made of log penalties or logits, or the user scales it.
    FIRST = 1.0
    #: How much longer a move may be than the last accepted one; a very short one counts as `TINY`.
    GROWTH, TINY = 4.0, 1e-3
    #: The part of the promised decrease that must come true.
    SUFFICIENT = 1e-4
    #: Bounds of the factor by which a rejected step is shortened.
    SHORTEST, LONGEST = 0.1, 0.5
    #: Rejections in a row that put the accepted point in doubt, by which factor that tightens the inner solutions,
    FAILURES, TIGHTER = 4, 0.1
    #: and the tightest.
    TIGHTEST = 1e-6
    #: The part of the least projected hypergradient norm below which a norm counts as progress.
    SHRUNK = 0.9

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
        """Accept the point and leave it, or go back; see `UpperStep.move`."""
        past = progress_of(step.memory)
        value = view.upper_value(x, step.y_at) - step.correction
        slack = step.value_error + ROUNDING * float(np.finfo(view.dtype).eps) * abs(value)
        size = norm(project.gradient_map(x, step.d_x))
        if past.anchor is not None and not self._is_lower(past, value, slack, size - step.memory["error"]):
            return self.back(past, past.anchor, value, step.memory, project)
        return self._leave(past, x, step, value, slack, size, project)._replace(solved=solved)

    def _is_lower(self, past: MonotoneProgress, value: float, slack: float, least_size: float) -> bool:
        allowed = slack + past.slack
        if past.promised <= allowed and least_size > past.size + past.error:
            return False
        return value <= past.value - self.SUFFICIENT * past.promised + allowed

    def back(self, past: MonotoneProgress, anchor: Anchor, value: float, memory: Memory, project: FeasibleSet) -> Move:
        """Return to the last accepted point, to leave it by a shorter step or to evaluate it anew.

        Parameters
        ----------
        past : MonotoneProgress
            Before the rejected trial.
        anchor : Anchor
            The last accepted point.
        value : float
            F at the trial; infinite where it has none.
        memory : mapping
            To pass on.
        project : FeasibleSet
            The feasible set of x.

        Returns
        -------
        Move
            To the next trial.
        """
        failures = past.failures + 1
        if failures >= self.FAILURES and past.accuracy > self.TIGHTEST:
            accuracy = max(self.TIGHTER * past.accuracy, self.TIGHTEST)
            doubted = MonotoneProgress(
                unit=past.unit,
                pairs=past.pairs,
                accuracy=accuracy,
                lowest=past.lowest,
                least=past.least,
                idle=past.idle + 1,
            )
            return Move(anchor.x, anchor.y, anchor.u, {**memory, "upper": doubted}, shown=anchor.iterate)
        rise = value - past.value + past.promised
        factor = past.promised / (2 * rise) if np.isfinite(rise) and rise > 0 else self.SHORTEST
        t = past.step * min(max(factor, self.SHORTEST), self.LONGEST)
        new = project(anchor.x - t * anchor.direction)
        promised = float(anchor.d_x @ (anchor.x - new))
        past = dataclasses.replace(past, step=t, promised=promised, failures=failures, idle=past.idle + 1)
        return Move(new, anchor.y, anchor.u, {**memory, "upper": past}, shown=anchor.iterate)

    def _leave(
        self,
        past: MonotoneProgress,
        x: Array,
        step: Directions,
        value: float,
        slack: float,
        size: float,
        project: FeasibleSet,
    ) -> Move:
        """Accept the current point and leave it along a quasi-Newton direction."""
        pairs, unit = past.pairs, past.unit or self.FIRST / self.GROWTH
        if past.anchor is not None:
            moved = x - past.anchor.x
            pairs = add_pair(pairs, moved, step.d_x - past.anchor.d_x)
            unit = max(float(np.abs(moved).max()), self.TINY * unit)
        direction = quasi_newton_direction(x, step.d_x, pairs, self.GROWTH * unit, project)
        new = project(x - direction)
        anchor = Anchor(x, step.y, step.u, step.d_x, direction)
        promised = float(step.d_x @ (x - new))
        progress = value < past.lowest - slack - past.slack or size < self.SHRUNK * past.least
        kept = MonotoneProgress(
            anchor,
            value,
            slack,
            size,
            step.memory["error"],
            1.0,
            unit,
            pairs,
            promised,
            0,
            past.accuracy,
            min(past.lowest, value),
            min(past.least, size),
            0 if progress else past.idle + 1,
        )
        return Move(new, step.y, step.u, {**step.memory, "upper": kept}, shown=anchor.iterate)

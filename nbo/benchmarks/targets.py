"""Time to a target: a problem with a measure of x, and the run of a method that comes there first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import nbo
from nbo.experiments.steps import Steps
from nbo.problem import FiniteSumProblem

Array = np.ndarray[Any, Any]


class Goal(NamedTuple):
    """What to reach on a problem.

    Attributes
    ----------
    problem : FiniteSumProblem
        The problem.
    x0, y0 : ndarray
        Where every run starts.
    measure : callable
        Returns a function (x, y) -> value for one run, which may remember its last result to start from.
    wanted : float
        The value to reach.
    look : float
        Solver seconds between two looks at the value.
    """

    problem: FiniteSumProblem
    x0: Array
    y0: Array
    measure: Callable[[], Callable[[Array, Array], float]]
    wanted: float
    look: float


class Outcome(NamedTuple):
    """How far a run came.

    Attributes
    ----------
    diverged : bool
        Whether the run diverged, which counts for more than what it saw before.
    value : float
        The lowest value seen.
    seconds : float
        Solver time until the target; infinite if it was not reached.
    ended : float
        Solver time of the run.
    samples : int
        Component samples over all oracles.
    steps : Steps or None
        The steps; None if the method chose its own.
    converged : bool
        Whether the method ended by itself.
    """

    diverged: bool
    value: float
    seconds: float
    ended: float
    samples: int
    steps: Steps | None
    converged: bool

    @property
    def rank(self) -> tuple[bool, float, float]:
        """Least for the run that came lowest without diverging; of those that came as low, for the fastest one."""
        return self.diverged, self.value, self.seconds


class Rounds(NamedTuple):
    """How long runs may take.

    Attributes
    ----------
    first : float
        Solver seconds of every pair of steps in the first round.
    finalists : int
        How many of them go on to the second round, each as long as it may still be the fastest.
    longest : float
        Solver seconds of a run in the second round.
    total : float
        Solver seconds of both rounds after which no run begins.
    """

    first: float
    finalists: int
    longest: float
    total: float = np.inf


def reach(
    goal: Goal, method: str, steps: Steps | None, options: Mapping[str, Any], seconds: float,
    decay: tuple[float, float] = (0.0, 0.0),
) -> Outcome:  # fmt: skip
    """Run a method until it reaches the goal.

    Parameters
    ----------
    goal : Goal
        The goal.
    method : str
        The method.
    steps : Steps or None
        The step sizes; None lets the method choose.
    options : mapping
        Other options.
    seconds : float
        Of solver time at most.
    decay : tuple of float
        See `Steps.options`.

    Returns
    -------
    Outcome
        How far it came.
    """
    solver = nbo.methods()[method].solver
    measure, lowest, looked = goal.measure(), np.inf, -np.inf

    def look(x: Array, y: Array) -> bool:
        nonlocal lowest
        lowest = min(lowest, measure(x, y))
        return lowest <= goal.wanted

    def low_enough(intermediate_result: Any) -> bool:
        nonlocal looked
        if intermediate_result.seconds < looked + goal.look:
            return False
        looked = intermediate_result.seconds
        return look(intermediate_result.x, intermediate_result.y)

    result = nbo.minimize(
        goal.problem,
        goal.x0,
        y0=goal.y0,
        method=method,
        options=_evaluations(solver, goal.look)
        | ({} if steps is None else steps.options(solver, decay))
        | dict(options),
        max_iter=1 << 40,
        max_time=seconds,
        callback=low_enough,
        random_state=0,
    )
    diverged = result.status == nbo.Status.DIVERGED
    reached = lowest <= goal.wanted or (not diverged and look(result.x, result.y))
    samples = sum(result.samples.as_dict().values())
    converged = result.status == nbo.Status.CONVERGED
    return Outcome(diverged, lowest, result.seconds if reached else np.inf, result.seconds, samples, steps, converged)


def _evaluations(solver: type[Any], seconds: float) -> dict[str, Any]:
    """Return options by which f is evaluated by the clock, where a method has them."""
    return {"eval_every": 1 << 62, "eval_seconds": seconds} if hasattr(solver, "eval_seconds") else {}


def best_run(
    run: Callable[[Steps | None, float], Outcome], candidates: Sequence[Steps | None], rounds: Rounds
) -> tuple[Outcome, int]:
    """Return the best run of a method after two rounds.

    Parameters
    ----------
    run : callable
        (steps, seconds) -> outcome.
    candidates : sequence of Steps or None
        What to try; a single one enters the second round at once.
    rounds : Rounds
        How long.

    Returns
    -------
    outcome : Outcome
        Of the second round, the one that reached the goal first, else the one that came lowest.
    diverged : int
        How many candidates diverged in some round.
    """
    first = [run(steps, rounds.first) for steps in candidates] if len(candidates) > 1 else []
    order = [outcome.steps for outcome in sorted(first, key=lambda outcome: outcome.rank)] or list(candidates)
    used, final = sum(outcome.ended for outcome in first), list[Outcome]()
    for steps in order:
        final.append(run(steps, min([rounds.longest, *(outcome.seconds for outcome in final)])))
        used += final[-1].ended
        if sum(not outcome.diverged for outcome in final) == rounds.finalists or used >= rounds.total:
            break
    diverged = {outcome.steps for outcome in (*first, *final) if outcome.diverged}
    return min(final, key=lambda outcome: (outcome.seconds, outcome.rank)), len(diverged)

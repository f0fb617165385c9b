"""The initialisation before a run: its calls and seconds count as the method's, and it can be ended like a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._clock import Timer, compilation
from nbo.history import Status
from nbo.oracles import CountedProblem, OracleCounts, finite_or_named
from nbo.solvers.driver import Stop

if TYPE_CHECKING:
    from nbo.initialization import Initialization, Initializer
    from nbo.problem import BilevelProblem

Array = npt.NDArray[Any]


class Opening(NamedTuple):
    """What an initialisation leaves to the run.

    Attributes
    ----------
    y, u : ndarray
        Where the run starts, (n,) each.
    counts, samples : OracleCounts
        The calls, and the samples that they went over.
    seconds, compile_seconds : float
        The time without compilation, and that of compilation.
    outcome : Initialization or None
        What the routine returned; None if it was ended.
    stop : Stop or None
        Why it was ended.
    """

    y: Array
    u: Array
    counts: OracleCounts
    samples: OracleCounts
    seconds: float
    compile_seconds: float
    outcome: Initialization | None
    stop: Stop | None


def begin(
    routine: Initializer,
    problem: BilevelProblem,
    start: tuple[Array, Array, Array],
    bounds: Any,
    max_time: float,
    random_state: int,
) -> Opening:
    """Run an initialisation up to its end, a time limit or Ctrl-C.

    Parameters
    ----------
    routine : Initializer
        What to do.
    problem : BilevelProblem
        The problem.
    start : tuple of ndarray
        x, y and u.
    bounds : pair or None
        The region of x, for constants.
    max_time : float
        Seconds.
    random_state : int
        For routines that draw samples.

    Returns
    -------
    Opening
        The last y and u that were complete, and what they took.

    Raises
    ------
    NoConstantsError
        If the problem has no constants.
    TypeError, ValueError
        For constants that do not do, or an oracle that is not finite.
    """
    view, timer, compiled = CountedProblem(problem), Timer(), compilation.seconds
    (y, u), outcome, stop, n = start[1:], None, None, 0
    spent = 0.0
    with finite_or_named():
        try:
            steps = routine.steps(view, start, bounds, random_state)
            while True:
                before = y, u
                y, u = next(steps)
                n += y is not before[0] or u is not before[1]
                spent = timer.seconds()
                if spent >= max_time:
                    stop = Stop(
                        Status.TIME_LIMIT, _told(f"stopped at the time limit ({max_time:g} s of solver time)", n)
                    )
                    break
        except StopIteration as end:
            outcome = end.value
            y, u = (np.asarray(part, dtype=view.dtype) for part in (outcome.y, outcome.u))
        except KeyboardInterrupt:
            stop = Stop(Status.INTERRUPTED, _told("interrupted", n))
    seconds, compile_seconds = max(0.0, timer.seconds()), compilation.seconds - compiled
    return Opening(y, u, view.counts, view.samples, seconds, compile_seconds, outcome, stop)


def _told(what: str, steps: int) -> str:
    return (
        f"{what} in the initialisation, before the first iteration; x is x0, and y and u are those after its {steps} "
        "steps so far: go on with y0=res.y, u0=res.u"
    )

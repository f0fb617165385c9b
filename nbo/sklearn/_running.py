"""Runs of the solver within an estimator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

import nbo
from nbo.history import Status
from nbo.result import BilevelResult

if TYPE_CHECKING:
    from nbo.sklearn._stages import Stage


@dataclass
class Follower:
    """What the command follows a fit by, and what it hands from one to the next.

    Attributes
    ----------
    progress : callable or None
        Called as ``progress(stage, iteration, value)`` after every iteration.
    shared : Stage or None
        The finished shared stage of the same rows and folds, which is then not done again; set by every fit.
    """

    progress: Callable[[str, int, float], None] | None = None
    shared: Stage | None = None


def minimized(problem: nbo.BilevelProblem, x0: npt.ArrayLike, **settings: Any) -> BilevelResult:
    """Return what `nbo.minimize` does, but let Ctrl-C end the fit.

    Parameters
    ----------
    problem : BilevelProblem
        The problem.
    x0 : array_like
        The start, (m,).
    **settings
        Of `nbo.minimize`.

    Returns
    -------
    BilevelResult
        The outcome.

    Raises
    ------
    KeyboardInterrupt
        If the run was interrupted: the solver has caught it to hand over its state, and the person still wants to stop.
    """
    result = nbo.minimize(problem, x0, **settings)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return result

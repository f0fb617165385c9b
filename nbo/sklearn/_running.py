"""Runs of the solver within an estimator."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

import nbo
from nbo.history import Status
from nbo.result import BilevelResult


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

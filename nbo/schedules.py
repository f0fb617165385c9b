"""Step sizes as numbers or functions of the iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nbo._validation import real

#: A step size: a positive number, or a function of the iteration k = 0, 1, ... that returns one.
Schedule = float | Callable[[int], float]


def validate_schedule(name: str, schedule: Any) -> None:
    """Raise unless `schedule` is a positive number or a callable.

    Parameters
    ----------
    name : str
        The option, for messages.
    schedule : float or callable
        What was given.

    Raises
    ------
    TypeError, ValueError
        If it is neither.
    """
    if not callable(schedule):
        real(name, schedule, positive=True)


def step_at(name: str, schedule: Schedule, k: int) -> float:
    """Return the step size of iteration `k`.

    Parameters
    ----------
    name : str
        The option, for messages.
    schedule : float or callable
        A number, or a function k -> float.
    k : int
        The iteration, from 0.

    Returns
    -------
    float
        The step size, positive.

    Raises
    ------
    TypeError, ValueError
        If a callable returns what is no positive number.
    """
    if not callable(schedule):
        return float(schedule)
    value = schedule(k)
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    return real(f"{name} (the schedule at k = {k})", value, positive=True)

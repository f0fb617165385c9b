"""Step sizes as numbers or functions of the iteration."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._dual import dual
from nbo._storable import storable
from nbo._validation import fraction, real

Array = npt.NDArray[Any]

#: A step size: a positive number, or a function of the iteration k = 0, 1, ... that returns one.
Schedule = float | Callable[[int], float]
Check = Callable[[str, Schedule, int], float]


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
    _require_object(name, schedule, "PowerDecay(0.1)")
    if not callable(schedule):
        real(name, schedule, positive=True)
    elif type(schedule) is PowerRise:  # compiled loops compute it without a check
        step_at(name, schedule, 0)


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
    return real(f"{name} (the schedule at k = {k})", _number_at(name, schedule, k), positive=True)


@storable
@dataclasses.dataclass(frozen=True)
class PowerDecay:
    """The schedule scale / (k + 1)^exponent.

    Compiled loops compute it themselves, and a checkpoint keeps it, both unlike other callables.

    Parameters
    ----------
    scale : float
        The first value, positive.
    exponent : float
        At least 0; 0 is a constant.

    Examples
    --------
    >>> from nbo.schedules import PowerDecay
    >>> PowerDecay(0.5, exponent=0.5)(3)
    0.25
    """

    scale: float
    exponent: float = 0.5

    def __post_init__(self) -> None:
        real("scale", self.scale, positive=True)
        real("exponent", self.exponent, minimum=0.0)

    def __call__(self, k: int) -> float:
        """Return the value of iteration `k`.

        Parameters
        ----------
        k : int
            The iteration, from 0.

        Returns
        -------
        float
            scale / (k + 1)^exponent.
        """
        return power(float(self.scale), float(self.exponent), k)


@storable
@dataclasses.dataclass(frozen=True)
class PowerRise:
    """The schedule 1 - scale / (k + 1)^exponent, for weights of the past that tend to 1.

    Compiled loops compute it themselves, and a checkpoint keeps it, both unlike other callables.

    Parameters
    ----------
    scale : float
        In [0, 1]; the first value is 1 - scale.
    exponent : float
        At least 0.

    Examples
    --------
    >>> from nbo.schedules import PowerRise
    >>> PowerRise(1.0, exponent=0.5)(3)
    0.5
    """

    scale: float
    exponent: float = 2 / 3

    def __post_init__(self) -> None:
        fraction("scale", self.scale)
        real("exponent", self.exponent, minimum=0.0)

    def __call__(self, k: int) -> float:
        """Return the value of iteration `k`.

        Parameters
        ----------
        k : int
            The iteration, from 0.

        Returns
        -------
        float
            1 - scale / (k + 1)^exponent.
        """
        return 1.0 - power(float(self.scale), float(self.exponent), k)


class Values(NamedTuple):
    """A schedule as loops take it.

    Attributes
    ----------
    limit, scale, exponent : float
        Of limit + scale / (k + 1)^exponent.
    table : ndarray
        Values of the coming iterations, which count instead where there are any.
    """

    limit: float
    scale: float
    exponent: float
    table: Array


class LoopValues(NamedTuple):
    """The schedules of a loop.

    Attributes
    ----------
    inner : Values
        The inner step size.
    upper : Values
        The upper step size.
    weight : Values
        The weight of the past in momentum or an estimator.
    linear : Values
        The step size of a linear system of its own.
    """

    inner: Values
    upper: Values
    weight: Values
    linear: Values


@dual
def power(scale: float, exponent: float, k: int) -> float:
    """Return scale / (k + 1)^exponent.

    Parameters
    ----------
    scale : float
        The first value.
    exponent : float
        0 for a constant.
    k : int
        The iteration.

    Returns
    -------
    float
        The value.
    """
    return scale / (k + 1.0) ** exponent if exponent > 0 else scale


@dual
def value(values: Values, k: int, start: int) -> float:
    """Return the value of iteration k, where a table starts at `start`.

    Parameters
    ----------
    values : Values
        The schedule.
    k : int
        The iteration.
    start : int
        The iteration of the table's first entry.

    Returns
    -------
    float
        The value.
    """
    if values.table.shape[0] > 0:
        return values.table[k - start]
    return values.limit + power(values.scale, values.exponent, k)


def values_between(name: str, schedule: Schedule, start: int, stop: int, check: Check = step_at) -> Values:
    """Return a schedule for the iterations start .. stop - 1 of a loop.

    Parameters
    ----------
    name : str
        The option, for messages.
    schedule : float or callable
        What the user gave.
    start, stop : int
        The iterations; callables are called for each.
    check : callable
        Returns the checked value of one iteration.

    Returns
    -------
    Values
        Numbers, `PowerDecay` and `PowerRise` need no table.
    """
    if type(schedule) is PowerDecay:  # a subclass may have another __call__
        return Values(0.0, float(schedule.scale), float(schedule.exponent), np.empty(0))
    if type(schedule) is PowerRise:
        return Values(1.0, -float(schedule.scale), float(schedule.exponent), np.empty(0))
    if not callable(schedule):
        return Values(0.0, float(schedule), 0.0, np.empty(0))
    return Values(0.0, 0.0, 0.0, np.array([check(name, schedule, k) for k in range(start, stop)], dtype=np.float64))


def validate_weight(name: str, weight: Any) -> None:
    """Raise unless `weight` is a number in [0, 1] or a callable.

    Parameters
    ----------
    name : str
        The option, for messages.
    weight : float or callable
        What was given.

    Raises
    ------
    TypeError, ValueError
        If it is neither.
    """
    _require_object(name, weight, "PowerDecay(0.9)")
    largest = weight.scale if type(weight) is PowerDecay else weight
    if not callable(largest):
        fraction(name, largest)


def weight_at(name: str, weight: Schedule, k: int) -> float:
    """Return the weight of iteration `k`, from 0 to 1.

    Parameters
    ----------
    name : str
        The option, for messages.
    weight : float or callable
        A number, or a function k -> float.
    k : int
        The iteration, from 0.

    Returns
    -------
    float
        The weight.

    Raises
    ------
    TypeError, ValueError
        If a callable returns what is no such number.
    """
    return fraction(f"{name} (the schedule at k = {k})", _number_at(name, weight, k))


def _require_object(name: str, schedule: Any, example: str) -> None:
    """Raise if a class was given, which is callable as well."""
    if isinstance(schedule, type):
        raise TypeError(f"{name}: found the class {schedule.__name__}; expected an object such as {example}")


def _number_at(name: str, schedule: Schedule, k: int) -> Any:
    """Return what a schedule gives for one iteration; an array of one number stands for the number."""
    try:
        found = schedule(k) if callable(schedule) else schedule
    except Exception as error:
        error.add_note(f"in {name} (the schedule at k = {k})")
        raise
    return found.item() if isinstance(found, np.ndarray) and found.size == 1 else found

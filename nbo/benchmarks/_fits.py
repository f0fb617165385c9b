"""Fits with their time, and what they are worth on the test rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from nbo._clock import compilation
from nbo.benchmarks._estimator_models import Model
from nbo.benchmarks._real_sets import Rows
from nbo.tuning.baseline import unfinished_fits

_T = TypeVar("_T")


class Timed(NamedTuple):
    """How long something took.

    Attributes
    ----------
    seconds : float
        By the clock, without compilation.
    compile_seconds : float
        What compilation took besides.
    unfinished : int
        Warnings of fits that had not converged.
    """

    seconds: float
    compile_seconds: float
    unfinished: int


class Fit(NamedTuple):
    """A model on a split.

    Attributes
    ----------
    data : str
        The set.
    seed : int
        Of the split.
    criterion, model : str
        How penalties were chosen, and by whom.
    loss : float
        Mean log-loss or squared error on the test rows.
    error : float
        Share of wrong labels on the test rows, or of the variance that is left.
    seconds, compile_seconds : float
        As in `Timed`.
    unfinished : int
        As in `Timed`.
    """

    data: str
    seed: int
    criterion: str
    model: str
    loss: float
    error: float
    seconds: float
    compile_seconds: float
    unfinished: int


class Failure(NamedTuple):
    """A model that could not be fitted.

    Attributes
    ----------
    data : str
        The set.
    seed : int
        Of the split.
    criterion, model : str
        As in `Fit`.
    reason : str
        The error.
    """

    data: str
    seed: int
    criterion: str
    model: str
    reason: str


def timed(work: Callable[[], _T]) -> tuple[_T, Timed]:
    """Run something by the clock.

    Parameters
    ----------
    work : callable
        What to run.

    Returns
    -------
    tuple
        What it returned, and its times.
    """
    found: list[_T] = []
    compiled, start = compilation.seconds, time.perf_counter()
    unfinished = unfinished_fits(lambda: found.append(work()))
    compiling = compilation.seconds - compiled
    return found[0], Timed(time.perf_counter() - start - compiling, compiling, unfinished)


def fits(data: str, seed: int, rows: Rows, taking_part: list[Model]) -> Iterator[Fit | Failure]:
    """Fit models one after the other.

    Parameters
    ----------
    data : str
        The name of the set.
    seed : int
        Of the split.
    rows : Rows
        The split.
    taking_part : list of Model
        Who.

    Yields
    ------
    Fit or Failure
        One a model. An error ends the one fit only.
    """
    for model in taking_part:
        try:
            fitted, times = timed(lambda model=model: model.fit(rows))  # type: ignore[misc]
            loss, error = quality(fitted, rows)
            seconds, compiling, unfinished = times
            yield Fit(data, seed, model.criterion, model.name, loss, error, seconds, compiling, unfinished)
        except (ArithmeticError, TypeError, ValueError) as failed:
            yield Failure(data, seed, model.criterion, model.name, f"{type(failed).__name__}: {failed}")


def quality(fitted: Any, rows: Rows) -> tuple[float, float]:
    """Return loss and error on the test rows.

    Parameters
    ----------
    fitted : estimator
        A classifier or regressor.
    rows : Rows
        The split.

    Returns
    -------
    tuple of float
        Mean log-loss and share of wrong labels, or mean squared error and its ratio to the targets' variance.
    """
    from sklearn.metrics import log_loss, mean_squared_error

    predicted = fitted.predict(rows.X_test)
    if rows.task == "regression":
        loss = float(mean_squared_error(rows.y_test, predicted))
        return loss, loss / float(np.var(rows.y_test))
    probabilities = fitted.predict_proba(rows.X_test)
    loss = float(log_loss(rows.y_test, probabilities, labels=np.unique(rows.y_all)))
    return loss, float(np.mean(predicted != rows.y_test))

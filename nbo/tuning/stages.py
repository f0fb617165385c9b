"""The tuning stages: a start without tuning, one shared penalty, one penalty per feature.

The problem of every stage has the log penalty of the intercept as the last entry of x. Its bounds hold it at
the lower end of the box, where it is a penalty in name only.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import nbo
from nbo._clock import compilation
from nbo.lower_level import LowerSolution, solve_lower_level
from nbo.oracles import OracleCounts
from nbo.problems import BinaryLogistic
from nbo.result import BilevelResult
from nbo.tuning import notes
from nbo.tuning.data import TuningData
from nbo.tuning.models import FittedModel, measured, row_losses

#: Called as ``progress(stage, iteration, value)`` after every evaluated iteration.
Progress = Callable[[str, int, float], None]

#: The box of x is C in [e^-12 / n, e^9.2 = 1e4] in scikit-learn's units.
_LOWER, UPPER = -9.2, 12.0

#: The gradient in a log penalty vanishes with the penalty: per-feature tuning starts no lower than this.
_FEATURE_START = -14.0

#: Width in x of the prior around the shared penalty; without it, the validation rows are overfitted.
PRIOR_SCALE = 1.0

#: On the three norms of a stage.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Settings:
    """What a user may choose about the solver.

    Attributes
    ----------
    method : str or solver
        As in :func:`nbo.minimize`.
    seed : int
        Of stochastic methods.
    max_iter : int or None
        Iteration limit of each stage.
    progress : callable or None
        Called as ``progress(stage, iteration, value)``.
    """

    method: Any = "auto"
    seed: int = 0
    max_iter: int | None = None
    progress: Progress | None = None


@dataclass(frozen=True, eq=False)
class Stage:
    """A finished stage.

    Attributes
    ----------
    name : str
        ``shared`` or ``per-feature``.
    x, y : ndarray
        The tuned log penalties, the intercept's last, and the accurate fit on the training rows.
    result : BilevelResult
        What the solver returned.
    fit_counts : OracleCounts
        Oracle calls of that fit and of the model's refit; `result` has the others.
    model : FittedModel
        The model refitted with these penalties.
    remark : str
        What is odd about the penalties, or nothing.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    result: BilevelResult
    fit_counts: OracleCounts
    model: FittedModel
    remark: str = ""

    def __repr__(self) -> str:
        return f"<Stage {self.name}: {self.result.status} after {self.result.nit} iterations>"


def untuned(data: TuningData) -> FittedModel:
    """Fit with scikit-learn's default C = 1, that is e^x = 1 / n_train.

    Parameters
    ----------
    data : TuningData
        The split.

    Returns
    -------
    FittedModel
        The model that tuning starts from.
    """
    x, groups = _untuned_x(data), _shared_groups(data)
    problem = _problem(data, groups)  # outside the timer: the first problem imports the compiler
    timer = _Timer()
    fit = solve_lower_level(problem, x)
    refit = _refit(data, groups, x, fit.y)
    return _model("untuned", data, x, fit, refit, timer.seconds(), fit.counts + refit.counts)


def tune_shared(data: TuningData, settings: Settings) -> Stage:
    """Tune one penalty for all features.

    Parameters
    ----------
    data : TuningData
        The split.
    settings : Settings
        Method, seed, limit and progress.

    Returns
    -------
    Stage
        The stage ``shared``, whose x has two entries.
    """
    groups = _shared_groups(data)
    stage = _run("shared", data, settings, _problem(data, groups), groups, x0=_untuned_x(data))
    lower, upper = _bounds(data, 2)
    remark = notes.at_end_of_range(stage.x[0], lower[0], upper[0], len(data.train.b))
    return dataclasses.replace(stage, remark=remark)


def tune_features(data: TuningData, settings: Settings, shared: Stage) -> Stage:
    """Tune one penalty per feature, from the shared one and under a prior around it.

    Parameters
    ----------
    data : TuningData
        The split.
    settings : Settings
        Method, seed, limit and progress.
    shared : Stage
        The finished shared stage.

    Returns
    -------
    Stage
        The stage ``per-feature``, whose x has p + 1 entries.
    """
    groups = np.arange(data.n_features + 1)
    center = shared.x[_shared_groups(data)]
    problem = _problem(data, groups, prior=(center, PRIOR_SCALE))
    x0 = np.clip(np.maximum(center, _FEATURE_START), *_bounds(data, len(groups)))
    stage = _run("per-feature", data, settings, problem, groups, x0=x0, warm=shared)
    # A stage that stopped early has its note already.
    remark = notes.unmoved(stage.x[:-1], shared.x[0]) if stage.result.success else ""
    return dataclasses.replace(stage, remark=remark)


def _run(
    name: str,
    data: TuningData,
    settings: Settings,
    problem: BinaryLogistic,
    groups: np.ndarray,
    *,
    x0: np.ndarray,
    warm: Stage | None = None,
) -> Stage:
    timer = _Timer()
    result = nbo.minimize(
        problem,
        x0,
        y0=None if warm is None else warm.y,
        u0=None if warm is None else warm.result.u,
        method=settings.method,
        tol=TOLERANCE,
        max_iter=settings.max_iter,
        callback=_callback(name, settings.progress),
        random_state=settings.seed,
    )
    x = result.x
    fit = solve_lower_level(problem, x, y0=result.y)
    refit = _refit(data, groups, x, fit.y)
    fit_counts = fit.counts + refit.counts
    counts = result.counts + result.evaluation_counts + fit_counts
    seconds = timer.seconds()
    if warm is not None and warm.model.counts is not None:
        seconds, counts = seconds + warm.model.seconds, counts + warm.model.counts
    unfinished = [] if result.success else [notes.unfinished(name, result, TOLERANCE)]
    model = _model(name, data, x, fit, refit, seconds, counts, unfinished)
    return Stage(name, x, fit.y, result, fit_counts, model)


def _refit(data: TuningData, groups: np.ndarray, x: np.ndarray, y: np.ndarray) -> LowerSolution:
    """Fit training and validation rows at the same C: a mean over more rows needs a smaller e^x."""
    rows, validation = data.development, data.validation
    problem = BinaryLogistic(rows.A, rows.b, validation.A, validation.b, penalty=groups, bounds=(-np.inf, np.inf))
    return solve_lower_level(problem, x + np.log(len(data.train.b) / len(rows.b)), y0=y)


def _model(
    name: str,
    data: TuningData,
    x: np.ndarray,
    fit: LowerSolution,
    refit: LowerSolution,
    seconds: float,
    counts: OracleCounts,
    unfinished: Sequence[str] = (),
) -> FittedModel:
    inexact = [
        f"{name}: a fit ended at gradient norm {found.grad_norm:.1e}, where rounding allowed no progress"
        for found in (fit, refit)
        if not found.success
    ]
    return measured(
        name,
        data,
        log_penalties=x[:-1],
        y=refit.y,
        validation_loss=float(row_losses(data.validation, fit.y).mean()),
        seconds=seconds,
        counts=counts,
        notes=[*unfinished, *inexact],
    )


def _problem(data: TuningData, groups: np.ndarray, prior: tuple[np.ndarray, float] | None = None) -> BinaryLogistic:
    train, validation = data.train, data.validation
    return BinaryLogistic(
        train.A,
        train.b,
        validation.A,
        validation.b,
        penalty=groups,
        prior=prior,
        bounds=_bounds(data, int(groups.max()) + 1),
    )


def _shared_groups(data: TuningData) -> np.ndarray:
    return np.append(np.zeros(data.n_features, dtype=np.intp), 1)


def _bounds(data: TuningData, dim_x: int) -> tuple[np.ndarray, np.ndarray]:
    lower = np.full(dim_x, _LOWER - np.log(len(data.train.b)))
    upper = np.full(dim_x, UPPER)
    upper[-1] = lower[-1]
    return lower, upper


def _untuned_x(data: TuningData) -> np.ndarray:
    lower, _ = _bounds(data, 2)
    return np.array([-np.log(len(data.train.b)), lower[-1]])


def _callback(name: str, progress: Progress | None) -> Callable[..., None] | None:
    if progress is None:
        return None

    def report(intermediate_result: Any) -> None:
        progress(name, intermediate_result.nit, intermediate_result.fun)

    return report


class _Timer:
    """Wall time since its creation, without compilation."""

    def __init__(self) -> None:
        self._start, self._compiled = time.perf_counter(), compilation.seconds

    def seconds(self) -> float:
        return time.perf_counter() - self._start - (compilation.seconds - self._compiled)

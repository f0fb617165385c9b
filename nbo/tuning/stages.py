"""The searches: one shared penalty, and finer ones from there, by the estimators of `nbo.sklearn`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nbo._clock import Timer
from nbo.result import BilevelResult
from nbo.tuning import notes
from nbo.tuning.data import TuningData
from nbo.tuning.models import FittedModel, measured

if TYPE_CHECKING:
    from nbo.sklearn import StageReport

#: Called as ``progress(stage, iteration, value)`` after every evaluated iteration.
Progress = Callable[[str, int, float], None]

#: What a search is called by its penalty.
NAMES = {
    "shared": "shared",
    "feature": "per-feature",
    "class": "per-class",
    "class-feature": "per-class-and-feature",
}


@dataclass(frozen=True)
class Settings:
    """What a user may choose about the searches.

    Attributes
    ----------
    prior : "auto", float or None
        The ``penalty_prior`` of the estimators.
    seed : int
        Of what is random in them.
    max_iter : int or None
        Iteration limit of each search; None for the one of the estimators.
    progress : callable or None
        Called as ``progress(stage, iteration, value)``.
    """

    prior: Any = "auto"
    seed: int = 0
    max_iter: int | None = None
    progress: Progress | None = None


@dataclass(frozen=True, eq=False)
class Stage:
    """A finished search.

    Attributes
    ----------
    name : str
        ``shared``, or ``per-feature`` and other finer ones.
    estimator : estimator
        The fitted :class:`nbo.sklearn.BilevelLogisticRegression` or :class:`nbo.sklearn.BilevelRidge`; it acts on
        scaled columns.
    result : BilevelResult
        What the solver returned.
    report : nbo.sklearn.StageReport
        How it went.
    model : FittedModel
        The model with the penalties that were found.
    remark : str
        What is odd about the penalties, or nothing.
    """

    name: str
    estimator: Any
    result: BilevelResult
    report: StageReport
    model: FittedModel
    remark: str = ""

    def __repr__(self) -> str:
        return f"<Stage {self.name}: {self.result.status} after {self.result.nit} iterations>"


class Searches:
    """The searches on one data set, each from the end of the first.

    Parameters
    ----------
    data : TuningData
        The rows.
    settings : Settings
        What was chosen.
    """

    def __init__(self, data: TuningData, settings: Settings) -> None:
        from nbo.sklearn._running import Follower

        self.data, self.settings = data, settings
        self._follower = Follower()
        self._before: FittedModel | None = None

    def tuned(self, penalty: str) -> Stage:
        """Fit an estimator.

        Parameters
        ----------
        penalty : str
            ``"shared"``, which comes first, or a finer one.

        Returns
        -------
        Stage
            The finished search.

        Raises
        ------
        KeyboardInterrupt
            If Ctrl-C arrives before its end.
        """
        name, timer = NAMES[penalty], Timer()
        estimator, inexact = self._fitted(penalty, name)
        seconds, result, report = timer.seconds(), estimator.result_, estimator.report_.stages[-1]
        counts = report.counts
        if self._before is not None and self._before.counts is not None:
            seconds, counts = seconds + self._before.seconds, counts + self._before.counts
        unfinished = [] if result.success else [notes.unfinished(name, result)]
        model = measured(
            name,
            self.data,
            estimator,
            log_penalties=estimator.log_penalty_,
            validation_loss=_held_out_loss(estimator.report_),
            seconds=seconds,
            counts=counts,
            notes=[*unfinished, *inexact],
        )
        remark = self._remark(name, model, bool(result.success), estimator._units.log_penalty)
        if penalty == "shared":
            self._before = model
        return Stage(name, estimator, result, report, model, remark)

    def _fitted(self, penalty: str, name: str) -> tuple[Any, list[str]]:
        """Return the fitted estimator, and notes on fits that were not exact."""
        from nbo.sklearn import BilevelLogisticRegression, BilevelRidge

        kind: Any = BilevelRidge if self.data.task == "regression" else BilevelLogisticRegression
        limit = {} if self.settings.max_iter is None else {"max_iter": self.settings.max_iter}
        estimator = kind(
            penalty,
            cv=self.data.folds,
            penalty_prior=self.settings.prior,
            random_state=self.settings.seed,
            **limit,
        )
        told = self.settings.progress
        self._follower.progress = None if told is None else lambda _, nit, value: told(name, nit, value)
        estimator._follower = self._follower
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            estimator.fit(*self.data.development)
        del estimator._follower
        # the other warnings of the estimators are notes here, in the words of the command
        return estimator, [f"{name}: {w.message}" for w in caught if str(w.message).startswith("the final fit")]

    def _remark(self, name: str, model: FittedModel, success: bool, unit: float) -> str:
        """Say what is odd about penalties; `unit` makes those of the fitted problem the ones of the model."""
        shared = self._follower.shared
        assert shared is not None  # every fit leaves it
        x = model.log_penalties
        if name == "shared":
            return notes.at_end_of_range(x[0], shared.lower + unit, shared.upper + unit, self.data)
        if not success:  # there is a note already
            return ""
        moved_from = float(shared.result.x[0]) + unit
        return notes.unmoved(name, x, moved_from) or notes.at_weakest(name, x, shared.lower + unit)


def _held_out_loss(report: Any) -> float:
    loss = report.shared_loss if report.finer_loss is None else report.finer_loss
    return float(2 * loss if report.loss_name == "half squared error" else loss)


def strengths(stage: Stage) -> tuple[str, np.ndarray]:
    """Return what scikit-learn calls the strengths of the penalties, and their values.

    Parameters
    ----------
    stage : Stage
        A finished search.

    Returns
    -------
    name : str
        ``"C"`` or ``"alpha"``.
    values : ndarray
        One a penalty.
    """
    if hasattr(stage.estimator, "C_"):
        return "C", stage.estimator.C_
    return "alpha", stage.estimator.alpha_

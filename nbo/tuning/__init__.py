"""Tuning of logistic regression penalties on one data set, from split to verdict."""

from __future__ import annotations

from typing import Any

from nbo._clock import compilation
from nbo._validation import choice, integer
from nbo.datasets import BinaryTable
from nbo.history import Status
from nbo.tuning import baseline, stages
from nbo.tuning.comparison import verdict
from nbo.tuning.data import TuningData, prepare
from nbo.tuning.models import FittedModel
from nbo.tuning.notes import constant_columns, empty_columns
from nbo.tuning.report import ORDER, TuneReport
from nbo.tuning.stages import Progress, Settings, Stage

__all__ = ["PENALTIES", "FittedModel", "Stage", "TuneReport", "tune"]

#: What `penalty` may be.
PENALTIES = ("feature", "shared")


def tune(
    dataset: BinaryTable,
    *,
    penalty: str = "feature",
    method: Any = "auto",
    seed: int = 0,
    max_iter: int | None = None,
    progress: Progress | None = None,
) -> TuneReport:
    """Tune the penalties of a logistic regression and compare the result with simpler choices.

    The rows are split 60/20/20 into training, validation and test rows, stratified by label. One shared
    penalty is tuned on the validation loss; for ``penalty="feature"``, one penalty per feature follows from
    there, under a Gaussian prior of scale 1 around the shared log penalty. Every model is refitted on
    training and validation rows and measured on the test rows, beside an untuned model (C = 1) and
    ``LogisticRegressionCV``.

    Parameters
    ----------
    dataset : BinaryTable
        From :func:`nbo.datasets.read_binary`.
    penalty : {"feature", "shared"}
        How far to tune.
    method : str or solver
        As in :func:`nbo.minimize`.
    seed : int
        Seed of the split and of stochastic methods, at least 0.
    max_iter : int, optional
        Iteration limit of each stage.
    progress : callable, optional
        Called as ``progress(stage, iteration, value)`` after evaluated iterations. The value is that of the
        upper level, which in the per-feature stage includes the prior.

    Returns
    -------
    TuneReport
        Models, histories and verdict. After Ctrl-C it holds what was ready and says so.

    Raises
    ------
    DataError
        If a label has too few rows, or a column is too large or too small to be scaled.
    KeyboardInterrupt
        If Ctrl-C arrives before any model is ready.
    """
    choice("penalty", penalty, PENALTIES)
    settings = Settings(
        method, integer("seed", seed), None if max_iter is None else integer("max_iter", max_iter), progress
    )
    data = prepare(dataset, settings.seed)
    compiled = compilation.seconds
    work, interrupted = _Work(data, settings), False
    try:
        work.do(penalty)
    except KeyboardInterrupt:
        if not work.models:
            raise
        interrupted = True
    models = sorted(work.models, key=lambda model: ORDER.index(model.name))
    chosen = {"penalty": penalty, "method": method, "seed": settings.seed, "max_iter": settings.max_iter}
    notes = [note for model in models for note in model.notes]
    notes += [empty_columns(dataset.columns), constant_columns(data.constant, dataset.feature_names)]
    notes += [stage.remark for stage in work.stages]
    return TuneReport(
        dataset,
        data,
        chosen,
        tuple(models),
        tuple(work.stages),
        tuple(note for note in notes if note),
        interrupted,
        verdict(models, interrupted),
        compilation.seconds - compiled,
    )


class _Work:
    """The steps of :func:`tune`; what is finished survives an interruption."""

    def __init__(self, data: TuningData, settings: Settings) -> None:
        self.data, self.settings = data, settings
        self.models: list[FittedModel] = []
        self.stages: list[Stage] = []

    def do(self, penalty: str) -> None:
        self.models.append(stages.untuned(self.data))
        self._keep(stages.tune_shared(self.data, self.settings))
        if penalty == "feature":
            self._keep(stages.tune_features(self.data, self.settings, self.stages[-1]))
        self.models.append(baseline.logistic_regression_cv(self.data))

    def _keep(self, stage: Stage) -> None:
        self.stages.append(stage)
        self.models.append(stage.model)
        if stage.result.status is Status.INTERRUPTED:
            # The solver has caught Ctrl-C to hand over its state; the person still wants to stop.
            raise KeyboardInterrupt

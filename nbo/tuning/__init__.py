"""Tuning of the penalties of a linear model on one data set, from split to verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbo._clock import compilation
from nbo._validation import choice, integer, real
from nbo.datasets import BinaryTable, TaskTable
from nbo.tuning import baseline, notes, stages
from nbo.tuning.comparison import verdict
from nbo.tuning.data import TuningData, prepare
from nbo.tuning.models import FINER, FittedModel
from nbo.tuning.report import TuneReport
from nbo.tuning.stages import NAMES, Progress, Settings, Stage

__all__ = ["PENALTIES", "FittedModel", "Stage", "TuneReport", "tune"]

#: What `penalty` may be, by the task.
PENALTIES = {
    "binary": ("feature", "shared"),
    "multiclass": ("feature", "shared", "class", "class-feature"),
    "regression": ("feature", "shared"),
}


def tune(
    dataset: TaskTable | BinaryTable,
    *,
    penalty: str = "feature",
    cv: int = 5,
    prior: Any = "auto",
    seed: int = 0,
    max_iter: int | None = None,
    progress: Progress | None = None,
) -> TuneReport:
    """Tune the penalties of a linear model and compare the result with simpler choices.

    A fifth of the rows is set aside to compare the models. On the others, one shared penalty is tuned by the loss of
    held-out rows, and finer penalties follow from there, under a prior around it. That is what the estimators of
    :mod:`nbo.sklearn` do. Beside them stand an untuned model (C = 1 or alpha = 1) and scikit-learn's search over ten
    strengths on the same folds.

    Parameters
    ----------
    dataset : TaskTable or BinaryTable
        From :func:`nbo.datasets.read_table` or :func:`nbo.datasets.read_binary`.
    penalty : {"feature", "shared", "class", "class-feature"}
        How far to tune: one penalty for all coefficients, or from there one a feature or, with three classes or more,
        one a class or one a coefficient.
    cv : int
        Number of folds; 1 for a single split that holds out a quarter.
    prior : "auto", float or None
        The width of the prior, ``penalty_prior`` of the estimators.
    seed : int
        Seed of the shuffles, from 0.
    max_iter : int, optional
        Iteration limit of each search, at least 1; by default the one of the estimators.
    progress : callable, optional
        Called as ``progress(stage, iteration, value)`` after evaluated iterations. The value is that of the
        upper level, which for finer penalties includes the prior.

    Returns
    -------
    TuneReport
        Models, histories and verdict. After Ctrl-C it holds what was ready and says so.

    Raises
    ------
    DataError
        If there are too few rows, or a column is too large or too small to be scaled.
    KeyboardInterrupt
        If Ctrl-C arrives before any model is ready.
    TypeError, ValueError
        For bad settings.
    """
    table = TaskTable.from_binary(dataset) if isinstance(dataset, BinaryTable) else dataset
    chosen = {
        "penalty": choice(f"penalty of {table.task} data", penalty, PENALTIES[table.task]),
        "cv": integer("cv", cv, minimum=1),
        "prior": prior if prior in ("auto", None) else real("prior", prior, positive=True),
        "seed": integer("seed", seed, maximum=2**32 - 1),
        "max_iter": None if max_iter is None else integer("max_iter", max_iter, minimum=1),
    }
    data = prepare(table, cv, seed)
    compiled = compilation.seconds
    work = _Work(data, Settings(chosen["prior"], seed, max_iter, progress))
    interrupted = work.interrupted(penalty)
    models = sorted(work.models, key=lambda model: model.rank)
    return TuneReport(
        table,
        data,
        chosen,
        tuple(models),
        tuple(work.stages),
        _notes(table, work, models, interrupted),
        interrupted,
        verdict(models, interrupted),
        compilation.seconds - compiled,
    )


def _notes(table: TaskTable, work: _Work, models: Sequence[FittedModel], interrupted: bool) -> tuple[str, ...]:
    """Return what the reader of the table should know besides it."""
    said = [note for model in models for note in model.notes]
    said += [notes.interrupted(work.doing)] if interrupted else []
    said += [
        f"data: {table.taken}" if table.taken else "",
        notes.empty_columns(table.columns),
        notes.constant_columns(work.data.constant, table.feature_names),
    ]
    said += [*work.data.notes, *(stage.remark for stage in work.stages)]
    free = work.settings.prior is None
    said += [notes.without_prior(model.name) for model in models if free and model.rank == FINER]
    return tuple(note for note in said if note)


class _Work:
    """The steps of :func:`tune`; what is finished survives an interruption."""

    def __init__(self, data: TuningData, settings: Settings) -> None:
        self.data, self.settings = data, settings
        self.models: list[FittedModel] = []
        self.stages: list[Stage] = []
        self.doing = ""

    def interrupted(self, penalty: str) -> bool:
        """Do all of it, and tell whether Ctrl-C has ended it."""
        try:
            self._do(penalty)
        except KeyboardInterrupt:
            if not self.models:
                raise
            return True
        return False

    def _do(self, penalty: str) -> None:
        self.models.append(baseline.untuned(self.data))
        searches = stages.Searches(self.data, self.settings)
        for word in dict.fromkeys(("shared", penalty)):
            self.doing = NAMES[word]
            stage = searches.tuned(word)
            self.stages.append(stage)
            self.models.append(stage.model)
        self.doing = "scikit-learn's search"
        self.models.append(baseline.grid_search(self.data))

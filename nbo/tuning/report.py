"""What tuning found: the table of models and a plain verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nbo.datasets import Dataset
from nbo.tuning.data import TuningData
from nbo.tuning.models import FittedModel
from nbo.tuning.stages import Stage

#: Order of the rows; the verdict compares each of the last two with the one before it.
ORDER = ("untuned", "LogisticRegressionCV", "shared", "per-feature")

_COUNTED = {"f'": "upper_grad", "g'": "lower_grad_y", "Hv": "lower_hvp", "Ju": "lower_jvp"}


@dataclass(frozen=True, eq=False)
class TuneReport:
    """The outcome of :func:`nbo.tuning.tune`.

    Attributes
    ----------
    dataset : Dataset
        What was tuned on.
    data : TuningData
        Its split and scaling.
    settings : dict
        ``penalty``, ``method``, ``seed`` and ``max_iter`` as given.
    models : tuple of FittedModel
        One row of the table each.
    stages : tuple of Stage
        The finished tuning stages, in order.
    notes : tuple of str
        What the reader of the table should know, such as a stage that stopped early.
    interrupted : bool
        Whether Ctrl-C cut the work short.
    verdict : str
        One line: which model is best on the test rows, and whether clearly.
    compile_seconds : float
        Time for compilation, which `seconds` of the models leave out.
    """

    dataset: Dataset
    data: TuningData
    settings: dict[str, object]
    models: tuple[FittedModel, ...]
    stages: tuple[Stage, ...]
    notes: tuple[str, ...]
    interrupted: bool
    verdict: str
    compile_seconds: float

    def table(self) -> str:
        """Return the table of models, its legend and the notes.

        Returns
        -------
        str
            Lines of text.
        """
        header = ["model", "validation loss", "test loss", "accuracy", "seconds", *_COUNTED]
        lines = _aligned([header, *(_row(model) for model in self.models)])
        lines.insert(1, "-" * len(lines[0]))
        return "\n".join([*lines, *_legend(self), *(f"note: {note}" for note in self.notes)])


def verdict(models: Sequence[FittedModel], interrupted: bool = False) -> str:
    """Say which model has the lowest test loss, and whether the differences are clear.

    A difference is clear if it exceeds one standard error of the paired differences of the row losses.

    Parameters
    ----------
    models : sequence of FittedModel
        At least one model, all measured on the same test rows.
    interrupted : bool
        Whether some models are missing or unfinished.

    Returns
    -------
    str
        One line.
    """
    best = min(models, key=lambda model: model.test_loss)
    close = [m.name for m in models if m is not best and not _difference(m, best).clear]
    figures = f"test loss {_loss(best.test_loss)}, accuracy {best.accuracy:.2%}"
    if close:
        near = " and ".join(part for part in (", ".join(close[:-1]), close[-1]) if part)
        head = f"No clear winner: {best.name} has the lowest {figures}, but no clear lead over {near}"
    else:
        head = f"Best on the test rows: {best.name} ({figures})"
    by_name = {model.name: model for model in models}
    pairs = [
        (new, old)
        for new, old in (("per-feature", "shared"), ("shared", "LogisticRegressionCV"))
        if new in by_name and old in by_name
    ]
    said = [head] + [_comparison(by_name[new], by_name[old]) for new, old in pairs]
    return ("Interrupted; so far: " if interrupted else "") + "; ".join(said) + "."


@dataclass(frozen=True)
class _Difference:
    mean: float
    standard_error: float

    @property
    def clear(self) -> bool:
        return abs(self.mean) > self.standard_error

    def __str__(self) -> str:
        return f"{self.mean:+.2g}, standard error {self.standard_error:.1g}"


def _difference(new: FittedModel, old: FittedModel) -> _Difference:
    rows = new.test_losses - old.test_losses
    error = float(rows.std(ddof=1) / np.sqrt(len(rows))) if len(rows) > 1 else np.inf
    return _Difference(float(rows.mean()), error)


def _comparison(new: FittedModel, old: FittedModel) -> str:
    difference = _difference(new, old)
    if not difference.clear:
        said = "shows no clear difference from"
    else:
        said = "beats" if difference.mean < 0 else "does not beat"
    return f"{new.name} {said} {old.name} ({_loss(new.test_loss)} against {_loss(old.test_loss)}; {difference})"


def _loss(value: float) -> str:
    return f"{value:#.4g}"


def _aligned(rows: list[list[str]]) -> list[str]:
    """Lines of equal columns, the first one flush left and numbers flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]


def _row(model: FittedModel) -> list[str]:
    counted = ["-"] * len(_COUNTED)
    if model.counts is not None:
        counts = model.counts.as_dict()
        counted = [f"{counts[kind]:,}" for kind in _COUNTED.values()]
    return [
        model.name,
        _loss(model.validation_loss),
        _loss(model.test_loss),
        f"{model.accuracy:.2%}",
        f"{model.seconds:.2f}",
        *counted,
    ]


def _legend(report: TuneReport) -> list[str]:
    sizes = report.data.sizes()
    counted = ", ".join(f"{short} = {kind}" for short, kind in _COUNTED.items())
    lines = [
        f"{sizes['train']:,} training, {sizes['validation']:,} validation and {sizes['test']:,} test rows; "
        "test loss and accuracy after a refit on training + validation rows",
        f"oracle calls: {counted}; compilation took another {report.compile_seconds:.2f} seconds",
    ]
    if any(model.name == "per-feature" for model in report.models):
        lines.append("seconds and calls of per-feature include the shared stage it starts from")
    return lines

"""What tuning found: the table of models, its notes and the verdict."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from nbo.datasets import TaskTable
from nbo.tuning.comparison import loss_text
from nbo.tuning.data import TuningData
from nbo.tuning.models import FINER, FittedModel
from nbo.tuning.stages import Stage

#: Longer lines of prose are hard to read, however wide a terminal is.
WIDTH = 100

_COUNTED = {"f'": "upper_grad", "g'": "lower_grad_y", "Hv": "lower_hvp", "Ju": "lower_jvp"}


@dataclass(frozen=True, eq=False, repr=False)
class TuneReport:
    """The outcome of :func:`nbo.tuning.tune`; its text is the table and the verdict.

    Attributes
    ----------
    dataset : TaskTable
        What was tuned on.
    data : TuningData
        Its parts and scaling.
    settings : dict
        ``penalty``, ``cv``, ``prior``, ``seed`` and ``max_iter`` as given.
    models : tuple of FittedModel
        One row of the table each, the simplest first.
    stages : tuple of Stage
        The finished searches, in order.
    notes : tuple of str
        What the reader of the table should know, such as a search that stopped early.
    interrupted : bool
        Whether Ctrl-C cut the work short.
    verdict : str
        Which model is best on the test rows, and whether clearly: a sentence a line.
    compile_seconds : float
        Time for compilation, which `seconds` of the models leave out.
    """

    dataset: TaskTable
    data: TuningData
    settings: dict[str, object]
    models: tuple[FittedModel, ...]
    stages: tuple[Stage, ...]
    notes: tuple[str, ...]
    interrupted: bool
    verdict: str
    compile_seconds: float

    def table(self, width: int = WIDTH) -> str:
        """Return the table of models, its legend and the notes.

        Parameters
        ----------
        width : int
            Where lines of prose are wrapped.

        Returns
        -------
        str
            Lines of text.
        """
        header = ["model", "validation loss", "test loss", self.models[0].score_name, "seconds", *_COUNTED]
        lines = aligned([header, *(_row(model) for model in self.models)])
        lines.insert(1, "-" * len(lines[0]))
        prose = [*_legend(self), *(f"note: {note}" for note in self.notes)]
        return "\n".join([*lines, wrapped("\n".join(prose), width)])

    def text(self, width: int = WIDTH) -> str:
        """Return the table and, below an empty line, the verdict.

        Parameters
        ----------
        width : int
            Where lines of prose are wrapped.

        Returns
        -------
        str
            Lines of text.
        """
        return f"{self.table(width)}\n\n{wrapped(self.verdict, width)}"

    def __repr__(self) -> str:
        return self.text()


def wrapped(text: str, width: int) -> str:
    """Wrap every line of a text; what follows a break is indented.

    Parameters
    ----------
    text : str
        Lines of prose.
    width : int
        Characters of a line at most.

    Returns
    -------
    str
        The text in more lines.
    """
    lines = text.splitlines()
    return "\n".join(
        textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for line in lines
    )


def aligned(rows: list[list[str]]) -> list[str]:
    """Return the lines of a table, the first column flush left and the others flush right.

    Parameters
    ----------
    rows : list of list of str
        Rows of equally many cells.

    Returns
    -------
    list of str
        Lines of equal length.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]


def _row(model: FittedModel) -> list[str]:
    counted = ["-"] * len(_COUNTED)
    if model.counts is not None:
        counts = model.counts.as_dict()
        counted = [f"{counts[kind]:,}" for kind in _COUNTED.values()]
    return [
        model.name,
        loss_text(model.validation_loss),
        loss_text(model.test_loss),
        model.score_text,
        f"{model.seconds:.2f}",
        *counted,
    ]


def _legend(report: TuneReport) -> list[str]:
    sizes, data = report.data.sizes(), report.data
    counted = ", ".join(f"{short} = {kind}" for short, kind in _COUNTED.items())
    finer = [model.name for model in report.models if model.rank == FINER]
    kind = "squared error" if data.task == "regression" else "log-loss"
    lines = [
        f"{data.task} data: {sizes['tuning']:,} rows to tune and fit on, {sizes['test']:,} test rows",
        f"validation loss is the mean {kind} of held-out rows, of {data.criterion}; test loss and "
        f"{report.models[0].score_name} are those of a fit to all {sizes['tuning']:,}",
        f"oracle calls of the search: {counted}; compilation took another {report.compile_seconds:.2f} seconds",
        "seconds include the evaluations for the history and the final fit"
        + (f"; seconds and calls of {finer[0]} include the shared search that it starts from" if finer else ""),
    ]
    if finer and report.settings["prior"] is not None:
        lines.append(f"no loss in this table includes the prior; the values of the {finer[0]} search elsewhere do")
    return lines

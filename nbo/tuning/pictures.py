"""The pictures of a report: how the searches converged, and which penalties they chose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nbo import plotting
from nbo.sklearn._names import PenaltyNames
from nbo.tuning.report import TuneReport
from nbo.tuning.stages import Stage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nbo.history import History

_QUANTITIES = ("value", "hypergrad_norm")

#: Characters of a data set's name in a title.
_TITLE = 40

#: What stands on the axes, for people who do not know the method.
_AXES = {"value": "loss on held-out rows", "hypergrad_norm": "slope that is left (zero at the best)"}
_STEPS = "steps of the search"

#: What a penalty belongs to.
_OF = {"shared": "all features", "per-feature": "each feature", "per-class": "each class"}


class NothingToDraw(ValueError):  # noqa: N818 - no mistake of anybody
    """A picture that would be empty; the message says why."""


def convergence_figure(report: TuneReport) -> Figure:
    """Draw value and hypergradient norm of every search that did an iteration, one column each.

    Parameters
    ----------
    report : TuneReport
        A report with at least one search.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; it says at which iterations the norm is not drawn.

    Raises
    ------
    NothingToDraw
        If no search did an iteration.
    """
    stages = _iterated(report)
    figure = plotting.off_screen_figure(4.6 * len(stages) + 0.6, 6.0)
    axes = figure.subplots(2, len(stages), sharex="col", squeeze=False)
    for column, stage in enumerate(stages):
        for ax, quantity in zip(axes[:, column], _QUANTITIES, strict=True):
            plotting.convergence(stage.result.history, ax, quantity=quantity)
            ax.set(xlabel=_STEPS, ylabel=_AXES[quantity])
        axes[0, column].set_title(_title(stage, report.settings["prior"]), fontsize="medium")
        axes[0, column].set_xlabel("")
        axes[1, column].set_title(_not_drawn(stage.result.history), fontsize="small", color="0.35")
    figure.suptitle(plotting.drawable(report.dataset.name, _TITLE))
    return figure


def _title(stage: Stage, prior: object) -> str:
    if stage.name == "shared":
        return "one penalty for all features"
    with_prior = "" if prior is None else "\n(plus the prior that keeps them together)"
    return f"a penalty for {_OF.get(stage.name, 'each coefficient')}{with_prior}"


def _iterated(report: TuneReport) -> list[Stage]:
    stages = [stage for stage in report.stages if stage.result.nit > 0]
    if not stages:
        raise NothingToDraw("no iteration was done")
    return stages


def _not_drawn(history: History) -> str:
    """Say where the norm is missing from its logarithmic axis."""
    norms = np.asarray(history["hypergrad_norm"])
    if not np.any(norms > 0):
        return ""
    missing = [
        f"iteration {_some(history['iteration'][rows])} ({why})"
        for why, rows in (("not known yet", ~np.isfinite(norms)), ("zero", norms == 0))
        if rows.any()
    ]
    return f"not drawn: {', '.join(missing)}" if missing else ""


def _some(numbers: np.ndarray, most: int = 3) -> str:
    return ", ".join(map(str, numbers[:most])) + (", ..." if len(numbers) > most else "")


def penalties_figure(report: TuneReport) -> Figure:
    """Draw the penalties of the last search that did an iteration beside the one it started from.

    Parameters
    ----------
    report : TuneReport
        A report with at least one search.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    NothingToDraw
        If no search did an iteration.
    """
    last = _iterated(report)[-1]
    names = names_of_penalties(last, report)
    before = next(model for model in report.models if model.name == ("untuned" if last.name == "shared" else "shared"))
    figure = plotting.off_screen_figure(7.2, 2.0 + 0.22 * min(len(names), plotting.MAX_ROWS))
    center = float(before.log_penalties[0])
    ax = figure.subplots()
    plotting.penalties(last.model.log_penalties, names, center, ax, center_name=f"{before.name} penalty")
    ax.set_xlabel(ax.get_xlabel().replace("   (", "\n("))  # long names leave little room
    title = plotting.drawable(report.dataset.name, _TITLE)
    figure.suptitle(f"{title}: the penalty of {_OF.get(last.name, 'each coefficient')}")
    return figure


def names_of_penalties(stage: Stage, report: TuneReport) -> Sequence[str]:
    """Return what the penalties of a search belong to.

    Parameters
    ----------
    stage : Stage
        The search.
    report : TuneReport
        Whose data set has the names.

    Returns
    -------
    sequence of str
        One a penalty.
    """
    if stage.name == "shared":
        return ("all features",)
    kind = {"per-feature": "feature", "per-class": "outputs"}.get(stage.name, "entry")
    table = report.dataset
    size = stage.model.log_penalties.size
    return PenaltyNames(kind, size, table.feature_names, len(table.feature_names), table.label_names)

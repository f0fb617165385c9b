"""The pictures of a report: how the stages converged, and which penalties they chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nbo import plotting
from nbo.tuning.report import TuneReport
from nbo.tuning.stages import Stage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nbo.history import History

_QUANTITIES = ("value", "hypergrad_norm")

#: Characters of a data set's name in a title.
_TITLE = 40


class NothingToDraw(ValueError):  # noqa: N818 - no mistake of anybody
    """A picture that would be empty; the message says why."""


def convergence_figure(report: TuneReport) -> Figure:
    """Draw value and hypergradient norm of every stage that did an iteration, one column each.

    Parameters
    ----------
    report : TuneReport
        A report with at least one stage.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; it says at which iterations the norm is not drawn.

    Raises
    ------
    NothingToDraw
        If no stage did an iteration.
    """
    stages = _iterated(report)
    figure = plotting.off_screen_figure(4.6 * len(stages) + 0.6, 6.0)
    axes = figure.subplots(2, len(stages), sharex="col", squeeze=False)
    for column, stage in enumerate(stages):
        for ax, quantity in zip(axes[:, column], _QUANTITIES, strict=True):
            plotting.convergence(stage.result.history, ax, quantity=quantity)
        prior = " (value with the prior)" if stage.name == "per-feature" else ""
        axes[0, column].set_title(f"{stage.name} stage{prior}", fontsize="medium")
        axes[0, column].set_xlabel("")
        axes[1, column].set_title(_not_drawn(stage.result.history), fontsize="small", color="0.35")
    figure.suptitle(plotting.drawable(report.dataset.name, _TITLE))
    return figure


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
    """Draw the penalties of the last stage that did an iteration beside the one it started from.

    Parameters
    ----------
    report : TuneReport
        A report with at least one stage.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Raises
    ------
    NothingToDraw
        If no stage did an iteration.
    """
    last = _iterated(report)[-1]
    one = last.name == "shared"
    names = ("all features",) if one else report.dataset.feature_names
    before = next(model for model in report.models if model.name == ("untuned" if one else "shared"))
    figure = plotting.off_screen_figure(7.2, 2.0 + 0.22 * min(len(names), plotting.MAX_ROWS))
    center = float(before.log_penalties[0])
    plotting.penalties(last.model.log_penalties, names, center, figure.subplots(), center_name=f"{before.name} penalty")
    title = plotting.drawable(report.dataset.name, _TITLE)
    figure.suptitle(f"{title}: {'the shared penalty' if one else 'per-feature penalties'}")
    return figure

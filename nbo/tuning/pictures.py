"""The pictures of a report: how the stages converged, and which penalties they chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbo import plotting
from nbo.tuning.report import TuneReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def convergence_figure(report: TuneReport) -> Figure:
    """Draw value and hypergradient norm of every stage, one column each.

    Parameters
    ----------
    report : TuneReport
        A report with at least one stage.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    stages = report.stages
    figure = plotting.off_screen_figure(4.6 * len(stages) + 0.6, 6.0)
    axes = figure.subplots(2, len(stages), sharex="col", squeeze=False)
    for column, stage in enumerate(stages):
        for ax, quantity in zip(axes[:, column], ("value", "hypergrad_norm"), strict=True):
            plotting.convergence(stage.result.history, ax, quantity=quantity)
        axes[0, column].set_title(f"{stage.name} stage", fontsize="medium")
        axes[0, column].set_xlabel("")
    figure.suptitle(report.dataset.name)
    return figure


def penalties_figure(report: TuneReport) -> Figure:
    """Draw the penalties of the last stage beside the one it started from.

    Parameters
    ----------
    report : TuneReport
        A report with at least one stage.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    last = report.stages[-1].model
    one = last.name == "shared"
    names = ("all features",) if one else report.dataset.feature_names
    before = next(model for model in report.models if model.name == ("untuned" if one else "shared"))
    figure = plotting.off_screen_figure(7.2, 1.8 + 0.22 * min(len(names), plotting.MAX_ROWS))
    plotting.penalties(last.x, names, float(before.x[0]), figure.subplots(), center_name=before.name)
    figure.suptitle(f"{report.dataset.name}: {last.name} penalties")
    return figure

"""Figures from their layouts; needs matplotlib."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nbo.experiments._results import CaseResult, Curve, spread
from nbo.experiments.configuration import Axis, Backends, Curves, FigureLayout, Panel, Scaling
from nbo.oracles import OracleCounts
from nbo.plotting import costs, off_screen_figure
from nbo.theory.complexity import ComplexityRow, ComplexityStudy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nbo.experiments.reproduction import Reproduction


class Style(NamedTuple):
    """How a method looks in every figure: colours differ in lightness too, and markers in form."""

    color: str
    marker: str
    line: str = "-"


#: By label.
STYLES = {
    "NSBO-SGD": Style("#b2182b", "o"),
    "NBO-GD (T=1)": Style("#b2182b", "o"),
    "NBO-GD (T=10)": Style("#7a0b1c", "s", "--"),
    "NSBO-SAGA": Style("#d6604d", "D"),
    "MA-NSBO-SAGA": Style("#67001f", "P"),
    "BAMM+NBO": Style("#b2182b", "o"),
    "SOBA": Style("#4393c3", "v"),
    "SABA": Style("#2166ac", "^", "--"),
    "MA-SABA": Style("#053061", "X", "--"),
    "AmIGO": Style("#1b7837", "s"),
    "AmIGO (Q=1)": Style("#7fbf7b", "v", "-."),
    "AmIGO (Q=10)": Style("#1b7837", "^"),
    "StocBiO": Style("#bf812d", "<", "-."),
    "SHINE": Style("#999999", "*", ":"),
    "F2SA": Style("#762a83", ">", "-."),
    "BAMM": Style("#2166ac", "^", "--"),
}

_AXES = {"iteration": "iteration", "seconds": "solver time in seconds", "samples": "component samples"}
_METRICS = {
    "gap": r"$\Phi(x) - \Phi^*$",
    "relative gap": r"$(\Phi(x) - \Phi^*)\,/\,(\Phi(x_0) - \Phi^*)$",
    "distance": "distance to the solution / at the start",
    "test error": "test error",
}

#: Markers on a curve.
_MARKERS = 9


class Drawn(NamedTuple):
    """A figure, and the numbers behind it as rows of a table."""

    figure: Figure
    header: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def draw(layout: FigureLayout, found: Reproduction) -> Drawn | None:
    """Draw those panels of a figure that have results; None where none has."""
    panels = [panel for panel in layout.panels if _has_results(panel, found)]
    if not panels:
        return None
    figure = off_screen_figure(1.0 + 4.6 * len(panels), 4.0)
    rows: list[tuple[Any, ...]] = []
    for index, panel in enumerate(panels):
        ax = figure.add_subplot(1, len(panels), index + 1)
        if isinstance(panel, Curves):
            rows += _curves(panel, found.cases[panel.case], ax)
        elif isinstance(panel, Scaling):
            rows += _scaling(panel, [found.cases[name] for name in panel.cases if name in found.cases], ax)
        elif isinstance(panel, Backends):
            rows += _backends(found.studies["backends"]["study"], ax)
        else:
            rows += _costs(found.studies["table1"]["study"], ax)
        ax.grid(True, alpha=0.3)
        if ax.get_legend_handles_labels()[0]:
            ax.legend(fontsize=7.5)
    if found.scale == "quick":
        figure.suptitle("quick version on reduced data: not the paper's experiment", fontsize=9)
    return Drawn(figure, ("panel", "series", "x", "median", "low", "high"), rows)


def _has_results(panel: Panel, found: Reproduction) -> bool:
    finished = sum(name in found.cases or name in found.studies for name in panel.shows)
    return finished > 1 if isinstance(panel, Scaling) else finished > 0  # a line over one dimension is none


def _curves(panel: Curves, result: CaseResult, ax: Axes) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    name = f"{panel.case} by {panel.axis}{' with own floor' if panel.own_floor else ''}"
    for index, label in enumerate(result.labels):
        curve = result.curve(label, panel.axis, panel.own_floor)
        _line(ax, label, curve, index / len(result.labels))
        rows += [(name, label, *(float(part[i]) for part in curve)) for i in range(curve.x.size)]
    ax.set_xlabel(_AXES[panel.axis])
    ax.set_ylabel(_METRICS[result.case.metric])
    ax.set_yscale("log")
    _limit(ax, panel.axis, result)
    title = panel.title or result.size.problem.title
    ax.set_title(f"{title}{', end value as Phi*' if panel.own_floor else ''}", fontsize=10)
    return rows


def _limit(ax: Axes, axis: Axis, result: CaseResult) -> None:
    """Choose the scale of the horizontal axis and its ends."""
    ax.set_xlim(left=0)
    runs = [getattr(t, axis) for s in result.series.values() for t in s.traces if t.metric.size > 1]
    if not runs or axis == "iteration":
        return
    if result.case.metric == "test error":  # these come down in a small part of the budget
        ax.set_xscale("log")
        ax.set_xlim(left=min(run[1] for run in runs))
    ax.set_xlim(right=float(np.percentile([run[-1] for run in runs], 60)))  # slow methods show that they are


def _line(ax: Axes, label: str, curve: Curve, phase: float) -> None:
    """Draw a median with its band; markers of different curves stand at different places."""
    style = STYLES[label]
    median = np.where(np.isfinite(curve.median) & (curve.median > 0), curve.median, np.nan)
    every = max(1, curve.x.size // _MARKERS)
    ax.plot(
        curve.x, median, color=style.color, linestyle=style.line, marker=style.marker, markersize=5, linewidth=1.6,
        markevery=(int(phase * every), every), label=label,
    )  # fmt: skip
    known = np.isfinite(median) & np.isfinite(curve.high) & (curve.low > 0)
    ax.fill_between(curve.x, curve.low, curve.high, where=known.tolist(), color=style.color, alpha=0.18, linewidth=0)


def _scaling(panel: Scaling, results: list[CaseResult], ax: Axes) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    dims = [result.size.problem.p for result in results]  # type: ignore[attr-defined]
    name = "the paper's rule" if panel.own_floor else f"accurate gap {panel.level:g}"
    for label in results[0].labels:
        bands = []
        for result in results:
            times = [_arrival(result, label, index, panel) for index in range(len(result.series[label].traces))]
            low, median, high = spread(times)
            bands.append((median, low, high))
        table = np.array(bands)
        curve = Curve(np.array(dims, float), *table.T)
        style = STYLES[label]
        known = np.isfinite(table).all(axis=1)
        reach = np.abs(table[known, 1:].T - table[known, 0])
        ax.errorbar(
            curve.x[known], curve.median[known], yerr=reach, color=style.color, marker=style.marker, label=label,
            capsize=3,
        )  # fmt: skip
        rows += [(name, label, *(float(part[i]) for part in curve)) for i in range(curve.x.size)]
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xticks(dims, labels=[str(p) for p in dims])
    ax.set_xticks([], minor=True)
    ax.set_xlabel("dimension p")
    ax.set_ylabel("solver time in seconds")
    gap = "gap to the last value" if panel.own_floor else "accurate gap"
    ax.set_title(f"time to {panel.level:g} of the {gap}", fontsize=10)
    return rows


def _arrival(result: CaseResult, label: str, index: int, panel: Scaling) -> float:
    trace = result.series[label].traces[index]
    if not panel.own_floor:
        return trace.first(panel.level, "seconds")
    last = trace.metric[-1]
    return trace.first(last + panel.level * (trace.metric[0] - last), "seconds")


def _costs(found: dict[str, Any], ax: Axes) -> list[tuple[Any, ...]]:
    """Draw gradients and Hessian-vector products over kappa, as the study itself does."""
    names = [field.name for field in dataclasses.fields(ComplexityRow)]
    rows = tuple(
        ComplexityRow(**{name: row[name] for name in names} | {"counts": OracleCounts(**row["counts"])})
        for row in found["rows"]
    )
    study = ComplexityStudy(family=found["family"], eps=found["eps"], tight=found["tight"], rows=rows)
    costs(study, ax)
    return [
        ("table1", f"{row.method} {quantity}", row.kappa, *[getattr(row, quantity)] * 3)
        for row in rows
        for quantity in ("gradients", "products")
    ]


def _backends(found: dict[str, Any], ax: Axes) -> list[tuple[Any, ...]]:
    times = {name: float(value) for name, value in found["microseconds"].items()}
    bars = ax.barh(list(times), list(times.values()), color=["#2166ac", "#2166ac", "#bf812d", "#bf812d"])
    ax.bar_label(bars, fmt="%.1f", padding=3, fontsize=8)
    ax.invert_yaxis()
    ax.set_xlabel("microseconds an iteration")
    ax.margins(x=0.2)
    return [("backends", name, index, us, us, us) for index, (name, us) in enumerate(times.items())]

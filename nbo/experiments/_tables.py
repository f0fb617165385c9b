"""Tables of results: rows for CSV files and for the report."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nbo.experiments._results import BAND, CaseResult, Ratio, median, spread

if TYPE_CHECKING:
    from nbo.experiments.reproduction import Reproduction


class Table(NamedTuple):
    """A header and rows."""

    header: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def csv(self) -> str:
        """Return the table as a CSV file, floats with six digits."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows([_cell(value) for value in row] for row in self.rows)
        return stream.getvalue()


def _cell(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, (float, np.floating)) else value


def tables(found: Reproduction) -> dict[str, Table]:
    """Return all tables by the names of their files."""
    results = list(found.cases.values())
    return {
        "verdicts": Table(
            ("experiment", "name", "section", "claim", "verdict", "measured", "rule"),
            [
                (c.experiment, c.name, c.section, c.text, str(j.verdict), j.measured, c.rule.text)
                for c, j in found.verdicts
            ],
        ),
        "steps": Table(
            ("case", "method", "inner step", "ratio", "outer step", "pairs tried", "pairs diverged"),
            [row for result in results for row in steps(result)],
        ),
        "finals": Table(
            ("case", "method", "metric", "start", "median", f"{BAND[0]} %", f"{BAND[1]} %", "iterations", "seconds",
             "evaluation seconds", "diverged", "repeats"),
            [row for result in results for row in finals(result)],
        ),
        "targets": Table(
            ("case", "method", "target", "axis", "median", f"{BAND[0]} %", f"{BAND[1]} %", "arrived", "repeats"),
            [row for result in results for row in arrivals(result)],
        ),
        "ratios": Table(
            ("case", "NBO method", "other", "target", "axis", "ratio", "low", "high", "wins", "losses", "repeats"),
            [
                (r.case.name, x.first, x.other, x.level, x.axis, x.ratio, x.low, x.high, x.wins, x.losses, x.repeats)
                for r in results
                for x in r.ratios()
            ],
        ),
    }  # fmt: skip


def steps(result: CaseResult) -> Iterator[tuple[Any, ...]]:
    """Yield the chosen steps of every method."""
    for label, series in result.series.items():
        s = series.steps
        numbers = ("none", "none", "none") if s is None else (s.inner, s.ratio, s.inner / s.ratio)
        yield (result.case.name, label, *numbers, series.tried, series.diverged)


def finals(result: CaseResult) -> Iterator[tuple[Any, ...]]:
    """Yield how every method ended."""
    for label in result.labels:
        traces = result.series[label].traces
        low, middle, high = spread(result.final(label))
        sums = [median([t.iteration[-1] for t in traces]), median([t.seconds[-1] for t in traces])]
        evaluation = median([t.evaluation_seconds for t in traces])
        diverged = sum(t.diverged for t in traces)
        yield (
            result.case.name, label, result.case.metric, result.start, middle, low, high, *sums, evaluation, diverged,
            len(traces),
        )  # fmt: skip


def arrivals(result: CaseResult) -> Iterator[tuple[Any, ...]]:
    """Yield when every method was at every target."""
    for label in result.labels:
        for target in result.targets:
            for axis in ("iteration", "seconds", "samples"):
                found = result.arrivals(label, target, axis)
                low, middle, high = spread(found)
                arrived = int(np.sum(np.isfinite(found)))
                yield (result.case.name, label, target, axis, middle, low, high, arrived, found.size)


def ratio_in_words(ratio: Ratio) -> tuple[str, str]:
    """Return a ratio and its interval, or who arrived."""
    if np.isnan(ratio.ratio):
        return "neither arrived", "-"
    if ratio.ratio == 0 or np.isinf(ratio.ratio):
        return f"only {ratio.other if ratio.ratio else ratio.first} arrived", "-"
    ends = ("never" if np.isinf(end) else f"{end:.2f}" for end in (ratio.low, ratio.high))
    return f"{ratio.ratio:.2f}", "-" if np.isnan(ratio.low) else f"[{', '.join(ends)}]"

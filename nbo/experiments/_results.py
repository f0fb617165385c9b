"""What the runs of a case amount to: choices on the grid, curves, times to targets, ratios."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from nbo.experiments._tasks import ReferenceTask, RunTask, StudyTask, Task
from nbo.experiments.configuration import Axis, Case, Entry, Experiment, Scale, Size
from nbo.experiments.steps import Steps

Array = npt.NDArray[Any]

#: The seed of the search; repeats have 1, 2, ...
SEARCH_SEED = 0

#: Looks at a run of the search, whose last ones decide.
_SEARCH_LOOKS, _LAST_LOOKS = 10, 3

#: The band of curves, in per cent of the repeats.
BAND = (20, 80)

#: Evenly spread points of a drawn curve; half as many are spread by the logarithm.
_POINTS = 200

#: Resamples and confidence of the intervals of ratios.
_RESAMPLES, CONFIDENCE = 2000, 0.95

#: Task -> outcome, for those that are finished.
Outcomes = Mapping[str, dict[str, Any]]


class Trace(NamedTuple):
    """One run: columns with a row a look, and whether it diverged."""

    iteration: Array
    seconds: Array
    samples: Array
    metric: Array
    diverged: bool
    evaluation_seconds: float

    def first(self, level: float, axis: Axis) -> float:
        """Return where on an axis the metric first came down to a level; infinite if it was never seen there.

        Between the look before and the first one at the level the way down is taken as straight, on a logarithmic
        scale where the metric is positive.
        """
        below = np.flatnonzero(self.metric <= level)
        if not below.size:
            return np.inf
        i, along = below[0], getattr(self, axis)
        if i == 0 or not np.isfinite(self.metric[i - 1]):
            return float(along[i])
        ends = np.array([self.metric[i - 1], level, self.metric[i]])
        high, middle, low = np.log(ends) if ends.min() > 0 else ends
        return float(along[i - 1] + (along[i] - along[i - 1]) * (high - middle) / (high - low))


class Curve(NamedTuple):
    """The median and the band of some runs over an axis."""

    x: Array
    median: Array
    low: Array
    high: Array


class Series(NamedTuple):
    """A method of a case: its steps, how the search went, and its repeats."""

    entry: Entry
    steps: Steps | None
    tried: int
    diverged: int
    traces: tuple[Trace, ...]


class Ratio(NamedTuple):
    """How an NBO method compares with another at a target: its time or samples over the other's.

    `ratio` is the median over repeats in which one of them arrived at least, with an interval; infinite where only the
    other one did. `wins` of `repeats` are those in which the NBO method was there first.
    """

    first: str
    other: str
    level: float
    axis: Axis
    ratio: float
    low: float
    high: float
    wins: int
    losses: int
    repeats: int


def studies_of(experiment: Experiment, scale: Scale) -> list[StudyTask]:
    """Return the tasks of the tables of an experiment."""
    return [StudyTask(name=s.name, kappas=s.kappas(scale), seconds=s.expected) for s in experiment.studies]


def references(case: Case, scale: Scale, repeats: int) -> list[ReferenceTask]:
    """Return the accurate minima that a case needs, one for each set of data."""
    if case.metric not in ("gap", "relative gap"):
        return []
    problem = case.size(scale).problem
    return [ReferenceTask(problem=problem, seed=s) for s in (range(1, repeats + 1) if problem.redrawn else [0])]


def search(case: Case, entry: Entry, scale: Scale) -> list[RunTask]:
    """Return the runs that decide on the steps of a method; none where there is one pair."""
    size = case.size(scale)
    if len(size.grid.pairs) == 1:
        return []
    budget = dataclasses.replace(size.budget, looks=_SEARCH_LOOKS)
    return [_run(case, size, entry, steps, SEARCH_SEED, budget) for steps in size.grid.pairs]


def repeated(case: Case, entry: Entry, scale: Scale, steps: Steps | None, repeats: int) -> list[RunTask]:
    """Return the repeats with the chosen steps; none where every pair diverged."""
    size = case.size(scale)
    return [] if steps is None else [_run(case, size, entry, steps, s, size.budget) for s in range(1, repeats + 1)]


def _run(case: Case, size: Size, entry: Entry, steps: Steps, seed: int, budget: Any) -> RunTask:
    return RunTask(problem=size.problem, entry=entry, steps=steps, seed=seed, budget=budget, metric=case.metric)


def chosen(case: Case, entry: Entry, scale: Scale, outcomes: Outcomes) -> tuple[Steps | None, int]:
    """Return the pair of steps with which a run of the search ended lowest, and how many pairs diverged.

    What counts is the mean of the last looks, of the metric itself, or, where that is an error on test rows, of f,
    so that the test rows decide on nothing.
    """
    tasks = search(case, entry, scale)
    if not tasks:
        return case.size(scale).grid.pairs[0], 0
    column = "value" if case.metric == "test error" else "measured"
    ends = [_end(outcomes[task.key], column) for task in tasks]
    best = int(np.argmin(ends))
    diverged = sum(outcomes[task.key]["status"] == "diverged" for task in tasks)
    return (tasks[best].steps if np.isfinite(ends[best]) else None), diverged


def _end(outcome: dict[str, Any], column: str) -> float:
    if outcome["status"] == "diverged":
        return np.inf
    end = float(np.mean(_column(outcome, column)[-_LAST_LOOKS:]))
    return end if np.isfinite(end) else np.inf


def _lowest(outcome: dict[str, Any]) -> float:
    return float(np.nanmin(_column(outcome, "measured"), initial=np.inf))


def _column(outcome: dict[str, Any], name: str) -> Array:
    return np.array([float(value) for value in outcome["trace"].get(name, [])])


class CaseResult:
    """The runs of a case, all of them finished.

    Parameters
    ----------
    case : Case
        The case.
    scale : str
        Its scale.
    repeats : int
        How many.
    outcomes : mapping
        Key of a task -> its outcome.
    """

    def __init__(self, case: Case, scale: Scale, repeats: int, outcomes: Outcomes) -> None:
        self.case, self.scale, self.repeats, self.size = case, scale, repeats, case.size(scale)
        found = {}
        for entry in case.entries:
            steps, diverged = chosen(case, entry, scale, outcomes)
            runs = [outcomes[task.key] for task in repeated(case, entry, scale, steps, repeats)]
            found[entry.label] = (entry, steps, diverged, runs)
        self.references = [outcomes[task.key] for task in references(case, scale, repeats)]
        self.stars, self.below = self._stars([runs for *_, runs in found.values()])
        self.series: dict[str, Series] = {
            label: Series(
                entry, steps, len(self.size.grid.pairs), diverged,
                tuple(self._trace(run, index) for index, run in enumerate(runs)),
            )
            for label, (entry, steps, diverged, runs) in found.items()
        }  # fmt: skip

    def _stars(self, runs: Sequence[Sequence[dict[str, Any]]]) -> tuple[list[float], float]:
        """Return Phi* of every repeat, and by how much runs came below the accurate minimum at most."""
        if not self.references:
            return [0.0] * self.repeats, 0.0
        accurate = [float(reference["phi_star"]) for reference in self.references]
        accurate = accurate if self.size.problem.redrawn else accurate * self.repeats
        lowest = [
            min((_lowest(entry[index]) for entry in runs if entry), default=np.inf) for index in range(self.repeats)
        ]
        if not self.size.problem.redrawn:
            lowest = [min(lowest)] * self.repeats
        stars = [min(pair) for pair in zip(accurate, lowest, strict=True)]
        return stars, max(a - s for a, s in zip(accurate, stars, strict=True))

    def _trace(self, outcome: dict[str, Any], index: int) -> Trace:
        measured = _column(outcome, "measured")
        metric = measured - self.stars[index]
        if self.case.metric == "relative gap":
            metric = metric / metric[0]
        elif self.case.metric == "distance":
            metric = measured / measured[0]
        iteration, seconds, samples = (_column(outcome, name) for name in ("iteration", "seconds", "samples"))
        diverged, evaluation = outcome["status"] == "diverged", float(outcome["evaluation_seconds"])
        return Trace(iteration, seconds, samples, metric, diverged, evaluation)

    @property
    def labels(self) -> list[str]:
        """The methods that have repeats."""
        return [label for label, series in self.series.items() if series.traces]

    @functools.cached_property
    def start(self) -> float:
        """The median of the metric at the start; NaN where no method has repeats."""
        starts = [trace.metric[0] for series in self.series.values() for trace in series.traces]
        return median(starts) if starts else np.nan

    def final(self, label: str) -> Array:
        """Return the last metric of every repeat; infinite where it diverged."""
        return np.array([np.inf if trace.diverged else trace.metric[-1] for trace in self.series[label].traces])

    @functools.cached_property
    def floor(self) -> float:
        """What targets count from: zero for a gap or distance, else the lowest median that a method ended at."""
        if self.case.metric != "test error":
            return 0.0
        return min((median(self.final(label)) for label in self.labels), default=np.nan)

    @functools.cached_property
    def targets(self) -> tuple[float, ...]:
        """The levels of the case as values of the metric."""
        return tuple(self.floor + level * (self.start - self.floor) for level in self.case.levels)

    def arrivals(self, label: str, target: float, axis: Axis) -> Array:
        """Return where each repeat was first seen at a target; infinite where it never was."""
        return np.array([trace.first(target, axis) for trace in self.series[label].traces])

    def ratio(self, first: str, other: str, target: float, axis: Axis) -> Ratio:
        """Compare two methods at a target, repeat by repeat."""
        a, b = (self.arrivals(label, target, axis) for label in (first, other))
        if not a.size or not b.size:  # every pair of steps diverged
            a, b = (found if found.size else np.full(self.repeats, np.inf) for found in (a, b))
        ratio, low, high = _median_ratio(a, b)
        wins, losses = int(np.sum(a < b)), int(np.sum(a > b))
        return Ratio(first, other, target, axis, ratio, low, high, wins, losses, a.size)

    @property
    def axes(self) -> tuple[Axis, Axis]:
        """What methods are compared over: time and samples, or, where there are no samples, iterations."""
        return ("seconds", "samples") if self.case.metric != "distance" else ("seconds", "iteration")

    def ratios(self) -> list[Ratio]:
        """Return the comparisons of all pairs at all targets."""
        return [
            self.ratio(first, other, target, axis)
            for first, other in self.case.pairs
            for target in self.targets
            for axis in self.axes
        ]

    def curve(self, label: str, axis: Axis, own_floor: bool = False) -> Curve:
        """Return the median curve of a method and its band.

        Parameters
        ----------
        label : str
            The method.
        axis : str
            Over what.
        own_floor : bool
            Whether the gap counts from the lowest value of all runs of a repeat.

        Returns
        -------
        Curve
            NaN beyond the end of the shortest run; infinite where a repeat has diverged.
        """
        traces = self.series[label].traces
        ends = [float(getattr(t, axis)[-1]) for t in traces]
        end = min((last for last, t in zip(ends, traces, strict=True) if not t.diverged), default=max(ends))
        looks = [float(along[1]) for t in traces if (along := getattr(t, axis)).size > 1]
        x = np.unique(np.linspace(0.0, end, _POINTS))
        if looks and end > min(looks):  # on a logarithmic axis there would be too few points at its beginning
            x = np.union1d(x, np.geomspace(min(looks), end, _POINTS // 2))
        rows = np.array([_at(t, axis, x, self._floor_of(i) if own_floor else 0.0) for i, t in enumerate(traces)])
        low, median, high = spread(rows)
        return Curve(x, median, low, high)

    def _floor_of(self, index: int) -> float:
        """Return the lowest metric of all runs of a repeat."""
        return min(float(np.min(s.traces[index].metric)) for s in self.series.values() if s.traces)

    @property
    def evaluation_seconds(self) -> tuple[float, float]:
        """Time of the repeats, and time to evaluate them, which is not part of it."""
        traces = [trace for series in self.series.values() for trace in series.traces]
        return (
            sum(float(t.seconds[-1]) for t in traces),
            sum(t.evaluation_seconds for t in traces),
        )


def median(values: Any) -> float:
    """Return the median; of an even number of values the lower middle one, so that infinite ones do no harm."""
    return float(spread(values)[1])


def spread(values: Any) -> Array:
    """Return the lower end of the band, the median and the upper end, over the first axis.

    They are values of the sample, so that infinite ones do no harm.
    """
    found: Array = np.percentile(values, (BAND[0], 50, BAND[1]), axis=0, method="inverted_cdf")
    return found


def _at(trace: Trace, axis: Axis, x: Array, floor: float) -> Array:
    """Return the metric at points of an axis, between looks on a straight line of the logarithm where it has one."""
    along, metric = getattr(trace, axis), (trace.metric - floor) / (1 - floor)
    after = np.inf if trace.diverged else metric[-1]
    if np.all(metric > 0):
        with np.errstate(divide="ignore"):
            return np.exp(np.interp(x, along, np.log(metric), right=np.log(after)))
    return np.interp(x, along, metric, right=after)


def _median_ratio(a: Array, b: Array) -> tuple[float, float, float]:
    """Return the median of a/b over repeats in which one of both is finite, and its bootstrap interval."""
    known = np.isfinite(a) | np.isfinite(b)
    if not np.any(known):
        return np.nan, np.nan, np.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(a[known] == b[known], 1.0, a[known] / b[known])
    middle = median(ratios)
    if ratios.size < 2:
        return middle, np.nan, np.nan
    with np.errstate(invalid="ignore"):
        found = stats.bootstrap(
            (ratios,), _lower_median, method="percentile", n_resamples=_RESAMPLES, confidence_level=CONFIDENCE,
            rng=np.random.default_rng(0), vectorized=True,
        ).confidence_interval  # fmt: skip
    return middle, float(found.low), float(found.high)


def _lower_median(values: Array, axis: int = -1) -> Array:
    """Return medians that are values of the sample."""
    found: Array = np.percentile(values, 50, axis=axis, method="inverted_cdf")
    return found


def tasks_of(
    case: Case, scale: Scale, repeats: int, load: Callable[[Task], dict[str, Any] | None]
) -> tuple[list[Task], list[RunTask]]:
    """Return the tasks of a case that can be named: the first round, and the repeats of methods whose steps are known.

    Parameters
    ----------
    case : Case
        The case.
    scale : str
        Its scale.
    repeats : int
        How many.
    load : callable
        Task -> outcome, or None.

    Returns
    -------
    first, second : list of Task, list of RunTask
        Accurate minima and searches; repeats.
    """
    first: list[Task] = [*references(case, scale, repeats)]
    second: list[RunTask] = []
    for entry in case.entries:
        tasks = search(case, entry, scale)
        first += tasks
        outcomes = {task.key: outcome for task in tasks if (outcome := load(task)) is not None}
        if len(outcomes) == len(tasks):
            steps, _ = chosen(case, entry, scale, outcomes)
            second += repeated(case, entry, scale, steps, repeats)
    # Methods take turns, so that what else happens on the machine meets all of them.
    return first, sorted(second, key=lambda task: task.seed)

"""Small cases, and results made from columns instead of runs."""

from __future__ import annotations

import numpy as np

from nbo.experiments import _results
from nbo.experiments._results import CaseResult
from nbo.experiments.configuration import Budget, Case, Entry, Size
from nbo.experiments.problems import Toy
from nbo.experiments.steps import Grid

STEPS = Grid(inner=(0.5,), ratios=(2.0,))
PAIRS = Grid(inner=(0.5, 1.0), ratios=(2.0,))


def make_case(grid=STEPS, metric="distance", problem=None, labels=("BAMM", "BAMM+NBO"), name="small", **budget):
    """A case of both toy methods, or of other labels that stand for them."""
    problem = problem or Toy(n=4)
    size = Size(problem=problem, grid=grid, budget=Budget(**({"iterations": 40, "looks": 20} | budget)), repeats=3)
    methods = ("bamm", "bamm-nbo") if isinstance(problem, Toy) else ("amigo-gd", "nbo-gd")
    entries = tuple(
        Entry(label=label, method=methods[i % 2], decay=(0.0, float(i // 2))) for i, label in enumerate(labels)
    )
    return Case(
        name=name, entries=entries, metric=metric, full=size, quick=size, levels=(0.5, 0.2, 0.1),
        pairs=((labels[-1], labels[0]),),
    )  # fmt: skip


def outcome(metric, seconds=None, status="iteration_limit", value=None):
    """What a run leaves, with a look an iteration and as many samples as ten times that."""
    k = np.arange(len(metric))
    seconds = 0.1 * k if seconds is None else seconds
    trace = {
        "iteration": k.tolist(), "seconds": list(seconds), "samples": (10 * k).tolist(), "measured": list(metric),
        "value": list(metric if value is None else value), "calls": k.tolist(),
    }  # fmt: skip
    return {"status": status, "trace": trace, "evaluation_seconds": 0.5}


def result_of(case, runs, repeats):
    """A `CaseResult` of outcomes by label, one a repeat; accurate minima are zero."""
    outcomes = {task.key: {"phi_star": 0.0} for task in _results.references(case, "full", repeats)}
    for entry in case.entries:
        tasks = _results.repeated(case, entry, "full", case.full.grid.pairs[0], repeats)
        outcomes |= {task.key: found for task, found in zip(tasks, runs[entry.label], strict=True)}
    return CaseResult(case, "full", repeats, outcomes)

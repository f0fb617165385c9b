"""Learning from wrong labels: the estimator that weights them against filters that anybody can write."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nbo._interrupts import repeated
from nbo.benchmarks._fits import timed
from nbo.benchmarks._label_filters import WAYS, Found, Way
from nbo.benchmarks._output import Section, write
from nbo.benchmarks.timing import one_blas_thread
from nbo.datasets import Dataset, load
from nbo.experiments._tables import Table
from nbo.progress import TimeLeft, entered


class Case(NamedTuple):
    """A data set with redrawn labels.

    Attributes
    ----------
    name : str
        As `nbo.datasets.load` knows it.
    corruption : float
        The probability that a training label is redrawn.
    n_seeds : int
        How many draws.
    effort : float
        Rough seconds of a draw, for the time that is left.
    """

    name: str
    corruption: float
    n_seeds: int
    effort: float


CASES = (
    Case("digits", 0.5, 5, 1),
    Case("digits", 0.2, 5, 1),
    Case("mnist", 0.5, 5, 200),
    Case("mnist", 0.2, 5, 200),
)

QUICK_CASES = (Case("digits", 0.5, 2, 1),)

HEADER = ("rows", "error", "worst", "precision", "recall", "AUC", "seconds", "unfinished")

_HEADING = """\
Training labels redrawn at random, and clean validation rows that are trusted. Error: the share of wrong labels on the
test rows, mean and worst over draws. Precision and recall: of 'this label is wrong', which a weight below 1/2 says, or
disagreement with the model of the trusted rows. AUC: of the order by weight, or by that model's probability. Seconds:
from the data to the fitted model on one thread, without compilation; medians. All but LabelCleaner fit
LogisticRegressionCV on the rows that they keep and on the trusted ones, a part of which chooses the penalty."""


class Run(NamedTuple):
    """One way on one draw.

    Attributes
    ----------
    data : str
        The set.
    corruption : float
        The probability that a label was redrawn.
    seed : int
        Of the draw.
    way : str
        A key of `WAYS`.
    error, precision, recall, auc : float
        As in the table; NaN where a way says nothing about labels.
    seconds, compile_seconds : float
        By the clock, and for compilation besides.
    unfinished : int
        Fits that had not converged.
    """

    data: str
    corruption: float
    seed: int
    way: str
    error: float
    precision: float
    recall: float
    auc: float
    seconds: float
    compile_seconds: float
    unfinished: int


def run(*, quick: bool = False, folder: str | os.PathLike[str] | None = None) -> None:
    """Print a table for every data set and share of redrawn labels.

    Parameters
    ----------
    quick : bool
        The digits of scikit-learn with two draws.
    folder : str or path, optional
        Where to write all runs as ``runs.csv`` and the tables as ``summary.md``; made if it is not there. What is
        ready is written and printed also after an interrupt.
    """
    cases = QUICK_CASES if quick else CASES
    print(_HEADING)
    found: list[Run] = []
    try:
        with one_blas_thread(), repeated(), contextlib.ExitStack() as stack:
            _measure_all(cases, entered(stack, TimeLeft), found)
    finally:
        if folder is not None:
            sections = [_section(case, found) for case in cases]
            write(Path(folder), "runs.csv", Table(Run._fields, list(found)), sections)


def _measure_all(cases: Sequence[Case], bar: TimeLeft | None, found: list[Run]) -> None:
    expected, spent = sum(case.effort * case.n_seeds for case in cases), 0.0
    for case in cases:
        try:
            _warm_up(case)
            for seed in range(case.n_seeds):
                data = draw(case, seed)
                for name, way in WAYS.items():
                    found.append(measure(case, seed, name, way, data))
                    spent += case.effort / len(WAYS)
                    if bar is not None:
                        bar(spent, expected, f"{_title(case)}, draw {seed}: {name}")
        except FileNotFoundError as error:
            print(f"\n{_title(case)} is left out: {error}")
        finally:
            _section(case, found).show()


def _title(case: Case) -> str:
    return f"{case.name}, {case.corruption:.0%} redrawn"


def _warm_up(case: Case) -> None:
    """Let all that is timed be imported and compiled before, on a few rows."""
    data = load(case.name, corruption=case.corruption, n_train=300, n_val=150, dtype="float32")
    for way in WAYS.values():
        timed(lambda way=way: way(data, 0))  # type: ignore[misc]


def draw(case: Case, seed: int) -> Dataset:
    """Return a set with redrawn labels, in float32.

    Parameters
    ----------
    case : Case
        Which.
    seed : int
        Of parts and labels.

    Returns
    -------
    Dataset
        Its validation rows are the trusted ones.

    Raises
    ------
    FileNotFoundError
        If the files of the set are not there.
    """
    return load(case.name, corruption=case.corruption, random_state=seed, dtype="float32")


def measure(case: Case, seed: int, name: str, way: Way, data: Dataset) -> Run:
    """Run one way on one draw.

    Parameters
    ----------
    case : Case
        Which.
    seed : int
        Of the draw.
    name : str
        Of the way.
    way : callable
        How to learn.
    data : Dataset
        The draw.

    Returns
    -------
    Run
        Its figures.
    """
    found, times = timed(lambda: way(data, seed))
    assert data.flipped is not None
    return Run(case.name, case.corruption, seed, name, _error(found.model, data), *judged(found, data.flipped), *times)


def _error(model: Any, data: Dataset) -> float:
    assert data.A_test is not None and data.b_test is not None
    return float(np.mean(model.predict(data.A_test) != data.b_test))


def judged(found: Found, flipped: np.ndarray) -> tuple[float, float, float]:
    """Compare suspicions with the truth.

    Parameters
    ----------
    found : Found
        What a way says.
    flipped : ndarray of bool
        Which labels are wrong.

    Returns
    -------
    tuple of float
        Precision, recall and the area under the curve; NaN if nothing is said.
    """
    from sklearn.metrics import precision_score, recall_score, roc_auc_score

    if found.suspected is None:
        return np.nan, np.nan, np.nan
    return (
        float(precision_score(flipped, found.suspected, zero_division=0.0)),
        float(recall_score(flipped, found.suspected)),
        float(roc_auc_score(flipped, found.suspicion)),
    )


def summary(found: Sequence[Run]) -> list[tuple[str, ...]]:
    """Return the rows of a table, in the order of `HEADER`.

    Parameters
    ----------
    found : sequence of Run
        All runs of a case.

    Returns
    -------
    list of tuple of str
        A row a way.
    """
    by_way = {way: [r for r in found if r.way == way] for way in dict.fromkeys(r.way for r in found)}
    return [_row(way, runs) for way, runs in by_way.items()]


def _row(way: str, runs: Sequence[Run]) -> tuple[str, ...]:
    means: Mapping[str, float] = {
        name: float(np.mean([getattr(r, name) for r in runs])) for name in ("error", "precision", "recall", "auc")
    }
    shown = ["-" if np.isnan(means[name]) else f"{means[name]:.3f}" for name in ("precision", "recall", "auc")]
    worst, seconds = max(r.error for r in runs), np.median([r.seconds for r in runs])
    return (
        way,
        f"{means['error']:.4f}",
        f"{worst:.4f}",
        *shown,
        f"{seconds:.3g}",
        f"{sum(r.unfinished for r in runs)}",
    )


def _section(case: Case, found: Sequence[Run]) -> Section:
    mine = [r for r in found if (r.data, r.corruption) == (case.name, case.corruption)]
    return Section(f"{_title(case)}, {len({r.seed for r in mine})} draws", HEADER, summary(mine))

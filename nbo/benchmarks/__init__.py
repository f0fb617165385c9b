"""Benchmarks by name; each measures both sides of a comparison in one run and prints a table."""

from __future__ import annotations

from collections.abc import Callable


def _full_batch(quick: bool) -> None:
    from nbo.benchmarks.full_batch import run

    run(quick=quick)


def _minibatch(quick: bool) -> None:
    from nbo.benchmarks.minibatch import run

    run(quick=quick)


def _methods(quick: bool) -> None:
    from nbo.benchmarks.comparison import run

    run(quick=quick)


def _estimators(quick: bool) -> None:
    from nbo.benchmarks.estimators import run

    run(quick=quick)


def _label_cleaning(quick: bool) -> None:
    from nbo.benchmarks.label_cleaning import run

    run(quick=quick)


#: What ``nbo bench NAME`` runs: a function of ``quick``, which imports what it needs when it is called.
BENCHMARKS: dict[str, Callable[[bool], None]] = {
    "full-batch": _full_batch,
    "minibatch": _minibatch,
    "methods": _methods,
    "estimators": _estimators,
    "label-cleaning": _label_cleaning,
}

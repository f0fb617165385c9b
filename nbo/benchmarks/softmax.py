"""Minibatch loops of softmax models: the shapes of Covtype, and of hyper-cleaning on MNIST."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import nbo
from nbo.benchmarks.iterations import Case, microseconds

Array = np.ndarray[Any, Any]


class Shape(NamedTuple):
    """Random rows, and the bounds on the time of an iteration.

    Attributes
    ----------
    label : str
        What the table calls it.
    problem : callable
        The class of the problem.
    rows : tuple of int
        Training rows, validation rows, columns and classes.
    chunk : int
        Iterations of a chunk.
    microseconds : float or None
        The largest time of soba wanted, float64.
    """

    label: str
    problem: Callable[..., Any]
    rows: tuple[int, int, int, int]
    chunk: int
    microseconds: float | None = None


SHAPES = (
    Shape("multinomial, Covtype", nbo.problems.MultinomialLogistic, (371_847, 92_962, 54, 7), 1000, 20.0),
    Shape("cleaning, MNIST", nbo.problems.HyperCleaning, (20_000, 5_000, 784, 10), 150, 214.0),
)

QUICK_SHAPES = (Shape("cleaning", nbo.problems.HyperCleaning, (2_000, 500, 50, 5), 100),)

CASES = tuple(
    Case(method, method, {"step_size": 1e-2, "inner_step_size": 1e-3})
    for method in ("soba", "saba", "ma-saba", "nsbo-sgd", "nsbo-saga")
)

#: The largest share of float64's time that float32 is to take, and the largest multiple of soba's that saba is.
FLOAT32, SABA = 0.65, 1.5

_HEADING = """
Softmax models on random dense rows, batches of 64, one thread. CPU time of an iteration in microseconds,
10th percentile over chunks."""


def run_softmax(*, quick: bool = False) -> None:
    """Measure and print the table.

    Parameters
    ----------
    quick : bool
        A small shape without bounds, to see that it works.
    """
    print(_HEADING)
    print(f"  {'':<34} {'float64':>8} {'float32':>8}   float32/float64")
    for shape in QUICK_SHAPES if quick else SHAPES:
        soba = None
        for case in CASES[:1] if quick else CASES:
            times = measure(shape, case, chunks=2 if quick else 12)
            soba = soba or times[0]
            print(_line(shape, case, times, None if quick else soba), flush=True)


def measure(shape: Shape, case: Case, chunks: int) -> tuple[float, float]:
    """Time the iterations of one method.

    Parameters
    ----------
    shape : Shape
        The problem.
    case : Case
        The method.
    chunks : int
        How many chunks to time.

    Returns
    -------
    tuple of float
        Microseconds of CPU time an iteration, in double and in single precision.
    """
    n, n_val, p, c = shape.rows
    rng = np.random.default_rng(0)
    A, A_val, b, b_val = (
        rng.standard_normal((n, p)),
        rng.standard_normal((n_val, p)),
        rng.integers(c, size=n),
        rng.integers(c, size=n_val),
    )
    double, single = (
        microseconds(case, shape.problem(A.astype(t), b, A_val.astype(t), b_val, n_classes=c), shape.chunk, chunks)
        for t in (np.float64, np.float32)
    )
    return double, single


def _line(shape: Shape, case: Case, times: tuple[float, float], soba: float | None) -> str:
    double, single = times
    text = f"  {f'{shape.label}: {case.label}':<34} {double:8.1f} {single:8.1f}   {single / double:.2f}"
    if soba is None or case.method not in ("soba", "saba"):
        return text
    bounds = [(single / double, FLOAT32, "times float64")]
    if case.method == "saba":
        bounds = [(double / soba, SABA, "times soba")]
    elif shape.microseconds is not None:
        bounds.append((double, shape.microseconds, "us"))
    for found, wanted, unit in bounds:
        text += f"   ({found:.2f} {unit}, at most {wanted:g} wanted: {'met' if found <= wanted else 'not met'})"
    return text

"""Minibatch loops: time an iteration, time to the first one, and time to a target on real data."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

import nbo
from nbo.benchmarks.ijcnn1 import run_ijcnn1
from nbo.benchmarks.iterations import Case, microseconds
from nbo.benchmarks.softmax import run_softmax
from nbo.benchmarks.timing import one_blas_thread
from nbo.problem import FiniteSumProblem

Array = np.ndarray[Any, Any]

#: The share of a public benchmark's times in float32 that its double loops are to take here.
SHARE = 0.6

CASES = (
    Case("soba", "soba", {}, microseconds=3.5),
    Case("saba", "saba", {}, times_soba=1.4),
    Case("ma-saba", "ma-saba", {}),
    Case("spaba", "spaba", {}),
    Case("nsbo-sgd, all 64", "nsbo-sgd", {"batch_size": 64}, microseconds=6.5),
    Case("nsbo-sgd, |B2| = 256", "nsbo-sgd", {}, microseconds=9.0),
    Case("nsbo-saga", "nsbo-saga", {}),
    Case("ma-nsbo-saga", "ma-nsbo-saga", {}),
    Case("nsbo-storm", "nsbo-storm", {}),
    Case("nsbo-page", "nsbo-page", {}),
    Case("amigo-sgd, 10 + 10", "amigo-sgd", {}, microseconds=32.0),
    Case("stocbio, 10 + 10", "stocbio", {}, single_microseconds=SHARE * 49.0),
    Case("f2sa, 10", "f2sa", {}, single_microseconds=SHARE * 64.0),
)

#: A single loop and one with inner steps, which share their compiled code.
QUICK_CASES = (CASES[0], CASES[4])

#: Training and validation rows and columns of IJCNN1.
SHAPE = (49_990, 91_701, 22)
QUICK_SHAPE = (2_000, 3_000, 22)

_HEADING = """\
Minibatch iterations on random dense rows of the shape {shape}, batches of 64, one thread. CPU time of
an iteration in microseconds, 10th percentile over chunks: of compiled loops, and of the same source in plain
Python on NumPy oracles. Compilation and evaluation are left out."""


def run(*, quick: bool = False) -> None:
    """Measure and print the tables.

    Parameters
    ----------
    quick : bool
        Small shapes without bounds, to see that it works.
    """
    shape = QUICK_SHAPE if quick else SHAPE
    with one_blas_thread():
        print(_HEADING.format(shape=_shown(shape)))
        print(f"  {'':<22} {'float64':>8} {'float32':>8} {'plain':>8}   plain/float64")
        soba = None
        for case in QUICK_CASES if quick else CASES:
            times = measure(case, shape, chunks=3 if quick else 25)
            soba = soba or times[0]
            print(_line(case, times, None if quick else soba), flush=True)
        run_softmax(quick=quick)
        print_first_iterations(("soba",) if quick else ("soba", "saba", "nsbo-sgd", "amigo-sgd"), bounds=not quick)
        run_ijcnn1(quick=quick)


def _shown(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _line(case: Case, times: tuple[float, float, float], soba: float | None) -> str:
    double, single, plain = times
    text = f"  {case.label:<22} {double:8.2f} {single:8.2f} {plain:8.0f}   {plain / double:.0f}"
    if soba is None:
        return text
    for wanted, found, unit in (
        (case.microseconds, double, "us"),
        (case.single_microseconds, single, "us in float32"),
        (case.times_soba, double / soba, "times soba"),
    ):
        if wanted is not None:
            text += f"   ({found:.2f} {unit}, at most {wanted:g} wanted: {'met' if found <= wanted else 'not met'})"
    return text + ("" if single < double else "   (float32 is not faster)")


class NumpyLogistic(FiniteSumProblem):
    """Binary logistic regression with a penalty a feature, as a user without a compiler writes it.

    Parameters
    ----------
    A, b, A_val, b_val : ndarray
        As of `nbo.problems.BinaryLogistic`.
    """

    def __init__(self, A: Array, b: Array, A_val: Array, b_val: Array) -> None:
        self.A, self.b, self.A_val, self.b_val = A, b, A_val, b_val
        self.dim_x = self.dim_y = A.shape[1]
        self.n_samples_lower, self.n_samples_upper = len(b), len(b_val)
        self.dtype = A.dtype

    @staticmethod
    def _rows(A: Array, b: Array, batch: Any) -> tuple[Array, Array]:
        return (A, b) if batch is None else (A[batch], b[batch])

    @staticmethod
    def _gradient(A: Array, b: Array, y: Array) -> Array:
        return A.T @ (-b / (1 + np.exp(b * (A @ y)))) / len(b)

    def upper_value(self, x: Array, y: Array, batch: Any = None) -> float:
        """Return f; see `BilevelProblem.upper_value`."""
        A, b = self._rows(self.A_val, self.b_val, batch)
        return float(np.mean(np.logaddexp(0, -b * (A @ y))))

    def upper_grad(self, x: Array, y: Array, batch: Any = None) -> tuple[Array, Array]:
        """Return zero and grad_2 f; see `BilevelProblem.upper_grad`."""
        return np.zeros(self.dim_x), self._gradient(*self._rows(self.A_val, self.b_val, batch), y)

    def lower_value(self, x: Array, y: Array, batch: Any = None) -> float:
        """Return g; see `BilevelProblem.lower_value`."""
        A, b = self._rows(self.A, self.b, batch)
        return float(np.mean(np.logaddexp(0, -b * (A @ y))) + np.exp(x) @ (y * y) / 2)

    def lower_grad_y(self, x: Array, y: Array, batch: Any = None) -> Array:
        """Return grad_2 g; see `BilevelProblem.lower_grad_y`."""
        return self._gradient(*self._rows(self.A, self.b, batch), y) + np.exp(x) * y

    def lower_grad_x(self, x: Array, y: Array, batch: Any = None) -> Array:
        """Return grad_1 g; see `BilevelProblem.lower_grad_x`."""
        return np.exp(x) * y * y / 2

    def lower_hvp(self, x: Array, y: Array, v: Array, batch: Any = None) -> Array:
        """Return H v; see `BilevelProblem.lower_hvp`."""
        A, _ = self._rows(self.A, self.b, batch)
        s = 1 / (1 + np.exp(A @ y))
        return A.T @ (s * (1 - s) * (A @ v)) / len(A) + np.exp(x) * v

    def lower_jvp(self, x: Array, y: Array, u: Array, batch: Any = None) -> Array:
        """Return J u; see `BilevelProblem.lower_jvp`."""
        return np.exp(x) * y * u


def random_data(shape: tuple[int, int, int], dtype: Any) -> tuple[Array, Array, Array, Array]:
    """Return two noisy classes.

    Parameters
    ----------
    shape : tuple of int
        Training rows, validation rows and columns.
    dtype : dtype
        Of all arrays.

    Returns
    -------
    tuple of ndarray
        A, b, A_val and b_val.
    """
    rng = np.random.default_rng(0)
    n, n_val, p = shape
    truth = rng.standard_normal(p)
    A, A_val = rng.standard_normal((n, p)), rng.standard_normal((n_val, p))
    b, b_val = (np.where(X @ truth + rng.standard_normal(len(X)) > 0, 1.0, -1.0) for X in (A, A_val))
    return A.astype(dtype), b.astype(dtype), A_val.astype(dtype), b_val.astype(dtype)


def measure(case: Case, shape: tuple[int, int, int], chunks: int) -> tuple[float, float, float]:
    """Time the iterations of one method.

    Parameters
    ----------
    case : Case
        The method.
    shape : tuple of int
        Of the data.
    chunks : int
        How many chunks to time.

    Returns
    -------
    tuple of float
        Microseconds of CPU time an iteration: compiled in double and in single precision, and plain.
    """
    double, single = random_data(shape, np.float64), random_data(shape, np.float32)
    return (
        microseconds(case, nbo.problems.BinaryLogistic(*double), 4000, chunks),
        microseconds(case, nbo.problems.BinaryLogistic(*single), 4000, chunks),
        microseconds(case, NumpyLogistic(*double), 50, max(2, chunks // 5)),
    )


_FIRST = """\
import time
import numpy as np
import nbo
from nbo.benchmarks.iterations import STEPS
from nbo.benchmarks.minibatch import QUICK_SHAPE, random_data
problem = nbo.problems.BinaryLogistic(*random_data(QUICK_SHAPE, np.float64))
start = time.perf_counter()
result = nbo.minimize(problem, np.zeros(problem.dim_x), method={method!r}, options=STEPS, max_iter=1, random_state=0)
print(time.perf_counter() - start)
"""


def print_first_iterations(methods: tuple[str, ...], *, bounds: bool) -> None:
    """Print how long the first iteration takes on an empty cache, and in the next process.

    Parameters
    ----------
    methods : tuple of str
        Each with a cache of its own.
    bounds : bool
        Whether to compare with the bounds.
    """
    print("\nSeconds from the call to the result of one iteration: on an empty cache, and in the next process")
    for method in methods:
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = (_first_iteration(method, cache) for _ in range(2))
        met = "met" if cold <= 8 and warm <= 1 else "not met"
        wanted = f"   (at most 8 and 1 wanted: {met})" if bounds else ""
        print(f"  {method:<22} {cold:8.2f} {warm:8.2f}{wanted}", flush=True)


def _first_iteration(method: str, cache: str) -> float:
    environment = os.environ | {"NUMBA_CACHE_DIR": cache}
    command = [sys.executable, "-c", _FIRST.format(method=method)]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)

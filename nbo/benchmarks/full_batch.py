"""Full-batch passes against NumPy and SciPy products, and what an NBO-GD iteration costs in them."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import nbo
from nbo.benchmarks.timing import HEADER, Comparison, one_blas_thread, side_by_side


class Case(NamedTuple):
    """Random rows and the bounds that hold on them.

    Attributes
    ----------
    shape : pair of int
        Samples and features.
    stored : int
        Number of stored entries; 0 for a dense array.
    rounds : int
        Number of repetitions.
    speedup : float or None
        Least speed-up of H [v w] over two products each.
    cost : float or None
        Largest cost of an NBO-GD iteration with T = 1 in units of one product A y.
    """

    shape: tuple[int, int]
    stored: int
    rounds: int
    speedup: float | None = None
    cost: float | None = None

    def data(self) -> Any:
        """Return the rows.

        Returns
        -------
        ndarray or csr_array
            Standard normal values.
        """
        rng = np.random.default_rng(0)
        if not self.stored:
            return rng.standard_normal(self.shape)
        density = self.stored / (self.shape[0] * self.shape[1])
        return sp.random_array(self.shape, density=density, format="csr", rng=rng, data_sampler=rng.standard_normal)

    def __str__(self) -> str:
        kind = f"CSR, {self.stored} nonzeros" if self.stored else "dense"
        return f"{self.shape[0]} x {self.shape[1]} {kind}"


FULL = (
    Case((16_000, 50), 0, 300, speedup=3.0, cost=2.8),
    Case((100_000, 500), 0, 15, speedup=2.5, cost=3.0),
    Case((20_000, 47_000), 1_500_000, 60, speedup=1.4),
)

#: Rows, columns and classes of a softmax model; the least speed-up of H [v w] over two products each is 2.
SOFTMAX = (400_000, 54, 7)
QUICK_SOFTMAX = (2_000, 54, 7)

QUICK = (Case((2_000, 50), 0, 20), Case((2_000, 500), 0, 10), Case((2_000, 4_700), 15_000, 20))


_HEADING = """\
Full batch, float64, one thread. The two sides of every ratio ran in turn. Times are 10th percentiles:
of CPU time, but for the iterations and the A y beside them, whose time is by the clock."""

_NO_BOUNDS = "Small shapes, to see that it works: the ratios mean little, and bounds hold for the full sizes only."


def run(*, quick: bool = False) -> None:
    """Measure and print a table; one thread, 10th percentiles, both sides in turn.

    Parameters
    ----------
    quick : bool
        Small shapes without bounds, to see that it works.
    """
    print(_HEADING, *([_NO_BOUNDS] if quick else []), HEADER, sep="\n")
    with one_blas_thread():
        for case in QUICK if quick else FULL:
            print(case, *(comparison.line() for comparison in compare(case)), sep="\n", flush=True)
        shape = QUICK_SOFTMAX if quick else SOFTMAX
        print(f"{shape[0]} x {shape[1]} dense, {shape[2]} classes")
        print(compare_softmax(*shape, rounds=10, bound=None if quick else 2.0).line(), flush=True)


def compare(case: Case) -> list[Comparison]:
    """Measure one case.

    Parameters
    ----------
    case : Case
        The rows and bounds.

    Returns
    -------
    list of Comparison
        H [v w] against two products each, then an iteration against one product A y: its passes alone, and as
        `nbo.minimize` runs it.
    """
    A = case.data()
    rng = np.random.default_rng(1)
    b = np.where(rng.random(case.shape[0]) < 0.5, -1.0, 1.0)
    y, v, w = rng.standard_normal((3, case.shape[1])) / np.sqrt(case.shape[1])
    V, x = np.stack((v, w)), np.full(1, -2.0)
    problem = nbo.problems.BinaryLogistic(A, b, A[:8], b[:8], penalty="shared")
    sigma = 1 / (1 + np.exp(A @ y))
    D = sigma * (1 - sigma) / len(b)
    model = problem.lower_model(x, y)
    model.grad_y()  # stores the curvature weights

    def products() -> tuple[Any, Any]:
        return A.T @ (D * (A @ v)), A.T @ (D * (A @ w))

    def passes() -> Any:
        fresh = problem.lower_model(x, y)
        fresh.grad_y_and_hvp(v)
        return fresh.hvp(V)

    candidates = {"products": products, "hvp": lambda: model.hvp(V), "A y": lambda: A @ y, "passes": passes}
    ms = side_by_side(candidates, case.rounds)
    product_ms, iteration_ms = product_and_iteration_ms(A, b, y, case.rounds)
    return [
        Comparison("H [v w]", "two products each", ms["products"], ms["hvp"], False, case.speedup),
        Comparison("NBO-GD passes, T = 1", "one A y", ms["A y"], ms["passes"], True, case.cost),
        Comparison("NBO-GD iteration, T = 1", "one A y", product_ms, iteration_ms, True, case.cost),
    ]


def compare_softmax(n: int, p: int, c: int, rounds: int, bound: float | None) -> Comparison:
    """Measure H [v w] of a softmax model.

    Parameters
    ----------
    n, p, c : int
        Rows, columns and classes.
    rounds : int
        Number of repetitions.
    bound : float or None
        Least speed-up over two products each.

    Returns
    -------
    Comparison
        With the probabilities at hand on both sides.
    """
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((n, p)), rng.integers(c, size=n)
    problem = nbo.problems.MultinomialLogistic(A, b, A[: 20 * c], b[: 20 * c], n_classes=c)
    x, y, V = np.full(c, -2.0), rng.standard_normal(c * p) / np.sqrt(p), rng.standard_normal((2, c * p))
    model = problem.lower_model(x, y)
    model.grad_y()  # stores the probabilities
    S = np.exp(A @ y.reshape(c, p).T)
    S /= S.sum(axis=1, keepdims=True)

    def products() -> list[Any]:
        found = []
        for v in V:
            Z = A @ v.reshape(c, p).T
            Z = S * (Z - (S * Z).sum(axis=1, keepdims=True)) / n
            found.append((Z.T @ A).ravel())
        return found

    ms = side_by_side({"products": products, "hvp": lambda: model.hvp(V)}, rounds)
    return Comparison("H [v w]", "two products each", ms["products"], ms["hvp"], False, bound)


def product_and_iteration_ms(A: Any, b: np.ndarray, y: np.ndarray, iterations: int) -> tuple[float, float]:
    """Time iterations of `nbo.minimize` with NBO-GD, T = 1, and a product A y after each of them.

    Parameters
    ----------
    A : ndarray or csr_array
        Training rows.
    b : ndarray
        Their labels.
    y : ndarray
        What to multiply.
    iterations : int
        How many to run.

    Returns
    -------
    tuple of float
        The 10th percentiles in milliseconds by the clock: of the product, and of the history's seconds between
        rows. Eight validation rows keep the upper level's passes out of it.
    """
    products: list[float] = []

    def time_product(x: np.ndarray) -> None:  # a callback: its time is not the solver's
        start = time.perf_counter()
        A @ y
        products.append(time.perf_counter() - start)

    validation = slice(0, 8)
    problem = nbo.problems.BinaryLogistic(A, b, A[validation], b[validation])
    options = {"step_size": 1e-3, "inner_step_size": 1e-3, "n_inner": 1}
    result = nbo.minimize(
        problem,
        np.zeros(problem.dim_x),
        method="nbo-gd",
        options=options,
        max_iter=iterations + 1,
        tol=0.0,
        callback=time_product,
    )
    per_iteration = np.diff(result.history["seconds"])
    return 1e3 * float(np.percentile(products, 10)), 1e3 * float(np.percentile(per_iteration, 10))

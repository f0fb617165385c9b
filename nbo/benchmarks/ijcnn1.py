"""Time to a target on real IJCNN1, each method with the best steps of the paper's grid."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nbo
from nbo.datasets import load

Array = np.ndarray[Any, Any]

METHODS = ("soba", "saba", "amigo-sgd", "nsbo-sgd", "nsbo-saga", "ma-nsbo-saga")

#: Methods whose steps decay as (k + 1)^(-1/2), as in the public benchmark; those of the others are constant.
DECAYING = ("soba", "nsbo-sgd")

#: The paper's grid (appendix C.2): inner steps, and what the outer step is smaller by.
INNER_STEPS = tuple(float(step) for step in np.logspace(-5, 0, 6, base=2))
OUTER_RATIOS = tuple(float(ratio) for ratio in np.logspace(-2, 0, 5))

#: The suboptimality Phi(x) - Phi* to reach, and the solver seconds after which a grid point is given up.
TARGET = 1e-3
SECONDS = 2.0

#: Solver seconds between two looks at Phi.
LOOK = 0.02


class Reached(NamedTuple):
    """A run that reached the target.

    Attributes
    ----------
    seconds : float
        Solver time.
    samples : int
        Component samples over all oracles.
    inner, ratio : float
        The steps.
    """

    seconds: float
    samples: int
    inner: float
    ratio: float


def run_ijcnn1(*, quick: bool) -> None:
    """Print the time to the target of every method.

    Parameters
    ----------
    quick : bool
        Two grid points and random data of a small size instead.
    """
    found = _random_problem() if quick else _real_problem()
    if found is None:
        print(
            "\nIJCNN1: no data. Fetch ijcnn1 and ijcnn1.t by data_scripts/fetch_libsvm.py into ./data, or set "
            "NBO_DATA_MIRROR to a folder that has them."
        )
        return
    problem, name = found
    x0, y0 = starting_point(problem)
    best = accurate_minimum(problem)
    print(
        f"\nSeconds of solver time until Phi(x) - Phi* <= {TARGET:g} on {name}, Phi* = {best:.6f}; the best of "
        f"{'2' if quick else len(INNER_STEPS) * len(OUTER_RATIOS)} pairs of steps, {SECONDS:g} s each at most"
    )
    print(f"  {'':<16} {'seconds':>8} {'samples':>12}   inner step  ratio   pairs that reached it")
    for method in METHODS:
        runs = [
            reach(problem, method, inner, ratio, x0, y0, best + TARGET)
            for inner in (INNER_STEPS[3:4] if quick else INNER_STEPS)
            for ratio in (OUTER_RATIOS[3:] if quick else OUTER_RATIOS)
        ]
        print(_line(method, [run for run in runs if run is not None]), flush=True)


def _line(method: str, runs: list[Reached]) -> str:
    if not runs:
        return f"  {method:<16} none of its pairs of steps reached it"
    best = min(runs)
    return (
        f"  {method:<16} {best.seconds:8.3f} {best.samples:12,d}   {best.inner:<10.4g}  {best.ratio:<6.3g}  {len(runs)}"
    )


def starting_point(problem: nbo.problems.BinaryLogistic) -> tuple[Array, Array]:
    """Return the public benchmark's start: x = log U(0, 1) and y ~ N(0, 1).

    Parameters
    ----------
    problem : BinaryLogistic
        For the dimensions and bounds.

    Returns
    -------
    tuple of ndarray
        x0, within the bounds, and y0.
    """
    rng = np.random.default_rng(0)
    return problem.project(np.log(rng.random(problem.dim_x))), rng.standard_normal(problem.dim_y)


def accurate_minimum(problem: nbo.problems.BinaryLogistic) -> float:
    """Return the lowest Phi that an accurate deterministic method finds.

    Parameters
    ----------
    problem : BinaryLogistic
        The problem.

    Returns
    -------
    float
        Phi*.
    """
    found = nbo.minimize(problem, np.full(problem.dim_x, -6.0), method="nbo-cholesky", tol=1e-8, max_iter=2000)
    return float(nbo.hypergradient(problem, found.x).value)


def reach(
    problem: nbo.problems.BinaryLogistic,
    method: str,
    inner: float,
    ratio: float,
    x0: Array,
    y0: Array,
    goal: float,
) -> Reached | None:
    """Run a method until Phi(x) is low enough.

    Parameters
    ----------
    problem : BinaryLogistic
        The problem.
    method : str
        The method.
    inner, ratio : float
        The inner step, and the outer one is inner / ratio.
    x0, y0 : ndarray
        The start.
    goal : float
        The value to reach.

    Returns
    -------
    Reached or None
        None if it did not.
    """
    exponent = 0.5 if method in DECAYING else 0.0
    options = {
        "step_size": nbo.schedules.PowerDecay(inner / ratio, exponent),
        "inner_step_size": nbo.schedules.PowerDecay(inner, exponent),
        "eval_every": 1 << 62,
        "eval_seconds": LOOK,
    }
    last = y0

    def low_enough(intermediate_result: Any) -> bool:
        nonlocal last
        solution = nbo.solve_lower_level(problem, intermediate_result.x, y0=last, tol=1e-7)
        last = solution.y
        return bool(problem.upper_value(intermediate_result.x, solution.y) <= goal)

    result = nbo.minimize(
        problem,
        x0,
        y0=y0,
        method=method,
        options=options,
        max_iter=1 << 40,
        max_time=SECONDS,
        callback=low_enough,
        random_state=0,
    )
    if result.status != "stopped":
        return None
    return Reached(result.seconds, sum(result.samples.as_dict().values()), inner, ratio)


def _random_problem() -> tuple[nbo.problems.BinaryLogistic, str]:
    from nbo.benchmarks.minibatch import QUICK_SHAPE, random_data

    return nbo.problems.BinaryLogistic(*random_data(QUICK_SHAPE, np.float64)), "random data"


def _real_problem() -> tuple[nbo.problems.BinaryLogistic, str] | None:
    paths = [_find(name) for name in ("ijcnn1", "ijcnn1.t")]
    if None in paths:
        return None
    start = time.perf_counter()
    train, validation = (load(str(path)) for path in paths)
    problem = nbo.problems.BinaryLogistic(train.A, train.b, validation.A, validation.b)
    name = f"IJCNN1 ({problem.n_samples_lower} + {problem.n_samples_upper} rows, read in "
    return problem, name + f"{time.perf_counter() - start:.0f} s)"


def _find(name: str) -> Path | None:
    """Return the path of a file in ./data or in the mirror, compressed or not."""
    folders = ["data", *filter(None, [os.environ.get("NBO_DATA_MIRROR")])]
    found = [path for folder in folders for end in ("", ".bz2") for path in sorted(Path(folder).rglob(name + end))]
    return next((path for path in found if path.is_file()), None)

"""Time to a target on real IJCNN1, each method with the best steps of the paper's grid."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import nbo
from nbo.benchmarks.targets import Goal, Outcome, Rounds, best_run, reach
from nbo.datasets import load
from nbo.experiments.problems import random_start
from nbo.experiments.steps import CONSTANT, DECAY, IJCNN1_GRID, Steps

Array = np.ndarray[Any, Any]

METHODS = ("soba", "saba", "amigo-sgd", "nsbo-sgd", "nsbo-saga", "ma-nsbo-saga")

#: The suboptimality Phi(x) - Phi* to reach.
TARGET = 1e-3

#: Every pair of steps has a second, and the best three 15 seconds.
ROUNDS = Rounds(first=1.0, finalists=3, longest=15.0)

#: Solver seconds between two looks at Phi.
LOOK = 0.05


def run_ijcnn1(*, quick: bool) -> None:
    """Print the time to the target of every method.

    Parameters
    ----------
    quick : bool
        Two grid points and random data of a small size instead.
    """
    try:
        problem, name = random_problem() if quick else real_problem()
    except FileNotFoundError as error:
        print(f"\nIJCNN1 is left out: {error}")
        return
    best = accurate_minimum(problem)
    goal = accurate_goal(problem, best + TARGET, LOOK)
    grid = IJCNN1_GRID.pairs
    print(
        f"\nSeconds of solver time until Phi(x) - Phi* <= {TARGET:g} on {name}, Phi* = {best:.6f}.\n"
        f"{len(grid)} pairs of steps, {ROUNDS.first:g} s each; then the best {ROUNDS.finalists} that do not diverge "
        f"from the start, at most {ROUNDS.longest:g} s each"
    )
    print(f"  {'':<16} {'seconds':>11} {'samples':>14}   {'Phi - Phi*':>10}   inner step  ratio")
    rounds = ROUNDS._replace(longest=ROUNDS.first) if quick else ROUNDS
    for method in METHODS:

        def run(steps: Steps | None, seconds: float, method: str = method) -> Outcome:
            return reach(goal, method, steps, {}, seconds, DECAY.get(method, CONSTANT))

        outcome, _ = best_run(run, grid[-2:] if quick else grid, rounds)
        print(_line(method, outcome, best), flush=True)


def _line(method: str, run: Outcome, best: float) -> str:
    seconds = f"{run.seconds:11.2f}" if np.isfinite(run.seconds) else "not reached"
    end = f"  diverged after {run.ended:.2f} s" if run.diverged else ""
    assert run.steps is not None
    steps = f"{run.steps.inner:<10.4g}  {run.steps.ratio:.3g}"
    return f"  {method:<16} {seconds} {run.samples:14,d}   {run.value - best:10.2e}   {steps}{end}"


def accurate_goal(problem: nbo.problems.BinaryLogistic, wanted: float, look: float) -> Goal:
    """Return the goal that Phi(x), of an accurate y*(x), is low enough.

    Parameters
    ----------
    problem : BinaryLogistic
        The problem.
    wanted : float
        How low.
    look : float
        Solver seconds between two looks at Phi.

    Returns
    -------
    Goal
        From the public benchmark's start.
    """
    x0, y0 = random_start(problem)

    def measure() -> Any:
        last = y0

        def value(x: Array, y: Array) -> float:
            nonlocal last
            last = nbo.solve_lower_level(problem, x, y0=last, tol=1e-7).y
            return problem.upper_value(x, last)

        return value

    return Goal(problem, x0, y0, measure, wanted, look)


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


def random_problem() -> tuple[nbo.problems.BinaryLogistic, str]:
    """Return a small problem on random data, and its name.

    Returns
    -------
    tuple
        The problem and the name.
    """
    from nbo.benchmarks.minibatch import QUICK_SHAPE, random_data

    return nbo.problems.BinaryLogistic(*random_data(QUICK_SHAPE, np.float64)), "random data"


def real_problem() -> tuple[nbo.problems.BinaryLogistic, str]:
    """Return the problem on IJCNN1, and its name.

    Returns
    -------
    tuple
        The problem and the name.

    Raises
    ------
    FileNotFoundError
        If the data are not there.
    """
    start = time.perf_counter()
    data = load("ijcnn1")
    problem = nbo.problems.BinaryLogistic(data.A, data.b, data.A_val, data.b_val)
    name = f"IJCNN1 ({problem.n_samples_lower} + {problem.n_samples_upper} rows, read in "
    return problem, name + f"{time.perf_counter() - start:.0f} s)"

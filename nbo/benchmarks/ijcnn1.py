"""Time to a target on real IJCNN1, each method with the best steps of the paper's grid."""

from __future__ import annotations

import time
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

#: The suboptimality Phi(x) - Phi* to reach.
TARGET = 1e-3

#: Solver seconds of every pair of steps in the first round, how many of them go on to the second, and its seconds.
FIRST_SECONDS, FINALISTS, SECONDS = 1.0, 3, 15.0

#: Solver seconds between two looks at Phi.
LOOK = 0.05


class Outcome(NamedTuple):
    """How far a run came, ordered such that the best one is the least.

    Attributes
    ----------
    diverged : bool
        Whether the run diverged, which counts for more than what it saw before.
    value : float
        The lowest Phi seen.
    seconds : float
        Solver time until the target; infinite if it was not reached.
    ended : float
        Solver time of the run.
    samples : int
        Component samples over all oracles.
    inner, ratio : float
        The steps.
    """

    diverged: bool
    value: float
    seconds: float
    ended: float
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
    try:
        problem, name = _random_problem() if quick else _real_problem()
    except FileNotFoundError as error:
        print(f"\nIJCNN1 is left out: {error}")
        return
    best = accurate_minimum(problem)
    pairs = [(inner, ratio) for inner in INNER_STEPS for ratio in OUTER_RATIOS]
    print(
        f"\nSeconds of solver time until Phi(x) - Phi* <= {TARGET:g} on {name}, Phi* = {best:.6f}.\n"
        f"{len(pairs)} pairs of steps, {FIRST_SECONDS:g} s each; then the best {FINALISTS} that do not diverge from "
        f"the start, at most {SECONDS:g} s each"
    )
    print(f"  {'':<16} {'seconds':>11} {'samples':>14}   {'Phi - Phi*':>10}   inner step  ratio")
    for method in METHODS:
        first = [reach(problem, method, pair, best, FIRST_SECONDS) for pair in (pairs[-2:] if quick else pairs)]
        final: list[Outcome] = []
        for run in sorted(first):
            pair = run.inner, run.ratio
            final.append(reach(problem, method, pair, best, FIRST_SECONDS if quick else SECONDS))
            if sum(not run.diverged for run in final) == FINALISTS:
                break
        print(_line(method, min(final, key=lambda run: (run.seconds, run)), best), flush=True)


def _line(method: str, run: Outcome, best: float) -> str:
    seconds = f"{run.seconds:11.2f}" if np.isfinite(run.seconds) else "not reached"
    end = f"  diverged after {run.ended:.2f} s" if run.diverged else ""
    gap = run.value - best
    steps = f"{run.inner:<10.4g}  {run.ratio:.3g}"
    return f"  {method:<16} {seconds} {run.samples:14,d}   {gap:10.2e}   {steps}{end}"


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
    problem: nbo.problems.BinaryLogistic, method: str, steps: tuple[float, float], best: float, seconds: float
) -> Outcome:
    """Run a method until Phi(x) is low enough.

    Parameters
    ----------
    problem : BinaryLogistic
        The problem.
    method : str
        The method.
    steps : tuple of float
        The inner step, and what the outer one is smaller by.
    best : float
        Phi*.
    seconds : float
        Of solver time at most.

    Returns
    -------
    Outcome
        How far it came.
    """
    inner, ratio = steps
    exponent = 0.5 if method in DECAYING else 0.0
    x0, y0 = starting_point(problem)
    last, lowest = y0, np.inf

    def low_enough(intermediate_result: Any) -> bool:
        nonlocal last, lowest
        solution = nbo.solve_lower_level(problem, intermediate_result.x, y0=last, tol=1e-7)
        last, lowest = solution.y, min(lowest, problem.upper_value(intermediate_result.x, solution.y))
        return bool(lowest <= best + TARGET)

    result = nbo.minimize(
        problem,
        x0,
        y0=y0,
        method=method,
        options={
            "step_size": nbo.schedules.PowerDecay(inner / ratio, exponent),
            "inner_step_size": nbo.schedules.PowerDecay(inner, exponent),
            "eval_every": 1 << 62,
            "eval_seconds": LOOK,
        },
        max_iter=1 << 40,
        max_time=seconds,
        callback=low_enough,
        random_state=0,
    )
    reached = result.seconds if lowest <= best + TARGET else np.inf
    samples = sum(result.samples.as_dict().values())
    return Outcome(result.status == "diverged", lowest, reached, result.seconds, samples, inner, ratio)


def _random_problem() -> tuple[nbo.problems.BinaryLogistic, str]:
    from nbo.benchmarks.minibatch import QUICK_SHAPE, random_data

    return nbo.problems.BinaryLogistic(*random_data(QUICK_SHAPE, np.float64)), "random data"


def _real_problem() -> tuple[nbo.problems.BinaryLogistic, str]:
    start = time.perf_counter()
    data = load("ijcnn1")
    problem = nbo.problems.BinaryLogistic(data.A, data.b, data.A_val, data.b_val)
    name = f"IJCNN1 ({problem.n_samples_lower} + {problem.n_samples_upper} rows, read in "
    return problem, name + f"{time.perf_counter() - start:.0f} s)"

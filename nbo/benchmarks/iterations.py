"""The time of an iteration of a minibatch method, without compilation and evaluation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import nbo
from nbo.feasible_sets import feasible_set
from nbo.problem import FiniteSumProblem
from nbo.solvers.driver import State

STEPS = {"step_size": 0.1, "inner_step_size": 0.1}


class Case(NamedTuple):
    """A method with options, and the bounds on its time.

    Attributes
    ----------
    label, method : str
        What the table and `nbo.minimize` call it.
    options : dict
        Besides step sizes.
    microseconds, single_microseconds : float or None
        The largest times an iteration wanted, float64 and float32.
    times_soba : float or None
        The largest multiple of soba's time wanted.
    """

    label: str
    method: str
    options: dict[str, Any]
    microseconds: float | None = None
    single_microseconds: float | None = None
    times_soba: float | None = None


def microseconds(case: Case, problem: FiniteSumProblem, iterations: int, chunks: int) -> float:
    """Time the iterations of one method.

    Parameters
    ----------
    case : Case
        The method.
    problem : FiniteSumProblem
        The problem.
    iterations, chunks : int
        How many chunks of how many iterations.

    Returns
    -------
    float
        Microseconds of CPU time an iteration, the 10th percentile over chunks.
    """
    solver = nbo.methods()[case.method].solver(**(STEPS | case.options))
    times = list(_chunk_times(solver, problem, iterations, chunks))
    return 1e6 * float(np.percentile(times, 10)) / iterations


def _chunk_times(solver: Any, problem: FiniteSumProblem, iterations: int, chunks: int) -> Iterator[float]:
    """Yield the CPU seconds of chunks of a fixed number of iterations, without evaluations between them."""
    x, y, u = np.full(problem.dim_x, -2.0), *np.zeros((2, problem.dim_y), problem.dtype)
    feasible, limits = feasible_set(problem, problem.dim_x, None, x), solver.limits(problem, 0.0, None, np.inf)
    session, state = solver.session(problem, State(0, x, y, u), feasible, limits, 0)
    state = session.advance(state, 1)
    for _ in range(chunks):
        until = state.nit + iterations
        start = time.thread_time()
        while state.nit < until:
            state = session.advance(state, until)
        yield time.thread_time() - start

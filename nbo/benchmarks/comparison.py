"""All registered methods to a common target on real data, each with the best of a few pairs of steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

import nbo
from nbo.benchmarks.ijcnn1 import accurate_goal, accurate_minimum, random_problem, real_problem
from nbo.benchmarks.targets import Goal, Outcome, Rounds, best_run, reach
from nbo.benchmarks.timing import one_blas_thread
from nbo.datasets import load
from nbo.experiments.problems import constant_start
from nbo.experiments.steps import CONSTANT, DECAY, Steps
from nbo.problems import HyperCleaning
from nbo.solvers import REGISTRY
from nbo.solvers.costs import evaluated

Array = np.ndarray[Any, Any]


class Settings(NamedTuple):
    """What a method is run with besides step sizes.

    Attributes
    ----------
    options : mapping
        Options that are not the defaults.
    cleaning : mapping
        Options for hyper-cleaning besides.
    """

    options: Mapping[str, Any] = {}
    cleaning: Mapping[str, Any] = {}


#: Methods that are not run with default options.
SETTINGS: dict[str, Settings] = {
    "ma-saba": Settings(cleaning={"momentum": 0.99}),
    "ma-nsbo-saga": Settings(cleaning={"momentum": 0.99}),
    "bome": Settings(cleaning={"lower_step_size": 0.1}),  # that of x is far too long for y
    "shine": Settings(options={"eval_every": 10}),  # it has no evaluation by the clock
}

#: Pairs of steps for penalties and for hyper-cleaning, from the paper's grids.
PENALTY_GRID = tuple(Steps(inner, ratio) for inner in (2.0**-3, 2.0**-1) for ratio in (10**-1.5, 10**-0.5, 1.0))
CLEANING_GRID = tuple(Steps(inner, ratio) for inner in (1e-2, 1e-1) for ratio in (1e-6, 1e-5, 1e-4))

#: Every pair of steps has half a second, and the best two 8 seconds.
ROUNDS = Rounds(first=0.5, finalists=2, longest=8.0, total=16.0)
QUICK_ROUNDS = Rounds(first=0.2, finalists=1, longest=0.5)

#: Methods of the quick version: one whose loop has to be compiled, and some that have none.
QUICK_METHODS = ("nbo-cg", "no-loop-aid", "soba", "nbo-cholesky")

#: Calls of an iteration over all samples, in so far as they grow with n, beyond which a method is left out.
MOST_CALLS = 1000


class Contest(NamedTuple):
    """A problem with its target, and how its numbers are shown.

    Attributes
    ----------
    name : str
        The problem.
    goal : Goal
        What to reach.
    grid : tuple of Steps
        Pairs of steps, from the paper's grid.
    quantity, target : str
        What is measured, and the target in words.
    zero : float
        What the shown number counts from.
    shown : str
        The format of that number.
    """

    name: str
    goal: Goal
    grid: tuple[Steps, ...]
    quantity: str
    target: str
    zero: float
    shown: str


#: Phi(x) - Phi* on IJCNN1, and the test error in hyper-cleaning.
GAP, ERROR = 1e-2, 0.14

_HEADING = """\
{methods} methods to a common target, with default options and minibatches of 64 (SHINE's are 256). A method
that needs step sizes tries {pairs} pairs of a smaller grid than the paper's, {first:g} s each; the best
{finalists} of them that do not diverge start anew, for at most {longest:g} s, and the one that is at the target
first is shown, or that comes nearest. A method that finds its steps runs once, as long. Seconds are solver
time, without compilation and evaluation, with one thread for BLAS. Samples are summed over all oracles, a
product with H like a gradient; a pass is the samples of both levels once. It is one start and one seed. A
method that misses the target may have a bias, stop at another local minimum, or want other steps: the table
shows what comes of little tuning, and ranks nothing that is close."""


def run(*, quick: bool = False) -> None:
    """Print the time and samples to the target of every method on both problems.

    Parameters
    ----------
    quick : bool
        Some methods on small random data, to see that it works.
    """
    methods, rounds = (QUICK_METHODS, QUICK_ROUNDS) if quick else (tuple(REGISTRY), ROUNDS)
    print(_HEADING.format(methods=len(methods), pairs=len(PENALTY_GRID), **rounds._asdict()))
    with one_blas_thread():
        for make in (_quick_ijcnn1, _quick_cleaning) if quick else (ijcnn1, mnist):
            try:
                contest = make()
            except FileNotFoundError as error:
                print(f"\n{make.__name__} is left out: {error}")
                continue
            compete(contest, methods, rounds)


def compete(contest: Contest, methods: tuple[str, ...], rounds: Rounds) -> None:
    """Print the table of one problem.

    Parameters
    ----------
    contest : Contest
        The problem.
    methods : tuple of str
        Who takes part.
    rounds : Rounds
        How long.
    """
    print(f"\n{contest.name}: {contest.target}")
    print(
        f"  {'':<14} {'seconds':>11} {'samples':>14} {'passes':>8} {contest.quantity:>11}  inner step  ratio  diverged"
    )
    for method in methods:
        reason = obstacle(contest, method)
        print(f"  {method:<14} {reason or result_line(contest, method, rounds)}", flush=True)


def obstacle(contest: Contest, method: str) -> str | None:
    """Tell why a method cannot take part.

    Parameters
    ----------
    contest : Contest
        The problem.
    method : str
        The method.

    Returns
    -------
    str or None
        None if it can.
    """
    solver = REGISTRY[method](**_options(contest, method))
    try:
        solver.check(contest.goal.problem)
    except TypeError as error:
        return f"left out: {error}"
    for_n, for_one = (evaluated(solver, n) for n in (contest.goal.problem.dim_y, 1))
    calls = sum((for_n - for_one).as_dict().values())
    if solver.kind != "stochastic" and calls > MOST_CALLS:
        return f"left out: an iteration takes {calls:,} calls more than for n = 1"
    return None


def _options(contest: Contest, method: str) -> dict[str, Any]:
    settings = SETTINGS.get(method, Settings())
    cleans = isinstance(contest.goal.problem, HyperCleaning)
    return dict(settings.options) | (dict(settings.cleaning) if cleans else {})


def result_line(contest: Contest, method: str, rounds: Rounds) -> str:
    """Return what a method's line of the table says.

    Parameters
    ----------
    contest : Contest
        The problem.
    method : str
        The method.
    rounds : Rounds
        How long.

    Returns
    -------
    str
        The numbers, or the error that ended its run.
    """
    options, decay = _options(contest, method), DECAY.get(method, CONSTANT)
    solver = REGISTRY[method]
    candidates = (None,) if solver.chooses_step and solver.kind == "deterministic" else contest.grid
    try:
        best, diverged = best_run(
            lambda steps, seconds: reach(contest.goal, method, steps, options, seconds, decay), candidates, rounds
        )
    except (ArithmeticError, TypeError, ValueError) as error:  # of one method; the others go on
        return f"failed: {type(error).__name__}: {error}"
    return _shown(contest, best, diverged, len(candidates))


def _shown(contest: Contest, best: Outcome, diverged: int, candidates: int) -> str:
    problem = contest.goal.problem
    seconds = f"{best.seconds:11.2f}" if np.isfinite(best.seconds) else "not reached"
    passes = best.samples / (problem.n_samples_lower + problem.n_samples_upper)
    value = format(best.value - contest.zero, contest.shown)
    steps = f"{'found':<10}       " if best.steps is None else f"{best.steps.inner:<10.3g}  {best.steps.ratio:<5.2g}"
    word = "diverged" if best.diverged else "converged" if best.converged and not np.isfinite(best.seconds) else None
    end = f"  {word} after {best.ended:.2f} s" if word else ""
    return f"{seconds} {best.samples:14,d} {passes:8,.0f} {value:>11}  {steps}  {diverged} of {candidates}{end}"


def ijcnn1() -> Contest:
    """Return the penalties of IJCNN1.

    Returns
    -------
    Contest
        With Phi of an accurate lower level.

    Raises
    ------
    FileNotFoundError
        If the data are not there.
    """
    return _penalties(*real_problem(), look=0.1)


def _quick_ijcnn1() -> Contest:
    return _penalties(*random_problem(), look=0.05)


def _penalties(problem: nbo.problems.BinaryLogistic, name: str, look: float) -> Contest:
    best = accurate_minimum(problem)
    target = f"Phi(x) - Phi* <= {GAP:g} with an accurate y*(x), Phi* = {best:.6f} the lowest value known"
    return Contest(name, accurate_goal(problem, best + GAP, look), PENALTY_GRID, "Phi - Phi*", target, best, ".2e")


def mnist() -> Contest:
    """Return hyper-cleaning of MNIST, whose training labels are redrawn with probability 1/2, in float32.

    Returns
    -------
    Contest
        With the test error of y.

    Raises
    ------
    FileNotFoundError
        If the data are not there.
    """
    data = load("mnist", corruption=0.5, dtype="float32")
    problem = HyperCleaning(data.A, data.b, data.A_val, data.b_val)
    name = f"Hyper-cleaning of MNIST ({problem.n_samples_lower} + {problem.n_samples_upper} rows, float32)"
    assert data.A_test is not None and data.b_test is not None
    return _cleaning(problem, name, data.A_test, data.b_test, ERROR)


def _quick_cleaning() -> Contest:
    data = load("digits", corruption=0.5)
    problem = HyperCleaning(data.A, data.b, data.A_val, data.b_val)
    assert data.A_test is not None and data.b_test is not None
    return _cleaning(problem, "Hyper-cleaning of digits", data.A_test, data.b_test, 0.2)


def _cleaning(problem: HyperCleaning, name: str, A: Array, b: Array, wanted: float) -> Contest:
    def error(x: Array, y: Array) -> float:
        return float(np.mean(problem.predict(A, y) != b))

    x0, y0 = constant_start(problem)
    target = f"test error of the iterate y <= {wanted:g}; {len(b)} test rows"
    return Contest(
        name, Goal(problem, x0, y0, lambda: error, wanted, 0.1), CLEANING_GRID, "test error", target, 0.0, ".4f"
    )

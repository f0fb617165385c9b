"""How far single samples of a finite sum are from their mean, and how errors of stochastic runs are distributed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._minimize import minimize
from nbo._vectors import norm
from nbo.lower_level import solve_lower_level
from nbo.oracles import CountedProblem
from nbo.problem import BilevelProblem
from nbo.theory._derivatives import Place
from nbo.theory.constants import ProblemConstants

Array = npt.NDArray[Any]

#: Samples of a level that are looked at one by one, at most; of more so many are drawn, in pairs.
MAX_SAMPLES = 300
#: Up to this n second derivatives are compared as matrices, beyond along so many random directions a pair.
MATRIX_DIM, PROBES = 64, 8
#: Iterations after which the errors of repeated runs are compared.
ERROR_ITERATIONS = (4, 16, 64)


class Deviation(NamedTuple):
    """A root mean square deviation.

    Attributes
    ----------
    value : float
        The deviation.
    doubt : float
        By how much it may be too large, four standard errors; 0 where nothing was drawn.
    """

    value: float
    doubt: float


#: (view of some samples, directions) -> an array of what is compared.
_Quantity = Callable[[CountedProblem, Array], Array]


def deviations(view: CountedProblem, place: Place, rng: np.random.Generator, rounding: float) -> dict[str, Deviation]:
    """Return the deviations of single samples at one point.

    Parameters
    ----------
    view : CountedProblem
        The oracles of a `FiniteSumProblem`.
    place : Place
        The point.
    rng : numpy.random.Generator
        Draws pairs and directions.
    rounding : float
        The relative error of what is compared, which is taken off.

    Returns
    -------
    dict
        sigma_f1, sigma_g1, sigma_g2, sigma_g12 -> `Deviation`.

    Notes
    -----
    The deviation sigma of independent samples i, j is given by E|a_i - a_j|^2 = 2 sigma^2, and the Frobenius norm of
    a matrix by E|M z|^2 = |M|_F^2 for random signs z.
    """
    n = view.dim_y

    def gradient_f(part: CountedProblem, _: Array) -> Array:
        return np.concatenate([each.astype(np.float64) for each in part.upper_grad(*place)])

    def gradient_g(part: CountedProblem, _: Array) -> Array:
        return part.lower_model(*place).grad_y().astype(np.float64)

    def second(part: CountedProblem, Z: Array) -> Array:
        return part.lower_model(*place).hvp(Z).astype(np.float64).ravel()

    def mixed(part: CountedProblem, Z: Array) -> Array:
        model = part.lower_model(*place)
        return np.concatenate([model.jvp(z) for z in Z])

    quantities: dict[str, tuple[_Quantity, str, bool]] = {
        "sigma_f1": (gradient_f, "upper", False),
        "sigma_g1": (gradient_g, "lower", False),
        "sigma_g2": (second, "lower", True),
        "sigma_g12": (mixed, "lower", True),
    }
    found = {}
    for name, (quantity, level, is_matrix) in quantities.items():
        size = getattr(view.problem, f"n_samples_{level}")
        if size <= MAX_SAMPLES and not (is_matrix and n > MATRIX_DIM):
            directions = np.eye(n, dtype=view.dtype)
            squares, largest = _all_samples(view, quantity, level, size, directions)
            doubt = 0.0
        else:
            squares, largest = _pairs(view, quantity, level, size, rng, is_matrix)
            doubt = 4 * float(np.std(squares)) / math.sqrt(len(squares))
        found[name] = _deviation(float(np.mean(squares)), doubt, rounding * largest)
    return found


def _deviation(square: float, doubt: float, rounding: float) -> Deviation:
    value = math.sqrt(square)
    return Deviation(max(value - rounding, 0.0), value - math.sqrt(max(square - doubt, 0.0)))


def _of(view: CountedProblem, level: str, *samples: int) -> CountedProblem:
    batch = np.array(samples)
    return view.over_samples(batch, None) if level == "lower" else view.over_samples(None, batch)


def _all_samples(
    view: CountedProblem, quantity: _Quantity, level: str, size: int, directions: Array
) -> tuple[list[float], float]:
    """Return the squared distance of every sample from the mean, and the largest norm seen."""
    mean = quantity(view, directions)
    squares, largest = [], norm(mean)
    for i in range(size):
        one = quantity(_of(view, level, i), directions)
        largest = max(largest, norm(one))
        squares.append(norm(one - mean) ** 2)
    return squares, largest


def _pairs(
    view: CountedProblem, quantity: _Quantity, level: str, size: int, rng: np.random.Generator, is_matrix: bool
) -> tuple[list[float], float]:
    """Return half the squared distances in pairs of drawn samples, along directions of their own."""
    squares, largest = [], 0.0
    for pair in rng.integers(size, size=(MAX_SAMPLES // 2, 2)):
        count = PROBES if is_matrix else 1
        directions = rng.choice([-1.0, 1.0], (count, view.dim_y)).astype(view.dtype)
        first, last = (quantity(_of(view, level, i), directions) for i in pair)
        largest = max(largest, norm(first) / math.sqrt(count))
        squares.append(norm(first - last) ** 2 / (2 * count))
    return squares, largest


def error_ratio(
    problem: BilevelProblem, place: Place, constants: ProblemConstants, n_repeats: int, rng: np.random.Generator
) -> float | None:
    """Measure E|y^k - y*(x^k)|^2/(E|y^k - y*(x^k)|)^2 in repeated runs of ``nsbo-sgd``.

    They start at y*(x) with a small step, the one of the theory but for its smaller term.

    Parameters
    ----------
    problem : FiniteSumProblem
        The problem.
    place : Place
        x and y*(x).
    constants : ProblemConstants
        For the step.
    n_repeats : int
        Runs.
    rng : numpy.random.Generator
        Seeds them.

    Returns
    -------
    float or None
        The largest over a few k, at least 1; None where errors are those of rounding.
    """
    L1 = constants.L1 if np.isfinite(constants.L1) else constants.L_f1
    step = (constants.mu / constants.L_g1) ** 2 / (160 * constants.r * (L1 if L1 > 0 else 1.0))
    batch = max(1, min(64, problem.n_samples_lower // 8, problem.n_samples_upper // 8))  # type: ignore[attr-defined]
    seeds = [int(seed) for seed in rng.integers(2**63, size=n_repeats)]
    floor = 1e3 * float(np.finfo(problem.dtype).eps) * (1 + norm(place.y))
    ratios = []
    for n_iterations in ERROR_ITERATIONS:
        options = {"step_size": step, "batch_size": batch, "eval_every": n_iterations}
        errors = np.array([_error_of_run(problem, place, n_iterations, options, seed) for seed in seeds])
        if errors.mean() > floor:
            ratios.append(float(np.mean(errors**2) / errors.mean() ** 2))
    return max(1.0, *ratios) if ratios else None


def _error_of_run(
    problem: BilevelProblem, place: Place, n_iterations: int, options: dict[str, Any], seed: int
) -> float:
    run = minimize(
        problem, place.x, y0=place.y, method="nsbo-sgd", max_iter=n_iterations, random_state=seed, options=options
    )
    return norm(run.y - solve_lower_level(problem, run.x, y0=run.y).y)

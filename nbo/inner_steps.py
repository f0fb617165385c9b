"""The inner step size gamma: given, or from an estimate of the spectrum of H."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo.linear_solvers import CurvatureError, Product, lanczos
from nbo.schedules import Schedule, step_at

Memory = Mapping[str, Any]


class Spectrum(NamedTuple):
    """Estimated ends of the spectrum of H.

    Attributes
    ----------
    smallest : float
        The smallest Ritz value, at least lambda_min(H).
    largest : float
        The largest Ritz value plus its residual, in practice at least lambda_max(H).
    """

    smallest: float
    largest: float


def estimate_spectrum(hvp: Product, dim_y: int, dtype: npt.DTypeLike, n_steps: int = 8) -> Spectrum:
    """Estimate the ends of the spectrum of H by a few Lanczos steps from a fixed vector.

    Costs min(n_steps, n) products.

    Parameters
    ----------
    hvp : callable
        The product with H on rows, (k, n) -> (k, n).
    dim_y : int
        n.
    dtype : dtype
        Of the vectors.
    n_steps : int
        Lanczos steps.

    Returns
    -------
    Spectrum
        The two ends.

    Raises
    ------
    CurvatureError
        If H is found not to be positive definite.
    """
    start = np.random.default_rng(0).standard_normal((1, dim_y)).astype(dtype)
    (basis,) = lanczos(hvp, start, n_steps)
    values, vectors = np.linalg.eigh(basis.tridiagonal())
    largest = float(values[-1] + abs(basis.last * vectors[-1, -1]))
    rounding = float(np.finfo(dtype).eps) * largest
    if values[0] < -1e2 * rounding or largest <= 0:
        raise CurvatureError(f"curvature {values[0]:.3g}")
    return Spectrum(max(float(values[0]), rounding), largest)


@dataclasses.dataclass(frozen=True)
class InnerStep:
    """The inner step gamma: given, or 1/lambda_max(H) estimated by Lanczos steps (counted).

    An estimate is halved when a step enlarges a linear residual, and renewed at the next iteration,
    at most every `RENEWAL` iterations.

    Parameters
    ----------
    schedule : float, callable or None
        The given step; None estimates it.
    """

    schedule: Schedule | None

    #: The fewest iterations between two estimates.
    RENEWAL = 10

    def at(self, k: int, hvp: Product, dim_y: int, dtype: npt.DTypeLike, memory: Memory) -> tuple[float, Memory]:
        """Return gamma for iteration `k`, estimating it if it is due.

        Parameters
        ----------
        k : int
            The iteration.
        hvp : callable
            The product with H on rows.
        dim_y : int
            n.
        dtype : dtype
            Of y.
        memory : mapping
            What earlier iterations left.

        Returns
        -------
        gamma : float
            The step.
        memory : mapping
            To pass on.
        """
        if self.schedule is not None:
            return step_at("inner_step_size", self.schedule, k), memory
        due = "inner_step" not in memory or (memory["inner_stale"] and k - memory["inner_since"] >= self.RENEWAL)
        if due:
            ends = estimate_spectrum(hvp, dim_y, dtype)
            memory = {
                **memory,
                "inner_step": 1 / ends.largest,
                "inner_slowest": ends.smallest,
                "inner_since": k,
                "inner_stale": False,
            }
        return memory["inner_step"], memory

    def observe(self, memory: Memory, enlarged: bool, suspect: bool = False) -> Memory:
        """Note whether this iteration's steps enlarged a residual.

        Parameters
        ----------
        memory : mapping
            What `at` returned.
        enlarged : bool
            Whether a step enlarged a linear residual, which proves it too long.
        suspect : bool
            Whether a residual grew for a reason that cannot be told from a move of x.

        Returns
        -------
        mapping
            To pass on.
        """
        if self.schedule is not None or not (enlarged or suspect):
            return memory
        factor = 0.5 if enlarged else 1.0
        return {**memory, "inner_step": factor * memory["inner_step"], "inner_stale": True}


def lag(gamma: float, n_steps: int, memory: Memory) -> float:
    """Return how many times larger than n gradient steps from zero the exact solution may be.

    In the slowest mode seen, n steps make 1 - (1 - gamma mu)^n of the solution.

    Parameters
    ----------
    gamma : float
        The step.
    n_steps : int
        n.
    memory : mapping
        Of `InnerStep`, with the smallest Ritz value if the step was estimated.

    Returns
    -------
    float
        At least 1; 1 for a given step, about whose spectrum nothing is known.
    """
    part = gamma * memory.get("inner_slowest", np.inf)
    return 1.0 if part >= 1 else -1 / math.expm1(n_steps * math.log1p(-part))

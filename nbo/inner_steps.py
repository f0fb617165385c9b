"""The inner step size gamma: given, or from an estimate of the spectrum of H."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._storable import storable
from nbo.linear_solvers import CurvatureError, Product, lanczos
from nbo.schedules import Schedule, step_at

Memory = Mapping[str, Any]


@storable
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
    smallest, largest = _ritz_ends(hvp, dim_y, dtype, n_steps)
    rounding = float(np.finfo(dtype).eps) * largest
    if smallest < -1e2 * rounding or largest <= 0:
        raise CurvatureError(f"curvature {smallest:.3g}")
    return Spectrum(max(smallest, rounding), largest)


def largest_curvature(hvps: Sequence[Product], dim_y: int, dtype: npt.DTypeLike, n_measured: int) -> float:
    """Estimate the largest eigenvalue of several matrices, such as Hessians of minibatches, which may be indefinite.

    Costs min(8, n) products with each of `n_measured` matrices; where there are more, one product with each tells
    which ones.

    Parameters
    ----------
    hvps : sequence of callable
        The products on rows, (k, n) -> (k, n).
    dim_y : int
        n.
    dtype : dtype
        Of the vectors.
    n_measured : int
        How many matrices to look at more closely.

    Returns
    -------
    float
        The largest of their estimates.

    Raises
    ------
    CurvatureError
        If it is not positive.
    """
    if len(hvps) > n_measured:
        start = _start(dim_y, dtype)
        hvps = sorted(hvps, key=lambda hvp: -float(np.linalg.norm(hvp(start))))[:n_measured]
    largest = max(_ritz_ends(hvp, dim_y, dtype, 8)[1] for hvp in hvps)
    if largest <= 0:
        raise CurvatureError(f"curvature {largest:.3g}")
    return largest


def _start(dim_y: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.random.default_rng(0).standard_normal((1, dim_y)).astype(dtype)


def _ritz_ends(hvp: Product, dim_y: int, dtype: npt.DTypeLike, n_steps: int) -> tuple[float, float]:
    """Return the smallest Ritz value, and the largest one plus its residual."""
    (basis,) = lanczos(hvp, _start(dim_y, dtype), n_steps)
    values, vectors = np.linalg.eigh(basis.tridiagonal())
    return float(values[0]), float(values[-1] + abs(basis.last * vectors[-1, -1]))


@storable
class SpectrumEstimate(NamedTuple):
    """A spectrum that a run has estimated, under ``"spectrum"`` in the memory of its method.

    Attributes
    ----------
    ends : Spectrum
        The estimate, its upper end doubled by every step that proved too long.
    since : int
        The iteration of the estimate.
    stale : bool
        Whether it is in doubt.
    """

    ends: Spectrum
    since: int
    stale: bool = False


#: The fewest iterations between two estimates.
RENEWAL = 10


def with_spectrum(k: int, hvp: Product, dim_y: int, dtype: npt.DTypeLike, memory: Memory) -> Memory:
    """Estimate the spectrum of H if there is no estimate, or one that is in doubt and not too young.

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
    mapping
        With a `SpectrumEstimate` under ``"spectrum"``.
    """
    known = memory.get("spectrum")
    if known is None or (known.stale and k - known.since >= RENEWAL):
        return {**memory, "spectrum": SpectrumEstimate(estimate_spectrum(hvp, dim_y, dtype), k)}
    return memory


def doubt_spectrum(memory: Memory, enlarged: bool, suspect: bool) -> Memory:
    """Put an estimate in doubt after steps that enlarged a residual.

    Parameters
    ----------
    memory : mapping
        From `with_spectrum`.
    enlarged : bool
        Whether a step enlarged a linear residual, which proves it too long.
    suspect : bool
        Whether a residual grew for a reason that cannot be told from a move of x.

    Returns
    -------
    mapping
        To pass on.
    """
    if not (enlarged or suspect):
        return memory
    (smallest, largest), since, _ = memory["spectrum"]
    ends = Spectrum(smallest, 2 * largest if enlarged else largest)
    return {**memory, "spectrum": SpectrumEstimate(ends, since, stale=True)}


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
        memory = with_spectrum(k, hvp, dim_y, dtype, memory)
        return 1 / memory["spectrum"].ends.largest, memory

    def observe(self, memory: Memory, enlarged: bool, suspect: bool = False) -> Memory:
        """Note whether this iteration's steps enlarged a residual; see `doubt_spectrum`.

        Parameters
        ----------
        memory : mapping
            What `at` returned.
        enlarged, suspect : bool
            As in `doubt_spectrum`.

        Returns
        -------
        mapping
            To pass on.
        """
        return memory if self.schedule is not None else doubt_spectrum(memory, enlarged, suspect)


def lag(n_steps: int, memory: Memory) -> float:
    """Return how many times larger than n gradient steps from zero the exact solution may be.

    With gamma = 1/lambda_max(H), n steps make 1 - (1 - gamma mu)^n of the solution in the slowest mode seen.

    Parameters
    ----------
    n_steps : int
        n.
    memory : mapping
        Of `InnerStep`.

    Returns
    -------
    float
        At least 1, finite; 1 for a given step, about whose spectrum nothing is known.
    """
    if "spectrum" not in memory:
        return 1.0
    smallest, largest = memory["spectrum"].ends
    part = smallest / largest
    return 1.0 if part >= 1 else -1 / math.expm1(n_steps * math.log1p(-part))

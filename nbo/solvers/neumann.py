"""What methods share whose u is a truncated Neumann series, computed from scratch at each point."""

from __future__ import annotations

import abc
import dataclasses

from nbo._validation import choice, integer
from nbo.adjoint_estimators import AdjointEstimator, NeumannDraw, NeumannSum
from nbo.schedules import Schedule, step_at, validate_schedule
from nbo.solvers.stochastic import MOST_STEPS, StochasticSolver


@dataclasses.dataclass(frozen=True, kw_only=True)
class NeumannSolver(StochasticSolver):
    """A method with a Neumann series for u, which has a step eta of its own.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha.
    inner_step_size : float or callable, optional
        rho.
    batch_size : int or "full", optional
        The size of every batch; 64 by default.
    batch_sizes : dict, optional
        Sizes of single batches.
    sampler : {"epoch", "window", "iid"}
        How batches are drawn.
    eval_every : int, optional
        Iterations between two evaluations of f.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    linear_step_size : float or callable, optional
        eta of the series; left out, the first rho, since a decaying one would shorten the sum.
    n_linear_steps : int
        N.
    """

    linear_step_size: Schedule | None = None
    n_linear_steps: int = 10

    def __post_init__(self) -> None:
        if self.linear_step_size is not None:
            validate_schedule("linear_step_size", self.linear_step_size)
        integer("n_linear_steps", self.n_linear_steps, minimum=1, maximum=MOST_STEPS)
        super().__post_init__()

    @abc.abstractmethod
    def estimator(self) -> type[AdjointEstimator]:
        """Return how u is estimated.

        Returns
        -------
        type
            A class of `nbo.adjoint_estimators`.
        """

    def steps(self) -> int:
        """Return the N of the estimator.

        Returns
        -------
        int
            `n_linear_steps` by default.
        """
        return self.n_linear_steps

    def linear_step(self, inner: Schedule) -> Schedule:
        """Return eta; see `StochasticSolver.linear_step`."""
        return step_at("inner_step_size", inner, 0) if self.linear_step_size is None else self.linear_step_size


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrawnNeumannSolver(NeumannSolver):
    """The same with a randomly truncated product, or in its place the sum that is its mean.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha.
    inner_step_size : float or callable, optional
        rho.
    batch_size : int or "full", optional
        The size of every batch; 64 by default.
    batch_sizes : dict, optional
        Sizes of single batches.
    sampler : {"epoch", "window", "iid"}
        How batches are drawn.
    eval_every : int, optional
        Iterations between two evaluations of f.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    linear_step_size : float or callable, optional
        eta of the series.
    n_linear_steps : int
        N.
    truncation : {"drawn", "sum"}
        Whether the number of factors is drawn, or all N terms are summed, which takes N - 1 products.
    """

    truncation: str = "drawn"

    def __post_init__(self) -> None:
        choice("truncation", self.truncation, ("drawn", "sum"))
        super().__post_init__()

    def estimator(self) -> type[AdjointEstimator]:
        """Return what `truncation` says; see `NeumannSolver.estimator`."""
        return NeumannDraw if self.truncation == "drawn" else NeumannSum

    def steps(self) -> int:
        """Return N, of a sum N - 1, whose terms are N; see `NeumannSolver.steps`."""
        return self.n_linear_steps - (self.truncation == "sum")

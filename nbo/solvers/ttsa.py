"""TTSA: one step on y and one on x an iteration, on two timescales (Hong, Wai, Wang and Yang, 2023)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from nbo.solvers.alset import ALSET


@dataclasses.dataclass(frozen=True, kw_only=True)
class TTSA(ALSET):
    """TTSA (Hong, Wai, Wang and Yang, 2023): one step on y, u by a randomly truncated Neumann product, one step on x.

    The iteration of `nbo.ALSET` with Q = 1; the theory asks for steps on two timescales, rho ~ (k + 1)^(-2/5) and
    alpha ~ (k + 1)^(-3/5), such as ``PowerDecay(0.5, 2 / 5)`` and ``PowerDecay(0.1, 3 / 5)`` of `nbo.schedules`;
    numbers are constant steps. The exponents are unverified at the original source. Costs 1 lower_grad_y, at most N - 1
    and on average (N - 1)/2 lower_hvp, 1 upper_grad and 1 lower_jvp an iteration, on minibatches.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha, such as ``PowerDecay(0.1, 3 / 5)``.
    inner_step_size : float or callable, optional
        rho, for y; left out, 1/(2 L) with L the largest curvature of batches at the start (counted).
    batch_size : int or "full", optional
        The size of every batch; 64 (paper of NBO, appendix C.2) by default, capped at the number of samples.
    batch_sizes : dict, optional
        Sizes of single batches, "B1" (Hessians of the series), "B2" (grad_2 g), "B3" (grad f) and "B4" (Jacobian);
        they override `batch_size`.
    sampler : {"epoch", "window", "iid"}
        How batches are drawn, see `nbo.sampling.SAMPLERS`.
    eval_every : int, optional
        Iterations between two evaluations of f; a twentieth of `max_iter` by default.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    linear_step_size : float or callable, optional
        eta; left out, the first rho (benchmark-derived: one step for both).
    n_linear_steps : int
        N; 10 (benchmark-derived).
    n_lower_steps : int
        Q; 1 (that paper).
    truncation : {"drawn", "sum"}
        Whether N' is drawn, or all N terms are summed, which takes N - 1 products in every iteration.
    """

    name: ClassVar[str] = "ttsa"
    description: ClassVar[str] = "single step on y, randomly truncated Neumann product for u (Hong et al., 2023)"
    source: ClassVar[str] = (
        "Hong, Wai, Wang and Yang, 2023, A Two-Timescale Stochastic Algorithm Framework for Bilevel Optimization "
        "(SIAM Journal on Optimization)"
    )

    n_lower_steps: int = 1

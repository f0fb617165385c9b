"""BSA: the bilevel stochastic approximation method (Ghadimi and Wang, 2018)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from nbo.solvers.alset import ALSET


@dataclasses.dataclass(frozen=True, kw_only=True)
class BSA(ALSET):
    """BSA (Ghadimi and Wang, 2018): the first double loop with a randomly truncated Neumann product.

    The iteration of `nbo.ALSET`, with steps of its own: that paper lets rho decay within the inner loop and Q grow with
    the iterations, unverified at the original source. Here Q is constant (`n_lower_steps`) and rho whatever
    `inner_step_size` says. Costs Q lower_grad_y, at most N - 1 and on average (N - 1)/2 lower_hvp, 1 upper_grad and
    1 lower_jvp an iteration, on minibatches.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha.
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
        Q; 10 (paper of NBO, appendix C.2, for double loops).
    truncation : {"drawn", "sum"}
        Whether N' is drawn, or all N terms are summed, which takes N - 1 products in every iteration.
    """

    name: ClassVar[str] = "bsa"
    description: ClassVar[str] = "double loop, u by a randomly truncated Neumann product (Ghadimi and Wang, 2018)"
    source: ClassVar[str] = "Ghadimi and Wang, 2018, Approximation Methods for Bilevel Programming (arXiv:1802.02246)"

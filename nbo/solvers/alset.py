"""ALSET: stochastic gradient steps on y, a randomly truncated Neumann product for u (Chen, Sun and Yin, 2021)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from nbo.solvers.neumann import DrawnNeumannSolver
from nbo.solvers.stochastic_double_loop import NeumannDoubleLoop


@dataclasses.dataclass(frozen=True, kw_only=True)
class ALSET(DrawnNeumannSolver, NeumannDoubleLoop):
    """ALSET (Chen, Sun and Yin, 2021): Q steps on y, u by a randomly truncated Neumann product, one step on x.

    y: Q steps y <- y - rho grad_2 g_b, warm-started, a fresh batch b each. At the new y, with b' drawn once, N' uniform
    on {0, .., N - 1} and a fresh Hessian batch i for each factor,

        u = N eta prod_{i=1..N'} (I - eta H_i) grad_2 f_b',

    whose mean over N' is the sum of the first N terms of eta sum_q (I - eta H)^q grad_2 f; then
    x <- project(x - alpha (grad_1 f_b' - J_b'' u)). That mean has the bias (I - eta H)^N H^{-1} grad_2 f. The draw
    of N' (uniform, with the factor N) is unverified at the original source; `truncation` replaces it by its mean.
    Costs Q lower_grad_y, at most N - 1 and on average (N - 1)/2 lower_hvp, 1 upper_grad and 1 lower_jvp an iteration,
    on minibatches.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha; K^(-1/2) for both levels in that paper, with K the number of
        iterations.
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

    name: ClassVar[str] = "alset"
    description: ClassVar[str] = "double loop, u by a randomly truncated Neumann product (Chen, Sun and Yin, 2021)"
    source: ClassVar[str] = (
        "Chen, Sun and Yin, 2021, Closing the Gap: Tighter Analysis of Alternating SGD for Bilevel Problems (NeurIPS)"
    )
    cost: ClassVar[str] = "1 upper_grad, Q lower_grad_y, N-1 lower_hvp, 1 lower_jvp"
    cost_note: ClassVar[str] = "at most; half of the products on average"

"""SUSTAIN: STORM momentum on both levels, a randomly truncated Neumann product (Khanduri et al., 2021)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from nbo.solvers.neumann import DrawnNeumannSolver
from nbo.solvers.stochastic_recursion import MomentumSolver


@dataclasses.dataclass(frozen=True, kw_only=True)
class SUSTAIN(DrawnNeumannSolver, MomentumSolver):
    """SUSTAIN (Khanduri et al., 2021): STORM momentum on y and x, u by a randomly truncated Neumann product.

    At the old (x, y), with D_b(x, y) = (grad_2 g_b, grad_1 f_b - J_b u_b) and u_b the estimate of `nbo.ALSET`,

        D^k = D_b(x^k, y^k) + beta_k (D^(k-1) - D_b(x^(k-1), y^(k-1))),

    the same batches and the same truncation at both points, D^0 = D_b(x^0, y^0); then y <- y - rho D_y and
    x <- project(x - alpha D_x). One beta for both levels and the decays are unverified at the original source:
    `momentum`, `step_size` and `inner_step_size` set them. Costs 2 lower_grad_y, 2 upper_grad, 2 lower_jvp and at most
    2 (N - 1), on average N - 1, lower_hvp an iteration, on minibatches; half of that in the first iteration, and where
    beta is 0.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha; that paper lets steps of both levels decay as (k + 1)^(-1/3), such as
        ``PowerDecay(0.1, 1 / 3)``.
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
    momentum : float or callable
        beta, in [0, 1], or a schedule k -> beta; by default 1 - eta_k with eta_k = (k + 1)^(-2/3), the rate of that
        paper with a constant of one; 0 is plain SGD.
    truncation : {"drawn", "sum"}
        Whether the number of factors is drawn, or all N terms are summed, which takes N - 1 products at each point.
    """

    name: ClassVar[str] = "sustain"
    description: ClassVar[str] = "momentum on both levels, randomly truncated Neumann product (Khanduri et al., 2021)"
    source: ClassVar[str] = (
        "Khanduri, Zeng, Hong, Wai, Wang and Yang, 2021, A Near-Optimal Algorithm for Stochastic Bilevel Optimization "
        "via Double-Momentum (NeurIPS)"
    )
    cost: ClassVar[str] = "2 upper_grad, 2 lower_grad_y, 2*(N-1) lower_hvp, 2 lower_jvp"
    cost_note: ClassVar[str] = "at most; half of the products on average"

"""StocBiO: stochastic gradient steps on y, a Neumann sum for u (Ji, Yang and Liang, 2021)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from nbo.adjoint_estimators import AdjointEstimator, NeumannSum
from nbo.solvers.stochastic_double_loop import NeumannDoubleLoop


@dataclasses.dataclass(frozen=True, kw_only=True)
class StocBiO(NeumannDoubleLoop):
    """StocBiO (Ji, Yang and Liang, 2021): Q steps on y, u by a Neumann sum, one step on x.

    y: Q steps y <- y - rho grad_2 g_b, warm-started, a fresh batch b each. At the new y, with b' drawn once and a fresh
    Hessian batch i for each product,

        u = eta sum_{q=0..N} prod_{i=1..q} (I - eta H_i) grad_2 f_b',

    all N + 1 terms, the first one without a product; then x <- project(x - alpha (grad_1 f_b' - J_b'' u)). The estimate
    has the bias (I - eta H)^(N+1) H^{-1} grad_2 f, so x tends to a point off the solution that more terms bring nearer.
    Costs Q lower_grad_y, N lower_hvp, 1 upper_grad and 1 lower_jvp an iteration, on minibatches.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha; constant in that paper.
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
        N; 10 (paper of NBO, appendix C.2).
    n_lower_steps : int
        Q; 10 (paper of NBO, appendix C.2).
    """

    name: ClassVar[str] = "stocbio"
    description: ClassVar[str] = "double loop, u by a Neumann sum on minibatches (Ji, Yang and Liang, 2021)"
    source: ClassVar[str] = (
        "Ji, Yang and Liang, 2021, Bilevel Optimization: Convergence Analysis and Enhanced Design (ICML)"
    )
    cost: ClassVar[str] = "1 upper_grad, Q lower_grad_y, N lower_hvp, 1 lower_jvp"

    def estimator(self) -> type[AdjointEstimator]:
        """Return the sum; see `NeumannSolver.estimator`."""
        return NeumannSum

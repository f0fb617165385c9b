"""BAMM+NBO: Newton directions on a lower level that is averaged with the upper one, ever less."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from nbo.solvers.bamm import AggregatedNewtonSolver
from nbo.solvers.base import PAPER
from nbo.solvers.newton import NBOGD


@dataclasses.dataclass(frozen=True, kw_only=True)
class BAMMNBO(AggregatedNewtonSolver, NBOGD):
    """BAMM+NBO (paper, extension to lower levels without strong convexity): NBO-GD on phi_k.

    With phi_k = mu_k f + (1 - mu_k) g, strongly convex in y if f is, and its Hessian K = nabla_22^2 phi_k in y, all at
    the old (x, y, u): v ~ K^{-1} grad_2 phi_k and w ~ K^{-1} (K u - grad_2 f) by T + 1 gradient steps from zero, then

    - y <- y - v;
    - u <- u - w;
    - x <- x - alpha (grad_1 f - nabla_12^2 phi_k u) with the old u.

    Costs per iteration: 1 upper_grad, which serves all parts, 1 upper_jvp, 1 lower_grad_y, 1 lower_jvp, and 2 T + 1
    of both upper_hvp and lower_hvp.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha; it has to be given, since the values of the problem change with mu_k.
    eval_every : int
        Iterations between two evaluations of f.
    variant : {"old-point", "newton-point"}
        Where d_x is evaluated.
    inner_step_size : float or callable, optional
        gamma, or a schedule; left out, 1/lambda_max of nabla_22^2 phi_k by 8 Lanczos steps (counted), renewed at most
        every 10 iterations.
    n_inner : int
        T; 1 in the paper's experiments, which do not tell it for this one.
    aggregation : float or callable
        mu, in [0, 1), or a schedule k -> mu; 0.9 (k + 1)^(-1/10) (the code of BAMM's authors).

    Notes
    -----
    What is said of bias and convergence at `nbo.BAMM` holds here too.
    """

    name: ClassVar[str] = "bamm-nbo"
    description: ClassVar[str] = "Newton directions by T+1 gradient steps on mu_k f + (1 - mu_k) g (paper, extension)"
    source: ClassVar[str] = PAPER
    cost: ClassVar[str] = "1 upper_grad, 2*T+1 upper_hvp, 1 upper_jvp, 1 lower_grad_y, 2*T+1 lower_hvp, 1 lower_jvp"

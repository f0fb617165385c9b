"""FSLA: a single loop with STORM momentum on the upper direction alone (Li, Gu and Huang, 2022)."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from nbo.coordinates import Room
from nbo.gradient_estimators import UpperSTORM
from nbo.minibatches import Data
from nbo.oracles import OracleCounts
from nbo.problem import BilevelProblem
from nbo.sampling import Stream
from nbo.solvers.stochastic_newton import MomentumNewton, two_points


@dataclasses.dataclass(frozen=True, kw_only=True)
class FSLA(MomentumNewton):
    """FSLA (Li, Gu and Huang, 2022): one step on y, one on u, and one on x along a STORM estimate.

    With z = (x, y, u) and minibatch estimates D_b(z), everything at the old point: y <- y - rho grad_2 g_b,
    u <- u - rho (H_b u - grad_2 f_b), and x <- project(x - alpha D_x) with

        D_x^k = d_b(z^k) + beta_k (D_x^(k-1) - d_b(z^(k-1))),    d_b = grad_1 f_b - J_b u,

    the same batch at both points; D_x^0 = d_b(z^0). This form of the momentum is unverified at the original source;
    ``momentum=0`` leaves it out, which is `nbo.SOBA`. So is the order of the updates, Jacobi as in all single loops
    here. Costs 1 lower_grad_y, 1 lower_hvp, 2 upper_grad and 2 lower_jvp an iteration, on minibatches.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha.
    inner_step_size : float or callable, optional
        rho, for y and u; left out, 1/(2 L) with L the largest curvature of batches at the start (counted).
    batch_size : int or "full", optional
        The size of every batch; 64 (paper of NBO, appendix C.2) by default, capped at the number of samples.
    batch_sizes : dict, optional
        Sizes of single batches, "B2" (lower) and "B3" (upper); with `share_batches=False` also "B1" (Hessian) and
        "B4" (Jacobian); they override `batch_size`.
    sampler : {"epoch", "window", "iid"}
        How batches are drawn, see `nbo.sampling.SAMPLERS`.
    eval_every : int, optional
        Iterations between two evaluations of f; a twentieth of `max_iter` by default.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides.
    share_batches : bool
        Whether one lower batch ("B2") serves D_y, H u and J u; True by default, as of `nbo.SOBA`
        (benchmark-derived).
    momentum : float or callable
        beta, in [0, 1], or a schedule k -> beta; 0.9 (a practical value).
    """

    name: ClassVar[str] = "fsla"
    description: ClassVar[str] = "single loop, STORM momentum on the upper direction (Li, Gu and Huang, 2022)"
    source: ClassVar[str] = (
        "Li, Gu and Huang, 2022, A Fully Single Loop Algorithm for Bilevel Optimization without Hessian Inverse (AAAI)"
    )
    cost: ClassVar[str] = "2 upper_grad, 1 lower_grad_y, 1 lower_hvp, 2 lower_jvp"
    cost_note: ClassVar[str] = "1 of each in the first"

    share_batches: bool = True

    def memory(
        self, problem: BilevelProblem, room: Room, streams: list[Stream], stored: Data, dtype: np.dtype[Any]
    ) -> UpperSTORM:
        """Return the memory of the upper direction; see `StochasticSolver.memory`."""
        return UpperSTORM(*two_points(problem, room, dtype))

    def kernels(self, fused: bool) -> tuple[str, ...]:
        """Add J u apart, for the old point; see `StochasticSolver.kernels`."""
        return tuple(dict.fromkeys((*super().kernels(fused), "lower_jvp")))

    def cost_per_iteration(self, dim_y: int) -> OracleCounts:
        """Return 1 lower_grad_y, 1 lower_hvp, 2 upper_grad and 2 lower_jvp, of the first iteration half the last two.

        Parameters
        ----------
        dim_y : int
            n.

        Returns
        -------
        OracleCounts
            On minibatches.
        """
        return OracleCounts(upper_grad=2, lower_grad_y=1, lower_hvp=1, lower_jvp=2)

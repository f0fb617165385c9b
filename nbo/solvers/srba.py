"""SRBA: SARAH recursions on the three directions of SOBA (Dagreou, Moreau, Vaiter and Ablin, 2024)."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from nbo._validation import integer
from nbo.sampling import Stream
from nbo.solvers.stochastic import LONGEST_PERIOD
from nbo.solvers.stochastic_newton import PageNewton


@dataclasses.dataclass(frozen=True, kw_only=True)
class SRBA(PageNewton):
    """SRBA (Dagreou, Moreau, Vaiter and Ablin, 2024): SOBA with SARAH estimates, renewed every so often.

    With z = (x, y, u) and D(z) = (grad_2 g, H u - grad_2 f, grad_1 f - J u), over all samples in the iterations
    k = 0, p, 2 p, ..., and else D^k = D^(k-1) + D_b(z^k) - D_b(z^(k-1)) on one batch; then y <- y - rho D_y,
    u <- u - rho D_u, x <- project(x - alpha D_x). It is `nbo.SPABA` with a period in the place of a coin; that the
    recursion is of this form, with the last of its points kept, is unverified at the original source. Costs 2
    lower_grad_y, 2 upper_grad, 2 lower_jvp and 2 lower_hvp an iteration on minibatches, or 1 of each over all samples.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha; constant in that paper.
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
    period : int, optional
        p; the batches of an epoch of "B2" by default (a practical value: half of the samples then come from full
        iterations); 1 is the full-batch method.
    """

    name: ClassVar[str] = "srba"
    description: ClassVar[str] = "single loop, SARAH estimates renewed periodically (Dagreou et al., 2024)"
    source: ClassVar[str] = (
        "Dagreou, Moreau, Vaiter and Ablin, 2024, A Lower Bound and a Near-Optimal Algorithm for Bilevel Empirical "
        "Risk Minimization (AISTATS)"
    )
    cost: ClassVar[str] = "2 upper_grad, 2 lower_grad_y, 2 lower_hvp, 2 lower_jvp"
    cost_note: ClassVar[str] = "every period iterations 1 of each over all samples instead"

    share_batches: bool = True
    period: int | None = None

    def __post_init__(self) -> None:
        if self.period is not None:
            integer("period", self.period, minimum=1, maximum=LONGEST_PERIOD)
        super().__post_init__()

    def full_iterations(self, batch: Stream) -> tuple[float, int]:
        """Return the period; see `PageNewton.full_iterations`."""
        return 0.0, batch.blocks if self.period is None else self.period

"""BAMM: the single loop on a lower level that is averaged with the upper one, ever less."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nbo._validation import choice
from nbo._vectors import norm
from nbo.aggregation import AggregatedView, aggregation_at, validate_aggregation
from nbo.inner_steps import Memory
from nbo.linear_solvers import CurvatureError, GradientDescent, LinearSolution, LinearSolver, Product
from nbo.oracles import CountedProblem, OracleCounts
from nbo.schedules import PowerDecay, Schedule
from nbo.solvers.newton import GradientNewtonSolver

Array = npt.NDArray[Any]

#: mu_k = 0.9 (k + 1)^(-1/10).
AGGREGATION = PowerDecay(0.9, 0.1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AggregatedNewtonSolver(GradientNewtonSolver):
    """The Newton-based framework on phi_k = mu_k f + (1 - mu_k) g in the place of g.

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
    aggregation : float or callable
        mu, in [0, 1), or a schedule k -> mu.
    """

    needs: ClassVar[tuple[str, ...]] = ("upper_hvp", "upper_jvp")
    chooses_step: ClassVar[bool] = False
    starts_anew: ClassVar[bool] = False
    aggregation: Schedule = AGGREGATION

    def __post_init__(self) -> None:
        super().__post_init__()
        validate_aggregation("aggregation", self.aggregation)

    def seen(self, view: CountedProblem, k: int) -> AggregatedView:
        """Return the problem over phi_k; see `NewtonSolver.seen`."""
        return AggregatedView(view, aggregation_at("aggregation", self.aggregation, k))

    def cost_per_iteration(self, dim_y: int) -> OracleCounts:
        """Return the oracle calls of one iteration with given step sizes.

        Parameters
        ----------
        dim_y : int
            n.

        Returns
        -------
        OracleCounts
            As many upper_hvp as lower_hvp and upper_jvp as lower_jvp; the joint gradient of f serves all parts.
        """
        lower = super().cost_per_iteration(dim_y)
        return lower + OracleCounts(upper_hvp=lower.lower_hvp, upper_jvp=lower.lower_jvp)


@dataclasses.dataclass(frozen=True)
class SteepestAdjoint(LinearSolver):
    """One gradient step from zero on every row: the first of a given length, the others of the best one.

    The best length is r'r/(r'H r), which leaves the least energy norm of the error. Costs one product for every row
    but the first.

    Parameters
    ----------
    step_size : float
        Of the first row.
    """

    step_size: float

    def solve(self, hvp: Product, rhs: Array) -> LinearSolution:
        """Take the steps; see `LinearSolver.solve`."""
        first = GradientDescent(self.step_size, 1).solve(hvp, rhs[:1])
        steps, residuals = [first.solution[0]], [float(first.residual_norms[0])]
        for r in rhs[1:]:
            size = norm(r)
            # of unit length, so that neither r'r nor r'H r underflows alone; a size that overflows makes NaN
            scale = size or 1.0
            q = r / r.dtype.type(scale if math.isfinite(scale) else np.nan)
            product = hvp(q[None])[0]
            curvature = float(q @ product)
            if size > 0 and curvature <= 0:
                raise CurvatureError(f"curvature {curvature:.3g}")
            length = size / curvature if size > 0 else 0.0
            steps.append(r.dtype.type(length) * q)
            residuals.append(norm(r - r.dtype.type(length) * product))
        return LinearSolution(np.stack(steps), np.array(residuals), len(rhs) - 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BAMM(AggregatedNewtonSolver):
    """BAMM (Liu et al., 2023), the averaged method of multipliers for lower levels without strong convexity.

    With phi_k = mu_k f + (1 - mu_k) g, strongly convex in y if f is, all at the old (x, y, u):

    - y <- y - rho grad_2 phi_k;
    - u <- u - rho (nabla_22^2 phi_k u - grad_2 f);
    - x <- x - alpha (grad_1 f - nabla_12^2 phi_k u).

    It is NBO-GD with T = 0 on phi_k. Costs per iteration: 1 upper_grad, which serves all three lines, 1 upper_hvp,
    1 upper_jvp, 1 lower_grad_y, 1 lower_hvp and 1 lower_jvp; with steepest descent on u one more of both hvp.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha; it has to be given, since the values of the problem change with mu_k.
    eval_every : int
        Iterations between two evaluations of f.
    variant : {"old-point", "newton-point"}
        Where d_x is evaluated: at the old (y, u) as in the paper, or at the new ones, for a second upper_grad.
    inner_step_size : float or callable, optional
        rho, or a schedule; left out, 1/lambda_max of nabla_22^2 phi_k by 8 Lanczos steps (counted), renewed at most
        every 10 iterations.
    aggregation : float or callable
        mu, in [0, 1), or a schedule k -> mu; 0.9 (k + 1)^(-1/10) (the authors' code).
    adjoint_step : {"fixed", "steepest-descent"}
        The step of u: rho, or r'r/(r'nabla_22^2 phi_k r) with r = nabla_22^2 phi_k u - grad_2 f (the authors' code);
        rho by default, as in the published comparison with NBO.

    Notes
    -----
    "Averaged Method of Multipliers for Bi-Level Optimization without Lower-Level Strong Convexity" (Liu, Liu, Yao,
    Zeng and Zhang, 2023).

    The adjoint equation has grad_2 f on its right-hand side, not grad_2 phi_k (errata A14). While mu_k > 0 the iterates
    follow the solution of the aggregated problem, which differs from that of the bilevel one by O(mu_k), unless f and g
    share their minimisers there. Convergence is convergence for the mu_k of that iteration: its norms are those of
    grad_2 phi_k and nabla_22^2 phi_k u - grad_2 f.
    """

    name: ClassVar[str] = "bamm"
    description: ClassVar[str] = (
        "single loop on mu_k f + (1 - mu_k) g, for merely convex lower levels (Liu et al., 2023)"
    )
    source: ClassVar[str] = (
        "Liu, Liu, Yao, Zeng and Zhang, 2023, Averaged Method of Multipliers for Bi-Level Optimization without "
        "Lower-Level Strong Convexity (ICML)"
    )
    cost: ClassVar[str] = "1 upper_grad, 1 upper_hvp, 1 upper_jvp, 1 lower_grad_y, 1 lower_hvp, 1 lower_jvp"
    adjoint_step: str = "fixed"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("adjoint_step", self.adjoint_step, ("fixed", "steepest-descent"))

    def n_steps(self) -> int:
        """Return 1; see `GradientNewtonSolver.n_steps`."""
        return 1

    def gradient_solver(self, gamma: float) -> LinearSolver:
        """Return one gradient step, or the steepest descent step for u; see `GradientNewtonSolver.gradient_solver`."""
        return GradientDescent(gamma, 1) if self.adjoint_step == "fixed" else SteepestAdjoint(gamma)

    def observe(self, solution: LinearSolution, rhs: Array, residual_grew: bool, memory: Memory) -> Memory:
        """Doubt an estimated rho when the residual of its steps grew; see `NewtonSolver.observe`.

        Steepest descent on u may enlarge its residual and says nothing about rho: then that of y counts.
        """
        if self.adjoint_step == "fixed":
            return super().observe(solution, rhs, residual_grew, memory)
        size = norm(rhs[0])
        grew = size > memory.get("lower_grad_norm", np.inf)
        return {**super().observe(solution, rhs, grew, memory), "lower_grad_norm": size}

    def products(self, dim_y: int) -> int:
        """Return 0, or 1 with steepest descent; see `NewtonSolver.products`."""
        return 0 if self.adjoint_step == "fixed" else 1

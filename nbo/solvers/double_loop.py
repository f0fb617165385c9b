"""Double-loop baselines: several steps on y, then on u at the new y, then one on x (Gauss-Seidel)."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nbo._validation import integer
from nbo._vectors import norm
from nbo.gradient_steps import descend
from nbo.inner_steps import InnerStep, Memory, lag
from nbo.linear_solvers import ConjugateGradient, GradientDescent, LinearSolver
from nbo.oracles import CountedProblem, OracleCounts
from nbo.schedules import Schedule, validate_schedule
from nbo.solvers.base import DeterministicSolver
from nbo.solvers.driver import State
from nbo.upper_steps import Directions

Array = npt.NDArray[Any]

#: Where AmIGO is from.
AMIGO_PAPER = "Arbel and Mairal, 2022, Amortized Implicit Differentiation for Stochastic Bilevel Optimization (ICLR)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DoubleLoop(DeterministicSolver):
    """Warm-started gradient steps on y, an inner solver for u, then x; all at the newest values.

    y: Q steps y <- y - rho grad_2 g(x, y). u: w ~ H^{-1} (H u - grad_2 f) at the new y, u <- u - w.
    x: x <- x - alpha (grad_1 f - J u) at the new y and u.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f.
    inner_step_size : float or callable, optional
        rho, for y and for gradient steps on u; left out, 1/lambda_max(H) by 8 Lanczos steps
        (counted), renewed at most every 10 iterations.
    """

    inner_step_size: Schedule | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inner_step_size is not None:
            validate_schedule("inner_step_size", self.inner_step_size)

    @abc.abstractmethod
    def lower_steps(self) -> int:
        """Return Q, the number of steps on y.

        Returns
        -------
        int
            At least 1.
        """

    @abc.abstractmethod
    def linear_solver(self, rho: float) -> LinearSolver:
        """Return the inner solver for the correction w of u.

        Parameters
        ----------
        rho : float
            The inner step of this iteration.

        Returns
        -------
        LinearSolver
            It starts from zero, that is from the old u.
        """

    @abc.abstractmethod
    def products(self) -> int:
        """Return the most products of the inner solver.

        Returns
        -------
        int
            Without the one in H u - grad_2 f.
        """

    def directions(self, view: CountedProblem, state: State) -> Directions:
        """Take the steps on y and u and compute d_x; see the class.

        Parameters
        ----------
        view : CountedProblem
            The oracles.
        state : State
            The current iterate.

        Returns
        -------
        Directions
            What the upper step needs; its residuals are those before the last inner step.
        """
        x, u = state.x, state.u
        inner = InnerStep(self.inner_step_size)
        start = view.lower_model(x, state.y)
        rho, memory = inner.at(state.nit, start.hvp, view.dim_y, view.dtype, state.memory)
        y, d_y, grew = descend(view, x, state.y, rho, self.lower_steps())
        model = view.lower_model(x, y)
        grad_1, grad_2 = view.upper_grad(x, y)
        d_u = model.hvp(u[None])[0] - grad_2
        solution = self.linear_solver(rho).solve(model.hvp, d_u[None])
        w = solution.solution[0]
        u_new = u - w
        memory = self._observe(inner, memory, solution.enlarged or grew, state, norm(d_u))
        product = model.jvp(u_new)
        return Directions(
            d_x=grad_1 - product,
            y=y,
            u=u_new,
            y_at=y,
            y_change=state.y - y,
            u_change=w,
            lower_grad_norm=norm(d_y),
            adjoint_residual=float(solution.residual_norms[0]),
            upper_grad_norm=norm(grad_2),
            jvp_norm=norm(product),
            correction=0.0,
            value_error=abs(float(np.vdot(u_new, d_y))),
            memory=memory,
            lag=lag(min(self.lower_steps(), self.products() + 1), memory),
        )

    def _observe(self, inner: InnerStep, memory: Memory, enlarged: bool, state: State, residual: float) -> Memory:
        single = self.lower_steps() == 1 and self.products() == 0
        return inner.observe(memory, enlarged, suspect=single and residual > state.norms[2])

    def cost_per_iteration(self, dim_y: int) -> OracleCounts:
        """Return the oracle calls of one iteration with given step sizes.

        Parameters
        ----------
        dim_y : int
            n.

        Returns
        -------
        OracleCounts
            Q lower_grad_y, 1 upper_grad, 1 lower_jvp and 1 + `products` lower_hvp.
        """
        return OracleCounts(upper_grad=1, lower_grad_y=self.lower_steps(), lower_hvp=1 + self.products(), lower_jvp=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AmIGOGD(DoubleLoop):
    """AmIGO-GD(Q) (Arbel and Mairal, 2022): Q gradient steps on y and on u, both warm-started.

    Costs per iteration: Q lower_grad_y, 1 upper_grad, N lower_hvp, 1 lower_jvp, with N = Q by default.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f.
    inner_step_size : float or callable, optional
        rho, for y and u; left out, 1/lambda_max(H) by 8 Lanczos steps (counted).
    n_lower_steps : int
        Q; 10 (benchmark-derived).
    n_linear_steps : int, optional
        N, the steps on u; Q when left out.
    """

    name: ClassVar[str] = "amigo-gd"
    description: ClassVar[str] = "Q gradient steps on y, then on u, warm-started (Arbel and Mairal, 2022)"
    source: ClassVar[str] = AMIGO_PAPER
    cost: ClassVar[str] = "1 upper_grad, Q lower_grad_y, N lower_hvp, 1 lower_jvp"
    implied: ClassVar[Mapping[str, int | str]] = {"n_linear_steps": "n_lower_steps"}
    n_lower_steps: int = 10
    n_linear_steps: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("n_lower_steps", self.n_lower_steps, minimum=1)
        if self.n_linear_steps is not None:
            integer("n_linear_steps", self.n_linear_steps, minimum=1)

    def lower_steps(self) -> int:
        """Return Q; see `DoubleLoop.lower_steps`."""
        return self.n_lower_steps

    def linear_solver(self, rho: float) -> LinearSolver:
        """Return N gradient steps; see `DoubleLoop.linear_solver`."""
        return GradientDescent(rho, self.products() + 1)

    def products(self) -> int:
        """Return N - 1; see `DoubleLoop.products`."""
        return (self.n_lower_steps if self.n_linear_steps is None else self.n_linear_steps) - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class AmIGOCG(DoubleLoop):
    """AmIGO-CG(Q, N) (Arbel and Mairal, 2022): Q gradient steps on y, N warm-started CG steps on u.

    Costs per iteration: Q lower_grad_y, 1 upper_grad, N + 1 lower_hvp (one for the initial residual),
    1 lower_jvp; fewer products when CG reaches a relative residual of 1e-14.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f.
    inner_step_size : float or callable, optional
        rho, for y; left out, 1/lambda_max(H) by 8 Lanczos steps (counted).
    n_lower_steps : int
        Q; 10 (benchmark-derived).
    n_linear_steps : int
        N; 10 (benchmark-derived).
    """

    name: ClassVar[str] = "amigo-cg"
    description: ClassVar[str] = "Q gradient steps on y, then N warm-started CG steps on u (Arbel and Mairal, 2022)"
    source: ClassVar[str] = AMIGO_PAPER
    cost: ClassVar[str] = "1 upper_grad, Q lower_grad_y, N+1 lower_hvp, 1 lower_jvp"
    cost_note: ClassVar[str] = "at most"
    n_lower_steps: int = 10
    n_linear_steps: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("n_lower_steps", self.n_lower_steps, minimum=1)
        integer("n_linear_steps", self.n_linear_steps, minimum=1)

    def lower_steps(self) -> int:
        """Return Q; see `DoubleLoop.lower_steps`."""
        return self.n_lower_steps

    def linear_solver(self, rho: float) -> LinearSolver:
        """Return N conjugate gradient steps; see `DoubleLoop.linear_solver`."""
        return ConjugateGradient(self.n_linear_steps)

    def products(self) -> int:
        """Return N; see `DoubleLoop.products`."""
        return self.n_linear_steps


@dataclasses.dataclass(frozen=True, kw_only=True)
class AIDBiO(AmIGOCG):
    """AID-BiO(D, N) (Ji et al., 2021): D gradient steps on y and N CG steps on u, both warm-started.

    The same iteration as AmIGO-CG; its analysis asks for D = Theta(kappa log kappa) and
    N = Theta(sqrt kappa). The default numbers are benchmark-derived and the warm starts unverified at
    the original source.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f.
    inner_step_size : float or callable, optional
        rho, for y; left out, 1/lambda_max(H) by 8 Lanczos steps (counted).
    n_lower_steps : int
        D; 10 (benchmark-derived).
    n_linear_steps : int
        N; 10 (benchmark-derived).
    """

    name: ClassVar[str] = "aid-bio"
    description: ClassVar[str] = "D gradient steps on y, then N warm-started CG steps on u (Ji et al., 2021)"
    source: ClassVar[str] = (
        "Ji, Yang and Liang, 2021, Bilevel Optimization: Convergence Analysis and Enhanced Design (ICML)"
    )
    cost: ClassVar[str] = "1 upper_grad, Q lower_grad_y, N+1 lower_hvp, 1 lower_jvp"
    cost_note: ClassVar[str] = "at most"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoLoopAID(DoubleLoop):
    """No-loop AID (Ji et al., 2022): one gradient step on y, one on u, one on x, in that order.

    AmIGO-GD with Q = 1. Costs per iteration: 1 lower_grad_y, 1 upper_grad, 1 lower_hvp, 1 lower_jvp.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f.
    inner_step_size : float or callable, optional
        rho, for y and u; left out, 1/lambda_max(H) by 8 Lanczos steps (counted).
    """

    name: ClassVar[str] = "no-loop-aid"
    description: ClassVar[str] = "one gradient step on y, on u and on x, in that order (Ji et al., 2022)"
    source: ClassVar[str] = "Ji, Liu, Liang and Ying, 2022, Will Bilevel Optimizers Benefit from Loops (NeurIPS)"
    cost: ClassVar[str] = "1 upper_grad, 1 lower_grad_y, 1 lower_hvp, 1 lower_jvp"

    def lower_steps(self) -> int:
        """Return 1; see `DoubleLoop.lower_steps`."""
        return 1

    def linear_solver(self, rho: float) -> LinearSolver:
        """Return one gradient step; see `DoubleLoop.linear_solver`."""
        return GradientDescent(rho, 1)

    def products(self) -> int:
        """Return 0; see `DoubleLoop.products`."""
        return 0

"""The paper's deterministic family: inexact Newton directions for y and u from one Hessian (Algorithm 1)."""

from __future__ import annotations

import abc
import dataclasses
import math
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nbo._validation import choice, integer
from nbo._vectors import norm, row_norms
from nbo.aggregation import AggregatedView
from nbo.inner_steps import InnerStep, Memory, doubt_spectrum, lag, with_spectrum
from nbo.linear_solvers import (
    BlockConjugateGradient,
    Chebyshev,
    Cholesky,
    ConjugateGradient,
    GradientDescent,
    LanczosSubspace,
    LinearSolution,
    LinearSolver,
    validate_spectrum,
)
from nbo.lower_steps import LowerStep
from nbo.oracles import CountedProblem, NonFiniteOracleError, OracleCounts
from nbo.problem import LowerModel
from nbo.schedules import Schedule, validate_schedule
from nbo.solvers.base import PAPER, DeterministicSolver
from nbo.solvers.driver import State
from nbo.upper_steps import ROUNDING, Directions, iterations_at_rest

Array = npt.NDArray[Any]

#: The most halvings of a step on y in one iteration.
HALVINGS = 30


@dataclasses.dataclass(frozen=True, kw_only=True)
class NewtonSolver(DeterministicSolver):
    """The Newton-based framework (paper, Algorithm 1): one inner solver for both directions.

    At the old (x, y, u): v ~ H^{-1} grad_2 g and w ~ H^{-1} (H u - grad_2 f), then
    x <- x - alpha (grad_1 f - J u), y <- y - v, u <- u - w (Jacobi order, errata E7).

    With the adaptive rule y <- y - t v while x rests: a step after which g rises too steeply is halved
    (`nbo.lower_steps`), each time for 1 more lower_grad_y and 1 more lower_hvp.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f.
    variant : {"old-point", "newton-point"}
        Where d_x is evaluated: at the old (y, u), or at (y - v, u - w) (paper, Section 2.1), which
        costs a second upper_grad.
    """

    source: ClassVar[str] = PAPER

    variant: str = "old-point"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("variant", self.variant, ("old-point", "newton-point"))

    @abc.abstractmethod
    def linear_solver(self, k: int, model: LowerModel, memory: Memory) -> tuple[LinearSolver, Memory]:
        """Return the inner solver of iteration `k`.

        Parameters
        ----------
        k : int
            The iteration.
        model : LowerModel
            For estimates of the spectrum of H.
        memory : mapping
            What earlier iterations left.

        Returns
        -------
        solver : LinearSolver
            It starts from zero.
        memory : mapping
            To pass on.
        """

    @abc.abstractmethod
    def products(self, dim_y: int) -> int:
        """Return the most Hessian-vector products that the inner solver takes for both directions.

        Parameters
        ----------
        dim_y : int
            n.

        Returns
        -------
        int
            Without the one in H u - grad_2 f.
        """

    def observe(self, solution: LinearSolution, rhs: Array, residual_grew: bool, memory: Memory) -> Memory:
        """Learn from an inner solution; by default nothing.

        Parameters
        ----------
        solution : LinearSolution
            Of this iteration.
        rhs : ndarray
            Its right-hand sides in rows, (2, n).
        residual_grew : bool
            Whether |H u - grad_2 f| is larger than an iteration ago.
        memory : mapping
            What `linear_solver` returned.

        Returns
        -------
        mapping
            To pass on.
        """
        return memory

    def seen(self, view: CountedProblem, k: int) -> CountedProblem | AggregatedView:
        """Return the problem that the directions of iteration `k` are for.

        Parameters
        ----------
        view : CountedProblem
            The oracles.
        k : int
            The iteration.

        Returns
        -------
        CountedProblem or AggregatedView
            By default the problem as it is.
        """
        return view

    def directions(self, view: CountedProblem, state: State) -> Directions:
        """Compute the Newton directions and d_x; see the class.

        Parameters
        ----------
        view : CountedProblem
            The oracles.
        state : State
            The current iterate.

        Returns
        -------
        Directions
            What the upper step needs.
        """
        x, u = state.x, state.u
        problem = self.seen(view, state.nit)
        model, d_y, product, last = self._start(problem, state)
        y = model.y
        grad_1, grad_2 = problem.upper_grad(x, y)
        rhs = np.empty((2, y.shape[0]), dtype=y.dtype)
        rhs[0] = d_y
        d_u = np.subtract(product, grad_2, out=rhs[1])
        solver, memory = self.linear_solver(state.nit, model, state.memory)
        solution = solver.solve(model.hvp, rhs)
        residual = norm(d_u)
        memory = self.observe(solution, rhs, residual > state.norms[2], memory)
        v, w = solution.solution
        move = LowerStep(y, v, float(v @ d_y)) if last is None else last.following(y, v, d_y)
        if self.step_size is None:
            memory = {**memory, "lower": move}
        y_new, u_new = move.end, u - w
        lag = self.lag(memory)
        if self.variant == "old-point":
            y_at, product = y, model.jvp(u)
            correction = float(u @ d_y)
            # of the corrected value: (u - u*)' grad_2 g, and the curvature of f along v
            error = lag * (abs(float(w @ d_y)) + abs(correction) * norm(v) / (norm(y_new) or 1.0))
        else:
            y_at, correction = y_new, 0.0
            grad_1, product = problem.upper_grad(x, y_new)[0], problem.lower_model(x, y_new).jvp(u_new)
            # grad_2 g(x, y - v) is the linear residual up to second order, of which only the norm is known
            error = lag * norm(u_new) * float(solution.residual_norms[0])
        return Directions(
            d_x=grad_1 - product,
            y=y_new,
            u=u_new,
            y_at=y_at,
            y_change=v,
            u_change=w,
            lower_grad_norm=norm(d_y),
            adjoint_residual=residual,
            upper_grad_norm=norm(grad_2),
            jvp_norm=norm(product),
            correction=correction,
            value_error=error,
            memory=memory,
            lag=lag,
        )

    def _start(
        self, problem: CountedProblem | AggregatedView, state: State
    ) -> tuple[LowerModel, Array, Array, LowerStep | None]:
        """Return the model, grad_2 g, H u and the step that led there, halved for as long as it went too far.

        With a given step size, and where x has just moved, no step is judged.
        """
        last = state.memory.get("lower") if self.on_trial(state) else None
        rounding = ROUNDING * float(np.finfo(problem.dtype).eps) * state.scales.lower_grad
        y, halvings = state.y, 0
        while True:
            judged = last if halvings < HALVINGS else None
            try:
                model = problem.lower_model(state.x, y)
                d_y, product = model.grad_y_and_hvp(state.u)
                if judged is None or not judged.overshot(d_y, rounding):
                    return model, d_y, product, last
            except NonFiniteOracleError:
                if judged is None:
                    raise
            last, halvings = judged.halved(), halvings + 1
            y = last.end

    def on_trial(self, state: State) -> bool:
        """Tell whether the last step on y may be halved; see `DeterministicSolver.on_trial`."""
        return iterations_at_rest(state.memory) > 0

    def lag(self, memory: Memory) -> float:
        """Return how many times larger than the found directions the exact ones may be.

        Parameters
        ----------
        memory : mapping
            What `observe` returned.

        Returns
        -------
        float
            1 unless the inner solver is known to be slow.
        """
        return 1.0

    def cost_per_iteration(self, dim_y: int) -> OracleCounts:
        """Return the oracle calls of one iteration with given step sizes.

        Parameters
        ----------
        dim_y : int
            n.

        Returns
        -------
        OracleCounts
            1 lower_grad_y, 1 upper_grad (2 for the newton-point variant), 1 lower_jvp and
            1 + `products` lower_hvp.
        """
        joint = 1 if self.variant == "old-point" else 2
        return OracleCounts(upper_grad=joint, lower_grad_y=1, lower_hvp=1 + self.products(dim_y), lower_jvp=1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GradientNewtonSolver(NewtonSolver):
    """Newton directions by steps of length gamma, given or estimated.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f.
    variant : {"old-point", "newton-point"}
        Where d_x is evaluated.
    inner_step_size : float or callable, optional
        gamma, or a schedule; left out, 1/lambda_max(H) by 8 Lanczos steps (counted), renewed at most
        every 10 iterations.
    """

    inner_step_size: Schedule | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inner_step_size is not None:
            validate_schedule("inner_step_size", self.inner_step_size)

    @abc.abstractmethod
    def n_steps(self) -> int:
        """Return T + 1, the number of steps from zero.

        Returns
        -------
        int
            At least 1.
        """

    def gradient_solver(self, gamma: float) -> LinearSolver:
        """Return the inner solver with this iteration's step.

        Parameters
        ----------
        gamma : float
            The step size.

        Returns
        -------
        LinearSolver
            By default gradient descent.
        """
        return GradientDescent(gamma, self.n_steps())

    def linear_solver(self, k: int, model: LowerModel, memory: Memory) -> tuple[LinearSolver, Memory]:
        """Return `gradient_solver` with this iteration's gamma; see `NewtonSolver.linear_solver`."""
        n, dtype = model.y.shape[0], model.y.dtype
        gamma, memory = InnerStep(self.inner_step_size).at(k, model.hvp, n, dtype, memory)
        return self.gradient_solver(gamma), memory

    def observe(self, solution: LinearSolution, rhs: Array, residual_grew: bool, memory: Memory) -> Memory:
        """Shorten an estimated gamma that enlarged a residual; see `NewtonSolver.observe`."""
        suspect = self.n_steps() == 1 and residual_grew
        return InnerStep(self.inner_step_size).observe(memory, solution.enlarged, suspect)

    def lag(self, memory: Memory) -> float:
        """Return what T + 1 gradient steps leave of the slowest mode; see `nbo.inner_steps.lag`."""
        return lag(self.n_steps(), memory)

    def products(self, dim_y: int) -> int:
        """Return 2 T; see `NewtonSolver.products`."""
        return 2 * (self.n_steps() - 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NBOGD(GradientNewtonSolver):
    """NBO-GD (paper, Algorithms 2 and 3): T + 1 gradient steps from zero for each direction.

    v <- (I - gamma H) v + gamma grad_2 g, the same for w; the first step needs no product. With
    T = 0 it is the single-loop method (SOBA's deterministic form). Costs per iteration:
    1 lower_grad_y, 1 upper_grad, 1 lower_jvp, 2 T + 1 lower_hvp (errata A1, A2).

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f.
    variant : {"old-point", "newton-point"}
        Where d_x is evaluated.
    inner_step_size : float or callable, optional
        gamma, or a schedule; left out, 1/lambda_max(H) by 8 Lanczos steps (counted), renewed at most
        every 10 iterations.
    n_inner : int
        T; 1 in the paper's experiments.
    """

    name: ClassVar[str] = "nbo-gd"
    description: ClassVar[str] = "Newton directions by T+1 gradient steps (paper, Algorithms 2-3)"
    cost: ClassVar[str] = "1 upper_grad, 1 lower_grad_y, 2*T+1 lower_hvp, 1 lower_jvp"
    n_inner: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("n_inner", self.n_inner)

    def n_steps(self) -> int:
        """Return T + 1; see `GradientNewtonSolver.n_steps`."""
        return self.n_inner + 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class KrylovNewtonSolver(NewtonSolver):
    """Newton directions by T + 1 steps of a solver that needs no step size.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f.
    variant : {"old-point", "newton-point"}
        Where d_x is evaluated.
    n_inner : int, optional
        T (the paper's theory asks for T = Theta(sqrt kappa log kappa)). Left out, 10; under the adaptive
        rule doubled, up to n, after every 10 iterations in which x waits for directions that are not
        accurate to 1e-3.
    """

    n_inner: int | None = None
    solver_class: ClassVar[type[Any]]
    #: T where it is left out, at first.
    FIRST: ClassVar[int] = 10
    #: So many iterations at one x double it,
    PATIENCE: ClassVar[int] = 10
    #: unless they leave no more than this part of the right-hand sides.
    ENOUGH: ClassVar[float] = 1e-3
    #: The largest T that is found so.
    MOST: ClassVar[int] = sys.maxsize
    implied: ClassVar[Mapping[str, int | str]] = {"n_inner": FIRST}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_inner is not None:
            integer("n_inner", self.n_inner)

    def linear_solver(self, k: int, model: LowerModel, memory: Memory) -> tuple[LinearSolver, Memory]:
        """Return the solver with T + 1 steps; see `NewtonSolver.linear_solver`."""
        if self.n_inner is not None:
            return self.solver_class(self.n_inner + 1), memory
        T = memory.get("n_inner", self.FIRST)
        return self.solver_class(T + 1), {**memory, "n_inner": T}

    def observe(self, solution: LinearSolution, rhs: Array, residual_grew: bool, memory: Memory) -> Memory:
        """Double a T that was left out and makes x wait; see `NewtonSolver.observe`."""
        waited = iterations_at_rest(memory)
        slow = self.n_inner is None and waited > 0 and waited % self.PATIENCE == 0
        if not slow or (solution.residual_norms <= self.ENOUGH * row_norms(rhs)).all():
            return memory
        return {**memory, "n_inner": max(min(2 * memory["n_inner"], rhs.shape[1], self.MOST), self.FIRST)}

    def products(self, dim_y: int) -> int:
        """Return 2 (T + 1); see `NewtonSolver.products`."""
        return 2 * ((self.FIRST if self.n_inner is None else self.n_inner) + 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NBOCG(KrylovNewtonSolver):
    """NBO-CG (paper, Remarks 2.1 and 3.4): T + 1 conjugate gradient steps for each direction, independently.

    Costs per iteration: 1 lower_grad_y, 1 upper_grad, 1 lower_jvp, 2 (T + 1) + 1 lower_hvp, fewer
    when a right-hand side is solved to a relative residual of 1e-14 (errata A3).

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f.
    variant : {"old-point", "newton-point"}
        Where d_x is evaluated.
    n_inner : int, optional
        T; left out, 10 and, under the adaptive rule, twice as many after every 10 iterations of waiting.
    """

    name: ClassVar[str] = "nbo-cg"
    description: ClassVar[str] = "Newton directions by T+1 conjugate gradient steps (paper, Remarks 2.1 and 3.4)"
    cost: ClassVar[str] = "1 upper_grad, 1 lower_grad_y, 2*(T+1)+1 lower_hvp, 1 lower_jvp"
    cost_note: ClassVar[str] = "at most"
    solver_class: ClassVar[type[Any]] = ConjugateGradient


@dataclasses.dataclass(frozen=True, kw_only=True)
class NBOLanczos(KrylovNewtonSolver):
    """NBO with the subspace solution in the Krylov space of dimension T + 1 of each right-hand side.

    Equal to NBO-CG in exact arithmetic, steadier for many steps (full reorthogonalisation). Costs
    per iteration as NBO-CG (paper, Remarks 2.1 and 3.4).

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f.
    variant : {"old-point", "newton-point"}
        Where d_x is evaluated.
    n_inner : int, optional
        T; left out, 10 and, under the adaptive rule, twice as many after every 10 iterations of waiting.
    """

    name: ClassVar[str] = "nbo-lanczos"
    description: ClassVar[str] = "Newton directions in Krylov subspaces of dimension T+1 (paper, Remark 2.1)"
    cost: ClassVar[str] = "1 upper_grad, 1 lower_grad_y, 2*(T+1)+1 lower_hvp, 1 lower_jvp"
    cost_note: ClassVar[str] = "at most"
    storage: ClassVar[str] = "2 (T + 1) n numbers"
    solver_class: ClassVar[type[Any]] = LanczosSubspace
    #: Reorthogonalisation takes T^2 n operations, and the basis T n numbers.
    MOST: ClassVar[int] = 320


@dataclasses.dataclass(frozen=True, kw_only=True)
class NBOBlockCG(KrylovNewtonSolver):
    """NBO with block conjugate gradients: one Krylov space shared by both right-hand sides.

    Converges no slower than NBO-CG for the same products; not analysed in the paper (errata A3).
    Costs per iteration as NBO-CG, fewer when the right-hand sides become dependent.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f.
    variant : {"old-point", "newton-point"}
        Where d_x is evaluated.
    n_inner : int, optional
        T; left out, 10 and, under the adaptive rule, twice as many after every 10 iterations of waiting.
    """

    name: ClassVar[str] = "nbo-block-cg"
    description: ClassVar[str] = "Newton directions by T+1 block CG steps, one Krylov space for both"
    cost: ClassVar[str] = "1 upper_grad, 1 lower_grad_y, 2*(T+1)+1 lower_hvp, 1 lower_jvp"
    cost_note: ClassVar[str] = "at most"
    solver_class: ClassVar[type[Any]] = BlockConjugateGradient


@dataclasses.dataclass(frozen=True, kw_only=True)
class NBOChebyshev(NewtonSolver):
    """NBO with T + 1 Chebyshev steps from zero for each direction (paper, Remark 2.1).

    Costs per iteration: 1 lower_grad_y, 1 upper_grad, 1 lower_jvp, 2 T + 1 lower_hvp.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f.
    variant : {"old-point", "newton-point"}
        Where d_x is evaluated.
    spectrum : tuple of float, optional
        (mu, L) that holds the eigenvalues of H; left out, estimated by 8 Lanczos steps (counted),
        the upper end enlarged by 5 %, and renewed when a residual grows, at most every 10 iterations.
    n_inner : int
        T; 1 in the paper's experiments.
    """

    name: ClassVar[str] = "nbo-chebyshev"
    description: ClassVar[str] = "Newton directions by T+1 Chebyshev steps (paper, Remark 2.1)"
    cost: ClassVar[str] = "1 upper_grad, 1 lower_grad_y, 2*T+1 lower_hvp, 1 lower_jvp"
    spectrum: tuple[float, float] | None = None
    n_inner: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.spectrum is not None:
            validate_spectrum(self.spectrum)
        integer("n_inner", self.n_inner)

    def linear_solver(self, k: int, model: LowerModel, memory: Memory) -> tuple[LinearSolver, Memory]:
        """Return Chebyshev's iteration with the current spectrum; see `NewtonSolver.linear_solver`."""
        if self.spectrum is not None:
            return Chebyshev(self.spectrum, self.n_inner + 1), memory
        memory = with_spectrum(k, model.hvp, model.y.shape[0], model.y.dtype, memory)
        return Chebyshev(self._interval(memory), self.n_inner + 1), memory

    def _interval(self, memory: Memory) -> tuple[float, float]:
        """Return (mu, L): the given one, or the estimated one with its upper end enlarged."""
        if self.spectrum is not None:
            return self.spectrum
        smallest, largest = memory["spectrum"].ends
        return smallest, 1.05 * largest

    def observe(self, solution: LinearSolution, rhs: Array, residual_grew: bool, memory: Memory) -> Memory:
        """Widen an estimated spectrum after a step that enlarged a residual; see `NewtonSolver.observe`."""
        suspect = self.n_inner == 0 and residual_grew
        return memory if self.spectrum is not None else doubt_spectrum(memory, solution.enlarged, suspect)

    def lag(self, memory: Memory) -> float:
        """Return the lag at the lower end of the spectrum; see `NewtonSolver.lag`."""
        mu, largest = self._interval(memory)
        if mu == largest:
            return 1.0
        # T + 1 steps leave 1/cosh z of a residual there, z = (T + 1) arccosh sigma with sigma - 1 = 2 mu/(L - mu)
        z = min(2 * (self.n_inner + 1) * math.asinh(math.sqrt(mu / (largest - mu))), 300.0)
        return math.cosh(z) / (2 * math.sinh(z / 2) ** 2)

    def products(self, dim_y: int) -> int:
        """Return 2 T; see `NewtonSolver.products`."""
        return 2 * self.n_inner


@dataclasses.dataclass(frozen=True, kw_only=True)
class NBOCholesky(NewtonSolver):
    """NBO with exact Newton directions: H is formed and factorised in every iteration, for small n.

    Costs per iteration: 1 lower_grad_y, 1 upper_grad, 1 lower_jvp, n + 1 lower_hvp.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f.
    variant : {"old-point", "newton-point"}
        Where d_x is evaluated.
    """

    name: ClassVar[str] = "nbo-cholesky"
    description: ClassVar[str] = "exact Newton directions by Cholesky of the formed Hessian, for small n"
    cost: ClassVar[str] = "1 upper_grad, 1 lower_grad_y, n+1 lower_hvp, 1 lower_jvp"
    storage: ClassVar[str] = "n^2 numbers"

    def linear_solver(self, k: int, model: LowerModel, memory: Memory) -> tuple[LinearSolver, Memory]:
        """Return the direct solver; see `NewtonSolver.linear_solver`."""
        return Cholesky(), memory

    def products(self, dim_y: int) -> int:
        """Return n; see `NewtonSolver.products`."""
        return dim_y

"""HOAG: both inner problems solved to a tolerance that shrinks, and steps of x that look at the values."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nbo._storable import storable
from nbo._validation import choice, integer, real
from nbo._vectors import norm
from nbo.feasible_sets import FeasibleSet
from nbo.lbfgs import LBFGS, TRIALS, Point
from nbo.linear_solvers import ConjugateGradient
from nbo.oracles import CountedProblem, OracleCounts
from nbo.problem import LowerModel
from nbo.quasi_newton import MEMORY, inverse_product
from nbo.solvers.base import DeterministicSolver
from nbo.solvers.driver import State
from nbo.upper_steps import ROUNDING, Anchor, Directions, Move, Scales, ScheduledStep, UpperStep

Array = npt.NDArray[Any]

#: How the tolerance falls: the factor after k iterations.
DECREASES = {
    "exponential": lambda k: 0.9**k,
    "quadratic": lambda k: 1 / (k + 1) ** 2,
    "cubic": lambda k: 1 / (k + 1) ** 3,
}
#: No tolerance is below this, nor below so many rounding units.
SMALLEST, UNITS = 1e-12, 10.0


@storable
@dataclasses.dataclass(frozen=True)
class LipschitzProgress:
    """What `LipschitzStep` remembers.

    Attributes
    ----------
    L : float
        The step is 1/L; zero before the first one.
    anchor : Anchor or None
        The last accepted point; None before the first one and while it is evaluated anew.
    value, slack : float
        F there, and its error.
    failures : int
        Moves in a row that were taken back.
    waited : int
        Iterations in a row at a point whose inner problems are not solved yet.
    """

    L: float = 0.0
    anchor: Anchor | None = None
    value: float = 0.0
    slack: float = 0.0
    failures: int = 0
    waited: int = 0


@dataclasses.dataclass(frozen=True)
class LipschitzStep(UpperStep):
    """x <- project(x - d_x/L), with L adapted to the decrease of f.

    The value that is looked at is F = f(x, y) - u' grad_2 g(x, y), which differs from Phi(x) by a product of both
    inner residuals; what they allow, and rounding, is its slack. With s the move from the last accepted point:

    - F has risen by more than the slack: x goes back to that point (y and u with it) and leaves it again with 2 L,
      every `FAILURES`-th time in a row only after F and d_x have been computed anew there, to the tolerance of now;
    - F has fallen as a Lipschitz constant L of the gradient promises, F <= F_old + d_x's + L/2 |s|^2: the point is
      accepted, and L becomes `SHRINK` L;
    - else it is accepted and L becomes L/`SHRINK`.

    Where the promise is within the slack, s'(d_x - d_x_old) <= L |s|^2 stands for it, and L does not shrink. The first
    L makes the largest entry of x move by 1. While the inner problems are not solved to their tolerance, because
    their limits of steps were reached, x rests for up to `PATIENCE` iterations. Costs at most 1 upper_value.

    Sources: the test and the factors 0.95 and 2 are those of the authors' public code. That one never goes back,
    leaves L alone in the third case (here it must be able to grow before values rise), puts the inner tolerance
    itself for the error of f, and starts with L = m |d_x|.
    """

    #: The factor of L after a step that kept its promise,
    SHRINK = 0.95
    #: and after one that is taken back.
    GROW = 2.0
    #: So many moves in a row that are taken back put the last accepted point in doubt.
    FAILURES = 2
    #: Iterations that x waits for an inner solution, at most.
    PATIENCE = 50

    def move(
        self,
        view: CountedProblem,
        k: int,
        x: Array,
        step: Directions,
        project: FeasibleSet,
        scales: Scales,
        solved: bool,
    ) -> Move:
        """Accept the point or go back; see `UpperStep.move`."""
        past = step.memory.get("upper") or LipschitzProgress()
        if not (step.memory["accurate"] or solved) and past.waited < self.PATIENCE:
            shown = None if past.anchor is None else past.anchor.iterate
            memory = {**step.memory, "upper": dataclasses.replace(past, waited=past.waited + 1)}
            return Move(x, step.y, step.u, memory, shown=shown)
        value = view.upper_value(x, step.y_at) - step.correction
        slack = step.value_error + ROUNDING * float(np.finfo(view.dtype).eps) * abs(value)
        L = past.L or float(np.abs(step.d_x).max(initial=0.0)) or 1.0
        if past.anchor is not None:
            if value > past.value + past.slack + slack:
                return self._back(past, past.anchor, step, project)
            L *= self._factor(past, past.anchor, x, step.d_x, value, slack)
        anchor = Anchor(x, step.y, step.u, step.d_x, step.d_x)
        accepted = LipschitzProgress(L, anchor, value, slack)
        return self._leave(accepted, anchor, step, project)._replace(solved=solved)

    def _factor(
        self, past: LipschitzProgress, anchor: Anchor, x: Array, d_x: Array, value: float, slack: float
    ) -> float:
        """Return by what L changes at an accepted point."""
        s = x - anchor.x
        promised = -float(anchor.d_x @ s) - past.L / 2 * float(s @ s)
        slack += past.slack
        if promised > slack:
            return self.SHRINK if value <= past.value - promised + slack else 1 / self.SHRINK
        return 1.0 if float(s @ (d_x - anchor.d_x)) <= past.L * float(s @ s) else 1 / self.SHRINK

    def _back(self, past: LipschitzProgress, anchor: Anchor, step: Directions, project: FeasibleSet) -> Move:
        """Return to the last accepted point, to leave it by a shorter step or to evaluate it anew."""
        past = dataclasses.replace(past, L=self.GROW * past.L, failures=past.failures + 1, waited=0)
        if past.failures < self.FAILURES:
            return self._leave(past, anchor, step, project)
        memory = {**step.memory, "upper": LipschitzProgress(past.L)}
        return Move(anchor.x, anchor.y, anchor.u, memory, shown=anchor.iterate)

    @staticmethod
    def _leave(past: LipschitzProgress, anchor: Anchor, step: Directions, project: FeasibleSet) -> Move:
        """Return the point that a step of 1/L from the last accepted one leads to."""
        new = project(anchor.x - anchor.d_x / past.L)
        memory = {**step.memory, "upper": dataclasses.replace(past, waited=0)}
        return Move(new, anchor.y, anchor.u, memory, shown=anchor.iterate)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HOAG(DeterministicSolver):
    """HOAG (Pedregosa, 2016): approximate hypergradients to a tolerance that shrinks with the iterations.

    y: L-BFGS on g(x, .) from the last y until |grad_2 g| <= eps_k times the largest |grad_2 g| of the run. u: conjugate
    gradients from the last u at the new y until |H u - grad_2 f| <= eps_k times the largest |grad_2 f|.
    x <- project(x - alpha d_x) with d_x = grad_1 f - J u at the new y and u, grad_1 f included (the public code has
    no such term).

    eps_k = tolerance 0.9^k, tolerance/(k + 1)^2 or tolerance/(k + 1)^3, but at least 1e-12 (public code) and 10
    rounding units. It is absolute in the paper and relative to the first gradients in the public code; relative ones
    do not depend on the units of f and g, and the largest gradients do not vanish where a run starts at y*. The two
    residuals that the result shows are those at the y and u of d_x; the second one is computed anew after conjugate
    gradients. A run cannot converge before eps_k has fallen far enough: from 0.01 to 1e-5 by 0.9^k in 66 iterations.

    Costs per iteration at most: 1 upper_grad, 30 Q + 1 lower_value, 30 Q + 1 lower_grad_y, N + 2 lower_hvp,
    1 lower_jvp; how many it takes depends on eps_k, usually one of each a step of L-BFGS, and without any step
    1 lower_grad_y, 1 lower_hvp and no lower_value.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, 1/L with L adapted to the decrease of f, see `LipschitzStep`.
    eval_every : int
        Iterations between two evaluations of f.
    tolerance : float
        The first eps_k; 0.01 (public code).
    tolerance_decrease : {"exponential", "quadratic", "cubic"}
        How eps_k falls; the factor 0.9 of the first is the public code's.
    n_lower_steps : int
        Q, the most L-BFGS iterations; 1000 (a practical value; the public code's limits are 10,000). Where it is
        reached before eps_k, x rests for an iteration, unless `step_size` is given.
    n_linear_steps : int
        N, the most steps of conjugate gradients; 1000 (a practical value), likewise.
    memory : int
        Secant pairs of L-BFGS; 10 (public code). They are kept from one iteration to the next, since H moves slowly
        (a choice of this library).
    """

    name: ClassVar[str] = "hoag"
    description: ClassVar[str] = "L-BFGS on y and CG on u to a shrinking tolerance (Pedregosa, 2016)"
    source: ClassVar[str] = "Pedregosa, 2016, Hyperparameter Optimization with Approximate Gradient (ICML)"
    cost: ClassVar[str] = "1 upper_grad, 30*Q+1 lower_value, 30*Q+1 lower_grad_y, N+2 lower_hvp, 1 lower_jvp"
    cost_note: ClassVar[str] = "at most; usually 1 lower_value and 1 lower_grad_y for a step of L-BFGS"
    storage: ClassVar[str] = "2*memory vectors of n numbers"

    tolerance: float = 0.01
    tolerance_decrease: str = "exponential"
    n_lower_steps: int = 1000
    n_linear_steps: int = 1000
    memory: int = MEMORY

    def __post_init__(self) -> None:
        super().__post_init__()
        real("tolerance", self.tolerance, positive=True)
        choice("tolerance_decrease", self.tolerance_decrease, tuple(DECREASES))
        for name in ("n_lower_steps", "n_linear_steps", "memory"):
            integer(name, getattr(self, name), minimum=1)

    def tolerance_at(self, k: int) -> float:
        """Return eps_k, before rounding is considered.

        Parameters
        ----------
        k : int
            The iteration, from 0.

        Returns
        -------
        float
            At least 1e-12.
        """
        return max(self.tolerance * DECREASES[self.tolerance_decrease](k), SMALLEST)

    def directions(self, view: CountedProblem, state: State) -> Directions:
        """Solve both inner problems to the tolerance; see the class.

        Parameters
        ----------
        view : CountedProblem
            The oracles.
        state : State
            The current iterate.

        Returns
        -------
        Directions
            What the upper step needs, with the residuals at the point of `d_x`.
        """
        x = state.x
        eps = max(self.tolerance_at(state.nit), UNITS * float(np.finfo(view.dtype).eps))
        start = Point(view, x, state.y)
        eps_y = _finite(eps * max(state.scales.lower_grad, start.grad_norm))
        found = LBFGS(self.n_lower_steps, eps_y, self.memory).minimize(view, x, start, state.memory.get("pairs", ()))
        point = found.point
        grad_1, grad_2 = view.upper_grad(x, point.y)
        eps_u = _finite(eps * max(state.scales.upper_grad, norm(grad_2)))
        u, residual, solved = self._solve(point.model, state.u, grad_2, eps_u)
        product = point.model.jvp(u)
        error = inverse_product(found.pairs, point.grad)  # about y - y*
        correction = float(u @ point.grad)
        accurate = solved and (found.stalled or point.grad_norm <= eps_y)
        return Directions(
            d_x=grad_1 - product,
            y=point.y,
            u=u,
            y_at=point.y,
            y_change=state.y - point.y,
            u_change=state.u - u,
            lower_grad_norm=point.grad_norm,
            adjoint_residual=residual,
            upper_grad_norm=norm(grad_2),
            jvp_norm=norm(product),
            correction=correction,
            value_error=norm(error) * (residual + abs(correction) / (norm(point.y) or 1.0)),
            memory={**state.memory, "pairs": found.pairs, "accurate": accurate},
        )

    def _solve(self, model: LowerModel, u: Array, grad_2: Array, tol: float) -> tuple[Array, float, bool]:
        """Return the new u, |H u - grad_2 f|, and whether conjugate gradients ended before their limit."""
        d_u = model.hvp(u[None])[0] - grad_2
        size = norm(d_u)
        if size <= tol:
            return u, size, True
        solution = ConjugateGradient(self.n_linear_steps, tol / size).solve(model.hvp, d_u[None])
        u = u - solution.solution[0]
        residual = norm(model.hvp(u[None])[0] - grad_2)
        return u, residual, solution.n_products < self.n_linear_steps or residual <= tol

    def upper_step(self) -> UpperStep:
        """Return `LipschitzStep`, or the given step; see `DeterministicSolver.upper_step`."""
        return LipschitzStep() if self.step_size is None else ScheduledStep(self.step_size)

    def cost_per_iteration(self, dim_y: int) -> OracleCounts:
        """Return the most oracle calls of one iteration with given step sizes.

        Parameters
        ----------
        dim_y : int
            n.

        Returns
        -------
        OracleCounts
            Upper bounds; see the class.
        """
        points = TRIALS * self.n_lower_steps + 1
        return OracleCounts(
            upper_grad=1,
            lower_value=points,
            lower_grad_y=points,
            lower_hvp=self.n_linear_steps + 2,
            lower_jvp=1,
        )


def _finite(tol: float) -> float:
    """Return a tolerance, the largest number where a diverging run has made it infinite."""
    return min(tol, float(np.finfo(np.float64).max))

"""The default method: inner problems by inexact Newton as accurately as the upper step needs, and no step size."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._storable import storable
from nbo._validation import flag, integer
from nbo._vectors import norm
from nbo.certificate import Certificate, error_bound, local_constants
from nbo.feasible_sets import Box, FeasibleSet
from nbo.inexact_newton import TRIALS, LowerPoint
from nbo.inner_solutions import NO_SIZES, Accuracy, InnerSolution, InnerSolver, Sizes
from nbo.linear_solvers import CurvatureError
from nbo.monotone_step import MonotoneStep, progress_of
from nbo.oracles import CountedProblem, NonFiniteOracleError, OracleCounts
from nbo.preconditioning import InnerSystem, SystemMemory
from nbo.problem import BilevelProblem
from nbo.solvers.base import DeterministicSolver
from nbo.solvers.driver import State
from nbo.theory.constants import ProblemConstants
from nbo.upper_steps import Directions, Move, Scales, ScheduledStep, UpperStep

Array = npt.NDArray[Any]

#: What y still changes in Phi to first order is at most this part of the decrease that is expected of f.
VALUE = 0.1
#: The accuracy of y, relative to y,
LOWER = 1e-3
#: The accuracy of u: |H u - grad_2 f| relative to |grad_2 f|,
ADJOINT = 1e-2
#: and what its error changes in d_x, relative to the projected hypergradient.
DIRECTION = 0.1
#: By what a residual is reduced where that is not reached, and how often.
SHARPER, TIMES = 0.1, 4
#: Newton steps besides, to certify.
REFINEMENTS = 6
#: Iterations whose largest norms tell about rounding: a start may be far away.
WINDOW = 10
#: A trial is taken back after so many iterations in a row that have not reduced |grad_2 g|, or the residual of u once y
#: is known, to this part.
STUCK, REDUCED = 3, 0.9
#: From so many lower samples, and so many seconds an iteration, a stochastic method is mentioned.
MANY_ROWS, SLOW = 20_000, 2.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Auto(DeterministicSolver):
    """No step size to choose: inexact Newton for y and u, monotone quasi-Newton steps for x, a certified end.

    An iteration evaluates one trial x:

    - y by Newton steps from the last y, each a full step if that shortens grad_2 g and else halved until g falls
      (`nbo.inexact_newton`), so that it works from any start, until |u' grad_2 g| is a tenth of the decrease that is
      expected of f, and y is known to a thousandth;
    - u by conjugate gradients from the last u with the same Hessian, until what its error changes in d_x is a tenth
      of the projected hypergradient;
    - the value F = f(x, y) - u' grad_2 g, whose error is of second order, with an estimate of what is left; the trial
      is accepted if F has fallen by more than the errors, see `nbo.monotone_step.MonotoneStep`.

    Newton systems are solved by conjugate gradients, preconditioned by the Cholesky factor of the Hessian at an
    earlier point once that pays, see `nbo.preconditioning.InnerSystem`.

    A run ends where the projected hypergradient norm plus the error of the hypergradient is at most `tol`. To tell
    that error, y and u are refined by another Newton step each: by how much that moves d_x is an estimate of the error
    before, and so above the one after. With the problem's constants there is a bound, too,
    (L1 (1 + q) |grad_2 g| + L_g1 |H u - grad_2 f|)/mu at this x; if it meets `tol`, after more refinements, the error
    is labelled ``"bound"``, else ``"estimate"``: bounds hold for the worst case and are often beyond rounding. What
    rounding may change, which grows with the condition of H as far as a factor tells it, is part of both.

    A trial whose y or u cannot be had is taken back. A run that makes no progress any more ends as stalled, see
    `nbo.monotone_step.MonotoneProgress.idle`.

    Costs per iteration are at most those given; usually 2 or 3 Newton steps of one lower_grad_y and a few lower_hvp
    each, 1 upper_grad, 1 upper_value and 2 lower_jvp.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha, instead of the step that is found.
    eval_every : int
        Iterations between two evaluations of f.
    relative : bool
        Whether `tol` is relative to |F| at the first point.
    n_lower_steps : int
        Q, the most Newton steps of an iteration. Where it is reached before the accuracy, x rests for an iteration.
    n_linear_steps : int
        N, the most steps of conjugate gradients for a system, likewise.
    """

    name: ClassVar[str] = "auto"
    description: ClassVar[str] = "the default: no step size; inexact Newton for y and u, certified end"
    source: ClassVar[str] = "The nbo developers, 2026, The automatic method of this library (nbo)"
    cost: ClassVar[str] = (
        "11 upper_grad, 25*(Q+6) lower_value, 3*(Q+6)+1 lower_grad_y, (Q+17)*(N+2)+2*n lower_hvp, 22 lower_jvp"
    )
    cost_note: ClassVar[str] = "at most; usually 1 upper_grad, 3 lower_grad_y, 10 lower_hvp and 2 lower_jvp"
    storage: ClassVar[str] = "a Cholesky factor of up to 1500^2 numbers"

    relative: bool = False
    n_lower_steps: int = 10
    n_linear_steps: int = 300

    def __post_init__(self) -> None:
        super().__post_init__()
        flag("relative", self.relative)
        for name in ("n_lower_steps", "n_linear_steps"):
            integer(name, getattr(self, name), minimum=1)

    def step(self, view: CountedProblem, state: State, project: FeasibleSet, tol: float) -> State:
        """Evaluate a trial x, and accept it or go back; see `DeterministicSolver.step`."""
        try:
            after = self._step(view, state, project, tol)
        except (NonFiniteOracleError, CurvatureError):
            back = self._back(dataclasses.replace(state, nit=state.nit + 1), project)
            if back is None:
                raise
            after = back
        if _rest(after).stuck >= STUCK:
            after = self._back(after, project) or after
        return dataclasses.replace(after, idle=progress_of(after.memory).idle + _rest(after).stuck)

    def _back(self, state: State, project: FeasibleSet) -> State | None:
        """Return to the last accepted point from a trial without a value; None where there is none."""
        past = progress_of(state.memory)
        if past.anchor is None or self.step_size is not None:
            return None
        move = MonotoneStep().back(past, past.anchor, np.inf, {**state.memory, "rest": _Rest()}, project)
        return _moved(state, move)

    def _step(self, view: CountedProblem, state: State, project: FeasibleSet, tol: float) -> State:
        trial = _Trial(self, view, state, project)
        inner = trial.solve(self.resolved_tol(state, tol))
        if isinstance(inner, LowerPoint):
            norms = (state.norms[0], inner.norm, state.norms[2])
            return dataclasses.replace(
                state, nit=state.nit + 1, y=inner.y, norms=norms, memory=trial.resting("y", inner.norm)
            )
        if self.relative:
            tol *= trial.scale(inner)
        certificate = Certificate(inner.error, "estimate")
        if inner.accurate and trial.size(inner) <= tol:
            inner, certificate = trial.certify(inner, tol)
        size = trial.size(inner)
        solved = inner.accurate and size + certificate.error <= tol
        after = State(
            state.nit + 1,
            state.x,
            inner.point.y,
            inner.u,
            inner.d_x,
            (size, inner.point.norm, inner.residual),
            trial.memory,
            trial.scales,
            False,
            state.shown,
            certificate,
        )
        if not inner.accurate:
            return dataclasses.replace(after, memory=trial.resting("u", inner.residual))
        move = self.upper_step().move(view, state.nit, state.x, trial.found(inner), project, after.scales, solved)
        if move.solved:  # and not only flat, but no worse than the point before
            return dataclasses.replace(after, memory=move.memory, converged=True, shown=None)
        return _moved(after, move)

    def resolved_tol(self, state: State, tol: float) -> float:
        """Return `tol`, if it is relative times the first value; see `Solver.resolved_tol`."""
        return tol * state.memory.get("scale", 1.0) if self.relative else tol

    def further(self, problem: BilevelProblem, nit: int, seconds: float) -> str:
        """Say when a stochastic method is the better tool; see `Solver.further`."""
        n = getattr(problem, "n_samples_lower", 1)
        if n < MANY_ROWS or not nit or seconds / nit < SLOW:
            return ""
        return (
            f"for {n:,} samples with {seconds / nit:.1f} s an iteration a stochastic method such as 'ma-saba' gets "
            "further in the same time, if its steps are given; "
        )

    def directions(self, view: CountedProblem, state: State) -> Directions:
        """Solve the inner problems at the current x; see `DeterministicSolver.directions`."""
        trial = _Trial(self, view, state, Box.unbounded(state.x.size))
        inner = trial.solve(0.0)
        return trial.found(trial.adjoint(inner) if isinstance(inner, LowerPoint) else inner)

    def upper_step(self) -> UpperStep:
        """Return `nbo.monotone_step.MonotoneStep`, or the given step; see `DeterministicSolver.upper_step`."""
        return MonotoneStep() if self.step_size is None else ScheduledStep(self.step_size)

    def cost_per_iteration(self, dim_y: int) -> OracleCounts:
        """Return the most oracle calls of one iteration; see the class.

        Parameters
        ----------
        dim_y : int
            n.

        Returns
        -------
        OracleCounts
            Upper bounds.
        """
        adjoints = 1 + TIMES + REFINEMENTS
        newton = self.n_lower_steps + REFINEMENTS
        return OracleCounts(
            upper_grad=adjoints,
            lower_value=(TRIALS + 1) * newton,
            lower_grad_y=3 * newton + 1,
            lower_hvp=(newton + adjoints) * (self.n_linear_steps + 2) + 2 * dim_y,
            lower_jvp=2 * adjoints,
        )


@storable
class _Rest(NamedTuple):
    """Iterations at one x: whether y or u is waited for, the least norm so far, and how many did not reduce it."""

    what: str = ""
    least: float = np.inf
    stuck: int = 0


def _rest(state: State) -> _Rest:
    return state.memory.get("rest") or _Rest()


def _moved(state: State, move: Move) -> State:
    return dataclasses.replace(state, x=move.x, y=move.y, u=move.u, memory=move.memory, shown=move.shown)


class _Trial:
    """The inner solutions at one x, as accurate as an iteration of `Auto` needs them."""

    def __init__(self, solver: Auto, view: CountedProblem, state: State, project: FeasibleSet) -> None:
        self._view, self._state, self._project = view, state, project
        self._system = InnerSystem(view, state.memory.get("system") or SystemMemory(), solver.n_linear_steps)
        self._sizes: tuple[Sizes, ...] = state.memory.get("sizes", ())
        before = functools.reduce(Sizes.with_others, self._sizes, NO_SIZES)
        self._solver = InnerSolver(view, state.x, self._system, solver.n_lower_steps, before)
        past = progress_of(state.memory)
        first = past.anchor is None
        value = np.inf if first else VALUE * past.accuracy * past.promised
        self._accuracy = Accuracy(value, LOWER * past.accuracy, ADJOINT * past.accuracy, 2 if first else 1)
        self._scale = state.memory.get("scale")

    @property
    def memory(self) -> dict[str, Any]:
        """What the next iteration goes on with."""
        scale = {} if self._scale is None else {"scale": self._scale}
        sizes = (*self._sizes, self._solver.sizes)[-WINDOW:]
        return {**self._state.memory, "system": self._system.memory, "sizes": sizes, "rest": _Rest(), **scale}

    def resting(self, what: str, norm: float) -> dict[str, Any]:
        """What the next iteration goes on with at the same x, and how many in a row have hardly reduced a norm."""
        past = _rest(self._state)
        reduced = what != past.what or norm < REDUCED * past.least
        rest = _Rest(what, norm, 0) if reduced else past._replace(stuck=past.stuck + 1)
        return {**self.memory, "rest": rest}

    @property
    def scales(self) -> Scales:
        """The largest gradients of late."""
        return Scales(*self._solver.scales[:2])

    def scale(self, inner: InnerSolution) -> float:
        """Return the size of F at the first point; costs 1 upper_value there."""
        if self._scale is None:
            self._scale = abs(self._view.upper_value(self._state.x, inner.point.y) - inner.correction) or 1.0
        return self._scale

    def size(self, inner: InnerSolution) -> float:
        """Return the projected hypergradient norm."""
        return norm(self._project.gradient_map(self._state.x, inner.d_x))

    def solve(self, tol: float) -> InnerSolution | LowerPoint:
        """Solve for y and u as accurately as the upper step needs; return y alone where its steps did not suffice."""
        inner = self._solver.solve(self._state.y, self._state.u, self._accuracy)
        for _ in range(TIMES):
            if isinstance(inner, LowerPoint) or not inner.accurate:
                break
            if inner.u_error <= DIRECTION * max(self.size(inner), tol):
                break
            inner = self._solver.sharpen(inner, SHARPER)
        return inner

    def adjoint(self, point: LowerPoint) -> InnerSolution:
        """Solve for u at a y that is not accurate yet."""
        return self._solver.adjoint(point, np.inf, self._state.u, self._accuracy.adjoint)

    def certify(self, inner: InnerSolution, tol: float) -> tuple[InnerSolution, Certificate]:
        """Refine until the error of d_x is known, and by the problem's constants if they can tell."""
        error = np.inf
        for _ in range(REFINEMENTS):
            finer = self._solver.refine(inner)
            moved = max(norm(finer.d_x - inner.d_x), finer.rounding)
            stuck = moved > error / 2
            inner, error = finer, min(moved, error)
            size = self.size(inner)
            if size > tol:
                break
            if self._constants is not None:
                bound = error_bound(self._constants, inner.point.norm, inner.residual)
                bound = bound._replace(error=bound.error + inner.rounding)
                if bound.kind == "bound" and size + bound.error <= tol:
                    return inner, bound
            if size + error <= tol and (stuck or self._constants is None):
                break
        return inner, Certificate(error, "estimate")

    @functools.cached_property
    def _constants(self) -> ProblemConstants | None:
        """Those at this x; mere estimates may cost more than the run, and prove nothing."""
        problem = self._view.problem
        return local_constants(problem, self._state.x) if problem.constants_kind == "bound" else None

    def found(self, inner: InnerSolution) -> Directions:
        """Return what the upper step needs."""
        return Directions(
            d_x=inner.d_x,
            y=inner.point.y,
            u=inner.u,
            y_at=inner.point.y,
            y_change=self._state.y - inner.point.y,
            u_change=self._state.u - inner.u,
            lower_grad_norm=inner.point.norm,
            adjoint_residual=inner.residual,
            upper_grad_norm=inner.upper_grad_norm,
            jvp_norm=inner.jvp_norm,
            correction=inner.correction,
            value_error=inner.value_error,
            memory={**self.memory, "error": inner.error},
        )

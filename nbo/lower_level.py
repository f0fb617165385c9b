"""Accurate lower-level solutions from any start, and the accurate hypergradient built on them."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._display import Printed
from nbo._validation import real
from nbo._vectors import norm
from nbo.certificate import Certificate, error_bound, local_constants
from nbo.inexact_newton import OUT_OF_STEPS, LowerPoint, LowerSolver, at_rounding, lower_point
from nbo.oracles import CountedProblem, OracleCounts, finite_or_named
from nbo.preconditioning import InnerSystem, SystemMemory
from nbo.problem import BilevelProblem

Array = npt.NDArray[Any]

#: The largest residuals wanted where no tolerance is given, by the type of y.
DEFAULT_TOL = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-4}

#: The most Newton iterations.
MAX_NEWTON = 200

#: The residuals of the refinement of a hypergradient, relative to those before.
REFINED = 1e-6


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class LowerSolution(Printed):
    """An accurate y*(x).

    Attributes
    ----------
    y : ndarray
        The solution, (n,), float64.
    grad_norm : float
        |grad_2 g(x, y)|.
    n_newton : int
        Newton iterations.
    success : bool
        Whether `grad_norm` is at most the tolerance.
    message : str
        The same in words, with what ended the iterations and what to do.
    counts : OracleCounts
        The oracle calls.
    """

    y: Array
    grad_norm: float
    n_newton: int
    success: bool
    message: str
    counts: OracleCounts


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Hypergradient(Printed):
    """An accurate hypergradient at one x.

    Attributes
    ----------
    grad : ndarray
        grad_1 f - J u, (m,).
    value : float
        f(x, y), which is Phi(x) up to the error of y.
    y, u : ndarray
        y*(x) and u*(x) as found, (n,) each, float64.
    error : float
        A bound or an estimate of |grad - grad Phi(x)|.
    error_kind : str
        ``"bound"``: (L1 (1 + q) |grad_2 g| + L_g1 |H u - grad_2 f|)/mu with the problem's constants.
        ``"estimate"``: by how much a refinement of y and u moves the hypergradient, at least some
        rounding units of it.
    lower_grad_norm, adjoint_residual : float
        |grad_2 g| and |H u - grad_2 f|.
    success : bool
        Whether both are at most the tolerance.
    message : str
        The same in words, with what to do.
    counts : OracleCounts
        The oracle calls.
    """

    grad: Array
    value: float
    y: Array
    u: Array
    error: float
    error_kind: str
    lower_grad_norm: float
    adjoint_residual: float
    success: bool
    message: str
    counts: OracleCounts


class _Newton(NamedTuple):
    """Where Newton's method ended: the point, the iterations done, and why it did not go on."""

    point: LowerPoint
    steps: int
    why: str
    system: InnerSystem


_AT_LIMIT = f"{OUT_OF_STEPS}: start from y0 = the y of this solution, or see nbo.check_problem"


def solve_lower_level(
    problem: BilevelProblem, x: npt.ArrayLike, *, y0: npt.ArrayLike | None = None, tol: float | None = None
) -> LowerSolution:
    """Solve min_y g(x, y) by a globalised Newton method, from any start.

    Newton directions by conjugate gradients, with the Hessian of an earlier point as preconditioner where that pays
    (`nbo.preconditioning.InnerSystem`); full steps while they shorten the gradient, else a backtracking line search on
    g that recognises the rounding floor (`nbo.inexact_newton.newton_step`).

    Parameters
    ----------
    problem : BilevelProblem
        The problem.
    x : array_like
        The upper point, (m,).
    y0 : array_like, optional
        The start, (n,); zeros by default.
    tol : float, optional
        The largest |grad_2 g| wanted, absolute; 1e-8, or 1e-4 in float32. The solver also ends where rounding
        allows no progress.

    Returns
    -------
    LowerSolution
        y*(x), with the gradient that is left and the exact counts.

    Raises
    ------
    TypeError, ValueError
        For bad arguments, or an oracle that is not finite at the start.
    ArithmeticError
        If g is found not to be convex.
    """
    view = CountedProblem(problem)
    with finite_or_named():
        (point, steps, why, _), limit = _start(view, view.upper_point("x", x), y0, tol)
    success = point.norm <= limit
    message = f"grad_norm = {point.norm:.3g} against tol = {limit:g} after {steps} Newton iterations"
    if not success:
        message = f"{message}; {why}"
    return LowerSolution(point.y.astype(np.float64), point.norm, steps, success, message, view.counts)


def hypergradient(
    problem: BilevelProblem, x: npt.ArrayLike, *, y0: npt.ArrayLike | None = None, tol: float | None = None
) -> Hypergradient:
    """Compute grad Phi(x) accurately, with an error bound.

    y*(x) and u are solved to `tol` and refined by one more Newton step for both.

    Parameters
    ----------
    problem : BilevelProblem
        The problem.
    x : array_like
        The upper point, (m,); bounds do not matter here.
    y0 : array_like, optional
        The start for y, (n,); zeros by default.
    tol : float, optional
        The largest |grad_2 g| and |H u - grad_2 f| wanted, absolute, before the refinement; 1e-8, or 1e-4 in
        float32.

    Returns
    -------
    Hypergradient
        The gradient, Phi(x), y*, u*, the error and what kind of statement it is.

    Raises
    ------
    TypeError, ValueError
        For bad arguments, or an oracle that is not finite at the start.
    ArithmeticError
        If g is found not to be convex.

    Examples
    --------
    >>> import nbo, numpy as np
    >>> problem = nbo.problems.Quadratic.family(n=4, m=2, kappa=10)
    >>> h = nbo.hypergradient(problem, np.zeros(2))
    >>> bool(np.linalg.norm(h.grad - problem.grad_phi(np.zeros(2))) <= h.error + 1e-12), h.error_kind
    (True, 'bound')
    """
    view = CountedProblem(problem)
    upper = view.upper_point("x", x)
    with finite_or_named():
        return _hypergradient(view, upper, *_start(view, upper, y0, tol))


def _hypergradient(view: CountedProblem, x: Array, start: _Newton, limit: float) -> Hypergradient:
    """Solve for u at an accurate y, refine both once and bound the error."""
    point = start.point
    grad_1, grad_2 = view.upper_grad(x, point.y)
    system = start.system
    u = system.solve(point.model, grad_2[None], np.array([0.1 * limit])).solution[0]
    before = grad_1 - point.model.jvp(u)
    refined, u, grad, residual, moved = _refine(view, x, system, point, u, before)
    rounding = 10 * float(np.finfo(view.dtype).eps) * (norm(grad_1) + norm(grad - grad_1))
    error, kind = Certificate(max(moved, rounding), "estimate")
    if (constants := local_constants(view.problem, x)) is not None:
        error, kind = error_bound(constants, refined.norm, residual)
        error += rounding
    success = max(refined.norm, residual) <= limit
    message = f"lower_grad_norm = {refined.norm:.3g} and adjoint_residual = {residual:.3g} against tol = {limit:g}"
    if not success:
        message = f"{message}; {start.why or at_rounding(view.dtype)}"
    return Hypergradient(
        grad=grad,
        value=view.upper_value(x, refined.y),
        y=refined.y.astype(np.float64),
        u=u.astype(np.float64),
        error=error,
        error_kind=kind,
        lower_grad_norm=refined.norm,
        adjoint_residual=residual,
        success=success,
        message=message,
        counts=view.counts,
    )


def _refine(
    view: CountedProblem, x: Array, system: InnerSystem, point: LowerPoint, u: Array, before: Array
) -> tuple[LowerPoint, Array, Array, float, float]:
    """Take one Newton step on y, then one on u at the new y, and keep what helps.

    Returns the point, u, the hypergradient, the adjoint residual and how far the refinement moves the
    hypergradient, whether or not it is kept.
    """
    direction = system.solve(point.model, point.grad[None], np.array([REFINED * point.norm])).solution[0]
    trial = lower_point(view, x, point.y - direction)
    if trial.norm < point.norm:
        point = trial
    grad_1, grad_2 = view.upper_grad(x, point.y)
    residual = point.model.hvp(u[None])[0] - grad_2
    refined = u - system.solve(point.model, residual[None], np.array([REFINED * norm(residual)])).solution[0]
    new = norm(point.model.hvp(refined[None])[0] - grad_2)
    after = grad_1 - point.model.jvp(refined)
    moved = norm(after - before)
    if new < norm(residual):
        return point, refined, after, new, moved
    return point, u, grad_1 - point.model.jvp(u), norm(residual), moved


def _start(view: CountedProblem, x: Array, y0: Any, tol: float | None) -> tuple[_Newton, float]:
    """Solve the lower level; return the solution and the tolerance."""
    y = view.lower_start("y0", y0)
    limit = DEFAULT_TOL[view.dtype] if tol is None else real("tol", tol, positive=True)
    system = InnerSystem(view, SystemMemory(), max(1000, 2 * view.dim_y))
    solver = LowerSolver(view, x, system, MAX_NEWTON)
    point, why = solver.minimize(y, lambda point: point.norm <= limit)
    why = _AT_LIMIT if why == OUT_OF_STEPS else why
    return _Newton(point, MAX_NEWTON - solver.left, why, system), limit

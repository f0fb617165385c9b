"""Runs with the parameters of the theory to the first x with |grad Phi(x)|^2 <= eps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._clock import Timer
from nbo._validation import box
from nbo._vectors import norm
from nbo.initialization import Initialization
from nbo.lower_level import hypergradient
from nbo.problem import BilevelProblem
from nbo.problems import NonQuadratic
from nbo.theory.parameters import DeterministicParameters

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

Array = npt.NDArray[Any]

#: Called now and then with a stage, its iterations so far and |grad Phi|^2.
Callback = Callable[[str, int, float], None]

#: Inner steps between two calls of a callback where the run is compiled, some tenths of a second; Ctrl-C waits for it.
_CHUNK = 10**7


class Run(NamedTuple):
    """A run to the first x with |grad Phi(x)|^2 <= eps.

    Attributes
    ----------
    K : int
        Its iterations; zero if the start is such an x.
    square : float
        |grad Phi|^2 there.
    products : int
        Hessian-vector products made; conjugate gradients end early at their floor.
    seconds : float
        Without compilation.
    """

    K: int
    square: float
    products: int
    seconds: float


def run_to_stationarity(
    problem: BilevelProblem,
    parameters: DeterministicParameters,
    x0: Array,
    start: Initialization,
    *,
    eps: float,
    max_iter: int,
    callback: Callable[[int, float], None],
) -> Run:
    """Run a method until |grad Phi(x^k)|^2 <= eps for the first time.

    `nbo.problems.NonQuadratic` without bounds runs compiled, every other problem by `nbo.minimize`. grad Phi is the
    problem's `grad_phi` where it has one, else `nbo.hypergradient` from the last y*; neither is counted.

    Parameters
    ----------
    problem : BilevelProblem
        The problem.
    parameters : DeterministicParameters
        Method and steps.
    x0 : ndarray
        (m,).
    start : Initialization
        y0 and u0.
    eps : float
        The bound.
    max_iter : int
        The most iterations.
    callback : callable
        Called with the iterations so far and |grad Phi|^2.

    Returns
    -------
    Run
        Its length and cost.

    Raises
    ------
    ArithmeticError
        If the run diverged.
    ValueError
        If `max_iter` does not suffice.
    """
    run = _compiled if _is_compiled(problem) else _interpreted
    found = run(problem, parameters, x0, start, eps, max_iter, callback)
    if not math.isfinite(found.square):
        raise ArithmeticError(f"{parameters.method} diverged within {found.K} iterations with its theoretical steps")
    if found.square > eps:
        raise ValueError(
            f"max_iter: found {max_iter}; after {found.K} iterations of {parameters.method} "
            f"|grad Phi|^2 = {found.square:.3g}; expected enough of them to reach eps = {eps:g}"
        )
    return found


def _is_compiled(problem: BilevelProblem) -> bool:
    """Tell whether the formulas of the compiled loop are those of the problem; a subclass may have others."""
    if type(problem) is not NonQuadratic:
        return False
    lower, upper = box("problem.bounds", problem.bounds, problem.dim_x)
    return bool(np.all(lower == -np.inf) and np.all(upper == np.inf))


def _compiled(
    problem: Any,
    parameters: DeterministicParameters,
    x0: Array,
    start: Initialization,
    eps: float,
    max_iter: int,
    callback: Callable[[int, float], None],
) -> Run:
    from nbo.kernels import complexity

    formulas, plan = complexity.formulas(problem), complexity.plan(parameters)
    iterate = complexity.Iterate(x0.copy(), start.y.copy(), start.u.copy())
    chunk = max(1, _CHUNK // (plan.n_lower + 2 * plan.n_linear))
    K = products = 0
    timer = Timer()
    while True:
        done, square, more = complexity.run(formulas, plan, iterate, eps, min(chunk, max_iter - K))
        K, products = K + done, products + more
        callback(K, square)
        if not eps < square < math.inf or max_iter == K:
            return Run(K, square, products, timer.seconds())


def gradient_square(problem: BilevelProblem, x: Array) -> float:
    """Return |grad Phi(x)|^2, from the problem's `grad_phi` or an accurate solution.

    Parameters
    ----------
    problem : BilevelProblem
        The problem.
    x : ndarray
        Where, (m,).

    Returns
    -------
    float
        The squared norm.
    """
    return _Watch(problem, 0.0, lambda iterations, square: None).at(x)


class _Watch:
    """A callback of `nbo.minimize` that stops at the first x with |grad Phi(x)|^2 <= eps."""

    def __init__(self, problem: BilevelProblem, eps: float, callback: Callable[[int, float], None]) -> None:
        self.problem, self.eps, self.callback = problem, eps, callback
        self.square = math.inf
        self._y: Array | None = None

    def at(self, x: Array) -> float:
        """Return |grad Phi(x)|^2."""
        closed = getattr(self.problem, "grad_phi", None)
        if closed is not None:
            return float(norm(closed(x)) ** 2)
        found = hypergradient(self.problem, x, y0=self._y)
        self._y = found.y
        return float(norm(found.grad) ** 2)

    def __call__(self, intermediate_result: OptimizeResult) -> bool:
        self.square = self.at(intermediate_result.x)
        self.callback(intermediate_result.nit, self.square)
        return not self.eps < self.square < math.inf


def _interpreted(
    problem: BilevelProblem,
    parameters: DeterministicParameters,
    x0: Array,
    start: Initialization,
    eps: float,
    max_iter: int,
    callback: Callable[[int, float], None],
) -> Run:
    from nbo import minimize

    watch = _Watch(problem, eps, callback)
    if max_iter == 0:
        return Run(0, watch.at(x0), 0, 0.0)
    result = minimize(
        problem,
        x0,
        y0=start.y,
        u0=start.u,
        method=parameters.solver(),
        tol=0.0,
        max_iter=max_iter,
        callback=watch,
    )
    return Run(result.nit, watch.square, result.counts.lower_hvp, result.seconds)

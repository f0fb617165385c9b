"""NBO and AmIGO on the non-quadratic family, whole runs compiled: millions of iterations of a few numbers each.

The iterations are those of `nbo.solvers.newton` (at the old point) and of `nbo.solvers.double_loop` (at the newest
values), with given steps. H is diagonal here, so a product is one multiplication an entry.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from nbo.kernels.engine import array, compiled, entry_point, helper
from nbo.kernels.loops import type_of

if TYPE_CHECKING:
    from nbo.problems import NonQuadratic
    from nbo.theory import DeterministicParameters

Array = npt.NDArray[Any]

#: Rows of the workspace: H, two right-hand sides, two solutions, and a residual and a direction of CG.
ROWS = 7

#: The square of the relative residual at which conjugate gradients stop, as in `nbo.linear_solvers`.
_FLOOR = 1e-14**2


class Formulas(NamedTuple):
    """The numbers in the formulas of `nbo.problems.NonQuadratic`.

    Attributes
    ----------
    B, d, e : ndarray
        (n, m), (n,) and (m,).
    a, b : float
        (L + mu)/2 and (L - mu)/2.
    product : float
        L mu.
    s, rho : float
        Weights of f.
    """

    B: Any
    d: Any
    e: Any
    a: float
    b: float
    product: float
    s: float
    rho: float


class Plan(NamedTuple):
    """What an iteration does.

    Attributes
    ----------
    newton : bool
        Whether it is NBO's; else AmIGO's.
    krylov : bool
        Whether linear systems are solved by conjugate gradients; else by gradient steps.
    alpha, gamma : float
        The step on x and the inner step.
    n_lower, n_linear : int
        Steps on y (of AmIGO), and steps of the linear solver.
    """

    newton: bool
    krylov: bool
    alpha: float
    gamma: float
    n_lower: int
    n_linear: int


class Iterate(NamedTuple):
    """The variables, which a run changes in place.

    Attributes
    ----------
    x, y, u : ndarray
        (m,), (n,) and (n,).
    """

    x: Any
    y: Any
    u: Any


class Progress(NamedTuple):
    """How far a piece of a run came.

    Attributes
    ----------
    iterations : int
        Iterations done.
    square : float
        |grad Phi|^2 at the last x.
    products : int
        Hessian-vector products; conjugate gradients stop early at their floor.
    """

    iterations: int
    square: float
    products: int


def advance(
    formulas: Formulas, plan: Plan, iterate: Iterate, work: Array, eps: float, limit: int
) -> tuple[int, float, int]:
    """Iterate until |grad Phi(x)|^2 <= eps, until it is not finite, or `limit` times.

    Parameters
    ----------
    formulas : Formulas
        The problem.
    plan : Plan
        The method.
    iterate : Iterate
        Where to start; changed in place.
    work : ndarray
        Scratch, (ROWS, n).
    eps : float
        The bound; a negative one is never reached.
    limit : int
        The most iterations.

    Returns
    -------
    tuple
        The entries of `Progress`.
    """
    done = products = 0
    while True:
        square = _gradient_square(formulas, iterate.x)
        if not eps < square < math.inf or done == limit:
            return done, square, products
        if plan.newton:
            products += _newton(formulas, plan, iterate, work)
        else:
            products += _double_loop(formulas, plan, iterate, work)
        done += 1


@helper
def _slope(t):  # type: ignore[no-untyped-def]
    return t / math.sqrt(1 + t * t)


@helper
def _image(B, x, i):  # type: ignore[no-untyped-def]
    """Entry i of B x."""
    total = 0.0
    for j in range(x.shape[0]):
        total += B[i, j] * x[j]
    return total


@helper
def _lower_solution(f, slope):  # type: ignore[no-untyped-def]
    """The inverse of psi', without cancellation."""
    t = slope + f.b
    w = math.sqrt(t * t + f.product)
    if t > 0:
        return slope * (slope + 2 * f.b) / (f.a * t + f.b * w)
    return (f.a * t - f.b * w) / f.product


@helper
def _gradient_square(f, x):  # type: ignore[no-untyped-def]
    """|grad Phi(x)|^2 in closed form."""
    total = 0.0
    for j in range(x.shape[0]):
        entry = f.rho * _slope(x[j] - f.e[j])
        for i in range(f.d.shape[0]):
            y = _lower_solution(f, _image(f.B, x, i))
            entry += f.B[i, j] * f.s * _slope(y - f.d[i]) / (f.a + f.b * _slope(y))
        total += entry * entry
    return total


@helper
def _lower_slope(f, image, y):  # type: ignore[no-untyped-def]
    """An entry of grad_2 g, from those of B x and y."""
    return f.a * y + f.b * (math.sqrt(1 + y * y) - 1) - image


@helper
def _descended(f, image, y, gamma, n_steps):  # type: ignore[no-untyped-def]
    """An entry of y after gradient steps; those after a fixed point would change nothing."""
    for _ in range(n_steps):
        following = y - gamma * _lower_slope(f, image, y)
        if following == y:
            break
        y = following
    return y


@helper
def _adjoint_residual(f, y, u, H, out):  # type: ignore[no-untyped-def]
    """Write H, and H u - grad_2 f."""
    for i in range(y.shape[0]):
        H[i] = f.a + f.b * _slope(y[i])
        out[i] = H[i] * u[i] - f.s * _slope(y[i] - f.d[i])


@helper
def _move_x(f, alpha, x, u):  # type: ignore[no-untyped-def]
    """Step along -(grad_1 f - J u), with J u = -B'u."""
    for j in range(x.shape[0]):
        direction = f.rho * _slope(x[j] - f.e[j])
        for i in range(u.shape[0]):
            direction += f.B[i, j] * u[i]
        x[j] -= alpha * direction


@helper
def _gradient_steps(H, rhs, out, gamma, n_steps):  # type: ignore[no-untyped-def]
    """Solve H out = rhs by steps from zero, of which the first needs no product; return the products.

    Those after a fixed point would change nothing: they count and are not done.
    """
    for i in range(rhs.shape[0]):
        v = gamma * rhs[i]
        for _ in range(n_steps - 1):
            following = v + gamma * (rhs[i] - H[i] * v)
            if following == v:
                break
            v = following
        out[i] = v
    return n_steps - 1


@helper
def _square(v):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(v.shape[0]):
        total += v[i] * v[i]
    return total


@helper
def _conjugate_gradients(H, rhs, out, r, p, n_steps):  # type: ignore[no-untyped-def]
    """Solve H out = rhs by one recursion from zero; return the products."""
    out[:], r[:], p[:] = 0.0, rhs, rhs
    square = _square(rhs)
    floor = _FLOOR * square
    for used in range(n_steps):
        if square <= floor:
            return used
        curvature = 0.0
        for i in range(rhs.shape[0]):
            curvature += p[i] * H[i] * p[i]
        if curvature <= 0:  # at the rounding floor, as H is positive definite
            return used + 1
        step = square / curvature
        for i in range(rhs.shape[0]):
            out[i] += step * p[i]
            r[i] -= step * H[i] * p[i]
        following = _square(r)
        for i in range(rhs.shape[0]):
            p[i] = r[i] + following / square * p[i]
        square = following
    return n_steps


@helper
def _solve(plan, H, rhs, out, r, p):  # type: ignore[no-untyped-def]
    if plan.krylov:
        return _conjugate_gradients(H, rhs, out, r, p, plan.n_linear)
    return _gradient_steps(H, rhs, out, plan.gamma, plan.n_linear)


@helper
def _newton(f, plan, iterate, work):  # type: ignore[no-untyped-def]
    """Do one iteration of NBO, everything at the old point; return the products."""
    x, y, u = iterate
    H, d_y, d_u, v, w, r, p = work[0], work[1], work[2], work[3], work[4], work[5], work[6]
    for i in range(y.shape[0]):
        d_y[i] = _lower_slope(f, _image(f.B, x, i), y[i])
    _adjoint_residual(f, y, u, H, d_u)
    products = 1 + _solve(plan, H, d_y, v, r, p) + _solve(plan, H, d_u, w, r, p)
    _move_x(f, plan.alpha, x, u)
    for i in range(y.shape[0]):
        y[i] -= v[i]
        u[i] -= w[i]
    return products


@helper
def _double_loop(f, plan, iterate, work):  # type: ignore[no-untyped-def]
    """Do one iteration of AmIGO, each part at the newest values; return the products."""
    x, y, u = iterate
    H, d_u, w, r, p = work[0], work[2], work[4], work[5], work[6]
    for i in range(y.shape[0]):
        y[i] = _descended(f, _image(f.B, x, i), y[i], plan.gamma, plan.n_lower)
    _adjoint_residual(f, y, u, H, d_u)
    products = 1 + _solve(plan, H, d_u, w, r, p)
    for i in range(y.shape[0]):
        u[i] -= w[i]
    _move_x(f, plan.alpha, x, u)
    return products


@functools.cache
def _entry() -> Callable[..., tuple[int, float, int]]:
    """Compile `advance`, once a process."""
    one, two = array(np.float64, 1), array(np.float64, 2)
    numbers = [types.float64] * 5
    formulas = types.NamedTuple([two, one, one, *numbers], Formulas)
    plan = type_of(Plan(True, True, 0.0, 0.0, 0, 0))
    iterate = types.NamedUniTuple(array(np.float64, 1, writable=True), 3, Iterate)
    signature = (formulas, plan, iterate, array(np.float64, 2, writable=True), types.float64, types.int64)
    return entry_point(compiled(advance, signature), signature)


def run(formulas: Formulas, plan: Plan, iterate: Iterate, eps: float, limit: int) -> Progress:
    """Run a piece of a run, compiled at the first call; see `advance`.

    Parameters
    ----------
    formulas : Formulas
        The problem, with float64 arrays by rows.
    plan : Plan
        The method.
    iterate : Iterate
        Float64 arrays, changed in place.
    eps : float
        The bound of |grad Phi(x)|^2.
    limit : int
        The most iterations.

    Returns
    -------
    Progress
        How far it came.
    """
    work = np.empty((ROWS, iterate.y.shape[0]))
    return Progress(*_entry()(formulas, plan, iterate, work, eps, limit))


def formulas(problem: NonQuadratic) -> Formulas:
    """Return the numbers of a problem.

    Parameters
    ----------
    problem : NonQuadratic
        The problem; its bounds are not looked at.

    Returns
    -------
    Formulas
        For `run`.
    """
    a, b = (problem.L + problem.mu) / 2, (problem.L - problem.mu) / 2
    return Formulas(problem.B, problem.d, problem.e, a, b, problem.L * problem.mu, problem.s, problem.rho)


def plan(parameters: DeterministicParameters) -> Plan:
    """Return what an iteration with given parameters does.

    Parameters
    ----------
    parameters : DeterministicParameters
        Of ``nbo-gd``, ``nbo-cg``, ``amigo-gd``, ``amigo-cg`` or ``aid-bio``.

    Returns
    -------
    Plan
        For `run`.
    """
    p = parameters
    krylov = p.method not in ("nbo-gd", "amigo-gd")
    if p.T is not None:
        return Plan(True, krylov, p.alpha, p.gamma, 0, p.T + 1)
    assert p.D is not None and p.N is not None
    return Plan(False, krylov, p.alpha, p.gamma, p.D, p.N)

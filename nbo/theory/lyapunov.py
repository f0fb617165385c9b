"""The Lyapunov function along a run, with a check of what the convergence proof says about every iteration."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from nbo._display import Printed
from nbo._validation import real, vector
from nbo._vectors import norm
from nbo.lower_level import hypergradient
from nbo.oracles import CountedProblem, OracleCounts
from nbo.problem import BilevelProblem
from nbo.theory import boxes
from nbo.theory.constants import ProblemConstants, constants_of, over, times
from nbo.theory.parameters import theoretical_parameters

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

Array = npt.NDArray[Any]

#: Rounding units by which a computed number may be off: sums over the data lose a few.
_UNITS = 16


class _ClosedForm(Protocol):
    """A problem that knows its solution, such as `nbo.problems.Quadratic`."""

    def y_star(self, x: Array) -> Array: ...

    def u_star(self, x: Array) -> Array: ...

    def phi(self, x: Array) -> float: ...

    def grad_phi(self, x: Array) -> Array: ...


class Exact(NamedTuple):
    """The solution at one x, with what its numbers may be off by.

    Attributes
    ----------
    y, u : ndarray
        y*(x) and u*(x), (n,) each.
    value : float
        Phi(x).
    grad : ndarray
        grad Phi(x), (m,).
    y_error, u_error, value_error : float
        Bounds of the errors of y, u and the value.
    counts : OracleCounts
        The calls for it.
    """

    y: Array
    u: Array
    value: float
    grad: Array
    y_error: float
    u_error: float
    value_error: float
    counts: OracleCounts


class Row(NamedTuple):
    """What is known about one iterate.

    Attributes
    ----------
    iteration : int
        k.
    V : float
        Phi(x^k) - Phi* + b_y |y - y*|^2 + b_u |u - u*|^2; without -Phi* if that is not known.
    phi : float
        Phi(x^k).
    y_distance, u_distance : float
        |y^k - y*(x^k)| and |u^k - u*(x^k)|.
    grad_norm : float
        |grad Phi(x^k)|.
    d_x_norm : float
        |d_x^k|; NaN for the last iterate.
    slack : float
        Of the descent from k to k + 1, in the unit of f; NaN for the last iterate and where k + 1 was not seen.
    allowance : float
        What rounding may have added to that.
    terms : float
        The decrease of V that the theorem promises.
    """

    iteration: int
    V: float
    phi: float
    y_distance: float
    u_distance: float
    grad_norm: float
    d_x_norm: float = math.nan
    slack: float = math.nan
    allowance: float = math.nan
    terms: float = math.nan


class Violation(NamedTuple):
    """An inequality that does not hold.

    Attributes
    ----------
    iteration : int
        k.
    what : str
        ``"descent"`` (from k to k + 1), ``"y-invariant"`` or ``"u-invariant"``; ``"phi_star"`` where Phi is below it.
    excess : float
        By how much it fails, relative to the promised decrease, to the radius or to `phi_star`.
    """

    iteration: int
    what: str
    excess: float


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class LyapunovSummary(Printed):
    """What a `Lyapunov` callback has found.

    Attributes
    ----------
    n_iterates : int
        The iterates seen.
    n_checked, n_unresolved : int
        Steps whose descent was checked, and those among them in which the promised decrease is below what rounding
        may add, so that the check says little.
    n_clipped, n_other, n_missing : int
        Steps that were not checked: a bound of x has cut them, or they have another size than alpha d_x; and
        iterates that were not seen, as the run evaluated only some.
    violations : tuple of Violation
        All that were found, by iteration.
    descent_slack : float
        The least of (promised decrease left over)/(promised decrease) in the steps that rounding leaves clear; 0
        would be a step that just satisfies the inequality. NaN if there is none.
    y_slack, u_slack : float
        The least of 1 - |y - y*| 2 L_g2/mu and of 1 - |u - u*| 2 L_g2/(5 L1); infinite for L_g2 = 0.
    V_first, V_last : float
        V at the first and the last iterate.
    least_grad_norm : float
        The least |grad Phi(x^k)| seen.
    seconds : float
        Time for the accurate solutions.
    counts : OracleCounts
        Their oracle calls.
    """

    n_iterates: int
    n_checked: int
    n_unresolved: int
    n_clipped: int
    n_other: int
    n_missing: int
    violations: tuple[Violation, ...]
    descent_slack: float
    y_slack: float
    u_slack: float
    V_first: float
    V_last: float
    least_grad_norm: float
    seconds: float
    counts: OracleCounts

    @property
    def ok(self) -> bool:
        """Whether every step was checked, some beyond rounding, and nothing failed."""
        return not self.reason

    @property
    def reason(self) -> str:
        """Why the checks do not confirm the theorem; empty if they do."""
        reasons = {
            "an inequality of the proof fails": bool(self.violations),
            "steps are not alpha d_x with the given step_size": self.n_other > 0,
            "bounds of x cut steps": self.n_clipped > 0,
            "iterates are missing: the run has to evaluate each (eval_every=1)": self.n_missing > 0,
            "no step was seen": self.n_checked == 0,
            "rounding hides every decrease": self.n_unresolved == self.n_checked,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")


class Lyapunov:
    """A callback of `nbo.minimize` that tracks the Lyapunov function of NBO-GD and NBO-CG (errata F).

    With V_k = Phi(x^k) - Phi* + b_y |y^k - y*|^2 + b_u |u^k - u*|^2, b_y = 4 L1 and b_u = mu^2/(8 L1), the proof of
    the paper's Theorem 3.2 gives for a run from BOX 1 with parameters of the theorem

    V_{k+1} - V_k <= -alpha/2 |grad Phi|^2 - alpha/8 |d_x|^2 - L1/2 |y - y*|^2 - 7 mu^2/(128 L1) |u - u*|^2

    and the invariants |y^k - y*| <= mu/(2 L_g2), |u^k - u*| <= 5 L1/(2 L_g2). Each is checked at every iterate, up to
    the rounding of the numbers in it.

    Parameters
    ----------
    problem : BilevelProblem
        The problem. y*, u* and Phi are solved accurately for, or taken from `y_star`, `u_star`, `phi` and `grad_phi`
        if it has all of them; these calls count neither in ``res.counts`` nor in ``res.seconds``.
    constants : ProblemConstants, optional
        By default those that the problem has, over its bounds of x.
    phi_star : float, optional
        The least value of Phi, or a lower bound of it; without it V lacks - Phi*, which changes no check.
    step_size : float, optional
        The alpha of the run; by default that of the theorem.
    start : tuple of array_like, optional
        (x0, y0, u0) of the run, as callbacks begin with the first iteration; without it so do the checks.

    Attributes
    ----------
    rows : list of Row
        One an iterate.

    Raises
    ------
    NoConstantsError
        If there are no constants.
    TypeError, ValueError
        For a bad argument.

    Examples
    --------
    >>> import nbo, numpy as np
    >>> problem, x0 = nbo.problems.Quadratic.family(n=5, m=3, kappa=10), np.zeros(3)
    >>> p = nbo.theory.theoretical_parameters(problem.constants(), "nbo-gd")
    >>> start = nbo.initialization.box1(problem, x0)
    >>> tracker = nbo.theory.Lyapunov(problem, start=(x0, start.y, start.u))
    >>> _ = nbo.minimize(
    ...     problem, x0, y0=start.y, u0=start.u, method=p.solver(), tol=0.0, max_iter=50, callback=tracker
    ... )
    >>> summary = tracker.summary()
    >>> summary.n_checked, summary.violations
    (50, ())
    """

    def __init__(
        self,
        problem: BilevelProblem,
        constants: ProblemConstants | None = None,
        phi_star: float | None = None,
        *,
        step_size: float | None = None,
        start: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike] | None = None,
    ) -> None:
        view = CountedProblem(problem)
        self._problem, self._eps = problem, float(np.finfo(view.dtype).eps)
        self.constants = constants_of(problem, given=constants)
        parameters = theoretical_parameters(self.constants)
        self._alpha = parameters.alpha if step_size is None else real("step_size", step_size, positive=True)
        self._b_y, self._b_u = parameters.b_y, parameters.b_u
        self._phi_star = -math.inf if phi_star is None else real("phi_star", phi_star)
        self._radii = (
            over(self.constants.mu, 2 * self.constants.L_g2),
            over(5 * boxes.positive_L1(self.constants), 2 * self.constants.L_g2),
        )
        self.rows: list[Row] = []
        self.seconds, self.counts = 0.0, OracleCounts()
        self._violations: list[Violation] = []
        self._clipped = self._other = 0
        self._last: tuple[Array, Exact] | None = None
        if start is not None:
            if not isinstance(start, (tuple, list)) or len(start) != 3:
                found = f"{len(start)} parts" if isinstance(start, (tuple, list)) else type(start).__name__
                raise ValueError(f"start: found {found}; expected (x0, y0, u0)")
            x0, y0, u0 = start
            lower = (view.dim_y, np.float64, "dim_y")
            self._add(0, vector("x0", x0, view.dim_x), vector("y0", y0, *lower), vector("u0", u0, *lower), None)

    def __call__(self, intermediate_result: OptimizeResult) -> None:
        r = intermediate_result
        sizes = self._problem.dim_x, self._problem.dim_y
        if (r.x.size, r.y.size) != sizes:
            raise ValueError(
                f"callback: found x, y of {r.x.size} and {r.y.size} entries; expected {sizes}: another problem"
            )
        if self.rows and r.nit <= self.rows[-1].iteration:
            raise ValueError(
                f"callback: found iteration {r.nit} after {self.rows[-1].iteration}; expected a Lyapunov object of its "
                "own for each run"
            )
        self._add(r.nit, r.x, r.y, r.u, r.jac)

    def summary(self) -> LyapunovSummary:
        """Return what was found so far.

        Returns
        -------
        LyapunovSummary
            Of all iterates seen.

        Raises
        ------
        ValueError
            If none was seen.
        """
        if not self.rows:
            raise ValueError("rows: found no iterate; expected a run with this callback")
        checked = [row for row in self.rows if not math.isnan(row.slack)]
        clear = [row.slack / row.terms for row in checked if row.allowance < row.terms / 10]
        far_y, far_u = (max(getattr(row, name) for row in self.rows) for name in ("y_distance", "u_distance"))
        return LyapunovSummary(
            n_iterates=len(self.rows),
            n_checked=len(checked),
            n_unresolved=len(checked) - len(clear),
            n_clipped=self._clipped,
            n_other=self._other,
            n_missing=self.rows[-1].iteration - self.rows[0].iteration + 1 - len(self.rows),
            violations=tuple(sorted(self._violations, key=lambda found: found.iteration)),
            descent_slack=min(clear, default=math.nan),
            y_slack=_left(far_y, self._radii[0]),
            u_slack=_left(far_u, self._radii[1]),
            V_first=self.rows[0].V,
            V_last=self.rows[-1].V,
            least_grad_norm=min(row.grad_norm for row in self.rows),
            seconds=self.seconds,
            counts=self.counts,
        )

    def _add(self, nit: int, x: Array, y: Array, u: Array, d_x: Array | None) -> None:
        """Record an iterate, and check the step that led to it along -d_x."""
        began = time.perf_counter()
        found = exact(self._problem, self.constants, x, None if self._last is None else self._last[1].y)
        self.counts = self.counts + found.counts
        if found.value < self._phi_star - found.value_error:
            if not self.rows:
                raise ValueError(f"phi_star: found {self._phi_star:g}; expected at most Phi(x0) = {found.value:g}")
            excess = (self._phi_star - found.value) / abs(self._phi_star or 1.0)
            self._violations.append(Violation(nit, "phi_star", excess))
        e_y, e_u = norm(y - found.y), norm(u - found.u)
        shift = 0.0 if self._phi_star == -math.inf else self._phi_star
        V = found.value - shift + self._b_y * e_y**2 + self._b_u * e_u**2
        row = Row(nit, V, found.value, e_y, e_u, norm(found.grad))
        rounding = (self._eps * norm(y) + found.y_error, self._eps * norm(u) + found.u_error)
        named = zip(("y-invariant", "u-invariant"), (e_y, e_u), self._radii, rounding, strict=True)
        for what, distance, radius, allowed in named:
            if distance > radius + allowed:
                self._violations.append(Violation(nit, what, distance / radius - 1))
        if self._last is not None and d_x is not None and self.rows[-1].iteration == nit - 1:
            self._check_descent(x, d_x, found, row)
        self.rows.append(row)
        self._last = x.copy(), found
        self.seconds += time.perf_counter() - began

    def _check_descent(self, x: Array, d_x: Array, found: Exact, row: Row) -> None:
        """Complete the last row with what the step from it to `row` shows."""
        assert self._last is not None
        (x_old, before), old = self._last, self.rows[-1]
        move, rounding = x_old - x, _UNITS * np.finfo(np.float64).eps * (norm(x) + norm(x_old))
        if norm(move - self._alpha * d_x) > rounding:
            # a longer or shorter step is parallel to d_x, one that a bound has cut is not
            along = float(move @ d_x) / (norm(d_x) ** 2 or 1.0) * d_x
            cut = bool(norm(move - along) > rounding or not move.any())
            self._clipped, self._other = self._clipped + cut, self._other + (not cut)
            return
        c, a, length = self.constants, self._alpha, norm(d_x)
        of_x = a / 2 * old.grad_norm**2 + a / 8 * length**2
        terms = of_x + c.L1 / 2 * old.y_distance**2 + 7 * c.mu**2 / (128 * c.L1) * old.u_distance**2
        change = found.value - before.value
        for weight, name in ((self._b_y, "y_distance"), (self._b_u, "u_distance")):
            new, was = getattr(row, name), getattr(old, name)
            change += weight * (new - was) * (new + was)
        slack = -change - terms
        allowance = self._allowance(before, old) + self._allowance(found, row)
        self.rows[-1] = old._replace(d_x_norm=length, slack=slack, allowance=allowance, terms=terms)
        if slack < -allowance:
            self._violations.append(Violation(old.iteration, "descent", -slack / terms))

    def _allowance(self, found: Exact, row: Row) -> float:
        """Bound the error of V."""
        of_y = self._b_y * found.y_error * (2 * row.y_distance + found.y_error)
        return found.value_error + of_y + self._b_u * found.u_error * (2 * row.u_distance + found.u_error)


def _left(distance: float, radius: float) -> float:
    return math.inf if radius == math.inf else 1 - distance / radius


def exact(problem: BilevelProblem, constants: ProblemConstants, x: Array, y0: Array | None) -> Exact:
    """Return the solution at x, from its closed form or by Newton's method to the rounding floor.

    Parameters
    ----------
    problem : BilevelProblem
        The problem; its `y_star`, `u_star`, `phi` and `grad_phi` are used if it has all of them.
    constants : ProblemConstants
        For the bounds of what is left.
    x : ndarray
        Where, (m,).
    y0 : ndarray or None
        A point near y*(x), (n,).

    Returns
    -------
    Exact
        With bounds of the errors.
    """
    eps = float(np.finfo(problem.dtype).eps)
    units, known = _UNITS * eps, _closed_form(problem)
    if known is not None:
        y, u, value, grad = known.y_star(x), known.u_star(x), known.phi(x), known.grad_phi(x)
        y_error, u_error, counts = units * norm(y), units * norm(u), OracleCounts()
    else:
        h = hypergradient(problem, x, y0=y0, tol=eps)
        y, u, value, grad, counts = h.y, h.u, h.value, h.grad, h.counts
        y_error = h.lower_grad_norm / constants.mu + units * norm(y)
        u_error = (h.adjoint_residual + times(y_error, constants.L1)) / constants.mu + units * norm(u)
    steep = norm(problem.upper_grad(x, y.astype(problem.dtype))[1])
    return Exact(y, u, value, grad, y_error, u_error, units * abs(value) + steep * y_error, counts)


def _closed_form(problem: Any) -> _ClosedForm | None:
    return problem if all(hasattr(problem, name) for name in ("y_star", "u_star", "phi", "grad_phi")) else None

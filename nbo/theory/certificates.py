"""Runs with theoretical parameters whose every iteration is checked against the convergence proof."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._validation import choice, flag, integer, real, validate_random_state
from nbo._vectors import norm
from nbo.feasible_sets import feasible_set
from nbo.history import Status
from nbo.initialization import box1, in_box1
from nbo.oracles import CountedProblem, OracleCounts
from nbo.problem import BilevelProblem
from nbo.sampling import integer_state
from nbo.theory import boxes
from nbo.theory._outputs import Report
from nbo.theory.constants import ProblemConstants, constants_of
from nbo.theory.lyapunov import Lyapunov, LyapunovSummary, exact
from nbo.theory.parameters import DeterministicParameters, theoretical_parameters

Array = npt.NDArray[Any]

#: Methods whose iterations the Lyapunov function is for.
METHODS = ("nbo-gd", "nbo-cg")

#: Where runs may start.
STARTS = ("box1", "edge")

#: The most Hessian-vector products of a run.
MAX_PRODUCTS = 10**9

#: How far towards the border of BOX 1 an ``"edge"`` start lies.
EDGE = 0.99


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Certificate(Report):
    """What `certify_run` has found.

    Attributes
    ----------
    problem : str
        The name of the problem's class.
    parameters : DeterministicParameters
        Of the theorem; the run had `step_factor` times its alpha.
    step_factor : float
        1 for a run that the theorem covers.
    start : str
        ``"box1"``, ``"edge"`` or ``"given"``.
    inside : bool
        Whether the start is certified to lie in BOX 1.
    kind : str
        ``"bound"``, or ``"estimate"`` if the constants are estimates, which certify nothing.
    nit : int
        Iterations done.
    status : Status
        ``"iteration_limit"`` if all were done.
    message : str
        What ended them.
    checks : LyapunovSummary
        What was checked at each, with slacks and violations.
    rate_bound : float
        2 V_0/(alpha K), the bound of the least |grad Phi(x^k)|^2 where Phi* is known; NaN otherwise.
    counts : OracleCounts
        The method's calls, those of the initialisation included.
    seconds : float
        Its time.
    """

    problem: str
    parameters: DeterministicParameters
    step_factor: float
    start: str
    inside: bool
    kind: str
    nit: int
    status: Status
    message: str
    checks: LyapunovSummary
    rate_bound: float
    counts: OracleCounts
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the theorem covers the run, if its constants hold, and all that it says was found."""
        whole = self.status is Status.ITERATION_LIMIT
        covered = whole and self.step_factor <= 1 and self.inside and self.kind == "bound"
        return covered and self.checks.ok and self._within_rate

    @property
    def _within_rate(self) -> bool:
        return math.isnan(self.rate_bound) or self.checks.least_grad_norm**2 <= self.rate_bound

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain numbers, texts and dicts.

        Returns
        -------
        dict
            What `save` writes.
        """
        found = {"ok": self.ok, **{f.name: getattr(self, f.name) for f in dataclasses.fields(self)}}
        parameters, checks = dataclasses.asdict(self.parameters), dataclasses.asdict(self.checks)
        checks["violations"] = [violation._asdict() for violation in self.checks.violations]
        checks["counts"] = self.checks.counts.as_dict()
        return {**found, "parameters": parameters, "checks": checks, "counts": self.counts.as_dict()}

    def table(self) -> str:
        """Return it as lines of text.

        Returns
        -------
        str
            Without a newline at the end.
        """
        p, c = self.parameters, self.checks
        facts = {
            "verdict": self._verdict(),
            "problem": f"{self.problem}, kappa = {p.constants.kappa:.4g}, constants: {self.kind}",
            "method": f"{p.method}, alpha = {p.alpha * self.step_factor:.3g}{self._factor()}, gamma = {p.gamma:.3g}, "
            f"T = {p.T}",
            "start": f"{self.start}, {'certified to be' if self.inside else 'not certified to be'} in BOX 1",
            "iterations": f"{self.nit:,}, descent checked in {c.n_checked:,}; rounding hides it in {c.n_unresolved:,}, "
            f"bounds of x cut {c.n_clipped:,}",
            "violations": self._violations(),
            "least slack": f"descent {c.descent_slack:.3g}, y-invariant {c.y_slack:.3g}, u-invariant {c.u_slack:.3g} "
            "(parts of what is allowed)",
            "V": f"{c.V_first:.6g} to {c.V_last:.6g}{' (without - Phi*)' if math.isnan(self.rate_bound) else ''}",
            "gradient": f"least |grad Phi| {c.least_grad_norm:.3g}{self._rate()}",
            "cost": f"{self.counts} in {self.seconds:.3g} s; accurate solutions for the checks {c.seconds:.3g} s",
        }
        return "\n".join(f"{name:<12} {text}" for name, text in facts.items())

    def __str__(self) -> str:
        return self.table()

    def _verdict(self) -> str:
        if self.ok:
            return "all that the theorem says holds, if these constants do"
        if self.checks.violations:
            return self.checks.reason
        if not self.checks.n_checked:
            return f"nothing was checked, {self.checks.reason}; {self.message}"
        reasons = {
            f"the run ended early: {self.message}": self.status is not Status.ITERATION_LIMIT,
            f"alpha is {self.step_factor:g} times that of the theorem": self.step_factor > 1,
            "the constants are estimates": self.kind != "bound",
            "the start is not certified": not self.inside,
            self.checks.reason: not self.checks.ok,
            "the rate is not reached": True,
        }
        return "no inequality fails, but " + next(reason for reason, holds in reasons.items() if holds)

    def _factor(self) -> str:
        return "" if self.step_factor == 1 else f" ({self.step_factor:g} times that of the theorem)"

    def _violations(self) -> str:
        found = self.checks.violations
        if not found:
            return "none"
        first = found[0]
        return f"{len(found):,}; first: {first.what} at iteration {first.iteration}, by {first.excess:.3g} of it"

    def _rate(self) -> str:
        if math.isnan(self.rate_bound):
            return ""
        met = "" if self._within_rate else ", which it is not"
        return f", by the rate at most {math.sqrt(self.rate_bound):.3g}{met}"


def certify_run(
    problem: BilevelProblem,
    x0: npt.ArrayLike,
    *,
    method: str = "nbo-gd",
    constants: ProblemConstants | None = None,
    phi_star: float | None = None,
    max_iter: int = 150,
    start: str | tuple[npt.ArrayLike, npt.ArrayLike] = "box1",
    step_factor: float = 1.0,
    tight: bool = False,
    random_state: int | None = 0,
) -> Certificate:
    """Run NBO-GD or NBO-CG with its theoretical parameters and check every iteration (paper, Theorem 3.2; errata F).

    Parameters
    ----------
    problem : BilevelProblem
        The problem. Bounds of x should be so wide that no step meets them, for the theorem has none.
    x0 : array_like
        The upper start, (m,).
    method : {"nbo-gd", "nbo-cg"}
        The method.
    constants : ProblemConstants, optional
        By default those that the problem has, over its bounds of x.
    phi_star : float, optional
        The least value of Phi, or a lower bound of it; with it the rate is checked too.
    max_iter : int
        Iterations, at least 1.
    start : {"box1", "edge"} or tuple of array_like
        y and u after the routine `nbo.initialization.box1`; 0.99 of the way from the solution at x0 to the border of
        BOX 1, in a random direction; or a pair (y0, u0).
    step_factor : float
        Take so many times the alpha of the theorem: 100 shows that the checks can fail.
    tight : bool
        See `theoretical_parameters`.
    random_state : int, optional
        For the ``"edge"`` start.

    Returns
    -------
    Certificate
        Which prints as a table.

    Raises
    ------
    NoConstantsError
        If there are no constants.
    TypeError, ValueError
        For a bad argument.

    Examples
    --------
    >>> import nbo, numpy as np
    >>> problem = nbo.problems.Quadratic.family(n=5, m=3, kappa=10)
    >>> report = nbo.theory.certify_run(problem, np.zeros(3), start="edge", max_iter=50)
    >>> wrong = nbo.theory.certify_run(problem, np.zeros(3), start="edge", step_factor=100)
    >>> report.ok, wrong.checks.violations[0].what
    (True, 'descent')
    """
    from nbo._minimize import minimize

    choice("method", method, METHODS), integer("max_iter", max_iter, minimum=1), flag("tight", tight)
    validate_random_state(random_state)
    view = CountedProblem(problem)
    x = view.upper_point("x0", x0)
    feasible_set(problem, view.dim_x, None, x)
    c = constants_of(problem, given=constants)
    parameters = theoretical_parameters(c, method, tight=tight)
    assert isinstance(parameters, DeterministicParameters)
    products = parameters.counts(max_iter).lower_hvp
    if products > MAX_PRODUCTS:
        raise ValueError(
            f"max_iter: found {max_iter}, for {products:.3g} Hessian-vector products (T = {parameters.T:.3g}); "
            f"expected at most {MAX_PRODUCTS:.0g} of them: fewer iterations, or a smaller kappa (narrower bounds of x)"
        )
    alpha = parameters.alpha * real("step_factor", step_factor, positive=True)
    begun = _start(problem, view, x, c, start, random_state)
    tracker = Lyapunov(problem, c, phi_star, step_size=alpha, start=(x, begun.y, begun.u))
    result = minimize(
        problem,
        x,
        y0=begun.y,
        u0=begun.u,
        method=dataclasses.replace(parameters.solver(), step_size=alpha),
        tol=0.0,
        max_iter=max_iter,
        callback=tracker,
    )
    checks = tracker.summary()
    known = phi_star is not None and result.nit > 0
    return Certificate(
        problem=type(problem).__name__,
        parameters=parameters,
        step_factor=step_factor,
        start=begun.name,
        inside=begun.inside,
        kind=c.kind,
        nit=result.nit,
        status=result.status,
        message=result.message,
        checks=checks,
        rate_bound=2 * checks.V_first / (alpha * result.nit) if known else math.nan,
        counts=begun.counts + result.counts,
        seconds=result.seconds,
    )


class _Begun(NamedTuple):
    """Where a run starts, and what that took."""

    name: str
    y: Array
    u: Array
    inside: bool
    counts: OracleCounts


def _start(
    problem: BilevelProblem, view: CountedProblem, x: Array, constants: ProblemConstants, start: Any, random_state: Any
) -> _Begun:
    """Return the start of a run, of which only the routine counts as part of the method."""
    if isinstance(start, str) and choice("start", start, STARTS) == "box1":
        found = box1(problem, x, constants)
        return _Begun(start, found.y, found.u, found.membership.inside, found.counts)
    if isinstance(start, str):
        name, (y, u), inside = start, *_edge(problem, view, x, constants, random_state)
        return _Begun(name, y, u, inside, OracleCounts())
    try:
        y0, u0 = start
    except (TypeError, ValueError):
        raise TypeError(
            f"start: found {type(start).__name__}; expected {' or '.join(map(repr, STARTS))}, or a pair (y0, u0)"
        ) from None
    y, u = view.lower_point("y0", y0), view.lower_point("u0", u0)
    return _Begun("given", y, u, in_box1(problem, x, y, u, constants).inside, OracleCounts())


def _edge(
    problem: BilevelProblem, view: CountedProblem, x: Array, constants: ProblemConstants, random_state: Any
) -> tuple[tuple[Array, Array], bool]:
    """Return a point near the border of BOX 1, and whether the distances from the solution say so."""
    random = np.random.default_rng(integer_state(random_state))
    solution, radii = exact(problem, constants, x, None), boxes.box1(constants)
    parts, inside = [], True
    named = zip((solution.y, solution.u), (solution.y_error, solution.u_error), radii, strict=True)
    for centre, error, radius in named:
        direction = random.standard_normal(view.dim_y)
        part = (centre + EDGE * radius / norm(direction) * direction).astype(view.dtype)
        parts.append(part)
        inside = inside and norm(part - centre) + error <= radius
    return (parts[0], parts[1]), inside

"""Constants from sampled derivatives, and a search for points where claimed constants do not hold."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._display import lines
from nbo._validation import integer, real, validate_random_state
from nbo.linear_solvers import CurvatureError
from nbo.oracles import CountedProblem, NonFiniteOracleError
from nbo.problem import BilevelProblem, FiniteSumProblem
from nbo.theory._derivatives import Place
from nbo.theory._noise import error_ratio
from nbo.theory._search import DEVIATIONS, SUPREMA, Search, region, tube
from nbo.theory.constants import NoConstantsError, ProblemConstants

Array = npt.NDArray[Any]

#: Claims are computed in floating point too, from sums and matrix norms whose relative errors are far below this.
TOLERANCE = 1e-6


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class ConstantsReport:
    """What `check_constants` found; its text is a table.

    Attributes
    ----------
    claimed : mapping
        Constant -> the value that was checked.
    sampled : mapping
        Constant -> the largest value found, of mu the smallest, less what rounding or the drawing of samples may have
        added.
    points : mapping
        Constant -> the pair x, (m,), and y, (n,), where that was.
    violations : tuple of str
        The constants that do not hold there.
    """

    claimed: Mapping[str, float]
    sampled: Mapping[str, float]
    points: Mapping[str, tuple[Array, Array]]
    violations: tuple[str, ...]

    @property
    def ratios(self) -> dict[str, float]:
        """Constant -> claimed/sampled, of mu sampled/claimed; at least 1 where the claim holds."""
        return {
            name: _ratio(self.sampled[name], claim) if name == "mu" else _ratio(claim, self.sampled[name])
            for name, claim in self.claimed.items()
        }

    @property
    def ok(self) -> bool:
        """Whether no violation was found."""
        return not self.violations

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        rows = {
            name: f"claimed {claim:.6g}, sampled {self.sampled[name]:.6g}, ratio {self.ratios[name]:.4g}"
            + (" VIOLATED" if name in self.violations else "")
            for name, claim in self.claimed.items()
        }
        return lines(rows | {"violations": ", ".join(self.violations) or "none found"})


def estimate_constants(
    problem: BilevelProblem,
    x: npt.ArrayLike,
    *,
    radius: float = 1.0,
    bounds: Any = None,
    y0: npt.ArrayLike | None = None,
    n_points: int = 20,
    n_repeats: int = 20,
    random_state: Any = None,
) -> ProblemConstants:
    """Estimate the constants of a problem from its derivatives at sampled points.

    The points are those of a box of x and of the tube |y - y*(x)| <= mu/(2 L_g2), whose radius comes from estimates
    at points y*(x) and is at most 1 + |y*|. A third of them are y*(x) for random points and corners, a third lie
    elsewhere in the tube, and a third are perturbations of the worst ones.

    Parameters
    ----------
    problem : BilevelProblem
        The problem.
    x : array_like
        A point of the region, (m,), inside the problem's bounds.
    radius : float
        Half the side of the box around x, in its units; the problem's bounds cut it.
    bounds : pair or scipy.optimize.Bounds, optional
        A box for x instead of that one.
    y0 : array_like, optional
        Where y*(x) is looked for first, (n,); zeros by default.
    n_points : int
        Points (x, y), at least 6. Each takes the matrices H and J up to 37 times up to n = 300, and beyond up to 900
        products with H, 800 with J and 1600 gradients in y.
    n_repeats : int
        Short runs of ``nsbo-sgd`` behind `r` if the problem is a `FiniteSumProblem`; 0 leaves `r` at its default.
    random_state : None, int or numpy.random.Generator
        An integer gives the same estimate again.

    Returns
    -------
    ProblemConstants
        With ``kind="estimate"``, and without noise constants unless the problem is a `FiniteSumProblem`.

    Raises
    ------
    NoConstantsError
        If H is not positive definite at a point.
    TypeError, ValueError
        For bad arguments, or an oracle that is not finite at a point.

    See Also
    --------
    check_constants : Looks for points where constants do not hold.

    Notes
    -----
    These are estimates from inside, not bounds: every sampled value is at most the constant (of mu at least), and the
    worst point is seldom among the samples. With step sizes from them, a factor of two on every constant (half of mu)
    is a sensible margin; where the region has many more dimensions than `n_points`, compare several seeds first.

    L_g1 is the largest of |nabla_22^2 g| and |nabla_12^2 g|, in operator norm as L_g2; the deviations sigma_g2 and
    sigma_g12 of single samples are in Frobenius norm (errata A8, A9). Lipschitz constants come from
    differences over short moves: of x, of y along eigenvectors of H, of both, and along the directions in which
    second derivatives change most. L_f0 and C_f0 are taken at y*(x) alone where L_g2 is so small that the tube is cut
    at 1 + |y*|. Samples of a finite sum are compared one by one up to 300, else in 150 drawn pairs, and second
    derivatives of n > 64 by random directions. `r` is the largest E|y - y*|^2/(E|y - y*|)^2 over iterations 4, 16 and
    64, or 2 where there are no errors.

    Examples
    --------
    >>> import nbo, numpy as np
    >>> problem = nbo.problems.Quadratic.family(n=4, m=2, kappa=10)
    >>> found = nbo.theory.estimate_constants(problem, np.zeros(2), random_state=0)
    >>> print(f"{found.mu:.3f} {found.L_g1:.3f} {found.L_g2:.3f} {found.kind}")
    0.100 1.000 0.000 estimate
    """
    view, rng = _prepared(problem, n_points, random_state)
    at, size = view.upper_point("x", x), real("radius", radius, positive=True)
    start = view.lower_start("y0", y0)
    integer("n_repeats", n_repeats)
    where = region(view, bounds, at, size, whole=False)
    with _named_failures():
        search = Search(view, where, rng, start)
        points = where.points(at, n_points // 3, rng)
        search.at_solutions(points, None)
        _require_convex(search)
        mu, L_g1, L_g2 = (search.worst[name].value for name in ("mu", "L_g1", "L_g2"))
        within = tube(mu, L_g1, L_g2, search.solution(at)[0])
        search.elsewhere(points, within)
        search.refine(n_points // 3, within)
        search.noise(points)
        _require_convex(search)
        found = _constants(search)
        if n_repeats and isinstance(problem, FiniteSumProblem):
            y, _ = search.solution(at)
            ratio = error_ratio(problem, Place(at, y), found, n_repeats, rng)
            found = found if ratio is None else dataclasses.replace(found, r=ratio)
    return found


def check_constants(
    problem: BilevelProblem,
    constants: ProblemConstants,
    *,
    bounds: Any = None,
    x: npt.ArrayLike | None = None,
    radius: float = 1.0,
    n_points: int = 60,
    random_state: Any = None,
) -> ConstantsReport:
    """Search for points where constants of a problem do not hold.

    The points are those of a box of x and of the tube |y - y*(x)| <= mu/(2 L_g2) of the claim, up to 1 + |y*|: a
    third are y*(x) for random points and corners, a third lie near the border of the tube, and a third are
    perturbations of the worst ones.

    Parameters
    ----------
    problem : BilevelProblem
        The problem.
    constants : ProblemConstants
        The claim.
    bounds : pair or scipy.optimize.Bounds, optional
        The box of x for which it is made; the problem's bounds by default.
    x : array_like, optional
        A point of the box, (m,), which is looked at first; needed where the box is infinite.
    radius : float
        Infinite sides of the box are replaced by those at this distance of x.
    n_points : int
        Points (x, y), at least 6; see `estimate_constants` for their cost.
    random_state : None, int or numpy.random.Generator
        An integer gives the same search again.

    Returns
    -------
    ConstantsReport
        The worst value of every constant, with its point. Noise constants are looked at where they are given and the
        problem is a `FiniteSumProblem`, at the first few points alone; `r` is not.

    Raises
    ------
    NoConstantsError
        If g is found not to be convex where y*(x) is looked for.
    TypeError, ValueError
        For bad arguments, or an oracle that is not finite at a point.

    See Also
    --------
    estimate_constants : Constants for a problem that has none.

    Notes
    -----
    A violation is a proof, within rounding, that the claim is wrong; that there is none proves nothing. The relative
    tolerance is 1e-6, after some rounding units of the type of y were taken off every sampled value, and four
    standard errors off deviations of drawn samples. L_f0 and C_f0 are looked at at y*(x) alone where the tube is cut,
    as they are used there alone if L_g2 = 0.

    Examples
    --------
    >>> import dataclasses, nbo
    >>> problem = nbo.problems.Quadratic.family(n=4, m=2, kappa=10)
    >>> box = (-1, 1)
    >>> claim = problem.constants(bounds=box)
    >>> nbo.theory.check_constants(problem, claim, bounds=box, random_state=0).ok
    True
    >>> wrong = dataclasses.replace(claim, mu=2 * claim.mu)
    >>> nbo.theory.check_constants(problem, wrong, bounds=box, random_state=0).violations
    ('mu',)
    """
    view, rng = _prepared(problem, n_points, random_state)
    if not isinstance(constants, ProblemConstants):
        raise TypeError(f"constants: found {type(constants).__name__}; expected a ProblemConstants")
    at = None if x is None else view.upper_point("x", x)
    where = region(view, bounds, at, real("radius", radius, positive=True), whole=True)
    with _named_failures():
        search = Search(view, where, rng)
        _run(search, at, constants, n_points // 3)
    return _report(search, constants)


def _run(search: Search, at: Array | None, constants: ProblemConstants, count: int) -> None:
    """Search the tube of the constants."""
    points = search.where.points(at, count, search.rng)
    y, _ = search.solution(points[0])
    within = tube(constants.mu, constants.L_g1, constants.L_g2, y)
    search.at_solutions(points, within)
    search.elsewhere(points, within)
    search.refine(count, within)
    if any(getattr(constants, name) is not None for name in DEVIATIONS):
        search.noise(points)


def _prepared(problem: BilevelProblem, n_points: int, random_state: Any) -> tuple[CountedProblem, np.random.Generator]:
    view = CountedProblem(problem)
    integer("n_points", n_points, minimum=6)
    validate_random_state(random_state)
    return view, np.random.default_rng(random_state)


@contextlib.contextmanager
def _named_failures() -> Iterator[None]:
    """Say what it means that an oracle fails at a sampled point."""
    with np.errstate(all="ignore"):
        try:
            yield
        except CurvatureError as error:
            raise NoConstantsError(f"problem: {error}; it has no constants in this region") from error
        except NonFiniteOracleError as error:
            raise ValueError(
                f"problem: {error} at a sampled point; expected finite numbers, or a smaller box"
            ) from error


def _require_convex(search: Search) -> None:
    found = search.worst["mu"]
    if found.value <= 0:
        raise NoConstantsError(
            f"problem: the Hessian of g in y has the eigenvalue {found.value:.3g} at a sampled point; it has no "
            "constants in this region, where g must be strongly convex in y"
        )


def _constants(search: Search) -> ProblemConstants:
    values = dict.fromkeys(SUPREMA, 0.0) | {name: found.value for name, found in search.worst.items()}
    values["L_g1"] = max(values["L_g1"], values["mu"])  # equal ones, before rounding was taken off
    return ProblemConstants(**values, kind="estimate")


def _report(search: Search, constants: ProblemConstants) -> ConstantsReport:
    worst = dict(search.worst)
    if constants.sigma_g12 is None and "sigma_g12" in worst:  # sigma_g2 is then the claim for both
        worst["sigma_g2"] = max(worst["sigma_g2"], worst.pop("sigma_g12"), key=lambda found: found.badness("sigma_g2"))
    claimed = {name: getattr(constants, name) for name in (*SUPREMA, *DEVIATIONS) if name in worst}
    claimed = {name: float(value) for name, value in claimed.items() if value is not None}
    sampled = {name: worst[name].value if name == "mu" else max(worst[name].badness(name), 0.0) for name in claimed}
    violations = tuple(
        name
        for name, claim in claimed.items()
        if (claim > sampled[name] * (1 + TOLERANCE) if name == "mu" else sampled[name] > claim * (1 + TOLERANCE))
    )
    return ConstantsReport(claimed, sampled, {name: (*worst[name].place,) for name in claimed}, violations)


def _ratio(part: float, of: float) -> float:
    return part / of if of else np.inf

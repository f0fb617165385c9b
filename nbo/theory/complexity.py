"""How costs grow with the condition number: the paper's Table 1, measured."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._validation import choice, flag, integer, real, vector
from nbo.initialization import box1
from nbo.oracles import OracleCounts
from nbo.problem import BilevelProblem
from nbo.problems import NonQuadratic, Quadratic
from nbo.theory._outputs import Report, columns
from nbo.theory.constants import constants_of
from nbo.theory.exponents import Exponent, fitted_exponent
from nbo.theory.measuring import Callback, gradient_square, run_to_stationarity
from nbo.theory.parameters import DeterministicParameters, theoretical_parameters

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = npt.NDArray[Any]

#: kappa -> a problem with `constants()`, and x0.
Family = Callable[[float], tuple[BilevelProblem, npt.ArrayLike]]

#: Methods with explicit constants that run here.
METHODS = ("nbo-gd", "nbo-cg", "amigo-gd", "amigo-cg", "aid-bio")

#: What exponents are fitted to.
QUANTITIES = ("K", "alpha", "gradients", "products")


class Quoted(NamedTuple):
    """A row of the paper's Table 1.

    Attributes
    ----------
    rate, gradients, products : str
        Orders of the iterations, gradients and Hessian-vector products.
    """

    rate: str
    gradients: str
    products: str


_LOG = "O(kappa^4 log kappa eps^-1)"
_KRYLOV = "O(kappa^3.5 log kappa eps^-1)"

#: The paper's Table 1, by method.
PAPER = {
    "nbo-gd": Quoted("O(kappa^3 eps^-1)", "O(kappa^3 eps^-1)", "O(kappa^4 eps^-1)"),
    "nbo-cg": Quoted("O(kappa^3 eps^-1)", "O(kappa^3 eps^-1)", _KRYLOV),
    "amigo-gd": Quoted("O(kappa^3 eps^-1)", _LOG, _LOG),
    "amigo-cg": Quoted("O(kappa^3 eps^-1)", _LOG, _KRYLOV),
    "aid-bio": Quoted("O(kappa^3 eps^-1)", _LOG, _KRYLOV),
    "no-loop-aid": Quoted("O(kappa^6 eps^-1)", "O(kappa^6 eps^-1)", "O(kappa^6 eps^-1)"),
    "f2sa": Quoted("O(kappa^3 eps^-1)", "O(kappa^4 eps^-1 log(kappa/eps))", "/"),
}

#: Methods of that table that are not run.
UNMEASURED = ("no-loop-aid", "f2sa")
_NOT_RUN = "quoted, not run: no explicit constants"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComplexityRow:
    """One run of a `ComplexityStudy`.

    Attributes
    ----------
    method : str
        Its name for `nbo.minimize`.
    kappa : float
        The condition number.
    alpha, gamma : float
        Its steps.
    T, D, N : int or None
        Its numbers of inner steps; see `nbo.theory.DeterministicParameters`.
    N_0, Q_0 : int
        Steps of the initialisation on y and u, with the few that its certificate may take beyond the formula.
    K : int
        Iterations until |grad Phi(x)|^2 <= eps.
    square : float
        |grad Phi(x)|^2 then.
    counts : OracleCounts
        The cost of K iterations with these numbers of steps, and of the initialisation.
    products_made : int
        Hessian-vector products of the iterations. Conjugate gradients end after about n steps, so that where n is
        small they make fewer than `counts` has.
    seconds : float
        Time of the iterations, without compilation.
    """

    method: str
    kappa: float
    alpha: float
    gamma: float
    T: int | None
    D: int | None
    N: int | None
    N_0: int
    Q_0: int
    K: int
    square: float
    counts: OracleCounts
    products_made: int
    seconds: float

    @property
    def gradients(self) -> int:
        """Gradients of g in y, and joint gradients of f."""
        return self.counts.lower_grad_y + self.counts.upper_grad

    @property
    def products(self) -> int:
        """Hessian-vector products."""
        return self.counts.lower_hvp


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class ComplexityStudy(Report):
    """Costs of methods over condition numbers; it prints itself as a table beside the paper's Table 1.

    Attributes
    ----------
    family : str
        What the problems are.
    eps : float
        The bound of |grad Phi(x)|^2.
    tight : bool
        Whether the numbers of inner steps are the smaller ones that are proven too.
    rows : tuple of ComplexityRow
        The runs, by method.
    interrupted : bool
        Whether Ctrl-C ended the study; it has the methods with two runs or more then.
    """

    family: str
    eps: float
    tight: bool
    rows: tuple[ComplexityRow, ...]
    interrupted: bool = False

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in order."""
        return tuple(dict.fromkeys(row.method for row in self.rows))

    @functools.cached_property
    def exponents(self) -> dict[str, dict[str, Exponent]]:
        """Method -> quantity -> the fitted power of kappa; quantities are K, alpha, gradients and products."""
        found = {}
        for method in self.methods:
            rows = [row for row in self.rows if row.method == method]
            kappas = [row.kappa for row in rows]
            found[method] = {q: fitted_exponent(kappas, [getattr(row, q) for row in rows]) for q in QUANTITIES}
        return found

    def table(self) -> str:
        """Return the fitted exponents beside the paper's Table 1.

        Returns
        -------
        str
            A line a method; the last lines are quoted.
        """
        head = ("method", "K", "alpha", "gradients", "Hv products", "paper: rate", "gradients", "Hv products")
        measured = [
            (method, *(self.exponents[method][quantity] for quantity in QUANTITIES), *PAPER[method])
            for method in self.methods
        ]
        quoted = [(method, *["-"] * len(QUANTITIES), *PAPER[method]) for method in UNMEASURED]
        if "amigo-cg" in self.methods and "aid-bio" not in self.methods:
            measured.append(("aid-bio", *["as amigo-cg"] * len(QUANTITIES), *PAPER["aid-bio"]))
        return columns([head, *measured, *quoted], left=len(head))

    def runs(self) -> str:
        """Return the runs.

        Returns
        -------
        str
            A line a run.
        """
        head = ("method", "kappa", "alpha", "inner steps", "N_0", "Q_0", "K", "gradients", "Hv products", "made")
        return columns([head, *map(_cells, self.rows)])

    def __str__(self) -> str:
        steps = "the smaller inner steps of theory" if self.tight else "the steps of theory"
        return "\n".join(
            [
                f"{self.family}: iterations K until |grad Phi|^2 <= {self.eps:g} and their cost, with {steps}",
                "",
                self.runs(),
                "",
                "gradients: of g in y and of f (joint). Hv products: by the number of steps; made: by the run, without",
                "the start (conjugate gradients end after about n steps, and n is small here).",
                "",
                "fitted powers of kappa [95 % confidence], and the orders in the paper's Table 1:",
                "",
                self.table(),
                "",
                *(["interrupted: runs are missing.", ""] if self.interrupted else []),
                f"{', '.join(UNMEASURED)}: {_NOT_RUN}.",
            ]
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything in JSON's types.

        Returns
        -------
        dict
            With ``rows``, ``exponents`` and ``paper``.
        """
        rows = [
            {**vars(row), "counts": row.counts.as_dict(), "gradients": row.gradients, "products": row.products}
            for row in self.rows
        ]
        fits = {m: {q: e._asdict() for q, e in found.items()} for m, found in self.exponents.items()}
        shown = (*self.methods, *UNMEASURED)
        return {
            "study": "table1",
            "family": self.family,
            "eps": self.eps,
            "tight": self.tight,
            "interrupted": self.interrupted,
            "rows": rows,
            "exponents": fits,
            "paper": {m: {**PAPER[m]._asdict(), "note": _NOT_RUN if m in UNMEASURED else ""} for m in shown},
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw gradients (solid) and Hessian-vector products (dashed) over kappa, both axes logarithmic.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure if omitted.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ImportError
            If matplotlib is missing.
        """
        from nbo.plotting import costs

        return costs(self, ax)


def _cells(row: ComplexityRow) -> tuple[str, ...]:
    steps = " ".join(f"{name}={getattr(row, name)}" for name in "TDN" if getattr(row, name) is not None)
    large = (f"{n:,}" for n in (row.K, row.gradients, row.products, row.products_made))
    return (row.method, f"{row.kappa:g}", f"{row.alpha:.3g}", steps, str(row.N_0), str(row.Q_0), *large)


def _non_quadratic(kappa: float) -> tuple[BilevelProblem, npt.ArrayLike]:
    return NonQuadratic.family(kappa), (0.5, 0.5)


def _quadratic(kappa: float) -> tuple[BilevelProblem, npt.ArrayLike]:
    return Quadratic.family(2, 2, kappa), (0.5, 0.5)


#: Families by name.
FAMILIES: dict[str, Family] = {"non-quadratic": _non_quadratic, "quadratic": _quadratic}


def complexity_study(
    family: str | Family = "non-quadratic",
    kappas: Sequence[float] = (4, 8, 16, 32),
    eps: float = 1e-4,
    methods: Sequence[str] = ("nbo-gd", "nbo-cg", "amigo-gd", "amigo-cg"),
    *,
    tight: bool = False,
    max_iter: int = 10**9,
    progress: Callback | None = None,
) -> ComplexityStudy:
    """Measure how the costs of methods with theoretical parameters grow with the condition number.

    Each run starts in BOX 1, led there from zero, and ends at the first x with |grad Phi(x)|^2 <= eps. Its cost is K
    times that of an iteration and that of the start. A power of kappa is fitted to it by least squares of logarithms.

    Parameters
    ----------
    family : str or callable
        ``"non-quadratic"``, the members of `nbo.problems.NonQuadratic.family` from x0 = (0.5, 0.5), which run compiled;
        ``"quadratic"``, those of `nbo.problems.Quadratic.family` with n = m = 2 from there; or a function kappa ->
        (problem, x0), the problem with `constants`. The last two run by `nbo.minimize`, some 1,000 to 2,000 iterations
        a second, and without `grad_phi` less, as Phi is then solved for at each: choose `eps` and `kappas` for some
        10,000 iterations (`nbo.theory.DeterministicParameters.K` is a bound, often 10,000 times too large).
    kappas : sequence of float
        Condition numbers, at least two different ones.
    eps : float
        The bound of |grad Phi(x)|^2, in (f/l)^2.
    methods : sequence of str
        Of ``"nbo-gd"``, ``"nbo-cg"``, ``"amigo-gd"``, ``"amigo-cg"``, ``"aid-bio"``, whose iteration is that of
        ``"amigo-cg"``.
    tight : bool
        Take the smaller numbers of inner steps that are proven too; without the logarithm that the published analysis
        of AmIGO has (errata C3).
    max_iter : int
        The most iterations of a run.
    progress : callable, optional
        Called with a stage, its iterations and |grad Phi|^2 now and then.

    Returns
    -------
    ComplexityStudy
        The runs and the exponents; print it. After Ctrl-C it has the methods with at least two runs, if there are any.

    Raises
    ------
    NoConstantsError
        If a problem has no constants of use.
    TypeError, ValueError
        For a bad argument; also if `max_iter` does not suffice.

    Examples
    --------
    >>> import nbo
    >>> study = nbo.theory.complexity_study(kappas=(2, 4), eps=1e-3, methods=["nbo-gd"])
    >>> print([row.K for row in study.rows])
    [1678, 11634]
    """
    kappas = condition_numbers(kappas)
    names = _methods(methods)
    eps, max_iter = real("eps", eps, positive=True), integer("max_iter", max_iter)
    tight = flag("tight", tight)
    if progress is not None and not callable(progress):
        raise TypeError(f"progress: found {type(progress).__name__}; expected a callable or None")
    problems = {kappa: _member(family, kappa) for kappa in kappas}
    for kappa, (problem, x0) in problems.items():
        square = gradient_square(problem, x0)
        if square <= eps:
            raise ValueError(
                f"eps: found {eps:g}; expected less than |grad Phi(x0)|^2, which is {square:.3g} at kappa = {kappa:g}"
            )
    rows: list[ComplexityRow] = []
    interrupted = False
    try:
        for method in names:
            for kappa, (problem, x0) in problems.items():
                rows.append(_row(method, kappa, problem, x0, eps, tight, max_iter, progress))
    except KeyboardInterrupt:
        done = Counter(row.method for row in rows)
        rows, interrupted = [row for row in rows if done[row.method] > 1], True
        if not rows:
            raise
    return ComplexityStudy(family=_name(family), eps=eps, tight=tight, rows=tuple(rows), interrupted=interrupted)


def condition_numbers(kappas: Sequence[float]) -> tuple[float, ...]:
    """Return condition numbers to which a power can be fitted.

    Parameters
    ----------
    kappas : sequence of float
        At least two different ones.

    Returns
    -------
    tuple of float
        Each once, in ascending order.
    """
    if isinstance(kappas, str) or not isinstance(kappas, (Sequence, np.ndarray)):
        raise TypeError(f"kappas: found {type(kappas).__name__}; expected a sequence of numbers")
    found = tuple(sorted({real(f"kappas[{i}]", kappa, minimum=1.0) for i, kappa in enumerate(kappas)}))
    if len(found) < 2:
        raise ValueError(f"kappas: found {list(kappas)}; expected at least two different numbers")
    return found


def _member(family: str | Family, kappa: float) -> tuple[BilevelProblem, Array]:
    """Return a problem, and x0."""
    make = family if callable(family) else FAMILIES[choice("family", family, tuple(FAMILIES))]
    found = make(kappa)
    if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[0], BilevelProblem):
        raise TypeError(f"family: returned {type(found).__name__}; expected a pair of a BilevelProblem and x0")
    return found[0], vector("x0", found[1], found[0].dim_x, meaning="dim_x")


def _name(family: str | Family) -> str:
    if isinstance(family, str):
        return f"{family} family"
    return f"family {getattr(family, '__name__', type(family).__name__)}"


def _methods(methods: Sequence[str]) -> tuple[str, ...]:
    if isinstance(methods, str) or not isinstance(methods, Sequence) or not methods:
        raise TypeError(f"methods: found {methods!r}; expected a sequence of names")
    return tuple(dict.fromkeys(choice(f"methods[{i}]", method, METHODS) for i, method in enumerate(methods)))


def _row(
    method: str,
    kappa: float,
    problem: BilevelProblem,
    x0: Array,
    eps: float,
    tight: bool,
    max_iter: int,
    progress: Callback | None,
) -> ComplexityRow:
    """Run one method on one problem."""
    parameters = theoretical_parameters(constants_of(problem), method, tight=tight)
    assert isinstance(parameters, DeterministicParameters)
    start = box1(problem, x0, parameters.constants)

    def tell(iterations: int, square: float) -> None:
        if progress is not None:
            progress(f"{method}, kappa = {kappa:g}", iterations, square)

    run = run_to_stationarity(problem, parameters, x0, start, eps=eps, max_iter=max_iter, callback=tell)
    p = parameters
    return ComplexityRow(
        method=method,
        kappa=kappa,
        alpha=p.alpha,
        gamma=p.gamma,
        T=p.T,
        D=p.D,
        N=p.N,
        N_0=start.N_0,
        Q_0=start.n_linear_steps,
        K=run.K,
        square=run.square,
        counts=p.counts(run.K) + start.counts,
        products_made=run.products,
        seconds=run.seconds,
    )

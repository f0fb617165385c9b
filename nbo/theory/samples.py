"""How the samples of NSBO-SGD grow with the condition number: the paper's Table 2, evaluated."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from nbo._validation import real
from nbo.oracles import OracleCounts
from nbo.problems import NonQuadratic
from nbo.theory._outputs import Report, columns
from nbo.theory.complexity import condition_numbers
from nbo.theory.exponents import Exponent, fitted_exponent
from nbo.theory.parameters import StochasticParameters, theoretical_parameters

#: Oracle -> what the table calls its samples.
KINDS = {
    "lower_grad_y": "gradients of G",
    "lower_hvp": "Hv products of G",
    "upper_grad": "gradients of F",
    "lower_jvp": "Jv products of G",
}

#: Oracle -> the order in the paper's Theorem 3.7.
ORDERS = {
    "lower_grad_y": "O(kappa^9 eps^-2)",
    "lower_hvp": "O(kappa^7 eps^-2)",
    "upper_grad": "O(kappa^5 eps^-2)",
    "lower_jvp": "O(kappa^5 eps^-2)",
}

#: The paper's Table 2, by method; p(kappa) is a power that is not known.
PAPER = {
    "nsbo-sgd": "O(kappa^9 eps^-2)",
    "alset": "O(kappa^9 eps^-2 log(kappa/eps))",
    "soba": "O(p(kappa) eps^-2)",
    "amigo-sgd": "O(kappa^9 log kappa eps^-2)",
    "f2sa": "O(kappa^11 eps^-3 log(kappa/eps))",
    "fsla": "O(p(kappa) eps^-2)",
}

#: What eps is multiplied by for its exponent.
_FINER = (1.0, 0.1, 0.01)

#: Where every problem starts.
_START = (0.5, 0.5)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampleRow:
    """One evaluation of the theory in a `SampleComplexity`.

    Attributes
    ----------
    kappa, eps : float
        The condition number, and the bound of E|grad Phi(x)|^2.
    gap : float
        The bound of Phi(x0) - Phi*.
    alpha : float
        The step on x.
    T, K : int
        Inner steps (T + 1 of them), and iterations.
    batch_sizes : dict
        Role -> samples.
    samples : OracleCounts
        Component samples of K iterations, without those of the initialisation.
    """

    kappa: float
    eps: float
    gap: float
    alpha: float
    T: int
    K: int
    batch_sizes: dict[str, int]
    samples: OracleCounts


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class SampleComplexity(Report):
    """Samples by theory over condition numbers; it prints itself as a table beside the paper's Table 2.

    Attributes
    ----------
    rows : tuple of SampleRow
        Over kappa, with the gap of each problem.
    unit_gap_rows : tuple of SampleRow
        The same with a gap of 1, a constant as in the paper's orders.
    eps_rows : tuple of SampleRow
        Over eps, at the largest kappa.
    """

    rows: tuple[SampleRow, ...]
    unit_gap_rows: tuple[SampleRow, ...]
    eps_rows: tuple[SampleRow, ...]

    @property
    def exponents(self) -> dict[str, Exponent]:
        """Oracle -> the fitted power of kappa."""
        return _fits("kappa", self.rows)

    @property
    def unit_gap_exponents(self) -> dict[str, Exponent]:
        """Oracle -> the fitted power of kappa with a gap of 1."""
        return _fits("kappa", self.unit_gap_rows)

    @property
    def eps_exponents(self) -> dict[str, Exponent]:
        """Oracle -> the fitted power of eps."""
        return _fits("eps", self.eps_rows)

    @property
    def gap_exponent(self) -> Exponent:
        """The fitted power of kappa in the gap."""
        return fitted_exponent([row.kappa for row in self.rows], [row.gap for row in self.rows])

    def table(self) -> str:
        """Return the fitted exponents beside the orders in the paper.

        Returns
        -------
        str
            A line a kind of sample.
        """
        own, unit, eps = self.exponents, self.unit_gap_exponents, self.eps_exponents
        head = ("samples", "power of kappa", "with gap 1", "power of eps", "paper: order")
        return columns([head, *((name, own[k], unit[k], eps[k], ORDERS[k]) for k, name in KINDS.items())], left=5)

    def evaluations(self) -> str:
        """Return the samples.

        Returns
        -------
        str
            A line a condition number.
        """
        head = ("kappa", "gap", "alpha", "T", "K", *KINDS.values())
        lines = [
            (f"{r.kappa:g}", f"{r.gap:.3g}", f"{r.alpha:.3g}", r.T, *(f"{n:.3g}" for n in (r.K, *_numbers(r).values())))
            for r in self.rows
        ]
        return columns([head, *lines], left=0)

    def __str__(self) -> str:
        return "\n".join(
            [
                f"non-quadratic family: samples that theory wants for E|grad Phi|^2 <= {self.rows[0].eps:g}",
                "by nsbo-sgd, evaluated and not run; sigma = 1, r = 2, gap = Phi(x0), without the initialisation",
                "",
                self.evaluations(),
                "",
                "fitted powers [95 % confidence], and the orders in the paper's Theorem 3.7:",
                "",
                self.table(),
                "",
                f"the gap itself grows, by the power {self.gap_exponent}; the paper's orders take it as a constant",
                "",
                "the paper's Table 2, quoted:",
                "",
                columns(list(PAPER.items()), left=2),
            ]
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything in JSON's types.

        Returns
        -------
        dict
            With the rows, the exponents and ``paper``.
        """
        names = ("rows", "unit_gap_rows", "eps_rows")
        fits = ("exponents", "unit_gap_exponents", "eps_exponents")
        return {
            "study": "table2",
            "family": "non-quadratic family",
            **{name: [dataclasses.asdict(row) for row in getattr(self, name)] for name in names},
            **{name: {kind: fit._asdict() for kind, fit in getattr(self, name).items()} for name in fits},
            "gap_exponent": self.gap_exponent._asdict(),
            "orders": ORDERS,
            "paper": PAPER,
        }


def sample_complexity(kappas: Sequence[float] = (4, 8, 16, 32), eps: float = 1e-4) -> SampleComplexity:
    """Evaluate how many samples the theory wants for E|grad Phi(x)|^2 <= eps, and fit powers of kappa and eps.

    The constants are those of `nbo.problems.NonQuadratic.family`, with deviations of single samples of 1 and r = 2.
    Phi* >= 0, so that Phi(x0) bounds the gap, with x0 = (0.5, 0.5). Nothing is run.

    Parameters
    ----------
    kappas : sequence of float
        Condition numbers, at least two different ones.
    eps : float
        The bound, in (f/l)^2; its power is fitted over eps, eps/10 and eps/100.

    Returns
    -------
    SampleComplexity
        The evaluations and the exponents; print it.

    Raises
    ------
    TypeError, ValueError
        For a bad argument.

    Examples
    --------
    >>> import nbo
    >>> study = nbo.theory.sample_complexity(kappas=(4, 8, 16))
    >>> print(f"{study.eps_exponents['lower_grad_y'].value:.3f}")
    -2.000
    """
    found = condition_numbers(kappas)
    eps = real("eps", eps, positive=True)
    return SampleComplexity(
        rows=tuple(_row(kappa, eps) for kappa in found),
        unit_gap_rows=tuple(_row(kappa, eps, 1.0) for kappa in found),
        eps_rows=tuple(_row(found[-1], eps * factor) for factor in _FINER),
    )


def _row(kappa: float, eps: float, gap: float | None = None) -> SampleRow:
    problem = NonQuadratic.family(kappa)
    constants = dataclasses.replace(problem.constants(), sigma_f1=1.0, sigma_g1=1.0, sigma_g2=1.0, r=2.0)
    gap = problem.phi(_START) if gap is None else gap
    p = theoretical_parameters(constants, "nsbo-sgd", eps=eps, gap=gap)
    assert isinstance(p, StochasticParameters) and p.K is not None
    return SampleRow(
        kappa=kappa, eps=eps, gap=gap, alpha=p.alpha, T=p.T, K=p.K, batch_sizes=p.batch_sizes, samples=p.samples(p.K)
    )


def _fits(variable: str, rows: Sequence[SampleRow]) -> dict[str, Exponent]:
    x = [getattr(row, variable) for row in rows]
    return {kind: fitted_exponent(x, [_numbers(row)[kind] for row in rows]) for kind in KINDS}


def _numbers(row: SampleRow) -> dict[str, int]:
    """Return the samples by oracle, in the order of the table."""
    counts = row.samples.as_dict()
    return {kind: counts[kind] for kind in KINDS}

"""The constants of the assumptions (paper, Assumption 3.1) and what is derived from them."""

from __future__ import annotations

import dataclasses
import inspect
import math
import numbers
from typing import Any

import numpy as np

from nbo._validation import choice
from nbo.problem import BilevelProblem, provides


class NoConstantsError(ValueError):
    """A problem class has no usable constants over the region asked for."""


def times(a: float, b: float) -> float:
    """Multiply with 0 inf = 0: a vanishing factor cancels an unbounded one (errata E9).

    Parameters
    ----------
    a, b : float
        The factors, at least 0; a zero `a` decides.

    Returns
    -------
    float
        Never NaN for numbers that are none.
    """
    return 0.0 if a == 0 else a * b


def over(a: float, b: float) -> float:
    """Divide with a/0 = inf: what vanishes restricts nothing (errata E9).

    Parameters
    ----------
    a, b : float
        At least 0.

    Returns
    -------
    float
        Never NaN for finite `a`.
    """
    return float("inf") if b == 0 else a / b


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProblemConstants:
    """Constants that bound a problem's derivatives over a region.

    Units, with x and y in a length l: mu, L_g1 in g/l^2, L_g2 in g/l^3, L_f0, C_f0 in f/l,
    L_f1 in f/l^2.

    Parameters
    ----------
    mu : float
        Strong convexity of g in y.
    L_g1 : float
        A bound of |nabla_22^2 g| and |nabla_12^2 g|, which is enough (errata A9).
    L_g2 : float
        A Lipschitz constant of nabla_22^2 g and of nabla_12^2 g, in operator norm.
    L_f0 : float
        A bound of |grad_2 f|; may be infinite where L_g2 = 0.
    L_f1 : float
        A Lipschitz constant of grad f.
    C_f0 : float
        A bound of |grad_1 f|; may be infinite where L_g2 = 0.
    sigma_f1, sigma_g1, sigma_g2 : float, optional
        Standard deviations of one sample's grad f, grad_2 g and second derivatives of g, in f/l, g/l and g/l^2.
    sigma_g12 : float, optional
        That of nabla_12^2 g alone, in g/l^2; `sigma_g2` bounds both where it is left out.
    r : float
        At least 1: E|y - y*|^2 <= r (E|y - y*|)^2 along a stochastic run (paper, Assumption 3.6). Normal errors have
        pi/2 in one dimension and less in more.
    kind : str
        ``"bound"`` or ``"estimate"``.

    Raises
    ------
    TypeError, ValueError
        For what is no number, or not in its range.
    """

    mu: float
    L_g1: float
    L_g2: float
    L_f0: float
    L_f1: float
    C_f0: float
    sigma_f1: float | None = None
    sigma_g1: float | None = None
    sigma_g2: float | None = None
    sigma_g12: float | None = None
    r: float = 2.0
    kind: str = "bound"

    def __post_init__(self) -> None:
        for name in (field.name for field in dataclasses.fields(self) if field.name != "kind"):
            value = getattr(self, name)
            self._check(name, value)
            object.__setattr__(self, name, None if value is None else float(value))
        if not (0 < self.mu <= self.L_g1 < np.inf):
            raise ValueError(f"mu, L_g1: found {self.mu:g}, {self.L_g1:g}; expected 0 < mu <= L_g1, finite")
        choice("kind", self.kind, ("bound", "estimate"))

    @staticmethod
    def _check(name: str, value: Any) -> None:
        if value is None and name.startswith("sigma"):
            return
        if isinstance(value, (bool, np.bool_, np.timedelta64)) or not isinstance(value, numbers.Real):
            raise TypeError(f"{name}: found {value!r} ({type(value).__name__}); expected a number")
        infinite = name in ("L_f0", "C_f0") and value == np.inf
        least = 1 if name == "r" else 0
        if not (float(value) >= least and (infinite or math.isfinite(value))):
            raise ValueError(f"{name}: found {value}; expected a number >= {least}")

    @property
    def q(self) -> float:
        """L_g1/mu, at least 1: the Lipschitz constant of y*."""
        return self.L_g1 / self.mu

    @property
    def kappa(self) -> float:
        """The condition number, equal to `q`."""
        return self.q

    @property
    def r_u(self) -> float:
        """L_f0/mu, a bound of |u*|, in f l/g."""
        return self.L_f0 / self.mu

    @property
    def L1(self) -> float:
        """L_f1 + L_g2 r_u, in f/l^2."""
        return self.L_f1 + times(self.L_g2, self.r_u)

    @property
    def Lu(self) -> float:
        """L1 (1 + q), in f/l^2; mu u* is Lipschitz with it."""
        return self.L1 * (1 + self.q)

    @property
    def L2(self) -> float:
        """C_f0 + L_g1 r_u, a bound of |grad Phi|, in f/l."""
        return self.C_f0 + self.L_g1 * self.r_u

    @property
    def L_Phi(self) -> float:
        """L1 (1 + q)^2, a Lipschitz constant of grad Phi, in f/l^2 (errata E6)."""
        return self.L1 * (1 + self.q) * (1 + self.q)

    @property
    def cross_noise(self) -> float | None:
        """`sigma_g12`, or `sigma_g2` where that is left out."""
        return self.sigma_g2 if self.sigma_g12 is None else self.sigma_g12

    def hypergradient_error(self, lower_grad_norm: float, adjoint_residual: float) -> float:
        """Bound |grad_1 f - J u - grad Phi| by computable residuals.

        It is (L1 (1 + q) |grad_2 g| + L_g1 |H u - grad_2 f|)/mu.

        Parameters
        ----------
        lower_grad_norm : float
            |grad_2 g(x, y)|.
        adjoint_residual : float
            |H u - grad_2 f(x, y)|.

        Returns
        -------
        float
            The bound.
        """
        return (times(lower_grad_norm, self.Lu) + self.L_g1 * adjoint_residual) / self.mu


def required(constants: Any) -> ProblemConstants:
    """Return an argument `constants`, which has to be a `ProblemConstants`.

    Parameters
    ----------
    constants : object
        What was given.

    Returns
    -------
    ProblemConstants
        The same.

    Raises
    ------
    TypeError
        For anything else.
    """
    if not isinstance(constants, ProblemConstants):
        raise TypeError(f"constants: found {type(constants).__name__}; expected a ProblemConstants")
    return constants


def constants_of(problem: BilevelProblem, bounds: Any = None, given: Any = None) -> ProblemConstants:
    """Return the constants that a user gave, or else those that the problem has of its own.

    Parameters
    ----------
    problem : BilevelProblem
        The problem.
    bounds : pair, optional
        The region of x, for problems whose `constants` take one; the problem's bounds by default.
    given : ProblemConstants, optional
        They take the place of the problem's own.

    Returns
    -------
    ProblemConstants
        `given`, or what the problem's `constants` returns.

    Raises
    ------
    NoConstantsError
        If it has none, or none over this region.
    TypeError
        If `given` or what it returns is something else.
    """
    if given is not None:
        return required(given)
    if not provides(problem, "constants"):
        raise NoConstantsError(
            f"constants: {type(problem).__name__} has none; expected a ProblemConstants, such as an estimate by "
            "nbo.theory.estimate_constants(problem, x)"
        )
    takes_bounds = "bounds" in inspect.signature(problem.constants).parameters
    try:
        found = problem.constants(bounds=bounds) if takes_bounds else problem.constants()
    except NotImplementedError as error:
        raise NoConstantsError(
            f"constants: {type(problem).__name__} does not implement them ({error}); expected a ProblemConstants"
        ) from error
    if not isinstance(found, ProblemConstants):
        raise TypeError(f"constants: returned {type(found).__name__}; expected a ProblemConstants")
    return found

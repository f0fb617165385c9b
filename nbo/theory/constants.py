"""The constants of the assumptions (paper, Assumption 3.1) and what is derived from them."""

from __future__ import annotations

import dataclasses

import numpy as np


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
        Standard deviations of one sample's grad f, grad_2 g and second derivatives of g.
    r : float
        The ratio of fourth to squared second moments of the noise in the analysis.
    kind : str
        ``"bound"`` or ``"estimate"``.
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
    r: float = 2.0
    kind: str = "bound"

    def __post_init__(self) -> None:
        if not (0 < self.mu <= self.L_g1 < np.inf):
            raise ValueError(f"mu, L_g1: found {self.mu:g}, {self.L_g1:g}; expected 0 < mu <= L_g1, finite")
        for name in ("L_g2", "L_f0", "L_f1", "C_f0"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}: found {getattr(self, name)}; expected a number >= 0")

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
        """L_f0/mu, a bound of |u*|."""
        return self.L_f0 / self.mu

    @property
    def L1(self) -> float:
        """L_f1 + L_g2 r_u."""
        return self.L_f1 + times(self.L_g2, self.r_u)

    @property
    def Lu(self) -> float:
        """L1 (1 + q); mu u* is Lipschitz with it."""
        return self.L1 * (1 + self.q)

    @property
    def L2(self) -> float:
        """C_f0 + L_g1 r_u, a bound of |grad Phi|."""
        return self.C_f0 + self.L_g1 * self.r_u

    @property
    def L_Phi(self) -> float:
        """L1 (1 + q)^2, a Lipschitz constant of grad Phi (errata E6)."""
        return self.L1 * (1 + self.q) ** 2

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

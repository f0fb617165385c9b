"""The formulas of the paper as they are printed, for comparison; `nbo.theory.parameters` has those that are right."""

from __future__ import annotations

import math

import numpy as np

from nbo.theory.constants import ProblemConstants

#: Which deviation sizes which batch: that of B1t is named after gradients (errata E5).
NOISE = {"B1t": "sigma_g1", "B1": "sigma_g2", "B2": "sigma_g1", "B3": "sigma_f1", "B4": "sigma_g2"}


def L_Phi(constants: ProblemConstants) -> float:
    """Return the printed Lipschitz constant of grad Phi, whose third term has L_f0^2 (errata E6).

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem.

    Returns
    -------
    float
        It is no multiple of the unit of f, and NaN where L_g2 = 0 and L_f0 = inf (errata E9).
    """
    c = constants
    return (
        c.L_f1
        + (2 * c.L_f1 * c.L_g1 + c.L_g2 * c.L_f0**2) / c.mu
        + (2 * c.L_g1 * c.L_f0 * c.L_g2 + c.L_g1**2 * c.L_f1) / c.mu**2
        + c.L_g2 * c.L_g1**2 * c.L_f0 / c.mu**3
    )


def beta_0(constants: ProblemConstants) -> float:
    """Return 1/L_f1, the printed step of the initialisation (errata E1).

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem.

    Returns
    -------
    float
        It knows nothing of g.
    """
    return float(np.float64(1) / constants.L_f1)


def alpha(constants: ProblemConstants) -> float:
    """Return the printed minimum of six terms in Theorem 3.2 (errata E6, E9, I2).

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem.

    Returns
    -------
    float
        NaN where L_g2 = 0 and L_f0 or C_f0 is infinite.
    """
    mu, L_g1, L_g2, L1, L2, Lu = _symbols(constants)
    with np.errstate(all="ignore"):
        terms = [
            mu**2 / (8 * L_g1 * L2 * L_g2),
            5 * mu * L1 / (8 * Lu * L2 * L_g2),
            mu / (4 * L_g1 * Lu),
            1 / (4 * L_Phi(constants)),
            L1 / (4 * Lu**2),
            mu**2 / (64 * L1 * L_g1**2),
        ]
        return float(np.min(terms))


def stochastic_alpha(constants: ProblemConstants) -> float:
    """Return the printed minimum of the terms in Lemma E.9 and in the proof of Theorem 3.7.

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem.

    Returns
    -------
    float
        NaN where L_g2 = 0 and L_f0 or C_f0 is infinite.
    """
    mu, L_g1, L_g2, L1, L2, Lu = _symbols(constants)
    r = constants.r
    with np.errstate(all="ignore"):
        terms = [
            mu / (6 * math.sqrt(2) * Lu * L_g1),
            mu**2 / (8 * math.sqrt(30 * r) * L1 * L_g1**2),
            mu**2 / (80 * r * L_g1 * L2 * L_g2),
            L1 * mu / (6 * math.sqrt(10 * r) * L_g2 * Lu * L2),
            1 / (4 * L_Phi(constants)),
            mu**2 / (160 * r * L1 * L_g1**2),
            L1 / (3 * Lu**2),
        ]
        return float(np.min(terms))


def stochastic_T(constants: ProblemConstants, log_rate: float) -> int:
    """Return the printed T of Lemma E.9, whose maximum picks the smaller number (errata E2).

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem, with `r`.
    log_rate : float
        ln(1 - mu gamma/2).

    Returns
    -------
    int
        ceil(max(ln(1/sqrt(40 r)), ln(1/96))/log_rate).
    """
    return math.ceil(max(-math.log(40 * constants.r) / 2, -math.log(96)) / log_rate)


def box2_hessian_batch(constants: ProblemConstants, grad_norm: float, beta: float) -> float:
    """Return the printed |B_0| for the steps on u, whose last term has sigma_g1 for sigma_g2 (errata E4).

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem, with the deviations of single samples.
    grad_norm : float
        |grad_2 g(x0, y0)|.
    beta : float
        The step size.

    Returns
    -------
    float
        Before it is rounded up.
    """
    c = constants
    mu, _, L_g2, L1, _, _ = _symbols(c)
    assert c.sigma_g1 is not None and c.sigma_g2 is not None
    with np.errstate(all="ignore"):
        smallest = np.min([L1**2 / (5 * c.r * L_g2**2), L1 / (4 * mu**2)])
        bound = L1 / mu**2 * grad_norm + c.r_u
        return float(max(8 * beta * c.sigma_g2**2 / mu, 32 * beta * c.sigma_g1**2 * bound**2 / (mu * smallest)))


def _symbols(c: ProblemConstants) -> tuple[np.float64, ...]:
    """Return mu, L_g1, L_g2, L1, L2 and Lu by the printed products, in which 0 inf is NaN."""
    mu, L_g1, L_g2, r_u = (np.float64(value) for value in (c.mu, c.L_g1, c.L_g2, c.r_u))
    with np.errstate(all="ignore"):
        L1 = c.L_f1 + L_g2 * r_u
        return mu, L_g1, L_g2, L1, c.C_f0 + L_g1 * r_u, L1 * (1 + L_g1 / mu)

"""What is known about the error of a hypergradient: a bound by the problem's constants, or an estimate."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._storable import storable
from nbo.problem import BilevelProblem, provides
from nbo.theory.constants import NoConstantsError, ProblemConstants, constants_of

Array = npt.NDArray[Any]


@storable
class Certificate(NamedTuple):
    """An error of a hypergradient and what kind of statement it is.

    Attributes
    ----------
    error : float
        |d_x - grad Phi(x)| is at most that, or about that.
    kind : str
        ``"bound"``, by the constants of the problem, ``"estimate"``, or ``"unknown"``.
    """

    error: float = np.nan
    kind: str = "unknown"


def local_constants(problem: BilevelProblem, x: Array) -> ProblemConstants | None:
    """Return the constants of a problem at one x.

    Parameters
    ----------
    problem : BilevelProblem
        The problem.
    x : ndarray
        The point, (m,).

    Returns
    -------
    ProblemConstants or None
        None for a problem without constants.
    """
    if not provides(problem, "constants"):
        return None
    try:
        return constants_of(problem, (x, x))
    except NoConstantsError:
        return None


def error_bound(constants: ProblemConstants, lower_grad_norm: float, adjoint_residual: float) -> Certificate:
    """Bound the error of d_x at a point by the constants at its x.

    It is (L1 (1 + q) |grad_2 g| + L_g1 |H u - grad_2 f|)/mu.

    Parameters
    ----------
    constants : ProblemConstants
        From `local_constants`.
    lower_grad_norm, adjoint_residual : float
        |grad_2 g| and |H u - grad_2 f|.

    Returns
    -------
    Certificate
        Of kind ``"estimate"`` where the constants are, or where y is not known to be within the tube in which they
        hold.
    """
    error = constants.hypergradient_error(lower_grad_norm, adjoint_residual)
    # constants hold in the tube |y - y*| <= mu/(2 L_g2), which the gradient certifies
    inside = 2 * constants.L_g2 * lower_grad_norm <= constants.mu**2
    return Certificate(error, constants.kind if inside else "estimate")

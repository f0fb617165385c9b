"""The sets of starting points that the theorems ask for, and how many steps lead into them (paper, Appendix D)."""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

from nbo._validation import real
from nbo.theory.constants import NoConstantsError, ProblemConstants, over, times


class Radii(NamedTuple):
    """How far a start may be from the solution.

    Attributes
    ----------
    y : float
        Of y from y*(x), in l.
    u : float
        Of u from u*(x), in f l/g.
    """

    y: float
    u: float


class Batches(NamedTuple):
    """The numbers of samples in a step of BOX 2.

    Attributes
    ----------
    gradient : int
        |B_{0,n}|, of grad_2 G in the steps on y.
    hessian : int
        |B_{0,q}|, of nabla_22^2 G in the steps on u.
    upper : int
        |B'_{0,q}|, of grad_2 F in them.
    """

    gradient: int
    hessian: int
    upper: int


def box1(constants: ProblemConstants, delta: float = 1.0) -> Radii:
    """Return the radii of BOX 1 (paper, Section 3.2; errata A10).

    |y - y*| <= min(mu/(2 L_g2), sqrt(delta)/(2 sqrt L1)) and |u - u*| <= min(5 L1/(2 L_g2), sqrt(delta L1)/mu).

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem.
    delta : float
        A value in the unit of f: in the box V_0 <= Phi(x0) - Phi* + 9 delta/8. The paper has 1.

    Returns
    -------
    Radii
        The first part of each is the one that keeps later iterates near; it is infinite for L_g2 = 0 (errata E9).
    """
    c = constants
    return Radii(
        min(over(c.mu, 2 * c.L_g2), math.sqrt(delta / positive_L1(c)) / 2),
        min(over(5 * positive_L1(c), 2 * c.L_g2), math.sqrt(delta * positive_L1(c)) / c.mu),
    )


def box2(constants: ProblemConstants, delta: float = 1.0) -> Radii:
    """Return the radii of BOX 2, of the root mean squares (paper, Section 3.3).

    E|y - y*|^2 <= min(mu^2/(20 r L_g2^2), delta/(4 L1)) and
    E|u - u*|^2 <= min(4 L1^2/(5 r L_g2^2), delta L1/mu^2).

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem, with `r`.
    delta : float
        See `box1`.

    Returns
    -------
    Radii
        Square roots of those bounds.
    """
    c = constants
    return Radii(
        min(over(c.mu, math.sqrt(20 * c.r) * c.L_g2), math.sqrt(delta / positive_L1(c)) / 2),
        min(over(2 * positive_L1(c), math.sqrt(5 * c.r) * c.L_g2), math.sqrt(delta * positive_L1(c)) / c.mu),
    )


def positive_L1(constants: ProblemConstants) -> float:
    """Return L1, which has to be positive: otherwise Phi is linear and nothing limits a step.

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem.

    Returns
    -------
    float
        L_f1 + L_g2 L_f0/mu.

    Raises
    ------
    NoConstantsError
        If it is zero, or infinite.
    """
    if not 0 < constants.L1 < math.inf:
        raise NoConstantsError(
            f"constants: found L_f1 = {constants.L_f1:g}, L_g2 = {constants.L_g2:g}, L_f0 = {constants.L_f0:g}; "
            "expected L1 = L_f1 + L_g2 L_f0/mu to be positive and finite (give bounds of x, so that L_f0 is finite)"
        )
    return constants.L1


def steps_until(target: float, start: float, log_rate: float) -> int:
    """Return the least n >= 0 for which start e^{n log_rate} <= target (errata E8).

    Parameters
    ----------
    target, start : float
        What is wanted, and what there is.
    log_rate : float
        The logarithm of the factor of one step, negative; -inf if one step does all.

    Returns
    -------
    int
        The number of steps.

    Raises
    ------
    NoConstantsError
        If there is no such number.
    """
    if start <= target:
        return 0
    if not (target > 0 and start < math.inf and log_rate < 0):
        raise NoConstantsError(
            f"constants: found that a distance of {start:g} must become {target:g} with steps that leave "
            f"{math.exp(log_rate):g} of it; expected numbers that can be represented"
        )
    if log_rate == -math.inf:
        return 1
    steps = (math.log(target) - math.log(start)) / log_rate
    return math.ceil(steps) if steps < math.inf else sys.maxsize


def inner_step(name: str, value: float | None, constants: ProblemConstants, label: str) -> float:
    """Return a step for y and u, which may be at most 1/L_g1.

    Parameters
    ----------
    name : str
        The argument, for messages.
    value : float or None
        What was given; 1/L_g1 by default.
    constants : ProblemConstants
        Of the problem.
    label : str
        The entry of the errata about it.

    Returns
    -------
    float
        The step, in l^2/g.

    Raises
    ------
    TypeError, ValueError
        If it is no positive number up to 1/L_g1.
    """
    largest = 1 / constants.L_g1
    step = largest if value is None else real(name, value, positive=True)
    if step > largest * (1 + 1e-12):
        raise ValueError(f"{name}: found {step:g}; expected at most 1/L_g1 = {largest:g} (errata {label})")
    return step


def log_rate(beta: float, constants: ProblemConstants) -> float:
    """Return ln(1 - beta mu), the rate of gradient steps.

    Parameters
    ----------
    beta : float
        The step size, at most 1/L_g1 (errata E1).
    constants : ProblemConstants
        Of the problem.

    Returns
    -------
    float
        Negative; -inf for beta mu = 1.
    """
    product = beta * constants.mu
    return math.log1p(-product) if product < 1 else -math.inf


def box1_lower_steps(constants: ProblemConstants, grad_norm: float, beta: float, delta: float = 1.0) -> int:
    """Return N_0 of BOX 1, the gradient steps on y (paper, Appendix D; errata E1, E8).

    N_0 = ceil(2 ln(min(mu sqrt(delta)/(2 sqrt L1), mu^2/(2 L_g2))/|grad_2 g(x0, y00)|)/ln(1 - beta mu)).

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem.
    grad_norm : float
        |grad_2 g(x0, y00)| at the point before the steps.
    beta : float
        The step size, at most 1/L_g1.
    delta : float
        See `box1`.

    Returns
    -------
    int
        At least 0.
    """
    radius = box1(constants, delta).y
    return steps_until(constants.mu * radius, grad_norm, log_rate(beta, constants) / 2)


def box1_linear_steps(
    constants: ProblemConstants,
    u_norm: float,
    grad_norm: float,
    beta: float,
    delta: float = 1.0,
    residual: float | None = None,
) -> int:
    """Return Q_0 of BOX 1, the steps on u (paper, Appendix D; errata E1, E8).

    Q_0 = ceil(ln(min(5 L1/(4 L_g2), sqrt(delta L1)/(2 mu))/D)/ln(1 - beta mu)) with
    D = |u00| + L1 |grad_2 g(x0, y0)|/mu^2 + r_u.

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem.
    u_norm : float
        |u00| before the steps.
    grad_norm : float
        |grad_2 g(x0, y0)| after the steps on y.
    beta : float
        The step size, at most 1/L_g1.
    delta : float
        See `box1`.
    residual : float, optional
        |H u00 - grad_2 f|, of use where L_f0 is infinite: D is then |H u00 - grad_2 f|/mu (errata E9).

    Returns
    -------
    int
        At least 0.
    """
    distance = adjoint_distance(constants, u_norm, grad_norm, residual)
    return steps_until(box1(constants, delta).u / 2, distance, log_rate(beta, constants))


def box2_lower_steps(constants: ProblemConstants, grad_norm: float, beta: float, delta: float = 1.0) -> int:
    """Return N_0 of BOX 2 (paper, Appendix D); see `box1_lower_steps`.

    N_0 = ceil(ln(min(delta mu^2/(8 L1), mu^4/(40 r L_g2^2))/|grad_2 g(x0, y00)|^2)/ln(1 - beta mu)).

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem.
    grad_norm : float
        |grad_2 g(x0, y00)|, of the full gradient (errata A7).
    beta : float
        The step size, at most 1/L_g1.
    delta : float
        See `box1`.

    Returns
    -------
    int
        At least 0.
    """
    target = constants.mu * box2(constants, delta).y / math.sqrt(2)
    return steps_until(target, grad_norm, log_rate(beta, constants) / 2)


def box2_linear_steps(
    constants: ProblemConstants, u_norm: float, grad_norm: float, beta: float, delta: float = 1.0
) -> int:
    """Return Q_0 of BOX 2 (paper, Appendix D); see `box1_linear_steps`.

    Q_0 = ceil(ln(min(2 L1^2/(5 r L_g2^2), delta L1/(2 mu^2))/(4 D^2))/ln(1 - beta mu/2)) with
    D = |u00| + L1 |grad_2 g(x0, y0)|/mu^2 + r_u.

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem; L_f0 has to be finite.
    u_norm : float
        |u00|.
    grad_norm : float
        |grad_2 g(x0, y0)|, of the full gradient (errata A7).
    beta : float
        The step size, at most 1/L_g1.
    delta : float
        See `box1`.

    Returns
    -------
    int
        At least 0.
    """
    distance = adjoint_distance(constants, u_norm, grad_norm)
    target = box2(constants, delta).u / math.sqrt(8)
    return steps_until(target, distance, log_rate(beta / 2, constants) / 2)


def box2_gradient_batch(constants: ProblemConstants, beta: float, delta: float = 1.0) -> int:
    """Return |B_{0,n}| of BOX 2, the samples in a step on y (paper, Lemma D.2; errata E4).

    beta sigma_g1^2/(mu min(mu^2/(40 r L_g2^2), delta/(8 L1))).

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem, with `sigma_g1`.
    beta : float
        The step size.
    delta : float
        See `box1`.

    Returns
    -------
    int
        At least 1.
    """
    cap = constants.mu * box2(constants, delta).y ** 2 / (2 * beta)
    return batch_size(noise(constants, "sigma_g1"), cap)


def box2_batches(constants: ProblemConstants, grad_norm: float, beta: float, delta: float = 1.0) -> Batches:
    """Return the batch sizes of BOX 2 (paper, Lemma D.2; errata E4).

    |B_{0,q}| = max(8 beta sigma_g2^2/mu, 32 beta sigma_g2^2 (L1 |grad_2 g(x0, y0)|/mu^2 + r_u)^2/(mu m)) and
    |B'_{0,q}| = 16 beta sigma_f1^2/(mu m), with m = min(L1^2/(5 r L_g2^2), delta L1/(4 mu^2)).

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem, with the deviations of single samples.
    grad_norm : float
        |grad_2 g(x0, y0)| after the steps on y.
    beta : float
        The step size.
    delta : float
        See `box1`.

    Returns
    -------
    Batches
        At least 1 each.
    """
    mu, smallest = constants.mu, box2(constants, delta).u ** 2 / 4
    bound = adjoint_distance(constants, 0.0, grad_norm)
    hessian = min(mu / (8 * beta), over(mu * smallest, 32 * beta * bound**2))
    return Batches(
        gradient=box2_gradient_batch(constants, beta, delta),
        hessian=batch_size(noise(constants, "sigma_g2"), hessian),
        upper=batch_size(noise(constants, "sigma_f1"), mu * smallest / (16 * beta)),
    )


def adjoint_distance(
    constants: ProblemConstants, u_norm: float, grad_norm: float, residual: float | None = None
) -> float:
    """Bound |u - u*(x, y)| by |u| + L1 |grad_2 g(x, y)|/mu^2 + r_u.

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem.
    u_norm, grad_norm : float
        |u| and |grad_2 g(x, y)|.
    residual : float, optional
        |H u - grad_2 f|, which gives a bound where L_f0 is infinite.

    Returns
    -------
    float
        The bound.

    Raises
    ------
    NoConstantsError
        If L_f0 is infinite and there is no `residual`.
    """
    if constants.L_f0 == math.inf and residual is not None:
        return residual / constants.mu
    if constants.L_f0 == math.inf:
        raise NoConstantsError("constants: found L_f0 = inf; expected a finite one (constants over finite bounds of x)")
    return u_norm + times(grad_norm, positive_L1(constants)) / constants.mu**2 + constants.r_u


def noise(constants: ProblemConstants, name: str) -> float:
    """Return a deviation of single samples, which has to be known.

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem.
    name : str
        ``"sigma_f1"``, ``"sigma_g1"``, ``"sigma_g2"`` or ``"cross_noise"``.

    Returns
    -------
    float
        The standard deviation.

    Raises
    ------
    NoConstantsError
        If it is None.
    """
    value = getattr(constants, name)
    if value is None:
        raise NoConstantsError(
            f"constants: found {name} = None; expected a standard deviation (see nbo.theory.estimate_constants)"
        )
    return float(value)


def batch_size(deviation: float, variance: float) -> int:
    """Return the samples whose mean has at most a given variance.

    Parameters
    ----------
    deviation : float
        Of one sample.
    variance : float
        Of the mean.

    Returns
    -------
    int
        max(1, ceil(deviation^2/variance)).

    Raises
    ------
    NoConstantsError
        If no finite number will do.
    """
    size = times(deviation, over(deviation, variance))
    if not size < math.inf:
        raise NoConstantsError(f"constants: found a deviation of {deviation:g} where the variance must be {variance:g}")
    return max(1, math.ceil(size))

"""Gradient steps on y with a fixed step size."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._vectors import norm
from nbo.linear_solvers import ENLARGED
from nbo.oracles import CountedProblem

Array = npt.NDArray[Any]


class Descent(NamedTuple):
    """Where gradient steps on y led.

    Attributes
    ----------
    y : ndarray
        The last iterate, (n,).
    grad : ndarray
        grad_2 g one step before it, (n,).
    grew : bool
        Whether a gradient was larger than the one before, the sign of a step beyond 2/lambda_max(H).
    """

    y: Array
    grad: Array
    grew: bool


def descend(view: CountedProblem, x: Array, y: Array, rho: float, n_steps: int, grad: Array | None = None) -> Descent:
    """Take gradient steps y <- y - rho grad_2 g(x, y).

    Costs n_steps lower_grad_y, one less where the first gradient is given.

    Parameters
    ----------
    view : CountedProblem
        The oracles.
    x, y : ndarray
        The point where they start.
    rho : float
        The step size.
    n_steps : int
        At least 1.
    grad : ndarray, optional
        grad_2 g(x, y), where it is known.

    Returns
    -------
    Descent
        The end, and what was seen on the way.
    """
    gamma = view.dtype.type(rho)
    size, grew = np.inf, False
    for _ in range(n_steps):
        d_y = view.lower_model(x, y).grad_y() if grad is None else grad
        grad = None
        previous, size = size, norm(d_y)
        grew |= size > ENLARGED * previous
        y = y - gamma * d_y
    return Descent(y, d_y, grew)

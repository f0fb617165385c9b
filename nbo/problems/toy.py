"""A convex lower level that is not strongly convex, for methods with aggregated lower levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._validation import box, integer
from nbo.problem import BilevelProblem
from nbo.problems._fingerprint import fingerprint

Array = npt.NDArray[Any]


class ConvexToy(BilevelProblem):
    """f = 1/2 |x - y_2|^2 + 1/2 |y_1 - e|^2 and g = 1/2 |y_1|^2 - x'y_1 with y = (y_1, y_2) and e all ones.

    The lower level says nothing about y_2: its solutions are y_1 = x with any y_2, and H = diag(I, 0) is
    singular. Taken optimistically, with the y_2 that is best for f, the problem is solved by x = y_1 = y_2 = e
    alone, with value 0. There is no adjoint u = H^{-1} grad_2 f unless y_2 = x, so that no method for strongly convex
    lower levels applies: those that factorise H or look at its curvature stop and say so, the others run to their
    limits without convergence in u. The problem is made for methods that replace g by weight f + (1 - weight) g, which
    is strongly convex; it has the second derivatives of f that those need.

    Parameters
    ----------
    n : int
        The length of x; y has 2 n entries.

    Attributes
    ----------
    solution : tuple of ndarray
        (x, y) = (e, (e, e)).
    start : tuple of ndarray
        (x0, y0), 0.01 in every entry, where published runs begin.

    Raises
    ------
    TypeError, ValueError
        If `n` is no positive integer.

    Notes
    -----
    From "Averaged Method of Multipliers for Bi-Level Optimization without Lower-Level Strong Convexity" (Liu et al.,
    2023). Every oracle takes O(n).

    Examples
    --------
    >>> import nbo
    >>> problem = nbo.problems.ConvexToy(3)
    >>> x, y = problem.solution
    >>> problem.upper_value(x, y), problem.lower_grad_y(x, y)
    (0.0, array([0., 0., 0., 0., 0., 0.]))
    """

    def __init__(self, n: int = 100) -> None:
        self.dim_x = integer("n", n, minimum=1)
        self.dim_y = 2 * self.dim_x

    @property
    def solution(self) -> tuple[Array, Array]:
        """The optimistic solution (x, y), vectors of ones."""
        return np.ones(self.dim_x), np.ones(self.dim_y)

    @property
    def start(self) -> tuple[Array, Array]:
        """A start (x0, y0), 0.01 in every entry."""
        return np.full(self.dim_x, 0.01), np.full(self.dim_y, 0.01)

    def upper_value(self, x: Array, y: Array) -> float:
        """Return f; see `BilevelProblem.upper_value`."""
        y_1, y_2 = self._parts(y)
        return float(np.sum((x - y_2) ** 2) + np.sum((y_1 - 1) ** 2)) / 2

    def upper_grad(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return grad_1 f = x - y_2 and grad_2 f = (y_1 - e, y_2 - x); see `BilevelProblem.upper_grad`."""
        y_1, y_2 = self._parts(y)
        return x - y_2, np.concatenate([y_1 - 1, y_2 - x])

    def upper_hvp(self, x: Array, y: Array, v: Array) -> Array:
        """Return v, since nabla_22^2 f is the identity; see `BilevelProblem.upper_hvp`."""
        return v.copy()

    def upper_jvp(self, x: Array, y: Array, u: Array) -> Array:
        """Return -u_2; see `BilevelProblem.upper_jvp`."""
        return -self._parts(u)[1]

    def lower_value(self, x: Array, y: Array) -> float:
        """Return g; see `BilevelProblem.lower_value`."""
        y_1 = self._parts(y)[0]
        return float(y_1 @ y_1 / 2 - x @ y_1)

    def lower_grad_y(self, x: Array, y: Array) -> Array:
        """Return (y_1 - x, 0); see `BilevelProblem.lower_grad_y`."""
        return self._in_first_part(self._parts(y)[0] - x)

    def lower_grad_x(self, x: Array, y: Array) -> Array:
        """Return -y_1; see `BilevelProblem.lower_grad_x`."""
        return -self._parts(y)[0]

    def lower_hvp(self, x: Array, y: Array, v: Array) -> Array:
        """Return (v_1, 0); see `BilevelProblem.lower_hvp`."""
        return self._in_first_part(self._parts(v)[0])

    def lower_jvp(self, x: Array, y: Array, u: Array) -> Array:
        """Return -u_1; see `BilevelProblem.lower_jvp`."""
        return -self._parts(u)[0]

    def fingerprint(self) -> str:
        """Return a hash of size and bounds; see `BilevelProblem.fingerprint`."""
        return fingerprint(type(self), self.dim_x, *box("problem.bounds", self.bounds, self.dim_x))

    def _parts(self, y: Array) -> tuple[Array, Array]:
        return y[: self.dim_x], y[self.dim_x :]

    def _in_first_part(self, part: Array) -> Array:
        return np.concatenate([part, np.zeros(self.dim_x)])

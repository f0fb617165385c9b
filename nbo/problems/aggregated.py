"""A problem whose lower level is mixed with the upper one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._validation import box
from nbo.aggregation import AggregatedModel, aggregation_weight
from nbo.problem import BilevelProblem, provides
from nbo.problems._fingerprint import fingerprint

Array = npt.NDArray[Any]


class AggregatedProblem(BilevelProblem):
    """The same upper level f over the lower level phi = weight f + (1 - weight) g of another problem.

    phi is strongly convex in y where f is, with any convex g, and so is it where g is and f is convex. Its solution
    is a compromise: y minimises weight f + (1 - weight) g instead of g, so that the solution x of this problem
    differs from that of the other one by O(weight) where g is strongly convex. Where g is merely convex, phi picks,
    as weight tends to 0, the minimiser of g that is best for f.

    Bounds, types and `project` are those of the other problem, whose `lower_model` shares its work here too;
    `lower_grad_x` exists if the other problem has it. Its samples, if it has any, are not handed on: each level
    counts as one sample.

    Parameters
    ----------
    problem : BilevelProblem
        The problem; it must have `upper_hvp` and `upper_jvp`.
    weight : float
        In [0, 1); 0 leaves g as it is.

    Attributes
    ----------
    problem : BilevelProblem
        The problem that was given.
    weight : float
        The weight.

    Raises
    ------
    TypeError, ValueError
        If `problem` is none or lacks an oracle, or `weight` is no number in [0, 1).

    Notes
    -----
    The aggregation of "Averaged Method of Multipliers for Bi-Level Optimization without Lower-Level Strong Convexity"
    (Liu et al., 2023), in which the weight decreases during a run: see the methods ``bamm`` and ``bamm-nbo``.

    Examples
    --------
    >>> import nbo, numpy as np
    >>> problem = nbo.problems.AggregatedProblem(nbo.problems.ConvexToy(3), weight=0.1)
    >>> res = nbo.minimize(problem, np.zeros(3), tol=1e-8)
    >>> print(res.status, np.round(res.x, 6))
    converged [1. 1. 1.]
    """

    def __init__(self, problem: BilevelProblem, weight: float) -> None:
        if not isinstance(problem, BilevelProblem):
            raise TypeError(f"problem: found {type(problem).__name__}; expected a BilevelProblem")
        missing = [name for name in ("upper_hvp", "upper_jvp") if not provides(problem, name)]
        if missing:
            raise TypeError(
                f"problem: {type(problem).__name__} does not define {', '.join(missing)}, which the aggregated lower "
                "level needs"
            )
        self.problem, self.weight = problem, aggregation_weight("weight", weight)
        self.dim_x, self.dim_y = problem.dim_x, problem.dim_y
        self.bounds, self.dtype = problem.bounds, problem.dtype
        self._absent = frozenset(name for name in ("lower_grad_x", "project") if not provides(problem, name))

    def upper_value(self, x: Array, y: Array) -> float:
        """Return f; see `BilevelProblem.upper_value`."""
        return self.problem.upper_value(x, y)

    def upper_grad(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return grad_1 f and grad_2 f; see `BilevelProblem.upper_grad`."""
        return self.problem.upper_grad(x, y)

    def upper_hvp(self, x: Array, y: Array, v: Array) -> Array:
        """Return nabla_22^2 f v; see `BilevelProblem.upper_hvp`."""
        return self.problem.upper_hvp(x, y, v)

    def upper_jvp(self, x: Array, y: Array, u: Array) -> Array:
        """Return nabla_12^2 f u; see `BilevelProblem.upper_jvp`."""
        return self.problem.upper_jvp(x, y, u)

    def lower_value(self, x: Array, y: Array) -> float:
        """Return phi; see `BilevelProblem.lower_value`."""
        return self.lower_model(x, y).value()

    def lower_grad_y(self, x: Array, y: Array) -> Array:
        """Return grad_2 phi; see `BilevelProblem.lower_grad_y`."""
        return self.lower_model(x, y).grad_y()

    def lower_grad_x(self, x: Array, y: Array) -> Array:
        """Return grad_1 phi, if the problem has `lower_grad_x`; see `BilevelProblem.lower_grad_x`."""
        return self.lower_model(x, y).grad_x()

    def lower_hvp(self, x: Array, y: Array, v: Array) -> Array:
        """Return nabla_22^2 phi v; see `BilevelProblem.lower_hvp`."""
        return self.lower_model(x, y).hvp(v[None])[0]

    def lower_jvp(self, x: Array, y: Array, u: Array) -> Array:
        """Return nabla_12^2 phi u; see `BilevelProblem.lower_jvp`."""
        return self.lower_model(x, y).jvp(u)

    def lower_model(self, x: Array, y: Array) -> AggregatedModel:
        """Return phi around a point, over the problem's own model; see `BilevelProblem.lower_model`."""
        return AggregatedModel(self.problem, self.problem.lower_model(x, y), self.weight, x, y)

    def project(self, x: Array) -> Array:
        """Return the problem's projection; see `BilevelProblem.project`."""
        return self.problem.project(x)

    def fingerprint(self) -> str:
        """Return a hash of weight, bounds and the problem's fingerprint; see `BilevelProblem.fingerprint`."""
        limits = () if provides(self, "project") else box("problem.bounds", self.bounds, self.dim_x)
        return fingerprint(type(self), self.weight, np.dtype(self.dtype).str, self.problem.fingerprint(), *limits)

"""Where x may be: a box, or a set that the problem projects onto."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._validation import box, vector
from nbo._vectors import all_finite
from nbo.problem import BilevelProblem, provides

Array = npt.NDArray[Any]


class FeasibleSet(abc.ABC):
    """A closed convex set of x, called as its own projection."""

    @abc.abstractmethod
    def __call__(self, x: Array) -> Array:
        """Return the nearest point of the set.

        Parameters
        ----------
        x : ndarray
            Any point, (m,).

        Returns
        -------
        ndarray
            The projection, (m,).
        """

    def gradient_map(self, x: Array, d_x: Array) -> Array:
        """Return x - project(x - d_x), whose norm is the projected hypergradient norm.

        Parameters
        ----------
        x, d_x : ndarray
            A point of the set and the gradient, (m,) each.

        Returns
        -------
        ndarray
            (m,).
        """
        return x - self(x - d_x)

    @abc.abstractmethod
    def free(self, x: Array, d_x: Array) -> Array | None:
        """Tell which coordinates can follow -d_x from a point of the set.

        Parameters
        ----------
        x, d_x : ndarray
            The point and the gradient, (m,) each.

        Returns
        -------
        ndarray of bool or None
            A mask, (m,); None for a set whose coordinates do not move independently.
        """

    def n_held(self, x: Array) -> int:
        """Count the coordinates that end at a bound, which tells that they might go further.

        Parameters
        ----------
        x : ndarray
            A point of the set, (m,).

        Returns
        -------
        int
            Zero for a set that is no box; coordinates that are fixed do not count.
        """
        return 0


class Box(FeasibleSet):
    """lower <= x <= upper.

    Parameters
    ----------
    lower, upper : ndarray
        (m,) each; infinities are allowed, and equal entries fix a coordinate.
    """

    def __init__(self, lower: Array, upper: Array) -> None:
        self.lower, self.upper = lower, upper

    @classmethod
    def unbounded(cls, dim_x: int) -> Box:
        """Return the whole space.

        Parameters
        ----------
        dim_x : int
            m.

        Returns
        -------
        Box
            Without bounds.
        """
        return cls(np.full(dim_x, -np.inf), np.full(dim_x, np.inf))

    def __call__(self, x: Array) -> Array:
        return np.minimum(np.maximum(x, self.lower), self.upper)

    def gradient_map(self, x: Array, d_x: Array) -> Array:
        """Return the part of d_x that the bounds let through, without rounding; see `FeasibleSet.gradient_map`."""
        return np.minimum(np.maximum(d_x, x - self.upper), x - self.lower)

    def free(self, x: Array, d_x: Array) -> Array:
        """Leave out the coordinates at a bound that -d_x points beyond; see `FeasibleSet.free`."""
        return ~(((x <= self.lower) & (d_x >= 0)) | ((x >= self.upper) & (d_x <= 0)))

    def n_held(self, x: Array) -> int:
        """Count the coordinates at a bound; see `FeasibleSet.n_held`."""
        return int((((x <= self.lower) | (x >= self.upper)) & (self.lower < self.upper)).sum())

    def require(self, name: str, x: Array) -> None:
        """Raise if a point lies outside.

        Parameters
        ----------
        name : str
            The argument, for messages.
        x : ndarray
            The point, (m,).

        Raises
        ------
        ValueError
            With the first entry outside.
        """
        outside = (x < self.lower) | (x > self.upper)
        if outside.any():
            i = int(outside.argmax())
            raise ValueError(
                f"{name}: found {x[i]:g} at index {i}; expected a value within the bounds "
                f"[{self.lower[i]:g}, {self.upper[i]:g}] (clip {name}, or pass other bounds)"
            )


class ProjectedSet(FeasibleSet):
    """The set that a problem's own `project` projects onto.

    Parameters
    ----------
    problem : BilevelProblem
        It overrides `project`.
    """

    def __init__(self, problem: BilevelProblem) -> None:
        self._problem = problem

    def __call__(self, x: Array) -> Array:
        if not all_finite(x):  # a run that diverges; the problem need not know such points
            return x
        return vector("project (returned by the problem)", self._problem.project(x.copy()), x.shape[0])

    def free(self, x: Array, d_x: Array) -> None:
        """Return None; see `FeasibleSet.free`."""
        return None


def feasible_set(problem: BilevelProblem, dim_x: int, bounds: Any, x0: Array) -> FeasibleSet:
    """Return the feasible set of a run, after checking that the start lies in it.

    Parameters
    ----------
    problem : BilevelProblem
        Whose bounds or `project` count.
    dim_x : int
        m.
    bounds : pair, scipy.optimize.Bounds or None
        Replaces the problem's bounds.
    x0 : ndarray
        The start, (m,).

    Returns
    -------
    FeasibleSet
        Callable as a projection.

    Raises
    ------
    TypeError, ValueError
        If `bounds` is no box, is given beside a problem with its own `project`, or `x0` is not feasible.
    """
    if provides(problem, "project"):
        if bounds is not None:
            raise ValueError(
                f"bounds: {type(problem).__name__} defines project(), which bounds would replace; leave one out"
            )
        projected = ProjectedSet(problem)
        distance = float(np.linalg.norm(projected(x0) - x0))
        if distance > 1e-8 * max(1.0, float(np.linalg.norm(x0))):
            raise ValueError(
                f"x0: found a point at distance {distance:.3g} from the set that {type(problem).__name__}.project "
                "projects onto; expected a point of the set (start from its projection)"
            )
        return projected
    name, pair = ("problem.bounds", problem.bounds) if bounds is None else ("bounds", bounds)
    found = Box(*box(name, pair, dim_x))
    found.require("x0", x0)
    return found

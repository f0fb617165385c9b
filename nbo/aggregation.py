"""The lower level phi = weight f + (1 - weight) g, strongly convex where f or g is."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._validation import real
from nbo.oracles import CountedProblem
from nbo.problem import BilevelProblem, LowerModel
from nbo.schedules import Schedule, validate_weight, weight_at

Array = npt.NDArray[Any]


class AggregatedModel(LowerModel):
    """phi = weight f + (1 - weight) g around one point (x, y).

    Each method takes what it says of g, and the like of f: upper_grad for gradients, upper_hvp and upper_jvp for
    products.

    Parameters
    ----------
    upper : BilevelProblem or AggregatedView
        Where the oracles of f come from.
    lower : LowerModel
        g around the same point.
    weight : float
        In [0, 1).
    x, y : ndarray
        The point, (m,) and (n,).
    """

    def __init__(
        self, upper: BilevelProblem | AggregatedView, lower: LowerModel, weight: float, x: Array, y: Array
    ) -> None:
        self.x, self.y = x, y
        self._upper, self._lower, self._weight = upper, lower, weight

    def value(self) -> float:
        """Return phi(x, y); see `LowerModel.value`."""
        return float(self._mean(self._upper.upper_value(self.x, self.y), self._lower.value()))

    def grad_y(self) -> Array:
        """Return grad_2 phi, (n,); see `LowerModel.grad_y`."""
        return self._mean(self._upper.upper_grad(self.x, self.y)[1], self._lower.grad_y())

    def grad_x(self) -> Array:
        """Return grad_1 phi, (m,); see `LowerModel.grad_x`."""
        return self._mean(self._upper.upper_grad(self.x, self.y)[0], self._lower.grad_x())

    def grad_y_and_hvp(self, u: Array) -> tuple[Array, Array]:
        """Return grad_2 phi and nabla_22^2 phi u; see `LowerModel.grad_y_and_hvp`."""
        gradient, product = self._lower.grad_y_and_hvp(u)
        gradient = self._mean(self._upper.upper_grad(self.x, self.y)[1], gradient)
        return gradient, self._mean(self._upper.upper_hvp(self.x, self.y, u), product)

    def hvp(self, V: Array) -> Array:
        """Return nabla_22^2 phi v for each row v of `V`; see `LowerModel.hvp`."""
        products = self._lower.hvp(V)
        rows = [
            self._mean(self._upper.upper_hvp(self.x, self.y, v), product)
            for v, product in zip(V, products, strict=True)
        ]
        return np.stack(rows) if rows else np.empty_like(V)

    def jvp(self, u: Array) -> Array:
        """Return nabla_12^2 phi u, (m,); see `LowerModel.jvp`."""
        return self._mean(self._upper.upper_jvp(self.x, self.y, u), self._lower.jvp(u))

    def _mean(self, upper: Any, lower: Any) -> Any:
        return self._weight * upper + (1 - self._weight) * lower


class AggregatedView:
    """The counted view of a problem with weight f + (1 - weight) g in the place of g, for one iteration.

    The joint gradient of f is called once at a point, however many parts of the iteration it serves.

    Parameters
    ----------
    view : CountedProblem
        Where calls are counted.
    weight : float
        In [0, 1).

    Attributes
    ----------
    dtype : dtype
        Of y.
    """

    def __init__(self, view: CountedProblem, weight: float) -> None:
        self.dtype = view.dtype
        self._view, self._weight = view, weight
        self._last: tuple[Array, Array, tuple[Array, Array]] | None = None

    def upper_value(self, x: Array, y: Array) -> float:
        """Return f(x, y).

        Parameters
        ----------
        x, y : ndarray
            The point.

        Returns
        -------
        float
            The value.
        """
        return self._view.upper_value(x, y)

    def upper_grad(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return grad_1 f and grad_2 f; those of the last call, uncounted, if it was for the same two arrays.

        Parameters
        ----------
        x, y : ndarray
            The point; the arrays must not change meanwhile.

        Returns
        -------
        tuple of ndarray
            The two parts.
        """
        if self._last is None or self._last[0] is not x or self._last[1] is not y:
            self._last = x, y, self._view.upper_grad(x, y)
        return self._last[2]

    def upper_hvp(self, x: Array, y: Array, v: Array) -> Array:
        """Return nabla_22^2 f v.

        Parameters
        ----------
        x, y : ndarray
            The point.
        v : ndarray
            A direction, (n,).

        Returns
        -------
        ndarray
            The product, (n,).
        """
        return self._view.upper_hvp(x, y, v)

    def upper_jvp(self, x: Array, y: Array, u: Array) -> Array:
        """Return nabla_12^2 f u.

        Parameters
        ----------
        x, y : ndarray
            The point.
        u : ndarray
            A direction, (n,).

        Returns
        -------
        ndarray
            The product, (m,).
        """
        return self._view.upper_jvp(x, y, u)

    def lower_model(self, x: Array, y: Array) -> AggregatedModel:
        """Return weight f + (1 - weight) g around a point; no work.

        Parameters
        ----------
        x, y : ndarray
            The point.

        Returns
        -------
        AggregatedModel
            Its calls are counted for f and for g.
        """
        return AggregatedModel(self, self._view.lower_model(x, y), self._weight, x, y)


def aggregation_weight(name: str, value: Any) -> float:
    """Return `value` as a float in [0, 1).

    Parameters
    ----------
    name : str
        The argument, for messages.
    value : object
        What was given.

    Returns
    -------
    float
        The weight of f.

    Raises
    ------
    TypeError, ValueError
        If it is no such number; with a weight of 1 there would be no lower level.
    """
    weight = real(name, value, minimum=0.0)
    if weight >= 1:
        raise ValueError(f"{name}: found {weight:g}; expected a number in [0, 1)")
    return weight


def validate_aggregation(name: str, weight: Any) -> None:
    """Raise unless `weight` is a number in [0, 1) or a callable.

    Parameters
    ----------
    name : str
        The option, for messages.
    weight : float or callable
        What was given.

    Raises
    ------
    TypeError, ValueError
        If it is neither.
    """
    validate_weight(name, weight)
    if not callable(weight):
        aggregation_weight(name, weight)


def aggregation_at(name: str, weight: Schedule, k: int) -> float:
    """Return the weight of f in iteration `k`.

    Parameters
    ----------
    name : str
        The option, for messages.
    weight : float or callable
        A number, or a function k -> float.
    k : int
        The iteration, from 0.

    Returns
    -------
    float
        In [0, 1).

    Raises
    ------
    TypeError, ValueError
        If a callable returns what is no such number.
    """
    return aggregation_weight(f"{name} (the schedule at k = {k})", weight_at(name, weight, k))

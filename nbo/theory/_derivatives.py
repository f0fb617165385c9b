"""Norms of second derivatives of g at a point, and of their changes between two points."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._vectors import norm
from nbo.linear_solvers import lanczos
from nbo.oracles import CountedModel, CountedProblem

Array = npt.NDArray[Any]

#: Up to this n, and up to so many entries of nabla_12^2 g, matrices are formed.
DENSE_DIM, DENSE_ENTRIES = 300, 2**22
#: Lanczos steps for both ends of a spectrum and for a largest singular value, and the numbers that a basis may have.
ENDS_STEPS, NORM_STEPS, BASIS_ENTRIES = 100, 20, 2**25


class Place(NamedTuple):
    """A point.

    Attributes
    ----------
    x, y : ndarray
        (m,) and (n,).
    """

    x: Array
    y: Array


class Ends(NamedTuple):
    """The ends of a spectrum.

    Attributes
    ----------
    smallest, largest : float
        Eigenvalues, or Ritz values, which lie between them.
    vectors : ndarray
        Their unit vectors in rows, (2, n).
    """

    smallest: float
    largest: float
    vectors: Array


class Pair(NamedTuple):
    """The largest singular value of a matrix, or a value below it.

    Attributes
    ----------
    value : float
        |M right|.
    left, right : ndarray
        Unit vectors with left'M right = value, zeros where that is zero.
    """

    value: float
    left: Array
    right: Array


class Derivatives(abc.ABC):
    """The second derivatives H = nabla_22^2 g and J = nabla_12^2 g of a problem, in double precision.

    Parameters
    ----------
    view : CountedProblem
        The oracles.
    """

    def __init__(self, view: CountedProblem) -> None:
        self.view = view

    @abc.abstractmethod
    def second_ends(self, place: Place) -> Ends:
        """Return the ends of the spectrum of H."""

    @abc.abstractmethod
    def mixed_norm(self, place: Place) -> float:
        """Return |J|."""

    @abc.abstractmethod
    def second_change(self, first: Place, last: Place) -> Pair:
        """Return |H(last) - H(first)|, of an eigenvector twice."""

    @abc.abstractmethod
    def mixed_change(self, first: Place, last: Place) -> Pair:
        """Return |J(last) - J(first)|."""

    def second_product(self, place: Place, v: Array) -> Array:
        """Return H v, (n,)."""
        return _second_product(self._model(place), v)

    def mixed_product(self, place: Place, v: Array) -> Array:
        """Return J v, (m,)."""
        return _mixed_product(self._model(place), v)

    def _model(self, place: Place) -> CountedModel:
        return self.view.lower_model(place.x, place.y)


class DenseDerivatives(Derivatives):
    """By matrices, of n products each."""

    def second_ends(self, place: Place) -> Ends:
        """See `Derivatives.second_ends`."""
        values, vectors = np.linalg.eigh(self._second(place))
        return Ends(float(values[0]), float(values[-1]), vectors[:, [0, -1]].T)

    def mixed_norm(self, place: Place) -> float:
        """See `Derivatives.mixed_norm`."""
        return _largest_pair(self._mixed(place)).value

    def second_change(self, first: Place, last: Place) -> Pair:
        """See `Derivatives.second_change`."""
        values, vectors = np.linalg.eigh(self._second(last) - self._second(first))
        at = 0 if -values[0] > values[-1] else -1
        return Pair(float(abs(values[at])), vectors[:, at], vectors[:, at])

    def mixed_change(self, first: Place, last: Place) -> Pair:
        """See `Derivatives.mixed_change`."""
        return _largest_pair(self._mixed(last) - self._mixed(first))

    def _second(self, place: Place) -> Array:
        H = self._model(place).hvp(np.eye(self.view.dim_y, dtype=self.view.dtype)).astype(np.float64)
        return (H + H.T) / 2

    def _mixed(self, place: Place) -> Array:
        """Return J, (m, n)."""
        model = self._model(place)
        return np.stack([model.jvp(v) for v in np.eye(self.view.dim_y, dtype=self.view.dtype)], axis=1)


class ProductDerivatives(Derivatives):
    """By products alone: Lanczos steps, with J' from central differences of grad_2 g in x.

    Values of norms are those of exact products with unit vectors, at most the norms; an inexact J' only chooses the
    vectors. All begin with the same start vector.

    Parameters
    ----------
    view : CountedProblem
        The oracles.
    """

    def __init__(self, view: CountedProblem) -> None:
        super().__init__(view)
        self._start = np.random.default_rng(0).standard_normal((1, view.dim_y))

    def second_ends(self, place: Place) -> Ends:
        """See `Derivatives.second_ends`."""
        model = self._model(place)
        values, vectors = self._ritz(lambda v: _second_product(model, v), ENDS_STEPS)
        return Ends(float(values[0]), float(values[-1]), vectors[[0, -1]])

    def mixed_norm(self, place: Place) -> float:
        """See `Derivatives.mixed_norm`."""
        model = self._model(place)
        return self._pair(lambda v: _mixed_product(model, v), lambda w: self._adjoint(place, w)).value

    def second_change(self, first: Place, last: Place) -> Pair:
        """See `Derivatives.second_change`."""
        before, after = self._model(first), self._model(last)
        values, vectors = self._ritz(lambda v: _second_product(after, v) - _second_product(before, v), NORM_STEPS)
        at = int(np.argmax(np.abs(values)))
        return Pair(float(abs(values[at])), vectors[at], vectors[at])

    def mixed_change(self, first: Place, last: Place) -> Pair:
        """See `Derivatives.mixed_change`."""
        before, after = self._model(first), self._model(last)
        return self._pair(
            lambda v: _mixed_product(after, v) - _mixed_product(before, v),
            lambda w: self._adjoint(last, w) - self._adjoint(first, w),
        )

    def _ritz(self, product: Callable[[Array], Array], n_steps: int) -> tuple[Array, Array]:
        """Return Ritz values of a symmetric matrix in ascending order, and their vectors in rows."""
        steps = min(n_steps, max(NORM_STEPS, BASIS_ENTRIES // self.view.dim_y))
        (basis,) = lanczos(lambda rows: np.stack([product(v) for v in rows]), self._start, steps)
        values, combinations = np.linalg.eigh(basis.tridiagonal())
        return values, combinations.T @ basis.vectors

    def _pair(self, product: Callable[[Array], Array], adjoint: Callable[[Array], Array]) -> Pair:
        right = self._ritz(lambda v: adjoint(product(v)), NORM_STEPS)[1][-1]
        left = product(right)
        value = norm(left)
        return Pair(value, left / value if value > 0 else left, right)

    def _adjoint(self, place: Place, w: Array) -> Array:
        """Return about J' w, (n,); steps that leave the feasible set are projected onto it."""
        size = norm(w)
        if size == 0:
            return np.zeros(self.view.dim_y)
        step = float(np.finfo(self.view.dtype).eps) ** (1 / 3) * (1 + float(np.abs(place.x).max())) / size
        ends = (self.view.problem.project(place.x + sign * step * w) for sign in (1, -1))
        after, before = (self.view.lower_model(x, place.y).grad_y().astype(np.float64) for x in ends)
        return (after - before) / (2 * step)


def derivatives(view: CountedProblem) -> Derivatives:
    """Return what fits the size of a problem.

    Parameters
    ----------
    view : CountedProblem
        The oracles.

    Returns
    -------
    Derivatives
        By matrices where they are small.
    """
    if view.dim_y <= DENSE_DIM and view.dim_x * view.dim_y <= DENSE_ENTRIES:
        return DenseDerivatives(view)
    return ProductDerivatives(view)


def _second_product(model: CountedModel, v: Array) -> Array:
    return model.hvp(v.astype(model.y.dtype)[None])[0].astype(np.float64)


def _mixed_product(model: CountedModel, v: Array) -> Array:
    return model.jvp(v.astype(model.y.dtype))


def _largest_pair(M: Array) -> Pair:
    """Return the largest singular value of M with its vectors, from the smaller Gram matrix."""
    wide = M.shape[0] < M.shape[1]
    rows = M if wide else M.T
    one = np.linalg.eigh(rows @ rows.T)[1][:, -1]
    other = rows.T @ one
    value = norm(other)
    other = other / value if value > 0 else other
    return Pair(value, one, other) if wide else Pair(value, other, one)

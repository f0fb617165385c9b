"""Units and origin of features and units of weights, so that data in any units are tuned alike."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.sparsefuncs import mean_variance_axis

Array = npt.NDArray[Any]

#: Features need no unit if the median of their variances is below 100 and the largest above 1/100, nor do weights whose
#: mean is between 1/64 and 64: the search goes over many orders.
_VARIANCE, _WEIGHT = 1e2, 64.0
#: Dense features are moved to mean zero if the square of a mean is so many times the variance: sums over rows would
#: lose as many digits. An intercept makes up for it.
_OFFSET, _CONSTANT = 1e6, 1e-12


class Units(NamedTuple):
    """What one unit of the fitted problem is in those of the user.

    Attributes
    ----------
    feature, weight : float
        Powers of two, by which a division does not round; 1 unless the data are in other units by orders.
    center : ndarray or None
        What is subtracted from rows first, (p,).
    """

    feature: float = 1.0
    weight: float = 1.0
    center: Array | None = None

    @property
    def log_penalty(self) -> float:
        """What is added to log penalties of the fitted problem: coefficients are larger where features are smaller."""
        return 2.0 * math.log(self.feature)

    @property
    def strength(self) -> float:
        """What divides strengths C of the fitted problem to make them those of the user."""
        return self.feature**2 * self.weight

    def features(self, A: Any) -> Any:
        """Return rows in these units.

        Parameters
        ----------
        A : ndarray or CSR
            (n, p).

        Returns
        -------
        ndarray or CSR
            The same one if the unit is 1, and the origin zero.
        """
        if self.center is not None:
            A = A - self.center
        return A if self.feature == 1 else A * A.dtype.type(1 / self.feature)

    def coefficients(self, W: Array, intercept: Array) -> tuple[Array, Array]:
        """Return a model of rows in these units as one of rows in those of the user.

        Parameters
        ----------
        W, intercept : ndarray
            (c, p) and (c,).

        Returns
        -------
        tuple of ndarray
            The same shapes.
        """
        W = W / self.feature
        return W, intercept if self.center is None else intercept - W @ self.center

    def weights(self, weights: Array | None) -> Array | None:
        """Return weights in these units.

        Parameters
        ----------
        weights : ndarray or None
            (n,).

        Returns
        -------
        ndarray or None
            The same ones if the unit is 1.
        """
        return weights if weights is None or self.weight == 1 else weights / self.weight


def units_of(A: Any, weights: Array | None, fit_intercept: bool) -> Units:
    """Return units in which features and weights are of the order of one.

    Parameters
    ----------
    A : ndarray or CSR
        The training rows, (n, p).
    weights : ndarray or None
        Their weights, (n,).
    fit_intercept : bool
        Whether the mean of a feature does not matter.

    Returns
    -------
    Units
        Equal for features that differ in units from each other.
    """
    variances, center = _variances(A, fit_intercept)
    variances = variances[variances > 0]
    typical = 1.0
    if variances.size and np.median(variances) > _VARIANCE:
        typical = float(np.median(variances))
    elif variances.size and variances.max() < 1 / _VARIANCE:
        typical = float(variances.max())
    weight = 1.0 if weights is None else float(weights.mean())
    usual = 1 / _WEIGHT <= weight <= _WEIGHT
    return Units(_power_of_two(math.sqrt(typical)), 1.0 if usual else _power_of_two(weight), center)


def _variances(A: Any, centred: bool) -> tuple[Array, Array | None]:
    """Return the mean square of every feature, (p,), around its mean if that does not matter, and means to subtract."""
    if sp.issparse(A):
        means, variances = mean_variance_axis(A, axis=0)
        return np.asarray(variances if centred else variances + means**2, dtype=np.float64), None
    squares = np.einsum("ij,ij->j", A, A, dtype=np.float64) / len(A)
    if not centred:
        return squares, None
    means = A.mean(axis=0, dtype=np.float64)
    variances = squares - means**2
    # a variance at the rounding floor may be that of a constant, which is no harm if it is not large
    known = np.where(variances > _CONSTANT * squares, variances, variances.max(initial=0.0))
    if not (means**2 > _OFFSET * known)[known > 0].any():
        return variances, None
    center = means.astype(A.dtype)
    return np.asarray(np.var(A - center, axis=0, dtype=np.float64)), center


def _power_of_two(size: float) -> float:
    return math.ldexp(1.0, round(math.log2(size)))

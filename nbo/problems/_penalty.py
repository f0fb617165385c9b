"""The penalty 1/2 sum_j e^{x_{k(j)}} y_j^2 with one log penalty a feature or group, and the prior on x."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._validation import real, vector

Array = npt.NDArray[Any]

#: e^x is evaluated at x clipped to this size, within the range of float64.
LARGEST_EXPONENT = 700.0


class ExponentialPenalty:
    """r(x, y) = 1/2 sum_j e^{x_{k(j)}} y_j^2, where k(j) is the group of feature j.

    Parameters
    ----------
    penalty : {"feature", "shared"} or array_like of int
        One group a feature, one for all, or the group of each feature: ids 0 .. G-1, each used.
    n_features : int
        p.

    Attributes
    ----------
    dim_x : int
        G, the number of groups.
    groups : ndarray of int
        The group of each feature, (p,).
    identity : bool
        Whether every feature is its own group.
    """

    def __init__(self, penalty: Any, n_features: int) -> None:
        self.groups = _groups(penalty, n_features)
        self.dim_x = int(self.groups.max()) + 1
        self.identity = self.dim_x == n_features and bool((self.groups == np.arange(n_features)).all())

    def at(self, x: Array) -> PenaltyAt:
        """Return the penalty at given log penalties.

        Parameters
        ----------
        x : ndarray
            Log penalties, (G,).

        Returns
        -------
        PenaltyAt
            A function of y.
        """
        return PenaltyAt(self, x)

    def group_norms(self, sizes: Array) -> Array:
        """Return the Euclidean norm of `sizes` over every group.

        Parameters
        ----------
        sizes : ndarray
            One number a feature, (p,).

        Returns
        -------
        ndarray
            (G,).
        """
        return np.sqrt(np.bincount(self.groups, weights=sizes * sizes, minlength=self.dim_x))


class PenaltyAt:
    """The penalty as a function of y, for fixed x.

    Parameters
    ----------
    penalty : ExponentialPenalty
        The groups.
    x : ndarray
        Log penalties, (G,).
    """

    def __init__(self, penalty: ExponentialPenalty, x: Array) -> None:
        self._penalty = penalty
        self._x = x

    @functools.cached_property
    def factors(self) -> Array:
        """e^{x_{k(j)}} for every feature, (p,), float64, finite for every finite x."""
        exponentials = np.exp(np.minimum(np.maximum(self._x, -LARGEST_EXPONENT), LARGEST_EXPONENT))
        return exponentials if self._penalty.identity else exponentials[self._penalty.groups]

    def value(self, y: Array) -> float:
        """Return r(x, y).

        Parameters
        ----------
        y : ndarray
            (p,).

        Returns
        -------
        float
            The penalty.
        """
        wide = np.asarray(y, dtype=np.float64)
        return float(self.factors @ (wide * wide)) / 2

    def hvp(self, V: Array) -> Array:
        """Return e^{x_{k(j)}} v_j, which for v = y is also the gradient in y.

        Parameters
        ----------
        V : ndarray
            (p,) or rows (k, p).

        Returns
        -------
        ndarray
            As `V`, of its type.
        """
        return (self.factors * V).astype(V.dtype, copy=False)

    def jvp(self, y: Array, u: Array) -> Array:
        """Return sum_{j in group} e^{x} y_j u_j for every group.

        Parameters
        ----------
        y, u : ndarray
            (p,) each.

        Returns
        -------
        ndarray
            (G,), float64.
        """
        terms = self.factors * y * u
        if self._penalty.identity:
            return terms
        return np.bincount(self._penalty.groups, weights=terms, minlength=self._penalty.dim_x)


def _groups(penalty: Any, n_features: int) -> Array:
    if isinstance(penalty, str):
        if penalty == "feature":
            return np.arange(n_features)
        if penalty == "shared":
            return np.zeros(n_features, dtype=np.int64)
        raise ValueError(f"penalty: found {penalty!r}; expected 'feature', 'shared' or an array of group ids")
    ids = np.asarray(penalty)
    if ids.dtype.kind not in "iu" or ids.shape != (n_features,):
        raise ValueError(
            f"penalty: found an array of shape {ids.shape} and type {ids.dtype}; expected 'feature', 'shared' or "
            f"{n_features} integer group ids, one a feature"
        )
    used = np.unique(ids)
    if not np.array_equal(used, np.arange(used.size)):
        raise ValueError(
            f"penalty: found group ids from {used[0]} to {used[-1]}, {used.size} different; "
            "expected 0 .. G-1, each used"
        )
    return ids.astype(np.int64)


class GaussianPrior:
    """sum_j (x_j - center_j)^2 / (2 scale^2 n_val), which keeps many penalties from overfitting validation data.

    Parameters
    ----------
    prior : pair or None
        (center, scale): a number or (m,), and a positive number; None is no prior.
    dim_x : int
        m.
    n_val : float
        The sum of the validation weights.

    Attributes
    ----------
    curvature : float
        1/(scale^2 n_val); zero without a prior.
    """

    def __init__(self, prior: Any, dim_x: int, n_val: float) -> None:
        self.center, self.curvature = np.zeros(dim_x), 0.0
        if prior is None:
            return
        try:
            center, scale = prior
        except (TypeError, ValueError):
            raise TypeError(f"prior: found {prior!r}; expected None or a pair (center, scale)") from None
        if np.ndim(center) == 0:
            center = np.full(dim_x, real("prior (center)", center))
        self.center = vector("prior (center)", center, dim_x, np.float64, "dim_x")
        with np.errstate(over="ignore", under="ignore"):
            self.curvature = float(np.float64(1 / real("prior (scale)", scale, positive=True)) ** 2 / n_val)
        if not 0 < self.curvature < np.inf:
            raise ValueError(f"prior (scale): found {scale!r}; expected a number whose square is representable")

    def value(self, x: Array) -> float:
        """Return the prior's value.

        Parameters
        ----------
        x : ndarray
            (m,).

        Returns
        -------
        float
            At least 0.
        """
        return self.curvature / 2 * float(np.sum((x - self.center) ** 2)) if self.curvature else 0.0

    def grad(self, x: Array) -> Array:
        """Return the prior's gradient.

        Parameters
        ----------
        x : ndarray
            (m,).

        Returns
        -------
        ndarray
            (m,).
        """
        return self.curvature * (x - self.center)

"""Groups of penalised entries of W (c, p) with one log penalty each, and the prior on x."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._validation import real, real_array, vector

Array = npt.NDArray[Any]

#: e^x is evaluated at x clipped to this size, within the range of the type of y.
LARGEST_EXPONENTS = {np.dtype(np.float64): 700.0, np.dtype(np.float32): 85.0}


def penalty_groups(penalty: Any, n_outputs: int, n_features: int, outputs: str) -> Array:
    """Return the group of each entry of W.

    Parameters
    ----------
    penalty : str or array_like of int
        ``"feature"`` (one group a column), ``"shared"`` (one for all), what `outputs` calls a row (one group a row),
        ``"<outputs>-feature"`` (one an entry), or ids 0 .. G-1, each used, one a column, (p,), or an entry, (c, p).
    n_outputs, n_features : int
        c and p.
    outputs : str
        What a row of W is called, such as ``"class"``; with one row there are no groups of rows.

    Returns
    -------
    ndarray of int
        (c, p).

    Raises
    ------
    ValueError
        For anything else.
    """
    shape = (n_outputs, n_features)
    known = {
        "feature": np.arange(n_features),
        "shared": np.zeros(1, dtype=np.int64),
        outputs: np.arange(n_outputs)[:, None],
        f"{outputs}-feature": np.arange(n_outputs * n_features).reshape(shape),
    }
    names = list(known)[: 4 if outputs else 2]
    wanted = f"{', '.join(map(repr, names))} or an array of group ids"
    if isinstance(penalty, str):
        if penalty not in names:
            raise ValueError(f"penalty: found {penalty!r}; expected {wanted}")
        return np.array(np.broadcast_to(known[penalty], shape), dtype=np.int64)
    ids = real_array("penalty", penalty, wanted)
    if ids.dtype.kind not in "iu" or ids.shape not in ((n_features,), shape):
        entries = f" or {shape}, one an entry" if outputs else ""
        raise ValueError(
            f"penalty: found an array of shape {ids.shape} and type {ids.dtype}; expected {wanted}, integers of shape "
            f"({n_features},), one a feature{entries}"
        )
    used = np.unique(ids)
    if not np.array_equal(used, np.arange(used.size)):
        raise ValueError(
            f"penalty: found group ids from {used[0]} to {used[-1]}, {used.size} different; "
            "expected 0 .. G-1, each used"
        )
    return np.array(np.broadcast_to(ids, shape), dtype=np.int64)


def group_norms(groups: Array, sizes: Array) -> Array:
    """Return the Euclidean norm of numbers over every group.

    Parameters
    ----------
    groups : ndarray of int
        The group of each entry, (c, p).
    sizes : ndarray
        One number an entry, (c, p).

    Returns
    -------
    ndarray
        (G,).
    """
    return np.sqrt(np.bincount(groups.ravel(), weights=(sizes * sizes).ravel()))


class GaussianPrior:
    """sum_j (x_j - center_j)^2 / (2 scale^2 n_val), which keeps many penalties from overfitting validation data.

    Parameters
    ----------
    prior : pair or None
        (center, scale): a number or (m,), and a positive number; None is no prior.
    dim_x : int
        m.
    n_val : float
        The sum of the validation weights, over the variance of the noise where the loss is not a log-likelihood.

    Attributes
    ----------
    center : ndarray
        (m,); without a prior (0,).
    curvature : float
        1/(scale^2 n_val); zero without a prior.
    """

    def __init__(self, prior: Any, dim_x: int, n_val: float) -> None:
        self.center, self.curvature = np.zeros(0), 0.0
        if prior is None:
            return
        try:
            center, scale = prior
            single = np.ndim(center) == 0
        except (TypeError, ValueError):
            raise TypeError(f"prior: found {prior!r}; expected None or a pair (center, scale)") from None
        if single:
            center = np.full(dim_x, real("prior (center)", center))
        self.center = vector("prior (center)", center, dim_x, np.float64, "dim_x")
        with np.errstate(over="ignore", under="ignore"):
            self.curvature = float(np.float64(1 / real("prior (scale)", scale, positive=True)) ** 2 / n_val)
        if not 0 < self.curvature < np.inf:
            raise ValueError(
                f"prior (scale): found {scale!r} with a total validation weight over noise variance of {n_val:.3g}; "
                "expected a number for which 1/(scale^2 n_val) is representable"
            )

    def over(self, ratio: float) -> GaussianPrior:
        """Return the same prior for another total validation weight.

        Parameters
        ----------
        ratio : float
            The other one over that of this prior, positive.

        Returns
        -------
        GaussianPrior
            A new one.
        """
        other = copy.copy(self)
        other.curvature = self.curvature / ratio
        return other

    def farthest(self, lower: Array, upper: Array) -> float:
        """Return the largest size of the prior's gradient in a box.

        Parameters
        ----------
        lower, upper : ndarray
            The box, (m,) each.

        Returns
        -------
        float
            Zero without a prior.
        """
        if not self.curvature:
            return 0.0
        distance = np.maximum(np.abs(lower - self.center), np.abs(upper - self.center))
        return self.curvature * float(np.linalg.norm(distance))

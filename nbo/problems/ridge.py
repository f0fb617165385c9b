"""Ridge regression whose log penalties are tuned on validation data."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from nbo._validation import real
from nbo.problems._data import targets
from nbo.problems._linear import PenalisedLinearModel, checked_rows

Array = npt.NDArray[Any]


class Ridge(PenalisedLinearModel):
    """Log penalties x of a linear model y for one or several targets, tuned on validation data.

    With W (q, p) and y = W.ravel(), g = 1/(2n) sum_i |W a_i - b_i|^2 + 1/2 sum_{r,j} e^{x_{k(r,j)}} w_rj^2 over
    training rows, and f = 1/(2 n_val) sum_i |W a_i - b_i|^2 over validation rows, plus the prior if there is one.
    J u is, for every group, the sum of e^x w u. With sample weights, the means are weighted.

    In scikit-learn's units, e^x = alpha/n, with n the sum of the weights.

    Parameters
    ----------
    A : array_like or sparse
        Training rows, (n, p): dense, CSR or CSC, float64 or float32 (others become float64), read-only
        and memory-mapped arrays included. Dense C-ordered and CSR data are not copied.
    b : array_like
        Training targets, (n,) or (n, q).
    A_val : array_like or sparse
        Validation rows, (n_val, p).
    b_val : array_like
        Validation targets, (n_val,) or (n_val, q).
    penalty : {"feature", "shared", "target", "target-feature"} or array_like of int
        One log penalty a feature (dim_x = p), for all (dim_x = 1), and with several targets one a target (dim_x = q)
        or an entry of W (dim_x = q p); or group ids, one a feature, (p,), or an entry, (q, p).
    prior : pair, optional
        (center, scale): adds noise_variance sum (x - center)^2 / (2 scale^2 n_val) to f. Without one, many penalties
        overfit the validation data.
    noise_variance : float
        The variance of the targets around the model, which makes f and the prior comparable: twice the value of f of a
        good model, divided by q.
    bounds : pair, optional
        Bounds of x; ``(-ln n - 9.2, 12)`` by default.
    sample_weight, sample_weight_val : array_like, optional
        Weights of the rows, at least 0; a whole number counts as so many repeated rows.
    fit_intercept : bool
        Whether W has an intercept as its last column, (q, p + 1), which no penalty touches.

    Attributes
    ----------
    dim_x, dim_y : int
        The number of penalties, and q p or q (p + 1).
    n_samples_upper, n_samples_lower : int
        n_val and n.
    dtype : dtype
        The data's.

    Raises
    ------
    TypeError, ValueError
        For bad data, targets or settings, with the argument's name.

    Examples
    --------
    >>> import nbo, numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> A, b = load_diabetes(return_X_y=True)
    >>> A, b = A / A.std(axis=0), (b - b.mean()) / b.std()
    >>> problem = nbo.problems.Ridge(A[::2], b[::2], A[1::2], b[1::2], penalty="shared")
    >>> res = nbo.minimize(problem, [0.0])
    >>> bool(res.success), res.y.shape
    (True, (10,))
    """

    def __init__(
        self,
        A: Any,
        b: npt.ArrayLike,
        A_val: Any,
        b_val: npt.ArrayLike,
        *,
        penalty: Any = "feature",
        prior: Any = None,
        noise_variance: float = 1.0,
        bounds: Any = None,
        sample_weight: Any = None,
        sample_weight_val: Any = None,
        fit_intercept: bool = False,
    ) -> None:
        rows = checked_rows(A, A_val, sample_weight, sample_weight_val)
        self.b = targets("b", b, rows.A.shape[0], rows.A.dtype)
        self.b_val = targets("b_val", b_val, rows.A_val.shape[0], rows.A.dtype)
        q = self.b.shape[1]
        if self.b_val.shape[1] != q:
            raise ValueError(f"b_val: found {self.b_val.shape[1]} targets; expected {q}, as in b")
        super().__init__(
            rows,
            self.b,
            self.b_val,
            loss="Squared",
            n_outputs=q,
            outputs="target" if q > 1 else "",
            penalty=penalty,
            prior=prior,
            noise_variance=real("noise_variance", noise_variance, positive=True),
            fit_intercept=fit_intercept,
            bounds=bounds,
        )

    def predict(self, A: Any, y: npt.ArrayLike) -> Array:
        """Return the predicted targets of each row, which are its `decision_function`.

        Parameters
        ----------
        A : array_like or sparse
            Rows, (k, p).
        y : array_like
            The model, (n,).

        Returns
        -------
        ndarray
            (k, q), of one target (k,).
        """
        return self.decision_function(A, y)

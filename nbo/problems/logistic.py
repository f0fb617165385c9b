"""Penalised binary logistic regression whose log penalties are tuned on validation data."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nbo.problems._data import binary_labels
from nbo.problems._linear import PenalisedLinearModel, checked_rows

Array = npt.NDArray[Any]


class BinaryLogistic(PenalisedLinearModel):
    """Log penalties x of a logistic model y, tuned on validation data.

    g = (1/n) sum_i log(1 + exp(-b_i a_i'y)) + 1/2 sum_j e^{x_{k(j)}} y_j^2 over training rows, and
    f = the mean loss on validation rows, plus the prior if there is one. J u is
    sum_{j in group} e^{x} y_j u_j. With sample weights, the means are weighted.

    In scikit-learn's units, e^x = 1/(C n), with n the sum of the weights.

    Parameters
    ----------
    A : array_like or sparse
        Training rows, (n, p): dense, CSR or CSC, float64 or float32 (others become float64), read-only
        and memory-mapped arrays included. Dense C-ordered and CSR data are not copied.
    b : array_like
        Training labels -1/+1, (n,); both must occur.
    A_val : array_like or sparse
        Validation rows, (n_val, p).
    b_val : array_like
        Validation labels, (n_val,).
    penalty : {"feature", "shared"} or array_like of int
        One log penalty a feature (dim_x = p), one for all (dim_x = 1), or a group id a feature.
    prior : pair, optional
        (center, scale): adds sum (x - center)^2 / (2 scale^2 n_val) to f. Without one, many penalties
        overfit the validation data.
    bounds : pair, optional
        Bounds of x; ``(-ln n - 9.2, 12)`` by default, C between about e^{-12} and 1e4.
    sample_weight, sample_weight_val : array_like, optional
        Weights of the rows, at least 0; a whole number counts as so many repeated rows.
    fit_intercept : bool
        Whether the model has an intercept, the last entry of y, which no penalty touches.

    Attributes
    ----------
    dim_x, dim_y : int
        The numbers of penalties, and of features with the intercept.
    n_samples_upper, n_samples_lower : int
        n_val and n.
    dtype : dtype
        The data's.

    Raises
    ------
    TypeError, ValueError
        For bad data, labels or settings, with the argument's name.

    Examples
    --------
    >>> import nbo, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> A, A_val = rng.standard_normal((60, 3)), rng.standard_normal((40, 3))
    >>> b, b_val = np.sign(A[:, 0] + 0.3), np.sign(A_val[:, 0] + 0.3)
    >>> problem = nbo.problems.BinaryLogistic(A, b, A_val, b_val, penalty="shared")
    >>> problem.dim_x, problem.dim_y
    (1, 3)
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
        bounds: Any = None,
        sample_weight: Any = None,
        sample_weight_val: Any = None,
        fit_intercept: bool = False,
    ) -> None:
        rows = checked_rows(A, A_val, sample_weight, sample_weight_val)
        self.b = binary_labels("b", b, rows.A.shape[0], rows.A.dtype, both=True)
        self.b_val = binary_labels("b_val", b_val, rows.A_val.shape[0], rows.A.dtype, both=False)
        super().__init__(
            rows,
            self.b,
            self.b_val,
            loss="Logistic",
            n_outputs=1,
            outputs="",
            penalty=penalty,
            prior=prior,
            fit_intercept=fit_intercept,
            bounds=bounds,
        )

    def predict(self, A: Any, y: npt.ArrayLike) -> Array:
        """Return the likelier label of each row.

        Parameters
        ----------
        A : array_like or sparse
            Rows, (k, p).
        y : array_like
            The model, (n,).

        Returns
        -------
        ndarray
            -1 and +1, (k,).
        """
        return np.where(self.decision_function(A, y) > 0, 1, -1)

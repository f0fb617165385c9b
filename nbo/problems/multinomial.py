"""Penalised multinomial logistic regression whose log penalties are tuned on validation data."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy.typing as npt

from nbo.problems._data import class_labels
from nbo.problems._linear import ClassPredictions, PenalisedLinearModel, checked_rows

Array = npt.NDArray[Any]


class MultinomialLogistic(ClassPredictions, PenalisedLinearModel):
    """Log penalties x of a softmax model W, tuned on validation data.

    With W (c, p) and y = W.ravel(), g = (1/n) sum_i (log sum_q exp(a_i'w_q) - a_i'w_{b_i}) +
    1/2 sum_{q,j} e^{x_{k(q,j)}} w_qj^2 over training rows, and f = the mean cross-entropy on validation rows, plus the
    prior if there is one. J u is, for every group, the sum of e^x w u. With sample weights, the means are weighted.

    In scikit-learn's units, e^x = 1/(C n), with n the sum of the weights. Two classes give the model of
    `BinaryLogistic`: w_2 - w_1 is its y where its x is by log 2 smaller.

    Parameters
    ----------
    A : array_like or sparse
        Training rows, (n, p): dense, CSR or CSC, float64 or float32 (others become float64), read-only
        and memory-mapped arrays included. Dense C-ordered and CSR data are not copied.
    b : array_like
        Training labels, (n,): numbers or strings.
    A_val : array_like or sparse
        Validation rows, (n_val, p).
    b_val : array_like
        Validation labels, (n_val,).
    n_classes : int, optional
        c, for labels 0 .. c - 1; the labels that occur by default. A class that a part lacks is kept, with a warning.
    penalty : {"class", "feature", "shared", "class-feature"} or array_like of int
        One log penalty a class (dim_x = c), a feature, for all, or an entry of W (dim_x = c p); or group ids, one a
        feature, (p,), or an entry, (c, p).
    prior : pair, optional
        (center, scale): adds sum (x - center)^2 / (2 scale^2 n_val) to f. Without one, many penalties
        overfit the validation data.
    bounds : pair, optional
        Bounds of x; ``(-ln n - 9.2, 12)`` by default, C between about e^{-12} and 1e4.
    sample_weight, sample_weight_val : array_like, optional
        Weights of the rows, at least 0; a whole number counts as so many repeated rows.
    fit_intercept : bool
        Whether W has an intercept as its last column, (c, p + 1), which no penalty touches. 1/2 (sum of
        intercepts)^2 is then added to g, which changes no prediction and makes the intercepts unique.

    Attributes
    ----------
    classes : ndarray
        The labels in the order of the rows of W, (c,).
    dim_x, dim_y : int
        The number of penalties, and c p or c (p + 1).
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
    >>> from sklearn.datasets import load_wine
    >>> A, b = load_wine(return_X_y=True)
    >>> A = (A - A.mean(axis=0)) / A.std(axis=0)
    >>> problem = nbo.problems.MultinomialLogistic(A[::2], b[::2], A[1::2], b[1::2])
    >>> problem.dim_x, problem.dim_y
    (3, 39)
    >>> res = nbo.minimize(problem, np.full(3, -2.0))
    >>> float(np.mean(problem.predict(A[1::2], res.y) == b[1::2])) > 0.95
    True
    """

    _sums_intercepts: ClassVar[bool] = True

    def __init__(
        self,
        A: Any,
        b: npt.ArrayLike,
        A_val: Any,
        b_val: npt.ArrayLike,
        *,
        n_classes: int | None = None,
        penalty: Any = "class",
        prior: Any = None,
        bounds: Any = None,
        sample_weight: Any = None,
        sample_weight_val: Any = None,
        fit_intercept: bool = False,
    ) -> None:
        rows = checked_rows(A, A_val, sample_weight, sample_weight_val)
        codes, codes_val, self.classes = class_labels(b, b_val, rows.A.shape[0], rows.A_val.shape[0], n_classes)
        super().__init__(
            rows,
            codes,
            codes_val,
            loss="Softmax",
            n_outputs=self.classes.size,
            outputs="class",
            penalty=penalty,
            prior=prior,
            fit_intercept=fit_intercept,
            bounds=bounds,
        )

    def _take_labels(self, whole: Self, b: Array, b_val: Array) -> None:
        self.classes = whole.classes

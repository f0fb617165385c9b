"""Hyper-cleaning: how far to trust each training label, learnt from clean validation data."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nbo._validation import box, real
from nbo.problems._constants import cleaning_constants
from nbo.problems._data import class_labels
from nbo.problems._linear import ClassPredictions, LinearModel, checked_rows
from nbo.problems._penalty import GaussianPrior
from nbo.theory.constants import ProblemConstants


class HyperCleaning(ClassPredictions, LinearModel):
    """Trust x_i in each training label of a softmax model W, learnt on validation data.

    With W (c, p) and y = W.ravel(), g = (1/n) sum_i sigma(x_i) (log sum_q exp(a_i'w_q) - a_i'w_{b_i}) + ridge |W|^2
    over training rows (there is no 1/2), and f = the mean cross-entropy on validation rows. Entry i of J u is
    sigma'(x_i)/n times the derivative of the loss of row i along u. With sample weights, the means are weighted.

    A minibatch iteration costs O(batch p c) with `soba`, `nsbo-sgd` and `amigo-sgd`, whatever n is: it touches the
    entries of x that belong to its batch. Methods that keep a memory or an average in the space of x add plain vector
    operations of length n.

    Parameters
    ----------
    A : array_like or sparse
        Training rows, (n, p): dense, CSR or CSC, float64 or float32 (others become float64), read-only
        and memory-mapped arrays included. Dense C-ordered and CSR data are not copied.
    b : array_like
        Training labels, (n,), some of them wrong: numbers or strings.
    A_val : array_like or sparse
        Validation rows, (n_val, p).
    b_val : array_like
        Validation labels, (n_val,), which are trusted.
    n_classes : int, optional
        c, for labels 0 .. c - 1; the labels that occur by default. A class that a part lacks is kept, with a warning.
    ridge : float
        c_r in c_r |W|^2, positive.
    bounds : pair, optional
        Bounds of x; none by default.
    sample_weight, sample_weight_val : array_like, optional
        Weights of the rows, at least 0; a whole number counts as so many repeated rows, which share one x_i.
    fit_intercept : bool
        Whether W has an intercept as its last column, (c, p + 1), outside the ridge. 1/2 (sum of intercepts)^2 is then
        added to g, which changes no prediction and makes the intercepts unique.

    Attributes
    ----------
    classes : ndarray
        The labels in the order of the rows of W, (c,).
    dim_x, dim_y : int
        n, and c p or c (p + 1).
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
    >>> from sklearn.datasets import load_digits
    >>> A, b = load_digits(return_X_y=True)
    >>> A, noisy = A / 16, b[:1000].copy()
    >>> noisy[:300] = np.random.default_rng(0).integers(10, size=300)
    >>> problem = nbo.problems.HyperCleaning(A[:1000], noisy, A[1000:], b[1000:], ridge=0.01)
    >>> res = nbo.minimize(problem, np.zeros(1000), max_iter=15)
    >>> wrong = noisy != b[:1000]
    >>> bool(res.x[wrong].mean() < res.x[~wrong].mean() - 1)
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
        ridge: float = 0.2,
        bounds: Any = None,
        sample_weight: Any = None,
        sample_weight_val: Any = None,
        fit_intercept: bool = False,
    ) -> None:
        rows = checked_rows(A, A_val, sample_weight, sample_weight_val)
        n = rows.A.shape[0]
        codes, codes_val, self.classes = class_labels(b, b_val, n, rows.A_val.shape[0], n_classes)
        self.ridge = real("ridge", ridge, positive=True)
        super().__init__(
            rows,
            codes,
            codes_val,
            loss="Softmax",
            n_outputs=self.classes.size,
            fit_intercept=fit_intercept,
            learned_weights=True,
            penalty={"factor": 2 * self.ridge},
            prior=GaussianPrior(None, n, 1.0),
            dim_x=n,
            bounds=box("bounds", (-np.inf, np.inf) if bounds is None else bounds, n),
            x_per_sample=True,
        )

    def constants(self, bounds: Any = None) -> ProblemConstants:
        """Return constants valid for every x, where y matters in the tube |y - y*(x)| <= mu/(2 L_g2).

        With an intercept, outside the ridge, mu is an estimate: a lower bound of the curvature at one x and one y near
        y*(x). It vanishes as x falls, so that there is no bound.

        Parameters
        ----------
        bounds : pair, optional
            A box of x; the problem's bounds by default. An estimate is made at its lower corner, or at 0 where there is
            no lower bound.

        Returns
        -------
        ProblemConstants
            Of kind ``"bound"``, with an intercept ``"estimate"``. The noise is that of uniformly drawn rows, each
            times its weight.

        Raises
        ------
        NoConstantsError
            If squares of the data are not representable.
        """
        return cleaning_constants(self, self.ridge, bounds)

"""Ridge regression whose penalties are tuned on held-out rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from nbo._vectors import binary_unit
from nbo.problems import Ridge
from nbo.problems._linear import PenalisedLinearModel
from nbo.sklearn._base import UNBOUNDED, PenaltyTuner
from nbo.sklearn._given import require_spread
from nbo.sklearn._rows import FORMAT, GivenRows

Array = npt.NDArray[Any]


class BilevelRidge(RegressorMixin, PenaltyTuner):
    """Ridge regression whose penalties are tuned on held-out rows by bilevel optimisation.

    One shared penalty is found that minimises the mean squared error of held-out rows, as a continuous problem instead
    of over a grid of values. Finer penalties follow from there, under a prior around the shared one. The model is then
    fitted on all rows at the tuned strength. The search starts at the best of alpha = 0.1, 1, 10, ..., n for features
    and weights of the order of one: neither their units nor those of the targets matter.

    Parameters
    ----------
    penalty : {"shared", "feature", "output", "output-feature"} or array_like of int, default="shared"
        One penalty for all coefficients, one a feature, a target or an entry of `coef_`, or the group of each feature,
        (p,), or entry, (q, p), as ids 0 .. G-1. With one target, "output" is "shared" and "output-feature" is
        "feature".
    cv : int, float, splitter or iterable, default=5
        Which rows are held out: K shuffled folds; a share between 0 and 1, one split; an object with
        ``split(X, y)``; or pairs (train, held_out) of row numbers. Ignored if `fit` is given validation rows.
    refit : bool, default=True
        Whether the final model is fitted on all rows, validation rows included, at the tuned `alpha_`. If not, it is
        the mean of the models of the folds, of a single split the one of the training rows.
    penalty_prior : "auto", float or None, default="auto"
        The standard deviation of the prior that draws finer log penalties to the shared one; "auto" is 0.5, and 0.15
        for one penalty a feature or entry with K folds. Without a prior (None), finer penalties overfit the held-out
        rows.
    fit_intercept : bool, default=True
        Whether there is an intercept, which no penalty touches.
    tol : float, default=1e-4
        A stage has converged when the projected hypergradient and its error together are at most this part of the
        criterion at the start; at least 1e-3 in float32.
    max_iter : int, default=100
        The most iterations of a stage.
    random_state : None, int or RandomState, default=None
        Shuffles the rows where `cv` is a number.
    verbose : int, default=0
        Whether a line is printed each iteration.

    Attributes
    ----------
    coef_ : ndarray, shape (p,) or (q, p)
        The coefficients.
    intercept_ : float or ndarray, shape (q,)
        The intercepts; zero without them.
    log_penalty_ : ndarray, shape (G,)
        The tuned log penalties x: half the mean squared error of the training rows of a fold is minimised together
        with 1/2 sum e^x w^2.
    penalty_ : ndarray
        e^x for every coefficient, of the shape of `coef_`.
    alpha_ : ndarray, shape (G,)
        n_train e^x, with n_train the mean weight of the training rows of a fold: what scikit-learn calls alpha.
    report_ : TuningReport
        What tuning did, for ``print``.
    result_ : BilevelResult
        Of the last stage; targets are shifted to mean 0 (with an intercept) and scaled to variance 1 in it, and
        features and weights to the order of one if they are far from it.
    validation_path_ : dict
        Stage -> name -> array: ``iteration``, ``seconds``, ``value`` (of the criterion, with the prior, for targets of
        variance 1), ``hypergrad_norm`` and, of the stage ``"shared"``, ``x``.
    n_iter_ : int
        Iterations of all stages.
    n_features_in_ : int
        p.
    feature_names_in_ : ndarray
        The names of the features, if X had some.

    See Also
    --------
    sklearn.linear_model.RidgeCV : Searches a grid of shared penalties.
    nbo.problems.CrossValidation : The criterion as a problem for `nbo.minimize`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from nbo.sklearn import BilevelRidge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BilevelRidge(random_state=0).fit(X / X.std(axis=0), y)
    >>> bool(model.score(X / X.std(axis=0), y) > 0.5), model.alpha_.shape
    (True, (1,))
    """

    coef_: Array
    intercept_: Any
    penalty_: Array

    _outputs: ClassVar[str] = "output"
    _problem_outputs: ClassVar[str] = "target"
    _y_checks: ClassVar[dict[str, Any]] = {"numeric": True}
    _loss_name: ClassVar[str] = "half squared error"
    _strength: ClassVar[str] = "alpha"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: Any) -> Array:
        """Return the predicted targets.

        Parameters
        ----------
        X : array_like or sparse, shape (n, p)
            The rows.

        Returns
        -------
        ndarray
            (n,) or (n, q), as y was.
        """
        check_is_fitted(self)
        A = validate_data(self, X, reset=False, **FORMAT)
        predicted = safe_sparse_dot(A, self.coef_.T.astype(A.dtype, copy=False), dense_output=True)
        return predicted + np.asarray(self.intercept_, dtype=A.dtype)

    def _encoded(self, rows: GivenRows, validation: GivenRows | None) -> tuple[GivenRows, GivenRows | None]:
        """Shift and scale the targets of all rows, so that a tolerance means the same in any units."""
        b = _columns(rows.b)
        self._single_target = rows.b.ndim == 1
        center = np.average(b, axis=0, weights=rows.weights) if self.fit_intercept else np.zeros(b.shape[1])
        unit = binary_unit(b - center)  # squares and their weighted sums stay representable
        scale = float(np.sqrt(np.mean(np.average(((b - center) / unit) ** 2, axis=0, weights=rows.weights))))
        scale *= unit
        require_spread(scale, rows.A.dtype)
        self._center, self._scale = center, scale if scale > 0 else 1.0
        encoded = rows._replace(b=(b - center) / self._scale)
        if validation is None:
            return encoded, None
        b_val = _columns(validation.b)
        if b_val.shape[1] != b.shape[1]:
            raise ValueError(f"y_val: found {b_val.shape[1]} targets; expected {b.shape[1]}, as in y")
        return encoded, validation._replace(b=(b_val - center) / self._scale)

    def _names_of_outputs(self) -> Any:
        return range(self._center.size)

    def _noise_variance(self, loss: float, n_outputs: int) -> float:
        return max(2.0 * loss / n_outputs, float(np.finfo(np.float64).eps))  # a fit without error has none

    def _reported_loss(self, loss: float) -> float:
        return loss * self._scale**2

    def _problem(self, rows: GivenRows) -> PenalisedLinearModel:
        return Ridge(
            rows.A,
            rows.b,
            rows.A,
            rows.b,
            penalty="shared",
            bounds=UNBOUNDED,
            sample_weight=rows.weights,
            fit_intercept=self.fit_intercept,
        )

    def _set_coefficients(self, W: Array, intercept: Array, penalties: Array, dtype: np.dtype[Any]) -> None:
        coef, constant = (self._scale * W).astype(dtype), (self._scale * intercept + self._center).astype(dtype)
        if self._single_target:
            self.coef_, self.intercept_, self.penalty_ = coef[0], constant.item(), penalties[0]
        else:
            self.coef_, self.intercept_, self.penalty_ = coef, constant, penalties

    def _set_strength(self, n_train: float) -> None:
        self.alpha_ = self._strength_of(self.log_penalty_, n_train)

    def _strength_of(self, x: Any, n_train: float) -> Any:
        return np.exp(x) * n_train


def _columns(y: Array) -> Array:
    """Return targets as float64 columns, (n, q)."""
    return np.asarray(y, dtype=np.float64).reshape(len(y), -1)

"""Logistic regression whose penalties are tuned on held-out rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nbo.problems import BinaryLogistic, MultinomialLogistic
from nbo.problems._linear import PenalisedLinearModel
from nbo.sklearn._base import UNBOUNDED, PenaltyTuner
from nbo.sklearn._classifier import LinearClassifier
from nbo.sklearn._criterion import Criterion, without_unlearnt
from nbo.sklearn._rows import GivenRows

Array = npt.NDArray[Any]


class BilevelLogisticRegression(LinearClassifier, PenaltyTuner):
    """Logistic regression whose penalties are tuned on held-out rows by bilevel optimisation.

    One shared penalty is found that minimises the mean log loss of held-out rows, as a continuous problem instead of
    over a grid of values. Finer penalties follow from there, under a prior around the shared one. The model is then
    fitted on all rows at the tuned strength. The search starts at the best of C = 10, 1, 0.1, ..., 1/n for
    features and weights of the order of one: their units do not matter. Two classes give one row of
    coefficients, more give a softmax model.

    Parameters
    ----------
    penalty : {"shared", "feature", "class", "class-feature"} or array_like of int, default="shared"
        One penalty for all coefficients, one a feature, a class or an entry of `coef_`, or the group of each feature,
        (p,), or entry, (c, p), as ids 0 .. G-1. With two classes, "class" is "shared" and "class-feature" is
        "feature".
    cv : int, float, splitter or iterable, default=5
        Which rows are held out: K folds, shuffled and stratified by class; a share between 0 and 1, one stratified
        split; an object with ``split(X, y)``; or pairs (train, held_out) of row numbers. Ignored if `fit` is given
        validation rows.
    refit : bool, default=True
        Whether the final model is fitted on all rows, validation rows included, at the tuned `C_`. If not, it is the
        mean of the models of the folds, of a single split the one of the training rows.
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
    classes_ : ndarray, shape (c,)
        The labels.
    coef_ : ndarray, shape (1, p) or (c, p)
        The coefficients, of two classes those of the second one.
    intercept_ : ndarray, shape (1,) or (c,)
        The intercepts; zeros without them.
    log_penalty_ : ndarray, shape (G,)
        The tuned log penalties x: the loss of a fold is a mean over its training rows, to which
        1/2 sum e^x w^2 is added.
    penalty_ : ndarray
        e^x for every coefficient, of the shape of `coef_`.
    C_ : ndarray, shape (G,)
        1/(n_train e^x), with n_train the mean weight of the training rows of a fold: what scikit-learn calls C.
    report_ : TuningReport
        What tuning did, for ``print``.
    result_ : BilevelResult
        Of the last stage, for features and weights of the order of one.
    validation_path_ : dict
        Stage -> name -> array: ``iteration``, ``seconds``, ``value`` (of the criterion, with the prior),
        ``hypergrad_norm`` and, of the stage ``"shared"``, ``x``.
    n_iter_ : int
        Iterations of all stages.
    n_features_in_ : int
        p.
    feature_names_in_ : ndarray
        The names of the features, if X had some.

    See Also
    --------
    sklearn.linear_model.LogisticRegressionCV : Searches a grid of shared penalties.
    nbo.problems.CrossValidation : The criterion as a problem for `nbo.minimize`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from nbo.sklearn import BilevelLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), BilevelLogisticRegression(random_state=0)).fit(X, y)
    >>> bool(model.score(X, y) > 0.98), model[-1].C_.shape
    (True, (1,))
    """

    _outputs: ClassVar[str] = "class"
    _problem_outputs: ClassVar[str] = "class"
    _y_checks: ClassVar[dict[str, Any]] = {}
    _loss_name: ClassVar[str] = "log loss"
    _strength: ClassVar[str] = "C"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _encoded(self, rows: GivenRows, validation: GivenRows | None) -> tuple[GivenRows, GivenRows | None]:
        self.classes_, codes = np.unique(rows.b, return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError(
                f"y: found one class, {self.classes_.tolist()[0]!r}, among rows of positive weight; the classifier "
                "needs samples of at least 2 classes"
            )
        if validation is None:
            return rows._replace(b=codes), None
        return rows._replace(b=codes), validation._replace(b=self._known_codes("y_val", validation.b))

    def _labels_to_stratify(self, rows: GivenRows) -> Array | None:
        return rows.b

    def _judged(self, chosen: Criterion, b: Array) -> Criterion:
        return without_unlearnt(chosen, b, self.classes_)

    def _names_of_outputs(self) -> Any:
        return self.classes_.tolist()

    def _problem(self, rows: GivenRows) -> PenalisedLinearModel:
        settings: dict[str, Any] = {
            "penalty": "shared",
            "bounds": UNBOUNDED,
            "sample_weight": rows.weights,
            "fit_intercept": self.fit_intercept,
        }
        if self.classes_.size == 2:
            signs = 2.0 * rows.b - 1.0
            return BinaryLogistic(rows.A, signs, rows.A, signs, **settings)
        return MultinomialLogistic(rows.A, rows.b, rows.A, rows.b, **settings)

    def _set_coefficients(self, W: Array, intercept: Array, penalties: Array, dtype: np.dtype[Any]) -> None:
        self.coef_, self.intercept_, self.penalty_ = W.astype(dtype, order="C"), intercept.astype(dtype), penalties

    def _set_strength(self, n_train: float) -> None:
        self.C_ = self._strength_of(self.log_penalty_, n_train)

    def _strength_of(self, x: Any, n_train: float) -> Any:
        return np.exp(-x) / n_train

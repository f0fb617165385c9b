"""Which training labels to trust, and a classifier that does."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from nbo._clock import Timer
from nbo._validation import flag, integer, real
from nbo.sklearn._classifier import LinearClassifier
from nbo.sklearn._cleaning import Outcome, clean, clean_without_trusted
from nbo.sklearn._cleaning_models import Model, Settings, fitted, n_held_out
from nbo.sklearn._cleaning_report import CleaningReport
from nbo.sklearn._distinct import DistinctRows, distinct
from nbo.sklearn._given import checked_verbose, checked_weights, require_moderate, require_random_state
from nbo.sklearn._rows import further_rows, named_rows
from nbo.sklearn._units import Units, units_of

Array = npt.NDArray[Any]

#: The type that weights are learnt in, whatever the type of the rows.
_COMPUTED = np.float32

#: Penalties and their gradients are representable up to this, in the same type.
_LARGEST_RIDGE = 1e30


class _Parts(NamedTuple):
    """Given rows, scaled and centred: distinct ones of positive weight, those without any, and trusted ones.

    `judged` tells which of the given rows have a positive weight, `place` which of the distinct rows each of those is.
    """

    rows: DistinctRows
    silent: DistinctRows
    trusted: DistinctRows | None
    judged: Array
    place: Array
    center: Array | None
    units: Units


class LabelCleaner(LinearClassifier, BaseEstimator):
    """Classifier that learns how far to trust each training label from rows with trusted ones.

    Every training row gets a weight between 0 and 1. It starts at the probability that the label is right: given a
    softmax model, first of the trusted rows, then also of weighted rows other than the judged one, and given how labels
    go wrong, which the labels of all rows tell. Hyper-cleaning (`nbo.problems.HyperCleaning`) then moves the weights so
    that the model of the weighted rows predicts the trusted labels better, and stops early: many weights
    overfit the trusted rows. The final model is fitted on all rows times their weights, and the trusted rows.

    Parameters
    ----------
    ridge : "auto" or float, default="auto"
        c_r in the penalty c_r |W|^2 of the model that the weights are learnt with, see `nbo.problems.HyperCleaning`.
        "auto" makes it several times stronger than is best for predictions of the trusted rows.
    refit : bool, default=True
        Whether the final model is fitted anew, on weighted and trusted rows with the penalty that is best for the
        trusted rows. If not, it is the model that the weights were learnt with, which is poorer.
    trusted_fraction : float, default=0.2
        The share of the rows to hold out, as if their labels were right, where `fit` is given no trusted rows. The
        parts then swap roles, so that every row gets a weight.
    max_iter : int, default=2
        Iterations of hyper-cleaning; 1 only evaluates the start. More than a few make the weights worse.
    tol : float, default=1e-5
        Hyper-cleaning ends earlier where the hypergradient is at most this.
    fit_intercept : bool, default=True
        Whether the models have intercepts.
    random_state : None, int or RandomState, default=None
        Splits the rows.
    verbose : int, default=0
        Whether a line is printed each iteration.

    Attributes
    ----------
    weights_ : ndarray, shape (n,)
        How far each label of the training rows is trusted, from 0 to 1, in the order of `X`. Copies of a row share one.
    classes_ : ndarray, shape (c,)
        The labels.
    coef_ : ndarray, shape (1, p) or (c, p)
        The coefficients, of two classes those of the second one.
    intercept_ : ndarray, shape (1,) or (c,)
        The intercepts; zeros without them.
    ridge_ : float
        The c_r that was used.
    C_ : float
        The strength of the penalty of the final model, scikit-learn's C, tuned on trusted rows.
    validation_path_ : dict
        Name -> array, an entry an iteration: ``iteration``, ``seconds``, ``value`` (the mean log loss of trusted rows),
        ``hypergrad_norm``.
    report_ : CleaningReport
        What was found, for ``print``.
    result_ : BilevelResult
        Of hyper-cleaning.
    n_iter_ : int
        Its iterations.
    n_features_in_ : int
        p.
    feature_names_in_ : ndarray
        The names of the features, if X had some.

    See Also
    --------
    nbo.problems.HyperCleaning : The problem that is solved.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from nbo.sklearn import LabelCleaner
    >>> X, y = load_digits(return_X_y=True)
    >>> X, noisy = X / 16, y[:1000].copy()
    >>> noisy[:300] = np.random.default_rng(0).integers(10, size=300)
    >>> cleaner = LabelCleaner(random_state=0).fit(X[:1000], noisy, X_trusted=X[1000:1300], y_trusted=y[1000:1300])
    >>> wrong = noisy != y[:1000]
    >>> bool(wrong[cleaner.suspects(200)].mean() > 0.95), bool(cleaner.score(X[1300:], y[1300:]) > 0.85)
    (True, True)
    """

    def __init__(
        self,
        *,
        ridge: Any = "auto",
        refit: bool = True,
        trusted_fraction: float = 0.2,
        max_iter: int = 2,
        tol: float = 1e-5,
        fit_intercept: bool = True,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.ridge = ridge
        self.refit = refit
        self.trusted_fraction = trusted_fraction
        self.max_iter = max_iter
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, X_trusted: Any = None, y_trusted: Any = None) -> Self:
        """Learn the weights, and fit the model with them.

        Parameters
        ----------
        X : array_like or sparse, shape (n, p)
            The rows.
        y : array_like, shape (n,)
            Their labels, some of them wrong.
        sample_weight : array_like, shape (n,), optional
            Weights of the rows besides; a whole number counts as so many copies. Nothing is learnt from rows of weight
            zero, but they are judged.
        X_trusted, y_trusted : array_like, optional
            Rows whose labels are right. A few of each class are enough to begin with; some hundreds are better.

        Returns
        -------
        LabelCleaner
            The fitted estimator.

        Raises
        ------
        TypeError, ValueError
            For bad rows, labels or settings, with the name of the argument.

        Warns
        -----
        UserWarning
            If there are no trusted rows, or none of some class.
        """
        timer = Timer()
        settings = self._checked_settings()
        parts = self._parts(X, y, sample_weight, X_trusted, y_trusted)
        settings = settings._replace(n_classes=self.classes_.size)
        if settings.ridge is not None:
            settings = settings._replace(ridge=settings.ridge / parts.units.feature**2)
        outcome = self._outcome(parts, settings)
        found, history = outcome.found, outcome.found.result.history
        self._set_weights(parts, outcome)
        self._set_model(fitted(outcome.weighted, found.C, settings, final=True) if self.refit else found.model, parts)
        self.ridge_, self.C_ = found.ridge * parts.units.feature**2, found.C / parts.units.strength
        self.result_, self.n_iter_ = found.result, found.result.nit
        self.validation_path_ = {key: history[key] for key in ("iteration", "seconds", "value", "hypergrad_norm")}
        self.report_ = self._report(parts, outcome, timer.seconds())
        return self

    def suspects(self, k: int | None = None) -> Array:
        """Return the rows whose labels are the most suspicious.

        Parameters
        ----------
        k : int, optional
            How many; by default all with a weight below 1/2.

        Returns
        -------
        ndarray of int
            Numbers of training rows, the lowest weight first.

        Raises
        ------
        TypeError, ValueError
            If `k` is no integer from 0 to the number of rows.
        """
        check_is_fitted(self)
        order = np.argsort(self._logits, kind="stable")
        if k is None:
            return order[: int((self._logits < 0).sum())]
        return order[: integer("k", k, maximum=order.size)]

    def _checked_settings(self) -> Settings:
        flag("refit", self.refit)
        require_random_state(self.random_state)
        if not 0 < real("trusted_fraction", self.trusted_fraction) < 1:
            raise ValueError(f"trusted_fraction: found {self.trusted_fraction}; expected a number between 0 and 1")
        return Settings(
            ridge=_checked_ridge(self.ridge),
            fit_intercept=flag("fit_intercept", self.fit_intercept),
            tol=real("tol", self.tol, positive=True),
            max_iter=integer("max_iter", self.max_iter, minimum=1),
            verbose=checked_verbose(self.verbose),
            n_classes=0,  # not known yet
            random=check_random_state(self.random_state),
        )

    def _parts(self, X: Any, y: Any, sample_weight: Any, X_trusted: Any, y_trusted: Any) -> _Parts:
        A, labels = named_rows(self, ("X", "y"), X, y, None)
        require_moderate("X", A, _COMPUTED)
        weights = None if sample_weight is None else checked_weights("sample_weight", sample_weight, A, _COMPUTED)
        counted = np.ones(labels.shape, dtype=bool) if weights is None else weights > 0
        self.classes_, codes = _classes(labels, counted)
        trusted = self._trusted(X_trusted, y_trusted, A)
        units = units_of(A[counted], None if weights is None else weights[counted], self.fit_intercept)
        A, weights = units.features(A), units.weights(weights)
        trusted = None if trusted is None else trusted._replace(A=units.features(trusted.A))
        rows, place = distinct(A[counted], codes[counted], None if weights is None else weights[counted])
        silent = DistinctRows(A[~counted], codes[~counted], np.zeros(int((~counted).sum())))
        center = None
        if self.fit_intercept and not sp.issparse(A):
            # An intercept makes up for it, and linear systems are far better conditioned.
            center = np.average(rows.A, axis=0, weights=rows.weights).astype(A.dtype)
            rows, silent = rows.moved(center), silent.moved(center)
            trusted = None if trusted is None else trusted.moved(center)
        return _Parts(rows, silent, trusted, counted, place, center, units)

    def _trusted(self, X_trusted: Any, y_trusted: Any, A: Any) -> DistinctRows | None:
        given = further_rows(self, ("X_trusted", "y_trusted"), X_trusted, y_trusted, _COMPUTED)
        if given is None:
            return None
        A_trusted, labels = given
        codes = self._known_codes("y_trusted", labels)
        missing = self.classes_[np.setdiff1d(np.arange(self.classes_.size), codes)].tolist()
        if missing:
            warnings.warn(
                f"y_trusted: found no row of {', '.join(map(repr, missing[:5]))}{', ...' if len(missing) > 5 else ''}; "
                "labels of a class without trusted rows can hardly be judged: add some",
                stacklevel=4,
            )
        if sp.issparse(A) != sp.issparse(A_trusted):
            A_trusted = sp.csr_array(A_trusted) if sp.issparse(A) else A_trusted.toarray()
        return DistinctRows(A_trusted.astype(A.dtype, copy=False), codes, np.ones(codes.size))

    def _outcome(self, parts: _Parts, settings: Settings) -> Outcome:
        if parts.trusted is not None:
            return clean(parts.rows, parts.trusted, parts.silent, settings)
        if parts.rows.codes.size < 2:
            raise ValueError("X_trusted: found None, and no different rows to hold any out; expected trusted rows")
        n = parts.rows.codes.size
        k = n_held_out(self.trusted_fraction, n)
        warnings.warn(
            f"X_trusted: found None; {k} of {n} different rows {'are' if k > 1 else 'is'} held out and trusted, though "
            "their labels may be wrong, too. Give rows with right labels: a few hundred are worth a lot",
            stacklevel=3,
        )
        return clean_without_trusted(parts.rows, parts.silent, self.trusted_fraction, settings)

    def _set_weights(self, parts: _Parts, outcome: Outcome) -> None:
        self._logits = np.empty(parts.judged.size)
        self._logits[parts.judged] = outcome.x[parts.place]
        self._logits[~parts.judged] = outcome.x_silent
        self.weights_ = expit(self._logits)

    def _set_model(self, model: Model, parts: _Parts) -> None:
        W, intercept = model.problem.coefficients(model.y)
        if parts.center is not None:
            intercept = intercept - W @ parts.center
        W, intercept = parts.units.coefficients(W, intercept)
        if len(W) == 2:
            W, intercept = W[1:] - W[:1], intercept[1:] - intercept[:1]
        self.coef_, self.intercept_ = W, intercept

    def _report(self, parts: _Parts, outcome: Outcome, seconds: float) -> CleaningReport:
        suspect, disagrees = outcome.x[parts.place] < 0, outcome.disagrees[parts.place]
        found = outcome.found
        return CleaningReport(
            n_rows=suspect.size,
            n_trusted=outcome.n_trusted,
            held_out=parts.trusted is None,
            n_classes=self.classes_.size,
            C=self.C_,
            ridge=self.ridge_,
            uncleaned_loss=found.losses[0],
            start_loss=found.losses[1],
            trusted_loss=found.losses[2],
            n_suspects=int(suspect.sum()),
            n_disagree=int(disagrees.sum()),
            n_both=int((suspect & disagrees).sum()),
            n_iter=found.result.nit,
            seconds=seconds,
        )


def _checked_ridge(ridge: Any) -> float | None:
    """Return c_r; None for an automatic one."""
    wanted = f"'auto' or a number from {1 / _LARGEST_RIDGE:g} to {_LARGEST_RIDGE:g}"
    if isinstance(ridge, str):
        if ridge == "auto":
            return None
        raise ValueError(f"ridge: found {ridge!r}; expected {wanted}")
    try:
        number = real("ridge", ridge, positive=True)
    except (TypeError, ValueError) as error:
        raise type(error)(f"ridge: found {ridge!r}; expected {wanted}") from error
    if not 1 / _LARGEST_RIDGE <= number <= _LARGEST_RIDGE:
        raise ValueError(f"ridge: found {number:g}; expected {wanted}")
    return number


def _classes(labels: Array, counted: Array) -> tuple[Array, Array]:
    """Return the classes, which have rows of positive weight, and labels as their numbers."""
    classes = np.unique(labels[counted])
    if classes.size < 2:
        raise ValueError(
            f"y: found one class, {classes.tolist()[0]!r}, among rows of positive weight; the classifier needs samples "
            "of at least 2 classes"
        )
    if not np.isin(labels, classes).all():
        lost = np.setdiff1d(labels, classes).tolist()
        raise ValueError(
            f"y: found the label {lost[0]!r} in rows of weight zero alone; expected a row of positive weight of every "
            "class"
        )
    return classes, np.searchsorted(classes, labels)

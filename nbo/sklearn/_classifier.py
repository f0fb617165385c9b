"""Predictions of a linear classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from nbo.sklearn._rows import FORMAT

Array = npt.NDArray[Any]


class LinearClassifier(ClassifierMixin):
    """Predictions from `coef_`, `intercept_` and `classes_`."""

    coef_: Array
    intercept_: Array
    classes_: Array

    def decision_function(self, X: Any) -> Array:
        """Return the linear predictors.

        Parameters
        ----------
        X : array_like or sparse, shape (n, p)
            The rows.

        Returns
        -------
        ndarray
            (n, c), of two classes (n,), positive where the second one is likelier.
        """
        check_is_fitted(self)
        A = validate_data(self, X, reset=False, **FORMAT)
        scores = safe_sparse_dot(A, self.coef_.T, dense_output=True) + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Array:
        """Return the likeliest class of each row.

        Parameters
        ----------
        X : array_like or sparse, shape (n, p)
            The rows.

        Returns
        -------
        ndarray
            Entries of `classes_`, (n,).
        """
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : array_like or sparse, shape (n, p)
            The rows.

        Returns
        -------
        ndarray
            (n, c), in the order of `classes_`.
        """
        scores = self.decision_function(X)
        return np.column_stack((expit(-scores), expit(scores))) if scores.ndim == 1 else softmax(scores, axis=1)

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of the probabilities, accurate where those vanish.

        Parameters
        ----------
        X : array_like or sparse, shape (n, p)
            The rows.

        Returns
        -------
        ndarray
            (n, c), in the order of `classes_`.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack((log_expit(-scores), log_expit(scores)))
        return log_softmax(scores, axis=1)

    def _known_codes(self, name: str, labels: Array) -> Array:
        """Return labels of rows besides those of y as numbers of its classes."""
        numbers = {label: code for code, label in enumerate(self.classes_.tolist())}
        unknown = sorted({repr(label) for label in labels.tolist() if label not in numbers})
        if unknown:
            raise ValueError(
                f"{name}: found the label{'s' * (len(unknown) > 1)} {', '.join(unknown[:5])}, which y lacks; expected "
                f"labels of y: {', '.join(map(repr, list(numbers)[:5]))}{', ...' if len(numbers) > 5 else ''}"
            )
        return np.array([numbers[label] for label in labels.tolist()])

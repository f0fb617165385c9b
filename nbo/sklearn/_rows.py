"""The rows that an estimator is given, checked by scikit-learn and stacked for one problem."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from nbo._validation import require_unmasked
from nbo.sklearn._given import checked_labels, checked_targets, checked_weights, naming, require_moderate

Array = npt.NDArray[Any]

#: Read as they are: C-ordered or CSR, float64 or float32.
FORMAT: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "order": "C"}


class GivenRows(NamedTuple):
    """Rows of positive weight.

    Attributes
    ----------
    A : ndarray or CSR
        (n, p), float64 or float32.
    b : ndarray
        Labels or targets as given, one a row.
    weights : ndarray or None
        (n,); None if all are 1.
    numbers : ndarray of int
        Which of the given rows they are, (n,).
    n_given : int
        The number of given rows.
    """

    A: Any
    b: Array
    weights: Array | None
    numbers: Array
    n_given: int


def training_rows(estimator: Any, X: Any, y: Any, sample_weight: Any, **checks: Any) -> GivenRows:
    """Return the training rows, and set `n_features_in_` and `feature_names_in_`.

    Parameters
    ----------
    estimator : BaseEstimator
        What is fitted.
    X, y, sample_weight : array_like
        As given to `fit`.
    **checks
        More arguments of `named_rows`.

    Returns
    -------
    GivenRows
        Which share memory with `X` where they can.

    Raises
    ------
    TypeError, ValueError
        For bad data, with the argument's name.
    """
    A, b = named_rows(estimator, ("X", "y"), X, y, None, **checks)
    return _weighty("sample_weight", A, b, sample_weight, A.dtype)


def named_rows(
    estimator: Any, names: tuple[str, str], X: Any, y: Any, dtype: npt.DTypeLike | None, *, numeric: bool = False
) -> tuple[Any, Array]:
    """Return checked rows and their labels or targets; each argument is checked for itself, under its name.

    Parameters
    ----------
    estimator : BaseEstimator
        What is fitted.
    names : tuple of str
        What messages call `X` and `y`.
    X, y : array_like
        As given to `fit`.
    dtype : dtype or None
        What is computed in; None for the training rows, which tell it and the features.
    numeric : bool
        Whether `y` holds targets, one or several a row, and no labels.

    Returns
    -------
    tuple
        The rows, and what they have each.

    Raises
    ------
    TypeError, ValueError
        For bad data.
    """
    first = dtype is None
    require_unmasked(names[0], X)
    with naming(names[0], "rows of real numbers, (n, p), dense or sparse"):
        A = validate_data(estimator, X, reset=first, ensure_min_samples=2 if first else 1, **FORMAT)
    dtype = A.dtype if dtype is None else dtype
    require_moderate(names[0], A, dtype)
    b = checked_targets(names[1], y, dtype) if numeric else checked_labels(names[1], y, first=first)
    if b.shape[0] != A.shape[0]:
        raise ValueError(
            f"{names[1]}: found {b.shape[0]} entries (inconsistent numbers of samples); expected {A.shape[0]}, one a "
            f"row of {names[0]}"
        )
    return A, b


def validation_rows(
    estimator: Any, X_val: Any, y_val: Any, sample_weight_val: Any, dtype: npt.DTypeLike, **checks: Any
) -> GivenRows | None:
    """Return the validation rows, if there are any.

    Parameters
    ----------
    estimator : BaseEstimator
        Which knows its features.
    X_val, y_val, sample_weight_val : array_like or None
        As given to `fit`.
    dtype : dtype
        Of the training rows.
    **checks
        More arguments of `named_rows`.

    Returns
    -------
    GivenRows or None
        None without `X_val` and `y_val`.

    Raises
    ------
    TypeError, ValueError
        For bad data, or some of them without the others.
    """
    if X_val is None and y_val is None and sample_weight_val is not None:
        raise ValueError("sample_weight_val: found weights without X_val and y_val; expected all three or none")
    found = further_rows(estimator, ("X_val", "y_val"), X_val, y_val, dtype, **checks)
    return None if found is None else _weighty("sample_weight_val", *found, sample_weight_val, dtype)


def further_rows(
    estimator: Any, names: tuple[str, str], X: Any, y: Any, dtype: npt.DTypeLike, **checks: Any
) -> tuple[Any, Array] | None:
    """Return rows besides those that an estimator is fitted on, if there are any.

    Parameters
    ----------
    estimator : BaseEstimator
        Which knows its features.
    names : tuple of str
        What messages call `X` and `y`.
    X, y : array_like or None
        As given to `fit`.
    dtype : dtype
        What is computed in.
    **checks
        More arguments of `named_rows`.

    Returns
    -------
    tuple or None
        The checked rows and their labels; None without both.

    Raises
    ------
    TypeError, ValueError
        For bad data, or one of them without the other.
    """
    if X is None and y is None:
        return None
    if X is None or y is None:
        missing, found = names if X is None else reversed(names)
        raise ValueError(f"{missing}: found None beside {found}; expected both {names[0]} and {names[1]}, or neither")
    return named_rows(estimator, names, X, y, dtype, **checks)


def _weighty(name: str, A: Any, b: Array, sample_weight: Any, dtype: npt.DTypeLike) -> GivenRows:
    """Drop rows of zero weight, which are nobody's."""
    n = A.shape[0]
    if sample_weight is None:
        return GivenRows(A, b, None, np.arange(n), n)
    weights = checked_weights(name, sample_weight, A, dtype)
    numbers = np.flatnonzero(weights)
    if numbers.size < n:
        A, b, weights = A[numbers], b[numbers], weights[numbers]
    return GivenRows(A, b, weights, numbers, n)


def stacked(rows: GivenRows, validation: GivenRows | None) -> GivenRows:
    """Return training and validation rows as one.

    Parameters
    ----------
    rows : GivenRows
        The training rows, whose type is kept.
    validation : GivenRows or None
        What follows them.

    Returns
    -------
    GivenRows
        Without validation rows those that were given; else `numbers` counts those of the stack.
    """
    if validation is None:
        return rows
    parts = (rows, validation)
    dtype = rows.A.dtype
    if any(sp.issparse(part.A) for part in parts):
        A = sp.vstack([sp.csr_array(part.A) for part in parts], format="csr", dtype=dtype)
    else:
        A = np.concatenate([part.A for part in parts], dtype=dtype)
    n = A.shape[0]
    weights = None
    if any(part.weights is not None for part in parts):
        weights = np.concatenate([np.ones(part.A.shape[0]) if part.weights is None else part.weights for part in parts])
    return GivenRows(A, np.concatenate([part.b for part in parts]), weights, np.arange(n), n)

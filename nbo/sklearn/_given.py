"""What people give to an estimator, argument by argument: each refusal names the argument."""

from __future__ import annotations

import contextlib
import numbers
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_array, column_or_1d

from nbo._validation import integer, real, require_unmasked

Array = npt.NDArray[Any]

#: The largest feature. A Hessian times a gradient is of the size of the cube of a feature, and it is summed over rows:
#: this must be representable.
LARGEST_FEATURE = {np.dtype(np.float64): 1e100, np.dtype(np.float32): 1e12}
#: Losses are reported in units of the squared target, in float64; coefficients have the type of the features.
LARGEST_TARGET = {np.dtype(np.float64): 1e150, np.dtype(np.float32): 1e30}
#: Weights are multiplied with losses and with each other.
_LARGEST_TOTAL = 1e100
#: The largest weight over the smallest positive one: all of them are representable beside their mean.
_WIDEST_WEIGHTS = {np.dtype(np.float64): 1e200, np.dtype(np.float32): 1e30}
#: Of a prior: its curvature, over any total weight, is representable.
_LARGEST_PRIOR = 1e50


@contextlib.contextmanager
def naming(name: str, expected: str) -> Iterator[None]:
    """Say the name of an argument in errors of scikit-learn and NumPy, which lack it.

    Parameters
    ----------
    name : str
        The argument.
    expected : str
        What is wanted.

    Yields
    ------
    None
        To the checks.

    Raises
    ------
    TypeError, ValueError
        From the original one.
    """
    try:
        with np.errstate(invalid="ignore", over="ignore"):  # sums over infinities, which are refused then
            yield
    except TypeError as error:
        raise TypeError(_named(name, error, expected)) from error
    except (ValueError, OverflowError) as error:
        raise ValueError(_named(name, error, expected)) from error


def _named(name: str, error: Exception, expected: str) -> str:
    reason = " ".join(str(error).split())  # which may go on to show the data
    return f"{name}: found bad input ({reason[:300]}); expected {expected}"


def require_moderate(name: str, A: Any, dtype: npt.DTypeLike) -> None:
    """Raise if a feature is too large to compute with.

    Parameters
    ----------
    name : str
        The argument.
    A : ndarray or sparse
        The finite rows.
    dtype : dtype
        What is computed in.

    Raises
    ------
    ValueError
        With the largest value.
    """
    values = A.data if sp.issparse(A) else A
    limit = LARGEST_FEATURE[np.dtype(dtype)]
    largest = _largest(values)
    if largest > limit:
        raise ValueError(
            f"{name}: found a value of size {largest:.3g}; expected at most {limit:g} in {np.dtype(dtype)}, as greater "
            "ones overflow: standardise the features (StandardScaler)"
        )


def _largest(values: Array) -> float:
    """Return the largest size of a value; no array of sizes is made."""
    return max(float(values.max()), -float(values.min())) if values.size else 0.0


def checked_weights(name: str, sample_weight: Any, A: Any, dtype: npt.DTypeLike) -> Array:
    """Return weights of rows as float64.

    Parameters
    ----------
    name : str
        The argument.
    sample_weight : array_like
        What was given.
    A : ndarray or sparse
        The rows.
    dtype : dtype
        What is computed in.

    Returns
    -------
    ndarray
        (n,), some of them positive.

    Raises
    ------
    TypeError, ValueError
        For anything else, and if their products or sums are not representable.
    """
    n = A.shape[0]
    expected = f"{n} numbers >= 0, one a row"
    require_unmasked(name, sample_weight)
    with naming(name, expected):
        given = np.asarray(sample_weight)
        if given.dtype.kind == "b":
            given = given.astype(np.float64)
        if given.dtype.kind not in "fiuO":
            raise TypeError(f"weights of type {given.dtype}")
        if given.ndim and given.shape != (n,):
            raise ValueError(f"shape {given.shape}")
        if not given.astype(np.float64).any():
            raise ValueError("weights that are all zero")
        weights: Array = _check_sample_weight(given, A, dtype=np.float64, ensure_non_negative=True)
    positive = weights[weights > 0]
    relative = positive / positive.max()  # whose sum cannot overflow
    total = float(relative.sum()) * float(positive.max())
    if not 1 / _LARGEST_TOTAL <= total <= _LARGEST_TOTAL:
        raise ValueError(
            f"{name}: found weights whose sum is {total:.3g}; expected one from {1 / _LARGEST_TOTAL:g} to "
            f"{_LARGEST_TOTAL:g}: divide them by their mean"
        )
    widest = _WIDEST_WEIGHTS[np.dtype(dtype)]
    if relative.min() < 1 / widest:
        raise ValueError(
            f"{name}: found weights from {positive.min():.3g} to {positive.max():.3g}; expected zeros, and others that "
            f"differ by factors up to {widest:g} in {np.dtype(dtype)}: set the smallest ones to 0"
        )
    return weights


def checked_labels(name: str, y: Any, *, first: bool) -> Array:
    """Return labels, one a row.

    Parameters
    ----------
    name : str
        The argument.
    y : array_like
        What was given.
    first : bool
        Whether these are the labels that the classes are found from; it is then that a column is warned of.

    Returns
    -------
    ndarray
        (n,).

    Raises
    ------
    TypeError, ValueError
        For anything else.
    """
    require_unmasked(name, y)
    with naming(name, "labels, one a row, all of them strings or all numbers"):
        _require_given(y)
        labels: Array = column_or_1d(y, warn=first)
        _require_one_kind(labels)
        check_array(labels, ensure_2d=False, dtype=None, input_name=name, ensure_min_samples=0)
        if first:
            check_classification_targets(labels)
    return labels


def checked_targets(name: str, y: Any, dtype: npt.DTypeLike) -> Array:
    """Return targets as float64.

    Parameters
    ----------
    name : str
        The argument.
    y : array_like
        What was given.
    dtype : dtype
        What is computed in.

    Returns
    -------
    ndarray
        (n,) or (n, q).

    Raises
    ------
    TypeError, ValueError
        For anything else, and for numbers whose squares overflow.
    """
    require_unmasked(name, y)
    with naming(name, "real numbers of shape (n,) or (n, q), q >= 1"):
        _require_given(y)
        _require_one_kind(np.asarray(y))
        given = check_array(y, ensure_2d=False, dtype=None, input_name=name, ensure_min_samples=0)
        if given.dtype.kind not in "fiubO":
            raise TypeError(f"targets of type {given.dtype}")
        targets: Array = check_array(given, ensure_2d=False, dtype=np.float64, input_name=name, ensure_min_samples=0)
    limit = LARGEST_TARGET[np.dtype(dtype)]
    if (largest := _largest(targets)) > limit:
        raise ValueError(
            f"{name}: found a target of size {largest:.3g}; expected at most {limit:g} with features in "
            f"{np.dtype(dtype)}, as greater results overflow: choose a greater unit"
        )
    return targets


def require_spread(scale: float, dtype: npt.DTypeLike) -> None:
    """Raise if the standard deviation of targets is so small that their squares or the coefficients vanish.

    Parameters
    ----------
    scale : float
        It.
    dtype : dtype
        What is computed in.

    Raises
    ------
    ValueError
        If so; a zero means constant targets and is no harm.
    """
    least = 1 / LARGEST_TARGET[np.dtype(dtype)]
    if 0 < scale < least:
        raise ValueError(
            f"y: found targets with a standard deviation of {scale:.3g}; expected 0, or at least {least:g} with "
            f"features in {np.dtype(dtype)}, as smaller results vanish: choose a smaller unit"
        )


def _require_given(y: Any) -> None:
    if sp.issparse(y):
        raise TypeError("a sparse matrix, where a dense array is required (use .toarray())")
    if y is None:
        raise ValueError("None: the estimator requires y to be passed, but the target y is None")
    shape = y.shape if hasattr(y, "shape") else np.asarray(y).shape
    if not shape or 0 in shape[1:]:
        raise ValueError(f"shape {shape}")


def _require_one_kind(labels: Array) -> None:
    """Raise if there is an object that is no label, or if strings and numbers are mixed."""
    if labels.dtype.kind != "O":
        return
    flat = labels.ravel().tolist()
    empty = next((i for i, label in enumerate(flat) if label is None or type(label).__name__ == "NAType"), None)
    if empty is not None:
        raise ValueError(f"{flat[empty]} at index {empty}")
    # scikit-learn knows a missing label by a NaN, beside strings too
    kinds = {_kind(label) for label in flat if label == label}
    if len(kinds) > 1:
        raise TypeError(f"labels of several types: {', '.join(sorted(kinds))}")


def _kind(label: Any) -> str:
    if isinstance(label, str):
        return "strings"
    return "numbers" if isinstance(label, (numbers.Number, np.bool_)) else type(label).__name__


def require_random_state(random_state: Any) -> None:
    """Raise unless scikit-learn can draw from `random_state`.

    Parameters
    ----------
    random_state : object
        What was given.

    Raises
    ------
    TypeError, ValueError
        Otherwise.
    """
    truth = isinstance(random_state, (bool, np.bool_))
    try:
        if truth:
            raise TypeError("a truth value is no seed")
        check_random_state(random_state)
    except (TypeError, ValueError) as error:
        kind = ValueError if isinstance(random_state, numbers.Integral) and not truth else TypeError
        raise kind(
            f"random_state: found {random_state!r} ({type(random_state).__name__}); expected None, an integer from 0 "
            "to 4294967295 or a numpy.random.RandomState"
        ) from error


def require_prior(penalty_prior: Any) -> None:
    """Raise unless `penalty_prior` is "auto", None or a width that can be computed with.

    Parameters
    ----------
    penalty_prior : object
        What was given.

    Raises
    ------
    TypeError, ValueError
        Otherwise.
    """
    wanted = f"'auto', None (no prior) or a number from {1 / _LARGEST_PRIOR:g} to {_LARGEST_PRIOR:g}"
    automatic = isinstance(penalty_prior, str) and penalty_prior == "auto"
    if penalty_prior is None or automatic:
        return
    try:
        scale = real("penalty_prior", penalty_prior, positive=True)
    except (TypeError, ValueError) as error:
        kind = ValueError if isinstance(penalty_prior, str) else type(error)
        raise kind(f"penalty_prior: found {penalty_prior!r}; expected {wanted}") from error
    if not 1 / _LARGEST_PRIOR <= scale <= _LARGEST_PRIOR:
        raise ValueError(f"penalty_prior: found {scale:g}; expected {wanted}")


def _short(value: Any) -> str:
    """Return what something looks like, in a line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


def require_penalty(penalty: Any, outputs: str, shape: tuple[int, int] | None = None) -> None:
    """Raise unless `penalty` is one of the words or an array of group ids.

    Parameters
    ----------
    penalty : object
        What was given.
    outputs : str
        What a row of coefficients belongs to, as in ``"class-feature"``.
    shape : tuple of int, optional
        Of the coefficients, (c, p), if it is known yet.

    Raises
    ------
    TypeError, ValueError
        Otherwise, with all that is possible.
    """
    words = ("shared", "feature", outputs, f"{outputs}-feature")
    c, p = ("c", "p") if shape is None else shape
    wanted = (
        f"{', '.join(map(repr, words))}, or an array of group ids 0 .. G-1, each used: integers of shape ({p},), one a "
        f"feature, or ({c}, {p}), one an entry of coef_"
    )
    if isinstance(penalty, str):
        if penalty not in words:
            raise ValueError(f"penalty: found {penalty!r}; expected {wanted}")
        return
    require_unmasked("penalty", penalty)
    try:
        ids = np.asarray(penalty)
    except ValueError as error:
        raise ValueError(f"penalty: found {_short(penalty)}, which is no array; expected {wanted}") from error
    if not ids.ndim or ids.dtype.kind not in "fiu":
        raise TypeError(f"penalty: found {_short(penalty)} ({type(penalty).__name__}); expected {wanted}")
    fits = ids.ndim in (1, 2) if shape is None else ids.shape in ((p,), (c, p))
    if ids.dtype.kind == "f" or not ids.size or not fits:
        raise ValueError(f"penalty: found an array of shape {ids.shape} and type {ids.dtype}; expected {wanted}")
    used = np.unique(ids)
    if not np.array_equal(used, np.arange(used.size)):
        raise ValueError(
            f"penalty: found group ids from {used[0]} to {used[-1]}, {used.size} different; expected {wanted}"
        )


def checked_verbose(verbose: Any) -> int:
    """Return `verbose` as an integer; True is 1.

    Parameters
    ----------
    verbose : object
        What was given.

    Returns
    -------
    int
        At least 0.

    Raises
    ------
    TypeError, ValueError
        For anything else.
    """
    return int(verbose) if isinstance(verbose, (bool, np.bool_)) else integer("verbose", verbose)

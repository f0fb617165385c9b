"""Divisions of rows into training and held-out parts."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._validation import integer, require_unmasked, validate_random_state
from nbo.problems._data import owned

Array = npt.NDArray[Any]
#: Training and held-out rows of every fold.
Folds = tuple[tuple[Array, Array], ...]

#: Of seeds that scikit-learn takes.
_LARGEST_SEED = 2**32 - 1

_WANTED = "an integer >= 2, an object with split(X, y), or pairs (train, held_out) of row numbers"


def divided(folds: Any, A: Any, labels: Array, *, stratified: bool, random_state: Any) -> Folds:
    """Return the folds of rows.

    Parameters
    ----------
    folds : int, splitter or iterable of pairs
        How many, an object with scikit-learn's ``split(X, y)``, or the parts themselves.
    A : array_like or sparse
        The rows, (n, p).
    labels : ndarray
        Their labels or targets, (n,) or (n, q).
    stratified : bool
        Whether a number of folds keeps the shares of the labels.
    random_state : None, int or Generator
        Shuffles the rows for a number of folds.

    Returns
    -------
    tuple of pairs of ndarray
        Row numbers, read-only.

    Raises
    ------
    TypeError, ValueError
        For what does not divide the rows, with the name ``folds``.
    """
    n = A.shape[0]
    if isinstance(folds, numbers.Number):
        pairs = _numbered(integer("folds", folds, minimum=2, maximum=n), A, labels, stratified, random_state)
    else:
        pairs = given_pairs("folds", folds, A, labels, _WANTED)
        if random_state is not None:
            raise ValueError(
                f"random_state: found {random_state!r} beside folds that are no number; expected None, as nothing is "
                "drawn"
            )
    return tuple(_checked(k, pair, n) for k, pair in enumerate(pairs))


def _numbered(folds: int, A: Any, labels: Array, stratified: bool, random_state: Any) -> list[Any]:
    """Return shuffled folds of about equal size."""
    from sklearn.model_selection import KFold, StratifiedKFold  # takes longer to import than all the rest

    validate_random_state(random_state)
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(_LARGEST_SEED + 1))
    elif random_state is not None:
        random_state = integer("random_state", random_state, maximum=_LARGEST_SEED)
    splitter = (StratifiedKFold if stratified else KFold)(folds, shuffle=True, random_state=random_state)
    try:
        return list(splitter.split(A, labels))
    except ValueError as error:  # more folds than rows of any class
        raise ValueError(f"folds: found {folds}, which do not fit the labels ({error}); expected fewer") from error


def splits(folds: Any) -> bool:
    """Return whether there is scikit-learn's ``split(X, y)``.

    Parameters
    ----------
    folds : object
        What was given.

    Returns
    -------
    bool
        Not of text, which splits otherwise.
    """
    return callable(getattr(folds, "split", None)) and not isinstance(folds, (str, bytes))


def given_pairs(name: str, folds: Any, A: Any, labels: Array, wanted: str) -> list[Any]:
    """Return what a splitter or an iterable gives, at least one thing.

    Parameters
    ----------
    name : str
        The argument, for messages.
    folds : splitter or iterable
        What was given.
    A, labels : array_like
        The rows and their labels or targets.
    wanted : str
        What is expected, for messages.

    Returns
    -------
    list
        As it is given: pairs, if all is well.

    Raises
    ------
    TypeError, ValueError
        For another kind of object, and for all that goes wrong in its code.
    """
    if isinstance(folds, type):
        raise TypeError(f"{name}: found the class {folds.__name__} itself; expected {wanted}")
    iterable = isinstance(folds, Iterable) and not isinstance(folds, (str, bytes, dict))
    if getattr(folds, "ndim", 1) == 0 or not (splits(folds) or iterable):
        raise TypeError(f"{name}: found {folds!r} ({type(folds).__name__}); expected {wanted}")
    try:
        pairs = list(folds.split(A, labels) if splits(folds) else folds)
    except Exception as error:  # it is anybody's code
        raise ValueError(
            f"{name}: found {type(folds).__name__}, which does not divide these {A.shape[0]} rows ({error}); expected "
            f"{wanted}, such as list(splitter.split(X, y, groups))"
        ) from error
    if not pairs:
        raise ValueError(f"{name}: found no pairs in {type(folds).__name__}; expected {wanted}")
    return pairs


def pair_of(name: str, k: int, pair: Any) -> tuple[Any, Any]:
    """Return the parts of fold `k`.

    Parameters
    ----------
    name : str
        The argument, for messages.
    k : int
        The number of the fold.
    pair : object
        What was given.

    Returns
    -------
    tuple
        Training and held-out rows as given.

    Raises
    ------
    TypeError
        If it is no pair.
    """
    try:
        train, held_out = pair
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: found {pair!r:.200} as fold {k}; expected a pair (train, held_out)") from error
    return train, held_out


def part_array(name: str, part: str, rows: Any, wanted: str) -> Array:
    """Return one part of a fold as an array.

    Parameters
    ----------
    name, part : str
        The argument and the part, for messages.
    rows : array_like
        What was given.
    wanted : str
        What is expected, for messages.

    Returns
    -------
    ndarray
        Of any type and shape.

    Raises
    ------
    ValueError
        If it is no array.
    """
    require_unmasked(name, rows)
    try:
        return np.asarray(rows)
    except ValueError as error:
        raise ValueError(f"{name}: found no array as the {part} ({error}); expected {wanted}") from error


def _checked(k: int, pair: Any, n: int) -> tuple[Array, Array]:
    train, held_out = pair_of("folds", k, pair)
    parts = _rows_of(f"training part of fold {k}", train, n), _rows_of(f"held-out part of fold {k}", held_out, n)
    common = np.intersect1d(*parts)
    if common.size:
        raise ValueError(
            f"folds: found {common.size} rows, such as {common[0]}, in both parts of fold {k}; expected none"
        )
    return parts


def _rows_of(part: str, rows: Any, n: int) -> Array:
    """Return one part as row numbers; a mask stands for the rows where it is true."""
    wanted = f"different row numbers from 0 to {n - 1}, or a mask of shape ({n},)"
    array = part_array("folds", part, rows, wanted)
    if array.dtype == bool and array.shape == (n,):
        array = np.flatnonzero(array)
    if array.ndim == 1 and not array.size:
        raise ValueError(f"folds: found the {part} empty; expected {wanted}")
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(f"folds: found the {part} of type {array.dtype} and shape {array.shape}; expected {wanted}")
    if array.min() < 0 or array.max() >= n:
        raise ValueError(f"folds: found the {part} with rows from {array.min()} to {array.max()}; expected {wanted}")
    if np.unique(array).size < array.size:
        repeated = array.size - np.unique(array).size
        raise ValueError(f"folds: found the {part} with {repeated} repetitions; expected {wanted}")
    return owned(array, np.intp)

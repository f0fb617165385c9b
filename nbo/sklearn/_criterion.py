"""What `cv` stands for: pairs of training and held-out rows, and their description."""

from __future__ import annotations

import numbers
import warnings
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit

from nbo.problems._folds import given_pairs, pair_of, part_array, splits
from nbo.sklearn._rows import GivenRows

Array = npt.NDArray[Any]

_WANTED = (
    "an integer >= 2 (folds), a number between 0 and 1 (the share to hold out), an object with split(X, y), or pairs "
    "(train, held_out) of row numbers"
)


class Criterion(NamedTuple):
    """Which rows judge the penalties.

    Attributes
    ----------
    pairs : list of pairs of ndarray
        The training and the held-out rows of every fold.
    text : str
        What a report calls them.
    """

    pairs: list[tuple[Array, Array]]
    text: str


def validation_criterion(n_train: int, n_val: int) -> Criterion:
    """Return the criterion of given validation rows, which follow the training rows.

    Parameters
    ----------
    n_train, n_val : int
        The numbers of rows.

    Returns
    -------
    Criterion
        Of one pair.
    """
    return Criterion([(np.arange(n_train), np.arange(n_train, n_train + n_val))], "the given validation rows")


def criterion(cv: Any, rows: GivenRows, labels: Array | None, random_state: Any) -> Criterion:
    """Return the folds that `cv` stands for.

    Parameters
    ----------
    cv : int, float, splitter or iterable of pairs
        See `BilevelLogisticRegression`.
    rows : GivenRows
        The rows to divide.
    labels : ndarray or None
        What to stratify a number of folds or a share by; None for targets that are no classes.
    random_state : None, int or RandomState
        Shuffles for a number of folds, or a share.

    Returns
    -------
    Criterion
        In numbers of `rows`.

    Raises
    ------
    TypeError, ValueError
        For anything else, with the name ``cv``.

    Warns
    -----
    UserWarning
        If a class has too few rows for what was asked.
    """
    n = rows.A.shape[0]
    if isinstance(cv, (bool, np.bool_, str, bytes)) or cv is None:
        raise TypeError(f"cv: found {cv!r} ({type(cv).__name__}); expected {_WANTED}")
    if isinstance(cv, numbers.Integral):
        return _numbered(int(cv), n, labels, random_state)
    if isinstance(cv, numbers.Real):
        return _share(float(cv), n, labels, random_state)
    return _given(cv, rows)


def _counted(folds: int, whose: str) -> str:
    return f"{folds} folds {whose}" if folds > 1 else f"one split {whose}"


def _numbered(folds: int, n: int, labels: Array | None, random_state: Any) -> Criterion:
    if folds < 2:
        raise ValueError(f"cv: found {folds}; expected {_WANTED}")
    if folds > n:
        raise ValueError(f"cv: found {folds} folds for n_samples={n} rows; expected at most one fold a row")
    if labels is None:
        return _split(KFold(folds, shuffle=True, random_state=random_state), n, None, f"{folds} shuffled folds")
    sizes = np.bincount(labels)
    if sizes.min() < folds:
        few = f"a class has {sizes.min()} rows, fewer than the {folds} folds"
        if sizes.max() < folds:
            warnings.warn(f"cv: {few}, and so has every other: the folds are not stratified", stacklevel=4)
            return _split(KFold(folds, shuffle=True, random_state=random_state), n, None, f"{folds} shuffled folds")
        warnings.warn(f"cv: {few}: some folds hold out none of it; fewer folds would", stacklevel=4)
    splitter = StratifiedKFold(folds, shuffle=True, random_state=random_state)
    return _split(splitter, n, labels, f"{folds} stratified folds")


def _share(share: float, n: int, labels: Array | None, random_state: Any) -> Criterion:
    if not 0 < share < 1:
        raise ValueError(f"cv: found {share}; expected {_WANTED}")
    held_out = int(np.ceil(share * n))
    if held_out >= n:
        raise ValueError(f"cv: found {share}, which holds out all {n} rows; expected a share that leaves some to train")
    text = f"one split that holds out {share:.3g} of the rows"
    plain = ShuffleSplit(1, test_size=share, random_state=random_state)
    if labels is None:
        return _split(plain, n, None, text)
    sizes = np.bincount(labels)
    if sizes.min() < 2 or min(held_out, n - held_out) < sizes.size:
        warnings.warn(
            f"cv: a class has {sizes.min()} rows, and {held_out} of {n} rows are to be held out: the split is not "
            "stratified",
            stacklevel=4,
        )
        return _split(plain, n, None, text)
    splitter = StratifiedShuffleSplit(1, test_size=share, random_state=random_state)
    return _split(splitter, n, labels, f"{text}, stratified")


def _split(splitter: Any, n: int, labels: Array | None, text: str) -> Criterion:
    """Return what one of scikit-learn's splitters gives, which warns of small classes in its own words."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class in y has only")
        try:
            return Criterion(list(splitter.split(np.zeros((n, 1)), labels)), text)
        except ValueError as error:
            raise ValueError(f"cv: found {text}, which {n} rows do not allow ({error}); expected {_WANTED}") from error


def _given(cv: Any, rows: GivenRows) -> Criterion:
    """Return pairs of row numbers, those of an iterable without the rows that have no weight."""
    given = given_pairs("cv", cv, rows.A, rows.b, _WANTED)
    if splits(cv):  # which has seen the rows that are left
        place, whose = np.arange(rows.numbers.size), f"of {type(cv).__name__}"
    else:
        place, whose = np.full(rows.n_given, -1), "as given"
        place[rows.numbers] = np.arange(rows.numbers.size)
    pairs = []
    for k, pair in enumerate(given):
        train, held_out = pair_of("cv", k, pair)
        pairs.append((_placed(place, k, train), _placed(place, k, held_out)))
    return Criterion(pairs, _counted(len(pairs), whose))


def _placed(place: Array, k: int, part: Any) -> Array:
    wanted = f"row numbers from 0 to {place.size - 1}, or a mask of shape ({place.size},)"
    chosen = part_array("cv", f"part of pair {k}", part, wanted)
    if chosen.ndim == 1 and not chosen.size:
        raise ValueError(f"cv: found an empty part in pair {k}; expected {wanted}")
    if chosen.dtype == bool and chosen.shape == place.shape:
        chosen = np.flatnonzero(chosen)
    if chosen.dtype.kind not in "iu" or chosen.ndim != 1:
        raise TypeError(f"cv: found type {chosen.dtype} and shape {chosen.shape} in pair {k}; expected {wanted}")
    if chosen.size and (chosen.min() < 0 or chosen.max() >= place.size):
        raise ValueError(f"cv: found rows from {chosen.min()} to {chosen.max()} in pair {k}; expected {wanted}")
    kept = place[chosen]
    return kept[kept >= 0]


def without_unlearnt(chosen: Criterion, codes: Array, classes: Array) -> Criterion:
    """Return a criterion without the folds whose training rows lack a class.

    With an intercept that no penalty touches, the model of such a fold gives that class the probability zero in the
    limit: it has no finite minimiser, and the loss of held-out rows of the class is infinite whatever the penalties.

    Parameters
    ----------
    chosen : Criterion
        The folds.
    codes : ndarray of int
        The numbers of the classes of all rows.
    classes : ndarray
        The classes.

    Returns
    -------
    Criterion
        The same one if no training part lacks a class.

    Raises
    ------
    ValueError
        If nothing is left.

    Warns
    -----
    UserWarning
        If something is left out.
    """
    pairs, lacking = [], []
    for k, (train, held_out) in enumerate(chosen.pairs):
        present = np.bincount(codes[train], minlength=classes.size) > 0
        if present.all():
            pairs.append((train, held_out))
        else:
            lacking.append(f"fold {k} none of {', '.join(map(repr, classes[~present].tolist()))}")
    if not lacking:
        return chosen
    found = f"training rows lack classes ({'; '.join(lacking)})"
    if not pairs:
        raise ValueError(
            f"cv: found that {found}; expected at least one fold that can learn every class: shuffle or stratify them"
        )
    warnings.warn(f"cv: {found}: these folds are left out; shuffle or stratify the folds", stacklevel=4)
    return Criterion(pairs, f"{len(pairs)} of {chosen.text}")

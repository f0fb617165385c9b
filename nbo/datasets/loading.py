"""Data sets by name, split into training, validation and test parts."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from nbo._validation import fraction, integer, validate_random_state
from nbo.datasets import _store
from nbo.datasets._formats import Samples
from nbo.datasets._parts import Parts, corrupted, scaled, split, subset
from nbo.datasets._readers import read_content
from nbo.datasets._registry import ENTRIES, Entry, Origin
from nbo.datasets.dataset import Dataset
from nbo.datasets.errors import DataError

#: Parts of a data set, and the arguments of :func:`load` that say how many rows of them to take.
_SIZES = {"train": "n_train", "validation": "n_val", "test": "n_test"}


def names() -> dict[str, str]:
    """Return the names of the data sets.

    Returns
    -------
    dict
        Name -> one line about the set. Those that come with scikit-learn stand first.
    """
    return {name: entry.summary for name, entry in ENTRIES.items()}


def load(
    name: str,
    *,
    corruption: float = 0.0,
    random_state: int | np.random.Generator | None = 0,
    n_train: int | None = None,
    n_val: int | None = None,
    n_test: int | None = None,
    standardize: bool | None = None,
    dtype: npt.DTypeLike = np.float64,
    data_home: str | os.PathLike[str] | None = None,
) -> Dataset:
    """Load a data set by its name.

    Sets with files of their own are read from the data home. If they are not there, they are copied from the folder
    that the environment variable ``NBO_DATA_MIRROR`` names. Nothing is ever downloaded: that is the work of the
    scripts in ``data_scripts``.

    Parameters
    ----------
    name : str
        A key of :func:`names`.
    corruption : float
        The probability, from 0 to 1, that a training label is redrawn uniformly over all classes, so that it may
        stay the same. For classification only.
    random_state : int, numpy.random.Generator or None
        Seed of splits, subsets and corruption, each of which has draws of its own. None takes a fresh one.
    n_train, n_val, n_test : int, optional
        Take that many rows of a part, stratified by label where there is room for all of them. By default all, but
        20,000 training rows of the image sets, whose training part has 55,000.
    standardize : bool, optional
        Whether to scale features by statistics of the training rows: dense ones to mean 0 and standard deviation 1,
        sparse ones to a largest magnitude of 1, which keeps zeros. By default what suits the set. Targets of
        regressions are never scaled.
    dtype : dtype
        ``float64`` or ``float32``, of samples, binary labels and targets. Labels of more than two classes are int64.
    data_home : str or path, optional
        The folder of the files, see :func:`nbo.datasets.data_home`.

    Returns
    -------
    Dataset
        Arrays of its own in C order, or CSR matrices for sparse sets.

    Raises
    ------
    FileNotFoundError
        If the files of the set are neither in the data home nor in the mirror; the message names the command that
        fetches them.
    DataError
        If a file is damaged; the message names it and the command.
    ValueError, TypeError
        If an argument is none of those above, such as more rows than there are.

    Examples
    --------
    >>> from nbo import datasets
    >>> datasets.load("digits", corruption=0.5, n_train=500)
    <Dataset digits: multiclass with 10 classes, 500 training + 288 validation + 360 test rows of 64 features, ...>
    """
    entry = _entry(name)
    wanted = _sizes(n_train, n_val, n_test)
    precision, scale = _floating(dtype), _flag("standardize", standardize, entry.standardize)
    probability = _corruption(corruption, entry)
    validate_random_state(random_state)
    seeds = [int(seed) for seed in np.random.default_rng(random_state).integers(2**32, size=3)]
    origin, parts = _read(name, entry, _store.data_home(data_home))
    classes = _classes(entry, parts, precision)
    stratify = classes is not None
    parts = _chosen(split(parts, entry.cuts, stratify, seeds[0]), wanted, entry, stratify, seeds[1])
    labels = {part: _labels(found, entry, precision) for part, (_, found) in parts.items()}
    flipped = None
    if probability > 0 and classes is not None:
        clean, labels["train"] = labels["train"], corrupted(labels["train"], classes, probability, seeds[2])
        flipped = labels["train"] != clean
    samples = scaled({part: A for part, (A, _) in parts.items()}, scale, precision)
    return Dataset(
        A=samples["train"],
        b=labels["train"],
        A_val=samples["validation"],
        b_val=labels["validation"],
        A_test=samples.get("test"),
        b_test=labels.get("test"),
        name=name,
        description=f"{entry.summary}; {origin.note}" if origin.note else entry.summary,
        source=entry.source,
        task=entry.task,
        classes=classes,
        flipped=flipped,
    )


# --- arguments ----------------------------------------------------------------------------------------------


def _entry(name: object) -> Entry:
    if isinstance(name, str) and name in ENTRIES:
        return ENTRIES[name]
    near = difflib.get_close_matches(str(name), ENTRIES, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(f"name: found {name!r}{hint}; expected one of {', '.join(map(repr, ENTRIES))}")


def _sizes(*given: int | None) -> dict[str, int]:
    sizes = zip(_SIZES.items(), given, strict=True)
    return {part: integer(argument, n, minimum=1) for (part, argument), n in sizes if n is not None}


def _floating(dtype: npt.DTypeLike) -> np.dtype:
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"dtype: found {dtype!r}; expected float64 or float32") from None
    if found not in (np.float64, np.float32):
        raise ValueError(f"dtype: found {found}; expected float64 or float32")
    return found


def _flag(argument: str, value: Any, default: bool) -> bool:
    if value is not None and not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{argument}: found {value!r} ({type(value).__name__}); expected True, False or None")
    return default if value is None else bool(value)


def _corruption(value: Any, entry: Entry) -> float:
    probability = fraction("corruption", value)
    if probability > 0 and entry.task == "regression":
        raise ValueError(f"corruption: found {probability:g} for a regression; expected 0, as there are no classes")
    return probability


# --- from files to parts ------------------------------------------------------------------------------------


def fetch_command(name: str) -> str:
    """Return the command that fetches the files of a set.

    Parameters
    ----------
    name : str
        The set.

    Returns
    -------
    str
        To be run in a clone of the repository.
    """
    return f"python data_scripts/fetch_{name}.py"


def _read(name: str, entry: Entry, home: Path) -> tuple[Origin, Parts]:
    """Read the files of a set, which are copied from the mirror first if need be."""
    origin, mirror, command = _store.origin_in(home, entry), _store.mirror(), fetch_command(name)
    if origin is None and mirror is None:
        raise FileNotFoundError(
            f"the data set {name!r} is not in the data home {home}; fetch it by `{command}` (from a clone of the "
            "repository), or let the environment variable NBO_DATA_MIRROR name a folder that holds its files"
        )
    if origin is None:
        assert mirror is not None
        try:
            origin = _store.fill_from(mirror, home, entry)
        except (FileNotFoundError, DataError) as error:
            message = f"the data set {name!r} is not in the data home {home}, and NBO_DATA_MIRROR has no sound copy"
            raise type(error)(f"{message}: {error}; fetch it by `{command}`") from error
    try:
        parts = {part: read_content(home, content) for part, content in origin.parts.items()}
    except DataError as error:
        raise DataError(f"{error}; the file is damaged, fetch it again by `{command}`") from error
    return origin, parts if entry.sparse else {part: (_dense(A), labels) for part, (A, labels) in parts.items()}


def _dense(A: Samples) -> np.ndarray:
    return A.toarray() if sp.issparse(A) else A


def _chosen(parts: Parts, wanted: dict[str, int], entry: Entry, stratify: bool, seed: int) -> Parts:
    """The rows that were asked for of every part."""
    sizes = {part: len(labels) for part, (_, labels) in parts.items()}
    for part, n in wanted.items():
        if part not in parts:
            raise ValueError(f"{_SIZES[part]}: found {n}; expected None, as the set has no {part} part")
        if n > sizes[part]:
            raise ValueError(f"{_SIZES[part]}: found {n:,}; expected at most {sizes[part]:,}, all rows of the part")
    sizes |= {"train": entry.n_train or sizes["train"]} | wanted
    return {part: subset(found, sizes[part], stratify, seed) for part, found in parts.items()}


def _classes(entry: Entry, parts: Parts, dtype: np.dtype) -> np.ndarray | None:
    if entry.task == "regression":
        return None
    return np.unique(np.concatenate([_labels(labels, entry, dtype) for _, labels in parts.values()]))


def _labels(labels: np.ndarray, entry: Entry, dtype: np.dtype) -> np.ndarray:
    """Labels as the tasks have them."""
    if entry.task == "binary":
        return np.where(labels == entry.positive, 1, -1).astype(dtype)
    return labels.astype(dtype if entry.task == "regression" else np.int64)

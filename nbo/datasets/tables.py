"""Tables of labelled rows for the command line: a built-in set, or a file of the user."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nbo.datasets._checks import checked_labels, checked_samples, label_name, require_classes
from nbo.datasets._csv import read_csv
from nbo.datasets._formats import Samples, Table, format_of, read_npz, read_svmlight, reading, stem
from nbo.datasets.errors import DataError, TargetError, shown

#: More different labels than this are no classes.
MOST_LABELS = 1000


@dataclass(frozen=True, eq=False)
class LabelledTable:
    """Rows with a label each, of two or more classes.

    Attributes
    ----------
    A : ndarray or scipy.sparse.csr_matrix, shape (n, p)
        Samples in rows, float64; CSR when fewer than a fifth of the entries are non-zero.
    labels : ndarray of str, shape (n,)
        Labels as they are shown.
    name : str
        Short name, fit for a folder name.
    feature_names : tuple of str
        One name per column of `A`.
    label_names : tuple of str
        The different labels, in the order of their values in the source.
    source : str
        Where the data came from: a path, or the loader of a built-in set.
    description : str
        One line about the set.
    columns : ndarray of int, shape (p,), or None
        Positions, from zero, of the columns of `A` among those of the source, where some of these were left out
        because they hold no value in any row; None if `A` has them all.
    """

    A: Samples
    labels: np.ndarray
    name: str
    feature_names: tuple[str, ...]
    label_names: tuple[str, ...]
    source: str
    description: str
    columns: np.ndarray | None = None

    def __repr__(self) -> str:
        rows, features = self.A.shape
        return f"<LabelledTable {self.name}: {rows:,} rows, {features:,} features, {len(self.label_names)} labels>"


def read_labelled(name_or_path: str | os.PathLike[str], target: str | None = None) -> LabelledTable:
    """Load a built-in set or a file with two or more different labels.

    Parameters
    ----------
    name_or_path : str or path
        ``"digits"`` or ``"wine"``, or the path of a file as in :func:`read_binary`.
    target : str, optional
        The column that holds the labels; needed by CSV files and refused by everything else.

    Returns
    -------
    LabelledTable
        The samples with their labels.

    Raises
    ------
    FileNotFoundError
        If there is neither a built-in set nor a file of this name.
    TargetError
        If `target` is missing for a CSV file, is no column of it, or is given for anything else.
    DataError
        If the file cannot be read as data with labels, or holds missing or infinite values, or ones that float64
        cannot hold.
    """
    found = opened(os.fspath(name_or_path), target, LABELLED, LABELLED)
    A, names = checked_samples(found.table, found.source)
    labels, values = checked_labels(found.table.labels, A.shape[0], found.source)
    require_classes(values, found.source, 2, MOST_LABELS)
    _require_repeated(labels, values, found.source)
    label_names = tuple(map(label_name, values))
    shown_labels = np.array(label_names)[np.searchsorted(values, labels)]
    return LabelledTable(
        A, shown_labels, found.name, names, label_names, found.source, found.description, found.table.columns
    )


#: So many labels are classes however few rows each has; of more, each has so many rows on average.
_FEW_LABELS, _ROWS_A_LABEL = 20, 5


def _require_repeated(labels: np.ndarray, values: np.ndarray, source: str) -> None:
    if values.size > max(_FEW_LABELS, labels.size / _ROWS_A_LABEL):
        raise DataError(
            f"{source}: found {values.size} different labels in {labels.size} rows, such as {label_name(values[0])!r} "
            f"and {label_name(values[1])!r}, which are numbers to predict or names of rows; expected classes, each of "
            f"{_ROWS_A_LABEL} rows or more on average"
        )


def built_in(loader: str, description: str) -> Callable[[], tuple[Table, str, str]]:
    """Return what loads one of scikit-learn's sets.

    Parameters
    ----------
    loader : str
        The name of the function there.
    description : str
        One line about the set.

    Returns
    -------
    callable
        Returns the table, its source and the description.
    """

    def load() -> tuple[Table, str, str]:
        import sklearn.datasets

        bunch = getattr(sklearn.datasets, loader)()
        table = Table(bunch.data, bunch.target, [str(n) for n in bunch.feature_names])
        return table, f"sklearn.datasets.{loader}", description

    return load


#: The sets that need no file: name -> loader of the table, its source and description.
LABELLED: dict[str, Callable[[], tuple[Table, str, str]]] = {
    "digits": built_in("load_digits", "handwritten digits as 8 x 8 grey values"),
    "wine": built_in("load_wine", "chemical analyses of wines of three growers"),
}


class Opened(NamedTuple):
    """A table as it was read, before any check of its values.

    Attributes
    ----------
    table : Table
        What was read.
    name : str
        Short name, fit for a folder name.
    source : str
        Where it came from.
    description : str
        One line about it.
    """

    table: Table
    name: str
    source: str
    description: str


def opened(
    key: str,
    target: str | None,
    sets: Mapping[str, Callable[[], tuple[Table, str, str]]],
    names: Collection[str],
) -> Opened:
    """Load a built-in set, or read a file.

    Parameters
    ----------
    key : str
        The name or the path.
    target : str or None
        The column of the labels, for CSV files.
    sets : mapping of str to callable
        Loaders of built-in sets.
    names : collection of str
        All names that may have been meant.

    Returns
    -------
    Opened
        The table and what it is called.

    Raises
    ------
    FileNotFoundError, TargetError, DataError
        As `read_labelled`.
    """
    if key in sets:
        refuse_target(target, f"the built-in set {key!r}")
        table, source, description = sets[key]()
        return Opened(table, key, source, description)
    table, path, kind = read_file(key, target, names)
    return Opened(table, stem(path), str(path), f"{kind} file")


def read_file(key: str, target: str | None, built_in: Collection[str]) -> tuple[Table, Path, str]:
    """Read a file.

    Parameters
    ----------
    key : str
        Its path.
    target : str or None
        The column of the labels, for CSV files.
    built_in : collection of str
        Names that may have been meant.

    Returns
    -------
    table : Table
        What it holds.
    path : Path
        Where it is.
    kind : str
        Its format.

    Raises
    ------
    FileNotFoundError, TargetError, DataError
        As `read_labelled`.
    """
    path = Path(key)
    _check_file(path, built_in)
    kind = format_of(path)
    if kind == "csv":
        return reading(path, lambda stream: read_csv(stream, path, target)), path, kind
    refuse_target(target, f"the {kind} file {path}")
    reader = {"npz": read_npz, "svmlight": read_svmlight}[kind]
    return reading(path, lambda stream: reader(stream, path)), path, kind


def refuse_target(target: str | None, what: str) -> None:
    """Raise if a label column was chosen for something that brings its own labels.

    Parameters
    ----------
    target : str or None
        The column.
    what : str
        Which data.

    Raises
    ------
    TargetError
        If there is one.
    """
    if target is not None:
        raise TargetError(f"a label column can be chosen in CSV files only, and {what} brings its own labels")


def _check_file(path: Path, built_in: Collection[str]) -> None:
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder; expected a data file")
    if not os.path.exists(path):  # unlike path.exists(), false for a name that no file can have
        near = difflib.get_close_matches(str(path), built_in, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise FileNotFoundError(
            f"no file and no built-in data set is called '{shown(path)}'{hint} (built in: {', '.join(built_in)})"
        )
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty")

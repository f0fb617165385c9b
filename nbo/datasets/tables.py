"""Tables of labelled rows for the command line: a built-in set, or a file of the user."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from nbo.datasets._csv import read_csv
from nbo.datasets._formats import Samples, Table, format_of, read_npz, read_svmlight, reading, stem
from nbo.datasets.errors import DataError, TargetError, listing, shown

#: Data with at least this share of non-zero entries are stored densely, other data as CSR.
DENSE_FROM = 0.2

#: Labels that are whole numbers below this are shown without a decimal point.
_LARGEST_WHOLE = 1e16

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
    key = os.fspath(name_or_path)
    if key in LABELLED:
        refuse_target(target, f"the built-in set {key!r}")
        table, source, description = LABELLED[key]()
        name = key
    else:
        table, path, kind = read_file(key, target, LABELLED)
        name, source, description = stem(path), str(path), f"{kind} file"
    A, names = checked_samples(table, source)
    labels, values = checked_labels(table.labels, A.shape[0], source)
    if not 2 <= values.size <= MOST_LABELS:
        raise DataError(
            f"{source}: labels take {values.size} value{'s' * (values.size != 1)} "
            f"({listing([label_name(v) for v in values[:20]])}); expected from 2 to {MOST_LABELS} classes"
        )
    label_names = tuple(map(label_name, values))
    shown_labels = np.array(label_names)[np.searchsorted(values, labels)]
    return LabelledTable(A, shown_labels, name, names, label_names, source, description, table.columns)


def _built_in(loader: str, description: str) -> Callable[[], tuple[Table, str, str]]:
    def load() -> tuple[Table, str, str]:
        import sklearn.datasets

        bunch = getattr(sklearn.datasets, loader)()
        table = Table(bunch.data, bunch.target, [str(n) for n in bunch.feature_names])
        return table, f"sklearn.datasets.{loader}", description

    return load


#: The sets that need no file: name -> loader of the table, its source and description.
LABELLED: dict[str, Callable[[], tuple[Table, str, str]]] = {
    "digits": _built_in("load_digits", "handwritten digits as 8 x 8 grey values"),
    "wine": _built_in("load_wine", "chemical analyses of wines of three growers"),
}


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


def checked_samples(table: Table, source: str) -> tuple[Samples, tuple[str, ...]]:
    """Return the samples as they are stored, and the names of the columns.

    Parameters
    ----------
    table : Table
        What was read.
    source : str
        For messages.

    Returns
    -------
    A : ndarray or scipy.sparse.csr_matrix
        float64, finite.
    names : tuple of str
        One a column.

    Raises
    ------
    DataError
        If there is nothing, or a value is not finite.
    """
    n_rows, n_columns = table.A.shape
    if n_rows == 0 or n_columns == 0:
        raise DataError(f"{source} holds {n_rows} rows and {n_columns} feature columns; expected some of each")
    A, names = _stored(table.A), tuple(table.feature_names)
    _check_finite(A, table.A, names, source)
    return A, names


def _check_finite(A: Samples, read: Samples, names: Sequence[str], source: str) -> None:
    """Check the float64 samples; those that were read may have had a wider type."""
    if sp.issparse(A):
        entries = A.tocoo()
        bad = ~np.isfinite(entries.data)
        rows, columns = entries.row[bad], entries.col[bad]
    else:
        rows, columns = np.nonzero(~np.isfinite(A))
    if rows.size:
        first = int(np.argmin(rows))
        row, column = int(rows[first]), int(columns[first])
        found, wanted = read[row, column], "finite numbers (fill or drop missing values first)"
        if np.isfinite(found):
            wanted = f"numbers up to {np.finfo(np.float64).max:.2g}, the largest of float64"
        raise DataError(f"{source}: column {names[column]!r} holds {found!s} in row {row + 1}; expected {wanted}")


def checked_labels(labels: np.ndarray, n_rows: int, source: str) -> tuple[np.ndarray, np.ndarray]:
    """Return labels of a type that can be compared, and their different values.

    Parameters
    ----------
    labels : ndarray
        As they were read.
    n_rows : int
        How many there must be.
    source : str
        For messages.

    Returns
    -------
    labels : ndarray
        (n,).
    values : ndarray
        The different ones, in order.

    Raises
    ------
    DataError
        For another number, type, or a label that is not finite.
    """
    if labels.size != n_rows:
        raise DataError(f"{source} holds {n_rows} rows but labels of shape {labels.shape}; expected one label a row")
    if labels.dtype.kind not in "fiubU":
        raise DataError(f"{source}: labels have type {labels.dtype}; expected numbers or strings")
    labels = labels.ravel()
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        row = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise DataError(f"{source}: the label of row {row + 1} is {labels[row]}")
    return labels, np.unique(labels)


def label_name(value: object) -> str:
    """Return a label as it is shown.

    Parameters
    ----------
    value : object
        A number or text.

    Returns
    -------
    str
        Whole numbers without a decimal point.
    """
    whole = isinstance(value, np.floating) and abs(value) < _LARGEST_WHOLE and value.is_integer()
    return str(int(value)) if whole else str(value)  # type: ignore[call-overload]


def _stored(A: Samples) -> Samples:
    """A float64 copy, dense or CSR by the share of non-zero entries; too large values become infinite."""
    n_nonzero = A.count_nonzero() if sp.issparse(A) else np.count_nonzero(A)
    with np.errstate(over="ignore"):
        if n_nonzero >= DENSE_FROM * A.shape[0] * A.shape[1]:
            return np.array(A.toarray() if sp.issparse(A) else A, dtype=np.float64, order="C")
        return sp.csr_matrix(A if sp.issparse(A) else A.astype(np.float64), dtype=np.float64, copy=True)

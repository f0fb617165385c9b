"""Tables with two labels for the command line: a built-in set, or a file of the user."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Callable, Sequence
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


@dataclass(frozen=True, eq=False)
class BinaryTable:
    """A binary classification set.

    Attributes
    ----------
    A : ndarray or scipy.sparse.csr_matrix, shape (n, p)
        Samples in rows, float64; CSR when fewer than a fifth of the entries are non-zero.
    b : ndarray, shape (n,)
        Labels -1.0 and +1.0.
    name : str
        Short name, fit for a folder name.
    feature_names : tuple of str
        One name per column of `A`.
    label_names : tuple of str
        What -1 and +1 stand for in the source, in this order; +1 is the larger original value.
    source : str
        Where the data came from: a path, or the loader of a built-in set.
    description : str
        One line about the set.
    columns : ndarray of int, shape (p,), or None
        Positions, from zero, of the columns of `A` among those of the source, where some of these were left out
        because they hold no value in any row; None if `A` has them all.
    """

    A: Samples
    b: np.ndarray
    name: str
    feature_names: tuple[str, ...]
    label_names: tuple[str, str]
    source: str
    description: str
    columns: np.ndarray | None = None

    def __repr__(self) -> str:
        rows, features = self.A.shape
        labels = "{} (-1) and {} (+1)".format(*self.label_names)
        return f"<BinaryTable {self.name}: {rows:,} rows, {features:,} features, labels {labels}>"


def read_binary(name_or_path: str | os.PathLike[str], target: str | None = None) -> BinaryTable:
    """Load a built-in set or a file.

    Parameters
    ----------
    name_or_path : str or path
        A name in :data:`BUILT_IN`, or the path of an svmlight, CSV or NPZ file; each may be compressed as
        ``.gz`` or ``.bz2``. A CSV file has a header with a name for every column, and numbers in all columns
        but the one of the labels; its separator (comma, semicolon or tab) is the one that splits the header
        most. An NPZ file has the keys ``A`` and ``b``, ``X`` and ``y``, or ``data`` and ``target``, and may
        have ``feature_names``. Columns of an svmlight file that hold no value in any row are left out. A
        built-in name wins over a file of the same name in the current folder: write ``./NAME`` for the file.
    target : str, optional
        The column that holds the labels; needed by CSV files and refused by everything else.

    Returns
    -------
    BinaryTable
        The samples with labels -1 and +1.

    Raises
    ------
    FileNotFoundError
        If there is neither a built-in set nor a file of this name.
    TargetError
        If `target` is missing for a CSV file, is no column of it, or is given for anything else.
    DataError
        If the file cannot be read as data with two labels, or holds missing or infinite values, or ones that
        float64 cannot hold.
    """
    key = os.fspath(name_or_path)
    if key in BUILT_IN:
        _refuse_target(target, f"the built-in set {key!r}")
        return BUILT_IN[key]()
    path = Path(key)
    _check_file(path)
    kind = format_of(path)
    if kind == "csv":
        table = reading(path, lambda stream: read_csv(stream, path, target))
    else:
        _refuse_target(target, f"the {kind} file {path}")
        reader = {"npz": read_npz, "svmlight": read_svmlight}[kind]
        table = reading(path, lambda stream: reader(stream, path))
    return _finish(table, name=stem(path), source=str(path), description=f"{kind} file")


# --- built-in sets ------------------------------------------------------------------------------------------


def _breast_cancer() -> BinaryTable:
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    table = Table(bunch.data, bunch.target, [str(n) for n in bunch.feature_names])
    dataset = _finish(
        table,
        name="breast_cancer",
        source="sklearn.datasets.load_breast_cancer",
        description="Wisconsin diagnostic breast cancer: 30 measurements of cell nuclei",
    )
    negative, positive = bunch.target_names  # of the codes 0 and 1
    return dataclasses.replace(dataset, label_names=(str(negative), str(positive)))


def _digits_3_8() -> BinaryTable:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    rows = np.isin(bunch.target, (3, 8))
    table = Table(bunch.data[rows], bunch.target[rows], [str(n) for n in bunch.feature_names])
    return _finish(
        table,
        name="digits-3-8",
        source="sklearn.datasets.load_digits, digits 3 and 8",
        description="handwritten digits 3 and 8 as 8 x 8 grey values",
    )


#: The sets that need no file: name -> loader.
BUILT_IN: dict[str, Callable[[], BinaryTable]] = {"breast_cancer": _breast_cancer, "digits-3-8": _digits_3_8}


def _refuse_target(target: str | None, what: str) -> None:
    if target is not None:
        raise TargetError(f"a label column can be chosen in CSV files only, and {what} brings its own labels")


def _check_file(path: Path) -> None:
    if os.path.isdir(path):
        raise DataError(f"{path} is a folder; expected a data file")
    if not os.path.exists(path):  # unlike path.exists(), false for a name that no file can have
        near = difflib.get_close_matches(str(path), BUILT_IN, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise FileNotFoundError(
            f"no file and no built-in data set is called '{shown(path)}'{hint} (built in: {', '.join(BUILT_IN)})"
        )
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty")


def _finish(table: Table, *, name: str, source: str, description: str) -> BinaryTable:
    """Check samples and labels, map the labels to -1 and +1, and choose the storage."""
    n_rows, n_columns = table.A.shape
    if n_rows == 0 or n_columns == 0:
        raise DataError(f"{source} holds {n_rows} rows and {n_columns} feature columns; expected some of each")
    A, names = _stored(table.A), tuple(table.feature_names)
    _check_finite(A, table.A, names, source)
    b, label_names = _two_labels(table.labels, n_rows, source)
    return BinaryTable(A, b, name, names, label_names, source, description, table.columns)


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


def _two_labels(labels: np.ndarray, n_rows: int, source: str) -> tuple[np.ndarray, tuple[str, str]]:
    if labels.size != n_rows:
        raise DataError(f"{source} holds {n_rows} rows but labels of shape {labels.shape}; expected one label a row")
    if labels.dtype.kind not in "fiubU":
        raise DataError(f"{source}: labels have type {labels.dtype}; expected numbers or strings")
    labels = labels.ravel()
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        row = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise DataError(f"{source}: the label of row {row + 1} is {labels[row]}")
    values = np.unique(labels)
    if values.size != 2:
        raise DataError(
            f"{source}: labels take {values.size} value{'s' * (values.size != 1)} "
            f"({listing([_label_name(v) for v in values])}); expected exactly two"
        )
    return np.where(labels == values[1], 1.0, -1.0), (_label_name(values[0]), _label_name(values[1]))


def _label_name(value: object) -> str:
    whole = isinstance(value, np.floating) and abs(value) < _LARGEST_WHOLE and value.is_integer()
    return str(int(value)) if whole else str(value)  # type: ignore[call-overload]


def _stored(A: Samples) -> Samples:
    """A float64 copy, dense or CSR by the share of non-zero entries; too large values become infinite."""
    n_nonzero = A.count_nonzero() if sp.issparse(A) else np.count_nonzero(A)
    with np.errstate(over="ignore"):
        if n_nonzero >= DENSE_FROM * A.shape[0] * A.shape[1]:
            return np.array(A.toarray() if sp.issparse(A) else A, dtype=np.float64, order="C")
        return sp.csr_matrix(A if sp.issparse(A) else A.astype(np.float64), dtype=np.float64, copy=True)

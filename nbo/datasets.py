"""Binary classification data for the command line, the examples and the tests.

:func:`load` takes the name of a built-in set or the path of an svmlight, CSV or NPZ file and returns a
:class:`Dataset` with labels -1 and +1. Whatever cannot be used is refused with a one-line :class:`DataError`.
"""

from __future__ import annotations

import bz2
import csv
import dataclasses
import difflib
import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import scipy.sparse as sp

__all__ = ["BUILT_IN", "NPZ_KEYS", "DataError", "Dataset", "TargetError", "load"]

#: Data with at least this share of non-zero entries are stored densely, other data as CSR.
DENSE_FROM = 0.2

#: Labels that are whole numbers below this are shown without a decimal point.
_LARGEST_WHOLE = 1e16

_COMPRESSED: dict[str, Callable[..., BinaryIO]] = {".gz": gzip.open, ".bz2": bz2.open}  # type: ignore[dict-item]
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".npz": "npz",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
}
#: A 2-D array or a ``scipy.sparse.csr_matrix`` (SciPy carries no types).
Samples = Any

_Read = TypeVar("_Read")
#: The names that samples and labels may have in an NPZ file.
NPZ_KEYS = (("A", "b"), ("X", "y"), ("data", "target"))


def shown(text: object, most: int = 400) -> str:
    """Return text that came with the data as one line that a message can quote.

    Parameters
    ----------
    text : object
        Such as a file name, a column name or a whole message.
    most : int
        How many characters to keep, at least 5; of longer texts the middle is left out.

    Returns
    -------
    str
        The text with escapes for line breaks, control characters and what else is not printable.
    """
    line = str(text)
    if len(line) > most:
        half = (most - 3) // 2
        line = f"{line[:half]}...{line[-half:]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in line)


class DataError(ValueError):
    """Data that cannot be used.

    Parameters
    ----------
    message : str
        What was found and what was expected; it is cut and escaped to one line, as files may hold anything.
    """

    def __init__(self, message: str) -> None:
        super().__init__(shown(message))


class TargetError(DataError):
    """A label column that is not named, not there, or not asked for.

    Parameters
    ----------
    reason : str
        What was found and what was expected; the message puts ``target:`` before it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"target: {reason}")
        self.reason = shown(reason)


@dataclass(frozen=True, eq=False)
class Dataset:
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
        (rows, features), (negative, positive) = self.A.shape, self.label_names
        return (
            f"<Dataset {self.name}: {rows:,} rows, {features:,} features, labels {negative} (-1) and {positive} (+1)>"
        )


@dataclass(frozen=True)
class _Table:
    """What a reader found: samples, labels as they stand in the source, and column names."""

    A: Samples
    labels: np.ndarray
    feature_names: Sequence[str]
    columns: np.ndarray | None = None


def load(name_or_path: str | os.PathLike[str], target: str | None = None) -> Dataset:
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
    Dataset
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
    kind = _format_of(path)
    if kind == "csv":
        table = _reading(path, lambda stream: _read_csv(stream, path, target))
    else:
        _refuse_target(target, f"the {kind} file {path}")
        reader = {"npz": _read_npz, "svmlight": _read_svmlight}[kind]
        table = _reading(path, lambda stream: reader(stream, path))
    return _finish(table, name=_stem(path), source=str(path), description=f"{kind} file")


# --- built-in sets ------------------------------------------------------------------------------------------


def _breast_cancer() -> Dataset:
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    table = _Table(bunch.data, bunch.target, [str(n) for n in bunch.feature_names])
    dataset = _finish(
        table,
        name="breast_cancer",
        source="sklearn.datasets.load_breast_cancer",
        description="Wisconsin diagnostic breast cancer: 30 measurements of cell nuclei",
    )
    negative, positive = bunch.target_names  # of the codes 0 and 1
    return dataclasses.replace(dataset, label_names=(str(negative), str(positive)))


def _digits_3_8() -> Dataset:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    rows = np.isin(bunch.target, (3, 8))
    table = _Table(bunch.data[rows], bunch.target[rows], [str(n) for n in bunch.feature_names])
    return _finish(
        table,
        name="digits-3-8",
        source="sklearn.datasets.load_digits, digits 3 and 8",
        description="handwritten digits 3 and 8 as 8 x 8 grey values",
    )


#: The sets that need no file: name -> loader.
BUILT_IN: dict[str, Callable[[], Dataset]] = {"breast_cancer": _breast_cancer, "digits-3-8": _digits_3_8}


# --- which file, which format -------------------------------------------------------------------------------


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


def _open(path: Path) -> BinaryIO:
    return _COMPRESSED.get(path.suffix.lower(), open)(path, "rb")


def _reading(path: Path, read: Callable[[BinaryIO], _Read]) -> _Read:
    """Run a reader on the opened file; failures of the file itself become a :class:`DataError`."""
    try:
        with _open(path) as stream:
            return read(stream)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {_one_line(error)}") from error


def _inner(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path


def _stem(path: Path) -> str:
    inner = _inner(path)
    return inner.stem if inner.suffix.lower() in _SUFFIXES else inner.name


def _format_of(path: Path) -> str:
    return _SUFFIXES.get(_inner(path).suffix.lower()) or _sniff(path)


def _sniff(path: Path) -> str:
    """Tell the format from the first bytes, for files whose name does not say it."""
    start = _reading(path, lambda stream: stream.read(1 << 16))
    if start.startswith(b"PK"):
        return "npz"
    lines = [line.strip() for line in start.decode("utf-8-sig", "replace").splitlines()]
    line = next((line for line in lines if line and not line.startswith("#")), "")
    if re.match(r"[-+.\w]+\s+(qid:\d+\s+)?\d+:\S", line):
        return "svmlight"
    if re.search(r"[,;\t]", line):
        return "csv"
    raise DataError(
        f"{path} is neither svmlight ('label index:value ...'), nor CSV with a header, nor NPZ; "
        f"its first line is {line[:40]!r}"
    )


# --- readers ------------------------------------------------------------------------------------------------


def _read_svmlight(stream: BinaryIO, path: Path) -> _Table:
    from sklearn.datasets import load_svmlight_file

    try:
        A, labels = load_svmlight_file(stream, zero_based=True)
    except OverflowError as error:
        raise DataError(
            f"{path} holds an index or a number that the svmlight reader cannot hold ({_one_line(error)}); expected "
            f"indices below {2**31 - 1:,}"
        ) from error
    except (ValueError, IndexError) as error:
        raise DataError(
            f"{path} is no well-formed svmlight file ('label index:value ...'): {_one_line(error)}"
        ) from error
    # The largest index may be far beyond the number of columns in use, so nothing here is as long as it is large.
    used, positions = np.unique(A.indices, return_inverse=True)
    # Indices usually start at one; the names keep the numbers that stand in the file.
    first = 0 if used.size and used[0] == 0 else 1
    columns = used - first
    packed = sp.csr_matrix((A.data, positions, A.indptr), shape=(A.shape[0], used.size))
    complete = columns.size == 0 or int(columns[-1]) + 1 == columns.size
    return _Table(packed, labels, [f"f{j}" for j in used], None if complete else columns)


def _read_npz(stream: BinaryIO, path: Path) -> _Table:
    arrays = _npz_arrays(stream, path)
    pair = next((pair for pair in NPZ_KEYS if set(pair) <= arrays.keys()), None)
    if pair is None:
        wanted = ", ".join(f"{a!r} and {b!r}" for a, b in NPZ_KEYS)
        sparse = " (a sparse matrix alone has no labels)" if {"indptr", "indices"} <= arrays.keys() else ""
        raise DataError(
            f"{path} holds the keys {', '.join(sorted(arrays)) or '(none)'}{sparse}; expected one of the pairs {wanted}"
        )
    A = _numeric_matrix(arrays[pair[0]], f"{path}: {pair[0]!r}")
    names = arrays.get("feature_names", np.empty(0))
    named = names.shape == (A.shape[1],)
    return _Table(A, arrays[pair[1]], [str(n) for n in names] if named else [f"f{j}" for j in range(A.shape[1])])


def _npz_arrays(stream: BinaryIO, path: Path) -> dict[str, np.ndarray]:
    try:
        archive = np.load(stream, allow_pickle=False)
        if isinstance(archive, np.lib.npyio.NpzFile):
            return {key: archive[key] for key in archive.files}
    except MemoryError:
        raise
    except Exception as error:  # a damaged archive raises BadZipFile, zlib.error, ValueError, KeyError, ...
        raise DataError(f"{path} is no NPZ archive of plain arrays: {_one_line(error)}") from error
    raise DataError(f"{path} holds a single array; expected an NPZ archive with samples and labels")


def _numeric_matrix(A: np.ndarray, what: str) -> np.ndarray:
    if A.ndim != 2:
        raise DataError(f"{what} has shape {A.shape}; expected two dimensions, samples in rows")
    if A.dtype.kind not in "fiub":
        raise DataError(f"{what} has type {A.dtype}; expected real numbers")
    return A


def _read_csv(stream: BinaryIO, path: Path, target: str | None) -> _Table:
    header, rows, lines = _csv_cells(stream, path)
    if target is None:
        raise TargetError(f"{path} is a CSV file: say which column holds its labels, out of {_listing(header)}")
    if target not in header:
        near = difflib.get_close_matches(target, header, n=1)
        hint = f", did you mean {near[0]!r}?" if near else ""
        raise TargetError(f"{path} has no column {target!r}{hint}; its columns are {_listing(header)}")
    goal = header.index(target)
    features = [j for j in range(len(header)) if j != goal]
    A = np.empty((len(rows), len(features)))
    for column, j in enumerate(features):
        A[:, column] = _csv_numbers([row[j] for row in rows], header[j], lines, path)
    return _Table(
        A,
        _csv_labels([row[goal].strip() for row in rows], target, lines, path),
        [header[j] for j in features],
    )


def _csv_cells(stream: BinaryIO, path: Path) -> tuple[list[str], list[list[str]], list[int]]:
    """Header, rows of cells, and the line on which each row ends."""
    try:
        text = io.StringIO(stream.read().decode("utf-8-sig"), newline="")
        reader = csv.reader(text, delimiter=_separator(text), strict=True)
        header = [cell.strip() for cell in next(reader, [])]
        numbered = [(row, reader.line_num) for row in reader if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is no well-formed CSV file in UTF-8: {_one_line(error)}") from error
    if not header or not numbered:
        raise DataError(f"{path} holds no rows below a header")
    if all(_is_number(cell) for cell in header):
        raise DataError(f"{path} starts with a row of numbers; expected a header with the names of the columns")
    _check_names(header, path)
    for number, (row, line) in enumerate(numbered, start=1):
        if len(row) != len(header):
            raise DataError(f"{path}: row {number} (line {line}) has {len(row)} cells; the header has {len(header)}")
    return header, [row for row, _ in numbered], [line for _, line in numbered]


def _check_names(header: list[str], path: Path) -> None:
    for number, name in enumerate(header, start=1):
        if not name or re.fullmatch(r"Unnamed: \d+", name):
            found = f"is called {name!r}, as pandas calls one without a name" if name else "has no name in the header"
            raise DataError(
                f"{path}: column {number} of {len(header)} {found}; expected a name for every column (a saved row "
                "index is no feature: leave it out, in pandas by to_csv(..., index=False))"
            )
        if header.count(name) > 1:
            raise DataError(f"{path} has more than one column called {name!r}")


def _separator(text: io.StringIO) -> str:
    """The comma, semicolon or tab that splits the header into most cells; the comma if all do equally."""

    def n_cells(separator: str) -> int:
        text.seek(0)
        try:
            return len(next(csv.reader(text, delimiter=separator, strict=True), []))
        except csv.Error:  # a quoted cell does not end where this separator would have it end
            return 0

    best = max(",;\t", key=n_cells)
    text.seek(0)
    return best


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _csv_numbers(cells: list[str], name: str, lines: list[int], path: Path) -> np.ndarray:
    try:
        return np.array(cells, dtype=float)
    except ValueError:
        row, cell = next((i, c.strip()) for i, c in enumerate(cells) if not _is_number(c))
    found = f"{cell!r}, which is no number" if cell else "an empty cell (a missing value)"
    if _is_number(cell.replace(",", ".")):
        found += " (decimals need a point)"
    raise DataError(f"{path}: column {name!r} holds {found} in row {row + 1} (line {lines[row]})")


def _csv_labels(cells: list[str], target: str, lines: list[int], path: Path) -> np.ndarray:
    if "" in cells:
        row = cells.index("")
        raise DataError(
            f"{path}: column {target!r} holds an empty cell (a missing value) in row {row + 1} (line {lines[row]})"
        )
    return np.array(cells, dtype=float if all(map(_is_number, cells)) else str)


# --- from a table to a Dataset ------------------------------------------------------------------------------


def _finish(table: _Table, *, name: str, source: str, description: str) -> Dataset:
    """Check samples and labels, map the labels to -1 and +1, and choose the storage."""
    n_rows, n_columns = table.A.shape
    if n_rows == 0 or n_columns == 0:
        raise DataError(f"{source} holds {n_rows} rows and {n_columns} feature columns; expected some of each")
    A, names = _stored(table.A), tuple(table.feature_names)
    _check_finite(A, table.A, names, source)
    b, label_names = _two_labels(table.labels, n_rows, source)
    return Dataset(A, b, name, names, label_names, source, description, table.columns)


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
            f"({_listing([_label_name(v) for v in values])}); expected exactly two"
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


def _listing(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__

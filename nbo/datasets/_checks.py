"""Checks of the samples and the labels of a table that was read, and how they are stored and shown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from nbo.datasets._formats import Samples, Table
from nbo.datasets.errors import DataError, listing

#: Data with at least this share of non-zero entries are stored densely, other data as CSR.
DENSE_FROM = 0.2

#: Labels that are whole numbers below this are shown without a decimal point.
_LARGEST_WHOLE = 1e16


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


def require_classes(values: np.ndarray, source: str, least: int, most: int) -> None:
    """Raise if labels are too few or too many for classes.

    Parameters
    ----------
    values : ndarray
        The different labels.
    source : str
        For messages.
    least, most : int
        How many there may be.

    Raises
    ------
    DataError
        If there are fewer or more.
    """
    if not least <= values.size <= most:
        wanted = "exactly two" if most == 2 else f"from {least} to {most} classes"
        raise DataError(
            f"{source}: labels take {values.size} value{'s' * (values.size != 1)} "
            f"({listing([label_name(v) for v in values[:20]])}); expected {wanted}"
        )


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

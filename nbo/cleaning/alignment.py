"""Columns of a second table in the order of the first."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from nbo.datasets import DataError, LabelledTable, Samples


def same_columns(other: LabelledTable, table: LabelledTable) -> Samples:
    """Return the samples of a table with the columns of another one, found by their names.

    Parameters
    ----------
    other, table : LabelledTable
        The former is given the columns of the latter. An svmlight file has no column for a feature that is zero in all
        its rows: what one of two such files lacks is zero there.

    Returns
    -------
    ndarray or csr_matrix
        The rows of `other`, dense if those of `table` are.

    Raises
    ------
    DataError
        If a column is missing, or the names do not tell which columns are the same.
    """
    _require_comparable(other, table)
    if other.feature_names == table.feature_names:
        places = np.arange(len(table.feature_names))
    else:
        places = _places(other, table)
    A = sp.csc_matrix(other.A)
    picked = sp.hstack([A, sp.csc_matrix((A.shape[0], 1))], format="csc")[:, places]  # the last column is zero
    return picked.tocsr() if sp.issparse(table.A) else picked.toarray()


def _require_comparable(other: LabelledTable, table: LabelledTable) -> None:
    if _is_svmlight(other) != _is_svmlight(table):
        raise DataError(
            f"{other.source} and {table.source} number their columns differently, as only one of them is an svmlight "
            "file; expected files of one format"
        )
    sizes = [len(found.feature_names) for found in (other, table)]
    if not _is_svmlight(table) and _only_numbered(other) and _only_numbered(table) and sizes[0] != sizes[1]:
        raise DataError(
            f"{other.source} has {sizes[0]:,} columns and {table.source} has {sizes[1]:,}, without names that tell "
            "which are the same; expected the same columns"
        )


def _is_svmlight(table: LabelledTable) -> bool:
    return table.description.startswith("svmlight")


def _only_numbered(table: LabelledTable) -> bool:
    """Whether the reader has named the columns f0, f1, ... for want of names."""
    numbered = tuple(f"f{j}" for j in range(len(table.feature_names)))
    return table.description.startswith("npz") and table.feature_names == numbered


def _places(other: LabelledTable, table: LabelledTable) -> np.ndarray:
    """The position in `other` of every column of `table`; -1 where an svmlight file has no value of it."""
    for found in (other, table):
        if len(set(found.feature_names)) < len(found.feature_names):
            raise DataError(f"{found.source} has several columns of one name; expected a name of its own for every one")
    names = {name: j for j, name in enumerate(other.feature_names)}
    places = np.array([names.get(name, -1) for name in table.feature_names])
    if (places < 0).any() and not _is_svmlight(table):
        missing = table.feature_names[int(np.argmax(places < 0))]
        raise DataError(
            f"{other.source} has no column {missing!r}, which {table.source} has; expected the same columns"
        )
    return places

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
        If a column is missing.
    """
    names = {name: j for j, name in enumerate(other.feature_names)}
    places = np.array([names.get(name, -1) for name in table.feature_names])
    sparse_files = all(found.description.startswith("svmlight") for found in (other, table))
    if (places < 0).any() and not sparse_files:
        missing = table.feature_names[int(np.argmax(places < 0))]
        raise DataError(
            f"{other.source} has no column {missing!r}, which {table.source} has; expected the same columns"
        )
    A = sp.csc_matrix(other.A)
    picked = sp.hstack([A, sp.csc_matrix((A.shape[0], 1))], format="csc")[:, places]  # the last column is zero
    return picked.tocsr() if sp.issparse(table.A) else picked.toarray()

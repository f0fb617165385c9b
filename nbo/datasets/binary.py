"""Tables with two labels for the command line: a built-in set, or a file of the user."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nbo.datasets._checks import checked_labels, checked_samples, label_name, require_classes
from nbo.datasets._formats import Samples, Table, stem
from nbo.datasets.tables import read_file, refuse_target


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
        refuse_target(target, f"the built-in set {key!r}")
        return BUILT_IN[key]()
    table, path, kind = read_file(key, target, BUILT_IN)
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


def _finish(table: Table, *, name: str, source: str, description: str) -> BinaryTable:
    """Check samples and labels, map the labels to -1 and +1, and choose the storage."""
    A, names = checked_samples(table, source)
    labels, values = checked_labels(table.labels, A.shape[0], source)
    require_classes(values, source, 2, 2)
    b = np.where(labels == values[1], 1.0, -1.0)
    label_names = label_name(values[0]), label_name(values[1])
    return BinaryTable(A, b, name, names, label_names, source, description, table.columns)

"""Tables of rows with what is to be predicted, two classes, more, or numbers: a built-in set, or a file of the user."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nbo._validation import choice
from nbo.datasets._checks import checked_labels, checked_samples, label_name, require_classes
from nbo.datasets._formats import Samples, Table
from nbo.datasets.binary import BUILT_IN, BinaryTable, read_binary
from nbo.datasets.errors import DataError, shown
from nbo.datasets.tables import LABELLED, MOST_LABELS, built_in, opened

#: What `task` may be.
TASKS = ("auto", "binary", "multiclass", "regression")

#: Whole numbers are taken as classes if they take no more different values than this, and each on average more rows.
_MOST_CLASSES, _ROWS_PER_CLASS = 20, 10

#: What the largest magnitude of a target may be: squares neither overflow nor vanish.
_SMALLEST, _LARGEST = 1e-140, 1e140


@dataclass(frozen=True, eq=False)
class TaskTable:
    """Rows, and what is to be predicted of each.

    Attributes
    ----------
    A : ndarray or scipy.sparse.csr_matrix, shape (n, p)
        Samples in rows, float64; CSR when fewer than a fifth of the entries are non-zero.
    b : ndarray, shape (n,)
        Numbers of classes, positions in `label_names`, or the targets of a regression, float64.
    task : str
        ``"binary"``, ``"multiclass"`` or ``"regression"``.
    label_names : tuple of str
        The classes in the order of their values in the source; none for a regression.
    name : str
        Short name, fit for a folder name.
    feature_names : tuple of str
        One name per column of `A`.
    source : str
        Where the data came from: a path, or the loader of a built-in set.
    description : str
        One line about the set.
    columns : ndarray of int, shape (p,), or None
        Positions, from zero, of the columns of `A` among those of the source, where some of these were left out
        because they hold no value in any row; None if `A` has them all.
    taken : str
        How the labels were understood where nobody said it, and how to have the other; else empty.
    """

    A: Samples
    b: np.ndarray
    task: str
    label_names: tuple[str, ...]
    name: str
    feature_names: tuple[str, ...]
    source: str
    description: str
    columns: np.ndarray | None = None
    taken: str = ""

    def __repr__(self) -> str:
        rows, features = self.A.shape
        labels = f", labels {', '.join(self.label_names[:10])}" if self.label_names else ""
        return f"<TaskTable {self.name}: {self.task}, {rows:,} rows, {features:,} features{labels}>"

    @classmethod
    def from_binary(cls, table: BinaryTable) -> TaskTable:
        """Return a table with two labels as one of this kind.

        Parameters
        ----------
        table : BinaryTable
            From :func:`read_binary`; its positive label becomes class 1.

        Returns
        -------
        TaskTable
            Which shares its samples.
        """
        return cls(
            table.A,
            (table.b > 0).astype(np.int64),
            "binary",
            table.label_names,
            table.name,
            table.feature_names,
            table.source,
            table.description,
            table.columns,
        )


#: The sets of numbers to predict that need no file.
NUMBERS: dict[str, Callable[[], tuple[Table, str, str]]] = {
    "diabetes": built_in("load_diabetes", "progress of diabetes within a year, from ten measurements"),
}

#: All sets that need no file: name -> task.
TASK_SETS = (
    dict.fromkeys(BUILT_IN, "binary") | dict.fromkeys(LABELLED, "multiclass") | dict.fromkeys(NUMBERS, "regression")
)


def read_table(name_or_path: str | os.PathLike[str], target: str | None = None, task: str = "auto") -> TaskTable:
    """Load a built-in set or a file, with classes or numbers to predict.

    Parameters
    ----------
    name_or_path : str or path
        A name in :data:`TASK_SETS`, or the path of a file as in :func:`read_binary`.
    target : str, optional
        The column of what is to be predicted; needed by CSV files and refused by everything else.
    task : {"auto", "binary", "multiclass", "regression"}
        What the labels are. "auto" takes text, two different values, and up to 20 different whole numbers that are
        fewer than a tenth of the rows as classes, and all else as numbers to predict.

    Returns
    -------
    TaskTable
        The samples with numbers of classes or with targets.

    Raises
    ------
    FileNotFoundError
        If there is neither a built-in set nor a file of this name.
    TargetError
        If `target` is missing for a CSV file, is no column of it, or is given for anything else.
    DataError
        If the file cannot be read as data of that task, or holds missing or infinite values, or ones that float64
        cannot hold.
    ValueError
        If `task` is none of those.

    Examples
    --------
    >>> from nbo import datasets
    >>> datasets.read_table("wine")
    <TaskTable wine: multiclass, 178 rows, 13 features, labels 0, 1, 2>
    >>> datasets.read_table("diabetes")
    <TaskTable diabetes: regression, 442 rows, 10 features>
    """
    task = choice("task", task, TASKS)
    key = os.fspath(name_or_path)
    known = TASK_SETS.get(key)
    if known is not None and task not in ("auto", known):
        raise DataError(f"task: found {task!r} for the built-in set {key!r}; expected {known!r}, or 'auto'")
    if known == "binary":
        return TaskTable.from_binary(read_binary(key, target))
    found = opened(key, target, LABELLED | NUMBERS, TASK_SETS)
    A, names = checked_samples(found.table, found.source)
    labels, values = checked_labels(found.table.labels, A.shape[0], found.source)
    taken = ""
    if known is not None:
        task = known
    elif task == "auto":
        task, taken = _understood(labels, values)
    b, label_names = _targets(labels, values, task, found.source)
    return TaskTable(
        A, b, task, label_names, found.name, names, found.source, found.description, found.table.columns, taken
    )


def _understood(labels: np.ndarray, values: np.ndarray) -> tuple[str, str]:
    """Return the task that labels stand for, and a sentence on it."""
    found = f"the labels take {values.size:,} different values"
    classes = "binary" if values.size <= 2 else "multiclass"
    if labels.dtype.kind not in "fiu":
        return classes, f"{found} that are no numbers, and were taken as classes ({classes})"
    few = values.size <= _MOST_CLASSES and values.size * _ROWS_PER_CLASS < labels.size
    if values.size <= 2 or (few and bool(np.all(values == np.floor(values)))):
        return classes, (
            f"{found}, and were taken as classes ({classes}); if they are quantities to predict, say --task regression"
        )
    other = "; if they are classes, say --task multiclass" if values.size <= MOST_LABELS else ""
    return "regression", f"{found}, and were taken as quantities to predict (regression){other}"


def _targets(labels: np.ndarray, values: np.ndarray, task: str, source: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return what is to be predicted, and the names of the classes."""
    if values.size < 2:
        raise DataError(f"{source}: labels take one value, {label_name(values[0])}; expected at least two")
    if task == "regression":
        if labels.dtype.kind not in "fiu":
            raise DataError(
                f"{source}: labels such as {shown(label_name(values[0]), 40)!r} are no numbers; expected numbers for a "
                "regression"
            )
        with np.errstate(over="ignore"):
            b = labels.astype(np.float64)
        largest = float(np.abs(b).max())
        if not _SMALLEST <= largest <= _LARGEST:
            raise DataError(
                f"{source}: the largest magnitude of the labels is {largest:.2g}; expected one between {_SMALLEST:g} "
                f"and {_LARGEST:g} for a regression (change the unit)"
            )
        return b, ()
    require_classes(values, source, *((2, 2) if task == "binary" else (3, MOST_LABELS)))
    return np.searchsorted(values, labels), tuple(map(label_name, values))

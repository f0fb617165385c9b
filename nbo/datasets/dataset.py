"""A data set in parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbo.datasets._formats import Samples
from nbo.datasets._registry import Task


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in training, validation and test parts.

    Attributes
    ----------
    A : ndarray or scipy.sparse.csr_matrix, shape (n, p)
        Training samples in rows.
    b : ndarray, shape (n,)
        Training labels: -1.0 and +1.0, whole numbers if there are more classes, or targets of a regression.
    A_val : ndarray or scipy.sparse.csr_matrix, shape (n_val, p)
        Validation samples.
    b_val : ndarray, shape (n_val,)
        Validation labels.
    A_test : ndarray or scipy.sparse.csr_matrix, shape (n_test, p), or None
        Test samples; None if the set has no test part.
    b_test : ndarray, shape (n_test,), or None
        Test labels.
    name : str
        The name of the set.
    description : str
        What it is, and what is particular about this copy.
    source : str
        Who publishes it.
    task : str
        ``"binary"``, ``"multiclass"`` or ``"regression"``.
    classes : ndarray, or None
        The labels in increasing order; None for regression.
    flipped : ndarray of bool, shape (n,), or None
        Which training labels differ from the true ones; None unless corruption was asked for.
    """

    A: Samples
    b: np.ndarray
    A_val: Samples
    b_val: np.ndarray
    A_test: Samples | None
    b_test: np.ndarray | None
    name: str
    description: str
    source: str
    task: Task
    classes: np.ndarray | None = None
    flipped: np.ndarray | None = None

    def __repr__(self) -> str:
        sizes = {"training": self.b, "validation": self.b_val, "test": self.b_test}
        rows = " + ".join(f"{len(b):,} {part}" for part, b in sizes.items() if b is not None)
        classes = f" with {len(self.classes)} classes" if self.task == "multiclass" and self.classes is not None else ""
        flipped = "" if self.flipped is None else f", {int(self.flipped.sum()):,} training labels flipped"
        return f"<Dataset {self.name}: {self.task}{classes}, {rows} rows of {self.A.shape[1]:,} features{flipped}>"

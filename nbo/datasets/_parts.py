"""From whole tables to the parts of a data set: splits, subsets, corrupted labels and scaling."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp

from nbo.datasets._formats import Samples
from nbo.datasets._readers import Labelled

Parts = dict[str, Labelled]


def take(part: Labelled, rows: np.ndarray) -> Labelled:
    """The chosen rows of a part, in the order given."""
    A, labels = part
    return A[rows], labels[rows]


def split(parts: Mapping[str, Labelled], cuts: Mapping[str, int | float], stratify: bool, seed: int) -> Parts:
    """Cut off the training rows what the publisher made no part of.

    Parameters
    ----------
    parts : dict
        ``train`` and whatever parts exist -> samples and labels.
    cuts : dict
        Part -> number of rows, or share of the rows that are there; those that exist are left alone.
    stratify : bool
        Whether every part gets the same share of every label.
    seed : int
        Of the shuffles.

    Returns
    -------
    dict
        All parts.
    """
    from sklearn.model_selection import train_test_split

    missing = {name: size for name, size in cuts.items() if name not in parts}
    labels, rows, chosen = parts["train"][1], np.arange(len(parts["train"][1])), {}
    for name, size in missing.items():
        groups = labels[rows] if stratify else None
        rows, chosen[name] = train_test_split(rows, test_size=size, stratify=groups, random_state=seed)
    cut = {name: take(parts["train"], numbers) for name, numbers in chosen.items()}
    return {**parts, **cut, "train": take(parts["train"], rows) if missing else parts["train"]}


def subset(part: Labelled, n: int, stratify: bool, seed: int) -> Labelled:
    """Choose `n` rows of a part, which keep their order.

    Parameters
    ----------
    part : tuple
        Samples and labels.
    n : int
        How many rows to keep, at most all.
    stratify : bool
        Whether to keep the shares of the labels. This needs room for one row of each among those that are kept and
        those that are left out, and two rows of each; without it the choice is plainly random.
    seed : int
        Of the choice.

    Returns
    -------
    tuple
        Samples and labels.
    """
    from sklearn.model_selection import train_test_split

    labels = part[1]
    if n == len(labels):
        return part
    _, counts = np.unique(labels, return_counts=True)
    possible = stratify and len(counts) <= min(n, len(labels) - n) and counts.min() > 1
    rows, _ = train_test_split(
        np.arange(len(labels)), train_size=n, stratify=labels if possible else None, random_state=seed
    )
    return take(part, np.sort(rows))


def corrupted(labels: np.ndarray, classes: np.ndarray, probability: float, seed: int) -> np.ndarray:
    """Redraw labels.

    Parameters
    ----------
    labels : ndarray, shape (n,)
        Labels.
    classes : ndarray
        What a corrupted label is drawn from, uniformly: it may stay the same.
    probability : float
        Of a label to be redrawn. With the same seed, the rows of a smaller one are among those of a larger one.
    seed : int
        Of the draws.

    Returns
    -------
    ndarray, shape (n,)
        The labels with the redrawn ones among them.
    """
    rng = np.random.default_rng(seed)
    redrawn = rng.random(len(labels)) < probability
    return np.where(redrawn, classes[rng.integers(len(classes), size=len(labels))], labels)


def scaled(samples: Mapping[str, Samples], standardize: bool, dtype: np.dtype) -> dict[str, Samples]:
    """Convert samples to a floating type, with features that are scaled by statistics of the training rows.

    Parameters
    ----------
    samples : dict
        Part -> samples.
    standardize : bool
        Whether dense features get mean 0 and standard deviation 1, and sparse ones, which stay sparse, the largest
        magnitude 1. Features that never vary become 0, or stay as they are if sparse and zero.
    dtype : dtype
        Of the result; the arithmetic is that of float64.

    Returns
    -------
    dict
        Part -> samples, which share no memory with the given ones.
    """
    from sklearn.preprocessing import MaxAbsScaler, StandardScaler

    wide = {name: A.astype(np.float64) for name, A in samples.items()}
    if standardize:
        scaler = MaxAbsScaler(copy=False) if sp.issparse(wide["train"]) else StandardScaler(copy=False)
        scaler.fit(wide["train"])
        wide = {name: scaler.transform(A) for name, A in wide.items()}
    return {name: _owned(A, dtype) for name, A in wide.items()}


def _owned(A: Samples, dtype: np.dtype) -> Samples:
    """Rows in C order or CSR format, in the type that was asked for."""
    if sp.issparse(A):
        return sp.csr_matrix(A, dtype=dtype)
    return np.ascontiguousarray(A, dtype=dtype)

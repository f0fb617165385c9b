"""Reading the tables of the registry, from the files of a data home or from scikit-learn."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from nbo.datasets._formats import Samples, npz_arrays, reading
from nbo.datasets._registry import Content
from nbo.datasets.errors import DataError, one_line

#: Samples, and one label a row.
Labelled = tuple[Samples, np.ndarray]

_IDX_OF_BYTES = 0x08
_WILDERNESS_AREAS, _SOIL_TYPES = 4, 40


def read_content(home: Path, content: Content) -> Labelled:
    """Read a table and check that it is the one that the registry describes.

    Parameters
    ----------
    home : Path
        The folder that holds the files.
    content : Content
        What to read.

    Returns
    -------
    A : ndarray or scipy.sparse.csr_matrix, shape (rows, columns)
        Samples, as they are stored.
    labels : ndarray, shape (rows,)
        Labels or targets, as they are stored.

    Raises
    ------
    DataError
        If a file cannot be read, or does not hold what it should.
    """
    paths = [home / file.path for file in content.files]
    A, labels = READERS[content.reader](paths, content)
    what = " and ".join(map(str, paths)) or content.reader
    if A.shape != (content.rows, content.columns) or labels.shape != (content.rows,):
        raise DataError(
            f"{what}: found {A.shape[0]:,} rows, {A.shape[1]:,} columns and labels of shape {labels.shape}; expected "
            f"{content.rows:,} rows, {content.columns:,} columns and one label a row"
        )
    if not np.isfinite(A.data if sp.issparse(A) else A).all():
        raise DataError(f"{what}: found samples that are not finite; expected finite numbers")
    _check_labels(labels, content, what)
    return A, labels


def _check_labels(labels: np.ndarray, content: Content, what: str) -> None:
    if isinstance(content.labels, tuple):
        found = (float(labels.min()), float(labels.max()))
        # A minimum is NaN if any target is, and a NaN differs from all numbers.
        if found != content.labels:
            wanted = "{:g} to {:g}".format(*content.labels)
            raise DataError(f"{what}: found targets from {found[0]:g} to {found[1]:g}; expected {wanted}")
        return
    values, counts = np.unique(labels, return_counts=True)
    if dict(zip(values.tolist(), counts.tolist(), strict=True)) != dict(content.labels):
        pairs = zip(values.tolist()[:12], counts.tolist(), strict=False)
        shown = ", ".join(f"{count:,} x {value:g}" for value, count in pairs)
        wanted = ", ".join(f"{count:,} x {value}" for value, count in content.labels.items())
        raise DataError(f"{what}: found the labels {shown}; expected {wanted}")


def _svmlight(paths: list[Path], content: Content) -> Labelled:
    from sklearn.datasets import load_svmlight_file

    (path,) = paths

    def read(stream: BinaryIO) -> Labelled:
        try:
            return load_svmlight_file(stream, n_features=content.columns, zero_based=False)
        except (ValueError, IndexError, OverflowError) as error:
            raise DataError(f"{path} is no svmlight file of {content.columns} columns: {one_line(error)}") from error

    A, labels = reading(path, read)
    A.eliminate_zeros()
    return A, labels


def _idx(paths: list[Path], content: Content) -> Labelled:
    images, labels = (reading(path, partial(_idx_array, path=path)) for path in paths)
    return images.reshape(len(images), math.prod(images.shape[1:])), labels


def _idx_array(stream: BinaryIO, path: Path) -> np.ndarray:
    """Read unsigned bytes in the idx format: 0, 0, the type, the number of dimensions, their sizes, the values."""
    packed = stream.read()
    if packed[:3] != bytes((0, 0, _IDX_OF_BYTES)) or len(packed) < 4 + 4 * packed[3]:
        raise DataError(f"{path} is no idx file of unsigned bytes: it starts with {packed[:4].hex() or 'nothing'}")
    start = 4 + 4 * packed[3]
    shape = struct.unpack(f">{packed[3]}I", packed[4:start])
    if len(packed) - start != math.prod(shape):
        raise DataError(f"{path} holds {len(packed) - start:,} values; its header says {math.prod(shape):,}")
    return np.frombuffer(packed, np.uint8, offset=start).reshape(shape)


def _arrays(path: Path, *names: str) -> list[np.ndarray]:
    arrays = reading(path, partial(npz_arrays, path=path))
    if missing := [name for name in names if name not in arrays]:
        raise DataError(f"{path} holds the keys {', '.join(sorted(arrays)) or '(none)'}; expected {', '.join(missing)}")
    return [arrays[name] for name in names]


def _npz(paths: list[Path], content: Content) -> Labelled:
    A, labels = _arrays(paths[0], "X", "y")
    return A, labels


def _npz_pool(paths: list[Path], content: Content) -> Labelled:
    A, labels, more, more_labels = _arrays(paths[0], "X_train", "y_train", "X_test", "y_test")
    return np.concatenate([A, more]), np.concatenate([labels, more_labels])


def _covtype_compact(paths: list[Path], content: Content) -> Labelled:
    """Ten numeric columns, and two codes that stand for one-hot columns."""
    numbers, wilderness, soil, labels = _arrays(paths[0], "numeric_T", "wilderness", "soil", "y_binary")
    codes = ((wilderness, _WILDERNESS_AREAS), (soil, _SOIL_TYPES))
    for code, size in codes:
        if code.shape != labels.shape or code.max(initial=0) >= size:
            raise DataError(f"{paths[0]}: found codes that do not fit {len(labels):,} rows and {size} columns")
    one_hot = [(code[:, np.newaxis] == np.arange(size)).astype(numbers.dtype) for code, size in codes]
    return np.hstack([numbers.T, *one_hot]), labels


def _covtype_binary(paths: list[Path], content: Content) -> Labelled:
    A, labels = _npz(paths, content)
    return A, np.where(labels == 2, 2, 1)


def _built_in(paths: list[Path], content: Content) -> Labelled:
    import sklearn.datasets

    A, labels = getattr(sklearn.datasets, content.reader)(return_X_y=True)
    return A, labels


#: How to read a table: a function of the paths of its files and of what is expected.
READERS: dict[str, Callable[[list[Path], Content], Any]] = {
    "svmlight": _svmlight,
    "idx": _idx,
    "npz": _npz,
    "npz_pool": _npz_pool,
    "covtype_compact": _covtype_compact,
    "covtype_binary": _covtype_binary,
    **dict.fromkeys(("load_breast_cancer", "load_digits", "load_wine", "load_diabetes"), _built_in),
}

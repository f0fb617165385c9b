"""Files of labelled samples: which format a file has, and the readers of svmlight and NPZ files."""

from __future__ import annotations

import bz2
import gzip
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import scipy.sparse as sp

from nbo.datasets.errors import DataError, one_line

#: A 2-D array or a ``scipy.sparse.csr_matrix`` (SciPy carries no types).
Samples = Any

#: The names that samples and labels may have in an NPZ file.
NPZ_KEYS = (("A", "b"), ("X", "y"), ("data", "target"))

_COMPRESSED: dict[str, Callable[..., BinaryIO]] = {".gz": gzip.open, ".bz2": bz2.open}  # type: ignore[dict-item]
_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".npz": "npz",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
}

_Read = TypeVar("_Read")


@dataclass(frozen=True)
class Table:
    """What a reader found: samples, labels as they stand in the source, and column names."""

    A: Samples
    labels: np.ndarray
    feature_names: Sequence[str]
    columns: np.ndarray | None = None


def open_packed(path: Path) -> BinaryIO:
    """Open a file for reading and unpack it as its name says."""
    return _COMPRESSED.get(path.suffix.lower(), open)(path, "rb")


def reading(path: Path, read: Callable[[BinaryIO], _Read]) -> _Read:
    """Run a reader on the opened file; failures of the file itself become a :class:`DataError`."""
    try:
        with open_packed(path) as stream:
            return read(stream)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {one_line(error)}") from error


def _inner(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path


def stem(path: Path) -> str:
    """The name of a file without the endings for packing and format."""
    inner = _inner(path)
    return inner.stem if inner.suffix.lower() in _SUFFIXES else inner.name


def format_of(path: Path) -> str:
    """``"csv"``, ``"npz"`` or ``"svmlight"``, by the name of a file or else by how it begins."""
    return _SUFFIXES.get(_inner(path).suffix.lower()) or _sniff(path)


def _sniff(path: Path) -> str:
    """Tell the format from the first bytes, for files whose name does not say it."""
    start = reading(path, lambda stream: stream.read(1 << 16))
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


def read_svmlight(stream: BinaryIO, path: Path) -> Table:
    """Read lines ``label index:value ...``; columns that hold no value in any row are left out."""
    from sklearn.datasets import load_svmlight_file

    try:
        A, labels = load_svmlight_file(stream, zero_based=True)
    except OverflowError as error:
        raise DataError(
            f"{path} holds an index or a number that the svmlight reader cannot hold ({one_line(error)}); expected "
            f"indices below {2**31 - 1:,}"
        ) from error
    except (ValueError, IndexError) as error:
        raise DataError(
            f"{path} is no well-formed svmlight file ('label index:value ...'): {one_line(error)}"
        ) from error
    # The largest index may be far beyond the number of columns in use, so nothing here is as long as it is large.
    used, positions = np.unique(A.indices, return_inverse=True)
    # Indices usually start at one; the names keep the numbers that stand in the file.
    first = 0 if used.size and used[0] == 0 else 1
    columns = used - first
    packed = sp.csr_matrix((A.data, positions, A.indptr), shape=(A.shape[0], used.size))
    complete = columns.size == 0 or int(columns[-1]) + 1 == columns.size
    return Table(packed, labels, [f"f{j}" for j in used], None if complete else columns)


def read_npz(stream: BinaryIO, path: Path) -> Table:
    """Read samples and labels of an archive, under any pair of names in :data:`NPZ_KEYS`."""
    arrays = npz_arrays(stream, path)
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
    return Table(A, arrays[pair[1]], [str(n) for n in names] if named else [f"f{j}" for j in range(A.shape[1])])


def npz_arrays(stream: BinaryIO, path: Path) -> dict[str, np.ndarray]:
    """All arrays of an NPZ archive by their names."""
    try:
        archive = np.load(stream, allow_pickle=False)
        if isinstance(archive, np.lib.npyio.NpzFile):
            return {key: archive[key] for key in archive.files}
    except MemoryError:
        raise
    except Exception as error:  # a damaged archive raises BadZipFile, zlib.error, ValueError, KeyError, ...
        raise DataError(f"{path} is no NPZ archive of plain arrays: {one_line(error)}") from error
    raise DataError(f"{path} holds a single array; expected an NPZ archive with samples and labels")


def _numeric_matrix(A: np.ndarray, what: str) -> np.ndarray:
    if A.ndim != 2:
        raise DataError(f"{what} has shape {A.shape}; expected two dimensions, samples in rows")
    if A.dtype.kind not in "fiub":
        raise DataError(f"{what} has type {A.dtype}; expected real numbers")
    return A

"""What belongs to single samples, as compiled code reads it: checked arrays, one tuple a level."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from nbo._validation import as_csr, require_finite, require_unmasked

Array = npt.NDArray[Any]


def take_rows(level: tuple[Any, ...], rows: Array) -> tuple[Any, ...]:
    """Return chosen samples of a level.

    Parameters
    ----------
    level : tuple
        As in `Data`.
    rows : ndarray of int
        Stored rows.

    Returns
    -------
    tuple
        Copies.
    """
    return tuple(_take_sparse(part, rows) if isinstance(part, tuple) else part[rows] for part in level)


def chosen_rows(level: tuple[Any, ...], batch: Any) -> tuple[tuple[Any, ...], int, int]:
    """Return a level in which the samples of a batch are neighbours.

    Parameters
    ----------
    level : tuple
        As in `Data`.
    batch : None, slice or array_like of int
        The samples; None for all.

    Returns
    -------
    level : tuple
        The same, or a copy of the samples.
    lo, hi : int
        The samples are the rows lo .. hi - 1.

    Raises
    ------
    TypeError, ValueError, IndexError
        For a batch that is none, is empty, or is not of this level.
    """
    n = level[-1].shape[0]
    if batch is None:
        return level, 0, n
    if isinstance(batch, slice):
        chosen = range(n)[batch]
        if len(chosen) and chosen.step == 1:
            return level, chosen.start, chosen.stop
        batch = np.arange(n)[batch]
    rows = np.asarray(batch)
    if not rows.size:
        raise ValueError("batch: found an empty batch; expected at least one sample")
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise TypeError(
            f"batch: found an array of shape {rows.shape} and type {rows.dtype}; expected None, a slice or a "
            "1-D integer array"
        )
    if rows.min() < -n or rows.max() >= n:
        raise IndexError(f"batch: found indices from {rows.min()} to {rows.max()}; expected 0 to {n - 1}")
    return take_rows(level, rows), 0, rows.size


def _take_sparse(part: tuple[Array, Array, Array], rows: Array) -> tuple[Array, Array, Array]:
    values, indices, starts = part
    first = starts.astype(np.int64)
    lengths: Array = (first[1:] - first[:-1])[rows]
    ends = np.concatenate(([0], np.cumsum(lengths)))
    # entry e of the result lies where its row starts, plus its place in that row
    source = np.repeat(first[:-1][rows] - ends[:-1], lengths) + np.arange(ends[-1])
    return values[source], indices[source], ends.astype(starts.dtype)


def level_parts(name: str, parts: Any, finite: bool = False) -> tuple[int, tuple[Any, ...]]:
    """Return the number of samples of a level and its arrays, with the original indices at the end.

    Parameters
    ----------
    name : str
        The level, for messages.
    parts : tuple
        What the user gave.
    finite : bool
        Whether the numbers are known to be finite, which saves a pass over them.

    Returns
    -------
    n_samples : int
        Their number.
    level : tuple
        As in `Data`.
    """
    if not isinstance(parts, tuple) or not parts:
        raise TypeError(f"{name}: found {type(parts).__name__}; expected a non-empty tuple of arrays")
    stored = [_part(f"{name}[{i}]", part, finite) for i, part in enumerate(parts)]
    sizes = [len(p[2]) - 1 if isinstance(p, tuple) else len(p) for p in stored]
    if len(set(sizes)) > 1 or not sizes[0]:
        raise ValueError(f"{name}: found arrays of {', '.join(map(str, sizes))} samples; expected one number above 0")
    return sizes[0], (*stored, np.arange(sizes[0]))


def _part(name: str, part: Any, finite: bool) -> Any:
    require_unmasked(name, part)
    if sp.issparse(part):
        matrix = as_csr(name, part, "two dimensions")
        values = _numbers(f"{name} (stored values)", matrix.data, finite)
        return values, _unsigned(matrix.indices), _unsigned(matrix.indptr)
    array = np.asarray(part)
    if array.ndim == 0:
        raise ValueError(f"{name}: found a number; expected an array with one entry or row a sample")
    return _numbers(name, array, finite)


def _unsigned(indices: Array) -> Array:
    """Return a view of indices that frees compiled loops of tests for negative ones."""
    wide = np.ascontiguousarray(indices, indices.dtype if indices.dtype in (np.int32, np.int64) else np.int64)
    return _read_only(wide.view(np.uint32 if wide.dtype == np.int32 else np.uint64))


def _read_only(array: Array) -> Array:
    """Return a view that cannot be written: kernels that run as plain Python must not change the user's arrays."""
    view = array.view()
    view.flags.writeable = False
    return view


def _numbers(name: str, array: Array, finite: bool = False) -> Array:
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8 or array.dtype == np.float16:
        raise TypeError(f"{name}: found type {array.dtype}; expected float64, float32, integers or booleans")
    array = np.require(array, array.dtype.newbyteorder("="), ["C", "A"])
    if array.dtype.kind == "f" and not finite:
        require_finite(name, array)
    return _read_only(array)


def common_parts(common: Any) -> tuple[Any, ...]:
    """Return the arrays and numbers that belong to no sample.

    Parameters
    ----------
    common : tuple
        What the user gave; it may hold tuples.

    Returns
    -------
    tuple
        Of arrays and Python numbers, of the same types of tuples.

    Raises
    ------
    TypeError, ValueError
        If it is no such tuple.
    """
    if not isinstance(common, tuple):
        raise TypeError(f"common: found {type(common).__name__}; expected a tuple of arrays and numbers")
    return _common_part("common", common)


def _common_part(name: str, item: Any) -> Any:
    if isinstance(item, tuple):
        parts = [_common_part(f"{name}[{i}]", part) for i, part in enumerate(item)]
        return type(item)(*parts) if hasattr(item, "_fields") else tuple(parts)
    if isinstance(item, np.ndarray) and item.ndim:
        require_unmasked(name, item)
        return _numbers(name, item)
    if isinstance(item, np.generic):
        item = item.item()
    if not isinstance(item, (bool, int, float)):
        raise TypeError(
            f"{name}: found {type(item).__name__}; expected an array, a bool, an int, a float or a tuple of them"
        )
    if isinstance(item, int) and not -(1 << 63) <= item < 1 << 63:
        raise ValueError(f"{name}: found an integer of {item.bit_length()} bits; expected at most 63 and a sign")
    return item


def arrays_of(level: tuple[Any, ...]) -> list[Any]:
    """Return the parts of a level, of CSR matrices and other tuples theirs."""
    return [array for part in level for array in (arrays_of(part) if isinstance(part, tuple) else (part,))]


def working_type(*levels: tuple[Any, ...]) -> np.dtype[Any]:
    arrays = [part[0] if isinstance(part, tuple) else part for level in levels for part in level]
    kinds = {a.dtype for a in arrays if a.dtype.kind == "f"}
    return np.dtype(np.float32 if kinds == {np.dtype(np.float32)} else np.float64)


def is_mapped(level: tuple[Any, ...]) -> bool:
    """Tell whether an array of a level lies in a file."""
    for array in arrays_of(level):
        base: Any = array
        while isinstance(base, np.ndarray):
            if isinstance(base, np.memmap):
                return True
            base = base.base
    return False

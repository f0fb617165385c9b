"""Checked design matrices and labels, converted once to what the kernels read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from nbo._validation import as_csr, require_finite, require_unmasked

Array = npt.NDArray[Any]
Batch = slice | npt.ArrayLike | None


def design_matrix(name: str, A: Any) -> Any:
    """Return A as a C-contiguous array or a CSR matrix of float64 or float32, sharing memory where possible.

    Integers and booleans become float64. F-ordered and CSC data are converted, once.

    Parameters
    ----------
    name : str
        The argument, for messages.
    A : array_like or sparse
        Samples in rows, (n, p), n and p at least 1.

    Returns
    -------
    ndarray or CSR
        Never written to.

    Raises
    ------
    TypeError, ValueError
        If `A` is not real, two-dimensional, non-empty and finite.
    """
    wanted = "a real matrix with samples in rows (dense array or SciPy sparse)"
    require_unmasked(name, A)
    if sp.issparse(A):
        matrix = as_csr(name, A, wanted)
        matrix = _retyped(matrix, _float_type(name, matrix.dtype, wanted))
        values = matrix.data
    else:
        dense = np.asarray(A)
        if dense.ndim != 2:
            raise ValueError(f"{name}: found shape {dense.shape}; expected {wanted}")
        with np.errstate(over="ignore"):
            matrix = values = np.require(dense, _float_type(name, dense.dtype, wanted), ["C", "A"])
    if 0 in matrix.shape:
        raise ValueError(f"{name}: found shape {matrix.shape}; expected at least one row and one column")
    require_finite(f"{name} (stored values)" if sp.issparse(A) else name, values)
    return matrix


def _float_type(name: str, dtype: np.dtype[Any], wanted: str) -> np.dtype[Any]:
    if dtype.kind not in "fiub":
        raise TypeError(f"{name}: found type {dtype}; expected {wanted}")
    return np.dtype(np.float32) if dtype.kind == "f" and dtype.itemsize == 4 else np.dtype(np.float64)


def _retyped(matrix: Any, dtype: np.dtype[Any]) -> Any:
    """Return a CSR matrix with values and indices as the kernels read them, which shares what it can."""
    parts = (np.require(matrix.data, dtype, ["C", "A"]), _index_array(matrix.indices), _index_array(matrix.indptr))
    if all(new is old for new, old in zip(parts, (matrix.data, matrix.indices, matrix.indptr), strict=True)):
        return matrix
    retyped = type(matrix)(matrix.shape, dtype=dtype)
    retyped.data, retyped.indices, retyped.indptr = parts  # the constructor might change the index type
    return retyped


def _index_array(indices: Array) -> Array:
    """Return indices as contiguous native int32 or int64."""
    wanted = np.int32 if indices.dtype == np.int32 else np.int64
    return np.require(indices, wanted, ["C", "A"])


def same_columns(A: Any, A_val: Any) -> Any:
    """Return `A_val` in the type and layout of `A`, so that both levels share kernels.

    Parameters
    ----------
    A, A_val : ndarray or CSR
        Training and validation data from `design_matrix`.

    Returns
    -------
    ndarray or CSR
        The validation data.

    Raises
    ------
    ValueError
        If the numbers of columns differ.
    """
    if A_val.shape[1] != A.shape[1]:
        raise ValueError(f"A_val: found {A_val.shape[1]} columns; expected {A.shape[1]}, as in A")
    with np.errstate(over="ignore"):
        same = _retyped(A_val, A.dtype) if sp.issparse(A_val) else A_val.astype(A.dtype, copy=False)
    if same is not A_val:  # a value may be beyond the narrower type
        require_finite("A_val (as float32, the type of A)", same.data if sp.issparse(same) else same)
    return same


def binary_labels(name: str, b: Any, n: int, dtype: np.dtype[Any], *, both: bool) -> Array:
    """Return labels -1/+1 as floats of the data's type.

    Parameters
    ----------
    name : str
        The argument, for messages.
    b : array_like
        Labels, (n,).
    n : int
        How many there must be.
    dtype : dtype
        Of the result.
    both : bool
        Whether both classes must occur.

    Returns
    -------
    ndarray
        A copy, (n,).

    Raises
    ------
    ValueError
        For other labels, with the mapping that would fix them, another length, or a missing class.
    """
    require_unmasked(name, b)
    labels = np.asarray(b)
    if labels.shape != (n,):
        raise ValueError(f"{name}: found shape {labels.shape}; expected ({n},), one label a row")
    if labels.dtype.kind == "f":
        require_finite(name, labels)
    try:
        values = np.unique(labels)
    except TypeError:
        raise TypeError(f"{name}: found labels of mixed types; expected -1 and +1") from None
    if labels.dtype.kind not in "fiu" or not np.isin(values, (-1, 1)).all():
        raise ValueError(f"{name}: found labels {_shown(values)}; expected -1 and +1{_remedy(name, values)}")
    if both and values.size < 2:
        raise ValueError(f"{name}: found only the class {int(values[0]):+d}; expected both classes, -1 and +1")
    return labels.astype(dtype)


def _shown(values: Array) -> str:
    text = ", ".join(repr(v) for v in values[:5].tolist())
    return "{" + text + (", ..." if values.size > 5 else "") + "}"


def _remedy(name: str, values: Array) -> str:
    if values.size == 2:
        return f" (map them by np.where({name} == {values.tolist()[-1]!r}, 1, -1))"
    if values.size == 1:
        return " (there is only one class)"
    return f" ({values.size} different labels: a binary problem has two)"


def rows(matrix: Any, batch: Batch, name: str = "batch") -> Any:
    """Return the chosen rows of a matrix or vector.

    Parameters
    ----------
    matrix : ndarray or CSR
        Samples in rows.
    batch : slice, integer array or None
        Which ones; None means all.
    name : str
        The argument, for messages.

    Returns
    -------
    ndarray or CSR
        C-contiguous; a view where the rows are.

    Raises
    ------
    TypeError, IndexError, ValueError
        If `batch` is neither, is out of range, or chooses no rows.
    """
    if batch is None:
        return matrix
    if not isinstance(batch, slice):
        batch = np.asarray(batch)
        if batch.ndim != 1 or batch.dtype.kind not in "iu":
            raise TypeError(
                f"{name}: found an array of shape {batch.shape} and type {batch.dtype}; expected None, a slice or a "
                "1-D integer array"
            )
        n = matrix.shape[0]
        if batch.size and (batch.min() < -n or batch.max() >= n):
            raise IndexError(f"{name}: found indices from {batch.min()} to {batch.max()}; expected 0 to {n - 1}")
    chosen = matrix[batch]
    if chosen.shape[0] == 0:
        raise ValueError(f"{name}: found an empty batch; expected at least one sample")
    return chosen if sp.issparse(chosen) else np.ascontiguousarray(chosen)


def spectral_norm(A: Any) -> float:
    """Return |A|_2, or its upper bound |A|_F where neither side is small.

    Parameters
    ----------
    A : ndarray or CSR
        A matrix, (n, p).

    Returns
    -------
    float
        At least the spectral norm.
    """
    if min(A.shape) > 2000:
        return float(np.linalg.norm(row_norms(A)))
    gram = A.T @ A if A.shape[1] <= A.shape[0] else A @ A.T
    dense = gram.toarray() if sp.issparse(gram) else gram
    return float(np.sqrt(max(np.linalg.eigvalsh(np.asarray(dense, dtype=np.float64))[-1], 0.0)))


def row_norms(A: Any) -> Array:
    """Return the Euclidean norm of every row.

    Parameters
    ----------
    A : ndarray or CSR
        (n, p).

    Returns
    -------
    ndarray
        (n,), float64.
    """
    if sp.issparse(A):
        return np.sqrt(np.asarray(A.multiply(A).sum(axis=1), dtype=np.float64).ravel())
    return np.sqrt(np.einsum("ij,ij->i", A, A, dtype=np.float64))

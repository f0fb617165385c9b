"""Checked design matrices and labels, converted once to what the kernels read."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from nbo._validation import as_csr, integer, real_array, require_finite, require_unmasked

Array = npt.NDArray[Any]

#: Classes that a problem may have.
MOST_CLASSES = 1_000_000


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
        try:
            dense = np.asarray(A)
        except ValueError as error:
            raise ValueError(f"{name}: not an array ({error}); expected {wanted}") from error
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
    """Return a CSR matrix with values and indices as the kernels read them: itself, or one of its own arrays.

    SciPy reorders a matrix in place even in calls that only read it. All three arrays then change together, or none.
    """
    parts = (np.require(matrix.data, dtype, ["C", "A"]), _index_array(matrix.indices), _index_array(matrix.indptr))
    if all(new is old for new, old in zip(parts, (matrix.data, matrix.indices, matrix.indptr), strict=True)):
        return matrix
    retyped = type(matrix)(matrix.shape, dtype=dtype)
    # copied, and set one by one, since the constructor might change the index type
    retyped.data, retyped.indices, retyped.indptr = (np.array(part) for part in parts)
    return retyped


def _index_array(indices: Array) -> Array:
    """Return indices as contiguous native int32 or int64."""
    wanted = np.int32 if indices.dtype == np.int32 else np.int64
    return np.require(indices, wanted, ["C", "A"])


def same_columns(A: Any, A_val: Any, name: str = "A_val", of: str = "A") -> Any:
    """Return `A_val` in the type and layout of `A`, so that both levels share kernels.

    Parameters
    ----------
    A, A_val : ndarray or CSR
        Training data and other rows from `design_matrix`.
    name, of : str
        What messages call the latter and the former.

    Returns
    -------
    ndarray or CSR
        The other rows.

    Raises
    ------
    ValueError
        If the numbers of columns differ.
    """
    if A_val.shape[1] != A.shape[1]:
        raise ValueError(f"{name}: found {A_val.shape[1]} columns; expected {A.shape[1]}, as in {of}")
    with np.errstate(over="ignore"):
        same = _retyped(A_val, A.dtype) if sp.issparse(A_val) else A_val.astype(A.dtype, copy=False)
    if same is not A_val:  # a value may be beyond the narrower type
        require_finite(f"{name} (as float32, the type of {of})", same.data if sp.issparse(same) else same)
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
    labels = _labels(name, b, n)
    values = np.unique(labels)
    if labels.dtype.kind not in "fiu" or not np.isin(values, (-1, 1)).all():
        raise ValueError(f"{name}: found labels {_shown(values)}; expected -1 and +1{_remedy(name, values)}")
    if both and values.size < 2:
        raise ValueError(f"{name}: found only the class {int(values[0]):+d}; expected both classes, -1 and +1")
    return owned(labels, dtype)


def owned(array: Array, dtype: npt.DTypeLike) -> Array:
    """Return a read-only copy, which no later change of the user's array reaches.

    Parameters
    ----------
    array : ndarray
        What to copy.
    dtype : dtype
        Of the copy.

    Returns
    -------
    ndarray
        C-contiguous.
    """
    copy = np.array(array, dtype, order="C")
    copy.flags.writeable = False
    return copy


def _shown(values: Array) -> str:
    text = ", ".join(repr(v) for v in values[:5].tolist())
    return "{" + text + (", ..." if values.size > 5 else "") + "}"


def _remedy(name: str, values: Array) -> str:
    if values.size == 2:
        return f" (map them by np.where({name} == {values.tolist()[-1]!r}, 1, -1))"
    if values.size == 1:
        return " (there is only one class)"
    return f" ({values.size} different labels: a binary problem has two)"


def class_labels(b: Any, b_val: Any, n: int, n_val: int, n_classes: int | None) -> tuple[Array, Array, Array]:
    """Return labels as class numbers, and the classes; one that a part lacks is kept, with a warning.

    Parameters
    ----------
    b, b_val : array_like
        Training and validation labels, (n,) and (n_val,): numbers or strings.
    n, n_val : int
        How many there must be.
    n_classes : int or None
        c; labels are then 0 .. c - 1. None takes the labels that occur, in order.

    Returns
    -------
    codes, codes_val : ndarray of unsigned int
        0 .. c - 1, (n,) and (n_val,).
    classes : ndarray
        The labels that they stand for, (c,).

    Raises
    ------
    TypeError, ValueError
        For labels of mixed types, out of range or missing, and for fewer than two classes.
    """
    labels = {"b": _labels("b", b, n), "b_val": _labels("b_val", b_val, n_val)}
    if n_classes is None:
        classes = _common_classes(labels["b"], labels["b_val"])
    else:
        classes = np.arange(integer("n_classes", n_classes, minimum=2, maximum=MOST_CLASSES))
        for name, array in labels.items():
            if array.dtype.kind not in "fiub" or not np.isin(array, classes).all():
                raise ValueError(
                    f"{name}: found labels {_shown(np.unique(array))}; expected 0 .. {classes[-1]}, as n_classes says "
                    f"(they are of type {array.dtype})"
                )
    codes = {name: np.searchsorted(classes, array).astype(np.uint32) for name, array in labels.items()}
    for name, part in (("b", "training"), ("b_val", "validation")):
        missing = np.setdiff1d(np.arange(classes.size), codes[name])
        if missing.size:
            warnings.warn(
                f"{name}: the {part} rows have no sample of {_shown(classes[missing])}; the model keeps all "
                f"{classes.size} classes",
                stacklevel=3,
            )
    return codes["b"], codes["b_val"], classes


def _labels(name: str, b: Any, n: int) -> Array:
    """Return labels as an array of numbers, booleans or strings."""
    require_unmasked(name, b)
    labels = np.asarray(b)
    if labels.shape != (n,):
        raise ValueError(f"{name}: found shape {labels.shape}; expected ({n},), one label a row")
    if labels.dtype.kind == "O":
        kinds = [kind for kind in (numbers.Real, str) if all(isinstance(label, kind) for label in labels)]
        if not kinds:
            raise TypeError(f"{name}: found labels of mixed types; expected numbers or strings")
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "f":
        require_finite(name, labels)
    if labels.dtype.kind not in "fiubUS":
        raise TypeError(f"{name}: found type {labels.dtype}; expected numbers or strings")
    return labels


def _common_classes(b: Array, b_val: Array) -> Array:
    """Return all labels that occur, in order."""
    kinds = {"number" if array.dtype.kind in "fiu" else array.dtype.kind for array in (b, b_val)}
    if len(kinds) > 1:
        raise TypeError(f"b_val: found labels of type {b_val.dtype}; expected {b.dtype}, as in b")
    both = np.concatenate((b, b_val))
    for name, array in (("b", b), ("b_val", b_val)):
        if both.dtype.kind == "f" and array.dtype.kind in "iu" and not (both.astype(array.dtype) == both).all():
            raise ValueError(f"{name}: found labels of type {array.dtype} that {both.dtype} cannot hold; relabel them")
    classes = np.unique(both)
    if classes.size < 2:
        raise ValueError(f"b: found only the label {classes.tolist()[0]!r}; expected at least two classes")
    return classes


def targets(name: str, b: Any, n: int, dtype: np.dtype[Any]) -> Array:
    """Return regression targets in the data's type.

    Parameters
    ----------
    name : str
        The argument, for messages.
    b : array_like
        Targets, (n,) or (n, q).
    n : int
        How many rows there must be.
    dtype : dtype
        Of the result.

    Returns
    -------
    ndarray
        (n, q), finite.

    Raises
    ------
    TypeError, ValueError
        For anything else.
    """
    array = real_array(name, b, f"targets, one a row, ({n},) or ({n}, q)")
    if array.ndim not in (1, 2) or array.shape[0] != n or 0 in array.shape:
        raise ValueError(f"{name}: found shape {array.shape}; expected ({n},) or ({n}, q), targets of every row")
    require_finite(name, array)
    with np.errstate(over="ignore"):
        found = owned(array.reshape(n, -1), dtype)
    require_finite(f"{name} (as {dtype}, the type of A)", found)
    return found


def sample_weights(name: str, weights: Any, n: int, dtype: np.dtype[Any]) -> tuple[Array, float]:
    """Return weights scaled to mean 1, and their sum as given.

    Parameters
    ----------
    name : str
        The argument, for messages.
    weights : array_like or None
        At least 0 and not all zero, (n,); None for ones.
    n : int
        How many there must be.
    dtype : dtype
        Of the result.

    Returns
    -------
    weights : ndarray
        (n,).
    total : float
        n without weights.

    Raises
    ------
    TypeError, ValueError
        For anything else.
    """
    if weights is None:
        return np.ones(n, dtype), float(n)
    array = real_array(name, weights, f"weights, one a row, ({n},)").astype(np.float64)
    if array.shape != (n,):
        raise ValueError(f"{name}: found shape {array.shape}; expected ({n},), one weight a row")
    require_finite(name, array)
    if array.min() < 0 or not array.max() > 0:
        raise ValueError(
            f"{name}: found weights from {array.min():g} to {array.max():g}; expected none below 0, one above"
        )
    relative = array / array.max()  # whose sum cannot overflow
    total = float(relative.sum()) * float(array.max())
    if not 1e-300 < total < 1e300:
        raise ValueError(f"{name}: found weights whose sum is {total:.3g}; expected one between 1e-300 and 1e300")
    return owned(relative * (n / relative.sum()), dtype), total


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

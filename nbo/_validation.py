"""Checks of arguments: each refusal names the argument, what was found and what was expected."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating[Any]]


def integer(name: str, value: Any, *, minimum: int = 0, maximum: int | None = None) -> int:
    """Return `value` as an int within its limits; booleans and floats are refused."""
    if isinstance(value, (bool, np.bool_, np.timedelta64)) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name}: found {value!r} ({type(value).__name__}); expected an integer >= {minimum}")
    if value < minimum:
        raise ValueError(f"{name}: found {value}; expected an integer >= {minimum}")
    number = int(value)
    if maximum is not None and number > maximum:
        raise ValueError(f"{name}: found {number}; expected an integer from {minimum} to {maximum}")
    return number


def real(name: str, value: Any, *, positive: bool = False, minimum: float = -np.inf) -> float:
    """Return `value` as a finite float above its lower limit."""
    wanted = "a positive number" if positive else "a number" + (f" >= {minimum:g}" if minimum > -np.inf else "")
    if isinstance(value, (bool, np.bool_, np.timedelta64)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: found {value!r} ({type(value).__name__}); expected {wanted}")
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    if not np.isfinite(number) or number < minimum or (positive and number <= 0):
        raise ValueError(f"{name}: found {number}; expected {wanted}, finite")
    return number


def time_limit(value: Any) -> float:
    """Return `max_time` as a float, infinite if there is none."""
    if value is None or (isinstance(value, (float, np.floating)) and value == np.inf):
        return np.inf
    return real("max_time", value, minimum=0.0)


def fraction(name: str, value: Any) -> float:
    """Return `value` as a float from 0 to 1."""
    number = real(name, value, minimum=0.0)
    if number > 1:
        raise ValueError(f"{name}: found {number:g}; expected a number from 0 to 1")
    return number


def choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return `value` if it is one of the `allowed` words."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}: found {value!r}; expected one of {', '.join(map(repr, allowed))}")
    return value


def flag(name: str, value: Any) -> bool:
    """Return `value` as a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: found {value!r}; expected True or False")
    return bool(value)


def real_array(name: str, value: Any, wanted: str) -> npt.NDArray[Any]:
    """Return `value` as an array of real numbers, which may share its memory."""
    require_unmasked(name, value)
    if hasattr(value, "toarray"):
        raise TypeError(f"{name}: found a sparse matrix; expected {wanted}, dense (use .toarray())")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name}: not an array ({error}); expected {wanted}") from error
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name}: found an array of type {array.dtype}; expected {wanted} of real numbers")
    return array


def require_unmasked(name: str, value: Any) -> None:
    """Raise if `value` is a masked array with masked entries, which a conversion would silently uncover."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"{name}: found a masked array with masked entries; expected one without (fill or drop them)")


def require_finite(name: str, array: npt.NDArray[Any]) -> None:
    """Raise if `array` has a NaN or an infinity, with the place of the first one."""
    bad = ~np.isfinite(array)
    if bad.any():
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        place = first[0] if len(first) == 1 else first
        raise ValueError(
            f"{name}: found {array[first]} at index {place} ({int(bad.sum())} of {array.size} entries "
            "are not finite); expected finite numbers"
        )


def vector(
    name: str, value: Any, size: int | None = None, dtype: npt.DTypeLike = np.float64, meaning: str = ""
) -> npt.NDArray[Any]:
    """Return a finite 1-D copy of `value`; a number stands for a vector of one entry.

    Parameters
    ----------
    name : str
        The argument, for messages.
    value : array_like
        What the caller gave.
    size : int, optional
        The expected number of entries.
    dtype : dtype
        Of the copy.
    meaning : str
        What `size` is called, for messages (such as ``"dim_x"``).

    Returns
    -------
    ndarray
        A contiguous copy.

    Raises
    ------
    TypeError, ValueError
        If `value` is not real, not one-dimensional, of another size, or not finite.
    """
    wanted = "a vector" if size is None else f"a vector of shape ({size},)" + (f" ({meaning})" if meaning else "")
    array = real_array(name, value, wanted)
    if array.ndim == 0:
        array = array.reshape(1)
    if array.ndim != 1 or (size is not None and array.shape[0] != size):
        raise ValueError(f"{name}: found shape {array.shape}; expected {wanted}")
    with np.errstate(over="ignore"):
        copy = np.array(array, dtype=dtype)
    require_finite(name, copy)
    return copy


def matrix(name: str, value: Any, shape: tuple[int | None, int | None] = (None, None)) -> npt.NDArray[np.float64]:
    """Return a finite 2-D float64 copy of `value`; None in `shape` leaves that size free."""
    text = "({}, {})".format(*("any" if s is None else s for s in shape))
    array = real_array(name, value, f"a matrix of shape {text}")
    fits = array.ndim == 2 and all(s in (None, found) for s, found in zip(shape, array.shape, strict=True))
    if not fits or array.size == 0:
        raise ValueError(f"{name}: found shape {array.shape}; expected {text}")
    copy = np.array(array, dtype=np.float64)
    require_finite(name, copy)
    return copy


def dimension(problem: Any, name: str) -> int:
    """Return the problem's `dim_x` or `dim_y`, refusing what is missing or no positive integer."""
    value = getattr(problem, name, None)
    if value is None:
        raise TypeError(f"problem: {type(problem).__name__} has no {name}; set it to the length of {name[-1]}")
    return integer(f"problem.{name}", value, minimum=1)


def box(name: str, bounds: Any, dim_x: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return (lower, upper) as float64 vectors from a pair or a `scipy.optimize.Bounds`.

    Parameters
    ----------
    name : str
        The argument, for messages.
    bounds : pair or scipy.optimize.Bounds
        Scalars or vectors of length `dim_x`; infinities are allowed, NaN is not.
    dim_x : int
        The length of the result.

    Returns
    -------
    tuple of ndarray
        Lower and upper bounds, (dim_x,) each.

    Raises
    ------
    TypeError, ValueError
        If `bounds` is no pair, has another length or NaN, or a lower bound exceeds its upper one.
    """
    if isinstance(bounds, list) and bounds and all(isinstance(b, tuple) and len(b) == 2 for b in bounds):
        raise TypeError(
            f"{name}: found a list of {len(bounds)} pairs; expected one pair (lower, upper) of scalars or vectors, "
            "or a scipy.optimize.Bounds"
        )
    pair = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") and hasattr(bounds, "ub") else bounds
    try:
        lower, upper = pair
    except (TypeError, ValueError):
        raise TypeError(f"{name}: found {bounds!r}; expected a pair (lower, upper) of scalars or vectors") from None
    sides = []
    for side, value in (("lower", lower), ("upper", upper)):
        array = real_array(f"{name} ({side})", value, f"a scalar or a vector of shape ({dim_x},)")
        if array.ndim > 1 or array.size not in (1, dim_x):
            raise ValueError(
                f"{name} ({side}): found shape {array.shape}; expected a scalar or a vector of shape ({dim_x},)"
            )
        array = np.array(np.broadcast_to(array, (dim_x,)), dtype=np.float64)
        if np.isnan(array).any():
            raise ValueError(f"{name} ({side}): found NaN at index {int(np.isnan(array).argmax())}")
        sides.append(array)
    if (sides[0] == np.inf).any() or (sides[1] == -np.inf).any():
        raise ValueError(f"{name}: found a lower bound inf or an upper bound -inf; expected a box with finite points")
    crossed = sides[0] > sides[1]
    if crossed.any():
        i = int(crossed.argmax())
        raise ValueError(f"{name}: found lower {sides[0][i]:g} > upper {sides[1][i]:g} at index {i}")
    return sides[0], sides[1]


def validate_random_state(random_state: Any) -> None:
    """Raise unless `random_state` is None, a non-negative integer or a NumPy Generator.

    Parameters
    ----------
    random_state : object
        What was given.

    Raises
    ------
    TypeError, ValueError
        Otherwise.
    """
    if isinstance(random_state, np.random.RandomState):
        raise TypeError(
            "random_state: found a RandomState, NumPy's old generator; expected None, an integer >= 0 or a "
            "numpy.random.Generator such as numpy.random.default_rng(0)"
        )
    if random_state is None or isinstance(random_state, np.random.Generator):
        return
    try:
        integer("random_state", random_state)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error}, None or a numpy.random.Generator") from None


def as_csr(name: str, A: Any, wanted: str) -> Any:
    """Return a sparse matrix by rows, sharing memory where possible; raise unless it is consistent."""
    if A.ndim != 2:
        raise ValueError(f"{name}: found a sparse array of shape {A.shape}; expected {wanted}")
    if A.format in ("csr", "csc"):
        _require_consistent(name, A)
    elif A.format == "coo":
        _require_places(name, A)
    elif A.format == "bsr":
        try:
            A.check_format()
        except ValueError as error:
            raise ValueError(f"{name}: found an inconsistent bsr matrix ({error})") from error
    return A.tocsr()


def _require_places(name: str, A: Any) -> None:
    """Raise unless the entries of a COO matrix lie in it: SciPy's conversion follows them blindly."""
    for places, size in zip((A.row, A.col), A.shape, strict=True):
        if len(places) != len(A.data) or (len(places) and (places.min() < 0 or places.max() >= size)):
            raise ValueError(
                f"{name}: found a coo matrix of shape {A.shape} and {len(A.data)} values with indices from "
                f"{places.min(initial=0)} to {places.max(initial=0)}; expected 0 to {size - 1}, one for each value"
            )


def _require_consistent(name: str, A: Any) -> None:
    """Raise unless the index arrays of a CSR or CSC matrix fit together: compiled code follows them blindly."""
    major, minor = A.shape if A.format == "csr" else A.shape[::-1]
    indptr, indices = A.indptr, A.indices
    stored = min(len(indices), len(A.data))
    ordered = len(indptr) == major + 1 and bool((np.diff(indptr.astype(np.int64)) >= 0).all())
    if not ordered or indptr[0] != 0 or indptr[-1] > stored:
        raise ValueError(
            f"{name}: found a {A.format} matrix whose indptr does not fit its shape {A.shape} and {stored} stored "
            "values; expected one that passes check_format()"
        )
    used = indices[: indptr[-1]]
    if used.size and (used.min() < 0 or used.max() >= minor):
        raise ValueError(
            f"{name}: found a {A.format} matrix with an index {int(used.min() if used.min() < 0 else used.max())}; "
            f"expected 0 to {minor - 1}"
        )

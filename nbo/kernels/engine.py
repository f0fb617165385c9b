"""Compilation at first use, cached on disk, one dispatcher for each function and signature."""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import threading
import types as pytypes
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError
from numba.extending import overload

from nbo._clock import compilation
from nbo._code_digest import add_function, options_text
from nbo._dual import MARKED, Choice, Dual

#: Full fast-math would let the compiler assume that no value is NaN or infinite and so hide divergence.
FASTMATH = {"reassoc", "contract", "nsz", "arcp"}

#: The default error model tests every divisor, and a loop with such a test is not vectorised.
#: Only first-class functions need the wrapper for callers in C, which takes a good part of the time to compile.
FLAGS: dict[str, Any] = {"fastmath": FASTMATH, "error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}

#: For functions that compiled code alone calls.
INNER_FLAGS: dict[str, Any] = FLAGS | {"no_cpython_wrapper": True}

#: For functions whose accuracy rests on the order of operations (range reductions, compensated terms).
ORDERED_FLAGS: dict[str, Any] = FLAGS | {"fastmath": FASTMATH - {"reassoc"}}

_dispatchers: dict[tuple[Any, ...], Callable[..., Any]] = {}
_lock = threading.RLock()


def array(dtype: Any, ndim: int, *, writable: bool = False) -> types.Array:
    """Return the type of a C-contiguous array argument.

    A read-only type accepts writable, read-only and memory-mapped arrays alike, so that all of them share
    one compilation; the converse does not hold, so only outputs are declared writable.

    Parameters
    ----------
    dtype : dtype
        The dtype.
    ndim : int
        The number of dimensions.
    writable : bool
        Whether the function writes to it.

    Returns
    -------
    numba.types.Array
        The type.
    """
    return types.Array(numba.from_dtype(np.dtype(dtype)), ndim, "C", readonly=not writable)


def helper(py_func: Callable[..., Any] | None = None, **flags: Any) -> Any:
    """Mark a function that compiled functions call; it is compiled into its callers and never cached alone.

    Parameters
    ----------
    py_func : callable, optional
        The function; without one, a decorator is returned.
    **flags
        Options of ``numba.njit`` that replace those in `FLAGS`.

    Returns
    -------
    callable
        The function for use in compiled code; *py_func* itself under ``NUMBA_DISABLE_JIT=1``.
    """
    if py_func is None:
        return functools.partial(helper, **flags)
    return numba.njit(**(FLAGS | flags))(py_func)


def by_precision(double: Callable[..., Any], single: Callable[..., Any]) -> Callable[..., Any]:
    """Return one function for both precisions of its first argument.

    Parameters
    ----------
    double, single : callable
        What to run for any other number, and for a float32.

    Returns
    -------
    callable
        A function for compiled code and for plain Python.
    """

    def choose(*args: Any) -> Any:
        return (single if isinstance(args[0], np.float32) else double)(*args)

    @overload(choose, jit_options=INNER_FLAGS, strict=False)  # type: ignore[arg-type]
    def _resolve(*args: Any) -> Callable[..., Any]:
        function = single if args[0] == types.float32 else double
        return lambda *args: function(*args)

    return choose


def compiled(py_func: Callable[..., Any], signature: tuple[Any, ...], **flags: Any) -> Callable[..., Any]:
    """Return *py_func* compiled for exactly one signature, from the on-disk cache where possible.

    Parameters
    ----------
    py_func : callable
        A plain Python function that numba can compile.
    signature : tuple of numba types
        Types of its arguments, see `array`.
    **flags
        Options of ``numba.njit`` that replace those in `FLAGS`.

    Returns
    -------
    callable
        The dispatcher, the same one for the same arguments; *py_func* itself when numba is switched off by
        ``NUMBA_DISABLE_JIT=1``.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return py_func
    identity = _identity(py_func)
    key = identity, signature, options_text(flags)
    dispatcher = _dispatchers.get(key)
    if dispatcher is None:
        with compilation, _lock:
            if key not in _dispatchers:
                _dispatchers[key] = _compile(py_func, identity, signature, FLAGS | flags)
            dispatcher = _dispatchers[key]
    return dispatcher


def entry_point(function: Callable[..., Any], signature: tuple[Any, ...]) -> Callable[..., Any]:
    """Return what calls a compiled function without looking at the types of the arguments.

    Parameters
    ----------
    function : callable
        From `compiled`.
    signature : tuple of numba types
        The one that it was compiled for.

    Returns
    -------
    callable
        It takes arguments of these types only; arrays where the signature has read-only ones may be either.
    """
    return function if numba.config.DISABLE_JIT else function.overloads[signature].entry_point  # type: ignore[attr-defined]


_linked: dict[Any, Dual | Choice] = {}


def _link() -> None:
    """Tell numba the compiled forms of the marked functions that it does not know yet."""
    with _lock:
        for marked in MARKED[len(_linked) :]:
            _linked[marked.plain] = marked
            if isinstance(marked, Dual):
                _overload(marked.plain, lambda *kinds, _source=marked.compiled: _source)
            else:
                _overload(marked.plain, lambda *kinds, _table=marked.table: _table[kinds[0].instance_class])


def _overload(plain: Callable[..., Any], choose: Callable[..., Callable[..., Any]]) -> None:
    """Let calls of *plain* in compiled code run the function that *choose* returns for the types."""

    def resolve(*kinds: Any) -> Callable[..., Any]:
        return choose(*kinds)

    # inlined, since tuples of arrays are passed as dozens of arguments
    overload(plain, jit_options=INNER_FLAGS | {"forceinline": True}, strict=False)(resolve)  # type: ignore[arg-type]


def _compile(
    py_func: Callable[..., Any], identity: bytes, signature: tuple[Any, ...], flags: dict[str, Any]
) -> Dispatcher:
    """Compile or load; a cache location that cannot be written costs the cache and nothing else."""
    function = _renamed(py_func, identity, signature, flags)
    for cache in (True, False):
        try:
            dispatcher = numba.njit(cache=cache, **flags)(function)
            dispatcher.compile(signature)
        except NumbaError:
            raise
        except Exception:
            # a missing location is a bare RuntimeError, a full disk an OSError, and closures may not be pickled
            if not cache:
                raise
        else:
            dispatcher.disable_compile()
            return dispatcher
    raise AssertionError("unreachable")


def _identity(py_func: Any) -> bytes:
    """Return a hash of the name and the doings of a function, once for those of this package.

    The names that others reach may be bound anew, as when a cell of a notebook is run again.
    """
    own = (py_func.__module__ or "").partition(".")[0] == __package__.partition(".")[0]
    return _own_identity(py_func) if own else _present_identity(py_func)


def _present_identity(py_func: Any) -> bytes:
    _link()
    digest = hashlib.sha256(f"{py_func.__module__}.{py_func.__qualname__}".encode())
    add_function(digest, py_func, _sources)
    return digest.digest()


_own_identity = functools.cache(_present_identity)


def _renamed(py_func: Any, identity: bytes, signature: tuple[Any, ...], flags: dict[str, Any]) -> pytypes.FunctionType:
    """Copy a function under a qualified name that no other code, signature or set of flags shares.

    numba keys its cache files by that name. Two processes that compile one name for two signatures would
    overwrite each other's index, and a name whose helpers have changed would load code that is out of date.
    """
    digest = hashlib.sha256(repr(signature).encode() + options_text(flags).encode() + _sources_digest() + identity)
    copy = pytypes.FunctionType(
        py_func.__code__, py_func.__globals__, py_func.__name__, py_func.__defaults__, py_func.__closure__
    )
    copy.__module__ = py_func.__module__
    copy.__qualname__ = f"{py_func.__qualname__}_{digest.hexdigest()[:16]}"
    return copy


@functools.cache
def _sources_digest() -> bytes:
    """Hash of the sources in this package: an edit anywhere in it makes every cached kernel out of date."""
    digest = hashlib.sha256()
    files = importlib.resources.files(__package__).iterdir()
    for file in sorted((f for f in files if f.name.endswith(".py")), key=lambda f: f.name):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.digest()


def _sources(function: Any) -> list[Any]:
    """Return what may run for a function in compiled code."""
    marked = _linked.get(function)
    if isinstance(marked, Dual):
        return [marked.compiled]
    return list(marked.table.values()) if marked else [function]

"""Hashes of what functions do, by which compiled code is cached and kernels are told apart."""

from __future__ import annotations

import dis
import enum
import pickle
import types
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

#: Libraries whose functions the compiler knows by name and version, not by their source.
_KNOWN = ("builtins", "math", "cmath", "operator", "numpy", "scipy", "numba", "llvmlite")

#: Instructions that look up a name outside of the function.
_LOOKUPS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")

#: Objects that nothing but their identity tells apart; they are kept, so that no other one gets it.
_kept: dict[int, tuple[str, Any]] = {}

#: The functions that may run for one function.
Sources = Callable[[Any], Iterable[Any]]


class _Shared:
    """What one digest is about: the hash, what is in it already, and how functions are resolved."""

    def __init__(self, digest: Any, sources: Sources) -> None:
        self.digest, self.sources = digest, sources
        self._seen: dict[Any, int] = {}

    def add(self, text: str) -> None:
        self.digest.update(text.encode() + b"\0")

    def is_new(self, key: Any) -> bool:
        """Tell whether something comes for the first time; else hash which of the earlier ones it is."""
        known = len(self._seen)
        ordinal = self._seen.setdefault(key, known)
        self.add(f"object {ordinal}")
        return ordinal == known


def _itself(function: Any) -> Iterable[Any]:
    return (function,)


def add_function(digest: Any, function: Any, sources: Sources = _itself) -> None:
    """Hash what a function does: its code, its defaults, and the helpers and constants that it reaches by name.

    Parameters
    ----------
    digest : hash object
        Of `hashlib`, updated.
    function : callable
        A Python function.
    sources : callable
        Returns the functions that run where a function is called; by default that one.

    Notes
    -----
    Names are followed through functions, jitted functions, tuples, and attributes of modules and classes, but not into
    libraries that the compiler knows by name. What can neither be followed nor pickled counts by its identity, which
    no other process has.
    """
    _add_function(_Shared(digest, sources), function)


def options_text(options: Mapping[str, Any]) -> str:
    """Return options of ``numba.njit`` as a text that is the same in every process.

    Parameters
    ----------
    options : mapping
        By name; sets have no order.

    Returns
    -------
    str
        The text.
    """
    return repr(sorted((name, sorted(v) if isinstance(v, set) else v) for name, v in options.items()))


def _add_function(shared: _Shared, function: Any) -> None:
    if not shared.is_new(id(function)):
        return
    looked_up, attributes = _add_code(shared, function.__code__)
    _add_value(shared, "defaults", function.__defaults__, attributes)
    _add_value(shared, "keywords", tuple(sorted((function.__kwdefaults__ or {}).items())), attributes)
    cells = (_content(cell) for cell in function.__closure__ or ())
    scope = function.__globals__ | dict(zip(function.__code__.co_freevars, cells, strict=True))
    for name in looked_up:
        if name in scope:
            _add_value(shared, name, scope[name], attributes)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # assigned after the function was made
        return None


def _add_value(shared: _Shared, name: str, value: Any, attributes: list[str]) -> None:
    """Hash what a name stands for in compiled code."""
    shared.add(name)
    if type(value).__module__.partition(".")[0] == "numba":
        value = _source_of_jitted(shared, value)
    if isinstance(value, types.FunctionType) and not _is_known(value.__module__):
        for source in shared.sources(value):
            _add_function(shared, source)
    elif isinstance(value, enum.Enum):
        shared.add(f"{type(value).__module__}.{type(value).__qualname__}.{value!r}")
    elif isinstance(value, (types.ModuleType, type)):
        _add_namespace(shared, value, attributes)
    elif type(value) is np.ndarray and value.dtype.kind in "fiubc":
        shared.add(f"{value.dtype.str}{value.shape}")
        shared.digest.update(np.ascontiguousarray(value).data)
    elif isinstance(value, tuple):
        shared.add(f"{type(value).__qualname__} of {len(value)}")
        for i, part in enumerate(value):
            _add_value(shared, str(i), part, attributes)
    elif isinstance(value, frozenset):
        shared.add(f"{sorted(map(repr, value))}")  # the order of a set differs from process to process
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic, slice)):
        shared.add(f"{type(value).__name__} {value!r}")
    else:
        _add_object(shared, value)


def _source_of_jitted(shared: _Shared, value: Any) -> Any:
    """Hash the options of a jitted function and return its Python function, as of an intrinsic; else the object."""
    options = getattr(value, "targetoptions", None)
    if isinstance(options, dict):
        shared.add(options_text(options))
    jitted = getattr(value, "_dispatcher", value)
    found = (getattr(jitted, name, None) for name in ("py_func", "_defn", "__wrapped__"))
    return next((source for source in found if isinstance(source, types.FunctionType)), value)


def _add_namespace(shared: _Shared, value: Any, attributes: list[str]) -> None:
    """Hash a module or class by its name and, of the user's own, by the attributes that are among the names."""
    module = value.__name__ if isinstance(value, types.ModuleType) else f"{value.__module__}.{value.__qualname__}"
    shared.add(module)
    if not _is_known(module) and shared.is_new((id(value), tuple(attributes))):
        for attribute in attributes:
            if attribute in vars(value):  # without loading what is loaded on demand
                _add_value(shared, attribute, vars(value)[attribute], attributes)


def _add_object(shared: _Shared, value: Any) -> None:
    """Hash an object by its pickle, such as the name of a function in a library, or else by its identity."""
    try:
        shared.digest.update(pickle.dumps(value))
    except Exception:  # objects raise what they like
        token, _ = _kept.setdefault(id(value), (uuid.uuid4().hex, value))
        shared.add(token)


def _is_known(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _KNOWN


def _add_code(shared: _Shared, code: types.CodeType) -> tuple[list[str], list[str]]:
    """Hash code and the code inside it; return the names that they look up, and those of attributes as well."""
    shared.add(repr((code.co_code, code.co_names)))
    looked_up = dict.fromkeys(i.argval for i in dis.get_instructions(code) if i.opname in _LOOKUPS)
    attributes = dict.fromkeys(code.co_names)
    for i, constant in enumerate(code.co_consts):
        if isinstance(constant, types.CodeType):
            for names, inner in zip((looked_up, attributes), _add_code(shared, constant), strict=True):
                names |= dict.fromkeys(inner)
        else:
            _add_value(shared, f"constant {i}", constant, [])
    return list(looked_up), list(attributes)

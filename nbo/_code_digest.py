"""Hashes of what functions do, by which compiled code is cached and kernels are told apart."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

#: Libraries whose functions the compiler knows by name and version, not by their source.
_KNOWN = ("builtins", "math", "cmath", "operator", "numpy", "scipy", "numba", "llvmlite")

#: The functions that may run for one function.
Sources = Callable[[Any], Iterable[Any]]


class _Shared:
    """What one digest is about: the hash, what is in it already, and how functions are resolved."""

    def __init__(self, digest: Any, sources: Sources) -> None:
        self.digest, self.sources = digest, sources
        self.seen: set[Any] = set()

    def add(self, text: str) -> None:
        self.digest.update(text.encode() + b"\0")


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
    Names are followed through functions, jitted functions, tuples and attributes of modules; not through other
    objects, and not into libraries that the compiler knows by name.
    """
    _add_function(_Shared(digest, sources), function)


def _add_function(shared: _Shared, function: Any) -> None:
    if id(function) in shared.seen:
        return
    shared.seen.add(id(function))
    names = _add_code(shared, function.__code__)
    _add_value(shared, "defaults", function.__defaults__, names)
    _add_value(shared, "keywords", tuple(sorted((function.__kwdefaults__ or {}).items())), names)
    cells = (_content(cell) for cell in function.__closure__ or ())
    scope = function.__globals__ | dict(zip(function.__code__.co_freevars, cells, strict=True))
    for name in names:
        if name in scope:
            _add_value(shared, name, scope[name], names)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # assigned after the function was made
        return None


def _add_value(shared: _Shared, name: str, value: Any, names: list[str]) -> None:
    """Hash what a name stands for in compiled code; of a module those attributes that are among the names."""
    options = getattr(value, "targetoptions", None)
    if isinstance(options, dict):
        shared.add(repr(sorted((k, sorted(v) if isinstance(v, set) else v) for k, v in options.items())))
    value = getattr(getattr(value, "_dispatcher", value), "py_func", value)
    if isinstance(value, types.FunctionType):
        if not _is_known(value.__module__):
            for source in shared.sources(value):
                shared.add(name)
                _add_function(shared, source)
    elif isinstance(value, types.ModuleType):
        key = id(value), tuple(names)
        if not _is_known(value.__name__) and key not in shared.seen:
            shared.seen.add(key)  # modules may refer to each other
            for attribute in names:
                if hasattr(value, attribute):
                    _add_value(shared, f"{name}.{attribute}", getattr(value, attribute), names)
    elif isinstance(value, np.ndarray):
        shared.add(f"{name}={value.dtype}{value.shape}")
        shared.digest.update(value.tobytes())
    elif isinstance(value, tuple):
        shared.add(f"{name}={type(value).__qualname__} of {len(value)}")
        for i, part in enumerate(value):
            _add_value(shared, f"{name}[{i}]", part, names)
    elif isinstance(value, frozenset):
        shared.add(f"{name}={sorted(map(repr, value))}")  # the order of a set differs from process to process
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        shared.add(f"{name}={value!r}")


def _is_known(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _KNOWN


def _add_code(shared: _Shared, code: types.CodeType) -> list[str]:
    """Hash code and the code inside it; return the names that they look up, each once, in order."""
    shared.add(repr((code.co_code, code.co_names)))
    names = dict.fromkeys((*code.co_names, *code.co_freevars))
    for i, constant in enumerate(code.co_consts):
        if isinstance(constant, types.CodeType):
            names |= dict.fromkeys(_add_code(shared, constant))
        else:
            _add_value(shared, f"constant {i}", constant, [])
    return list(names)

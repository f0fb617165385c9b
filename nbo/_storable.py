"""Which classes may be part of a stored tree, and how their instances are taken apart and put together again."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Mapping
from typing import Any, TypeVar

_T = TypeVar("_T")

_classes: dict[str, type[Any]] = {}


def storable(cls: type[_T]) -> type[_T]:
    """Mark a class whose instances may be stored; a class decorator, to stand above ``@dataclass``.

    Files know a class by its bare name, so that it may move to another module. What is stored is the
    fields (of a StrEnum member: its text) and no other attribute.

    Parameters
    ----------
    cls : type
        A dataclass all of whose arguments are fields, a NamedTuple or a StrEnum.

    Returns
    -------
    type
        The same class.

    Raises
    ------
    TypeError
        If it is another kind of class.
    ValueError
        If a class with that name is marked already. A module that is executed again replaces its own classes.
    """
    if not (_is_enum(cls) or _is_named_tuple(cls) or _is_plain_dataclass(cls)):
        raise TypeError(
            f"storable: found {cls!r}; expected a NamedTuple, a StrEnum or a class that is itself a dataclass "
            "(@storable above @dataclass) and whose arguments are its fields"
        )
    known = _classes.get(cls.__name__, cls)
    if known is not cls and (_origin(known) != _origin(cls) or "<locals>" in cls.__qualname__):
        raise ValueError(f"storable: found two classes named {cls.__name__!r}, {known!r} and {cls!r}; rename one")
    _classes[cls.__name__] = cls
    return cls


def is_storable(cls: type[Any]) -> bool:
    """Tell whether exactly this class is marked; subclasses are not marked with it.

    Parameters
    ----------
    cls : type
        Any class.

    Returns
    -------
    bool
        Whether its instances may be stored.
    """
    return _classes.get(cls.__name__) is cls


def fields_of(value: Any) -> dict[str, Any]:
    """Take an instance of a marked class apart.

    Parameters
    ----------
    value : object
        The instance.

    Returns
    -------
    dict
        Name -> value of each field.
    """
    return {name: getattr(value, name) for name in _field_names(type(value))}


def rebuild(name: str, fields: Mapping[str, Any]) -> Any:
    """Put an instance together again.

    Parameters
    ----------
    name : str
        The name of its class.
    fields : mapping
        From `fields_of`.

    Returns
    -------
    object
        The instance; its fields are the given objects themselves.

    Raises
    ------
    ValueError
        If no class of that name is marked, or it has other fields.
    """
    cls = _classes.get(name)
    if cls is None:
        raise ValueError(f"unknown class {name!r}")
    expected = _field_names(cls)
    if fields.keys() != set(expected):
        found = ", ".join(fields) or "none"
        raise ValueError(f"wrong fields of class {name!r}: found {found}; expected {', '.join(expected)}")
    if _is_enum(cls):
        return cls(fields["value"])
    if _is_named_tuple(cls):
        return cls._make(fields[name] for name in expected)
    return _rebuild_dataclass(cls, fields)


def _rebuild_dataclass(cls: type[Any], fields: Mapping[str, Any]) -> Any:
    """Construct an instance, with the attributes that its constructor adds, then set every field as it was."""
    instance = cls(**{field.name: fields[field.name] for field in dataclasses.fields(cls) if field.init})
    for name, value in fields.items():
        object.__setattr__(instance, name, value)  # frozen classes too
    return instance


def _field_names(cls: type[Any]) -> tuple[str, ...]:
    """Return the names of what is stored of an instance."""
    if _is_enum(cls):
        return ("value",)
    if _is_named_tuple(cls):
        return tuple(cls._fields)
    return tuple(field.name for field in dataclasses.fields(cls))


def _is_enum(cls: type[Any]) -> bool:
    return issubclass(cls, enum.StrEnum)


def _is_named_tuple(cls: type[Any]) -> bool:
    """True for a NamedTuple itself; a class derived from one may hold more than its fields."""
    return tuple in cls.__bases__ and hasattr(cls, "_fields")


def _is_plain_dataclass(cls: type[Any]) -> bool:
    """True for a dataclass that its fields alone can construct, so without InitVar and constructor of its own."""
    if "__dataclass_fields__" not in vars(cls):
        return False
    arguments = set(inspect.signature(cls).parameters)
    return arguments == {field.name for field in dataclasses.fields(cls) if field.init}


def _origin(cls: type[Any]) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__

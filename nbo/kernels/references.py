"""Data by reference: kernels take a pointer to them, of which compiled code reads what it needs.

Passed by value, every array is seven words that each call copies. Besides, on some processors a copy between two areas
of the stack takes a microsecond for unlucky sizes of the frame.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.core.datamodel.registry import register_default
from numba.core.pythonapi import NativeValue
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, lower_getattr_generic, unbox


class _Reference(types.Type):
    """The type of `reference_to`."""

    def __init__(self, target: Any) -> None:
        self.target = target
        super().__init__(name=f"Reference({target})")

    @property
    def key(self) -> Any:
        """What tells one reference from another."""
        return self.target


@register_default(_Reference)
class _Model(PrimitiveModel):
    """How a reference is stored."""

    def __init__(self, manager: Any, kind: _Reference) -> None:
        super().__init__(manager, kind, manager.lookup(kind.target).get_value_type().as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):
    """The types of the fields."""

    key = _Reference

    def generic_resolve(self, kind: _Reference, name: str) -> Any:  # type: ignore[override]
        fields = kind.target.fields
        return kind.target.types[fields.index(name)] if name in fields else None


@lower_getattr_generic(_Reference)
def _lower_field(context: Any, builder: Any, kind: _Reference, value: Any, name: str) -> Any:
    return builder.load(cgutils.gep_inbounds(builder, value, 0, kind.target.fields.index(name)))


def reference_to(target: Any) -> types.Type:
    """Return the type of a pointer to a NamedTuple, whose fields it has.

    Arrays in there have no owner, so that nothing is counted.

    Parameters
    ----------
    target : numba.types.NamedTuple
        The type of the tuple.

    Returns
    -------
    numba.types.Type
        The same one for the same target.
    """
    return _Reference(target)


def refer_to(builder: Any, value: Any) -> Any:
    """Return a pointer to a copy of a value that lives until the function under construction returns.

    Parameters
    ----------
    builder : object
        The function's builder.
    value : llvmlite value
        The value.

    Returns
    -------
    llvmlite value
        The pointer.
    """
    with builder.goto_entry_block():
        room = builder.alloca(value.type)
    builder.store(value, room)
    return room


def without_owner(context: Any, builder: Any, kind: types.Type, value: Any) -> Any:
    """Return a value whose arrays have no owner, for use while somebody else holds them.

    Parameters
    ----------
    context, builder : object
        Numba's target and the function's builder.
    kind : numba.types.Type
        The type of the value.
    value : llvmlite value
        The value.

    Returns
    -------
    llvmlite value
        Of the same type.
    """
    if isinstance(kind, types.Array):
        view = context.make_array(kind)(context, builder, value)
        view.meminfo, view.parent = view.meminfo.type(None), view.parent.type(None)
        return view._getvalue()
    if isinstance(kind, types.BaseTuple):
        for i, part in enumerate(kind.types):  # type: ignore[attr-defined]
            inner = without_owner(context, builder, part, builder.extract_value(value, i))
            value = builder.insert_value(value, inner, i)
    return value


@unbox(_Reference)
def _unbox(kind: _Reference, value: Any, c: Any) -> NativeValue:
    """Take data from Python, which holds them until the call returns."""
    native = c.unbox(kind.target, value)

    def cleanup() -> None:
        c.context.nrt.decref(c.builder, kind.target, native.value)
        if native.cleanup is not None:
            native.cleanup()

    place = refer_to(c.builder, without_owner(c.context, c.builder, kind.target, native.value))
    return NativeValue(place, is_error=native.is_error, cleanup=cleanup)

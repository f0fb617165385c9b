"""Functions with one source that run as they stand and inside compiled loops, marked without importing the compiler.

In plain Python such a function is called like any other. In compiled code a call of it by its global name becomes a
call of its compiled form, which `nbo.kernels.engine` arranges before it compiles anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, overload

Function = TypeVar("Function", bound=Callable[..., Any])


class Dual(NamedTuple):
    """A marked function.

    Attributes
    ----------
    plain, compiled : callable
        What runs in plain Python, and the source of what runs in compiled code.
    """

    plain: Callable[..., Any]
    compiled: Callable[..., Any]


class Choice(NamedTuple):
    """A function whose implementation depends on the class of its first argument, a NamedTuple.

    Attributes
    ----------
    plain : callable
        What chooses in plain Python.
    table : dict
        Class -> implementation, itself a function for both worlds.
    """

    plain: Callable[..., Any]
    table: dict[type, Callable[..., Any]]


#: Marked functions in the order of their marks; the engine goes through them.
MARKED: list[Dual | Choice] = []


@overload
def dual(function: Function) -> Function: ...


@overload
def dual(*, compiled: Callable[..., Any]) -> Callable[[Function], Function]: ...


def dual(function: Any = None, *, compiled: Any = None) -> Any:
    """Mark a function for both worlds.

    Parameters
    ----------
    function : callable, optional
        The function; without one, a decorator is returned.
    compiled : callable, optional
        The source for compiled code where it differs, with the same parameters: such as a loop where plain Python
        is better off with an array expression.

    Returns
    -------
    callable
        The function itself.
    """
    if function is None:
        return lambda plain: _mark(Dual(plain, compiled))
    return _mark(Dual(function, function))


def _mark(marked: Dual) -> Callable[..., Any]:
    MARKED.append(marked)
    return marked.plain


def by_class(table: dict[type, Callable[..., Any]]) -> Callable[..., Any]:
    """Return one function that chooses by the class of its first argument.

    In compiled code the choice is made while compiling and costs nothing.

    Parameters
    ----------
    table : dict
        NamedTuple class -> function, each marked by `dual`, or of one form only, as those of `nbo.kernels`.

    Returns
    -------
    callable
        The function.
    """

    def choose(*args: Any) -> Any:
        return table[type(args[0])](*args)

    MARKED.append(Choice(choose, table))
    return choose


def borrowed(value: Any) -> Any:
    """Return a loop's argument for use within the loop.

    Compiled code counts references to arrays at every function call. The caller of a loop holds its arguments, so
    there they go uncounted; in plain Python nothing changes.

    Parameters
    ----------
    value : object
        An array or a tuple of arrays, numbers and functions.

    Returns
    -------
    object
        The same.
    """
    return value

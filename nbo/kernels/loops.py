"""Compiled loops over compiled kernels: their types, and the calls that prepare and run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numba import types
from numba.core.errors import NumbaError
from numba.np.numpy_support import as_dtype

from nbo.compiled import take_rows
from nbo.feasible_sets import Box, FeasibleSet
from nbo.kernels.engine import array, compiled, entry_point
from nbo.minibatches import Data, Kernels, Oracles

if TYPE_CHECKING:
    from nbo.compiled import CompiledProblem

Array = np.ndarray[Any, Any]


def type_of(value: Any, *, writable: bool = True) -> types.Type:
    """Return the type of a loop's argument.

    Parameters
    ----------
    value : object
        An array, a number or a tuple of such.
    writable : bool
        Whether arrays in it are written to; those of a `Data` never are.

    Returns
    -------
    numba type
        Of the value.
    """
    if isinstance(value, Data):
        writable = False
    if isinstance(value, Kernels):
        raise TypeError("the types of kernels follow from the data, not from the functions")
    if isinstance(value, tuple):
        kind = type(value) if type(value) is not tuple else None
        return types.BaseTuple.from_types([type_of(v, writable=writable) for v in value], kind)
    if isinstance(value, np.ndarray):
        return array(value.dtype, value.ndim, writable=writable)
    return numba.typeof(value)


def signature(name: str, data: types.Type, dtype: Any) -> tuple[types.Type, ...]:
    """Return the types of a kernel's arguments.

    Parameters
    ----------
    name : str
        The kernel.
    data : numba type
        Of the data.
    dtype : dtype
        Of y.

    Returns
    -------
    tuple of numba types
        For `nbo.kernels.engine.compiled`.
    """
    x, y, V = array(np.float64, 1), array(dtype, 1), array(dtype, 2)
    out_x, out_y, out_V = array(np.float64, 1, writable=True), array(dtype, 1, writable=True), None
    out_V = array(dtype, 2, writable=True)
    rest = {
        "lower_value": (out_x,),
        "lower_grad_y": (out_y,),
        "lower_hvp": (V, out_V),
        "lower_grad_y_and_hvp": (y, out_V),
        "lower_jvp": (y, out_x),
        "upper_value": (out_x,),
        "upper_grad": (out_x, out_y),
        "lower_grad_x": (out_x,),
        "upper_hvp": (V, out_V),
        "upper_jvp": (y, out_x),
    }[name]
    return (data, types.int64, types.int64, types.float64, x, y, *rest)


def kernel(problem: CompiledProblem, name: str, data: Data) -> Callable[..., Any]:
    """Return a kernel of a problem, compiled for its data.

    Parameters
    ----------
    problem : CompiledProblem
        The problem.
    name : str
        The kernel.
    data : Data
        Any data of the problem's types.

    Returns
    -------
    callable
        The dispatcher.

    Raises
    ------
    TypeError
        If it does not compile.
    """
    given = problem.kernels[name]
    function = getattr(given, "py_func", given)
    options = {k: v for k, v in getattr(given, "targetoptions", {}).items() if k in _OPTIONS}
    try:
        return compiled(function, signature(name, type_of(data), problem.dtype), **options)
    except NumbaError as error:
        raise TypeError(f"kernels[{name!r}]: numba cannot compile it for this data: {error}") from error


#: Options of ``numba.njit`` that a user's own jitted kernels keep.
_OPTIONS = ("fastmath", "error_model", "boundscheck", "inline")


def call_kernel(
    problem: CompiledProblem,
    name: str,
    data: Data,
    lo: int,
    hi: int,
    scale: float,
    arguments: tuple[Array, ...],
    shapes: list[tuple[int, ...]],
) -> list[Array]:
    """Call a kernel on fresh outputs.

    Parameters
    ----------
    problem : CompiledProblem
        The problem.
    name : str
        The kernel.
    data : Data
        What it reads.
    lo, hi : int
        The rows.
    scale : float
        The factor of the sum.
    arguments : tuple of ndarray
        x, y and a direction or a block of them.
    shapes : list of tuple of int
        Of the outputs.

    Returns
    -------
    list of ndarray
        The outputs.
    """
    kinds: Any = signature(name, type_of(data), problem.dtype)[4:]
    inputs = [np.ascontiguousarray(a, as_dtype(t.dtype)) for a, t in zip(arguments, kinds, strict=False)]
    outputs = [np.zeros(shape, as_dtype(t.dtype)) for shape, t in zip(shapes, kinds[len(inputs) :], strict=True)]
    function = kernel(problem, name, data)
    entry_point(function, signature(name, type_of(data), problem.dtype))(data, lo, hi, scale, *inputs, *outputs)
    return outputs


class CompiledOracles:
    """The kernels of a `CompiledProblem` and its stored data, and the compiled loops over them.

    Parameters
    ----------
    problem : CompiledProblem
        The problem.
    """

    #: Windows past the end are two ranges of rows.
    wraps = True

    def __init__(self, problem: CompiledProblem) -> None:
        self._problem = problem

    def data(self, seed: int | None) -> Data:
        """Return the stored data.

        Parameters
        ----------
        seed : int or None
            Of a shuffle; None for the original order.

        Returns
        -------
        Data
            Of the problem's types.
        """
        return self._problem.data if seed is None else self._problem.shuffled(seed)

    def chosen(self, lower: Array, upper: Array) -> Data:
        """Return copies of samples.

        Parameters
        ----------
        lower, upper : ndarray of int
            Which ones, in the original order.

        Returns
        -------
        Data
            Of the problem's types.
        """
        data = self._problem.data
        return Data(take_rows(data.lower, lower), take_rows(data.upper, upper), data.common)

    def feasible(self, feasible: FeasibleSet) -> Any:
        """Return a feasible set as loops take it.

        Parameters
        ----------
        feasible : FeasibleSet
            A box.

        Returns
        -------
        pair of ndarray
            Its bounds; the set itself where loops run as plain Python.

        Raises
        ------
        ValueError
            For a set that is no box.
        """
        if not isinstance(feasible, Box):
            raise ValueError("problem: found a compiled problem with its own project(); expected one with bounds")
        return feasible if numba.config.DISABLE_JIT else (feasible.lower, feasible.upper)  # type: ignore[attr-defined]

    def kernels(self) -> Kernels:
        """Return the compiled kernels.

        Returns
        -------
        Kernels
            Dispatchers.
        """
        return Kernels(*(kernel(self._problem, name, self._problem.data) for name in Kernels._fields))

    def call(self, loop: Callable[..., Any], o: Oracles, *arguments: Any) -> None:
        """Run a loop.

        Parameters
        ----------
        loop : callable
            Its source; the first argument is `o`.
        o : Oracles
            What it reaches the problem by.
        *arguments : object
            The rest.
        """
        data = type_of(o.data)
        kernels = [
            types.FunctionType(types.void(*signature(name, data, self._problem.dtype))) for name in Kernels._fields
        ]
        first = [types.BaseTuple.from_types(kernels, Kernels), *(type_of(part) for part in o[1:])]
        kinds = (types.BaseTuple.from_types(first, Oracles), *(type_of(a) for a in arguments))
        entry_point(compiled(loop, kinds), kinds)(o, *arguments)

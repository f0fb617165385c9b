"""Compiled loops over compiled kernels: their types, and the calls that prepare and run them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import lower_builtin
from numba.np.numpy_support import as_dtype

from nbo._dual import borrowed
from nbo._kernel_forms import KERNELS
from nbo._sample_arrays import take_rows
from nbo.feasible_sets import Box, FeasibleSet
from nbo.kernels.engine import array, compiled, entry_point
from nbo.kernels.references import refer_to, reference_to, without_owner
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
    out_x = array(np.float64, 1, writable=True)
    out_y, out_V = (array(dtype, ndim, writable=True) for ndim in (1, 2))
    inputs = {"x": x, "y": y, "u": y, "V": V, "curvatures": V}
    outputs = {"value": out_x, "x": out_x, "samples": out_x, "y": out_y, "V": out_V, "pair": out_V, "curvatures": out_V}
    form = KERNELS[name]
    rest = (*(inputs[part] for part in form.inputs), *(outputs[part] for part in form.outputs))
    return (reference_to(data), types.int64, types.int64, types.float64, *rest)


def _borrowed_type(kind: types.Type) -> types.Type:
    """Return the type of what is borrowed: data by reference, all else as it is."""
    if not isinstance(kind, types.BaseTuple):
        return kind
    found = getattr(kind, "instance_class", None)
    if found is Data:
        return reference_to(kind)
    return types.BaseTuple.from_types([_borrowed_type(part) for part in kind.types], found)  # type: ignore[attr-defined]


def _borrow(context: Any, builder: Any, kind: types.Type, value: Any) -> Any:
    """Return a value whose arrays have no owner, so that nothing is counted."""
    if getattr(kind, "instance_class", None) is Data:
        return refer_to(builder, without_owner(context, builder, kind, value))
    if isinstance(kind, types.BaseTuple):
        parts = cgutils.unpack_tuple(builder, value, len(kind.types))  # type: ignore[attr-defined]
        borrowed_parts = [
            _borrow(context, builder, part_kind, part)
            for part_kind, part in zip(kind.types, parts, strict=True)  # type: ignore[attr-defined]
        ]
        return context.make_tuple(builder, _borrowed_type(kind), borrowed_parts)
    return without_owner(context, builder, kind, value)


@infer_global(borrowed)
class _Borrowed(AbstractTemplate):
    """The type of `borrowed`; with an overload each type would be a function to compile."""

    def generic(self, args: tuple[types.Type, ...], kws: dict[str, types.Type]) -> Any:
        return _borrowed_type(args[0])(*args)


@lower_builtin(borrowed, types.Any)
def _lower_borrowed(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _borrow(context, builder, signature.args[0], arguments[0])


class CompiledKernel(NamedTuple):
    """A kernel of a problem, compiled for the types of its data.

    Attributes
    ----------
    function : callable
        The dispatcher, for loops; the plain function where the compiler is switched off.
    call : callable
        What calls it from Python, see `nbo.kernels.engine.entry_point`.
    dtypes : list of dtype
        Of the arrays after `scale`.
    """

    function: Callable[..., Any]
    call: Callable[..., Any]
    dtypes: list[Any]


#: Loops take kernels as values, so that one compiled loop serves all kernels.
_FIRST_CLASS: dict[str, Any] = {"no_cfunc_wrapper": False}

#: Options of ``numba.njit`` that a user's own jitted kernels keep.
_OPTIONS = ("fastmath", "error_model", "boundscheck", "inline")


def kernel(problem: CompiledProblem, name: str, *, checked: bool = False) -> CompiledKernel:
    """Return a kernel of a problem.

    Parameters
    ----------
    problem : CompiledProblem
        The problem.
    name : str
        The kernel.
    checked : bool
        Whether indices outside of an array raise IndexError, which takes time; functions that the kernel calls
        do not.

    Returns
    -------
    CompiledKernel
        Compiled at the first call.

    Raises
    ------
    TypeError
        If it does not compile, or returns something.
    """
    known = problem.compiled_kernels
    if (name, checked) not in known:
        _ = problem.code  # globals count as they are now
        given = problem.kernels[name]
        function = getattr(given, "py_func", given)
        options = _FIRST_CLASS | _own_options(given)
        kinds: Any = signature(name, type_of(problem.data), problem.dtype)
        try:
            dispatcher = compiled(function, kinds, **(options | {"boundscheck": True} if checked else options))
        except Exception as error:  # numba's own faults among them, which as a rule have a cause in the kernel
            raise TypeError(f"kernels[{name!r}]: numba cannot compile it for this data: {_gist(error)}") from error
        _require_no_result(name, dispatcher, kinds)
        dtypes = [as_dtype(k.dtype) for k in kinds[4:]]
        known[name, checked] = CompiledKernel(dispatcher, entry_point(dispatcher, kinds), dtypes)
    return known[name, checked]


def _own_options(given: Any) -> dict[str, Any]:
    """Return the options of a function that its author jitted, numba's defaults among them; else none."""
    options = getattr(given, "targetoptions", None)
    if options is None:
        return {}
    return {"fastmath": False, "error_model": "python"} | {k: v for k, v in options.items() if k in _OPTIONS}


def _gist(error: Exception) -> str:
    """Return the reasons in numba's text, whose many lines are about its own attempts, and the line of the kernel."""
    text = str(error)
    if isinstance(error, (AttributeError, AssertionError)):
        return f"{type(error).__name__}: {text} (does it change an array that is no output, such as by u *= 2?)"
    reasons = re.findall(r"\w*Error: (?!Failed in nopython)(.*)", text)
    calls = re.findall(r">>> (.*)", text)
    places = re.findall(r"^During: typing of .* at (.*)", text, re.MULTILINE)
    if not reasons:
        return text
    parts = [
        "; ".join(dict.fromkeys(reasons)),
        *(f"in {call}" for call in calls[:1]),
        *(f"at {p}" for p in places[-1:]),
    ]
    return " ".join(parts)


def _require_no_result(name: str, dispatcher: Any, kinds: Any) -> None:
    """Raise if a kernel returns something, which first-class functions of loops have no type for."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return
    found = dispatcher.overloads[kinds].signature.return_type
    if found != types.none:
        raise TypeError(f"kernels[{name!r}]: returns {found}; expected nothing: a kernel adds to its last arguments")


def run_kernel(
    problem: CompiledProblem,
    name: str,
    data: Data,
    lo: int,
    hi: int,
    scale: float,
    arrays: Sequence[Array],
    checked: bool = False,
) -> None:
    """Call a kernel.

    Parameters
    ----------
    problem : CompiledProblem
        The problem.
    name : str
        The kernel.
    data : Data
        What it reads, of the same types as the problem's.
    lo, hi : int
        The rows.
    scale : float
        The factor of the sum.
    arrays : sequence of ndarray
        The other arguments, outputs included; of their types and C-contiguous.
    checked : bool
        See `kernel`.
    """
    try:
        kernel(problem, name, checked=checked).call(data, lo, hi, scale, *arrays)
    except Exception as error:
        error.add_note(f"in kernels[{name!r}]")
        raise


@functools.cache
def _entry_of(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for callers in Python that calls a loop.

    In compiled code the loop is then compiled like everything that it calls: numba makes a second copy of functions
    that are called from code with other flags.
    """

    def entry(o, memory, point, feasible, values, settings, k0, k1):  # type: ignore[no-untyped-def]
        loop(o, memory, point, feasible, values, settings, k0, k1)

    return entry


def _empty_7(data, lo, hi, scale, x, y, out):  # type: ignore[no-untyped-def]
    """Do nothing; never called."""


def _empty_8(data, lo, hi, scale, x, y, V, out):  # type: ignore[no-untyped-def]
    """Do nothing; never called."""


def _empty_9(data, lo, hi, scale, x, y, u, out_pair, out_samples):  # type: ignore[no-untyped-def]
    """Do nothing; never called."""


_EMPTY: dict[int, Callable[..., Any]] = {7: _empty_7, 8: _empty_8, 9: _empty_9}


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
        problem.require_faithful()
        self._problem = problem
        self._entries: dict[Callable[..., Any], Callable[..., Any]] = {}

    @property
    def fuses(self) -> bool:
        """Whether one kernel does what a shared lower batch is for."""
        return "lower_parts" in self._problem.kernels

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

    def kernels(self, names: Sequence[str]) -> Kernels:
        """Return the compiled kernels.

        Parameters
        ----------
        names : sequence of str
            The kernels that the loop calls; empty ones stand for the others, which take long to compile.

        Returns
        -------
        Kernels
            Dispatchers.
        """
        return Kernels(*(self._kernel(name) if name in names else self._empty(name) for name in Kernels._fields))

    def _kernel(self, name: str) -> Callable[..., Any]:
        return kernel(self._problem, name).function

    def _empty(self, name: str) -> Callable[..., Any]:
        kinds = signature(name, type_of(self._problem.data), self._problem.dtype)
        return compiled(_EMPTY[len(kinds)], kinds, **_FIRST_CLASS)

    def call(self, loop: Callable[..., Any], o: Oracles, *arguments: Any) -> None:
        """Run a loop.

        Parameters
        ----------
        loop : callable
            Its source; the first argument is `o`.
        o : Oracles
            What it reaches the problem by.
        *arguments : object
            The rest, of the same types at every call.
        """
        if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            loop(o, *arguments)
            return
        if loop not in self._entries:
            kinds = (self._type_of_oracles(o), *(type_of(a) for a in arguments))
            self._entries[loop] = entry_point(compiled(_entry_of(loop), kinds), kinds)
        self._entries[loop](o, *arguments)

    def _type_of_oracles(self, o: Any) -> types.Type:
        """Return the type of `o`, in which kernels are first-class functions, all of one type for all problems."""
        data = type_of(o.data)
        kernels = [
            types.FunctionType(types.void(*signature(name, data, self._problem.dtype))) for name in Kernels._fields
        ]
        parts = [types.BaseTuple.from_types(kernels, Kernels), *(type_of(part) for part in o[1:])]
        return types.BaseTuple.from_types(parts, type(o))

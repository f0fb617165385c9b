"""Products with a few stored rows at a time, dense or CSR, and room for their results on the stack.

A function here runs as it stands in plain Python. In compiled code a call of it becomes code that is made for the
types of its arguments, without a function of its own that would have to be compiled first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.targetconfig import ConfigStack
from numba.extending import lower_builtin, type_callable

from nbo.kernels import csr
from nbo.kernels.engine import helper
from nbo.kernels.lanes import RowLoops

#: Rows of a block, at most: enough to fill vectors, and few enough for 20 or 30 columns to stay in the nearest cache.
BLOCK = 64

#: Loops over the rows of a block run on to a multiple of so many, of which numbers beyond the block mean nothing: the
#: remainder of a vectorised loop would cost more than the rest where numbers are few.
STRIDE = 32

#: Numbers that `scratch` has room for on the stack.
ROOM = 4096

#: Columns for which that is room for a few rows; for more, `workspace` allocates.
MOST = ROOM // STRIDE

#: Columns that a pass over rows takes at once; the rest in groups of two and one.
_GROUPS = (4, 2, 1)


def scratch(like: Any, columns: int) -> Any:
    """Return room for numbers for each row of a block; in compiled code on the stack of the caller.

    Parameters
    ----------
    like : array
        An array of the type of the numbers.
    columns : int
        How many numbers a row has, at most `MOST`.

    Returns
    -------
    (columns, rows) array
        For use until the caller returns; 32 or `BLOCK` rows.
    """
    return np.zeros((columns, BLOCK if columns * BLOCK <= ROOM else STRIDE), like.dtype)


@helper(inline="always")
def workspace(like, columns):  # type: ignore[no-untyped-def]
    """Return room for numbers for each row of a block, allocated where `scratch` has too little.

    Parameters
    ----------
    like : array
        An array of the type of the numbers.
    columns : int
        How many numbers a row has.

    Returns
    -------
    (columns, rows) array
        For use until the caller returns; 32 or `BLOCK` rows.
    """
    return scratch(like, columns) if columns <= MOST else np.zeros((columns, STRIDE), like.dtype)


def by_rows(array: Any, rows: int, width: int) -> Any:
    """Return a contiguous array as a matrix; in compiled code without checks and without an owner.

    Parameters
    ----------
    array : array
        Of rows * width numbers.
    rows, width : int
        The shape.

    Returns
    -------
    (rows, width) array
        The same memory, for as long as somebody else holds it.
    """
    return array.reshape((rows, width))


def margins(rows: Any, lo: int, hi: int, matrices: Any, products: Any) -> None:
    """Store the products of a block of rows with the rows of matrices, all matrices' rows counted through.

    products[q, i - lo] = rows[i] . column q, of which only the first p entries count.

    Parameters
    ----------
    rows : (n, p) array or tuple of arrays
        All rows, dense, or CSR as (values, indices, indptr) with unsigned indices.
    lo, hi : int
        The block is lo <= i < hi.
    matrices : tuple of (k, p or more) array
        The vectors; all of one width.
    products : (columns, rows) array
        Receives the products.
    """
    if isinstance(rows, tuple):
        csr.block_margins(rows, lo, hi, matrices, products)
        return
    columns = np.concatenate([matrix[:, : rows.shape[1]] for matrix in matrices])
    products[: len(columns), : hi - lo] = columns @ rows[lo:hi].T


def accumulate(rows: Any, lo: int, hi: int, coefficients: Any, matrices: Any) -> None:
    """Add combinations of a block of rows to the rows of matrices, all matrices' rows counted through.

    column q += sum_i coefficients[q, i - lo] rows[i], in its first p entries.

    Parameters
    ----------
    rows : (n, p) array or tuple of arrays
        As for `margins`.
    lo, hi : int
        The block.
    coefficients : (columns, rows) array
        A coefficient for each row.
    matrices : tuple of (k, p or more) array
        What is added to; all of one width.
    """
    if isinstance(rows, tuple):
        csr.block_accumulate(rows, lo, hi, coefficients, matrices)
        return
    first = 0
    for matrix in matrices:
        last = first + matrix.shape[0]
        matrix[:, : rows.shape[1]] += coefficients[first:last, : hi - lo] @ rows[lo:hi]
        first = last


def turning_pays(rows: Any, lo: int, hi: int, vectors: Any) -> bool:
    """Tell whether a pass over rows had better turn its vectors, which is for sparse rows to decide.

    Parameters
    ----------
    rows : (n, p) array or tuple of arrays
        As for `margins`.
    lo, hi : int
        The rows are lo <= i < hi.
    vectors : (k, p or more) array
        The vectors.

    Returns
    -------
    bool
        False for dense rows, and known to be so in compiled code.
    """
    return isinstance(rows, tuple) and bool(csr.turning_pays(rows, lo, hi, vectors))


def turned_margins(rows: Any, lo: int, hi: int, turned: Any, products: Any) -> None:
    """Store the products of a block of sparse rows with vectors that are turned.

    products[q, i - lo] = rows[i] . turned[:, q], of which only the first p entries count.

    Parameters
    ----------
    rows : tuple of arrays
        As for `margins`.
    lo, hi : int
        The block is lo <= i < hi.
    turned : (p or more, k) array
        The vectors in columns.
    products : (columns, rows) array
        Receives the products.
    """
    csr.turned_margins(rows, lo, hi, turned, products)


def turned_accumulate(rows: Any, lo: int, hi: int, coefficients: Any, turned: Any) -> None:
    """Add combinations of a block of sparse rows to vectors that are turned.

    turned[:, q] += sum_i coefficients[q, i - lo] rows[i], in its first p entries.

    Parameters
    ----------
    rows : tuple of arrays
        As for `margins`.
    lo, hi : int
        The block.
    coefficients : (columns, rows) array
        A coefficient for each row.
    turned : (p or more, k) array
        What is added to.
    """
    csr.turned_accumulate(rows, lo, hi, coefficients, turned)


@type_callable(scratch)
def _type_scratch(context: Any) -> Any:
    return lambda like, columns: types.Array(like.dtype, 2, "C")


@lower_builtin(scratch, types.Array, types.Integer)
def _lower_scratch(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind = signature.return_type
    element = context.get_data_type(kind.dtype)
    with builder.goto_entry_block():
        room = builder.alloca(ir.ArrayType(element, ROOM))  # cgutils.alloca_once would fill it with zeros
    room.align = 64
    columns = context.cast(builder, arguments[1], signature.args[1], types.intp)
    most, block, stride = (context.get_constant(types.intp, v) for v in (ROOM // BLOCK, BLOCK, STRIDE))
    rows = builder.select(builder.icmp_signed("<=", columns, most), block, stride)
    size = context.get_constant(types.intp, kind.dtype.bitwidth // 8)
    array = context.make_array(kind)(context, builder)
    context.populate_array(
        array,
        data=builder.bitcast(room, element.as_pointer()),
        shape=[columns, rows],
        strides=[builder.mul(rows, size), size],
        itemsize=size,
        meminfo=None,
    )
    return array._getvalue()


@type_callable(by_rows)
def _type_by_rows(context: Any) -> Any:
    return lambda array, rows, width: array.copy(ndim=2)


@lower_builtin(by_rows, types.Array, types.Integer, types.Integer)
def _lower_by_rows(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind = signature.return_type
    source = context.make_array(signature.args[0])(context, builder, arguments[0])
    rows, width = (
        context.cast(builder, value, found, types.intp)
        for value, found in zip(arguments[1:], signature.args[1:], strict=True)
    )
    size = context.get_constant(types.intp, kind.dtype.bitwidth // 8)
    array = context.make_array(kind)(context, builder)
    context.populate_array(
        array,
        data=source.data,
        shape=[rows, width],
        strides=[builder.mul(width, size), size],
        itemsize=size,
        meminfo=None,
    )
    return array._getvalue()


def _type_product(context: Any) -> Any:
    return lambda rows, lo, hi, columns, products: types.void


for _function in (margins, accumulate, turned_margins, turned_accumulate):
    type_callable(_function)(_type_product)


@type_callable(turning_pays)
def _type_turning_pays(context: Any) -> Any:
    return lambda rows, lo, hi, vectors: types.boolean


_DENSE = (types.Array, types.Integer, types.Integer)
_SPARSE = (types.BaseTuple, types.Integer, types.Integer)


@lower_builtin(margins, *_DENSE, types.BaseTuple, types.Array)
def _lower_margins(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    columns = _Columns(context, builder, signature.args[3], arguments[3])
    products = _Columns(context, builder, types.UniTuple(signature.args[4], 1), None, [arguments[4]])
    rows = RowLoops(context, builder, signature.args[0], *arguments[:3])
    columns.in_groups(lambda chosen: rows.multiply(columns.starts(chosen), products.starts(chosen)))
    return context.get_dummy_value()


@lower_builtin(accumulate, *_DENSE, types.Array, types.BaseTuple)
def _lower_accumulate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    sums = _Columns(context, builder, signature.args[4], arguments[4])
    coefficients = _Columns(context, builder, types.UniTuple(signature.args[3], 1), None, [arguments[3]])
    rows = RowLoops(context, builder, signature.args[0], *arguments[:3])
    sums.in_groups(lambda chosen: rows.combine(coefficients.starts(chosen), sums.starts(chosen)))
    return context.get_dummy_value()


@lower_builtin(margins, *_SPARSE, types.BaseTuple, types.Array)
def _lower_sparse_margins(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _call(context, builder, csr.block_margins, signature, arguments)


@lower_builtin(accumulate, *_SPARSE, types.Array, types.BaseTuple)
def _lower_sparse_accumulate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _call(context, builder, csr.block_accumulate, signature, arguments)


@lower_builtin(turning_pays, *_DENSE, types.Array)
def _lower_dense_turning_pays(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return context.get_constant(types.boolean, False)


@lower_builtin(turning_pays, *_SPARSE, types.Array)
def _lower_sparse_turning_pays(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _call(context, builder, csr.turning_pays, signature, arguments)


@lower_builtin(turned_margins, *_DENSE, types.Array, types.Array)
@lower_builtin(turned_accumulate, *_DENSE, types.Array, types.Array)
def _lower_dense_turned(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return context.get_dummy_value()  # never executed


@lower_builtin(turned_margins, *_SPARSE, types.Array, types.Array)
def _lower_sparse_turned_margins(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _call(context, builder, csr.turned_margins, signature, arguments)


@lower_builtin(turned_accumulate, *_SPARSE, types.Array, types.Array)
def _lower_sparse_turned_accumulate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _call(context, builder, csr.turned_accumulate, signature, arguments)


class _Columns:
    """The rows of some matrices, counted through, in the function under construction.

    Parameters
    ----------
    context, builder : object
        Numba's target and the function's builder.
    kinds : numba.types.BaseTuple
        The types of the matrices.
    matrices : llvmlite value or None
        The tuple of matrices.
    items : list of llvmlite value, optional
        The matrices, where they are in no tuple.
    """

    def __init__(self, context: Any, builder: Any, kinds: Any, matrices: Any, items: Any = None) -> None:
        items = items or cgutils.unpack_tuple(builder, matrices, len(kinds))
        arrays = [context.make_array(kind)(context, builder, item) for kind, item in zip(kinds, items, strict=True)]
        self._builder, self._firsts, self._arrays = builder, [], arrays
        shapes = [cgutils.unpack_tuple(builder, array.shape, 2) for array in arrays]
        self._width = shapes[0][1]
        self._count = cgutils.intp_t(0)
        for rows, _ in shapes:
            self._firsts.append(self._count)
            self._count = builder.add(self._count, rows)

    def in_groups(self, take: Callable[[list[Any]], None]) -> None:
        """Generate a loop over all columns, some at a time.

        Parameters
        ----------
        take : callable
            Given the numbers of the columns of a group.
        """
        builder, start = self._builder, cgutils.intp_t(0)
        for size in _GROUPS:
            stop = builder.and_(self._count, cgutils.intp_t(-size))
            with cgutils.for_range_slice(builder, start, stop, cgutils.intp_t(size)) as (first, _):
                take([builder.add(first, cgutils.intp_t(r)) for r in range(size)])
            start = stop

    def starts(self, chosen: list[Any]) -> list[Any]:
        """Return pointers to columns.

        Parameters
        ----------
        chosen : list of llvmlite value
            Their numbers.

        Returns
        -------
        list of llvmlite value
            The pointers.
        """
        return [self._start(q) for q in chosen]

    def _start(self, q: Any) -> Any:
        builder, found = self._builder, None
        for first, array in zip(self._firsts, self._arrays, strict=True):
            here = builder.gep(array.data, [builder.mul(builder.sub(q, first), self._width)])
            found = here if found is None else builder.select(builder.icmp_signed(">=", q, first), here, found)
        return found


def _call(context: Any, builder: Any, function: Any, signature: Any, arguments: Any) -> Any:
    """Compile a function with the options of its caller and call it."""
    options = ConfigStack().top().copy()
    compiled = context.compile_subroutine(builder, function, signature, flags=options)
    return context.call_internal(builder, compiled.fndesc, signature, arguments)

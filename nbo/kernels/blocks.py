"""Products with a few stored rows at a time, dense or CSR, and room for their results on the stack.

A function here runs as it stands in plain Python. In compiled code a call of it becomes code that is made for the
types of its arguments, without a function of its own that would have to be compiled first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.targetconfig import ConfigStack
from numba.extending import lower_builtin, type_callable

from nbo.kernels import csr
from nbo.kernels.lanes import RowLoops

#: Rows of a block, at most: enough to fill vectors, and few enough for 20 or 30 columns to stay in the nearest cache.
BLOCK = 64

#: Vectors that `scratch` has room for.
VECTORS = 4


def scratch(like: Any) -> Any:
    """Return room for a few numbers for each row of a block; in compiled code on the stack of the caller.

    Parameters
    ----------
    like : array
        An array of the type of the numbers.

    Returns
    -------
    (VECTORS, BLOCK) array
        For use until the caller returns.
    """
    return np.zeros((VECTORS, BLOCK), like.dtype)


def margins(rows: Any, lo: int, hi: int, columns: Any, products: Any) -> None:
    """Store the products of a block of rows with vectors: products[c, i - lo] = rows[i] . columns[c].

    Parameters
    ----------
    rows : (n, p) array or tuple of arrays
        All rows, dense, or CSR as (values, indices, indptr) with unsigned indices.
    lo, hi : int
        The block is lo <= i < hi, at most `BLOCK` rows.
    columns : tuple of (p,) array
        The vectors, at most `VECTORS`.
    products : (VECTORS, BLOCK) array
        Receives the products.
    """
    if isinstance(rows, tuple):
        csr.block_margins(rows, lo, hi, columns, products)
        return
    for c, column in enumerate(columns):
        products[c, : hi - lo] = rows[lo:hi] @ column


def accumulate(rows: Any, lo: int, hi: int, coefficients: Any, sums: Any) -> None:
    """Add combinations of a block of rows: sums[c] += sum_i coefficients[c, i - lo] rows[i].

    Parameters
    ----------
    rows : (n, p) array or tuple of arrays
        As for `margins`.
    lo, hi : int
        The block.
    coefficients : (VECTORS, BLOCK) array
        A coefficient for each row.
    sums : tuple of (p,) array
        What is added to.
    """
    if isinstance(rows, tuple):
        csr.block_accumulate(rows, lo, hi, coefficients, sums)
        return
    for c, total in enumerate(sums):
        total += coefficients[c, : hi - lo] @ rows[lo:hi]


@type_callable(scratch)
def _type_scratch(context: Any) -> Any:
    return lambda like: types.Array(like.dtype, 2, "C")


@lower_builtin(scratch, types.Array)
def _lower_scratch(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind = signature.return_type
    element = context.get_data_type(kind.dtype)
    room = cgutils.alloca_once(builder, ir.ArrayType(element, VECTORS * BLOCK))
    room.align = 64
    itemsize = kind.dtype.bitwidth // 8
    size, step, count = (context.get_constant(types.intp, v) for v in (itemsize, BLOCK * itemsize, BLOCK))
    array = context.make_array(kind)(context, builder)
    context.populate_array(
        array,
        data=builder.bitcast(room, element.as_pointer()),
        shape=[context.get_constant(types.intp, VECTORS), count],
        strides=[step, size],
        itemsize=size,
        meminfo=None,
    )
    return array._getvalue()


def _type_product(context: Any) -> Any:
    return lambda rows, lo, hi, columns, products: types.void


for _function in (margins, accumulate):
    type_callable(_function)(_type_product)

_DENSE = (types.Array, types.Integer, types.Integer)
_SPARSE = (types.BaseTuple, types.Integer, types.Integer)


@lower_builtin(margins, *_DENSE, types.BaseTuple, types.Array)
def _lower_margins(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    columns = _starts(context, builder, signature.args[3], arguments[3])
    products = _starts_of_rows(context, builder, signature.args[4], arguments[4], len(columns))
    _dense_rows(context, builder, signature, arguments).multiply(columns, products)
    return context.get_dummy_value()


@lower_builtin(accumulate, *_DENSE, types.Array, types.BaseTuple)
def _lower_accumulate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    sums = _starts(context, builder, signature.args[4], arguments[4])
    coefficients = _starts_of_rows(context, builder, signature.args[3], arguments[3], len(sums))
    _dense_rows(context, builder, signature, arguments).combine(coefficients, sums)
    return context.get_dummy_value()


@lower_builtin(margins, *_SPARSE, types.BaseTuple, types.Array)
def _lower_sparse_margins(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _call(context, builder, csr.block_margins, signature, arguments)


@lower_builtin(accumulate, *_SPARSE, types.Array, types.BaseTuple)
def _lower_sparse_accumulate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _call(context, builder, csr.block_accumulate, signature, arguments)


def _call(context: Any, builder: Any, function: Any, signature: Any, arguments: Any) -> Any:
    """Compile a function with the options of its caller and call it."""
    options = ConfigStack().top().copy()
    compiled = context.compile_subroutine(builder, function, signature, flags=options)
    return context.call_internal(builder, compiled.fndesc, signature, arguments)


def _dense_rows(context: Any, builder: Any, signature: Any, arguments: Any) -> RowLoops:
    return RowLoops(context, builder, signature.args[0], *arguments[:3])


def _starts(context: Any, builder: Any, kinds: Any, arrays: Any) -> list[Any]:
    """Return pointers to the arrays of a tuple."""
    items = cgutils.unpack_tuple(builder, arrays, len(kinds))
    return [context.make_array(kind)(context, builder, item).data for kind, item in zip(kinds, items, strict=True)]


def _starts_of_rows(context: Any, builder: Any, kind: Any, array: Any, count: int) -> list[Any]:
    """Return pointers to the first rows of a `scratch`."""
    start = context.make_array(kind)(context, builder, array).data
    return [builder.gep(start, [context.get_constant(types.intp, BLOCK * c)]) for c in range(count)]

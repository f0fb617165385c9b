"""Code for loops over dense rows that are too short for the compiler's own vectorisation.

A loop over the 22 entries of a row is mostly remainder: the compiler takes 16 or 32 of them at a time and the rest one
by one. What is generated here takes a vector of *lanes* at a time and the last ones under a mask, and four rows
together, whose sums across lanes then share their additions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]
from llvmlite import ir
from numba.core import cgutils

from nbo.kernels.engine import FASTMATH

#: Rows that are taken together.
GROUP = 4

#: Bytes from which few columns take rows one after the other: the prefetcher follows one long stream best, and memory
#: is slower than the sums.
LONG_ROW = 512

_FAST = tuple(sorted(FASTMATH))
_INT32 = ir.IntType(32)


def lane_bytes() -> int:
    """Return the size of a vector on this machine.

    Returns
    -------
    int
        Bytes: of one register with AVX-512, of one or two elsewhere.
    """
    return 64 if llvm.get_host_cpu_features().get("avx512f", False) else 32


class RowLoops:
    """Loops over the stored rows lo <= i < hi of a C-contiguous array, in the function under construction.

    Parameters
    ----------
    context, builder : object
        Numba's target and the function's builder.
    kind : numba.types.Array
        The type of the array.
    rows, lo, hi : llvmlite value
        The array and the range.
    """

    def __init__(self, context: Any, builder: Any, kind: Any, rows: Any, lo: Any, hi: Any) -> None:
        array = context.make_array(kind)(context, builder, rows)
        self._builder, self._start = builder, array.data
        self._itemsize = kind.dtype.bitwidth // 8
        self._lanes = lane_bytes() // self._itemsize
        self._vector = ir.VectorType(array.data.type.pointee, self._lanes)
        self._width = builder.extract_value(array.shape, 1)
        self._lo, self._count = lo, builder.sub(hi, lo)
        self._whole = builder.and_(self._width, self._integer(-self._lanes))
        self._rest = builder.and_(self._width, self._integer(self._lanes - 1))
        places = ir.Constant(ir.VectorType(_INT32, self._lanes), list(range(self._lanes)))
        self._mask = builder.icmp_signed("<", places, self._spread(builder.trunc(self._rest, _INT32)))

    def multiply(self, columns: list[Any], products: list[Any]) -> None:
        """Store the products of each row with each column.

        Parameters
        ----------
        columns, products : list of pointer
            The columns, and room for one number a row for each.
        """
        builder, sums = self._builder, [self._variables() for _ in columns]

        def group(row: Any, size: int) -> None:
            self._clear(sums)

            def step(j: Any, masked: bool, span: int) -> None:
                factors = [self._load(column, j, masked) for column in columns]
                for r in range(size):
                    entries = self._load(self._start, self._offset(row, r, j), masked)
                    for factor, mine in zip(factors, sums, strict=True):
                        self._add_product(mine[r], entries, factor)

            self._over_columns(step, 1)
            for mine, out in zip(sums, products, strict=True):
                total = self._totals([builder.load(part) for part in mine[:size]])
                place = builder.bitcast(builder.gep(out, [row]), total.type.as_pointer())
                builder.store(total, place, align=self._itemsize)

        long_rows = builder.icmp_signed(">=", self._width, self._integer(LONG_ROW // self._itemsize))
        streamed = len(columns) < GROUP
        self._over_rows(group, builder.select(long_rows, self._integer(0), self._integer(-GROUP)) if streamed else None)

    def combine(self, coefficients: list[Any], sums: list[Any]) -> None:
        """Add to each sum the rows times their coefficients.

        Parameters
        ----------
        coefficients, sums : list of pointer
            One number a row, and one a column, for each sum.
        """
        builder = self._builder
        parts = {span: [[self._variables(GROUP // span) for _ in range(span)] for _ in sums] for span in (1, 2)}

        def step(j: Any, masked: bool, span: int) -> None:
            mine, places = parts[span], [builder.add(j, self._integer(s * self._lanes)) for s in range(span)]
            for vectors in mine:
                self._clear(vectors)

            def group(row: Any, size: int) -> None:
                for r in range(size):
                    entries = [self._load(self._start, self._offset(row, r, place), masked) for place in places]
                    here = [builder.add(row, self._integer(r))]
                    for vectors, factors in zip(mine, coefficients, strict=True):
                        factor = self._spread(builder.load(builder.gep(factors, here)))
                        for vector, entry in zip(vectors, entries, strict=True):
                            self._add_product(vector[r % len(vector)], entry, factor)

            self._over_rows(group)
            for vectors, out in zip(mine, sums, strict=True):
                for vector, place in zip(vectors, places, strict=True):
                    total = functools.reduce(self._add, (builder.load(part) for part in vector))
                    self._store(self._add(self._load(out, place, masked), total), out, place, masked)

        self._over_columns(step, 2)

    def _over_columns(self, step: Callable[[Any, bool, int], None], span: int) -> None:
        """Take the columns some vectors at a time, then one at a time, and the rest under the mask."""
        builder, start = self._builder, self._integer(0)
        for size in (span, 1)[span == 1 :]:
            stop = builder.and_(self._whole, self._integer(-size * self._lanes))
            with cgutils.for_range_slice(builder, start, stop, self._integer(size * self._lanes)) as (j, _):
                step(j, False, size)
            start = stop
        with builder.if_then(cgutils.is_not_null(builder, self._rest)):
            step(self._whole, True, 1)

    def _over_rows(self, group: Callable[[Any, int], None], mask: Any = None) -> None:
        """Take the rows a group at a time, and the rest, or all with the mask 0, one by one."""
        builder, zero, one = self._builder, self._integer(0), self._integer(1)
        grouped = builder.and_(self._count, self._integer(-GROUP) if mask is None else mask)
        with cgutils.for_range_slice(builder, zero, grouped, self._integer(GROUP)) as (row, _):
            group(row, GROUP)
        with cgutils.for_range_slice(builder, grouped, self._count, one) as (row, _):
            group(row, 1)

    def _offset(self, row: Any, r: int, j: Any) -> Any:
        builder = self._builder
        stored = builder.add(self._lo, builder.add(row, self._integer(r)))
        return builder.add(builder.mul(stored, self._width), j)

    def _variables(self, count: int = GROUP) -> list[Any]:
        """Return vector variables; the compiler keeps them in registers."""
        return [cgutils.alloca_once(self._builder, self._vector) for _ in range(count)]

    def _clear(self, variables: list[list[Any]]) -> None:
        for variable in (v for row in variables for v in row):
            self._builder.store(ir.Constant(self._vector, None), variable)

    def _load(self, start: Any, offset: Any, masked: bool) -> Any:
        place = self._place(start, offset)
        if not masked:
            return self._builder.load(place, align=self._itemsize)
        # entries under the mask are not read, so that nothing beyond the array is
        function = self._intrinsic("load", self._vector, [place.type, _INT32, self._mask.type, self._vector])
        default = ir.Constant(self._vector, None)
        return self._builder.call(function, [place, _INT32(self._itemsize), self._mask, default])

    def _store(self, value: Any, start: Any, offset: Any, masked: bool) -> None:
        place = self._place(start, offset)
        if not masked:
            self._builder.store(value, place, align=self._itemsize)
            return
        function = self._intrinsic("store", ir.VoidType(), [self._vector, place.type, _INT32, self._mask.type])
        self._builder.call(function, [value, place, _INT32(self._itemsize), self._mask])

    def _intrinsic(self, action: str, result: Any, arguments: list[Any]) -> Any:
        name = f"llvm.masked.{action}.v{self._lanes}f{8 * self._itemsize}.p0"
        return cgutils.get_or_insert_function(self._builder.module, ir.FunctionType(result, arguments), name)

    def _place(self, start: Any, offset: Any) -> Any:
        return self._builder.bitcast(self._builder.gep(start, [offset]), self._vector.as_pointer())

    def _add_product(self, variable: Any, left: Any, right: Any) -> None:
        product = self._builder.fmul(left, right, flags=_FAST)
        self._builder.store(self._add(self._builder.load(variable), product), variable)

    def _add(self, left: Any, right: Any) -> Any:
        return self._builder.fadd(left, right, flags=_FAST)

    def _totals(self, vectors: list[Any]) -> Any:
        """Return the sum of the lanes: of one vector as a number, of four as a vector of four."""
        if len(vectors) == 1:
            element = self._vector.element
            name = f"llvm.vector.reduce.fadd.v{self._lanes}f{8 * self._itemsize}"
            kind = ir.FunctionType(element, [element, self._vector])
            function = cgutils.get_or_insert_function(self._builder.module, kind, name)
            return self._builder.call(function, [ir.Constant(element, 0.0), vectors[0]], fastmath=_FAST)
        first, second, third, fourth = vectors
        total = self._interleave(self._interleave(first, second, 1), self._interleave(third, fourth, 1), 2)
        while total.type.count > GROUP:
            half = total.type.count // 2
            low, high = (self._shuffle(total, total, range(start, start + half)) for start in (0, half))
            total = self._add(low, high)
        return total

    def _interleave(self, left: Any, right: Any, size: int) -> Any:
        """Add neighbouring runs of lanes within each vector, and let the runs of both take turns."""
        n = self._lanes
        low = [i for start in range(0, n, 2 * size) for base in (start, n + start) for i in range(base, base + size)]
        return self._add(self._shuffle(left, right, low), self._shuffle(left, right, [i + size for i in low]))

    def _shuffle(self, left: Any, right: Any, lanes: Any) -> Any:
        chosen = list(lanes)
        return self._builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(_INT32, len(chosen)), chosen))

    def _spread(self, number: Any) -> Any:
        undefined = ir.Constant(ir.VectorType(number.type, self._lanes), ir.Undefined)
        first = self._builder.insert_element(undefined, number, _INT32(0))
        return self._shuffle(first, undefined, [0] * self._lanes)

    def _integer(self, value: int) -> Any:
        return ir.Constant(ir.IntType(64), value)

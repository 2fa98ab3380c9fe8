"""Explicit short vectors in compiled loops, where plain loops are much slower.

These are products with a block of columns, whose sums must stay in registers (mostly 1.5 to 8 times slower as plain
loops), and the comparison of distances with limits (1.6 times in a whole neighbour search). A vector has a fixed number
of lanes, which LLVM maps to the registers of the processor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from . import LANES

__all__ = ["bits_of", "block_product", "count_within", "float_of", "lowest_bit", "row_product", "within"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_CONTRACT = ("contract",)


def _reinterpret(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """The same bits as another type."""
    return builder.bitcast(args[0], context.get_value_type(signature.return_type))


@intrinsic
def bits_of(typing_context: Any, value: Any) -> Any:
    """The bits of a float as an integer of the same size."""
    return {types.float32: types.int32, types.float64: types.int64}[value](value), _reinterpret


@intrinsic
def float_of(typing_context: Any, value: Any) -> Any:
    """The float that has the bits of an integer of the same size."""
    return {types.int32: types.float32, types.int64: types.float64}[value](value), _reinterpret


def _load(context: Any, builder: Any, kind: Any, array: Any, offset: Any, vector: Any) -> Any:
    """A vector from an array's memory, counted in entries from its start."""
    data = context.make_array(kind)(context, builder, array).data
    pointer = builder.bitcast(builder.gep(data, [offset]), vector.as_pointer())
    return builder.load(pointer, align=vector.element.get_abi_size(context.target_data))


def _spread(builder: Any, value: Any, vector: Any) -> Any:
    """A vector of one number."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_I32, vector.count), [0] * vector.count))


@intrinsic
def within(
    typing_context: Any, norm: Any, norms: Any, at: Any, products: Any, start: Any, limits: Any, there: Any
) -> Any:
    """Bits of the lanes in which ``norm + norms[at + j] - products[start + j] <= limits[there + j]``, for j < 16.

    `products` is a matrix whose entries are counted from the start of its memory. If `limits` is a float32, it is the
    limit of all lanes.
    """
    signature = types.int64(types.float32, norms, types.int64, products, types.int64, limits, types.int64)

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.FloatType(), LANES)
        right = _load(context, builder, sig.args[1], args[1], args[2], vector)
        product = _load(context, builder, sig.args[3], args[3], args[4], vector)
        if isinstance(sig.args[5], types.Array):
            limit = _load(context, builder, sig.args[5], args[5], args[6], vector)
        else:
            limit = _spread(builder, args[5], vector)
        distance = builder.fsub(builder.fadd(_spread(builder, args[0], vector), right), product)
        lanes = builder.fcmp_ordered("<=", distance, limit)
        return builder.zext(builder.bitcast(lanes, ir.IntType(LANES)), _I64)

    return signature, build


@intrinsic
def count_within(typing_context: Any, values: Any, start: Any, limit: Any) -> Any:
    """How many of the 16 values from `start` on, counted in the memory of an array of floats, are at most `limit`."""
    signature = types.int64(values, types.int64, values.dtype)

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = ir.VectorType(context.get_value_type(sig.args[0].dtype), LANES)
        lane = _load(context, builder, sig.args[0], args[0], args[1], vector)
        lanes = builder.fcmp_ordered("<=", lane, _spread(builder, args[2], vector))
        return builder.zext(builder.ctpop(builder.bitcast(lanes, ir.IntType(LANES))), _I64)

    return signature, build


@intrinsic
def lowest_bit(typing_context: Any, bits: Any) -> Any:
    """Position of the lowest bit that is set, of a number that is not zero."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), build


def row_product(lanes: int) -> Callable[..., None]:
    """A function that computes `lanes` columns of one row of a sparse product, with the sums held in registers.

    The function has the signature ``(indices, data, V, out, places, row, column, start, stop)``: the entries `start` to
    `stop` of the sparse matrix belong to the row, and `column` is the first column. Row i of the matrix, and its column
    i, belong to row ``places[i]`` of `V` and `out`; with no places at all, to row i.
    """

    @intrinsic
    def multiply(
        typing_context: Any,
        indices: Any,
        data: Any,
        V: Any,
        out: Any,
        places: Any,
        row: Any,
        column: Any,
        start: Any,
        stop: Any,
    ) -> Any:
        signature = types.void(indices, data, V, out, places, *[types.int64] * 4)

        def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            kinds = dict(zip(("indices", "data", "V", "out", "places"), sig.args[:5], strict=True))
            moved = not isinstance(kinds["places"], types.NoneType)
            arrays = {
                name: context.make_array(kind)(context, builder, args[i])
                for i, (name, kind) in enumerate(kinds.items())
                if name != "places" or moved
            }
            row, column, start, stop = args[5:]

            def place(i: Any) -> Any:
                return builder.load(builder.gep(arrays["places"].data, [i])) if moved else i

            vector = ir.VectorType(context.get_value_type(kinds["V"].dtype), lanes)
            width = builder.extract_value(arrays["V"].shape, 1)
            total = cgutils.alloca_once(builder, vector)
            builder.store(ir.Constant(vector, [0.0] * lanes), total)
            with cgutils.for_range_slice(builder, start, stop, ir.Constant(_I64, 1), _I64) as (entry, _):
                j = builder.load(builder.gep(arrays["indices"].data, [entry]))
                j = builder.sext(j, _I64) if j.type.width < 64 else j
                value = builder.load(builder.gep(arrays["data"].data, [entry]))
                offset = builder.add(builder.mul(place(j), width), column)
                lane = _load(context, builder, kinds["V"], args[2], offset, vector)
                product = builder.fmul(lane, _spread(builder, value, vector), flags=_CONTRACT)
                builder.store(builder.fadd(product, builder.load(total), flags=_CONTRACT), total)
            offset = builder.add(builder.mul(place(row), width), column)
            pointer = builder.bitcast(builder.gep(arrays["out"].data, [offset]), vector.as_pointer())
            builder.store(builder.load(total), pointer, align=vector.element.get_abi_size(context.target_data))
            return context.get_dummy_value()

        return signature, build

    return multiply


def block_product(rows: int, lanes: int) -> Callable[..., None]:
    """A function that adds a block of `rows` x `lanes` of a dense product ``K V`` to `out`, with sums in registers.

    The function has the signature ``(K, start, step, stride, n, V, column, out, target)``. Entry (q, j) of the block's
    rows of K lies at ``start + q step + j stride`` in the memory of K, for j < n: with `step` and `stride` exchanged
    the product is that of the transposed matrix. The block takes the columns of V from `column` on, and lies in the
    memory of `out` from `target` on.
    """

    @intrinsic
    def multiply(
        typing_context: Any,
        K: Any,
        start: Any,
        step: Any,
        stride: Any,
        n: Any,
        V: Any,
        column: Any,
        out: Any,
        target: Any,
    ) -> Any:
        number = types.int64
        signature = types.void(K, number, number, number, number, V, number, out, number)

        def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            array = {i: context.make_array(sig.args[i])(context, builder, args[i]) for i in (0, 5, 7)}
            vector = ir.VectorType(context.get_value_type(sig.args[5].dtype), lanes)
            align = vector.element.get_abi_size(context.target_data)
            width, out_width = (builder.extract_value(array[i].shape, 1) for i in (5, 7))
            totals = [cgutils.alloca_once(builder, vector) for _ in range(rows)]
            starts, targets = [], []
            for q, total in enumerate(totals):
                at = builder.add(args[8], builder.mul(out_width, ir.Constant(_I64, q)))
                targets.append(builder.bitcast(builder.gep(array[7].data, [at]), vector.as_pointer()))
                builder.store(builder.load(targets[-1], align=align), total)
                starts.append(builder.add(args[1], builder.mul(args[2], ir.Constant(_I64, q))))
            zero, one = ir.Constant(_I64, 0), ir.Constant(_I64, 1)
            with cgutils.for_range_slice(builder, zero, args[4], one, _I64) as (j, _):
                lane = _load(
                    context, builder, sig.args[5], args[5], builder.add(builder.mul(j, width), args[6]), vector
                )
                offset = builder.mul(j, args[3])
                for first, total in zip(starts, totals, strict=True):
                    entry = builder.load(builder.gep(array[0].data, [builder.add(first, offset)]))
                    product = builder.fmul(lane, _spread(builder, entry, vector), flags=_CONTRACT)
                    builder.store(builder.fadd(product, builder.load(total), flags=_CONTRACT), total)
            for target_of, total in zip(targets, totals, strict=True):
                builder.store(builder.load(total), target_of, align=align)
            return context.get_dummy_value()

        return signature, build

    return multiply

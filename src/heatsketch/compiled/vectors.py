"""Short vectors in compiled loops.

Products with a block of columns must keep their sums in registers, which LLVM does not do for plain loops (1.3 to 4
times slower). A vector has a fixed number of lanes, which LLVM maps to the registers of the processor. Arrays are
addressed by offsets, in entries from the start of their memory.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import intrinsic, register_model

from . import BYTE_PRODUCTS

__all__ = [
    "add_dots",
    "any_at_most",
    "at_most",
    "bits_of",
    "distances",
    "distances_of_dots",
    "entry",
    "float_of",
    "load",
    "lowest_bit",
    "multiply_add",
    "n_bits",
    "prefetch",
    "store",
    "zeros",
]

_I32, _I64 = ir.IntType(32), ir.IntType(64)


class Vector(types.Type):
    """Numba type of a vector."""

    def __init__(self, dtype: Any, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(f"Vector({dtype}, {lanes})")


@register_model(Vector)
class _VectorModel(PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(manager, kind, ir.VectorType(manager.lookup(kind.dtype).get_value_type(), kind.lanes))


def _address(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [offset])


def _spread(builder: Any, value: Any, vector: Any) -> Any:
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_I32, vector.count), [0] * vector.count))


@intrinsic
def entry(typing_context: Any, array: Any, offset: Any) -> Any:
    """The entry of an array at an offset."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], args[0], args[1]))

    return array.dtype(array, types.int64), build


@intrinsic(prefer_literal=True)
def load(typing_context: Any, array: Any, offset: Any, lanes: Any) -> Any:
    """The entries of an array from an offset on."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = context.get_value_type(signature.return_type)
        address = _address(context, builder, signature.args[0], args[0], args[1])
        pointer = builder.bitcast(address, vector.as_pointer())
        return builder.load(pointer, align=vector.element.get_abi_size(context.target_data))

    return Vector(array.dtype, lanes.literal_value)(array, types.int64, lanes), build


@intrinsic
def prefetch(typing_context: Any, array: Any, offset: Any) -> Any:
    """Begin to load the cache line of an entry that is needed soon."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.bitcast(_address(context, builder, signature.args[0], *args), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32])
        begin = builder.module.declare_intrinsic("llvm.prefetch.p0", (), kind)
        builder.call(begin, [pointer, _I32(0), _I32(3), _I32(1)])  # a read of data, kept in all levels
        return context.get_dummy_value()

    return types.void(array, types.int64), build


@intrinsic
def store(typing_context: Any, value: Any, array: Any, offset: Any) -> Any:
    """Write a vector to an array from an offset on."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = args[0].type
        address = _address(context, builder, signature.args[1], args[1], args[2])
        pointer = builder.bitcast(address, vector.as_pointer())
        builder.store(args[0], pointer, align=vector.element.get_abi_size(context.target_data))
        return context.get_dummy_value()

    return types.void(value, array, types.int64), build


def _from_values(function: Any) -> Any:
    """Code generation that needs the builder and the values of the arguments only."""
    return lambda _context, builder, _signature, values: function(builder, *values)


@intrinsic(prefer_literal=True)
def zeros(typing_context: Any, array: Any, lanes: Any) -> Any:
    """Zeros of an array's dtype."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(context.get_value_type(signature.return_type), None)

    return Vector(array.dtype, lanes.literal_value)(array, lanes), build


@intrinsic
def multiply_add(typing_context: Any, value: Any, factors: Any, sums: Any) -> Any:
    """``sums + value * factors`` for a number `value`, rounded once where the processor can."""

    def build(builder: Any, value: Any, factors: Any, sums: Any) -> Any:
        products = builder.fmul(factors, _spread(builder, value, factors.type), flags=("contract",))
        return builder.fadd(products, sums, flags=("contract",))

    return sums(factors.dtype, factors, sums), _from_values(build)


@intrinsic(prefer_literal=True)
def add_dots(typing_context: Any, rows: Any, row: Any, columns: Any, sums: Any) -> Any:
    """``sums + rows[row] . columns`` for vectors of int32 whose lanes hold four signed bytes each."""

    def build(builder: Any, rows: Any, _: Any, columns: Any, sums: Any) -> Any:
        chosen = _lanes(builder, rows, [row.literal_value] * sums.type.count)
        if not BYTE_PRODUCTS:
            for byte in range(4):
                products = builder.mul(*(_signed_byte(builder, vector, byte) for vector in (chosen, columns)))
                sums = builder.add(sums, products)
            return sums
        four, sixteen = ir.VectorType(_I32, 4), ir.VectorType(ir.IntType(8), 16)
        kind = ir.FunctionType(four, [four, sixteen, sixteen])
        dot = builder.module.declare_intrinsic("llvm.aarch64.neon.sdot.v4i32.v16i8", (), kind)
        parts = []
        for start in range(0, sums.type.count, 4):
            part, *factors = (_lanes(builder, v, range(start, start + 4)) for v in (sums, columns, chosen))
            parts.append(builder.call(dot, [part, *(builder.bitcast(factor, sixteen) for factor in factors)]))
        while len(parts) > 1:
            parts = [
                _lanes(builder, a, range(2 * a.type.count), b) for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    return sums(rows, row, columns, sums), _from_values(build)


def _lanes(builder: Any, vector: Any, numbers: Any, after: Any = None) -> Any:
    """Some lanes of a vector, or of two, one after the other."""
    kind = ir.VectorType(_I32, len(numbers))
    after = ir.Constant(vector.type, ir.Undefined) if after is None else after
    return builder.shuffle_vector(vector, after, ir.Constant(kind, [*numbers]))


def _signed_byte(builder: Any, vector: Any, byte: int) -> Any:
    """One of the four signed bytes in each lane of a vector of int32."""
    up, down = (ir.Constant(vector.type, [bits] * vector.type.count) for bits in (24 - 8 * byte, 24))
    return builder.ashr(builder.shl(vector, up), down)


@intrinsic
def distances_of_dots(typing_context: Any, norm: Any, norms: Any, factor: Any, dots: Any) -> Any:
    """``norm + norms - factor dots`` for numbers `norm` and `factor`, and integers `dots`."""

    def build(builder: Any, norm: Any, norms: Any, factor: Any, dots: Any) -> Any:
        products = builder.fmul(builder.sitofp(dots, norms.type), _spread(builder, factor, norms.type), ("contract",))
        return builder.fadd(builder.fsub(norms, products, ("contract",)), _spread(builder, norm, norms.type))

    return norms(norms.dtype, norms, norms.dtype, dots), _from_values(build)


@intrinsic
def any_at_most(typing_context: Any, values: Any, numbers: Any, limits: Any) -> Any:
    """Whether any lane of several vectors is at most its limit: the number of its vector, or that of the lane."""

    def build(builder: Any, values: Any, numbers: Any, limits: Any) -> Any:
        kind, bits = limits.type, ir.VectorType(ir.IntType(1), limits.type.count)
        declare = builder.module.declare_intrinsic
        larger = declare(f"llvm.maxnum.v{kind.count}f32", (), ir.FunctionType(kind, [kind, kind]))
        any_of = declare(f"llvm.vector.reduce.or.v{kind.count}i1", (), ir.FunctionType(bits.element, [bits]))
        within = ir.Constant(bits, None)
        for i in range(len(values.type)):
            number = _spread(builder, builder.extract_value(numbers, i), kind)
            limit = builder.call(larger, [number, limits])
            within = builder.or_(within, builder.fcmp_ordered("<=", builder.extract_value(values, i), limit))
        return builder.call(any_of, [within])

    return types.boolean(values, numbers, limits), _from_values(build)


@intrinsic
def distances(typing_context: Any, norm: Any, norms: Any, products: Any) -> Any:
    """``norm + norms - products`` for a number `norm`."""

    def build(builder: Any, norm: Any, norms: Any, products: Any) -> Any:
        return builder.fsub(builder.fadd(_spread(builder, norm, norms.type), norms), products)

    return norms(norms.dtype, norms, products), _from_values(build)


@intrinsic
def at_most(typing_context: Any, values: Any, limits: Any) -> Any:
    """The lanes whose value is at most the limit, a vector or one number, as the bits of an integer."""

    def build(builder: Any, value: Any, limit: Any) -> Any:
        limit = limit if limit.type == value.type else _spread(builder, limit, value.type)
        lanes = builder.fcmp_ordered("<=", value, limit)
        return builder.zext(builder.bitcast(lanes, ir.IntType(values.lanes)), _I64)

    return types.int64(values, limits if isinstance(limits, Vector) else values.dtype), _from_values(build)


@intrinsic
def n_bits(typing_context: Any, bits: Any) -> Any:
    """How many bits of an integer are set."""
    return types.int64(types.int64), _from_values(lambda builder, bits: builder.ctpop(bits))


@intrinsic
def lowest_bit(typing_context: Any, bits: Any) -> Any:
    """Position of the lowest bit that is set, of an integer that is not zero."""
    return types.int64(types.int64), _from_values(lambda builder, bits: builder.cttz(bits, ir.IntType(1)(1)))


def _reinterpret(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.bitcast(args[0], context.get_value_type(signature.return_type))


@intrinsic
def bits_of(typing_context: Any, value: Any) -> Any:
    """The bits of a float as an integer of the same size."""
    return {types.float32: types.int32, types.float64: types.int64}[value](value), _reinterpret


@intrinsic
def float_of(typing_context: Any, value: Any) -> Any:
    """The float that has the bits of an integer of the same size."""
    return {types.int32: types.float32, types.int64: types.float64}[value](value), _reinterpret

"""SIMD vectors as a Numba value type: a row of labels in one or two registers.

Numba's own vectoriser leaves the chain oracle about five times slower than this.
`load` and `fill` take the number of lanes as a constant; LLVM splits a vector that is
wider than the machine's registers, so the same code runs on AVX-512, AVX2 and NEON.
Offsets count elements from the start of a C-contiguous array of any shape.
"""

from llvmlite import ir
from numba import types
from numba.extending import models, register_model

from wolfpack.kernels.compile import intrinsic, literal_intrinsic

_ELEMENTS = {"float32": ir.FloatType(), "float64": ir.DoubleType()}


class Vector(types.Type):
    """`lanes` numbers of type `element` ("float32" or "float64")."""

    def __init__(self, element: str, lanes: int) -> None:
        self.element, self.lanes = element, lanes
        super().__init__(name=f"Vector({element}x{lanes})")

    @property
    def key(self) -> tuple[str, int]:
        """What makes two of these the same Numba type."""
        return self.element, self.lanes


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, vector) -> None:
        super().__init__(manager, vector, _llvm(vector))


def _llvm(vector: Vector) -> ir.VectorType:
    return ir.VectorType(_ELEMENTS[vector.element], vector.lanes)


def _address(context, builder, signature, args, vector_type):
    array = context.make_array(signature.args[0])(context, builder, args[0])
    pointer = builder.gep(array.data, [args[1]])
    return builder.bitcast(pointer, vector_type.as_pointer())


def _int32s(values) -> ir.Constant:
    return ir.Constant(ir.VectorType(ir.IntType(32), len(values)), values)


@literal_intrinsic
def load(typing, array, offset, lanes):
    """Read `lanes` elements of `array` from `offset` on."""
    vector = Vector(array.dtype.name, lanes.literal_value)

    def generate(context, builder, signature, args):
        pointer = _address(context, builder, signature, args, _llvm(vector))
        return builder.load(pointer, align=4, typ=_llvm(vector))

    return vector(array, types.intp, lanes), generate


@literal_intrinsic
def load_double(typing, array, offset, lanes):
    """Read `lanes` elements of a float32 or float64 `array`, as float64."""
    stored = Vector(array.dtype.name, lanes.literal_value)
    vector = Vector("float64", lanes.literal_value)

    def generate(context, builder, signature, args):
        pointer = _address(context, builder, signature, args, _llvm(stored))
        value = builder.load(pointer, align=4, typ=_llvm(stored))
        if stored.element == "float32":
            value = builder.fpext(value, _llvm(vector))
        return value

    return vector(array, types.intp, lanes), generate


@intrinsic
def store(typing, array, offset, vector):
    """Write `vector` to `array` from `offset` on."""

    def generate(context, builder, signature, args):
        pointer = _address(context, builder, signature, args, args[2].type)
        builder.store(args[2], pointer, align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@intrinsic
def fetch(typing, array, offset):
    """Read one element; unlike `array[offset]`, without a test for offset < 0."""

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load(builder.gep(data, [args[1]]))

    return array.dtype(array, types.intp), generate


@intrinsic
def put(typing, array, offset, number):
    """Write one element; like `fetch`, without a test for offset < 0."""

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        builder.store(args[2], builder.gep(data, [args[1]]))
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), generate


@intrinsic
def word(typing, array, offset):
    """Read the eight bytes that start at element `offset`, as one number."""
    bits = ir.IntType(64)

    def generate(context, builder, signature, args):
        pointer = _address(context, builder, signature, args, bits)
        return builder.load(pointer, align=1, typ=bits)

    return types.uint64(array, types.intp), generate


@intrinsic
def accumulate(typing, array, offset, vector):
    """Add a float32 `vector` to a float32 or float64 `array` from `offset` on."""
    double = array.dtype == types.float64

    def generate(context, builder, signature, args):
        value = args[2]
        if double:
            value = builder.fpext(value, ir.VectorType(ir.DoubleType(), vector.lanes))
        pointer = _address(context, builder, signature, args, value.type)
        align = 8 if double else 4
        old = builder.load(pointer, align=align, typ=value.type)
        builder.store(builder.fadd(old, value), pointer, align=align)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@literal_intrinsic
def fill(typing, number, lanes):
    """Return `lanes` copies of a float32 or float64 `number`."""
    vector = Vector(types.unliteral(number).name, lanes.literal_value)

    def generate(context, builder, signature, args):
        undefined = ir.Constant(_llvm(vector), ir.Undefined)
        zero = ir.Constant(ir.IntType(32), 0)
        first = builder.insert_element(undefined, args[0], zero)
        return builder.shuffle_vector(first, undefined, _int32s([0] * vector.lanes))

    return vector(types.unliteral(number), lanes), generate


@intrinsic
def plus(typing, x, y):
    """Return x + y."""

    def generate(context, builder, signature, args):
        return builder.fadd(*args)

    return x(x, y), generate


@intrinsic
def minus(typing, x, y):
    """Return x - y."""

    def generate(context, builder, signature, args):
        return builder.fsub(*args)

    return x(x, y), generate


@intrinsic
def times(typing, x, y):
    """Return x y."""

    def generate(context, builder, signature, args):
        return builder.fmul(*args)

    return x(x, y), generate


@intrinsic
def multiply_add(typing, x, y, z):
    """Return x y + z, fused."""

    def generate(context, builder, signature, args):
        product = builder.fmul(args[0], args[1], flags=("contract",))
        return builder.fadd(product, args[2], flags=("contract",))

    return x(x, y, z), generate


@intrinsic
def maximum(typing, x, y):
    """Return the larger of x and y, lane by lane; y where one of them is NaN."""

    def generate(context, builder, signature, args):
        mask = builder.fcmp_ordered(">", args[0], args[1])
        return builder.select(mask, args[0], args[1])

    return x(x, y), generate


@intrinsic
def total(typing, x):
    """Return the sum of the lanes."""

    def generate(context, builder, signature, args):
        return _reduce(builder, args[0], x.lanes, builder.fadd)

    return getattr(types, x.element)(x), generate


@intrinsic
def largest(typing, x):
    """Return the largest lane; any of the others where one is NaN."""

    def generate(context, builder, signature, args):
        def larger(one, two):
            return builder.select(builder.fcmp_ordered(">", one, two), one, two)

        return _reduce(builder, args[0], x.lanes, larger)

    return getattr(types, x.element)(x), generate


def _reduce(builder, vector, lanes, join):
    """Join the halves of a vector until one number is left."""
    while lanes > 1:
        lanes //= 2
        undefined = ir.Constant(vector.type, ir.Undefined)
        low = _int32s(list(range(lanes)))
        high = _int32s(list(range(lanes, 2 * lanes)))
        vector = join(
            builder.shuffle_vector(vector, undefined, low),
            builder.shuffle_vector(vector, undefined, high),
        )
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))

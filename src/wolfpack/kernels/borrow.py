"""Arrays without reference counts, for the inside of a loop.

Numba counts references whenever a compiled function names an array, takes a slice or
passes a record on, and not all of it is optimised away. A count is an atomic operation
on memory that all threads share, so threads would slow each other down. A loop borrows
its arguments instead: its caller in Python keeps them alive.
"""

from typing import Any

from numba import types
from numba.core import cgutils
from numba.np import arrayobj

from wolfpack.kernels.compile import intrinsic


def _strip(context, builder, kind, value):
    """Return `value`; the arrays in it no longer know their owner."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        for field in ("meminfo", "parent"):
            place = getattr(array, field)
            setattr(array, field, cgutils.get_null_value(place.type))
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        items: Any = kind
        for k, item in enumerate(items):
            part = builder.extract_value(value, k)
            part = _strip(context, builder, item, part)
            value = builder.insert_value(value, part, k)
        return value
    # References to anything else (a list, a structure) are counted as usual.
    context.nrt.incref(builder, kind, value)
    return value


@intrinsic
def borrow(typing, record):
    """Return an array, or a record of arrays, that counts no references."""

    def generate(context, builder, signature, args):
        return _strip(context, builder, signature.args[0], args[0])

    return record(record), generate


def _lend(record: Any) -> Any:
    return record


borrow.plain = _lend  # what uncompiled loops call


@intrinsic
def cut(typing, array, begin, count):
    """Return `count` entries of a row from `begin` on, as a view that is borrowed.

    A slice would test its ends, and count a reference.
    """

    def generate(context, builder, signature, args):
        whole = context.make_array(signature.args[0])(context, builder, args[0])
        view = context.make_array(signature.return_type)(context, builder)
        arrayobj.populate_array(
            view,
            data=builder.gep(whole.data, [args[1]]),
            shape=[args[2]],
            strides=[whole.itemsize],
            itemsize=whole.itemsize,
            meminfo=None,
        )
        return view._getvalue()

    return array(array, types.intp, types.intp), generate


def _slice(array: Any, begin: int, count: int) -> Any:
    return array[begin : begin + count]


cut.plain = _slice

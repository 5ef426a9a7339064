"""Arrays without reference counts, for the inside of a loop.

Numba counts references whenever a compiled function names an array, takes a slice or
passes a record on, and not all of it is optimised away. A count is an atomic operation
on memory that all threads share, so threads would slow each other down. A loop borrows
its arguments instead: its caller in Python keeps them alive.
"""

from typing import Any

from numba import types
from numba.core import cgutils

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

"""Atomic operations on array elements: what threads need to share memory.

Each is one LLVM instruction through `@intrinsic`. A release store makes everything
written before it visible to a thread that reads the stored value by an acquire load. A
lock is a word that is 0 when free. A spin loop pauses, and after many spins it gives
its core to other threads, so that more workers than cores still make progress.
"""

import os
import platform

from llvmlite import ir
from numba import types
from numba.core import cgutils

from wolfpack.kernels.compile import intrinsic, jit

# After PATIENCE spins (a few microseconds) a thread yields its core; after LONG spins
# (some tenths of a millisecond) it sleeps, because the thread that it waits for
# probably has no core.
PATIENCE, LONG = 64, 4096
NAP_MICROSECONDS = 50

_X86 = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")
_POSIX = os.name == "posix"
_yield = types.ExternalFunction(
    "sched_yield" if _POSIX else "SwitchToThread", types.int32()
)
_sleep = types.ExternalFunction(
    "usleep" if _POSIX else "Sleep", types.int32(types.uint32)
)
_NAP = NAP_MICROSECONDS if _POSIX else 1
NAP_SECONDS = 1e-4 if _POSIX else 2e-3  # about the time that a nap really takes


def _address(context, builder, signature, args):
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


def _bytes(dtype) -> int:
    return dtype.bitwidth // 8


@intrinsic
def fetch_add(typing, array, index, value):
    """Add `value` to an integer or floating element; return what was there before."""
    dtype = array.dtype
    operation = "fadd" if isinstance(dtype, types.Float) else "add"

    def generate(context, builder, signature, args):
        place = _address(context, builder, signature, args)
        return builder.atomic_rmw(operation, place, args[2], "acq_rel")

    return dtype(array, types.intp, dtype), generate


@intrinsic
def compare_exchange(typing, array, index, old, new):
    """Replace `old` by `new`; return whether the element was `old`."""
    dtype = array.dtype

    def generate(context, builder, signature, args):
        place = _address(context, builder, signature, args)
        pair = builder.cmpxchg(place, args[2], args[3], "acq_rel", "monotonic")
        return builder.extract_value(pair, 1)

    return types.boolean(array, types.intp, dtype, dtype), generate


@intrinsic
def load_acquire(typing, array, index):
    """Read an element; no later read or write is moved before this read."""
    dtype = array.dtype

    def generate(context, builder, signature, args):
        place = _address(context, builder, signature, args)
        return builder.load_atomic(place, "acquire", _bytes(dtype))

    return dtype(array, types.intp), generate


@intrinsic
def store_release(typing, array, index, value):
    """Write an element; no earlier read or write is moved after this write."""
    dtype = array.dtype

    def generate(context, builder, signature, args):
        place = _address(context, builder, signature, args)
        builder.store_atomic(args[2], place, "release", _bytes(dtype))
        return context.get_dummy_value()

    return types.void(array, types.intp, dtype), generate


@intrinsic
def pause(typing):
    """Tell the core that this is a spin loop, where it has such an instruction."""

    def generate(context, builder, signature, args):
        if _X86:
            hint = ir.FunctionType(ir.VoidType(), [])
            name = "llvm.x86.sse2.pause"
            builder.call(cgutils.get_or_insert_function(builder.module, hint, name), [])
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def prefetch(typing, array, index):
    """Load the cache line of an element in advance, to read it soon."""
    return _prefetch(array, 0)


@intrinsic
def prefetch_to_write(typing, array, index):
    """Load the cache line of an element in advance, to write to it soon."""
    return _prefetch(array, 1)


def _prefetch(array, write: int):
    def generate(context, builder, signature, args):
        place = _address(context, builder, signature, args)
        pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        hint = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
        function = cgutils.get_or_insert_function(
            builder.module, hint, "llvm.prefetch.p0"
        )
        flags = [ir.Constant(word, flag) for flag in (write, 3, 1)]  # keep; data
        builder.call(function, [builder.bitcast(place, pointer), *flags])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@jit
def nap():
    """Sleep for a moment."""
    _sleep(_NAP)


@jit
def relax(spins):
    """Wait a moment in a spin loop; after many `spins`, let another thread run."""
    pause()
    if spins % PATIENCE == PATIENCE - 1:
        if spins > LONG:
            nap()
        else:
            _yield()


@jit
def acquire(words, index, stop, stop_index):
    """Take a lock; give up, and return False, once `stop[stop_index]` is not 0."""
    spins = 0
    while not compare_exchange(words, index, 0, 1):
        while load_acquire(words, index) != 0:  # read only: the line stays shared
            if load_acquire(stop, stop_index) != 0:
                return False
            relax(spins)
            spins += 1
    return True


@jit
def release(words, index):
    """Release a lock."""
    store_release(words, index, 0)

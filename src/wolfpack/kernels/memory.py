"""Arrays that start at a cache line, at different places of their pages; norms.

A vector of 16 floats that straddles two cache lines costs two loads, and two threads
that write to the two halves of one line take it from each other at each write. Arrays
that are read side by side should not stand a multiple of 4096 bytes apart: some
processors then mistake a load for one that depends on the last store. (On the machines
measured this made no difference.)
"""

import contextlib
import ctypes
import gc
import itertools
import math
import mmap
from typing import Any

import numpy as np

CACHE_LINE, PAGE = 64, 4096  # bytes
STAGGER = 12 * CACHE_LINE  # five arrays in turn are at least four lines apart
# Arrays of OWN_PAGES bytes or more are pages of their own: they go back to the system
# when they are freed, and zeros that are only read take no memory. The C library would
# keep a hole. Before an array of MANY_PAGES bytes is made, it gives back free memory.
OWN_PAGES, MANY_PAGES = 2**20, 2**24
# Where rows of a v of this many bytes are read at random, the processor looks their
# pages up in a table; huge pages need fewer entries, and NumPy asks for them, too.
HUGE_PAGES = 2**22

_turn = itertools.count()


def zeros(shape: Any, dtype: Any = np.float64) -> np.ndarray:
    """Return an array of zeros that shares no cache line with another array."""
    dtype = np.dtype(dtype)
    count = math.prod(shape) if isinstance(shape, tuple) else int(np.prod(shape))
    size = count * dtype.itemsize
    small = size < PAGE // 4
    room = _empty_pages(
        -(-size // CACHE_LINE) * CACHE_LINE + (CACHE_LINE if small else 2 * PAGE)
    )
    first = -room.ctypes.data % (CACHE_LINE if small else PAGE)
    if not small:
        first += next(_turn) * STAGGER % PAGE
    return room[first : first + size].view(dtype).reshape(shape)


def _empty_pages(size: int) -> np.ndarray:
    """Return `size` bytes, all 0."""
    if size < OWN_PAGES or not hasattr(mmap, "MAP_PRIVATE"):
        return np.zeros(size, np.uint8)
    if size >= MANY_PAGES:
        _trim()
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        pages = mmap.mmap(-1, size, flags=flags)
    except (OSError, OverflowError):  # too many maps, or too large: NumPy will say so
        return np.zeros(size, np.uint8)
    if size >= HUGE_PAGES and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.uint8)


def widen(array: np.ndarray) -> np.ndarray:
    """Return a copy in double precision, which takes no memory where all is 0."""
    new = zeros(array.shape)
    if array.any():
        new[...] = array
    return new


def copy(array: np.ndarray, dtype: Any = None) -> np.ndarray:
    """Return a copy of `array` that starts at a cache line."""
    new = zeros(array.shape, array.dtype if dtype is None else dtype)
    new[...] = array
    return new


def norm_of(array: np.ndarray) -> float:
    """Return the Euclidean norm, computed on one thread.

    The threads of BLAS wait for each other, which takes a hundred times as long where
    other processes use the cores.
    """
    flat = array.reshape(-1)
    return math.sqrt(np.einsum("i,i", flat, flat, dtype=np.float64))


def give_back() -> None:
    """Return free memory to the system.

    Python keeps some objects that were freed in lists, and each holds a megabyte; a
    collection empties them. The C library of GNU keeps what was freed between other
    blocks, and an array that is larger than any hole there takes new memory.
    """
    gc.collect()
    _trim()


def _trim() -> None:
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)

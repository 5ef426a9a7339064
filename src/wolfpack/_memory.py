"""Arrays that start at a cache line.

A vector of 16 floats that straddles two cache lines costs two loads, and two threads
that write to the two halves of one line take it from each other at each write.
"""

from typing import Any

import numpy as np

LINE = 64  # bytes of a cache line


def zeros(shape: Any, dtype: Any = np.float64) -> np.ndarray:
    """Return an array of zeros that shares no cache line with another array."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    room = np.zeros(-(-size // LINE) * LINE + LINE, np.uint8)
    first = -room.ctypes.data % LINE
    return room[first : first + size].view(dtype).reshape(shape)


def copy(array: np.ndarray, dtype: Any = None) -> np.ndarray:
    """Return a copy of `array` that starts at a cache line."""
    new = zeros(array.shape, array.dtype if dtype is None else dtype)
    new[...] = array
    return new

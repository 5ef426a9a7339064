"""Edits of .npz files that no sane program makes, as Hypothesis strategies."""

import os
import warnings

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

# Set WOLFPACK_EXAMPLES to try more edits than fit into an everyday test.
bounded = settings(
    max_examples=int(os.environ.get("WOLFPACK_EXAMPLES", "50")),
    deadline=None,
    derandomize=True,
    database=None,
)

NUMBERS = (
    *(0, 1, 2, -1, 7, 255, 1000, 10**6, 10**12, 2**53 + 2, 2**63 - 1, -(2**63)),
    *(0.5, 1.0 + 1e-12, -0.1, 1e-300, 1e30, 1e300, 1.7e308, -1e300),
    *(np.nan, np.inf, -np.inf),
)
TYPES = (
    "f4",
    "f8",
    ">f8",
    "f2",
    "g",
    "i1",
    "i4",
    "i8",
    "u8",
    "c16",
    "?",
    "U3",
    "S2",
    "O",
)
TYPES += ("M8[s]", "V8")
SHAPES = {
    "cut": lambda a: a[:-1] if a.ndim else a.reshape(1)[:0],
    "longer": lambda a: np.concatenate([a.reshape(-1), a.reshape(-1)[:1]]),
    "twice": lambda a: np.concatenate([a.reshape(-1), a.reshape(-1)]),
    "deeper": lambda a: a[None],
    "flat": lambda a: a.reshape(-1),
    "column": lambda a: a.reshape(-1, 1),
    "scalar": lambda a: a.reshape(-1)[:1].reshape(()) if a.size else np.array(0.0),
    "empty": lambda a: a.reshape(-1)[:0],
    "fortran": lambda a: np.asfortranarray(a),
    "backwards": lambda a: a.reshape(-1)[::-1].reshape(a.shape),
    "many empty": lambda a: np.zeros((0, 10**6)),
    "constant": lambda a: np.zeros_like(a),
    "large": lambda a: np.zeros(200_000),
}
TEXTS = (
    "",
    "?",
    "{",
    "[]",
    "null",
    "1e999",
    "[" * 5000,
    "\0",
    "ä" * 50,
    '{"name": []}',
)


def _put(array, at, value):
    array = array.copy()
    flat = array.reshape(-1)
    if flat.size:
        with np.errstate(all="ignore"):
            number = np.array(value)
            if array.dtype.kind in "iu" and number.dtype.kind == "f":
                number = np.nan_to_num(number, posinf=9e18, neginf=-9e18).clip(
                    -9e18, 9e18
                )
            flat[at % flat.size] = number.astype(array.dtype)
    return array


def _retype(array, kind):
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of complex numbers that lose a part
            return array.astype(kind)
    except (TypeError, ValueError):
        return np.zeros(array.shape, kind)


@st.composite
def edits(draw, names):
    """Draw a function that edits a dictionary of arrays in place."""
    name = draw(st.sampled_from(names))
    kind = draw(st.sampled_from(["value", "value", "type", "shape", "text", "drop"]))
    at, number = draw(st.integers(0, 10**6)), draw(st.sampled_from(NUMBERS))
    dtype, text = draw(st.sampled_from(TYPES)), draw(st.sampled_from(TEXTS))
    reshape = SHAPES[draw(st.sampled_from(sorted(SHAPES)))]

    def edit(arrays):
        array = arrays.pop(name, None)
        if array is None or kind == "drop":
            return
        if kind == "value" and array.dtype.kind in "biuf":
            array = _put(array, at, number)
        elif kind == "type":
            array = _retype(array, dtype)
        elif kind == "shape":
            array = reshape(array)
        elif kind == "text":
            array = np.array(text)
        arrays[name] = array

    return edit


@st.composite
def damages(draw):
    """Draw a function that flips, cuts or repeats bytes."""
    places = draw(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=4))
    kind = draw(st.sampled_from(["flip", "cut", "repeat"]))
    byte = draw(st.integers(1, 255))

    def change(content):
        content = bytearray(content)
        for place in places:
            at = int(place * len(content))
            if kind == "flip" and content:
                content[at] ^= byte
            elif kind == "cut":
                del content[at:]
            else:
                content[at:at] = content[at : at + byte]
        return bytes(content)

    return change

"""The state of a random generator as JSON, and back: nothing is pickled."""

import json
from typing import Any

import numpy as np

# Random generators that a state may hold, and the largest position in their buffers.
GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
POSITIONS = {"pos": 624, "buffer_pos": 4, "has_uint32": 1, "uinteger": 2**32 - 1}


def pack_rng(rng: np.random.Generator) -> str:
    """Return the state of a generator as JSON."""
    bits = rng.bit_generator
    return json.dumps({"name": type(bits).__name__, "state": _plain(bits.state)})


def unpack_rng(text: str) -> np.random.Generator:
    """Undo `pack_rng`."""
    saved = json.loads(text)
    if not isinstance(saved, dict) or saved.get("name") not in GENERATORS:
        raise ValueError("its random generator is unknown")
    bits = getattr(np.random, saved["name"])()
    bits.state = _read_like(bits.state, saved.get("state"))
    return np.random.Generator(bits)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return {"uint": value.tolist(), "dtype": str(value.dtype)}
    return value.item() if isinstance(value, np.generic) else value


def _read_like(known: Any, value: Any, name: str = "") -> Any:
    """Undo `_plain`, for a value of the same form as `known`.

    NumPy does not check it: with a position beyond its buffer it reads foreign memory.
    """
    if isinstance(known, dict) and isinstance(value, dict) and set(known) == set(value):
        return {key: _read_like(known[key], value[key], key) for key in known}
    if isinstance(known, np.ndarray) and isinstance(value, dict):
        words = value.get("uint")
        if value.get("dtype") == str(known.dtype) and isinstance(words, list):
            most = int(np.iinfo(known.dtype).max)
            if len(words) == len(known) and all(_is_whole(w, most) for w in words):
                return np.array(words, known.dtype)
    if isinstance(known, str) and value == known:
        return value
    if isinstance(known, int) and _is_whole(value, POSITIONS.get(name, 2**128 - 1)):
        return value
    raise ValueError(f"its random generator has an impossible state {name}".rstrip())


def _is_whole(value: Any, most: int) -> bool:
    return isinstance(value, int) and 0 <= value <= most

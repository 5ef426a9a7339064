"""How x_(i) is kept: a store a file, with the same functions each."""

from types import ModuleType
from typing import Any

from wolfpack.stores import atoms, parts, vectors

# By the name that `Problem(keeps=...)` gives.
STORES: dict[str, ModuleType] = {"atoms": atoms, "vectors": vectors, "parts": parts}


def name_of(blocks: Any) -> str:
    """Return the name of the store that made `blocks`."""
    return next(name for name, one in STORES.items() if isinstance(blocks, one.Blocks))


def name_in(arrays: set[str], is_vectors: bool) -> str:
    """Return the name of the store whose arrays a file has."""
    default = "vectors" if is_vectors else "atoms"
    fits = (name for name, one in STORES.items() if arrays >= set(one.ARRAYS))
    return default if is_vectors else next(fits, default)

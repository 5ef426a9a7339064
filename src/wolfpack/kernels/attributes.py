"""What functions read of modules that come with a release: `math.sin`, `np.pi`.

Numba knows such a module by its identity, so no copy can take its place, and anybody
may set its attributes. What is the release's own is hashed by its name, constants by
their content; the rest is compiled as it is there, for one process only.
"""

import types
from collections.abc import Iterable
from typing import Any

import numpy as np

from wolfpack.kernels.fingerprint import Fingerprint

# Of an array larger than this, Numba compiles in the address and not the content.
LARGE_BYTES = 10**6


def hash_attributes(
    digest: Fingerprint, modules: Iterable[types.ModuleType], names: frozenset[str]
) -> list[tuple[str, Any]]:
    """Hash what `modules`, and modules in these, hold under any of `names`.

    Returns what has no hash, with its name. A module may go from one function to
    another as an argument, so each is searched for what any function reads.
    """
    todo, unknown = list(modules), []
    for module in todo:  # it grows
        digest.text("attributes of", module.__name__)
        for name in sorted(names & set(vars(module))):
            value = vars(module)[name]
            digest.text("attribute", name)
            if not isinstance(value, types.ModuleType):
                if not _known(digest, value):
                    unknown.append((f"{module.__name__}.{name}", value))
            elif not any(value is one for one in todo):
                todo.append(value)
    return unknown


def _known(digest: Fingerprint, value: Any) -> bool:
    if isinstance(value, tuple):
        fields = getattr(value, "_fields", ())
        digest.text("tuple", f"{type(value).__name__} {len(value)} {fields}")
        return all(_known(digest, item) for item in value)
    if isinstance(value, np.ndarray):
        digest.text("layout", f"{value.strides} {value.flags.aligned}")
        return value.nbytes <= LARGE_BYTES and digest.known(value)
    return digest.known(value)

"""A hash of the library's own loops: their sources, and what these read elsewhere."""

import builtins
import functools
import hashlib
import sys
import types
import uuid
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from wolfpack.kernels.attributes import hash_attributes
from wolfpack.kernels.bytecode import attributes_of, globals_of
from wolfpack.kernels.fingerprint import Fingerprint
from wolfpack.kernels.released import is_released

_PROCESS = uuid.uuid4().hex


def loop_hash(module: types.ModuleType) -> str:
    """Hash sources as `source_hash` does, and what they read of released packages now.

    Somebody may have set `math.sqrt`, and loops compiled with that are for nobody else.
    """
    digest = Fingerprint()
    released, names = _reads(module)
    for where, value in hash_attributes(digest, released, names):
        digest.text("changed", f"{where} {id(value)} {_PROCESS}")
    return source_hash(module) + digest.hexdigest()


@functools.cache
def _family(module: types.ModuleType) -> tuple[types.ModuleType, ...]:
    """Return a module, and the modules of wolfpack whose functions it uses."""
    found: dict[str, types.ModuleType] = {}
    todo = [module]
    while todo:
        module = todo.pop()
        if str(module.__file__) not in found:
            found[str(module.__file__)] = module
            homes = {one.__module__ for one in _functions(module, "py_func", "_defn")}
            todo += [sys.modules[h] for h in homes if h.startswith("wolfpack.")]
    return tuple(found[file] for file in sorted(found))


def _functions(module: types.ModuleType, *kinds: str) -> list[Any]:
    """Return the Python functions behind what a module's names refer to."""
    values = vars(module).values()
    found = (getattr(value, kind, None) for value in values for kind in kinds)
    return [function for function in found if function is not None]


@functools.cache
def _reads(
    module: types.ModuleType,
) -> tuple[tuple[types.ModuleType, ...], frozenset[str]]:
    """Return the released modules that loops read, and the attributes and globals."""
    modules: dict[str, types.ModuleType] = {"builtins": builtins}
    names: frozenset[str] = frozenset()
    for part in _family(module):
        for function in _functions(part, "py_func"):  # intrinsics run in Python
            here = globals_of(function.__code__)
            names |= attributes_of(function.__code__) | here
            for name in here:
                value = function.__globals__.get(name)
                if isinstance(value, types.ModuleType) and is_released(value):
                    modules[value.__name__] = value
    return tuple(modules[name] for name in sorted(modules)), names


@functools.cache
def source_hash(module: types.ModuleType) -> str:
    """Hash the sources of a module, and of the modules whose functions it uses."""
    digest = hashlib.blake2b(digest_size=16)
    for part in _family(module):
        for name, value in sorted(vars(part).items()):
            if isinstance(value, int | float | np.number):
                digest.update(f"{name} {value!r}\n".encode())
            elif isinstance(value, type) and issubclass(value, Enum):
                numbers = {one.name: one.value for one in value}
                digest.update(f"{name} {numbers}\n".encode())
        digest.update(Path(str(part.__file__)).read_bytes())
    return digest.hexdigest()

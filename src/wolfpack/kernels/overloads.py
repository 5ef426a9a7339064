"""Overloads that a program has made of functions of NumPy, Numba and the like."""

import functools
import sys
import types
from typing import Any

from numba.core.typing.templates import builtin_registry

from wolfpack.kernels.released import is_released


def is_ours(function: Any) -> bool:
    """Return whether a function is wolfpack's."""
    return str(function.__module__).partition(".")[0] == "wolfpack"


def foreign_overloads() -> tuple[str, ...]:
    """Return the overloads that neither a released package nor wolfpack has made."""
    return _search(len(builtin_registry.functions), len(builtin_registry.attributes))


@functools.lru_cache(1)
def _search(n_functions: int, n_attributes: int) -> tuple[str, ...]:
    """Search the registry again only when its sizes show that it has grown."""
    found = []
    for template in (*builtin_registry.functions, *builtin_registry.attributes):
        define: Any = getattr(template, "_overload_func", None)
        if define is None:
            continue
        module = sys.modules.get(define.__globals__.get("__name__") or "")
        if module is not None and is_released(module):
            continue
        target = getattr(template, "key", None)
        own = isinstance(target, types.FunctionType)
        if is_ours(define):
            continue
        if own and not is_released(target):  # of the user's function, itself opaque
            continue
        found.append(f"{define.__qualname__} (an overload)")
    return tuple(found)

"""How one function is compiled: called from Python, from compiled code, or put there.

`entry` is what Python calls; its copies in `specialise` are kept on disk. It calls
`jit` functions, which LLVM takes into it, and `glue`, which Numba takes in before types
are known.
"""

import functools
from collections.abc import Callable
from typing import Any

import numba
import numba.extending
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher

# Fused multiply-add and nothing else: `nnan` would delete the loops' tests for NaN, and
# `reassoc` would let each compilation sum in an order of its own.
FASTMATH = {"contract"}

_OPTIONS = {
    "nogil": True,
    "forceinline": True,
    "error_model": "numpy",
    "fastmath": FASTMATH,
}
_INNER = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class Inner(CPUDispatcher):
    """What compiled code calls: without the wrappers that other callers need.

    To compile the wrappers took a third of all time, and Numba crashes where they are
    missed: a call from Python goes to a twin that has them.
    """

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Compile, or find, the twin, and call it."""
        return self._twin(*args, **named)

    @functools.cached_property
    def _twin(self) -> Any:
        return numba.njit(**_OPTIONS)(self.py_func)


def jit(function: Callable) -> Any:
    """Compile what other compiled functions call."""
    return _make_inner(function, {})


def glue(function: Callable) -> Any:
    """Put a function into its callers before they are typed.

    For what only arranges calls of others: compiled by itself it would take as long as
    they do, for the many arguments that it hands on.
    """
    return _make_inner(function, {"inline": "always"})


def _make_inner(function: Callable, options: dict[str, Any]) -> Any:
    options = {"nopython": True, **_INNER, **options}
    return Inner(function, targetoptions=options)


def entry(function: Callable) -> Any:
    """Compile what Python calls; its copies in `specialise` are kept on disk.

    With all that it calls, which is `jit`. Nothing is kept beside the sources, which
    may lie in a folder that only an administrator can write to.
    """
    dispatcher: Any = numba.njit(**_OPTIONS)(function)
    dispatcher.is_entry = True
    return dispatcher


def intrinsic(function: Callable) -> Any:
    """Make an intrinsic; its arguments are Numba's affair, not the type checker's."""
    return numba.extending.intrinsic(function)


def literal_intrinsic(function: Callable) -> Any:
    """Make an intrinsic that is told the values of constant arguments."""
    return numba.extending.intrinsic(prefer_literal=True)(function)


def is_compiled(function: Any) -> bool:
    """Whether `function` came from `numba.njit`."""
    return isinstance(function, Dispatcher)

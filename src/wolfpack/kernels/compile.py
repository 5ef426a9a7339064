"""How one function is compiled: as an `entry`, as `jit`, or as `glue`.

Python calls an `entry`; its copies in `specialise` are kept on disk. An entry calls
`jit` functions, which LLVM inlines, and `glue` functions, which Numba inlines before
types are known.
"""

import functools
from collections.abc import Callable
from typing import Any

import numba.extending
from numba.core import config
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher
from numba.core.types import unliteral

from wolfpack.run.interrupt import late_signals

# Only fused multiply-add is allowed: `nnan` would delete the loops' tests for NaN, and
# `reassoc` would let each compilation sum in another order.
FASTMATH = {"contract"}

_OPTIONS = {
    "nogil": True,
    "forceinline": True,
    "error_model": "numpy",
    "fastmath": FASTMATH,
    "no_cfunc_wrapper": True,  # C calls none of them
}
_INNER = {**_OPTIONS, "no_cpython_wrapper": True}


class Whole(CPUDispatcher):
    """A function whose compilation no signal cuts short.

    An error in the midst of it would leave Numba half set up: later compilations fail,
    and some crash the process.
    """

    def compile(self, sig: Any) -> Any:
        """Compile, or load what was compiled, for a signature."""
        with late_signals():
            return super().compile(sig)


class Inner(Whole):
    """A function that compiled code calls, without wrappers for other callers.

    Compiling the wrappers took a third of the time. Numba crashes where Python calls a
    function without them, so such a call goes to a twin that has them.
    """

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the twin, which is made at the first call."""
        return self._twin(*args, **named)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile for the types of arguments, not for a value that is a constant.

        Numba would compile for the 0 that a counter begins with, and when it has seen
        the counter grow, for any number.
        """
        return super().get_call_template(tuple(map(unliteral, args)), kws)

    @functools.cached_property
    def _twin(self) -> Any:
        return Whole(self.py_func, targetoptions={"nopython": True, **_OPTIONS})


def jit(function: Callable) -> Any:
    """Compile a function that other compiled functions call."""
    return _make_inner(function, {})


def glue(function: Callable) -> Any:
    """Inline a function into its callers before they are typed.

    It is for functions that only arrange calls of others: with their many arguments
    they would take as long to compile as the functions that they call.
    """
    return _make_inner(function, {"inline": "always"})


def _make_inner(function: Callable, options: dict[str, Any]) -> Any:
    options = {"nopython": True, **_INNER, **options}
    return Inner(function, targetoptions=options)


def entry(function: Callable) -> Any:
    """Compile a function that Python calls; its copies in `specialise` stay on disk.

    The machine code includes the `jit` functions that it calls. Nothing is kept beside
    the sources, which may lie in a folder that only an administrator can write to.
    """
    dispatcher: Any = Whole(function, targetoptions={"nopython": True, **_OPTIONS})
    dispatcher.is_entry = True
    return dispatcher


def intrinsic(function: Callable) -> Any:
    """Make an intrinsic; the type checker knows nothing of its arguments."""
    return numba.extending.intrinsic(function)


def literal_intrinsic(function: Callable) -> Any:
    """Make an intrinsic that gets the values of constant arguments."""
    return numba.extending.intrinsic(prefer_literal=True)(function)


def is_compiled(function: Any) -> bool:
    """Whether `function` came from `numba.njit`."""
    return isinstance(function, Dispatcher)


def refuse_disabled() -> None:
    """Raise where Numba was told not to compile."""
    if getattr(config, "DISABLE_JIT", 0):
        raise RuntimeError(
            "NUMBA_DISABLE_JIT is set, but wolfpack's loops must be compiled: unset it "
            "before wolfpack is imported. To step through an oracle of your own, give "
            "it as a plain Python function, without numba.njit."
        )

"""Compile the library's loops for one problem, and keep the result on disk.

The loops (`stores`, `steps`, `gap`, `engines.serial`) are ordinary modules that call a
problem's functions by name: `oracle`, `add`, `slope`... `specialise` copies their
functions into globals of the copies' own, where those names are bound to a `Snapshot`
of the problem's functions. Numba then inlines them, and keeps what it compiled under a
hash of all that the machine code depends on (`_cache`), for a user's problem as for
ours: closures and functions passed as arguments would be compiled in each process.

A plain Python callable among the functions switches the whole set to uncompiled copies:
same source, same result, no compiler. They belong to the problem that asked for them,
and to no other: nobody can tell by content whether two Python functions are the same.
"""

import functools
import hashlib
import sys
import types
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numba
import numba.extending
import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher

from wolfpack.kernels.cache import LoopCache
from wolfpack.kernels.snapshot import HOME, Snapshot

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
# So many sets of loops stay in memory although no problem holds them any more: who
# makes the same problem again and again need not load its loops each time.
RECENT = 8


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


class Loops(types.SimpleNamespace):
    """The loops of one problem, by name, and how they were made.

    `compiled`: whether they are; `key`: the hash they are kept under, empty where they
    are not; `opaque`: what they depend on that has no hash, so that they are compiled
    for this process only.
    """

    compiled: bool
    key: str
    opaque: tuple[str, ...]


_alive: weakref.WeakValueDictionary[str, Loops] = weakref.WeakValueDictionary()
_recent: OrderedDict[str, Loops] = OrderedDict()


def jit(function: Callable) -> Any:
    """Compile what other compiled functions call."""
    return Inner(function, targetoptions={"nopython": True, **_INNER})


def entry(function: Callable) -> Any:
    """Compile what Python calls; its copies in `specialise` are kept on disk.

    With all that it calls, which is `jit`. Here, beside the sources, nothing is kept:
    they may lie where nobody may write.
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


def fresh(function: Any) -> Any:
    """Return a compiled function as it is now: its own copy may be of an older day."""
    if not is_compiled(function):
        return function
    snapshot = Snapshot()
    copy = snapshot.take(function, function.__name__)
    snapshot.name_copies(uuid.uuid4().hex)
    return copy


def is_compiled(function: Any) -> bool:
    """Whether `function` came from `numba.njit`."""
    return isinstance(function, Dispatcher)


def specialise(modules: Sequence[types.ModuleType], names: Mapping[str, Any]) -> Loops:
    """Bind the functions and constants in `names` into copies of `modules`.

    Later modules see what earlier ones define. Returns everything they define, by name.
    """
    if any(callable(value) and not is_compiled(value) for value in names.values()):
        names = {name: fresh(value) for name, value in names.items()}
        bound = _bind(modules, names, _plain)
        return Loops(**bound, compiled=False, key="", opaque=())
    snapshot, taken = Snapshot(), {}
    for name in sorted(names):
        snapshot.digest.text("name", name)
        taken[name] = snapshot.take(names[name], name)
    snapshot.note_overloads()
    content = _library_hash(tuple(modules)) + snapshot.digest.hexdigest()
    key = hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
    loops = _alive.get(key)
    if loops is None:
        snapshot.name_copies(key)
        opaque = tuple(snapshot.opaque)
        make = functools.partial(_native, key=key, keep=not opaque)
        bound = _bind(modules, taken, make)
        loops = Loops(**bound, compiled=True, key=key, opaque=opaque)
        _alive[key] = loops
    _recent[key] = loops
    _recent.move_to_end(key)
    if len(_recent) > RECENT:
        _recent.popitem(last=False)
    return loops


def _bind(
    modules: Sequence[types.ModuleType], names: Mapping[str, Any], make: Callable
) -> dict[str, Any]:
    """Copy the functions of modules, and bind what they call by name."""
    bound = dict(names)
    for module in modules:
        space = dict(vars(module))
        own = {
            name: make(value, space, name)
            for name, value in space.items()
            if is_compiled(value) and value.py_func.__module__ == module.__name__
        }
        space.update(own)
        if make is _plain:
            space.update({n: v.plain for n, v in space.items() if hasattr(v, "plain")})
        space.update({name: bound[name] for name in bound if name in space})
        space["__name__"] = HOME  # every process can import it
        bound.update({name: own[name] for name in own if name not in names})
    return bound


def _plain(value: Any, space: dict[str, Any], name: str) -> Any:
    return _copy(value.py_func, space)


def _native(value: Any, space: dict[str, Any], name: str, key: str, keep: bool) -> Any:
    function = _copy(value.py_func, space)
    short = function.__module__.rpartition(".")[2]
    function.__module__ = HOME
    # Machine code from disk and of this process is linked by names: no other function
    # may have this one.
    function.__qualname__ = f"{short}_{function.__name__}_{key}"
    made = type(value)(function, targetoptions=value.targetoptions)
    made.origin = f"{key} {short} {name}"
    if keep and getattr(value, "is_entry", False):
        made._cache = LoopCache(key, f"{short}.{name}")
    return made


def _copy(function: Any, space: dict[str, Any]) -> types.FunctionType:
    copy = types.FunctionType(
        function.__code__, space, function.__name__, function.__defaults__,
        function.__closure__,
    )  # fmt: skip
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__ = function.__module__
    return copy


@functools.cache
def _library_hash(modules: tuple[types.ModuleType, ...]) -> str:
    """Hash the sources of the loops, and of all that they take from elsewhere."""
    digest, files, todo = hashlib.blake2b(digest_size=16), set(), list(modules)
    while todo:
        module = todo.pop()
        if str(module.__file__) in files:
            continue
        files.add(str(module.__file__))
        for name, value in sorted(vars(module).items()):
            source = getattr(value, "py_func", getattr(value, "_defn", None))
            if source is not None and source.__module__.startswith("wolfpack."):
                todo.append(sys.modules[source.__module__])
            elif isinstance(value, int | float | np.number):
                digest.update(f"{name} {value!r}\n".encode())
    for file in sorted(files):
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()


@functools.cache
def library(module: types.ModuleType) -> Loops:
    """Return a module's own entries, which need no problem, kept on disk."""
    return specialise([module], {})

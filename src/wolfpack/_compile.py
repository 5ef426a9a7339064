"""Compile the library's loops for one problem, and keep the result on disk.

The loops (`stores`, `steps`, `gap`, `engines.serial`) are ordinary modules that call a
problem's functions by name: `oracle`, `add`, `slope`... `specialise` writes a copy of
their source into the cache folder, under a name made of everything that the machine
code depends on, and binds those names to the functions of the problem at hand. Numba
then inlines them, and its disk cache works for a user's problem as for ours: closures
and functions passed as arguments would be compiled again in each process.

A plain Python callable among the functions switches the whole set to the uncompiled
originals (`py_func`): same source, same result, no compiler.
"""

import atexit
import contextlib
import functools
import inspect
import os
import sys
import tempfile
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numba
import numba.extending
import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher

from wolfpack._fingerprint import Fingerprint

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
    return Inner(function, targetoptions={"nopython": True, **_INNER})


def entry(function: Callable) -> Any:
    """Compile what Python calls; its copy in the cache folder is kept on disk.

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


_bound: dict[str, types.SimpleNamespace] = {}


def is_compiled(function: Callable) -> bool:
    """Whether `function` came from `numba.njit`."""
    return isinstance(function, Dispatcher)


def specialise(
    modules: Sequence[types.ModuleType], names: Mapping[str, Any]
) -> types.SimpleNamespace:
    """Bind the functions and constants in `names` into copies of `modules`.

    Later modules see what earlier ones define. Returns everything they define, by
    name, and `compiled`: False when a plain Python function was among `names`.
    """
    compiled = all(
        is_compiled(value) for value in names.values() if inspect.isroutine(value)
    )
    digest = Fingerprint()
    for module in modules:
        digest.add(Path(str(module.__file__)).read_bytes())
        for name, value in sorted(vars(module).items()):  # what it imports counts too
            if is_compiled(value) or hasattr(value, "_defn") or _is_number(value):
                digest.add((name, value))
    for name in sorted(names):
        digest.add(name)
        digest.add(names[name])
    key = f"{digest.hexdigest()}_{'native' if compiled else 'python'}"
    if key not in _bound:
        bound = dict(names)
        folder = (cache_folder() if digest.lasting else _own_folder()) / key
        for module in modules:
            bound.update(_bind(module, bound, folder, compiled))
        _bound[key] = types.SimpleNamespace(**bound, compiled=compiled, key=key)
    return _bound[key]


def _bind(
    module: types.ModuleType, names: Mapping[str, Any], folder: Path, compiled: bool
) -> dict[str, Any]:
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    short = module.__name__.rpartition(".")[2]
    path = write_once(folder / f"{short}.py", source)
    copy = types.ModuleType(f"_wolfpack_{folder.name}_{short}")
    copy.__file__ = str(path)
    sys.modules[copy.__name__] = copy  # Numba's cache looks functions up by module
    exec(compile(source, str(path), "exec"), copy.__dict__)
    space = copy.__dict__
    own = {
        name: value
        for name, value in space.items()
        if is_compiled(value) and value.py_func.__module__ == copy.__name__
    }
    if not compiled:
        own = {name: value.py_func for name, value in own.items()}
        plain = {n: v.plain for n, v in space.items() if hasattr(v, "plain")}
        space.update({**own, **plain})
    for value in own.values() if compiled else ():
        if getattr(value, "is_entry", False):
            with contextlib.suppress(RuntimeError):  # no place to keep it
                value.enable_caching()
    space.update({name: names[name] for name in names if name in space})
    return {name: value for name, value in own.items() if name not in names}


@functools.cache
def library(module: types.ModuleType) -> types.SimpleNamespace:
    """Return a module's own entries, which need no problem, kept on disk."""
    return specialise([module], {})


def user_cache() -> Path:
    """Return the folder named by `WOLFPACK_CACHE`, or the user's cache folder."""
    given = os.environ.get("WOLFPACK_CACHE")
    if given:
        return Path(given)
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("wolfpack"))


def cache_folder() -> Path:
    """Return the folder of the compiled loops."""
    return user_cache() / "loops"


def exists(path: Path) -> bool:
    """Return whether a file is there to be read; a closed folder holds none."""
    try:
        return path.exists()
    except OSError:
        return False


def write_once(path: Path, text: str) -> Path:
    """Write atomically, and only if absent: Numba's cache keys on the file's date."""
    try:
        if not exists(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(temporary, path)
    except OSError:  # a read-only home: compile again in each process
        if path.is_relative_to(_own_folder()):
            raise
        return write_once(_own_folder() / path.parent.name / path.name, text)
    return path


@functools.cache
def _own_folder() -> Path:
    """Make a folder of this process alone: in a shared one others could leave code."""
    folder = tempfile.TemporaryDirectory(prefix="wolfpack-", ignore_cleanup_errors=True)
    atexit.register(folder.cleanup)
    return Path(folder.name)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number)

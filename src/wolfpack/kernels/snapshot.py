"""Compiled functions as they are at this moment: hashed, and built anew.

A Numba function keeps the globals that it saw when it was first compiled; the Python
function behind it sees what they are now. So one walk does both: whatever it hashes it
also puts into a copy of the function, in globals and cells of the copy's own, with its
helpers copied the same way. What is hashed is what will be compiled, and no later
change of a constant, an array or a helper reaches it.

What cannot be hashed by content (a `guvectorize` or `overload` helper, an object) stays
as it is, and is named in `opaque`: loops that depend on it are not kept on disk. The
same holds for functions that somebody hung on a released module (`math.mine = ...`),
where they are compiled as they are (`attributes`).
"""

import builtins
import types
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher
from numba.np.ufunc.dufunc import DUFunc

from wolfpack.kernels.attributes import LARGE_BYTES, hash_attributes
from wolfpack.kernels.bytecode import attributes_of, globals_of
from wolfpack.kernels.fingerprint import Fingerprint
from wolfpack.kernels.overloads import foreign_overloads, is_ours
from wolfpack.kernels.released import is_released

# Copies name this module as their own, because Numba imports a function's module when
# it loads the function from disk, and every process can import this one.
HOME = __name__
_BUILT = vars(builtins)
_WRAPPERS = ("no_cpython_wrapper", "no_cfunc_wrapper", "forceinline", "inline")


class Signed(CPUDispatcher):
    """A copy of a function with declared signatures, which are compiled when needed."""

    declared: tuple = ()
    _can_compile: bool

    def settle(self) -> None:
        """Compile the declared signatures, and allow no others."""
        if self._can_compile:
            for signature in self.declared:
                self.compile(signature)
            self.disable_compile()

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Settle before compiled code calls it."""
        self.settle()
        return super().get_call_template(args, kws)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Settle before Python calls it."""
        self.settle()
        return super().__call__(*args, **named)


class Snapshot:
    """A walk over functions and all that they refer to.

    Parameters
    ----------
    checked : bool
        Whether the copies check the bounds of arrays.
    """

    def __init__(self, checked: bool = False) -> None:
        self.digest = Fingerprint()
        self.opaque: list[str] = []
        self.kept: list[Any] = []  # what is opaque: while it lives its id is its own
        self._checked = checked
        self._copies: list[tuple[Any, types.FunctionType]] = []  # original, copy
        self._met: dict[int, tuple[int, Any, Any]] = {}  # by id: number, original, copy
        self._open: list[int] = []  # numbers of functions that are being filled
        self._modules: dict[tuple[int, frozenset[str]], types.ModuleType] = {}
        self._released: dict[int, types.ModuleType] = {}
        self._read: frozenset[str] = frozenset()  # the attributes that functions read

    def take(self, value: Any, where: str) -> Any:
        """Hash a value; return its copy. `where` is its name, for messages."""
        if id(value) in self._met:
            number, _, copy = self._met[id(value)]
            self.digest.text("again", str(number))
            if number in self._open:  # Numba crashes when it loads such a cycle
                self.opaque.append(f"{where} (a function that calls itself)")
            return copy
        if isinstance(value, CPUDispatcher):
            return self._dispatcher(value, where)
        if type(value) is DUFunc and not getattr(value, "_frozen", True):
            return self._ufunc(value)
        if isinstance(value, tuple) and type(value) is not tuple:
            return self._record(value, where)
        if type(value) is tuple:
            self.digest.text("tuple", str(len(value)))
            return tuple(self.take(item, where) for item in value)
        if hasattr(value, "_defn"):
            return self._intrinsic(value, where)
        if value is numba.objmode or not self.digest.known(value):
            return self._keep(value, where)
        if isinstance(value, types.ModuleType):
            self._released[id(value)] = value
        return self._array(value, where) if isinstance(value, np.ndarray) else value

    def note_overloads(self) -> None:
        """Hash, or name, what the program has changed of released packages.

        A user's function may call an overload through a method or a released name, and
        the walk over the function does not see that.
        """
        modules = self._released.values()
        for where, value in hash_attributes(self.digest, modules, self._read):
            self._keep(value, where)
        if any(not is_ours(original) for original, _ in self._copies):
            self.opaque += foreign_overloads()

    def name_copies(self, key: str) -> None:
        """Give every copy a name that no other function has.

        Machine code from disk and of this process is linked by these names. Code that
        goes back to Python (`objmode`) finds its globals by the name of their module.
        """
        for number, (original, copy) in enumerate(self._copies):
            copy.__qualname__ = f"{copy.__name__}_{number}_{key}"
            copy.__module__ = original.__module__ if self.opaque else HOME
            copy.__globals__["__name__"] = copy.__module__

    def _note(self, value: Any, copy: Any) -> Any:
        """Remember a copy, for other references to the same value, cycles included."""
        self._met[id(value)] = len(self._met), value, copy
        return copy

    def _keep(self, value: Any, where: str) -> Any:
        self.opaque.append(f"{where} ({type(value).__name__})")
        self.digest.text("opaque", str(id(value)))
        self.kept.append(value)
        return self._note(value, value)

    def _dispatcher(self, value: Any, where: str) -> Any:
        origin = getattr(value, "origin", None)
        if origin is not None and not self._checked:
            self.digest.text("bound", origin)
            return value
        if value._compiler.pipeline_class is not Compiler:
            return self._keep(value, where)
        options = dict(value.targetoptions)
        declared = () if value._can_compile else tuple(value.nopython_signatures)
        self.digest.text("options", str([(k, _order(options[k])) for k in options]))
        self.digest.text("declared", f"{declared} {sorted(value.locals.items())}")
        kind: Any = type(value)
        if self._checked:
            options = {k: v for k, v in options.items() if k not in _WRAPPERS}
            options["boundscheck"], kind = True, CPUDispatcher
        copy, fill = self._function(value.py_func)
        kind = Signed if declared else kind
        made = kind(copy, locals=dict(value.locals), targetoptions=options)
        if declared:
            made.declared = declared
        self._open.append(len(self._met))
        self._note(value, made)
        fill()
        self._open.pop()
        return made

    def _array(self, value: np.ndarray, where: str) -> np.ndarray:
        """Return a copy of the same layout, which no other code refers to."""
        flags = value.flags
        self.digest.text("layout", f"{value.strides} {flags.writeable} {flags.aligned}")
        if value.nbytes > LARGE_BYTES:
            megabytes = f"{value.nbytes / 1e6:.0f} MB"
            self.opaque.append(f"{where} (an array of {megabytes}: pass it in data)")
        copy = np.array(value, order="K")
        copy.flags.writeable = flags.writeable
        return copy

    def _ufunc(self, value: Any) -> Any:
        options = value.targetoptions
        self.digest.text("vectorize", f"{sorted(options.items())} {value.identity}")
        copy, fill = self._function(value._dispatcher.py_func)
        fill()
        return self._note(value, DUFunc(copy, value.identity, targetoptions=options))

    def _record(self, value: tuple, where: str) -> Any:
        self.digest.text("record", type(value).__name__)
        if not hasattr(value, "_fields") or not self.digest.known(type(value)):
            return self._keep(value, where)
        # A constructor of the class's own must not run again: it has made these items.
        return tuple.__new__(type(value), [self.take(item, where) for item in value])

    def _intrinsic(self, value: Any, where: str) -> Any:
        """Hash an intrinsic of wolfpack or Numba, which is never copied."""
        define = value._defn
        if define.__module__.partition(".")[0] not in ("wolfpack", "numba"):
            return self._keep(value, where)
        self.digest.text("intrinsic", f"{define.__module__} {define.__qualname__}")
        self._code(define.__code__)
        return value

    def _function(self, function: Any) -> tuple[types.FunctionType, Callable]:
        """Return an empty copy of a Python function, and a function that fills it."""
        code, name = function.__code__, function.__qualname__
        self._code(code)
        self._read |= attributes_of(code)
        space: dict[str, Any] = {"__builtins__": builtins}
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        defaults = tuple(
            self.take(value, f"a default of {name}")
            for value in function.__defaults__ or ()
        )
        copy = types.FunctionType(
            code, space, function.__name__, defaults or None, cells or None
        )
        self._copies.append((function, copy))
        if "objmode" in attributes_of(code):
            self.opaque.append(f"{name} (goes back to Python)")

        def fill() -> None:
            for key, value in sorted((function.__kwdefaults__ or {}).items()):
                self.digest.text("keyword", key)
                copy.__kwdefaults__ = copy.__kwdefaults__ or {}
                copy.__kwdefaults__[key] = self.take(value, f"{key} of {name}")
            for cell, key, old in zip(
                cells, code.co_freevars, function.__closure__ or (), strict=True
            ):
                self.digest.text("cell", key)
                try:
                    value = old.cell_contents
                except ValueError:  # the cell is still empty
                    continue
                cell.cell_contents = self._member(value, code, f"{key} in {name}")
            for key in sorted(globals_of(code)):
                found = function.__globals__ if key in function.__globals__ else _BUILT
                if key in found:
                    self.digest.text("global", key)
                    value = self._member(found[key], code, f"{key} in {name}")
                    if found is not _BUILT or value is not _BUILT[key]:
                        space[key] = value

        return copy, fill

    def _member(self, value: Any, code: types.CodeType, where: str) -> Any:
        if not isinstance(value, types.ModuleType):
            return self.take(value, where)
        return self._module(value, attributes_of(code))

    def _module(self, module: types.ModuleType, names: frozenset[str]) -> Any:
        """Return a module that holds what a function may read of this one."""
        if is_released(module):
            return self.take(module, module.__name__)
        if (id(module), names) in self._modules:
            self.digest.text("module again", module.__name__)
            return self._modules[id(module), names]
        copy = types.ModuleType(module.__name__)
        self._modules[id(module), names] = copy
        self.digest.text("module", module.__name__)
        for name in sorted(names):
            if hasattr(module, name):
                value, where = getattr(module, name), f"{module.__name__}.{name}"
                self.digest.text("member", name)
                if isinstance(value, types.ModuleType):
                    setattr(copy, name, self._module(value, names))
                else:
                    setattr(copy, name, self.take(value, where))
        return copy

    def _code(self, code: types.CodeType) -> None:
        """Hash all of a code object but its place in a file and its name."""
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
        names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        self.digest.text("code", f"{counts} {code.co_flags} {names}")
        self.digest.put("bytes", code.co_code)
        self.digest.put("exceptions", getattr(code, "co_exceptiontable", b""))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._code(constant)
            else:
                self.digest.known(constant)


def _order(option: Any) -> Any:
    return sorted(option) if isinstance(option, set | frozenset) else option

"""What compiled loops are kept under on disk: a name that an edit changes."""

import enum
import hashlib
import inspect
import sys
import types
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numba.core.dispatcher import Dispatcher

# Modules that a release changes and a user does not.
_FOREIGN = {*sys.stdlib_module_names, "numpy", "numba", "scipy", "llvmlite"}


class Fingerprint:
    """A hash of all that the meaning of a function depends on.

    Its bytecode and constants, and, followed to the end, the globals and closure
    cells it names: other functions, numbers, arrays. Comments do not count; editing
    an oracle, or a constant it reads, does.
    """

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._seen: dict[int, int] = {}
        self.lasting = True  # whether another process can find these functions
        self.add((sys.version_info[:2], numba.__version__))

    def hexdigest(self) -> str:
        """Return the fingerprint of what was added so far."""
        return self._hash.hexdigest()

    def add(self, value: Any) -> None:
        """Add a function, a constant, an array or a nest of them."""
        if isinstance(value, Dispatcher):
            options = value.targetoptions
            self._text(
                f"njit {[(key, _stable(options[key])) for key in sorted(options)]}"
            )
            value = value.py_func
        if inspect.isfunction(value):
            self._function(value)
        elif isinstance(value, types.CodeType):
            self._code(value)
        elif isinstance(value, np.ndarray):
            self._text(f"array {value.dtype} {value.shape}")
            flat = np.ascontiguousarray(value).reshape(-1)
            # No copy: the array may be a mapped file that is larger than the memory.
            whole = flat.tobytes() if flat.dtype.hasobject else flat.view(np.uint8).data
            self._hash.update(whole)
        elif isinstance(value, tuple | list | frozenset | set):
            items = (
                value if isinstance(value, tuple | list) else sorted(map(repr, value))
            )
            self._text(f"{type(value).__name__} {len(value)}")
            for item in items:
                self.add(item)
        elif isinstance(value, bytes):
            self._hash.update(value)
        elif isinstance(value, enum.EnumMeta):
            members: Any = value.__members__
            self._text(f"{value.__name__} {[(k, members[k].value) for k in members]}")
        elif isinstance(value, types.ModuleType | type):
            fields = (
                getattr(value, "_fields", ""),
                getattr(value, "_field_defaults", ""),
            )
            self._text(f"{value.__name__} {fields}")
        elif hasattr(value, "_defn"):  # a Numba intrinsic
            self.add(value._defn)
        else:
            self._text(f"{type(value).__name__} {value!r}")

    def _text(self, text: str) -> None:
        self._hash.update(text.encode() + b"\0")

    def _function(self, function: types.FunctionType) -> None:
        if id(function) in self._seen:
            self._text(f"function {self._seen[id(function)]}")
            return
        self._seen[id(function)] = len(self._seen)
        # Numba's cache looks the modules of all functions up again, by name.
        self._text(f"{function.__module__} {function.__qualname__}")
        self.lasting &= function.__module__ in sys.modules
        self._code(function.__code__)
        self.add(function.__defaults__ or ())
        for cell in function.__closure__ or ():
            self.add(cell.cell_contents)

        names = sorted(_names(function.__code__))
        for name in names:
            if name in function.__globals__:
                self._text(name)
                value = function.__globals__[name]
                self.add(value)
                if isinstance(value, types.ModuleType):
                    self._members(value, names)

    def _members(self, module: types.ModuleType, names: Sequence[str]) -> None:
        """Add what a function may read from a user's module as `module.name`."""
        if module.__name__.partition(".")[0] in _FOREIGN:
            return
        for name in names:
            if hasattr(module, name):
                self._text(f"{module.__name__}.{name}")
                member = getattr(module, name)
                self.add(member)
                if isinstance(member, types.ModuleType) and member is not module:
                    self._members(member, [other for other in names if other != name])

    def _code(self, code: types.CodeType) -> None:
        self._hash.update(code.co_code)
        self._text(f"{code.co_names} {code.co_varnames}")
        for constant in code.co_consts:
            self.add(constant)


def _stable(option: Any) -> Any:
    return sorted(option) if isinstance(option, set) else option


def _names(code: types.CodeType) -> set[str]:
    """Return the global names that a function and those nested in it may read."""
    nested = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*(_names(c) for c in nested))

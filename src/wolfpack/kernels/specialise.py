"""Compile the library's loops for one problem, and keep the result on disk.

The loops (`update`, and what the engines declare) are ordinary modules that call a
problem's functions by the names in `slots`: `oracle`, `add`, `slope`... `specialise`
copies the functions of the modules that it is asked for, and of the modules that these
call. The copies have globals of their own, in which a slot's name is bound to a
`Snapshot` of the problem's function, and the name of any other function to its copy. A
module that defines a slot's name itself is refused, because the order of modules would
decide which of both is meant.

Numba then inlines the copies, and keeps what it compiled under a hash of all that the
machine code depends on (`cache`): the problem's functions, the module, and the modules
that it calls. So engines share the loops that they have in common, a change in one
engine recompiles no other, and the loops of a user's problem are kept on disk, too:
with closures or functions as arguments they would be compiled in each process.

A plain Python callable among the functions switches the whole set to uncompiled copies:
same source, same result, no compiler. These serve only the problem that asked for them:
whether two plain Python functions do the same cannot be told from their content.
"""

import functools
import hashlib
import sys
import types
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wolfpack.kernels import slots
from wolfpack.kernels.cache import LoopCache
from wolfpack.kernels.compile import is_compiled, refuse_disabled
from wolfpack.kernels.snapshot import HOME, Snapshot
from wolfpack.kernels.sources import loop_hash

# The loops of the last RECENT problems stay in memory, even if no problem holds them,
# so that a program that makes the same problem repeatedly loads its loops once.
RECENT = 8


class Loops(types.SimpleNamespace):
    """The loops of one problem, by name, and how they were made.

    `compiled`: whether they are compiled; `key`: the hash of the functions that they
    are bound to, empty where they are not compiled; `opaque`: what they depend on that
    has no hash, so that they are compiled for this process only.
    """

    compiled: bool
    key: str
    opaque: tuple[str, ...]

    def named(self, *names: str) -> dict[str, Any]:
        """Return what has one of these names, for a problem or for other loops."""
        return {name: getattr(self, name) for name in names}


def fresh(function: Any) -> Any:
    """Return a copy of a compiled function, compiled anew: its globals may differ."""
    if not is_compiled(function):
        return function
    snapshot = Snapshot()
    copy = snapshot.take(function, function.__name__)
    snapshot.name_copies(uuid.uuid4().hex)
    return copy


def specialise(modules: Sequence[types.ModuleType], names: Mapping[str, Any]) -> Loops:
    """Bind the functions and constants in `names` into copies of `modules`.

    Returns `names`, and every function that `modules` define, by name. Functions in
    `names` that call slots themselves (those of a store) are bound as the modules are.
    """
    refuse_disabled()
    wanted = frozenset(names)
    ours = {name for name in names if _calls(_home_of(names[name]), wanted)}
    if any(callable(value) and not is_compiled(value) for value in names.values()):
        now = {n: one if n in ours else fresh(one) for n, one in names.items()}
        return _Binding(now).loops(modules)
    snapshot, taken = Snapshot(), dict(names)
    for name in sorted(names):
        snapshot.digest.text("name", name)
        if name in ours:  # the loops import its slot, so their sources leave it out
            source = loop_hash(sys.modules[names[name].py_func.__module__])
            snapshot.digest.text("ours", f"{names[name].py_func.__name__} {source}")
        else:
            taken[name] = snapshot.take(names[name], name)
    snapshot.note_overloads()
    key = snapshot.digest.hexdigest()
    binding = _alive.get(key)
    if binding is None:
        snapshot.name_copies(key)
        binding = _alive[key] = _Binding(taken, key, snapshot.opaque, snapshot.kept)
    _recent[key] = binding
    _recent.move_to_end(key)
    if len(_recent) > RECENT:
        _recent.popitem(last=False)
    return binding.loops(modules)


def specialise_once(
    modules: Sequence[types.ModuleType], names: Mapping[str, Any]
) -> Loops:
    """Do what `specialise` does, for functions whose constants never change.

    The functions of wolfpack's own problems are such. Reading them anew for each of
    many small problems would take far longer than solving them.
    """
    key = *modules, *names.items()
    loops = _settled.pop(key, None) or specialise(modules, names)
    if loops.compiled:
        _settled[key] = loops
    if len(_settled) > RECENT:
        _settled.popitem(last=False)
    return loops


class _Binding:
    """One problem's functions, and copies of library modules that call them."""

    def __init__(
        self,
        names: Mapping[str, Any],
        key: str = "",
        opaque: Sequence[str] = (),
        kept: Sequence[Any] = (),
    ) -> None:
        self.names, self.key, self.opaque = dict(names), key, tuple(opaque)
        self.kept = kept  # `key` says which objects these are by where they are
        self._own: dict[types.ModuleType, dict[str, Any]] = {}
        self._slots = frozenset(names)
        for name, value in names.items():
            home = _home_of(value)
            if home is not None and _calls(home, self._slots):
                self.names[name] = self.bind(home)[value.py_func.__name__]

    def loops(self, modules: Sequence[types.ModuleType]) -> Loops:
        """Return the functions of `modules` in one namespace."""
        found = dict(self.names)
        for module in modules:
            for name, value in self.bind(module).items():
                if found.setdefault(name, value) is not value:
                    raise NameError(
                        f"{module.__name__} defines {name}, and so does another module "
                        "or slot of these loops; rename one of them."
                    )
        compiled, opaque = bool(self.key), self.opaque
        # `binding` keeps the copies together for as long as a problem has the loops.
        return Loops(
            **found, compiled=compiled, key=self.key, opaque=opaque, binding=self
        )

    def bind(self, module: types.ModuleType) -> dict[str, Any]:
        """Return copies of all functions that a module defines, by name."""
        if module in self._own:
            return self._own[module]
        space, make = dict(vars(module)), self._maker(module)
        own = {
            name: make(value, space, name)
            for name, value in space.items()
            if is_compiled(value) and value.py_func.__module__ == module.__name__
        }
        self._own[module] = own
        for name, value in vars(module).items():
            home = _home_of(value)
            if name in self._slots and _is_slot(name, value):
                space[name] = self.names[name]
            elif name in own:
                space[name] = own[name]
            elif home is not None and _calls(home, self._slots):
                space[name] = self.bind(home)[value.py_func.__name__]
            elif not self.key and hasattr(value, "plain"):
                space[name] = value.plain
            if name in self._slots and space[name] is not self.names[name]:
                self._refuse(module, name, value)
        space["__name__"] = HOME  # a module that every process can import
        return own

    def _refuse(self, module: types.ModuleType, name: str, value: Any) -> None:
        """Refuse a function with the name of a slot, unless it fills the slot."""
        filled = self.names[name]
        if filled is not value:
            raise NameError(
                f"{module.__name__} has a function {name}, which is the name of a slot "
                "that the problem or its store fills; rename the function."
            )

    def _maker(self, module: types.ModuleType) -> Callable:
        if not self.key:
            return _plain
        source = loop_hash(module) if hasattr(module, "__file__") else uuid.uuid4()
        content = f"{self.key} {module.__name__} {source}"
        key = hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
        keep = not self.opaque and hasattr(module, "__file__")  # a notebook has none
        return functools.partial(_native, key=key, keep=keep)


_alive: weakref.WeakValueDictionary[str, _Binding] = weakref.WeakValueDictionary()
_recent: OrderedDict[str, _Binding] = OrderedDict()
_settled: OrderedDict[tuple, Loops] = OrderedDict()


def _home_of(value: Any) -> types.ModuleType | None:
    """Return the module of wolfpack that defines a compiled function; else None."""
    if not is_compiled(value) or not value.py_func.__module__.startswith("wolfpack."):
        return None
    module = sys.modules[value.py_func.__module__]
    is_there = vars(module).get(value.py_func.__name__) is value
    return module if is_there else None


def _is_slot(name: str, value: Any) -> bool:
    """Whether a global is to be filled by a problem: a stub, or a constant."""
    if isinstance(value, types.FunctionType):
        return value is getattr(slots, name, None)
    return not callable(value)


@functools.cache
def _calls(module: types.ModuleType | None, names: frozenset[str]) -> bool:
    """Whether functions of a module call slots, directly or through others."""
    if module is None:
        return False
    own = vars(module)
    if any(_is_slot(name, own[name]) for name in names & own.keys()):
        return True
    homes = {_home_of(value) for value in own.values()} - {module, None}
    return any(_calls(home, names) for home in homes)


def _plain(value: Any, space: dict[str, Any], name: str) -> Any:
    return _copy(value.py_func, space)


def _native(value: Any, space: dict[str, Any], name: str, key: str, keep: bool) -> Any:
    function = _copy(value.py_func, space)
    short = function.__module__.rpartition(".")[2]
    function.__module__ = HOME
    # Machine code from disk is linked to that of this process by name, so no two
    # functions may have the same name.
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
def library(module: types.ModuleType) -> Loops:
    """Return a module's own entries, which need no problem, kept on disk."""
    return specialise([module], {})

"""What somebody sets on `math`, `numpy` or `scipy` counts as a user's own content."""

import builtins
import collections
import enum
import functools
import math
import random
import statistics
import types

import numba
import numpy as np
import pytest
import scipy.constants

from wolfpack.kernels import sources
from wolfpack.kernels.released import is_released
from wolfpack.kernels.snapshot import Snapshot
from wolfpack.stores import atoms
from wolfpack.update import steps


def key_of(function) -> tuple[str, list[str]]:
    snapshot = Snapshot()
    snapshot.take(function, "f")
    snapshot.note_overloads()
    return snapshot.digest.hexdigest(), snapshot.opaque


def compiled(number):
    return numba.njit(lambda x: x + number)


def named(number):
    """A function that says it is `math.sin`."""
    return functools.wraps(math.sin)(lambda x: x + number)


def partial(number):
    return functools.update_wrapper(functools.partial(max, number), math.sin)


def enumeration(number):
    return enum.Enum("Mode", {"A": number})


CONTENT = {  # hashed by content: another key
    "float": float,
    "int": int,
    "bool": lambda number: number > 2,
    "complex": complex,
    "str": "a".__mul__,
    "bytes": b"a".__mul__,
    "tuple": lambda number: (1, number),
    "nested tuple with an array": lambda number: (1, (np.array([number]),)),
    "named tuple": lambda number: collections.namedtuple("T", "c")(number),
    "named tuple that says it is of math": lambda number: collections.namedtuple(
        "sin", "c", defaults=[number], module="math"
    ),
    "array": lambda number: np.array([[number, 1]]),
    "layout": lambda number: np.ones((2, 3, 4)).transpose(
        [(0, 1, 2), (2, 1, 0)][number - 2]
    ),
    "scalar": np.float32,
    "dtype": lambda number: np.dtype(("f8", (number,))),
    "enum": enumeration,
    "member of an enum": lambda number: enumeration(number).A,
    "frozenset": lambda number: frozenset([number]),
    "range": range,
    "another function of the release": lambda number: [math.cos, math.tan][number - 2],
    "a ufunc": lambda number: [np.sin, np.cos][number - 2],
}
OPAQUE = {  # compiled for this process only
    "a compiled function": compiled,
    "a wrapper that has the name": named,
    "a compiled wrapper that has the name": lambda number: numba.njit(named(number)),
    "a partial that has the name": partial,
    "lambda": lambda number: lambda x: x + number,
    "class": lambda number: type("sin", (), {"__module__": "math", "c": named(number)}),
    "list": lambda number: [number],
    "dict": lambda number: {"c": number},
    "object": lambda number: types.SimpleNamespace(c=number),
    "vectorize": lambda number: numba.vectorize(lambda x: x + number),
    "tuple of functions": lambda number: (compiled(number),),
    "large array": lambda number: np.full(130_000, float(number)),
}
PLACES = {
    "math.MINE": (math, "MINE", numba.njit(lambda x: x + math.MINE)),
    "math.sin": (math, "sin", numba.njit(lambda x: math.sin(x))),
    "np.MINE": (np, "MINE", numba.njit(lambda x: x + np.MINE)),
    "np.sum": (np, "sum", numba.njit(lambda x: np.sum(x))),
    "np.linalg.norm": (np.linalg, "norm", numba.njit(lambda x: np.linalg.norm(x))),
    "np.random.x": (np.random, "x", numba.njit(lambda: np.random.x)),
    "scipy.constants.c": (scipy.constants, "c", numba.njit(lambda: scipy.constants.c)),
    "statistics.mean": (statistics, "mean", numba.njit(lambda x: statistics.mean(x))),
    "builtins.abs": (builtins, "abs", numba.njit(lambda x: abs(x))),
}
HELP = numba.njit(lambda module: module.MINE)
PLACES["a module as an argument"] = (math, "MINE", numba.njit(lambda: HELP(math)))
PLACES["a module as a default"] = (math, "MINE", numba.njit(lambda m=math: m.MINE))


HUNG = {name: place for name, place in PLACES.items() if place[0] is not builtins}


@pytest.mark.parametrize("make", CONTENT.values(), ids=CONTENT)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_content_on_a_released_module_is_hashed(place, make, monkeypatch):
    module, name, function = place
    before = key_of(function)[0]
    keys = {before}
    for number in (2, 3):
        monkeypatch.setattr(module, name, make(number), raising=False)
        key, opaque = key_of(function)
        assert opaque == []
        assert key_of(function)[0] == key
        keys.add(key)
    assert len(keys) == 3
    monkeypatch.undo()
    assert key_of(function)[0] == before


@pytest.mark.parametrize("make", OPAQUE.values(), ids=OPAQUE)
@pytest.mark.parametrize("place", HUNG.values(), ids=HUNG)
def test_what_has_no_hash_on_a_released_module_is_for_this_process(
    place, make, monkeypatch
):
    module, name, function = place
    keys, values = set(), [make(2), make(3)]
    for value in values:
        monkeypatch.setattr(module, name, value, raising=False)
        key, opaque = key_of(function)
        assert opaque[0].startswith(f"{module.__name__}.{name} (")
        keys.add(key)
    assert len(keys) == 2


def plain(x):
    low = np.sum(x) + np.linalg.norm(x) + math.sin(np.pi) + np.random.normal()  # noqa: NPY002
    return np.float32(low) + random.random() + abs(scipy.constants.c) + np.inf


def test_what_the_release_defines_is_known_by_its_name():
    assert key_of(numba.njit(plain))[1] == []
    known = [math.sin, np.sin, np.dot, np.linalg.norm, np.float32, len, numba.prange]
    known += [random.random, random.gauss, np.random, statistics.mean, numba.njit]
    assert [one for one in known if not is_released(one)] == []
    spoofed = [named(1), numba.njit(named(1)), partial(1), compiled(1), lambda: 0]
    assert [one for one in spoofed if is_released(one)] == []


def test_a_function_set_on_builtins_is_compiled_as_it_is_hashed(monkeypatch):
    """Its own globals may have changed since it was compiled, so it is copied."""
    space = {"C": 2}
    exec("def f(x): return x + C", space)
    monkeypatch.setattr(builtins, "mine", numba.njit(space["f"]), raising=False)
    assert builtins.mine(1) == 3
    outer = numba.njit(lambda x: mine(x))  # noqa: F821
    before = key_of(outer)[0]
    space["C"] = 3
    snapshot = Snapshot()
    copy = snapshot.take(outer, "f")
    snapshot.note_overloads()
    assert snapshot.digest.hexdigest() != before
    assert copy(1) == 4


def test_loops_of_ours_that_read_a_changed_module_are_not_found_again(monkeypatch):
    before, other = sources.loop_hash(atoms), sources.loop_hash(steps)
    released, names = sources._reads(atoms)
    read = sorted(names & set(vars(np)))
    assert np in released
    assert read
    for value in (compiled(1), named(1), 0.5, np.cos):
        monkeypatch.setattr(np, read[0], value)
        assert sources.loop_hash(atoms) != before
    assert sources.loop_hash(steps) == other  # reads nothing of NumPy
    monkeypatch.undo()
    assert sources.loop_hash(atoms) == before

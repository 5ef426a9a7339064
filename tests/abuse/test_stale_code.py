"""Old machine code never answers for new functions: every kind, in and out of session.

Each process below compiles every kind of function in `kinds`, in one cache folder.
"""

import gc
import json
import os
import subprocess
import sys
import types
import weakref
from pathlib import Path

import kinds
import numba
import numpy as np
import pytest
import tiny

import wolfpack
from wolfpack.kernels import specialise as _compile
from wolfpack.kernels.snapshot import Snapshot

HERE = Path(__file__).parent


def run(folder, *constants):
    """Return {(kind, constant): (answer, cache hits, what is opaque)}."""
    source = str(Path(_compile.__file__).parents[2])
    path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"WOLFPACK_CACHE": str(folder), "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, str(HERE / "tiny.py"), *constants],
        env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    return {(kind, c): tuple(rest) for kind, c, *rest in rows}


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """A session that changes 2 to 7, and then processes that begin with 7, and 2."""
    folder = tmp_path_factory.mktemp("cache")
    return [run(folder, *constants) for constants in (("2", "7"), ("7",), ("2",))]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*kinds.KINDS, *kinds.LAST])
def test_no_process_meets_the_code_of_another_constant(processes, kind):
    for found in processes:
        for c in (2.0, 7.0):
            if (kind, c) in found:
                answer, _, opaque = found[kind, c]
                assert answer == c
                assert bool(opaque) == (kind in kinds.OPAQUE)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*kinds.KINDS, *kinds.LAST])
def test_what_can_be_hashed_is_found_again_and_nothing_else(processes, kind):
    _, hits, _ = processes[2][kind, 2.0]  # as the session had it at first
    assert hits == (kind not in kinds.OPAQUE)


# What counts as the same function.


def key(function):
    snapshot = Snapshot()
    snapshot.take(function, "f")
    return snapshot.digest.hexdigest()


def define(source, **names):
    space = {"__name__": "somewhere", "numba": numba, **names}
    exec(f"@numba.njit\n{source}", space)
    return space["f"]


SAME = {
    "comment": ("def f(): return 1", "def f():\n    # Why not.\n    return 1"),
    "unused name": ("def f(): return 1", "def f(): return 1"),
}
DIFFERENT = {
    "type of a constant": ("def f(): return 1", "def f(): return 1.0"),
    "sign of zero": ("def f(): return 0.0", "def f(): return -0.0"),
    "default": ("def f(a=1): return a", "def f(a=2): return a"),
    "keyword": ("def f(*, a=1): return a", "def f(*, a=2): return a"),
    "nested": (
        "def f():\n    def g(): return 1\n    return g()",
        "def f():\n    def g(): return 2\n    return g()",
    ),
    "where an exception goes": (
        "def f(x):\n    try:\n        x()\n        x()\n    except ValueError: x()",
        "def f(x):\n    x()\n    try:\n        x()\n    except ValueError: x()",
    ),
    "members of a set": ("def f(x): return x in {1, 2}", "def f(x): return x in {1}"),
}


@pytest.mark.parametrize(("one", "two"), SAME.values(), ids=SAME)
def test_the_same_function_has_the_same_key(one, two):
    assert key(define(one, unused=1)) == key(define(two, unused=2))


@pytest.mark.parametrize(("one", "two"), DIFFERENT.values(), ids=DIFFERENT)
def test_another_function_has_another_key(one, two):
    assert key(define(one)) != key(define(two))


PEAK = np.arange(1e4) == 5e3
VALUES = {
    "arrays of another type": (np.zeros(2), np.zeros(2, np.float32)),
    "arrays of another shape": (np.zeros((1, 2)), np.zeros((2, 1))),
    "arrays of another order": (np.zeros((3, 3)), np.zeros((3, 3), order="F")),
    "large arrays that print alike": (np.arange(1e4), np.arange(1e4) + PEAK),
    "nested tuples": (((1, 2), 3), (1, (2, 3))),
    "one and true": (1, True),
    "text and bytes": ("1", b"1"),
}


@pytest.mark.parametrize(("one", "two"), VALUES.values(), ids=VALUES)
def test_another_value_has_another_key(one, two):
    keys = [key(define("def f(): return T", T=value)) for value in (one, two, one)]
    assert keys[0] == keys[2]
    assert keys[0] != keys[1]


def test_options_of_the_compiler_count():
    def f(x):
        return x + 1.0

    assert key(numba.njit(f)) == key(numba.njit(f))
    assert key(numba.njit(f)) != key(numba.njit(fastmath=True)(f))
    assert key(numba.njit(f)) != key(numba.njit("f8(f8)")(f))


# What stays in memory.


def test_loops_go_when_their_problems_do():
    kept = []
    for k in range(_compile.RECENT + 1):
        function = define(f"def f(data, shared, i, atom): return {k}.25")
        loops = tiny.specialise([tiny], {"score": function})
        kept.append(weakref.ref(loops.binding))
    del loops
    gc.collect()
    assert kept[0]() is None
    assert kept[-1]() is not None


def test_a_closure_goes_with_its_problem():
    def solve_one():
        big = np.zeros((4, 3))
        x0, corners = np.full((4, 3), 1 / 3), wolfpack.simplex()
        problem = wolfpack.from_blocks(x0, lambda x, i: x[i] - big[i], corners)
        wolfpack.solve(problem, max_epochs=2, tol=0, rng=0)
        return weakref.ref(big)

    solve_one()
    modules = set(sys.modules)
    alive = solve_one()
    gc.collect()
    assert alive() is None
    assert set(sys.modules) == modules


def test_what_is_bound_once_is_never_shared():
    def make(c):
        return lambda data, shared, i, atom: c

    one, two = (tiny.specialise([tiny], {"score": make(c)}) for c in (1.0, 2.0))
    assert (one.call((), None), two.call((), None)) == (1.0, 2.0)
    assert not one.compiled
    assert isinstance(one.call, types.FunctionType)


def test_a_mixed_problem_sees_what_has_changed():
    """A compiled gradient beside a plain value: plain loops call it from Python."""
    space = {"__name__": "mixed", "numba": numba, "C": 2.0}
    exec("@numba.njit\ndef gradient(x, i): return x[i] - C", space)

    def value(x):
        return 0.5 * float(np.square(x - space["C"]).sum())

    def solve():
        problem = wolfpack.from_blocks(
            np.full((3, 4), 1.0), space["gradient"], wolfpack.box(-100, 100),
            quadratic=True, value=value,
        )  # fmt: skip
        return wolfpack.solve(problem, tol=1e-9, max_epochs=300, rng=0).solution[0, 0]

    assert solve() == pytest.approx(2.0, abs=1e-3)
    space["C"] = 7.0
    assert solve() == pytest.approx(7.0, abs=1e-3)


def test_a_compiled_function_in_data_is_refused():
    helper = define("def f(): return 1.0")
    gradient = define("def f(x, i, h): return x[i] - h()")
    problem = wolfpack.from_blocks(
        np.zeros((2, 2)), gradient, wolfpack.l2_ball(), args=(helper,)
    )
    with pytest.raises(wolfpack.ProblemError, match="data holds a compiled function"):
        wolfpack.solve(problem)


def test_structures_in_data_keep_their_owner():
    """Loops count no references to arrays, but to other things that have an owner."""
    from numba.typed import List

    numbers = List([2.0, 3.0])
    gradient = define("def f(x, i, many): return x[i] - many[0]")
    problem = wolfpack.from_blocks(
        np.zeros((2, 2)), gradient, wolfpack.box(-9, 9), args=(numbers,), quadratic=True
    )
    for _ in range(3):
        result = wolfpack.solve(problem, tol=1e-9, max_epochs=200, rng=0)
        assert result.solution[0, 0] == pytest.approx(2.0, abs=1e-3)
    assert list(numbers) == [2.0, 3.0]

"""A user's script compiles once, and an edit is never answered by old machine code."""

import json
import os
import pickle
import signal
import subprocess
import sys
import types
from pathlib import Path

import numba
import numpy as np
import pytest
from limits import HANG_SECONDS
from llvmlite import binding as llvm
from numba.core.registry import CPUDispatcher

import wolfpack
from wolfpack.engines import serial
from wolfpack.engines.cluster import service
from wolfpack.engines.late import backlog, simulation
from wolfpack.engines.shared_memory import local, merge, ring, rounds, rows
from wolfpack.kernels import link, sources
from wolfpack.kernels import specialise as _compile
from wolfpack.kernels.compile import Inner, entry, jit
from wolfpack.kernels.snapshot import Snapshot
from wolfpack.run import interrupt
from wolfpack.stores import atoms, vectors
from wolfpack.update import steps

SCRIPT = """
import json
from typing import NamedTuple

import numba
import numpy as np

import helper
import wolfpack

RADIUS = 1.0
TABLE = np.array([2.0, 0.0])


class Mine(NamedTuple):
    target: np.ndarray


@numba.njit
def factor():
    return 1.0


@numba.njit
def oracle(data, shared, i, atom, work):
    gradient = shared - data.target
    length = 1.0
    radius = length * RADIUS * factor() * helper.factor() * helper.SIZE * TABLE[0] / 2
    atom[:] = -radius * gradient / np.sqrt(np.dot(gradient, gradient))
    return np.dot(gradient, atom)


@numba.njit
def score(data, shared, i, atom):
    return np.dot(shared - data.target, atom)


@numba.njit
def add(data, i, atom, scale, out):
    out += scale * atom
    return 0.0


@numba.njit
def slope(data, shared, direction, rows, gamma):
    return np.dot(shared + gamma * direction - data.target, direction)


problem = wolfpack.Problem(
    data=Mine(np.array([100.0, 0.0])), shared=np.zeros(2), start=np.zeros((3, 2)),
    oracle=oracle, score=score, add=add, slope=slope,
)
result = wolfpack.solve(problem, tol=1e-6, rng=0)
stats = problem.kernels(wolfpack.Serial().loops(problem)).run.stats
hits, misses = (sum(d.values()) for d in (stats.cache_hits, stats.cache_misses))
print(json.dumps([float(result.solution.sum()), hits, misses]))
"""
HELPER = """
import numba

SIZE = 1.0


@numba.njit
def factor():
    return 1.0
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return tmp_path_factory.mktemp("project")


def run_script(folder, script=SCRIPT, helper=HELPER):
    """Run it in a process of its own; return the answer, cache hits and misses."""
    (folder / "script.py").write_text(script)
    (folder / "helper.py").write_text(helper)
    source = Path(_compile.__file__).parents[2]
    environment = os.environ | {
        "WOLFPACK_CACHE": str(folder / "cache"),
        "PYTHONPATH": str(source),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", str(folder / "script.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


EDITS = {
    "constant in the oracle": ("length = 1.0", "length = 2.0"),
    "global number": ("RADIUS = 1.0", "RADIUS = 2.0"),
    "global array": ("np.array([2.0, 0.0])", "np.array([4.0, 0.0])"),
    "function it calls": ("return 1.0", "return 2.0"),
}
HELPER_EDITS = {
    "function of a module": ("return 1.0", "return 2.0"),
    "number of a module": ("SIZE = 1.0", "SIZE = 2.0"),
}


def test_a_script_compiles_once_and_edits_count(project):
    answer, hits, misses = run_script(project)
    assert answer == pytest.approx(3.0, abs=1e-3)
    assert (hits, misses) == (0, 1)
    answer, hits, misses = run_script(project)
    assert answer == pytest.approx(3.0, abs=1e-3)
    assert (hits, misses) == (1, 0)
    commented = "# A comment changes nothing.\n" + SCRIPT
    assert run_script(project, commented)[1:] == [1, 0]


@pytest.mark.parametrize("old_new", EDITS.values(), ids=EDITS)
def test_an_edit_changes_the_key(old_new):
    assert SCRIPT.count(old_new[0]) == 1
    assert key(SCRIPT) == key(SCRIPT)
    assert key(SCRIPT.replace(*old_new)) != key(SCRIPT)


@pytest.mark.parametrize("old_new", HELPER_EDITS.values(), ids=HELPER_EDITS)
def test_an_edit_of_a_module_changes_the_key(old_new):
    assert key(SCRIPT, HELPER.replace(*old_new)) != key(SCRIPT)


def key(script, helper=HELPER):
    """The fingerprint of the oracle of a script, without running its last lines."""
    module = type(sys)("helper")
    exec(compile(helper, "helper.py", "exec"), module.__dict__)
    before = sys.modules.get("helper")
    sys.modules["helper"] = module
    try:
        space = {"__name__": "script"}
        exec(compile(script.partition("problem =")[0], "script.py", "exec"), space)
    finally:
        sys.modules.pop("helper")
        if before is not None:
            sys.modules["helper"] = before
    return hash_of(space["oracle"])


def hash_of(function):
    snapshot = Snapshot()
    snapshot.take(function, "f")
    return snapshot.digest.hexdigest()


@pytest.mark.slow
def test_an_edit_is_what_runs(project):
    both = SCRIPT.replace("RADIUS = 1.0", "RADIUS = 2.0")
    answer, hits, misses = run_script(project, both, HELPER.replace("n 1.0", "n 5.0"))
    assert answer == pytest.approx(30.0, abs=1e-3)
    assert (hits, misses) == (0, 1)


def test_python_may_call_what_has_no_wrapper():
    @jit
    def double(x):
        return 2 * x

    @numba.njit
    def outer(x):
        return double(x) + 1

    assert (outer(4), double(4), double(0.5)) == (9, 8, 1.0)
    again = pickle.loads(pickle.dumps(steps.open_loop))
    assert isinstance(again, Inner)
    assert again(10, 1, 3) == steps.open_loop(10, 1, 3)


def test_the_key_covers_the_files_that_the_loops_take_functions_from(
    tmp_path, monkeypatch
):
    loops, helpers = types.ModuleType("loops"), types.ModuleType("wolfpack.helpers")
    for module in (loops, helpers):
        module.__file__ = str(tmp_path / f"{module.__name__}.py")
        Path(module.__file__).write_text("# first\n")

    def helper():
        return 1

    helper.__module__ = helpers.__name__
    loops.helper, loops.SIZE = jit(helper), 3
    monkeypatch.setitem(sys.modules, helpers.__name__, helpers)
    found = [sources.source_hash.__wrapped__(loops)]
    Path(helpers.__file__).write_text("# second\n")
    found.append(sources.source_hash.__wrapped__(loops))
    loops.SIZE = 4  # a number that is imported is a constant of the loops
    found.append(sources.source_hash.__wrapped__(loops))
    assert len(set(found)) == 3


def key_of(source: str, **names) -> str:
    """Fingerprint the function f that `source` defines."""
    space = {"__name__": "wolfpack_test_module", "numba": numba, **names}
    exec(source, space)
    return hash_of(numba.njit(space["f"]))


def test_the_key_covers_enums_aliases_and_submodules():
    mode = (
        "import enum\nclass Mode(enum.IntEnum):\n    A = {}\n"
        "def f(): return Mode.A.value"
    )
    assert key_of(mode.format(1)) != key_of(mode.format(7))
    alias = (
        "@numba.njit\ndef one(): return 1\n@numba.njit\ndef two(): return 2\n{}\n"
        "def f(): return one() + two() + pick()"
    )
    assert key_of(alias.format("pick = one")) != key_of(alias.format("pick = two"))
    package, sub = types.ModuleType("mine"), types.ModuleType("mine.sub")
    package.sub = sub
    sub.C = 1
    before = key_of("def f(): return mine.sub.C", mine=package)
    sub.C = 7
    assert key_of("def f(): return mine.sub.C", mine=package) != before


def test_nothing_is_kept_beside_the_sources():
    problem = wolfpack.group_fused_lasso(np.arange(6.0).reshape(3, 2), alpha=0.1)
    wolfpack.solve(problem, sampling="gap", rng=0)
    kept = Path(wolfpack.__file__).parent.rglob("*")
    assert not [path for path in kept if path.suffix in (".nbi", ".nbc", ".bin")]


def make_loops(name, source):
    """Make a module of loops from its source."""
    module = types.ModuleType(name)
    exec(source, vars(module))
    return module


def test_a_loop_with_the_name_of_a_slot_is_refused():
    problem = wolfpack.group_fused_lasso(np.arange(6.0).reshape(3, 2), alpha=0.1)
    source = (
        "from wolfpack.kernels.compile import entry\n@entry\ndef {}(x):\n    return x"
    )
    for name in ("score", "shift"):  # of the problem, and of its store
        with pytest.raises(NameError, match=f"a function {name}, which is the name of"):
            problem.kernels((make_loops("mine", source.format(name)),))
    twice = [make_loops(name, source.format("walk")) for name in ("one", "two")]
    with pytest.raises(NameError, match="two defines walk, and so does another module"):
        problem.kernels(twice)


LOOPS = (serial, rounds, merge, rows, local, ring, backlog, simulation, service)


@pytest.mark.parametrize("loop", LOOPS, ids=lambda module: module.__name__)
def test_an_engine_compiles_no_loops_of_another(loop):
    reached, todo = set(), [loop]
    while todo:
        module = todo.pop()
        reached.add(module)
        functions = [getattr(one, "py_func", None) for one in vars(module).values()]
        homes = {sys.modules[one.__module__] for one in functions if one is not None}
        todo += homes - reached
    assert reached & {*LOOPS} == {loop}


def test_a_change_in_one_engine_leaves_the_keys_of_others(tmp_path, monkeypatch):
    def hashes():
        return [sources.source_hash.__wrapped__(module) for module in LOOPS]

    before, copy = hashes(), tmp_path / "simulation.py"
    copy.write_text(Path(simulation.__file__).read_text() + "\n# A comment.\n")
    monkeypatch.setattr(simulation, "__file__", str(copy))
    changed = [one != two for one, two in zip(before, hashes(), strict=True)]
    assert changed == [module is simulation for module in LOOPS]


@pytest.mark.parametrize("store", [atoms, vectors], ids=["atoms", "vectors"])
def test_a_change_in_a_store_changes_the_keys_of_its_loops(
    store, tmp_path, monkeypatch
):
    """The loops call a store by slots, so they do not import it."""
    Y = np.arange(6.0).reshape(3, 2)
    problem = wolfpack.group_fused_lasso(Y, alpha=0.1)
    if store is atoms:
        problem = wolfpack.chain_ssvm([Y], [np.array([0, 1, 1])], 0.1, n_labels=2)
    assert problem.store is store

    def folder():
        """Where what the loop of Serial compiles to would be kept in a new process."""
        sources.source_hash.cache_clear()
        _compile._settled.clear()
        vars(problem).pop("_loops", None)
        return problem.kernels((serial,)).run._cache.cache_path

    before, copy = folder(), tmp_path / "store.py"
    copy.write_text(Path(store.__file__).read_text() + "\n# A comment.\n")
    assert folder() == before
    monkeypatch.setattr(store, "__file__", str(copy))
    assert folder() != before
    monkeypatch.undo()
    assert folder() == before


class Context:
    """Stands for Numba's, and counts how often it prepares the compiler."""

    refreshed = 0

    def refresh(self):
        self.refreshed += 1


def test_machine_code_is_loaded_without_the_compiler_unless_a_name_is_missing():
    context = Context()
    link.provide(["PyTuple_New", "NRT_Free", "sqrt"], context)
    assert context.refreshed == 0
    link.provide(["PyTuple_New", "no_function_has_this_name"], context)
    assert context.refreshed == 1


def compile_dot():
    @numba.njit
    def function(x):
        return np.dot(x, x) + np.sqrt(x[0])

    function(np.ones(3))
    (compiled,) = function.overloads.values()
    return compiled


def test_only_names_are_kept_of_what_other_functions_could_inline():
    compiled = compile_dot()
    name, kind, (code, names) = link.reduce(compiled)[0]
    expected = compiled._reduce()[0]
    assert (name, kind, code) == (expected[0], expected[1], expected[2][0])
    kept, whole = map(llvm.parse_bitcode, (names, expected[2][1]))
    found, expected = (
        {one.name for one in module.functions if not one.is_declaration}
        for module in (kept, whole)
    )
    assert compiled.fndesc.llvm_func_name in found
    assert found == expected
    assert not any("sqrt" in str(one) for one in kept.functions)


def test_the_names_that_machine_code_needs_are_found():
    compiled = compile_dot()
    names = link.needed_by(compiled.library)
    assert "NRT_adapt_ndarray_from_python" in names
    assert "numba_xxdot" in names
    assert not [name for name in names if name.startswith("llvm.")]


def test_a_counter_that_begins_with_a_constant_compiles_once():
    @jit
    def successor(k):
        return k + 1

    @numba.njit
    def count(n):
        k = 0
        for _ in range(n):
            k = successor(k)
        return k

    assert count(3) == 3
    assert [str(kind) for (kind,) in successor.overloads] == ["int64"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_signal_cuts_a_compilation_short(monkeypatch, number):
    # Numba would be left half set up, and a later compilation crash the process.
    ended = []

    def compiles(self, sig):
        for _ in range(2):  # the second one does not cut it short, either
            signal.raise_signal(number)
        ended.append(sig)

    monkeypatch.setattr(CPUDispatcher, "compile", compiles)
    function = entry(lambda x: x)
    with interrupt.terminable(), pytest.raises(KeyboardInterrupt):
        function.compile((numba.float64,))
    assert len(ended) == 1
    with interrupt.Interrupt() as flag, pytest.raises(KeyboardInterrupt):
        function.compile((numba.float64,))  # the run counts two of them, as ever
    assert flag.signal == number
    assert len(ended) == 2

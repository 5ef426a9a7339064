"""An edited state file ends in one sentence, or in a run with a right certificate."""

import dataclasses
import io
import json
import stat
import subprocess
import sys
import zipfile
from typing import NamedTuple

import numba
import numpy as np
import pytest
from helpers import random_chains
from hypothesis import example, given
from hypothesis import strategies as st
from mutations import bounded, damages, edits

import wolfpack
from wolfpack import State, StateError
from wolfpack.files import npz as _files
from wolfpack.files import random_state
from wolfpack.files import state_file as _state_file
from wolfpack.solve import _validate
from wolfpack.stores import atoms

rng = np.random.default_rng(0)
Y = rng.normal(size=(24, 2)).cumsum(axis=0)
CHAINS = random_chains(rng, 25, 4, [1, 2, 3])


class Corners(NamedTuple):
    corners: np.ndarray
    target: np.ndarray


def score(data, shared, i, atom):
    return np.dot(data.corners[i, atom[0]], shared - data.target)


def oracle(data, shared, i, atom, work):
    products = np.dot(data.corners[i], shared - data.target)
    atom[0] = products.argmin()
    return products[atom[0]]


def add(data, i, atom, scale, out):
    out += scale * data.corners[i, atom[0]]
    return 0.0


def slope(data, shared, direction, rows, gamma):
    return np.dot(shared + gamma * direction - data.target, direction)


def value(data, shared):
    return 0.5 * np.square(shared - data.target).sum()


def corners(compiled, n_corners=5):
    """Sum points of polytopes, whose atoms are numbers of corners; no `contains`."""
    table = np.random.default_rng(1).normal(size=(8, 5, 3))[:, :n_corners].copy()
    functions = {"oracle": oracle, "score": score, "add": add, "slope": slope}
    functions["value"] = value
    if compiled:
        functions = {name: numba.njit(f) for name, f in functions.items()}
    return wolfpack.Problem(
        data=Corners(table, np.full(3, 9.0)),
        shared=np.zeros(3),
        start=np.zeros(8, np.int64),
        offsets=np.arange(9),
        scale=100.0,
        name="corners",
        **functions,
    )


PROBLEMS = {
    "vectors": lambda: wolfpack.group_fused_lasso(Y, 0.4),
    "atoms": lambda: wolfpack.chain_ssvm(*CHAINS, 0.05, n_labels=4),
    "no contains": lambda: corners(compiled=False),
}


@pytest.fixture(scope="module", params=PROBLEMS)
def case(request, tmp_path_factory):
    """A problem, bounds of its optimum, and the arrays of states of each kind."""
    problem, files = PROBLEMS[request.param](), {}
    best = wolfpack.solve(problem, tol=1e-5, max_epochs=500, rng=0)
    path = tmp_path_factory.mktemp("states") / "state.npz"
    for sampling in SAMPLINGS:
        for averaging in (False, True):
            how = {"sampling": sampling, "averaging": averaging}
            wolfpack.solve(problem, max_epochs=2.5, tol=0, rng=0, **how).save(path)
            with np.load(path) as file:
                files[sampling, averaging] = {k: file[k] for k in file.files}
    return problem, (best.lower_bound, best.objective), files, path


def assert_sound(problem, bounds, path, **how):
    """Go on from a file: one sentence, or a certificate that is true."""
    try:
        state = State.load(path)
        result = wolfpack.solve(problem, start=state, max_epochs=40, tol=1e-3, **how)
    except StateError as error:
        text = str(error)
        assert text.endswith(".")
        assert "\n" not in text
        return None
    slack = 1e-4 * problem.scale  # v is float32
    assert result.lower_bound <= bounds[1] + slack
    assert result.objective >= bounds[0] - slack
    assert result.gap >= 0
    if result.converged:
        assert result.objective - bounds[0] <= 1e-3 * problem.scale + slack
    return result


SAMPLINGS = ("uniform", "permutation", "gap", "cyclic")
KINDS = [(s, a) for s in SAMPLINGS for a in (False, True)]


@bounded
@given(data=st.data())
def test_an_edited_entry(case, data):
    problem, bounds, files, path = case
    sampling, averaging = data.draw(st.sampled_from(KINDS))
    arrays = dict(files[sampling, averaging])
    for edit in data.draw(st.lists(edits(sorted(arrays)), min_size=1, max_size=2)):
        edit(arrays)
    np.savez(path, **arrays)
    assert_sound(problem, bounds, path, sampling=sampling, averaging=averaging)


@bounded
@given(damage=damages())
def test_damaged_bytes(case, damage):
    problem, bounds, files, path = case
    np.savez(path, **files["gap", True])
    path.write_bytes(damage(path.read_bytes()))
    assert_sound(problem, bounds, path, sampling="gap", averaging=True)


GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


@bounded
@given(
    name=st.sampled_from(GENERATORS),
    at=st.integers(0, 50),
    bad=st.sampled_from(
        [-1, 5, 625, 2**31, 2**64, 2**128, 0.5, "x", None, [], {}, True]
    ),
)
@example(name="MT19937", at=2, bad=10**9)
@example(name="Philox", at=5, bad=-(10**6))
def test_a_generator_reads_no_foreign_memory(name, at, bad):
    bits = getattr(np.random, name)(3)
    saved = json.loads(random_state.pack_rng(np.random.Generator(bits)))
    places = [(saved, "name"), (saved, "state")]
    for record, key in places:
        if isinstance(record[key], dict):
            places += [(record[key], k) for k in record[key]]
        elif isinstance(record[key], list):
            places += [(record[key], 0), (record[key], len(record[key]) - 1)]
    record, key = places[at % len(places)]
    record[key] = bad
    try:
        generator = random_state.unpack_rng(json.dumps(saved))
    except ValueError:
        return
    assert 0 <= generator.random() < 1  # True for 1, or a number that may be there


def test_extra_entries_and_other_orders_change_nothing(case):
    problem, _, files, path = case
    arrays = files["gap", True]
    how = {"sampling": "gap", "averaging": True, "max_epochs": 6, "tol": 0}
    np.savez(path, **arrays)
    first = wolfpack.solve(problem, start=State.load(path), **how)
    objects = np.array([{}, []], dtype=object)
    turned = {k: np.asfortranarray(a) if a.ndim else a for k, a in arrays.items()}
    np.savez_compressed(path, unknown=objects, block_more=np.ones(3), **turned)
    again = wolfpack.solve(problem, start=State.load(path), **how)
    assert again.objective == first.objective
    assert again.state.shared.tobytes() == first.state.shared.tobytes()


def test_a_v_that_is_not_that_of_x_is_made_anew(case):
    problem, bounds, files, path = case
    arrays = files["gap", True]
    for name, wrong in (("shared", 1e30), ("sampler_tree", 1e300)):
        bad = np.full_like(arrays[name], wrong)
        np.savez(path, **{**arrays, name: bad})
        result = assert_sound(problem, bounds, path, sampling="gap")
        assert result is not None
        assert result.trace[0].drift < 1e-3


# Atoms that do not exist.


def with_atom(problem, atom):
    """Return a state as a file gives it, with another atom in block 3."""
    blocks = atoms.create(problem, 1)
    blocks.atoms[blocks.place[3].begin] = atom
    state = State.begin(problem, OPTIONS(problem), np.random.default_rng(0))
    state.blocks = blocks
    return state


def OPTIONS(problem):
    return _validate(
        problem,
        1,
        "line",
        "uniform",
        False,
        False,
        0.0,
        9,
        None,
        None,
        wolfpack.Serial(),
    )


BAD_ATOMS = [(False, 5), (False, -6), (False, 10**12), (True, 2**40)]


@pytest.mark.parametrize(("compiled", "atom"), BAD_ATOMS)
def test_an_atom_that_does_not_exist_is_refused(compiled, atom, tmp_path):
    problem = corners(compiled)
    path = with_atom(problem, atom).save(tmp_path / "state")
    with pytest.raises(StateError, match="block 3 of start is no point of its set"):
        State.resume(problem, State.load(path), OPTIONS(problem), None)
    path = with_atom(problem, 4).save(tmp_path / "state")
    State.resume(problem, State.load(path), OPTIONS(problem), None)


def test_an_atom_of_a_larger_problem_is_refused():
    state = with_atom(corners(compiled=False), 4)
    fewer = corners(compiled=False, n_corners=3)
    assert state.fingerprint != fewer.fingerprint
    with pytest.raises(StateError, match="block 3 of start is no point of its set"):
        State.resume(fewer, state, OPTIONS(fewer), None)


def test_a_contains_that_looks_up_the_atom_is_tried_too(tmp_path):
    @numba.njit
    def contains(data, i, atom):
        return data.corners[i, atom[0], 0] < 100.0

    problem = dataclasses.replace(corners(compiled=True), contains=contains)
    path = with_atom(problem, 10**12).save(tmp_path / "state")
    with pytest.raises(StateError, match="block 3 of start is no point of its set"):
        State.resume(problem, State.load(path), OPTIONS(problem), None)


def test_a_fused_step_without_contains_is_refused(tmp_path):
    problem = PROBLEMS["atoms"]()
    path = with_atom(problem, 200).save(tmp_path / "state")
    problem = dataclasses.replace(problem, contains=None)
    with pytest.raises(StateError, match="has a fused step and no `contains`"):
        State.resume(problem, State.load(path), OPTIONS(problem), None)


@pytest.mark.slow
def test_edited_atoms_of_a_compiled_problem(tmp_path):
    problem = corners(compiled=True)
    best = wolfpack.solve(problem, tol=1e-8, max_epochs=10**4, rng=0)
    bounds = best.lower_bound, best.objective
    path = wolfpack.solve(problem, max_epochs=3, tol=0, rng=0).save(tmp_path / "s")
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    for atom in (0, 4, 5, -5, -6, 10**12, -(10**15)):
        edited = arrays["block_atoms"].copy()
        edited[-1] = atom
        np.savez(path, **{**arrays, "block_atoms": edited})
        found = assert_sound(problem, bounds, path)
        assert (found is not None) == (-5 <= atom < 5)


def test_a_weight_of_zero_is_no_damage(tmp_path):
    problem = corners(compiled=False)
    state = with_atom(problem, 0)
    for gamma in (0.3, 1e-17):  # the second leaves a weight of 0
        atom = np.array([int(gamma * 10) + 1])
        atoms.shift.py_func((), state.blocks, 2, atom, gamma)
    assert atoms.pack(state.blocks)["weights"].min() <= 0
    State.load(state.save(tmp_path / "state"))


# Sizes.


def make_bomb(path, name, entries):
    """Write a file that declares, and holds, far more than its size."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(f"{name}.npy", "w", force_zip64=True) as file,
    ):
        header = {"descr": "<f8", "fortran_order": False, "shape": (entries,)}
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(0, entries * 8, 2**20):
            file.write(bytes(2**20))


def test_a_bomb_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "FREE_BYTES", 2**20)
    monkeypatch.setattr(_files.np, "empty", None)  # nothing may be made for it
    make_bomb(tmp_path / "bomb.npz", "shared", 2**20)
    with pytest.raises(StateError, match=r"declares 8 MB in a file of 0\.0\d+ MB"):
        State.load(tmp_path / "bomb.npz")
    make_bomb(tmp_path / "bomb.npz", "unknown", 2**20)
    with pytest.raises(StateError, match="no state of this wolfpack"):
        State.load(tmp_path / "bomb.npz")


def test_a_header_that_promises_more_than_there_is(tmp_path):
    for shape in ((2**40,), (2**62, 4), (-1,), (10**30,), (0, 10**30)):
        content = io.BytesIO()
        header = {"descr": "<f8", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(content, header)
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            archive.writestr("format.npy", content.getvalue() + bytes(16))
        with pytest.raises(StateError, match="damaged or no state file"):
            State.load(tmp_path / "x.npz")


# Writing.


def a_state():
    problem = corners(compiled=False)
    return State.begin(problem, OPTIONS(problem), np.random.default_rng(0))


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    state = a_state()
    path = state.save(tmp_path / "run")
    before = path.read_bytes()
    (tmp_path / "run.part.npz").mkdir()  # what used to stand in the way

    def full(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(np, "savez", full)
        with pytest.raises(OSError, match="No space left"):
            state.save(path)
    assert path.read_bytes() == before
    assert {p.name for p in tmp_path.iterdir()} == {"run.npz", "run.part.npz"}
    assert state.save(path) == path
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(OSError, match="folder"):
        state.save(tmp_path / "folder")
    with pytest.raises(OSError, match=r"there is no folder .* to write run\.npz into"):
        state.save(tmp_path / "nosuch" / "run")
    assert not list(tmp_path.glob("*.part"))


def test_a_saved_file_has_the_usual_permissions(tmp_path):
    path = a_state().save(tmp_path / "run")
    (tmp_path / "plain").write_text("")
    usual = stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    assert stat.S_IMODE(path.stat().st_mode) == usual


SAVER = """
import sys, numpy as np, wolfpack
from wolfpack.solve import _validate
Y, _, _ = wolfpack.make_piecewise(n=20000, d=4)
problem = wolfpack.group_fused_lasso(Y, alpha=0.5)
options = _validate(problem, 1, "line", "uniform", False, False, 0.0, 9, None, None,
                    wolfpack.Serial())
state = wolfpack.State.begin(problem, options, np.random.default_rng(0))
print("go", flush=True)
while True:
    state.progress.calls += 1
    state.save(sys.argv[1])
"""


def test_savers_of_one_file_always_leave_a_whole_one(tmp_path):
    path = tmp_path / "run.npz"
    command = [sys.executable, "-c", SAVER, str(path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    savers = [subprocess.Popen(command, **pipes) for _ in range(2)]
    try:
        assert [process.stdout.readline() for process in savers] == ["go\n"] * 2
        while not path.exists():
            assert all(process.poll() is None for process in savers)
        for _ in range(40):
            State.load(path)
        assert all(process.poll() is None for process in savers)
    finally:
        for process in savers:
            process.kill()  # in the middle of a save, mostly
        errors = [process.communicate()[1] for process in savers]
    assert errors == ["", ""]
    State.load(path)
    assert len(list(tmp_path.glob("*.part"))) <= 2  # one of each


def test_all_names_are_known(case):
    _, _, files, _ = case
    for arrays in files.values():
        assert set(arrays) <= set(_state_file.NAMES)

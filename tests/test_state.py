"""A run that stopped goes on as if it had not; a file that was harmed is refused."""

import numpy as np
import pytest
from helpers import random_chains

import wolfpack
from wolfpack import State, StateError
from wolfpack.stores import STORES

rng = np.random.default_rng(0)
Y = rng.normal(size=(24, 2)).cumsum(axis=0)
CHAINS = random_chains(rng, 25, 4, [1, 2, 3])
PROBLEMS = {
    "lasso": lambda alpha=0.4: wolfpack.group_fused_lasso(Y, alpha),
    "chain": lambda alpha=0.05: wolfpack.chain_ssvm(*CHAINS, alpha, n_labels=4),
}
every_problem = pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)


def bits(state):
    """Everything that the next update depends on."""
    packed = STORES[state.keeps].pack(state.blocks)
    arrays = [*packed.values(), state.shared, state.average, state.progress]
    arrays += [*state.sampler]
    return [array.tobytes() for array in arrays] + [str(state.rng.bit_generator.state)]


def through_a_file(state, folder):
    return State.load(state.save(folder / "state.npz"))


@every_problem
@pytest.mark.parametrize("sampling", ["uniform", "permutation", "gap", "cyclic"])
@pytest.mark.parametrize("averaging", [False, True])
@pytest.mark.parametrize("tau", [1, 7])
def test_resume_is_exact(make, sampling, averaging, tau, tmp_path):
    problem = make()
    how = {
        "sampling": sampling,
        "averaging": averaging,
        "batch_size": tau,
        "tol": 1e-12,
    }
    whole = wolfpack.solve(problem, **how, max_epochs=9.3, rng=5)
    state = None
    for epochs in (0, 1, 2.37, 2.38, 5, 9.3):
        part = wolfpack.solve(problem, **how, max_epochs=epochs, rng=5, start=state)
        state = through_a_file(part.state, tmp_path)
        assert bits(state) == bits(part.state)
    assert bits(state) == bits(whole.state)
    assert part.objective == whole.objective
    assert part.gap == whole.gap


@every_problem
@pytest.mark.parametrize("check_every", [None, 0.4, 3.0])
def test_resume_after_a_callback_or_a_time_limit_is_exact(make, check_every):
    problem = make()
    how = {"tol": 1e-12, "max_epochs": 12, "check_every": check_every}
    whole = wolfpack.solve(problem, **how, rng=1)
    stopped = wolfpack.solve(problem, **how, rng=1, callback=lambda e: e.row.epoch > 4)
    assert stopped.status is wolfpack.Status.STOPPED
    late = wolfpack.solve(problem, **how, start=stopped.state, max_seconds=1e-9)
    assert late.status is wolfpack.Status.TIME_LIMIT
    end = wolfpack.solve(problem, **how, start=late.state)
    assert bits(end.state) == bits(whole.state)


def test_resume_leaves_the_start_alone():
    problem = PROBLEMS["chain"]()
    first = wolfpack.solve(problem, max_epochs=2, tol=0, rng=0)
    before = bits(first.state)
    one = wolfpack.solve(problem, max_epochs=4, tol=0, start=first.state)
    two = wolfpack.solve(problem, max_epochs=4, tol=0, start=first.state)
    assert bits(first.state) == before != bits(one.state)
    assert bits(one.state) == bits(two.state)


def test_epochs_count_oracle_calls_when_the_batch_changes():
    problem = PROBLEMS["lasso"]()
    first = wolfpack.solve(problem, max_epochs=10, tol=0, rng=0)
    more = wolfpack.solve(
        problem, max_epochs=20, tol=0, batch_size=23, start=first.state
    )
    assert first.n_updates == 230
    assert more.n_updates == 240
    assert more.n_oracle_calls == 460
    assert more.epochs == 20


@pytest.mark.parametrize("name", ["MT19937", "Philox", "SFC64", "PCG64DXSM"])
def test_other_random_generators_are_kept(name, tmp_path):
    problem, limit = PROBLEMS["lasso"](), {"tol": 0}

    def generator():
        return np.random.Generator(getattr(np.random, name)(3))

    whole = wolfpack.solve(problem, **limit, max_epochs=6, rng=generator())
    part = wolfpack.solve(problem, **limit, max_epochs=2.5, rng=generator())
    state = through_a_file(part.state, tmp_path)
    end = wolfpack.solve(problem, **limit, max_epochs=6, start=state)
    assert bits(end.state) == bits(whole.state)


@every_problem
def test_another_alpha_is_a_warm_start(make):
    problem = make()
    old = wolfpack.solve(problem, tol=0, max_epochs=60, rng=0, averaging=True)
    # A larger ball for the lasso: the old point stays inside it.
    other = make(alpha=0.45 if problem.name == "group_fused_lasso" else 0.045)
    cold = wolfpack.solve(other, tol=0, max_epochs=0, rng=0)
    warm = wolfpack.solve(other, tol=0, max_epochs=0, rng=0, start=old.state)
    assert 0 <= warm.gap < 0.5 * cold.gap
    assert warm.objective < cold.objective
    assert (warm.epochs, warm.n_updates, warm.n_oracle_calls) == (0, 0, 0)
    assert warm.trace[0].drift < 1e-6  # v was made anew for the new alpha
    more = wolfpack.solve(other, tol=0, max_epochs=30, rng=0, start=old.state)
    assert more.objective < warm.objective


def test_a_point_outside_the_new_set_is_refused():
    old = wolfpack.solve(PROBLEMS["lasso"](0.4), max_epochs=20, tol=0, rng=0)
    with pytest.raises(StateError, match=r"block \d+ of start lies outside"):
        wolfpack.solve(PROBLEMS["lasso"](0.01), start=old.state)


def test_the_state_of_another_problem_is_refused():
    lasso, chain = PROBLEMS["lasso"](), PROBLEMS["chain"]()
    state = wolfpack.solve(lasso, max_epochs=1, tol=0).state
    shorter = wolfpack.group_fused_lasso(Y[:-1], 0.4)
    fewer = wolfpack.chain_ssvm(CHAINS[0][1:], CHAINS[1][1:], 0.05, n_labels=4)
    for problem in (shorter, chain):
        with pytest.raises(StateError, match="blocks of another problem, 23 vectors"):
            wolfpack.solve(problem, start=state)
    state = wolfpack.solve(chain, max_epochs=1, tol=0).state
    with pytest.raises(StateError, match=r"25 blocks of atoms.*has 24 blocks"):
        wolfpack.solve(fewer, start=state)
    with pytest.raises(StateError, match=r"must be a wolfpack\.State, but is a dict"):
        wolfpack.solve(chain, start={})


# Files.


@pytest.fixture(scope="module", params=PROBLEMS)
def saved(request, tmp_path_factory):
    problem = PROBLEMS[request.param]()
    how = {"sampling": "gap", "averaging": True}
    result = wolfpack.solve(problem, max_epochs=3, tol=0, rng=0, **how)
    path = result.save(tmp_path_factory.mktemp("state") / "good")
    assert path.name == "good.npz"
    return problem, path


def test_nothing_is_pickled(saved):
    with np.load(saved[1], allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)


def test_names_with_dots_stay_apart(tmp_path):
    state = wolfpack.solve(PROBLEMS["lasso"](), max_epochs=0, tol=0).state
    paths = {state.save(tmp_path / name) for name in ("a0.01", "a0.02", "a0.02.npz")}
    assert {path.name for path in paths} == {"a0.01.npz", "a0.02.npz"}
    assert {path.name for path in tmp_path.iterdir()} == {"a0.01.npz", "a0.02.npz"}


@pytest.mark.parametrize("keep", [0, 1, 30, 200, 0.5, 0.99])
def test_a_truncated_file_is_refused(saved, keep, tmp_path):
    content = saved[1].read_bytes()
    size = int(keep * len(content)) if isinstance(keep, float) else keep
    path = tmp_path / "bad.npz"
    path.write_bytes(content[:size])
    with pytest.raises(StateError, match="damaged or no state file"):
        State.load(path)


@pytest.mark.parametrize(
    "content", [b"hello\n", b"PK\x03\x04" + bytes(99), bytes(1000)]
)
def test_another_file_is_refused(content, tmp_path):
    path = tmp_path / "bad.npz"
    path.write_bytes(content)
    with pytest.raises(StateError, match="damaged or no state file"):
        State.load(path)


def test_a_flipped_bit_is_noticed(saved, tmp_path):
    content = bytearray(saved[1].read_bytes())
    for at in np.random.default_rng(0).integers(0, len(content), 60):
        content[at] ^= 0xFF
    path = tmp_path / "bad.npz"
    path.write_bytes(bytes(content))
    with pytest.raises(StateError, match=r"damaged|no state"):
        State.load(path)


def test_no_file_and_a_foreign_npz_are_refused(tmp_path):
    with pytest.raises(StateError, match="there is no state file"):
        State.load(tmp_path / "none.npz")
    np.savez(tmp_path / "x.npz", a=np.ones(3))
    with pytest.raises(StateError, match="no state of this wolfpack"):
        State.load(tmp_path / "x.npz")
    np.save(tmp_path / "x.npy", np.ones(3))
    with pytest.raises(StateError, match=r"damaged|no state"):
        State.load(tmp_path / "x.npy")


def spoil(path, target, **changes):
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    for name, change in changes.items():
        assert name in arrays
        arrays[name] = change(arrays[name])
    np.savez(target, **arrays)
    return target


def put(value, at=0):
    def change(array):
        array = array.copy()
        array.reshape(-1)[at] = value
        return array

    return change


SPOILS = {
    "pickled object": {"shared": lambda a: np.array([{}], dtype=object)},
    "another format": {"format": lambda a: np.array("wolfpack state 99")},
    "unknown generator": {"rng": lambda a: np.array('{"name": "Evil", "state": {}}')},
    "no JSON": {"rng": lambda a: np.array("?")},
    "order out of range": {"sampler_order": put(10**9)},
    "order with a repeat": {"sampler_order": lambda a: np.zeros_like(a)},
    "order of floats": {"sampler_order": lambda a: a.astype(float)},
    "cursor out of range": {"sampler_cursor": put(-5)},
    "cursor of rounds out of range": {"sampler_cursor": lambda a: a + 10**6},
    "cursor too short": {"sampler_cursor": lambda a: a[:2]},
    "gaps NaN": {"sampler_gaps": put(np.nan)},
    "gaps negative": {"sampler_gaps": put(-1.0)},
    "tree too short": {"sampler_tree": lambda a: a[:-1]},
    "counters missing": {"counts": lambda a: a[:2]},
    "counts negative": {"counts": put(-1)},
    "counts of floats": {"counts": lambda a: a.astype(float)},
    "average of another shape": {"average": lambda a: a[:3]},
}
CHAIN_SPOILS = {
    "weights not convex": {"block_weights": lambda a: a * 1.01},
    "weight negative": {"block_weights": put(-0.1)},
    "weight NaN": {"block_weights": put(np.nan)},
    "count too large": {"block_counts": put(10**6)},
    "count zero": {"block_counts": put(0)},
    "atoms cut": {"block_atoms": lambda a: a[:-1]},
}


def test_a_cursor_from_before_there_were_rounds(saved, tmp_path):
    old = {"sampler_cursor": lambda a: a[:1]}
    state = State.load(spoil(saved[1], tmp_path / "old.npz", **old))
    np.testing.assert_array_equal(state.sampler.cursor[1:], 0)


@pytest.mark.parametrize("changes", SPOILS.values(), ids=SPOILS)
def test_a_spoilt_state_is_refused(saved, changes, tmp_path):
    with pytest.raises(StateError, match=r"damaged|no state"):
        State.load(spoil(saved[1], tmp_path / "bad.npz", **changes))


@pytest.mark.parametrize("changes", CHAIN_SPOILS.values(), ids=CHAIN_SPOILS)
def test_spoilt_lists_of_atoms_are_refused(saved, changes, tmp_path):
    if saved[0].offsets is None:
        with np.load(saved[1]) as file:
            assert set(changes).isdisjoint(file.files)  # vectors have no such lists
        return
    with pytest.raises(StateError, match="damaged"):
        State.load(spoil(saved[1], tmp_path / "bad.npz", **changes))


def test_a_point_outside_the_set_is_refused(saved, tmp_path):
    problem, path = saved
    name, value = (
        ("block_points", 9.0) if problem.offsets is None else ("block_atoms", 7)
    )
    state = State.load(spoil(path, tmp_path / "bad.npz", **{name: put(value)}))
    with pytest.raises(StateError, match="block 0 of start lies outside"):
        wolfpack.solve(problem, start=state)


def test_entries_of_another_type_are_refused(saved, tmp_path):
    problem, path = saved
    name = "block_points" if problem.offsets is None else "block_atoms"
    changes = {name: lambda a: a.astype(np.float32)}
    state = State.load(spoil(path, tmp_path / "bad.npz", **changes))
    with pytest.raises(StateError, match="blocks of another problem"):
        wolfpack.solve(problem, start=state)


def test_another_batch_size_goes_on_counting_passes():
    Y, _, _ = wolfpack.make_piecewise(n=41, d=2, rng=3)
    problem = wolfpack.group_fused_lasso(Y, alpha=0.7)
    first = wolfpack.solve(problem, max_epochs=2, tol=0, batch_size=8, rng=0)
    assert first.n_updates == 10
    then = wolfpack.solve(problem, max_epochs=5, tol=0, start=first.state)
    assert then.epochs == 5.0
    assert then.n_updates == 10 + 120
    assert then.n_oracle_calls == 200

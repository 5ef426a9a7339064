"""The server of a cluster without a cluster: messages in, versions of v out."""

import pickle
from types import SimpleNamespace

import helpers
import numpy as np
import pytest
import spy

import wolfpack
from wolfpack.engines.cluster.chunk_size import (
    ACCELERATED_SHARE,
    choose,
    choose_chunk,
    choose_tau,
)
from wolfpack.engines.cluster.messages import (
    Chunk,
    Format,
    pack_words,
    portable,
    read_v,
    read_words,
)
from wolfpack.engines.cluster.service import Service
from wolfpack.solve import _validate
from wolfpack.state import State
from wolfpack.update.plan import Exit


def lasso():
    Y, _, _ = wolfpack.make_piecewise(n=40, d=3)
    return wolfpack.group_fused_lasso(Y, alpha=0.5)


def chain():
    X, y = helpers.random_chains(np.random.default_rng(0), 12, 3, [2, 3, 4])
    return wolfpack.chain_ssvm(X, y, alpha=0.1, n_labels=3)


PROBLEMS = {"lasso": lasso, "chain": chain, "spy": spy.make}
every_problem = pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)


def begin(problem, tau=1, state=None, made=(0, 0), **how):
    how = {"step": "line", "averaging": False, **how}
    options = _validate(
        problem, tau, how["step"], "uniform", how["averaging"], False, 0.0, np.inf,
        None, None, wolfpack.Serial(),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    if state is None:
        state = State.begin(problem, options, rng)
    else:
        state = State.resume(problem, state, options, rng)
    service = Service(problem, state, options.plan, tau, made)
    service.until = np.inf
    return service


def solve_blocks(service, blocks, v=None, version=None, life=None):
    """Be a worker."""
    problem, v = service.problem, service.state.shared if v is None else v
    blocks = np.array(blocks, np.int64)
    atoms = np.zeros((len(blocks), problem.atom_size), problem.start.dtype)
    current = np.zeros(1, np.int64)
    outline = problem.store.outline(problem)
    args = v, outline, blocks, atoms, current, problem.work()
    service.kernels.solve_chunk(problem.data, *args)
    version = service.version if version is None else version
    return Chunk(blocks, atoms, version, service.life if life is None else life)


def exact_v(problem, state):
    exact = problem.shared.astype(np.float64)
    args = (problem.data, state.blocks, 0, problem.n_blocks, exact, problem.work())
    problem.kernels().rebuild(*args)
    return exact


@every_problem
@pytest.mark.parametrize("tau", [1, 3])
@pytest.mark.parametrize("step", ["line", "open-loop", 0.1])
def test_fresh_messages_give_the_steps_of_serial(make, tau, step):
    problem = make()
    run = helpers.begin_run(problem, tau, step, averaging=True)
    service = begin(problem, tau, step=step, averaging=True)
    for _ in range(25):
        chosen, atoms = helpers.advance(run)
        service.take(Chunk(chosen, atoms, service.version, service.life))
        assert service.version == run.state.n_updates
        close = {"rtol": 0, "atol": 2e-6 * max(1, np.abs(run.state.shared).max())}
        np.testing.assert_allclose(service.state.shared, run.state.shared, **close)
    for name in ("average", "gap_sum", "gaps_seen"):
        states = service.state, run.state
        one, two = (
            getattr(s if name == "average" else s.progress, name) for s in states
        )
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4 * np.abs(two).max())
    assert service.state.n_oracle_calls == run.state.n_oracle_calls


@every_problem
def test_chunks_need_not_be_minibatches(make):
    problem = make()
    service, other = begin(problem, 4), begin(problem, 4)
    chunk = solve_blocks(service, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    service.take(chunk)
    for j in range(10):
        one = Chunk(chunk.blocks[j : j + 1], chunk.atoms[j : j + 1], 0, other.life)
        other.take(one)
    assert service.version == other.version
    assert service.state.shared.tobytes() == other.state.shared.tobytes()
    assert service.inbox.count[0] == other.inbox.count[0]


def test_a_block_that_comes_twice_overwrites():
    problem = lasso()
    service = begin(problem, 3)
    old, new = solve_blocks(service, [5, 6]), solve_blocks(service, [5, 5, 7])
    new.atoms[0] = 0.0  # overwritten by the next
    service.take(old)
    service.take(new)
    other = begin(problem, 3)
    other.take(solve_blocks(other, [5, 6, 7]))
    assert service.tally.collisions == 2
    assert service.version == 1
    np.testing.assert_array_equal(service.state.shared, other.state.shared)


def test_what_is_older_than_half_of_all_versions_is_dropped():
    problem = lasso()
    service = begin(problem)
    first = solve_blocks(service, [0])
    for i in range(1, 10):
        service.take(solve_blocks(service, [i]))
    fourth, fifth = (solve_blocks(service, [0], version=k) for k in (4, 5))
    before = service.state.shared.copy()
    for chunk in (first, fourth):  # 9 and 5 versions late, of 9
        service.take(chunk)
        np.testing.assert_array_equal(service.state.shared, before)
    assert service.tally.dropped == 2
    service.take(fifth)
    assert service.version == 10
    assert service.tally.histogram[4] == 1
    assert service.state.n_oracle_calls == 12  # all of them were made


@every_problem
def test_it_converges_with_messages_that_are_late(make):
    problem = make()
    rng, tol = np.random.default_rng(0), 1e-3
    how = {"tol": tol, "max_epochs": 10**5, "rng": 0, "accelerate": False}
    best = wolfpack.solve(problem, **how)
    service = begin(problem)
    queue = []
    for _ in range(40 * problem.n_blocks):
        queue.append(solve_blocks(service, rng.integers(problem.n_blocks, size=2)))
        if len(queue) > 4:
            service.take(queue.pop(0))
    assert service.rebuild() < 1e-6
    rest = wolfpack.solve(problem, start=service.state, **how)
    assert rest.trace[0].gap < 0.2 * best.trace[0].gap
    assert abs(rest.objective - best.objective) <= tol * problem.scale
    assert service.tally.histogram.argmax() >= 4


def test_the_pool_of_atoms_grows():
    problem = chain()
    service, rng = begin(problem, 3, step=0.01), np.random.default_rng(0)
    room = service.state.blocks.atoms.size
    for _ in range(300):
        chunk = solve_blocks(service, rng.integers(problem.n_blocks, size=7))
        chunk.atoms[:, :2] = rng.integers(3, size=(7, 2))  # any labels are feasible
        service.take(chunk)
    assert service.ended == Exit.DONE
    assert service.state.blocks.atoms.size > room
    v = exact_v(problem, service.state)
    np.testing.assert_allclose(service.state.shared, v, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"blocks": np.array([39])},
        {"blocks": np.array([-1])},
        {"blocks": np.array([0], np.int32)},
        {"blocks": np.array([[0]])},
        {"atoms": np.zeros((1, 2))},
        {"atoms": np.zeros((2, 3))},
        {"atoms": np.zeros((1, 3), np.float32)},
    ],
)
def test_chunks_that_do_not_fit_are_refused(change):
    service = begin(lasso())
    chunk = solve_blocks(service, [0])._replace(**change)
    with pytest.raises(ValueError, match=r"a chunk must hold int64 blocks 0 ... 38"):
        service.take(chunk)
    assert service.version == 0


@pytest.mark.parametrize(
    ("entry", "code"), [(np.nan, Exit.NOT_A_NUMBER), (2.0, Exit.INFEASIBLE)]
)
def test_bad_atoms_stop_it(entry, code):
    service = begin(spy.make(), 2)
    service.take(solve_blocks(service, [1, 2]))
    before = service.state.shared.copy()
    chunk = solve_blocks(service, [3, 7])
    chunk.atoms[1] = entry
    service.take(chunk)
    assert service.ended == code
    assert service.state.progress.at == 7
    assert not service.is_open
    service.take(solve_blocks(service, [4, 5]))
    assert service.version == 1
    service.rebuild()
    np.testing.assert_allclose(service.state.shared, before, rtol=0, atol=1e-12)


def test_what_raises_stops_it():
    problem = spy.make()
    service = begin(problem, 2)
    chunk = solve_blocks(service, [3, 7])
    spy.set_fault(problem, spy.RAISES_IN_SLOPE, after=-1)
    service.take(chunk)
    block, error = service.error
    assert block in (3, 7)
    assert str(error) == "there is no slope"
    assert error.__notes__[0].startswith("On the server:\nTraceback")
    assert not service.is_open
    service.fail(9, ValueError("later"))
    assert service.error[0] == block  # the first one counts
    spy.set_fault(problem, spy.NEVER)
    service.rebuild()
    spy.assert_sound(problem, service.state)


def test_an_error_that_cannot_travel_is_told():
    error = ValueError("no path", lambda: 0)
    found = pickle.loads(pickle.dumps(portable(error, "In a worker")))
    assert type(found) is RuntimeError
    assert str(found).startswith("ValueError: ('no path', <function")
    assert "no path" in found.__notes__[0]


def test_it_stops_at_the_last_call():
    service = begin(lasso(), 2)
    service.until = 5
    service.take(solve_blocks(service, [1, 2, 3]))
    assert service.is_open
    service.take(solve_blocks(service, [4, 5, 6]))
    assert service.state.n_oracle_calls == 5
    assert not service.is_open
    service.take(solve_blocks(service, [7]))
    assert service.state.n_oracle_calls == 5
    assert service.version == 2


@every_problem
def test_another_life_goes_on_from_the_file(make, tmp_path):
    problem = make()
    service = begin(problem, 2)
    service.take(solve_blocks(service, [0, 1, 2, 3, 4]))  # the last one is gathered
    early, path = solve_blocks(service, [5, 6]), service.save(tmp_path / "server")
    service.take(solve_blocks(service, [7, 8, 9]))
    late = solve_blocks(service, [8, 9])
    made = (service.version, service.state.n_oracle_calls)
    again = begin(problem, 2, State.load(path), made)
    assert again.life != service.life
    assert (again.version, again.state.n_oracle_calls) == made  # counts never fall
    np.testing.assert_allclose(
        again.state.shared, exact_v(problem, again.state), rtol=0, atol=1e-6
    )
    assert again.is_lost(late)
    assert not again.is_lost(early)  # whose version the file has
    again.take(late)
    assert again.tally.lost == 2
    assert again.version == made[0]
    again.take(early)
    assert again.version == made[0] + 1
    assert again.rebuild() < 1e-6


@every_problem
def test_messages_say_what_was_sent(make):
    problem = make()
    service, form = begin(problem), Format(problem)
    chunk = solve_blocks(service, [0, 5, 5, problem.n_blocks - 1])
    chunk = chunk._replace(version=2**40)
    message = form.pack(3, chunk)
    who, read = form.unpack(message)
    assert who == 3
    assert read[2:] == (2**40, service.life)
    np.testing.assert_array_equal(read.blocks, chunk.blocks)
    np.testing.assert_array_equal(read.atoms, chunk.atoms)
    assert read.blocks.dtype == np.int64
    assert read.atoms.dtype == problem.start.dtype
    if problem.offsets is not None:  # a number of one byte, and one a label
        lengths = np.diff(problem.offsets)[chunk.blocks]
        assert len(message) == 32 + 4 + lengths.sum()
    service.take(read)
    assert service.version > 0


def test_messages_that_are_none():
    problem = lasso()
    form, chunk = Format(problem), solve_blocks(begin(problem), [1, 2])
    message = form.pack(0, chunk)
    for bad, sentence in [
        (b"", "has no head"),
        (message[:33], "is cut short"),
        (message[:-1], "needs 48 bytes of atoms, and has 47"),
        (message + b"x", "needs 48 bytes of atoms, and has 49"),
        (pack_words(0, 0, 0, -1), "is cut short"),
        (pack_words(0, 0, 0, 1) + b"\x27", "speaks of block 39; the last one is 38"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            form.unpack(bad)


def test_answers_carry_v():
    like = np.zeros((3, 2), np.float32)
    head = pack_words(1, 2, True, False)
    assert read_v(head, like) is None
    v = read_v(head + np.arange(6, dtype=np.float32).tobytes(), like)
    np.testing.assert_array_equal(v, np.arange(6).reshape(3, 2))
    assert not v.flags.writeable
    assert read_words(head) == (1, 2, 1, 0)


@every_problem
def test_shares_of_a_check_add_up(make):
    problem = make()
    service, n = begin(problem), problem.n_blocks
    service.take(solve_blocks(service, range(n)))
    state, kernels, work = service.state, service.kernels, problem.work()
    atom = np.zeros(problem.atom_size, problem.start.dtype)
    current, exact = np.zeros(1, np.int64), exact_v(problem, state)
    shared = exact.astype(problem.shared.dtype)
    whole = kernels.oracle_values(
        problem.data, shared, exact, state.blocks, 0, n, atom, current, work,
        np.zeros(0), 0.0,
    )  # fmt: skip
    vs = exact, shared, problem.store.outline(problem)
    parts = [
        kernels.bound_blocks(problem.data, *vs, a, b, atom, current, work)
        for a, b in ((0, 5), (5, 6), (6, n))
    ]
    assert abs(sum(parts) - whole) < 1e-12 * (1 + abs(whole))


def test_chunks_and_minibatches_by_default():
    assert choose_chunk(1e-3, 8, 10_000) == (20, 2)  # 20 ms
    assert choose_chunk(1e-3, 100, 10**6) == (100, 2)  # the server must keep up
    assert choose_chunk(1e-3, 8, 1000) == (15, 2)  # a quarter of a pass on its way
    assert choose_chunk(0.1, 8, 1000) == (1, 2)
    assert choose_chunk(1e-6, 4, 626) == (39, 1)  # no second one: v would be older
    assert choose_chunk(1.0, 100, 3) == (1, 2)
    options = SimpleNamespace(asked=None, accelerate=True)
    assert choose(chain(), "auto", options, 1e-6, 4)[0] == 1
    assert choose_chunk(1e-6, 2, 626, ACCELERATED_SHARE) == (9, 1)  # 3 % of a pass
    assert choose_chunk(1e-6, 50, 626, ACCELERATED_SHARE) == (1, 1)  # a block each
    assert choose_tau(lasso(), 8, 10) == 1  # few rows a block
    assert choose_tau(spy.make(), 8, 10) == 1
    large = spy.make(n=40, d=2**18, m=2)
    assert choose_tau(large, 2, 3) == 6
    assert choose_tau(large, 2, 100) == 8

"""x kept as weights of parts: the same optima, B x = b, flat lists, and its files."""

import dataclasses

import matching
import numpy as np
import pytest
from helpers import advance, begin_run, dense_chain, labelings, random_chains

import wolfpack
from wolfpack import (
    Delayed,
    ProblemError,
    Serial,
    State,
    StateError,
    Sync,
    Threads,
    delays,
    solve,
)
from wolfpack.stores import parts

K = 3
ENGINES = [
    Serial(),
    Threads(2),
    Threads(2, "server"),
    Threads(2, "server", line_search="workers"),
    Threads(2, "lock-free"),
    Sync(2),
    Delayed(delays.poisson(4)),
    Delayed(workers=delays.Workers(3)),
]


def chains(keeps="parts", n=24, lengths=(1, 2, 3, 5), **how):
    X, y = random_chains(np.random.default_rng(3), n, K, list(lengths), unit=False)
    return wolfpack.chain_ssvm(X, y, 0.05, n_labels=K, keeps=keeps, **how), X, y


def flows(problem, state):
    """Return, of each sequence, (T, K, K) weights of transitions, as they are kept."""
    bits, lists, found = 2, state.blocks.lists, []
    for i, length in enumerate(np.diff(problem.offsets)):
        place = lists.place[i]
        here = slice(place.slot, place.slot + place.count)
        part, weight = lists.atoms[here], lists.weights[here]
        assert (np.diff(part) > 0).all()
        assert (weight > 0).all()
        assert (weight <= 1).all()
        flow = np.zeros((length, K, K))
        flow[part >> 2 * bits, (part >> bits) & 3, part & 3] = weight
        assert not flow[0, 1:].any()
        found.append(flow)
    return found


def worst_flow(problem, state):
    """Return by how much B x misses b at most."""
    worst = 0.0
    for flow in flows(problem, state):
        at = flow.sum(axis=1)  # (T, K): the weight of each label
        worst = max(worst, np.abs(at.sum(axis=1) - 1).max())
        if len(flow) > 1:
            worst = max(worst, np.abs(flow[1:].sum(axis=2) - at[:-1]).max())
    return worst


def v_of_flows(problem, X, y, state):
    """Return A x, from the flows alone, and <c, x>."""
    n, p, alpha = len(X), X[0].shape[1], problem.ridge
    table, linear = np.zeros((p + 3 + K, K)), 0.0
    for x, labels, flow in zip(X, y, flows(problem, state), strict=True):
        at = np.eye(K)[labels] - flow.sum(axis=1)  # of the right labels, minus x
        table[:p] += x.T @ at
        table[p] += at.sum(axis=0)
        table[p + 1] += at[0]
        table[p + 2] += at[-1]
        right = np.zeros((K, K))
        np.add.at(right, (labels[:-1], labels[1:]), 1.0)
        table[p + 3 :] += right - flow[1:].sum(axis=0)
        linear -= at[np.arange(len(x)), labels].sum() / len(x) / n
    return table / (alpha * n), linear


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("engine", ENGINES, ids=repr)
def test_v_and_the_flow_are_right_on_every_engine(engine, accelerate):
    if accelerate and engine.acceleration == "never":
        pytest.skip("plain steps only")
    problem, X, y = chains()
    how = {"engine": engine, "accelerate": accelerate, "rng": 0, "tol": 0}
    result = solve(problem, max_epochs=40, **how)
    state = result.state
    assert worst_flow(problem, state) < 1e-10
    v, linear = v_of_flows(problem, X, y, state)
    f = 0.5 * problem.ridge * np.square(v).sum() + linear
    if state.outer is not None:  # x may have run away above f = 0 at the start
        f = min(f, 0.0)
    assert result.objective == pytest.approx(f, abs=1e-6)
    if state.outer is None:
        np.testing.assert_allclose(state.shared[:, :K], v, atol=2e-5 * np.abs(v).max())


@pytest.mark.parametrize("engine", ENGINES, ids=repr)
def test_the_certificate_brackets_the_optimum_of_chains(engine):
    problem, X, y = chains(n=12, lengths=(1, 2, 3))
    best = optimum_of(X, y)
    is_sure = "lock-free" not in repr(engine) and "workers" not in repr(engine)
    how = {"engine": engine, "tol": 1e-3, "max_epochs": 2000, "rng": 0}
    result = solve(problem, accelerate=is_sure, **how)
    slack = 1e-6
    assert result.lower_bound - slack <= best <= result.objective + slack
    assert result.converged or not is_sure


def optimum_of(X, y):
    import cvxpy as cp

    dense = dense_chain(X, y, 0.05, K)
    x = [cp.Variable(len(c), nonneg=True) for c in dense.c]
    v = sum(A @ z for A, z in zip(dense.A, x, strict=True))
    linear = sum(c @ z for c, z in zip(dense.c, x, strict=True))
    f = 0.025 * cp.sum_squares(v) + linear
    return float(
        cp.Problem(cp.Minimize(f), [cp.sum(z) == 1 for z in x]).solve(cp.CLARABEL)
    )


def test_a_serial_run_makes_the_steps_of_one_that_keeps_atoms():
    kept, atoms = (chains(keeps=keeps)[0] for keeps in ("parts", "atoms"))
    how = {"rng": 0, "tol": 0, "max_epochs": 5, "accelerate": False}
    one, other = solve(kept, **how), solve(atoms, **how)
    assert one.objective == pytest.approx(other.objective, rel=1e-4)
    assert one.gap == pytest.approx(other.gap, rel=1e-3)


@pytest.mark.parametrize("losses", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_check_holds_parts_against_labellings(unit, losses):
    rng = np.random.default_rng(0)
    X, y = random_chains(rng, 9, K, [1, 4, 6], unit=unit)
    how = {"loss": (1 - np.eye(K)) * [[1, 2, 3]]} if losses else {}
    problem = wolfpack.chain_ssvm(X, y, 0.1, n_labels=K, keeps="parts", **how)
    dataclasses.replace(problem).check()


def test_a_problem_of_a_user_is_solved_to_its_optimum():
    problem = matching.make()
    best = matching.optimum(problem)
    result = solve(problem, tol=1e-4, max_epochs=5000, rng=0)
    assert result.converged
    assert result.lower_bound - 1e-7 <= best <= result.objective + 1e-7
    x = matching.points(result.state)
    v = np.einsum("iab,iabk->k", x, problem.data.features.reshape(*x.shape, -1))
    np.testing.assert_allclose(result.state.shared, v, atol=1e-9)


def test_after_many_moves_rows_and_columns_still_sum_to_one():
    problem = matching.make(n=10)
    run = begin_run(problem)
    advance(run, 100_000)
    run.close()
    x = matching.points(run.state)
    np.testing.assert_allclose(x.sum(axis=1), 1, atol=1e-10)
    np.testing.assert_allclose(x.sum(axis=2), 1, atol=1e-10)


def test_after_many_moves_the_flow_still_flows():
    problem = chains(n=8)[0]
    run = begin_run(problem)
    advance(run, 100_000)
    run.close()
    assert worst_flow(problem, run.state) < 1e-10


def test_lists_do_not_grow_with_the_number_of_visits():
    rng = np.random.default_rng(0)
    y = [rng.integers(8, size=60) for _ in range(20)]
    X = [np.eye(8)[labels] + 0.5 * rng.normal(size=(60, 8)) for labels in y]
    grown = {}
    for keeps in ("auto", "atoms"):
        problem = wolfpack.chain_ssvm(X, y, 1e-2, keeps=keeps)
        how = {"tol": 0, "accelerate": False, "rng": 0}
        early = solve(problem, max_epochs=40, **how)
        late = solve(problem, max_epochs=200, start=early.state, **how)
        grown[late.state.keeps] = early.state.nbytes, late.state.nbytes
    assert set(grown) == {"parts", "atoms"}  # parts are the default for long sequences
    assert grown["parts"][1] < 1.6 * grown["parts"][0]
    assert grown["parts"][1] < 0.6 * grown["atoms"][1]


def test_a_part_at_which_all_agree_is_no_part_of_a_move():
    problem = chains()[0]
    blocks = problem.store.create(problem, 1)
    loops, data = problem.kernels(), problem.data
    start = problem.start[problem.offsets[3] : problem.offsets[4]].copy()
    move = loops.towards(data, blocks, 3, start)
    assert move.parts.size == 0
    other = start.copy()
    other[0] = (other[0] + 1) % K
    for gamma in (0.3, 1.0 - 1e-13):  # rounding is all that is left of it
        loops.shift(data, blocks, 3, other, gamma)
    assert loops.towards(data, blocks, 3, other).parts.size == 0


@pytest.mark.parametrize("theta", [0.0, 0.4, 1.0])
def test_a_draft_blends_exactly(theta):
    problem, rng = chains()[0], np.random.default_rng(0)
    loops, data, store = problem.kernels(), problem.data, problem.store
    blocks, other = store.create(problem, 2), store.create(problem, 2)
    draft = store.make_draft(blocks, 2)

    def x(held, i):
        place, dense = held.lists.place[i], np.zeros(2**10)
        here = slice(place.slot, place.slot + place.count)
        dense[held.lists.atoms[here]] = held.lists.weights[here]
        return dense

    for _ in range(20):
        for k, i in enumerate(rng.choice(problem.n_blocks, 2, replace=False)):
            before = x(blocks, i)
            other = store.unpack(store.pack(blocks), problem, 1)
            loops.begin_draft(blocks, draft, k, i)
            for gamma in rng.choice([0.2, 0.6, 1.0], 2):
                size = int(np.diff(problem.offsets)[i])
                atom = rng.integers(K, size=size).astype(np.uint8)
                loops.shift_draft(data, blocks, draft, k, i, atom, gamma)
                loops.shift(data, other, i, atom, gamma)
                np.testing.assert_array_equal(x(blocks, i), before)
            expected = before + theta * (x(other, i) - before)
            loops.blend(blocks, draft, k, i, theta)
            np.testing.assert_allclose(x(blocks, i), expected, atol=1e-12)


# States.


def test_a_run_resumes_bit_for_bit(tmp_path):
    problem = chains()[0]
    how = {"tol": 0, "rng": 0, "accelerate": True}
    whole = solve(problem, max_epochs=30, **how)
    half = solve(problem, max_epochs=15, **how)
    path = half.state.save(tmp_path / "half")
    again = solve(problem, max_epochs=30, start=State.load(path), **how)
    np.testing.assert_array_equal(again.state.shared, whole.state.shared)
    packs = (parts.pack(one.state.blocks) for one in (again, whole))
    for one, other in zip(*map(dict.values, packs), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_state_of_atoms_goes_on_as_parts(tmp_path):
    atoms, kept = chains(keeps="atoms")[0], chains(keeps="parts")[0]
    first = solve(atoms, max_epochs=20, tol=0, rng=0)
    state = State.load(first.state.save(tmp_path / "old"))
    same = solve(kept, start=state, max_epochs=0, tol=0)
    assert same.objective == pytest.approx(first.objective, abs=1e-6)
    after = solve(kept, start=state, max_epochs=40, tol=0, rng=0)
    assert after.state.keeps == "parts"
    assert after.gap < first.gap


def test_what_is_drawn_back_and_appended_is_right():
    problem, X, y = chains()
    result = solve(problem, max_epochs=10, tol=0, rng=0, accelerate=False)
    back = result.state.drawn_back(problem, 0.25)
    assert worst_flow(problem, back) < 1e-12
    v, _ = v_of_flows(problem, X, y, back)
    np.testing.assert_allclose(4 * v, result.state.shared[:, :K], atol=1e-3)
    few = wolfpack.chain_ssvm(X[:20], y[:20], 0.05, n_labels=K, keeps="parts")
    state = solve(few, max_epochs=10, tol=0, rng=0).state
    more = solve(problem, start=state, max_epochs=30, tol=0, rng=0)
    assert worst_flow(problem, more.state) < 1e-10


def edited(path, **changes):
    with np.load(path) as file:
        arrays = dict(file)
    for name, edit in changes.items():
        arrays[f"block_{name}"] = edit(arrays[f"block_{name}"].copy())
    np.savez(path, **arrays)
    return path


def raised(place, number):
    def edit(array):
        array[place] += number
        return array

    return edit


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parts": raised(1, 2**20)}, "outside its feasible set|do not ascend"),
        ({"parts": raised(-1, 2**20)}, "outside its feasible set"),
        ({"parts": raised(0, -(2**30))}, "do not fit their weights"),
        ({"weights": raised(2, -0.01)}, "outside its feasible set"),
        ({"weights": raised(2, 1.0)}, r"lies outside \[0, 1\]"),
        ({"counts": raised(0, 1)}, "parts that are not there"),
        ({"weights": lambda w: w * np.nan}, "outside|NaN"),
    ],
)
@pytest.mark.parametrize("make", [lambda: chains()[0], matching.make])
def test_an_edited_file_is_refused(tmp_path, make, changes, message):
    problem = make()
    state = solve(problem, max_epochs=3, tol=0, rng=0).state
    path = edited(state.save(tmp_path / "state"), **changes)
    with pytest.raises(StateError, match=message):
        solve(problem, start=State.load(path), max_epochs=1)


# What a user reads, and is told.


def test_x_can_be_read():
    kept, atoms = chains()[0], chains(keeps="atoms")[0]
    one, other = (solve(p, max_epochs=5, tol=0, rng=0) for p in (kept, atoms))
    part, weight = one.parts(-1)
    assert part.size == weight.size > 0
    assert weight.sum() == pytest.approx(np.diff(kept.offsets)[-1])  # one a position
    weights, labellings = other.atoms(7)
    assert labellings.shape == (len(weights), np.diff(atoms.offsets)[7])
    assert weights.sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="x is kept as parts, which have no atoms"):
        one.atoms(0)
    signal = wolfpack.group_fused_lasso(np.arange(6.0)[:, np.newaxis], 0.1)
    weights, points = solve(signal, max_epochs=5).atoms(2)
    assert points.shape == (1, 1)
    assert weights.tolist() == [1.0]


def test_what_is_missing_is_named():
    with pytest.raises(ProblemError, match="keeps='parts' needs score_parts"):
        matching.make(score_parts=None).check()
    with pytest.raises(ProblemError, match="keeps must be"):
        dataclasses.replace(matching.make("atoms"), keeps="tables").check()
    with pytest.raises(ProblemError, match="needs offsets"):
        dataclasses.replace(matching.make(), offsets=None).check()
    with pytest.raises(ValueError, match="keeps must be"):
        chains(keeps="nothing")


def test_wrong_functions_of_parts_are_found():
    import numba

    @numba.njit
    def twice(data, i, parts, weights, scale, out):
        return matching.add_parts(data, i, parts, weights, 2 * scale, out)

    @numba.njit
    def late(data, i, atom, parts):
        return matching.parts_of(data, i, atom, parts) - 1

    @numba.njit
    def backwards(data, i, atom, parts):
        count = matching.parts_of(data, i, atom, parts)
        parts[:count] = parts[:count][::-1].copy()
        return count

    for wrong in ({"add_parts": twice}, {"parts_of": late}, {"parts_of": backwards}):
        with pytest.raises(ProblemError):
            matching.make(**wrong).check()


def test_labels_too_many_for_the_number_of_a_part_are_kept_as_atoms():
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(9000, 1))], [rng.integers(300, size=9000)]
    assert wolfpack.chain_ssvm(X, y, 0.1).store_name == "atoms"
    with pytest.raises(ValueError, match="numbers the transitions"):
        wolfpack.chain_ssvm(X, y, 0.1, keeps="parts")
    assert len(labelings(2, 2)) == 4

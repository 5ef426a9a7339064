"""The chain SVM against brute force over all labellings, and on the OCR words."""

import itertools
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import (
    advance,
    begin_run,
    chain_primal,
    chain_v,
    chain_x,
    dense_chain,
    labelings,
    random_chains,
    read_labels,
)

import wolfpack
from wolfpack.datasets import load_ocr
from wolfpack.engines.cluster import service
from wolfpack.problems import chain

# Both sides of every width of a vector: 8, 16, 32, 64, more than 64, more than a byte.
SIZES = [(1, True), (2, False), (5, True), (8, False), (9, True), (17, False)]
SIZES += [(26, True), (33, True), (70, False), (300, True)]


def lengths(n_labels):
    """As long as 20 000 labellings allow, 4 at most."""
    return [t for t in (1, 2, 3, 4) if n_labels**t <= 20_000] or [1]


def case(n_labels, unit, seed=0, n=6, **how):
    rng = np.random.default_rng(seed)
    allowed = [1, 2] if n_labels == 300 else lengths(n_labels)
    X, y = random_chains(rng, n, n_labels, allowed, unit=unit)
    problem = wolfpack.chain_ssvm(X, y, 0.3, n_labels=n_labels, **how)
    return X, y, problem


def max_score(scores, transitions):
    """The best total of a chain by plain dynamic programming, for n_labels = 300."""
    best = scores[0]
    for row in scores[1:]:
        best = (best[:, None] + transitions).max(axis=0) + row
    return best.max()


@pytest.mark.parametrize(("n_labels", "unit"), SIZES)
def test_the_oracle_is_the_best_of_all_labellings(n_labels, unit):
    for seed, normalize in ((0, True), (1, False)):
        X, y, problem = case(n_labels, unit, seed, normalize=normalize)
        rng = np.random.default_rng(seed)
        v = problem.shared
        v[:, :n_labels] = rng.normal(size=(len(v), n_labels))
        parts = chain.unpack_weights(v, X[0].shape[1], n_labels)
        work = problem.work()
        atom = np.zeros(problem.atom_size, problem.start.dtype)
        for i, (x, truth) in enumerate(zip(X, y, strict=True)):
            length = len(truth)
            least = problem.oracle(problem.data, v, i, atom, work)
            score = problem.score(problem.data, v, i, atom)
            unary = x @ parts.features.T + parts.bias
            unary[0] += parts.first
            unary[-1] += parts.last

            def total(labels, unary=unary, parts=parts, truth=truth, norm=normalize):
                steps = itertools.pairwise(labels)
                moves = sum(parts.transitions[a, b] for a, b in steps)
                wrong = sum(a != b for a, b in zip(labels, truth, strict=True))
                loss = wrong / (len(truth) if norm else 1)
                return unary[range(len(truth)), labels].sum() + moves + loss

            if n_labels < 300:
                best = max(map(total, labelings(n_labels, length)))
            else:
                cost = 1 / length if normalize else 1.0
                augmented = unary + cost * (np.arange(n_labels) != truth[:, None])
                best = max_score(augmented, parts.transitions)
            expected = -(best - total(tuple(truth))) / len(X)
            assert least == pytest.approx(expected, abs=1e-5)
            assert score == pytest.approx(least, abs=1e-5)
            assert -(total(tuple(atom[:length].tolist())) - total(tuple(truth))) / len(
                X
            ) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("n_labels", "unit"), [(3, True), (3, False), (9, False)])
@pytest.mark.parametrize("normalize", [True, False])
def test_add_and_score_are_the_columns_of_a(n_labels, unit, normalize):
    weight = np.array([1.0, 2, 0, 1, 5, 1])
    how = {"normalize": normalize}
    X, y, problem = case(n_labels, unit, sample_weight=weight, **how)
    dense = dense_chain(X, y, 0.3, n_labels, weight=weight, **how)
    rng = np.random.default_rng(1)
    v = problem.shared
    v[:, :n_labels] = rng.normal(size=(len(v), n_labels))
    gradient = dense.H @ chain_v(v, n_labels)
    for i, truth in enumerate(y):
        for labels in labelings(n_labels, len(truth))[::7]:
            atom = np.zeros(problem.atom_size, problem.start.dtype)
            atom[: len(labels)] = labels
            column = read_labels(labels, n_labels)
            out = np.zeros(v.shape)
            linear = problem.add(problem.data, i, atom, 0.5, out)
            expected = 0.5 * dense.A[i][:, column]
            np.testing.assert_allclose(chain_v(out, n_labels), expected, atol=1e-6)
            assert not out[:, n_labels:].any()
            assert linear == pytest.approx(0.5 * dense.c[i][column], abs=1e-7)
            score = dense.A[i][:, column] @ gradient + dense.c[i][column]
            found = problem.score(problem.data, v, i, atom)
            assert found == pytest.approx(score, abs=1e-5)


def random_blocks(rng, problem, n_labels):
    """A store in which each sequence has a few labellings with random weights."""
    parts = {"counts": [], "weights": [], "atoms": []}
    for length in np.diff(problem.offsets):
        every = np.array(labelings(n_labels, length))
        some = every[rng.choice(len(every), min(len(every), 3), replace=False)]
        parts["counts"].append(len(some))
        parts["weights"].extend(rng.dirichlet(np.ones(len(some))))
        parts["atoms"].extend(some.ravel())
    parts["atoms"] = np.array(parts["atoms"], problem.start.dtype)
    arrays = {name: np.asarray(part) for name, part in parts.items()}
    return problem.store.unpack(arrays, problem, 1)


@pytest.mark.parametrize("unit", [True, False])
def test_the_fused_step_is_add_and_score_along_s_minus_x(unit):
    n_labels = 4
    X, y, problem = case(n_labels, unit, n=8)
    dense = dense_chain(X, y, 0.3, n_labels)
    rng = np.random.default_rng(0)
    work, atom = problem.work(), np.zeros(problem.atom_size, problem.start.dtype)
    v = problem.shared.copy()
    for _ in range(12):
        blocks = random_blocks(rng, problem, n_labels)
        x = chain_x(SimpleNamespace(offsets=problem.offsets, blocks=blocks), n_labels)
        v[:, :n_labels] = dense.v(x).reshape(-1, n_labels)
        for i in range(len(X)):
            problem.oracle(problem.data, v, i, atom, work)
            move = problem.store.towards(problem.data, blocks, i, atom)
            args = problem.data, i, move
            problem.prepare(*args, work)
            down = problem.rate(problem.data, v, i, move, work, True)
            again = problem.rate(problem.data, v, i, move, work, False)
            length = len(y[i])
            s = np.eye(n_labels**length)[read_labels(atom[:length], n_labels)]
            change = dense.A[i] @ (s - x[i])
            slope = dense.gradient(x, i) @ (s - x[i])
            assert down == pytest.approx(slope, abs=1e-5)
            assert again == pytest.approx(slope, abs=1e-5)
            out = np.zeros(v.shape)
            linear = problem.spread(*args, 0.7, out, work)
            np.testing.assert_allclose(chain_v(out, n_labels), 0.7 * change, atol=1e-5)
            assert linear == pytest.approx(0.7 * dense.c[i] @ (s - x[i]), abs=1e-6)
            bend = problem.curvature(*args, work)
            assert bend == pytest.approx(0.3 * change @ change, abs=1e-5)


@pytest.mark.parametrize("most_rows", [0, 1000])
def test_the_oracle_stands_that_v_changes_meanwhile(most_rows, monkeypatch):
    monkeypatch.setattr(chain, "MAX_DENSE_ROWS", most_rows)  # 0: transitions are copied
    X, y = random_chains(np.random.default_rng(0), 40, 20, [30])
    problem = wolfpack.chain_ssvm(X, y, 0.3, n_labels=20)
    data, loops, work = problem.data, problem.kernels((service,)), problem.work()
    rng = np.random.default_rng(1)
    v = rng.normal(size=problem.shared.shape).astype(problem.shared.dtype)
    blocks, current = np.arange(40), np.zeros(1, np.int64)
    quiet, atoms = (
        np.zeros((40, problem.atom_size), problem.start.dtype) for _ in range(2)
    )
    outline = problem.store.outline(problem)
    loops.solve_chunk(data, v, outline, blocks, quiet, current, work)
    # Transitions go to and fro by 1e-4, as if other workers moved them.
    steps, before, over = v[data.first_transition :], v.copy(), threading.Event()
    stands = steps.copy()

    def disturb():
        while not over.is_set():
            steps[:] = stands + np.float32(1e-4)
            steps[:] = stands

    other = threading.Thread(target=disturb)
    other.start()
    try:
        for _ in range(300):
            loops.solve_chunk(data, v, outline, blocks, atoms, current, work)
            for i in blocks:
                best, found = (
                    problem.score(data, before, i, a[i]) * 40 for a in (quiet, atoms)
                )
                assert found <= best + 30 * 4e-4
    finally:
        over.set()
        other.join()


def test_dense_and_sparse_features_give_the_same_problem():
    X, y, problem = case(5, False)
    for convert in (sp.csr_matrix, sp.csr_array, sp.coo_matrix, list):
        other = wolfpack.chain_ssvm([convert(x) for x in X], y, 0.3, n_labels=5)
        assert other.fingerprint == problem.fingerprint
    float32 = wolfpack.chain_ssvm([x.astype(np.float32) for x in X], y, 0.3, n_labels=5)
    assert float32.fingerprint == problem.fingerprint
    another = wolfpack.chain_ssvm([2 * x for x in X], y, 0.3, n_labels=5)
    assert another.fingerprint != problem.fingerprint


def test_explicit_zeros_and_duplicates_of_sparse_features():
    X, y, problem = case(5, True)
    odd = []
    for x in X:
        row, column = np.nonzero(x)
        values = np.concatenate([x[row, column] / 2, x[row, column] / 2, [0.0]])
        row, column = np.r_[row, row, 0], np.r_[column, column, 3]
        odd.append(sp.coo_matrix((values, (row, column)), shape=x.shape))
    assert (
        wolfpack.chain_ssvm(odd, y, 0.3, n_labels=5).fingerprint == problem.fingerprint
    )


def test_integer_weights_are_repeated_sequences():
    X, y = random_chains(np.random.default_rng(5), 5, 3, [1, 2, 3])
    weight = [2, 1, 3, 0, 1]
    times = np.repeat(range(5), weight)
    one = wolfpack.chain_ssvm(X, y, 0.1, n_labels=3, sample_weight=weight)
    two = wolfpack.chain_ssvm(
        [X[i] for i in times], [y[i] for i in times], 0.1, n_labels=3
    )
    how = {"tol": 0, "max_epochs": 3000, "rng": 0}
    one, two = wolfpack.solve(one, **how), wolfpack.solve(two, **how)
    assert max(one.gap, two.gap) < 2e-3  # and the minimum lies in both brackets:
    assert one.lower_bound <= two.objective
    assert two.lower_bound <= one.objective
    for a, b in zip(one.solution, two.solution, strict=True):
        np.testing.assert_allclose(a, b, atol=0.2)  # alpha/2 |w - w*|^2 <= gap
    ten = wolfpack.chain_ssvm(
        X, y, 0.1, n_labels=3, sample_weight=np.multiply(10, weight)
    )
    assert wolfpack.solve(ten, **how).objective == one.objective


def iterates(problem, tau, n_labels):
    run = begin_run(problem, tau)
    values = []
    for _ in range(20):
        advance(run)
        values.append(chain_v(run.state.shared, n_labels))
        values.append(np.concatenate(chain_x(run.state, n_labels)))
    return values


@pytest.mark.parametrize(
    "limits",
    [
        ("MAX_GRAM", "MAX_DENSE_ROWS"),
        pytest.param(("MAX_GRAM",), marks=pytest.mark.slow),
    ],
)
def test_other_layouts_make_the_same_updates(limits, monkeypatch):
    X, y, problem = case(4, True, n=9)
    for name in limits:
        monkeypatch.setattr(chain, name, 0)
    other = case(4, True, n=9)[2]
    assert other.curvature is None
    assert (other.touched is not None) == ("MAX_DENSE_ROWS" in limits)
    for tau in (1, 3):
        expected = iterates(problem, tau, 4)
        for a, b in zip(iterates(other, tau, 4), expected, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)
    dense = dense_chain(X, y, 0.3, 4)
    result = wolfpack.solve(other, tol=3e-3, max_epochs=500, rng=0, averaging=True)
    assert result.converged
    primal = chain_primal(dense, chain_v(result.state.shared, 4))
    assert -result.lower_bound <= primal + 1e-5
    assert -result.objective == pytest.approx(
        -dense.f(chain_x(result.state, 4)), abs=1e-5
    )


def test_weights_survive_packing():
    _, _, problem = case(5, True)
    rng = np.random.default_rng(0)
    v = np.zeros_like(problem.shared)
    v[:, :5] = rng.normal(size=(len(v), 5))
    weights = chain.unpack_weights(v, 4, 5)
    assert weights.features.shape == (5, 4)
    assert weights.transitions.shape == (5, 5)
    np.testing.assert_array_equal(chain.pack_weights(weights, v.shape[1]), v)


# Input that cannot be used.

GOOD_X = [np.ones((2, 3)), np.ones((1, 3))]
GOOD_Y = [np.array([0, 1]), np.array([1])]
BAD = {
    "empty": (([], []), {}, "X is empty"),
    "more X": ((GOOD_X, GOOD_Y[:1]), {}, "X has 2 sequences and y has 1"),
    "ragged": (([[[1, 2], [1]], [[1, 2]]], GOOD_Y), {}, r"X\[0\] is ragged"),
    "one-dimensional": (
        ([np.ones(2), np.ones(1)], GOOD_Y),
        {},
        r"X\[0\] must have shape",
    ),
    "no position": (([np.ones((0, 3))], [[]]), {}, r"X\[0\] must have shape"),
    "text": (([np.array([["a"], ["b"]])], [[0, 1]]), {}, "numeric"),
    "columns": (
        ([np.ones((2, 3)), np.ones((1, 4))], GOOD_Y),
        {},
        r"X\[1\] has 4 features",
    ),
    "NaN": (([GOOD_X[0], GOOD_X[1] * np.nan], GOOD_Y), {}, r"X\[1\] holds NaN"),
    "infinity": (
        ([GOOD_X[0] * np.inf, GOOD_X[1]], GOOD_Y),
        {},
        r"X\[0\] holds NaN or inf",
    ),
    "sparse NaN": (
        ([sp.csr_matrix(GOOD_X[0]), sp.csr_matrix(GOOD_X[1] * np.nan)], GOOD_Y),
        {},
        r"X\[1\] holds NaN",
    ),
    "lengths": (
        (GOOD_X, [np.array([0]), np.array([1])]),
        {},
        r"X\[0\] has 2 positions",
    ),
    "floats": ((GOOD_X, [np.array([0.0, 1]), np.array([1.0])]), {}, "must be integers"),
    "negative label": (
        (GOOD_X, [np.array([0, -1]), np.array([1])]),
        {},
        "reach from -1",
    ),
    "label too large": ((GOOD_X, GOOD_Y), {"n_labels": 1}, r"lie in 0 \.\.\. 0, but"),
    "alpha negative": (
        (GOOD_X, GOOD_Y),
        {"alpha": -1.0},
        "alpha must be a finite number > 0",
    ),
    "alpha zero": (
        (GOOD_X, GOOD_Y),
        {"alpha": 0.0},
        "alpha must be a finite number > 0",
    ),
    "alpha NaN": (
        (GOOD_X, GOOD_Y),
        {"alpha": np.nan},
        "alpha must be a finite number > 0",
    ),
    "weights": ((GOOD_X, GOOD_Y), {"sample_weight": [1.0]}, r"must have shape \(2,\)"),
    "weight negative": ((GOOD_X, GOOD_Y), {"sample_weight": [1, -1]}, "finite, >= 0"),
    "weight NaN": ((GOOD_X, GOOD_Y), {"sample_weight": [1, np.nan]}, "finite, >= 0"),
    "weights zero": ((GOOD_X, GOOD_Y), {"sample_weight": [0, 0]}, "not all 0"),
}


@pytest.mark.parametrize(("given", "how", "message"), BAD.values(), ids=BAD)
def test_bad_input(given, how, message):
    with pytest.raises(ValueError, match=message) as caught:
        wolfpack.chain_ssvm(*given, **({"alpha": 0.1} | how))
    assert "\n" not in str(caught.value)


# The OCR words: optima found by an independent solver, shared/facts.md section 1.

FOLD = (0,)


@pytest.mark.parametrize(
    ("folds", "alpha", "primal", "dual", "tol", "epochs"),
    [
        (FOLD, 0.01, 0.1650298089, 0.1650297363, 1e-2, 1000),
        (FOLD, 1.0, 0.7303991688, 0.7303990740, 1e-3, 1000),
        pytest.param(
            FOLD, 0.01, 0.1650298089, 0.1650297363, 1e-3, 9000, marks=pytest.mark.slow
        ),
        pytest.param(
            FOLD,
            1 / 626,
            0.0490815819,
            0.0490815254,
            1e-3,
            40_000,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            None, 0.01, 0.3822171830, 0.3822170966, 1e-3, 400, marks=pytest.mark.slow
        ),
        pytest.param(
            None, 1.0, 0.7782216391, 0.7782215508, 1e-3, 400, marks=pytest.mark.slow
        ),
    ],
)
def test_ocr(folds, alpha, primal, dual, tol, epochs, data_home):
    words = load_ocr(folds, data_home)
    problem = wolfpack.chain_ssvm(words.X, words.y, alpha)
    result = wolfpack.solve(problem, tol=tol, max_epochs=epochs, rng=0)
    assert problem.scale == pytest.approx(1.0)
    assert result.converged
    assert result.gap <= tol
    rounding = 1e-5  # v is kept in single precision
    assert -result.objective <= primal + rounding
    assert -result.lower_bound >= dual - rounding
    assert max(row.drift for row in result.trace) < 1e-4

"""The multilabel SVM against enumeration, cvxpy and LIBLINEAR."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_selection import mutual_info_classif
from sklearn.svm import LinearSVC

import wolfpack
from wolfpack import Threads, multilabel_svm
from wolfpack.checks import problem as check
from wolfpack.problems.label_sets import (
    all_pairs,
    best_sets,
    make_structure,
    spanning_tree,
)

WAYS = {
    "full": {"pairs": "full"},
    "tree": {"pairs": "tree"},
    "none": {"pairs": None},
    "observed": {"pairs": "full", "candidates": "observed"},
    "observed tree": {"pairs": "tree", "candidates": "observed"},
}
ALPHA = 0.05


def sets_of(K):
    return np.array(list(itertools.product([0, 1], repeat=K)))


def set_scores(sets, scores, edges, pairs):
    """The score of every set for every example."""
    both = sets[:, edges[:, 0]] * sets[:, edges[:, 1]]
    return scores @ sets.T + both @ pairs


def examples(n=24, p=4, K=4, seed=0):
    """Labels that depend on x, and on each other: the last is often the first."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    Y = (X @ rng.normal(size=(p, K)) + rng.normal(size=(n, K)) > 0.3).astype(int)
    Y[:, -1] = np.where(rng.random(n) < 0.8, Y[:, 0], 1 - Y[:, 0])
    return X, Y


def parts(w, X, Y):
    """Return what the primal is made of: |w|^2, and the hinge loss of each example."""
    sets = sets_of(Y.shape[1]) if w.candidates is None else w.candidates
    scores = X @ w.labels.T
    loss = (Y[:, None] != sets[None]).sum(axis=2)
    best = (set_scores(sets, scores, w.edges, w.pairs) + loss).max(axis=1)
    right = [
        set_scores(y[None], s[None], w.edges, w.pairs)[0, 0]
        for y, s in zip(Y, scores, strict=True)
    ]
    return np.square(w.labels).sum() + np.square(w.pairs).sum(), best - right


def primal(w, X, Y, alpha, weight=None):
    size, hinge = parts(w, X, Y)
    return 0.5 * alpha * size + np.average(hinge, weights=weight)


def reference(X, Y, alpha, edges, sets):
    """The optimal value, by an interior point method on the primal."""
    w, u = cp.Variable((Y.shape[1], X.shape[1])), cp.Variable(max(len(edges), 1))
    both = sets[:, edges[:, 0]] * sets[:, edges[:, 1]]
    both = both if len(edges) else np.zeros((len(sets), 1))
    hinge = 0
    for x, y in zip(X, Y, strict=True):
        own = np.flatnonzero((sets == y).all(axis=1))[0]
        loss = np.abs(sets - y).sum(axis=1)
        hinge += cp.max((sets - y) @ (w @ x) + (both - both[own]) @ u + loss)
    size = cp.sum_squares(w) + cp.sum_squares(u)
    goal = cp.Minimize(0.5 * alpha * size + hinge / len(X))
    return cp.Problem(goal).solve(solver=cp.CLARABEL)


@st.composite
def searches(draw):
    """A structure, and scores on a grid of numbers that floats add exactly."""
    K = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["none", "tree", "full", "listed"]))
    edges = np.column_stack(np.triu_indices(K, 1))
    if kind == "none":
        edges = edges[:0]
    elif kind == "tree":  # parents first, in an order of its own
        order = rng.permutation(K)
        parents = [order[rng.integers(k)] for k in range(1, K)]
        edges = np.column_stack([np.array(parents, int), order[1:]])
        edges = edges[np.sort(rng.permutation(K - 1)[: rng.integers(K)])]
    sets, scale = sets_of(K), draw(st.sampled_from([1, 8, 64]))
    candidates = None
    if kind == "listed":
        candidates = sets[rng.permutation(len(sets))[: rng.integers(1, len(sets) + 1)]]
        sets = candidates
    scores = rng.integers(-16, 17, (3, K)) / scale
    pairs = rng.integers(-16, 17, len(edges)) / scale
    return make_structure(K, edges, candidates), sets, edges, scores, pairs


@settings(max_examples=150, deadline=None)
@given(searches())
def test_the_search_finds_the_best_set(found):
    structure, sets, edges, scores, pairs = found
    labels, margins = best_sets(structure, scores, pairs, margins=True)
    every = set_scores(sets, scores, edges, pairs)
    for i, row in enumerate(every):
        assert (sets == labels[i]).all(axis=1).any()
        own = set_scores(labels[i : i + 1], scores[i : i + 1], edges, pairs)[0, 0]
        assert own == row.max()
        for k in range(sets.shape[1]):
            on, off = row[sets[:, k] == 1], row[sets[:, k] == 0]
            if on.size and off.size:
                assert margins[i, k] == on.max() - off.max()
            else:  # no set is without the label, or none has it
                assert margins[i, k] * (on.size - off.size) > 0
    again, none = best_sets(structure, scores, pairs)
    np.testing.assert_array_equal(again, labels)
    assert none.shape == (len(scores), 0)


def test_sixteen_labels_are_enumerated_and_seventeen_refused():
    rng = np.random.default_rng(0)
    edges = np.column_stack(np.triu_indices(16, 1))
    scores, pairs = rng.normal(size=(2, 16)), rng.normal(size=len(edges))
    labels, _ = best_sets(make_structure(16, edges, None), scores, pairs)
    every = set_scores(sets_of(16), scores, edges, pairs)
    np.testing.assert_array_equal(labels, sets_of(16)[every.argmax(axis=1)])
    with pytest.raises(ValueError, match=r"2\^17; it takes at most 16. Use pairs="):
        multilabel_svm(rng.normal(size=(5, 2)), np.eye(5, 17), 0.1, pairs="full")


def test_the_tree_is_the_best_of_all_trees():
    _, Y = examples(n=200, K=4, seed=3)
    edges = spanning_tree(Y, np.full(200, 1 / 200))
    information = np.array(
        [mutual_info_classif(Y, y, discrete_features=True) for y in Y.T]
    )
    all_edges = all_pairs(Y, seen_only=False)
    assert len(all_edges) == 6

    def joins_all(chosen):
        reached = {0}
        for _ in range(3):
            reached |= {k for e in chosen if reached & {*e} for k in e}
        return len(reached) == 4

    trees = [t for t in itertools.combinations(all_edges.tolist(), 3) if joins_all(t)]
    assert len(trees) == 16
    best = max(sum(information[j, k] for j, k in t) for t in trees)
    assert sum(information[j, k] for j, k in edges) == pytest.approx(best)
    known = {0}
    for parent, child in edges.tolist():  # parents first
        assert parent in known
        assert child not in known
        known.add(child)
    Y[:, 1] = 0  # it tells nothing of the others, but the tree must join it, too
    assert len(spanning_tree(Y, np.full(200, 1 / 200))) == 3


@pytest.mark.slow  # Python calls functions that are compiled for it alone
@pytest.mark.parametrize("way", WAYS)
def test_the_oracle_finds_the_worst_violation(way):
    X, Y = examples()
    problem = multilabel_svm(X, Y, ALPHA, **WAYS[way])
    rng = np.random.default_rng(1)
    v = problem.shared
    v[: X.shape[1], :4] = rng.normal(size=(X.shape[1], 4))
    edges = problem.finish(v).edges
    v[X.shape[1] :].ravel()[: len(edges)] = rng.normal(size=len(edges))
    _, hinge = parts(problem.finish(v), X, Y)
    for i in range(len(X)):
        atom = problem.scratch_atom(i)
        least = problem.oracle(problem.data, v, i, atom, problem.work())
        assert least == pytest.approx(-hinge[i] / len(X), abs=1e-6)
        value = problem.score(problem.data, v, i, atom)
        assert least == pytest.approx(value, abs=1e-6)
        assert problem.contains(problem.data, i, atom)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_the_problem_passes_its_own_check(way):
    X, Y = examples()
    check.check(multilabel_svm(X, Y, ALPHA, **WAYS[way]))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("accelerate", [True, False])
def test_the_optimum_is_that_of_an_interior_point_method(way, accelerate):
    X, Y = examples()
    problem = multilabel_svm(X, Y, ALPHA, **WAYS[way])
    how = {"tol": 1e-4, "max_epochs": 10**5, "rng": 0, "accelerate": accelerate}
    result = wolfpack.solve(problem, sampling="gap", **how)
    assert result.converged
    w = result.solution
    sets = sets_of(4) if w.candidates is None else w.candidates
    best = reference(X, Y, ALPHA, w.edges, sets)
    value = primal(w, X, Y, ALPHA)
    assert -result.lower_bound == pytest.approx(value, abs=1e-5)
    assert -result.objective <= best + 1e-5
    assert best <= -result.lower_bound + 1e-5


def test_tol_is_relative_to_the_best_constant_answer():
    _, Y = examples(n=50)
    ones, weight = np.ones((50, 1)), np.arange(50)
    problem = multilabel_svm(ones, Y, ALPHA, pairs=None, sample_weight=weight)
    w = problem.finish(problem.shared)
    best = min(
        primal(w._replace(labels=2.0 * signs[:, None] - 1), ones, Y, 0, weight)
        for signs in sets_of(4)
    )
    assert problem.scale == pytest.approx(best)


def test_pairs_that_are_never_seen_together_have_no_weight():
    X, Y = examples()
    Y[:, 1] *= 1 - Y[:, 2]
    w = wolfpack.solve(multilabel_svm(X, Y, ALPHA, **WAYS["observed"]), rng=0).solution
    assert [1, 2] not in w.edges.tolist()
    every = np.unique(Y, axis=0)
    np.testing.assert_array_equal(w.candidates, every)


def test_independent_labels_are_one_support_vector_machine_each():
    X, Y = examples(n=40)
    problem = multilabel_svm(X, Y, ALPHA, pairs=None)
    how = {"tol": 1e-5, "max_epochs": 10**5, "rng": 0}
    result = wolfpack.solve(problem, sampling="gap", **how)
    assert result.converged
    for k, y in enumerate(Y.T):
        svc = LinearSVC(loss="hinge", C=1 / (ALPHA * 40), fit_intercept=False)
        svc.set_params(tol=1e-8, max_iter=10**6).fit(X, y)
        np.testing.assert_allclose(result.solution.labels[k], svc.coef_[0], atol=0.05)


@pytest.mark.slow
def test_sparse_features_cost_what_a_step_touches():
    rng = np.random.default_rng(0)
    X = sp.random(60, 5000, density=0.004, random_state=0, format="csr")
    Y = (rng.random((60, 4)) < 0.4).astype(int)
    problem = multilabel_svm(X, Y, ALPHA)
    assert problem.touched is not None
    assert problem.max_rows < 100
    result = wolfpack.solve(problem, tol=1e-3, rng=0, max_epochs=1000)
    assert result.converged
    dense = wolfpack.solve(
        multilabel_svm(X[:, np.flatnonzero(X.sum(axis=0))], Y, ALPHA), tol=1e-3, rng=0
    )
    assert result.lower_bound <= dense.objective + 1e-5
    assert dense.lower_bound <= result.objective + 1e-5


def test_weights_count_examples():
    X, Y = examples(n=12)
    weight = np.array([2, 1, 3, 0, 1, 1, 1, 1, 1, 1, 1, 1])
    how = {"tol": 1e-4, "max_epochs": 10**5, "rng": 0}
    for way in ("full", "tree"):
        weighted = multilabel_svm(X, Y, 0.2, sample_weight=weight, **WAYS[way])
        twice = np.repeat(X, weight, 0), np.repeat(Y, weight, 0)
        repeated = multilabel_svm(*twice, 0.2, **WAYS[way])
        one, two = wolfpack.solve(weighted, **how), wolfpack.solve(repeated, **how)
        assert one.lower_bound <= two.objective + 1e-5
        assert two.lower_bound <= one.objective + 1e-5
        value = primal(one.solution, X, Y, 0.2, weight)
        assert -one.lower_bound == pytest.approx(value, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["merge", "server", "lock-free"])
def test_threads_find_the_same_optimum(mode):
    X, Y = examples(n=300)
    problem = multilabel_svm(X, Y, ALPHA)
    how = {"tol": 1e-3, "max_epochs": 10**4, "rng": 0}
    alone = wolfpack.solve(problem, **how)
    many = wolfpack.solve(problem, engine=Threads(2, mode=mode), **how)
    assert many.converged
    assert alone.lower_bound <= many.objective + 1e-5
    assert many.lower_bound <= alone.objective + 1e-5


X, Y = np.arange(6.0).reshape(3, 2), [[1, 0], [0, 1], [1, 1]]
BAD = {
    "alpha": (X, Y, {"alpha": 0.0}, "alpha must be a finite number > 0, but is 0"),
    "NaN": (X * np.nan, Y, {}, r"X\[0\] holds NaN or infinity"),
    "rows": (X, Y[:2], {}, r"Y must have shape \(3, K\), .* but has \(2, 2\)"),
    "vector": (X, [0, 1, 0], {}, r"Y must have shape \(3, K\), .* but has \(3,\)"),
    "no label": (X, np.zeros((3, 0)), {}, r"but has \(3, 0\)"),
    "ragged": (X, [[1, 0], [1], [0, 1]], {}, "Y is ragged"),
    "numbers": (X, [[1, 2], [0, 1], [1, 1]], {}, "MultiLabelBinarizer makes such"),
    "text": (X, [["a", "b"]] * 3, {}, "MultiLabelBinarizer makes such a table"),
    "pairs": (X, Y, {"pairs": "some"}, 'pairs must be "auto", "full", "tree" or None'),
    "candidates": (X, Y, {"candidates": 3}, 'candidates must be "all" or "observed"'),
    "weights": (X, Y, {"sample_weight": [1.0]}, r"shape \(3,\), one a row of X, not"),
}


@pytest.mark.parametrize(("X", "Y", "how", "message"), BAD.values(), ids=BAD)
def test_bad_input(X, Y, how, message):
    with pytest.raises(ValueError, match=message) as caught:
        multilabel_svm(X, Y, **({"alpha": 0.1} | how))
    assert "\n" not in str(caught.value)

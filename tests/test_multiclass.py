"""The multiclass SVM against cvxpy, LIBLINEAR and optima that are known."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

import wolfpack
from wolfpack import Serial, Sync, Threads, multiclass_svm
from wolfpack.checks import problem as check
from wolfpack.stores import atoms as atom_store

ALPHA = 0.02
ENGINES = {
    "serial": Serial(),
    "sync": Sync(2),
    "merge": Threads(2, "merge"),
    "server": Threads(2, "server"),
    "lock-free": Threads(2, "lock-free"),
}


def primal(w, X, y, alpha, weight=None):
    """P(w), and the best class of each example with its loss counted."""
    n, codes = len(y), np.unique(y, return_inverse=True)[1]
    scores = X @ w.T + 1.0
    scores[np.arange(n), codes] -= 1.0
    hinge = scores.max(axis=1) - scores[np.arange(n), codes]
    return 0.5 * alpha * np.square(w).sum() + np.average(hinge, weights=weight)


def reference(X, y, alpha):
    """The optimal value, by an interior point method on the primal."""
    classes, codes = np.unique(y, return_inverse=True)
    n, K = len(y), len(classes)
    w = cp.Variable((K, X.shape[1]))
    loss = 1.0 - np.eye(K)[codes]
    scores = X @ w.T
    right = cp.sum(cp.multiply(scores, np.eye(K)[codes]), axis=1)
    hinge = cp.max(scores + loss, axis=1) - right
    problem = cp.Problem(
        cp.Minimize(0.5 * alpha * cp.sum_squares(w) + cp.sum(hinge) / n)
    )
    return problem.solve(solver=cp.CLARABEL)


def examples(n=60, p=12, K=20, unit=True, seed=0):
    """Examples near one pattern a class; 20 classes of ones share OCR's loops."""
    rng = np.random.default_rng(seed)
    y = rng.integers(K, size=n)
    y[:K] = np.arange(K)
    noisy = rng.random((n, p)) < 0.2
    X = ((rng.random((K, p)) < 0.4)[y] ^ noisy).astype(float)
    return (X if unit else X + 0.3 * rng.normal(size=X.shape)), y


def point(problem, state):
    """x of a state as an (n, K) table; checks that the weights are convex."""
    x = np.zeros((problem.n_blocks, problem.data.n_labels))
    for i in range(len(x)):
        slot, count = state.blocks.place[i][["slot", "count"]]
        weights = state.blocks.weights[slot : slot + count]
        assert (weights > 0).all()
        for b in range(count):
            x[i, atom_store.get_point(state.blocks, i, b)[0]] += weights[b]
    np.testing.assert_allclose(x.sum(axis=1), 1, atol=1e-12)
    return x


@pytest.fixture(scope="module")
def small():
    X, y = examples()
    return X, y, reference(X, y, ALPHA)


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_reaches_the_optimum(small, name):
    X, y, best = small
    problem = multiclass_svm(X, y, ALPHA)
    result = wolfpack.solve(
        problem, engine=ENGINES[name], tol=1e-3, max_epochs=10**5, rng=0,
        accelerate=False,
    )  # fmt: skip
    assert result.converged
    w, x = result.solution, point(problem, result.state)
    # w = A x, and the gap is primal minus dual, both by hand.
    n, truth = len(y), np.eye(20)[y]
    np.testing.assert_allclose(w, (truth - x).T @ X / (ALPHA * n), atol=1e-5)
    dual = (1 - x[np.arange(n), y]).mean() - 0.5 * ALPHA * np.square(w).sum()
    assert -result.lower_bound == pytest.approx(primal(w, X, y, ALPHA), abs=1e-6)
    assert -result.objective == pytest.approx(dual, abs=1e-6)
    assert result.gap == pytest.approx(primal(w, X, y, ALPHA) - dual, abs=1e-6)
    assert dual <= best + 1e-6
    assert best <= primal(w, X, y, ALPHA) + 1e-6
    assert 0 <= result.gap <= 1e-3


SLOW = [pytest.param(k, marks=pytest.mark.slow) for k in ENGINES if k != "merge"]


@pytest.mark.parametrize("name", ["serial", "merge", *SLOW[1:]])
def test_steps_to_the_block_minimiser(name):
    X, y = examples(K=5, unit=False)
    X[7] = 0.0  # whose block is linear
    problem = multiclass_svm(X, y, ALPHA, vectors=True)
    result = wolfpack.solve(
        problem, engine=ENGINES[name], step="exact", tol=1e-4, max_epochs=10**5, rng=0
    )
    assert result.converged
    w, x = result.solution, result.state.blocks.points
    assert x.min() >= 0
    np.testing.assert_allclose(x.sum(axis=1), 1, atol=1e-9)
    moves = (np.eye(5)[y] - x).T @ X
    np.testing.assert_allclose(w, moves / (ALPHA * len(y)), atol=1e-5)
    assert -result.lower_bound == pytest.approx(primal(w, X, y, ALPHA), abs=1e-6)
    best = reference(X, y, ALPHA)
    assert -result.objective <= best + 1e-6
    assert best <= -result.lower_bound + 1e-6


def test_the_block_minimiser_is_that_of_an_interior_point_method():
    X, y = examples(K=5, unit=False)
    problem = multiclass_svm(X, y, ALPHA, vectors=True)
    rng = np.random.default_rng(0)
    x = rng.dirichlet(np.full(5, 0.3), size=len(y))
    v = problem.shared
    v[:, :5] = X.T @ (np.eye(5)[y] - x) / (ALPHA * len(y))
    for i in range(12):
        z = cp.Variable(5)
        w = v[:, :5].T + cp.outer(x[i] - z, X[i]) / (ALPHA * len(y))
        f = 0.5 * ALPHA * cp.sum_squares(w) - (1 - z[y[i]]) / len(y)
        cp.Problem(cp.Minimize(f), [z >= 0, cp.sum(z) == 1]).solve(solver=cp.CLARABEL)
        atom = x[i].copy()
        gap = problem.minimiser(problem.data, v, i, atom, problem.work(), 1.0)
        np.testing.assert_allclose(atom, z.value, atol=1e-4)
        theta = X[i] @ v[:, :5] + (np.arange(5) != y[i])
        expected = (theta.max() - x[i] @ theta) / len(y)
        assert gap == pytest.approx(expected, abs=1e-7)


def test_a_block_at_rest_stays_where_it_is():
    X, y = examples(K=5, unit=False)
    problem = multiclass_svm(X, y, ALPHA, vectors=True)
    for i in range(10):
        atom = np.zeros(5)
        problem.oracle(problem.data, problem.shared, i, atom, problem.work())
        corner = atom.copy()
        gap = problem.minimiser(
            problem.data, problem.shared, i, atom, problem.work(), 0.1
        )
        assert gap == 0
        np.testing.assert_array_equal(atom, corner)


def test_the_block_minimiser_is_a_distribution_whatever_the_scale():
    X, y = examples(K=5, unit=False)
    rng = np.random.default_rng(0)
    for size in 10.0 ** np.arange(-12, 13):
        problem = multiclass_svm(size * X, y, ALPHA, vectors=True)
        v = problem.shared
        v[:, :5] = rng.normal(size=(len(v), 5)) * rng.choice([0, 1e-6, 1, 1e6])
        for i in range(len(y)):
            atom = rng.dirichlet(np.full(5, 0.1))
            problem.minimiser(problem.data, v, i, atom, problem.work(), 1.0)
            assert problem.contains(problem.data, i, atom)


def test_both_ways_to_keep_a_block_make_the_same_steps():
    X, y = examples(K=5, unit=False)
    how = {"tol": 0, "max_epochs": 2, "rng": 0}
    one = wolfpack.solve(multiclass_svm(X, y, ALPHA), **how)
    two = wolfpack.solve(multiclass_svm(X, y, ALPHA, vectors=True), **how)
    assert one.objective == pytest.approx(two.objective, abs=1e-6)
    assert one.gap == pytest.approx(two.gap, abs=1e-5)
    np.testing.assert_allclose(one.solution, two.solution, atol=1e-4)


@pytest.mark.parametrize("K", [2, 3, 10])
def test_optimum_of_features_that_are_not_one(K):
    X, y = examples(n=40, K=K, unit=False, seed=1)
    problem = multiclass_svm(X, y, 0.1)
    result = wolfpack.solve(problem, tol=1e-4, max_epochs=10**5, rng=0)
    assert result.converged
    best = reference(X, y, 0.1)
    assert -result.objective <= best + 1e-6
    assert best <= -result.lower_bound + 1e-6
    np.testing.assert_allclose(result.solution.sum(axis=0), 0, atol=1e-5)


def test_optimum_of_liblinear():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 64, y[:300]
    svc = LinearSVC(multi_class="crammer_singer", C=1 / (0.01 * 300), tol=1e-6)
    svc.set_params(fit_intercept=False, max_iter=10**6).fit(X, y)
    best = primal(svc.coef_, X, y, 0.01)
    problem = multiclass_svm(X, y, 0.01)
    result = wolfpack.solve(problem, tol=1e-4, sampling="gap", max_epochs=10**4, rng=0)
    assert result.converged
    assert -result.objective <= best + 1e-6
    assert best <= -result.lower_bound + 1e-6


@pytest.mark.parametrize(("share", "best"), [(1.0, 0.2398853), (0.1, 0.0838497)])
def test_known_optimum_of_the_digits(share, best):
    """Pixels in [0, 1], a constant feature, all divided by their mean length."""
    X, y = load_digits(return_X_y=True)
    X = np.column_stack([X / 16, np.ones(len(X))])
    X /= np.linalg.norm(X, axis=1).mean()
    problem = multiclass_svm(X, y, share / len(y))
    result = wolfpack.solve(problem, tol=3e-4, sampling="gap", max_epochs=10**4, rng=0)
    assert result.converged
    assert -result.objective <= best + 1e-6
    assert best <= -result.lower_bound + 1e-6


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("convert", [sp.csr_matrix, sp.csc_array, sp.coo_matrix, list])
def test_every_form_of_x_gives_the_same_problem(unit, convert):
    X, y = examples(unit=unit)
    problem = multiclass_svm(X, y, ALPHA)
    for other in (convert(X), convert(X.astype(np.float32))):
        assert multiclass_svm(other, y, ALPHA).fingerprint == problem.fingerprint
    assert multiclass_svm(2 * X, y, ALPHA).fingerprint != problem.fingerprint
    many = np.vstack([X] * 80)  # more rows than become sparse at a time
    again = multiclass_svm(many, np.tile(y, 80), ALPHA)
    np.testing.assert_array_equal(again.data.features[:99], problem.data.features[:99])


def test_the_record_holds_x_and_nothing_else():
    X, y = examples(unit=False)
    X[5] = 0.0
    data = multiclass_svm(X, y, ALPHA).data
    parts = data.values, data.features, data.feature_begin
    held = sp.csr_matrix(parts, shape=X.shape).toarray()
    np.testing.assert_allclose(held, X, rtol=1e-6)
    np.testing.assert_array_equal(data.labels, y)
    np.testing.assert_allclose(data.share, 1 / len(y))
    # |x_i|^2: what the curvature of block i needs.
    np.testing.assert_allclose(data.gram, np.square(X).sum(axis=1), rtol=1e-5)


def sparse_examples():
    X = sp.random(60, 5000, density=0.004, random_state=0, format="csr")
    X.data[:] = 1.0
    return X, np.random.default_rng(0).integers(5, size=60)


@pytest.mark.slow
def test_many_sparse_features_cost_what_a_step_touches():
    X, y = sparse_examples()
    problem = multiclass_svm(X, y, ALPHA)
    assert problem.touched is not None
    assert problem.max_rows < 100
    check.check(problem)
    result = wolfpack.solve(problem, tol=1e-3, max_epochs=10**4, rng=0)
    assert result.converged
    used = np.flatnonzero(X.sum(axis=0))  # the other columns change nothing
    best = reference(X[:, used].toarray(), y, ALPHA)
    assert -result.objective <= best + 1e-6
    assert best <= -result.lower_bound + 1e-6
    assert np.isin(np.flatnonzero(result.solution.any(axis=0)), used).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ENGINES)
def test_sparse_features_and_the_block_minimiser(name):
    X, y = sparse_examples()
    problem = multiclass_svm(X, y, ALPHA, vectors=True)
    assert problem.touched is not None
    how = {"tol": 1e-4, "max_epochs": 10**4, "rng": 0}
    result = wolfpack.solve(problem, engine=ENGINES[name], step="exact", **how)
    assert result.converged
    best = reference(X[:, np.flatnonzero(X.sum(axis=0))].toarray(), y, ALPHA)
    assert -result.objective <= best + 1e-6
    assert best <= -result.lower_bound + 1e-6


@pytest.mark.parametrize(
    ("K", "vectors"),
    [
        (9, False),
        pytest.param(300, False, marks=pytest.mark.slow),
        pytest.param(5, True, marks=pytest.mark.slow),
    ],
)
def test_the_problem_passes_its_own_check(K, vectors):
    X, y = examples(n=350, K=K, unit=K % 2 == 0)
    problem = multiclass_svm(X, y, 0.3, vectors=vectors)
    check.check(problem)
    labels = problem.data.labels
    assert labels.dtype == (np.uint8 if K <= 256 else np.int32)
    assert sum(part.nbytes for part in problem.work()) < 40 * problem.shared.shape[1]


def test_labels_of_any_kind():
    X, codes = examples(K=3, unit=False)
    plain = multiclass_svm(X, codes, ALPHA)
    for names in (
        np.array([-7, 3, 1000]),
        np.array([0.5, 1.5, 2.5]),
        np.array(["ant", "bee", "cat"]),
        np.array(["ant", "bee", "cat"], dtype=object),
    ):
        named = multiclass_svm(X, names[codes], ALPHA)
        assert named.fingerprint == plain.fingerprint
        listed = multiclass_svm(X.tolist(), names[codes].tolist(), ALPHA)
        assert listed.fingerprint == plain.fingerprint


def test_weights_count_examples():
    X, y = examples(n=12, K=3, unit=False)
    weight = np.array([2, 1, 3, 0, 1, 1, 1, 1, 1, 1, 1, 1])
    weighted = multiclass_svm(X, y, 0.2, sample_weight=weight)
    repeated = multiclass_svm(np.repeat(X, weight, 0), np.repeat(y, weight), 0.2)
    how = {"tol": 1e-4, "max_epochs": 10**5, "rng": 0}
    one, two = wolfpack.solve(weighted, **how), wolfpack.solve(repeated, **how)
    assert one.lower_bound <= two.objective + 1e-6
    assert two.lower_bound <= one.objective + 1e-6
    value = primal(one.solution, X, y, 0.2, weight)
    assert -one.lower_bound == pytest.approx(value, abs=1e-6)
    plain = wolfpack.solve(multiclass_svm(X, y, 0.2), **how)
    assert abs(one.objective - plain.objective) > 1e-3  # it does matter


def test_input_is_left_alone():
    X, y = examples(K=10, unit=False)
    sparse = sp.csr_matrix(np.vstack([X, X]))
    sparse.data[3] = 0.0  # an explicit zero would be dropped
    copy, labels = sparse.copy(), np.tile(y, 2)
    wolfpack.solve(multiclass_svm(sparse, labels, ALPHA), max_epochs=1, rng=0)
    assert sparse.nnz == copy.nnz
    np.testing.assert_array_equal(sparse.data, copy.data)
    np.testing.assert_array_equal(labels, np.tile(y, 2))


def spoilt(value, kind=np.asarray):
    X = np.ones((3, 2))
    X[1, 0] = value
    return kind(X)


X, Y = np.arange(6.0).reshape(3, 2), ["a", "b", "a"]
BAD = {
    "alpha zero": (X, Y, {"alpha": 0.0}, "alpha must be a finite number > 0, but is 0"),
    "alpha negative": (X, Y, {"alpha": -1.0}, "alpha must be a finite number > 0"),
    "alpha NaN": (X, Y, {"alpha": np.nan}, "alpha must be a finite number > 0"),
    "NaN": (spoilt(np.nan), Y, {}, r"X\[1\] holds NaN or infinity"),
    "infinity": (spoilt(np.inf), Y, {}, r"X\[1\] holds NaN or infinity"),
    "too large": (spoilt(1e300), Y, {}, r"X\[1\] .* kept as float32, up to 3e38"),
    "sparse NaN": (spoilt(np.nan, sp.csr_matrix), Y, {}, r"X\[1\] holds NaN"),
    "sparse large": (spoilt(1e300, sp.csr_matrix), Y, {}, r"X\[1\] holds NaN"),
    "one-dimensional": (np.ones(3), Y, {}, r"shape \(n >= 1, p >= 1\), but has \(3,\)"),
    "no example": (np.ones((0, 2)), [], {}, r"but has \(0, 2\)"),
    "no feature": (np.ones((3, 0)), Y, {}, r"but has \(3, 0\)"),
    "ragged": ([[1, 2], [1], [2, 3]], Y, {}, "X is ragged"),
    "text": (np.array([["a"], ["b"], ["c"]]), Y, {}, "numbers, but has dtype <U1"),
    "complex": (X * 1j, Y, {}, "numbers, but has dtype complex"),
    "lengths": (X, Y[:2], {}, r"y must have shape \(3,\), .* but has \(2,\)"),
    "table of y": (X, np.ones((3, 1)), {}, r"but has \(3, 1\)"),
    "one class": (X, ["a"] * 3, {}, "y has one class only, .*a.*; it takes two"),
    "NaN in y": (X, [0.0, np.nan, 1.0], {}, "y holds NaN or infinity"),
    "mixed": (X, np.array(["a", 1, None], object), {}, "cannot be sorted"),
    "weights": (X, Y, {"sample_weight": [1.0]}, r"shape \(3,\), one a row of X, not"),
    "weight negative": (X, Y, {"sample_weight": [1, -1, 1]}, "finite, >= 0"),
    "weights zero": (X, Y, {"sample_weight": [0, 0, 0]}, "not all 0"),
}


@pytest.mark.parametrize(("X", "y", "how", "message"), BAD.values(), ids=BAD)
def test_bad_input(X, y, how, message):
    with pytest.raises(ValueError, match=message) as caught:
        multiclass_svm(X, y, **({"alpha": 0.1} | how))
    assert "\n" not in str(caught.value)

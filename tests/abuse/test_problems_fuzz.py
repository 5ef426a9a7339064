"""Every problem maker on small cases of any size: the optimum is where it says.

A result claims that f* lies in [lower_bound, objective]. Both ends are computed again
from the point that came back, with every matrix written out, and held against a point
that cvxpy found, by the same two functions: so no accuracy of cvxpy's is trusted.
"""

from fractions import Fraction

import cvxpy as cp
import helpers
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import wolfpack
from wolfpack import sets
from wolfpack.stores import atoms as atom_store

SCALES = st.sampled_from([1e-8, 1e-4, 1.0, 1e4, 1e8])
few = settings(max_examples=3, deadline=None, derandomize=True)
some = settings(max_examples=20, deadline=None, derandomize=True)


def numbers(*shape):
    """Arrays with many equal entries, so that rows repeat and jumps are 0."""
    simple = st.sampled_from([0.0, 1.0, -1.0, 0.5])
    return hnp.arrays(np.float64, shape, elements=simple | st.floats(-3, 3, width=32))


# Group fused lasso.


def primal(X, Y, alpha, q):
    jumps = np.linalg.norm(np.diff(X, axis=0), ord=q, axis=1).sum()
    return 0.5 * np.square(X - Y).sum() + alpha * jumps


def lasso_by_cvxpy(Y, alpha, q):
    """Return the value of a point near the best one, and a bound below it."""
    n, d = Y.shape
    X = cp.Variable((n, d))
    cost = 0.5 * cp.sum_squares(X - Y)
    cost += alpha * sum(cp.norm(X[t + 1] - X[t], q) for t in range(n - 1))
    cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL)
    assert X.value is not None
    high = primal(X.value, Y, alpha, q)
    prices = np.cumsum(X.value - Y, axis=0)[:-1]  # what its optimality asks for
    p = np.inf if q == 1 else 1 if q == np.inf else q / (q - 1)
    size = np.linalg.norm(prices, ord=p, axis=1, keepdims=True)
    prices *= np.minimum(1.0, alpha / np.maximum(size, 1e-300))
    inner = Y + np.diff(np.pad(prices, ((1, 1), (0, 0))), axis=0)
    return 0.5 * np.square(Y).sum() - 0.5 * np.square(inner).sum(), high


@pytest.mark.parametrize("q", [1, 2, np.inf])
@some
@given(
    Y=st.integers(2, 5).flatmap(lambda n: numbers(n, 2)),
    scale=SCALES,
    price=st.sampled_from([1e-8, 0.01, 0.3, 1.0, 3.0, 1e8]),
    offset=st.sampled_from([0.0, 1e4]),
    step=st.sampled_from(["exact", "line"]),
)
def test_group_fused_lasso(q, Y, scale, price, offset, step):
    Y = scale * (Y + offset)
    problem = wolfpack.group_fused_lasso(Y, scale * price, q=q)
    how = {"step": step, "tol": 1e-8, "max_epochs": 300, "rng": 0}
    result = wolfpack.solve(problem, accelerate=False, **how)  # so that X belongs to U
    U, X = result.state.blocks.points, result.solution
    p = np.inf if q == 1 else 1 if q == np.inf else 2
    assert (np.linalg.norm(U, ord=p, axis=1) <= scale * price * (1 + 1e-9)).all()
    centred = (Y - Y.mean(axis=0)) / scale
    U, X = U / scale, (X - Y.mean(axis=0)) / scale
    size = 0.5 * np.square(centred).sum() + 1e-3 + 1e-9 * offset**2
    moved = centred + np.diff(np.pad(U, ((1, 1), (0, 0))), axis=0)
    rounding = 1e-12 * offset + 1e-14 * price
    np.testing.assert_allclose(X, moved, atol=1e-9 + rounding)
    # The two ends again, from X and from U.
    value = primal(X, centred, price, q)
    assert -result.lower_bound / scale**2 == pytest.approx(
        value, rel=1e-6, abs=1e-9 * size + price * 1e-12 * (1 + offset)
    )
    dual = 0.5 * np.square(centred).sum() - 0.5 * np.square(moved).sum()
    assert -result.objective / scale**2 == pytest.approx(dual, abs=1e-9 * size)
    if 0.01 <= price <= 3.0:
        low, high = lasso_by_cvxpy(centred, price, q)
        assert value >= low - 1e-7 * size
        assert dual <= high + 1e-7 * size
        assert high - low < 1e-3 * size  # cvxpy found it, so the two say something


@some
@given(Y=numbers(4, 2), q=st.sampled_from([1, 2, np.inf]), scale=SCALES)
def test_a_signal_whose_price_is_too_high_is_constant(Y, q, scale):
    top = wolfpack.GroupFusedLasso.alpha_max(scale * Y, q)
    alpha = 1.001 * top if top > 1e-300 else scale
    problem = wolfpack.group_fused_lasso(scale * Y, alpha, q=q)
    result = wolfpack.solve(problem, tol=1e-9, max_epochs=10, rng=0)
    assert result.converged
    mean = np.broadcast_to(scale * Y.mean(axis=0), Y.shape)
    np.testing.assert_allclose(result.solution, mean, atol=1e-9 * scale)


# Chains and classes.


def svm_ends(dense, x, w):
    """The dual value of x and the primal value of w, by enumeration."""
    return -dense.f(x), helpers.chain_primal(dense, w)


def svm_by_cvxpy(dense):
    """The dual over products of simplices; both ends from the x that it finds."""
    x = [cp.Variable(A.shape[1]) for A in dense.A]
    root = np.sqrt(dense.H.diagonal())
    v = sum((root[:, None] * A) @ z for A, z in zip(dense.A, x, strict=True))
    linear = sum(c @ z for c, z in zip(dense.c, x, strict=True))
    rules = [rule for z in x for rule in (z >= 0, cp.sum(z) == 1)]
    cp.Problem(cp.Minimize(0.5 * cp.sum_squares(v) + linear), rules).solve(
        solver=cp.CLARABEL
    )
    found = [np.maximum(z.value, 0) / np.maximum(z.value, 0).sum() for z in x]
    return svm_ends(dense, found, dense.v(found))


def hold_against_dense(result, dense, x, w, size, hard):
    """The ends that were reported, those of x and w, and those of cvxpy."""
    # Scores are float32 in the oracle: it may miss a minimum by rounding of their size.
    scores = sum(np.abs(A.T @ (dense.H @ w)).max() for A in dense.A)
    noise = 1e-5 * size + 1e-6 * scores
    for z in x:
        assert z.min() >= -1e-9
        assert z.sum() == pytest.approx(1, abs=1e-9)
    dual, value = svm_ends(dense, x, w)
    assert -result.lower_bound == pytest.approx(value, abs=noise)
    best = max(dual, 0.0) if result.n_outer else dual  # that of the start is 0
    assert -result.objective == pytest.approx(best, abs=noise)
    if not hard:
        low, high = svm_by_cvxpy(dense)
        assert low <= high + 1e-9
        assert dual <= high + noise
        assert value >= low - noise


def weights_of(state, n_labels):
    """x over all labellings; a step too small for a float leaves a weight of 0."""
    x = []
    for i, length in enumerate(np.diff(state.offsets)):
        z = np.zeros(n_labels**length)
        slot, count = state.blocks.place[i][["slot", "count"]]
        for b in range(count):
            labels = atom_store.get_point(state.blocks, i, b)
            z[helpers.read_labels(labels, n_labels)] += state.blocks.weights[slot + b]
        x.append(z)
    return x


def shares_of(weight):
    """The shares in exact arithmetic."""
    exact = [Fraction(w) for w in weight.tolist()]
    return np.array([float(w / sum(exact)) for w in exact])


@st.composite
def chains(draw):
    lengths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    scale = draw(SCALES)
    X = [scale * draw(numbers(length, 2)) for length in lengths]
    X[0][0, 0] = 0.5 * scale  # not all of them are 1, which has loops of its own
    X = [np.asarray(x, np.float32).astype(float) for x in X]
    labels = st.integers(0, draw(st.integers(0, 2)))
    y = [np.array([draw(labels) for _ in range(length)]) for length in lengths]
    return X, y, scale


WEIGHTS = st.sampled_from([1e-320, 1e-300, 1.0, 3.0, 1e300, 1e308])


@pytest.mark.slow
@some
@given(
    data=chains(),
    alpha=st.sampled_from([1e-6, 0.01, 1.0, 1e6]),
    size=WEIGHTS,
    normalize=st.booleans(),
    averaging=st.booleans(),
)
def test_chain_ssvm(data, alpha, size, normalize, averaging):
    X, y, scale = data
    weight = size * np.linspace(0.5, 1.0, len(X))
    problem = wolfpack.chain_ssvm(
        X, y, alpha, n_labels=3, normalize=normalize, sample_weight=weight
    )
    result = wolfpack.solve(
        problem, tol=1e-3, max_epochs=100, averaging=averaging, rng=0
    )
    dense = helpers.dense_chain(X, y, alpha, 3, normalize, shares_of(weight))
    parts = result.solution
    rows = [parts.features.T, parts.bias, parts.first, parts.last, parts.transitions]
    w = np.vstack(rows).ravel().astype(float)
    x = weights_of(result.state, 3)
    # f has terms as large as w allows, and v is float32: rounding is of their size.
    large = problem.scale + alpha * w @ w
    hold_against_dense(result, dense, x, w, large, hard=scale > 1 or alpha < 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("vectors", [False, True])
@some
@given(
    X=st.integers(2, 5).flatmap(lambda n: numbers(n, 2)),
    scale=SCALES,
    alpha=st.sampled_from([1e-6, 0.01, 1.0, 1e6]),
    size=WEIGHTS,
    seed=st.integers(0, 9),
)
def test_multiclass_svm(vectors, X, scale, alpha, size, seed):
    X[0, 0] = 0.5
    X = (scale * X).astype(np.float32).astype(float)
    y = np.random.default_rng(seed).integers(0, 3, len(X))
    y[:2] = 0, 1
    weight = size * np.linspace(0.5, 1.0, len(X))
    problem = wolfpack.multiclass_svm(
        X, y, alpha, sample_weight=weight, vectors=vectors
    )
    step = "exact" if vectors else "line"
    result = wolfpack.solve(problem, step=step, tol=1e-3, max_epochs=200, rng=0)
    K = problem.data.n_labels
    dense = dense_classes(X, y, alpha, K, shares_of(weight))
    x = [*result.state.blocks.points] if vectors else weights_of(result.state, K)
    w = result.solution.astype(float).ravel()
    large = 1.0 + alpha * w @ w
    hold_against_dense(result, dense, x, w, large, hard=scale > 1 or alpha < 1e-3)


def dense_classes(X, y, alpha, K, shares):
    """Crammer and Singer's dual, one variable an example and class; w is (K, p)."""
    A, c = [], []
    for row, truth, share in zip(X, y, shares, strict=True):
        psi = np.zeros((K, X.shape[1], K))
        psi[truth] += row[:, None]
        for k in range(K):
            psi[k, :, k] -= row
        A.append(share / alpha * psi.reshape(-1, K))
        c.append(-share * (np.arange(K) != truth))
    m = len(A[0])
    return helpers.Dense(A, c, np.zeros(m), alpha * np.eye(m), np.zeros(m), 0.0)


# Blocks over every ready set.

LOW, HIGH = np.array([-1.0, 0.0, 0.5, 0.0]), np.array([2.0, 0.0, 0.75, 1.0])


def norm_rule(p):
    return lambda z: [cp.norm(z, p) <= 1.0]


# The set of radius r, what cvxpy calls it for r = 1, and its support function, the
# largest <s, g>, that gives a lower bound from any point.
SETS = {
    "simplex": (sets.simplex, lambda z: [z >= 0, cp.sum(z) == 1], lambda g: g.max()),
    "l1": (sets.l1_ball, norm_rule(1), lambda g: np.abs(g).max()),
    "l2": (sets.l2_ball, norm_rule(2), np.linalg.norm),
    "linf": (sets.linf_ball, norm_rule("inf"), lambda g: np.abs(g).sum()),
    "l3": (
        lambda r: sets.lp_ball(3.0, r),
        norm_rule(3),
        lambda g: np.linalg.norm(g, 1.5),
    ),
    "box": (
        lambda r: sets.box(r * LOW, r * HIGH),
        lambda z: [z >= LOW, z <= HIGH],
        lambda g: np.maximum(LOW * g, HIGH * g).sum(),
    ),
    "nuclear": (
        lambda r: sets.nuclear_ball((2, 2), r),
        lambda z: [cp.normNuc(cp.reshape(z, (2, 2), order="C")) <= 1.0],
        lambda g: np.linalg.norm(g.reshape(2, 2), 2),
    ),
}
START = {"simplex": 0.25, "box": 0.5 * (LOW + HIGH)}


def quadratic(x, targets, coupling):
    f = 0.5 * np.square(x - targets).sum()
    return f + 0.5 * coupling * np.square(x.sum(axis=0)).sum()


def blocks_by_cvxpy(targets, coupling, rules):
    Z = cp.Variable(targets.shape)
    cost = 0.5 * cp.sum_squares(Z - targets)
    cost += 0.5 * coupling * cp.sum_squares(cp.sum(Z, axis=0))
    every = [rule for i in range(len(targets)) for rule in rules(Z[i])]
    return cp.Problem(cp.Minimize(cost), every).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("name", SETS)
@few
@given(
    targets=st.integers(1, 3).flatmap(lambda n: numbers(n, 4)),
    coupling=st.sampled_from([0.0, 0.25, 4.0]),
    r=SCALES,
)
def test_from_blocks(name, targets, coupling, r):
    make, rules, support = SETS[name]
    start = np.broadcast_to(r * START.get(name, np.zeros(4)), targets.shape)

    def gradient(x, i):
        return x[i] - r * targets[i] + coupling * x.sum(axis=0)

    problem = wolfpack.from_blocks(
        start, gradient, make(r), quadratic=True, scale=r * r,
        value=lambda x: quadratic(x, r * targets, coupling),
    )  # fmt: skip
    result = wolfpack.solve(problem, tol=1e-6, max_epochs=15, rng=0)
    space, z = make(r), result.solution / r
    for i, point in enumerate(result.solution):
        assert space.contains(space.params, i, point, 1e-8)
    size = 1.0 + np.square(targets).sum()
    f = quadratic(z, targets, coupling)
    assert result.objective / r**2 == pytest.approx(f, abs=1e-9 * size)
    slopes = [gradient(result.solution, i) / r for i in range(len(z))]
    gap = sum(g @ p + support(-g) for g, p in zip(slopes, z, strict=True))
    assert result.gap / r**2 == pytest.approx(gap, abs=1e-8 * size)
    best = blocks_by_cvxpy(targets, coupling, rules)
    assert f - gap <= best + 1e-5 * size
    assert f >= best - 1e-5 * size
    if result.converged:
        assert f <= best + 2e-5 * size

"""The paper's formulas, against brute force, simulation and measured runs."""

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import dense_chain, dense_lasso, random_chains
from hypothesis import given, settings
from hypothesis import strategies as st

import wolfpack
from wolfpack import theory
from wolfpack.theory import Rates


def products(dense, corners):
    """<s, H_ij s'> for all corners s of block i and s' of block j: a table [i][j]."""
    images = [A @ points.T for A, points in zip(dense.A, corners, strict=True)]
    return [[a.T @ dense.H @ b for b in images] for a in images]


def brute_constants(dense, corners):
    table = products(dense, corners)
    n = len(table)
    B = np.array([np.diag(table[i][i]).max() for i in range(n)])
    pairs = [table[i][j].max() for i, j in itertools.permutations(range(n), 2)]
    return B, np.mean(pairs)


def brute_curvature(dense, corners, tau):
    """C_f^tau: the mean over S of the largest (s - x)' H (s - x)."""
    moves = []
    for A, points in zip(dense.A, corners, strict=True):
        pairs = [a - b for a, b in itertools.product(points, repeat=2)]
        moves.append([A @ d for d in np.unique(np.round(pairs, 12), axis=0)])
    found = []
    for S in itertools.combinations(range(len(moves)), tau):
        sums = [sum(w) for w in itertools.product(*(moves[i] for i in S))]
        found.append(max(v @ dense.H @ v for v in sums))
    return np.mean(found)


def ball_corners(d, q, alpha):
    if q == np.inf:  # the dual ball is that of l1
        return alpha * np.vstack([np.eye(d), -np.eye(d)])
    if q == 1:
        return alpha * np.array([*itertools.product([-1.0, 1.0], repeat=d)])
    angles = np.linspace(0, 2 * np.pi, 721)
    circle = np.stack([np.cos(angles), np.sin(angles)], 1)
    return alpha * (circle if d == 2 else np.array([[-1.0], [1.0]]))


def tiny_multiclass(seed, n, n_classes, weight=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.append(np.arange(n_classes), rng.integers(0, n_classes, n - n_classes))
    chains = [x[None] for x in X], [np.array([k]) for k in y]
    dense = dense_chain(*chains, 0.3, n_classes, weight=weight)
    full = np.hstack([X, np.ones((n, 3))])  # a chain also has bias, first and last
    return full, y, chains, dense, [np.eye(n_classes)] * n


@pytest.mark.parametrize("q", [1, 2, np.inf])
@pytest.mark.parametrize("d", [1, 2])
def test_fused_lasso_constants_are_those_of_brute_force(d, q):
    Y = np.random.default_rng(0).normal(size=(5, d))
    B, mu = brute_constants(dense_lasso(Y, 0.7), [ball_corners(d, q, 0.7)] * 4)
    for exact in (
        theory.fused_lasso_constants(5, d, 0.7, q=q),
        theory.measure_constants(wolfpack.group_fused_lasso(Y, 0.7, q=q)),
    ):
        np.testing.assert_allclose(exact.per_block, B, rtol=1e-9)
        assert exact.boundedness == pytest.approx(B.mean(), rel=1e-9)
        assert exact.incoherence == pytest.approx(mu, rel=1e-9)
        assert exact.source == "exact"
        assert exact.confidence == 1.0


def test_two_rows_are_one_block_without_a_neighbour():
    assert theory.fused_lasso_constants(2, 3, 1.0)[:2] == (2.0, 0.0)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("weight", [None, [1.0, 2.0, 0.5, 3.0, 1.0, 1.0]])
def test_multiclass_constants_are_those_of_brute_force(n_classes, weight):
    X, y, chains, dense, corners = tiny_multiclass(n_classes, 6, n_classes, weight)
    B, mu = brute_constants(dense, corners)
    problem = wolfpack.chain_ssvm(*chains, 0.3, sample_weight=weight)
    for exact in (
        theory.multiclass_constants(X, y, 0.3, sample_weight=weight),
        theory.multiclass_constants(sp.csr_array(X), y, 0.3, sample_weight=weight),
        theory.measure_constants(problem),
        theory.measure_constants(
            wolfpack.multiclass_svm(X, y, 0.3, sample_weight=weight)
        ),
    ):
        np.testing.assert_allclose(exact.per_block, B, rtol=1e-6)
        assert exact.incoherence == pytest.approx(mu, rel=1e-6)
        assert exact.source == "exact"


def test_constants_are_what_a_problem_says_of_itself():
    known = theory.fused_lasso_constants(5, 2, 1.0)
    problem = wolfpack.group_fused_lasso(np.eye(5, 2), 1.0)
    named = dataclasses.replace(problem, name="mine")  # whatever it is called
    assert theory.measure_constants(named)[:2] == known[:2]
    silent = dataclasses.replace(problem, constants=None)
    assert theory.measure_constants(silent, rng=0).source == "sampled"
    own = dataclasses.replace(problem, constants=lambda problem: known)
    assert theory.measure_constants(own) is known
    with pytest.raises(wolfpack.ProblemError, match="constants must be a function"):
        dataclasses.replace(problem, constants=2.0).check()


def test_multiclass_constants_do_not_depend_on_how_rows_are_cut(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 4)), rng.integers(0, 5, 50)
    whole = theory.multiclass_constants(X, y, 0.1)
    monkeypatch.setattr("wolfpack.theory.constants.ROWS", 7)
    np.testing.assert_allclose(theory.multiclass_constants(X, y, 0.1)[:2], whole[:2])


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e3])
def test_a_search_through_the_oracle_finds_the_suprema(alpha):
    X, y, *_ = tiny_multiclass(1, 8, 3)
    problem = wolfpack.multiclass_svm(X, y, alpha)
    found = theory.sample_constants(problem, n_starts=12, rng=0)
    exact = theory.measure_constants(problem)
    np.testing.assert_allclose(found.per_block, exact.per_block, rtol=1e-5)
    assert found.incoherence == pytest.approx(exact.incoherence, rel=1e-5)
    assert found.source == "sampled"
    assert found.confidence == 0.95  # that of no draw, but a search is no proof
    roots = np.sqrt(exact.per_block)
    pairs = itertools.permutations(range(len(roots)), 2)
    most = np.mean([roots[i] * roots[j] for i, j in pairs])
    assert found.incoherence_interval == pytest.approx((found.incoherence, most))


def test_a_search_finds_the_suprema_over_chains_and_over_ready_sets():
    rng = np.random.default_rng(2)
    X, y = random_chains(rng, 4, 3, [1, 2, 3], unit=False)
    dense = dense_chain(X, y, 0.1, 3)
    B, mu = brute_constants(dense, [np.eye(3 ** len(labels)) for labels in y])
    problem = wolfpack.chain_ssvm(X, y, 0.1, n_labels=3)
    found = theory.sample_constants(problem, n_starts=20, rng=0)
    np.testing.assert_allclose(found.per_block, B, rtol=1e-4)
    assert found.incoherence == pytest.approx(mu, rel=1e-4)
    radius = max(np.sqrt(np.square(A).sum(axis=0).max()) * 0.1 * 4 for A in dense.A)
    worst = theory.example_svm(4, radius, 0.1)
    assert max(B) == pytest.approx(worst.boundedness)
    assert mu <= worst.incoherence

    G = rng.normal(size=(6, 6))
    Q = (G @ G.T).reshape(3, 2, 3, 2)
    problem = wolfpack.from_blocks(
        np.full((3, 2), 0.5),
        lambda x, i: np.einsum("ajk,jk->a", Q[i], x),
        wolfpack.simplex(),
        quadratic=True,
    )
    found = theory.sample_constants(problem, n_starts=20, rng=0)
    B = [max(Q[i, a, i, a] for a in range(2)) for i in range(3)]
    np.testing.assert_allclose(found.per_block, B, rtol=1e-9)
    mu = np.mean([Q[i, :, j].max() for i, j in itertools.permutations(range(3), 2)])
    assert found.incoherence == pytest.approx(max(mu, 0.0), rel=1e-9)


def test_intervals_of_a_search_that_visits_all_hold_the_values_of_brute_force():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = random_chains(rng, 5, 3, [1, 2, 3, 2, 3], unit=False)
        corners = [np.eye(3 ** len(labels)) for labels in y]
        B, mu = brute_constants(dense_chain(X, y, 0.1, 3), corners)
        problem = wolfpack.chain_ssvm(X, y, 0.1, n_labels=3)
        found = theory.sample_constants(problem, rng=seed)
        np.testing.assert_allclose(found.per_block, B, rtol=1e-4)
        assert found.incoherence == pytest.approx(mu, rel=1e-4)
        few = theory.sample_constants(problem, n_starts=1, rng=seed)
        for one in (found, few):  # with one start the search misses some
            assert one.incoherence_interval[0] <= mu * (1 + 1e-4)
            assert one.boundedness_interval[0] <= B.mean() * (1 + 1e-4)
        assert mu <= found.incoherence_interval[1] * (1 + 1e-4)


def test_sampled_intervals_cover_the_exact_values():
    rng = np.random.default_rng(0)
    problems = [
        wolfpack.group_fused_lasso(rng.normal(size=(120, 2)), 0.5),  # rare pairs
        wolfpack.multiclass_svm(rng.normal(size=(120, 4)), np.arange(120) % 3, 0.1),
    ]
    for problem, seed in itertools.product(problems, range(4)):
        how = {"n_samples": 60, "n_starts": 6, "confidence": 0.9, "rng": seed}
        found = theory.sample_constants(problem, **how)
        exact = theory.measure_constants(problem)
        for name in ("boundedness", "incoherence"):
            low, high = getattr(found, f"{name}_interval")
            assert low <= getattr(exact, name) <= high
            assert low <= getattr(found, name) <= high
        assert found.confidence == 0.9
        assert found.per_block is None
        again = theory.sample_constants(problem, **how)
        assert again[:4] == found[:4]


@pytest.mark.parametrize("tau", [1, 2, 3, 4])
def test_theorem_3_bounds_the_curvature_and_two_examples_do_not(tau):
    corners = [ball_corners(1, 2, 0.5)] * 4
    true = brute_curvature(dense_lasso(np.zeros((5, 1)), 0.5), corners, tau)
    exact = theory.fused_lasso_constants(5, 1, 0.5)
    assert theory.curvature_bound(tau, *exact[:2]) >= true * (1 - 1e-12)
    example = theory.example_fused_lasso(5, 1, 0.5)
    assert theory.curvature_bound(tau, *example[:2]) >= true * (1 - 1e-12)
    assert true > 4 * tau * 0.5**2  # Example 2, which leaves a factor 4 out
    X, y, _, dense, corners = tiny_multiclass(5, 4, 3)
    true = brute_curvature(dense, corners, tau)
    exact = theory.multiclass_constants(X, y, 0.3)
    assert theory.curvature_bound(tau, *exact[:2]) >= true
    gram = 2 * X @ X.T / (0.3 * 4**2)  # Example 1's 2 tau + 2 tau^2 max |<x_i, x_j>|
    off = np.abs(gram[~np.eye(4, dtype=bool)]).mean()
    assert np.trace(gram) / 4 * tau + tau * (tau - 1) * off >= true


def test_example_1_holds_for_random_unit_vectors():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 400))
    X /= np.linalg.norm(X, axis=1)[:, None]
    exact = theory.multiclass_constants(X, np.arange(30), 0.1)
    example = theory.example_multiclass(30, 400, 0.1)
    assert exact.boundedness == pytest.approx(example.boundedness)
    assert exact.incoherence <= example.incoherence < example.boundedness


def test_example_2_has_d_times_too_much():
    exact, paper = (
        f(101, 10, 0.01)
        for f in (theory.fused_lasso_constants, theory.example_fused_lasso)
    )
    assert paper.boundedness == pytest.approx(2 * 0.01**2 * 10)
    assert paper.incoherence == pytest.approx(2 * 0.01**2 * 10 / 100)
    np.testing.assert_allclose(paper[:2], np.multiply(10, exact[:2]))
    at_worst = theory.fused_lasso_constants(101, 10, 0.01, q=1)
    np.testing.assert_allclose(paper[:2], at_worst[:2])


sizes = st.integers(1, 300).flatmap(
    lambda n: st.tuples(st.just(n), st.integers(1, n), st.floats(0, 10))
)


@settings(max_examples=60, deadline=None)
@given(sizes, st.floats(0, 5))
def test_the_clipped_bound_is_above_the_recursion_and_the_start(size, curvature):
    n, tau, first = size
    rates = Rates(n, tau, curvature, first)
    k = np.arange(120)
    recursion = rates.primal_recursion(119)
    assert recursion[0] == first
    assert (rates.primal_bound(k) >= recursion * (1 - 1e-12) - 1e-300).all()
    printed = Rates(n, tau, curvature, first, clipped=False)
    if tau == 1 or first <= n * curvature / tau:  # what the module says is proved
        assert (printed.primal_bound(k) >= recursion * (1 - 1e-12) - 1e-300).all()
    assert (printed.primal_bound(k) <= rates.primal_bound(k)).all()
    assert (np.diff(rates.primal_bound(k)) <= 0).all()


@settings(max_examples=60, deadline=None)
@given(sizes, st.floats(1e-3, 5))
def test_the_clipped_gap_bound_is_above_what_its_proof_sums_up(size, curvature):
    n, tau, first = size
    rates = Rates(n, tau, curvature, first)
    h, k = rates.primal_recursion(150), np.arange(151)
    gamma = theory.open_loop_steps(k, n, tau)
    rise = np.diff(k / gamma)  # of k / gamma_k, from 0
    inner = np.cumsum(
        n / tau * h[1:] * rise + (k * gamma * n * curvature)[1:] / tau / 2
    )
    average = inner / (k[1:] * (k[1:] + 1) / 2)
    assert (rates.gap_bound(k[1:]) >= average * (1 - 1e-12)).all()


@settings(max_examples=100, deadline=None)
@given(sizes, st.floats(1e-3, 5), st.floats(1e-3, 10), st.booleans())
def test_iterations_invert_the_bounds(size, curvature, eps, clipped):
    rates = Rates(*size[:2], curvature, size[2], 0.5, clipped)
    for bound, iterations, least in (
        (rates.primal_bound, rates.primal_iterations, 0),
        (rates.gap_bound, rates.gap_iterations, 1),
    ):
        k = iterations(eps)
        assert k >= least
        assert bound(k) <= eps * (1 + 1e-6)
        assert k == least or bound(k - 1) >= eps * (1 - 1e-6)


def test_the_weight_of_the_start_is_the_supremum_it_says():
    for n, tau in [(1, 1), (10, 2), (100, 4), (99, 16), (1000, 300), (50, 50)]:
        k = np.linspace(0, 4 * n, 400_001)
        with np.errstate(under="ignore"):
            terms = (1 + tau**2 * k / (2 * n)) * (1 - tau / n) ** k
        assert theory.start_weight(n, tau) == pytest.approx(terms.max(), rel=1e-4)


def test_formulas_take_arrays():
    k, tau = np.arange(5)[:, None], np.array([1, 2, 4])
    bend = theory.curvature_bound(tau, 2.0, 0.1)
    rates = Rates(10, tau, bend, 1.0)
    assert rates.primal_bound(k).shape == rates.gap_bound(k + 1).shape == (5, 3)
    assert rates.primal_recursion(6).shape == (7, 3)
    single = Rates(10, 4, bend[2], 1.0)
    np.testing.assert_allclose(
        rates.primal_bound(k)[:, 2], single.primal_bound(k[:, 0])
    )
    np.testing.assert_allclose(
        rates.primal_recursion(6)[:, 2], single.primal_recursion(6)
    )
    assert rates.primal_iterations(0.1).dtype == np.int64
    doubled = Rates(10, tau, 2 * bend, 1.0).primal_bound(k)
    np.testing.assert_allclose(Rates(10, tau, bend, 1.0, 1.0).primal_bound(k), doubled)


def paper_lasso():
    """Section 4.1: n = 100, d = 10, lambda = 0.01."""
    Y = wolfpack.make_piecewise(n=100, d=10, n_segments=10, noise=0.1)[0]
    return wolfpack.group_fused_lasso(Y, 0.01)


def curved_lasso():
    Y = wolfpack.make_piecewise(n=41, d=3, n_segments=4, noise=0.3)[0]
    return wolfpack.group_fused_lasso(Y, 0.5)


def multiclass(alpha):
    rng = np.random.default_rng(3)
    y = np.arange(40) % 4
    X = rng.normal(size=(4, 6))[y] + rng.normal(size=(40, 6))
    return wolfpack.multiclass_svm(X, y, alpha)


PROBLEMS = {
    "the paper's lasso": paper_lasso,
    "a curved lasso": curved_lasso,
    "multiclass": lambda: multiclass(1 / 40),
    "multiclass, nearly linear": lambda: multiclass(30.0),
}


def lower_bound(problem):
    how = {"tol": 1e-6, "max_epochs": 3000, "rng": 0, "check_every": 100}
    step = "exact" if problem.minimiser else "line"
    return wolfpack.solve(problem, step=step, **how).lower_bound


def measured(problem, tau, n_updates, n_seeds=25):
    """Mean f(x_k) - (a lower bound on) f*, and mean gap, for k = 0 ... n_updates."""
    part = tau / problem.n_blocks
    how = {"batch_size": tau, "step": "open-loop", "tol": 0, "check_every": part}
    traces = []
    for seed in range(1 if part == 1 else n_seeds):
        result = wolfpack.solve(
            problem, engine=wolfpack.Serial(), max_epochs=n_updates * part, rng=seed,
            **how,
        )  # fmt: skip
        assert [row.n_updates for row in result.trace] == [*range(n_updates + 1)]
        traces.append([(row.objective, row.gap) for row in result.trace])
    means = np.mean(traces, axis=0)
    return means[:, 0] - lower_bound(problem), means[:, 1]


@pytest.mark.parametrize("tau", [1, 4, 16, "n"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_bounds_lie_above_what_is_measured_at_every_update(name, tau):
    problem = PROBLEMS[name]()
    n = problem.n_blocks
    tau = n if tau == "n" else tau
    n_updates = 240 // min(tau, 4)
    h, gap = measured(problem, tau, n_updates)
    bend = theory.curvature_bound(tau, *theory.measure_constants(problem)[:2])
    rates, k = Rates(n, tau, bend, h[0]), np.arange(n_updates + 1)
    recursion = rates.primal_recursion(n_updates)
    # Where f is nearly linear the recursion is nearly an equality: allow for chance.
    noise = 1.03 if name in ("the paper's lasso", "multiclass, nearly linear") else 1.0
    assert (h <= noise * recursion).all()
    assert (h <= rates.primal_bound(k)).all()
    average = np.cumsum(k * gap)[1:] / np.cumsum(k)[1:]
    assert (np.minimum.accumulate(gap[1:]) <= average * (1 + 1e-12)).all()
    assert (average <= rates.gap_bound(k[1:])).all()
    printed = Rates(n, tau, bend, h[0], clipped=False).primal_bound(k)
    if h[0] <= n * bend / tau:
        assert (h <= printed).all()


def test_theorem_1_as_printed_fails_with_clipped_steps():
    problem = paper_lasso()
    h = measured(problem, 16, 8, n_seeds=300)[0]
    bend = theory.curvature_bound(16, *theory.measure_constants(problem)[:2])
    n, k = problem.n_blocks, np.arange(9)
    assert h[0] > n * bend / 16  # so nothing is proved
    printed = Rates(n, 16, bend, h[0], clipped=False).primal_bound(k)
    assert (h / printed).max() > 1.03  # 1.06 in the mean of 1000
    assert (h <= Rates(n, 16, bend, h[0]).primal_bound(k)).all()


def test_theorem_1_as_printed_fails_for_a_linear_function():
    n, tau = 50, 10
    problem = wolfpack.from_blocks(
        np.tile([1.0, 0.0], (n, 1)),
        lambda x, i: np.array([1.0, 0.0]),
        wolfpack.simplex(),
        value=lambda x: x[:, 0].sum(),
        quadratic=True,
    )
    result = wolfpack.solve(
        problem, batch_size=tau, step="open-loop", tol=0, check_every=tau / n, rng=0,
        max_epochs=tau / n,
    )  # fmt: skip
    first, second = (row.objective for row in result.trace)
    assert (first, second) == (n, n - tau)  # without any chance
    assert second > Rates(n, tau, 0.0, first, clipped=False).primal_bound(1)
    assert second == pytest.approx(Rates(n, tau, 0.0, first).primal_recursion(1)[1])


@pytest.mark.parametrize(
    ("tau", "tail"), [(1, "poisson"), (2, "poisson"), (2, "pareto")]
)
def test_theorem_4_bounds_the_error_of_delayed_oracles_in_the_norm_of_h(tau, tail):
    rng, alpha, n, kappa = np.random.default_rng(0), 0.4, 10, 3.0
    Y = np.random.default_rng(1).normal(size=(n + 1, 2))
    n_updates, n_runs = 40, 150
    error = np.zeros(n_updates)

    def best(U, block):
        X = Y + np.vstack([U, [[0, 0]]]) - np.vstack([[[0, 0]], U])
        jump = X[block] - X[block + 1]
        return -alpha * jump / np.linalg.norm(jump), jump

    for _ in range(n_runs):
        past = [np.zeros((n, 2))]
        for k in range(n_updates):
            U = past[-1].copy()
            for i in rng.choice(n, tau, replace=False):
                drawn = rng.poisson(kappa)
                if tail == "pareto":
                    drawn = round((rng.pareto(2.0) + 1) * kappa / 2)
                delay = int(drawn if drawn <= k / 2 else 0)
                atom, (exact, jump) = best(past[k - delay], i)[0], best(past[k], i)
                error[k] += (atom - exact) @ jump / n_runs
                gamma = theory.open_loop_steps(k, n, tau)
                U[i] += gamma * (atom - U[i])
            past.append(U)
    bend = theory.curvature_bound(
        tau, *theory.fused_lasso_constants(n + 1, 2, alpha)[:2]
    )
    one, batch = (
        np.sqrt(8) * alpha,
        np.sqrt(16 * tau - 8) * alpha,
    )  # neighbours at worst
    delta = theory.delay_error(kappa, tau, bend, diameter_one=one, diameter_batch=batch)
    steps = theory.open_loop_steps(np.arange(n_updates), n, tau)
    assert (error >= 0).all()
    assert error.max() > 0
    assert (error <= delta * steps * bend / 2).all()


def test_delay_errors_have_the_papers_form():
    how = {"diameter_one": 2.0, "diameter_batch": 3.0, "lipschitz": 0.5}
    found = theory.delay_error([0, 1, 5], 4, 10.0, **how)
    np.testing.assert_allclose(found, 4 * np.array([0, 1, 5]) * 4 * 0.5 * 6 / 10)
    how = {"diameter_one": 2.0, "diameter_delayed": 3.0}
    found = theory.bounded_delay_error([0, 3, 90, 9000], 100, 2, 10.0, **how)
    loads = theory.load_factor(100, [0, 6, 180, 18000])
    np.testing.assert_allclose(found, loads * 4 * 2 * 6 / 10)
    assert found[0] == 0.0
    assert (np.diff(found) > 0).all()


@pytest.mark.parametrize("n", [2, 3, 20, 300])
def test_the_load_factor_is_above_simulated_loads_in_all_three_cases(n):
    rng, log_n = np.random.default_rng(0), np.log(n)
    for m in sorted({1, 2, n // 3, n // 2, n, 3 * n, int(n * log_n), 20 * n} - {0}):
        draws = rng.multinomial(m, np.full(n, 1 / n), size=400)
        assert draws.max(axis=1).mean() <= theory.load_factor(n, m)
    m = 0.5 * n / max(log_n, 1.0)
    light = 3 * log_n / np.log(n / m)
    assert theory.load_factor(n, m) == pytest.approx(light)
    assert theory.load_factor(n, 1e9 * n) == pytest.approx(1e9, rel=1e-3)
    if n > 2:  # the second and the third case meet
        edge = theory.load_factor(n, 1.0001 * n * log_n)
        assert edge == pytest.approx(np.e * log_n, rel=1e-3)


def test_proposition_1_agrees_with_simulation():
    rng, n = np.random.default_rng(0), 60
    tau = np.array([1, 2, 20, 36, 60])
    formula = [t + sum(i / (n - i) for i in range(1, t)) for t in tau]
    np.testing.assert_allclose(theory.expected_calls(n, tau), formula)
    calls = np.zeros((1500, len(tau)))
    for row in calls:
        draws = rng.integers(0, n, 3000)
        first = np.sort(np.unique(draws, return_index=True)[1])
        row[:] = first[tau - 1] + 1
    np.testing.assert_allclose(calls.mean(axis=0), formula, rtol=0.05)
    often = (calls > 2 * tau).mean(axis=0)
    assert (often <= theory.double_calls_risk(n, tau) + 0.02).all()


def test_proposition_1s_constant_fails_just_below_its_limit():
    n = 100_000
    tau = np.arange(2001, 59_700, 50)
    assert (theory.double_calls_risk(n, tau) <= np.exp(-n / 60)).all()
    n = 10_000
    assert theory.double_calls_risk(n, 5999) > np.exp(-n / 60)


def test_the_predicted_speedup_is_the_ratio_of_rates():
    tau = np.array([1, 5, 40])
    np.testing.assert_allclose(theory.predicted_speedup(tau, 2.0, 0.0), tau)
    np.testing.assert_allclose(theory.predicted_speedup(tau, 2.0, 2.0), 1.0)
    slowed = theory.predicted_speedup(tau, 2.0, 0.1, 1.0)
    np.testing.assert_allclose(slowed, theory.predicted_speedup(tau, 2.0, 0.1) / 2)
    bend = theory.curvature_bound(tau, 2.0, 0.1)
    needed = Rates(50, tau, bend, 0.0).primal_iterations(1e-6)
    ratio = needed[0] / needed
    np.testing.assert_allclose(
        theory.predicted_speedup(tau, 2.0, 0.1), ratio, rtol=1e-3
    )


@given(st.integers(2, 500).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))))
def test_a_diagonally_dominant_problem_is_half_of_tau_times_faster(size):
    n, tau = size
    assert theory.predicted_speedup(tau, 1.0, 1.0 / (n - 1)) >= tau / 2


def test_the_comparison_table():
    rows = theory.comparison_table([1.0, 2.0, 6.0], radius=2.0, batch_size=3, k=[1, 10])
    assert [row.method for row in rows] == ["AP-BCFW", "P-BCD", "AP-BCD"]
    np.testing.assert_allclose(rows[0].value, [12.0, 1.2])
    np.testing.assert_allclose(rows[1].value, rows[0].value)
    np.testing.assert_allclose(rows[2].value, [24.0, 2.4])
    pd = pytest.importorskip("pandas")
    assert list(pd.DataFrame(rows)) == ["method", "rate", "value", "source"]


def no_quadratic():
    return wolfpack.from_blocks(np.eye(3), lambda x, i: x[i] ** 3, wolfpack.simplex())


DIAMETERS = {"diameter_one": 1.0, "diameter_batch": 1.0}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.curvature_bound(0, 1, 1), "batch_size must be .* at least 1"),
        (lambda: theory.curvature_bound(1, -1, 1), "boundedness .* but is -1"),
        (lambda: theory.curvature_bound(1, 1, np.nan), "incoherence must be finite"),
        (lambda: theory.predicted_speedup(2, 0.0, 1), "boundedness .* above 0"),
        (lambda: Rates(10, 11, 1, 1), "from 1 to n_blocks, but is 11"),
        (lambda: Rates(10, 1.5, 1, 1), "whole number"),
        (lambda: Rates(0, 1, 1, 1), "n_blocks must be"),
        (lambda: Rates(10, 1, -1, 1), "curvature must be"),
        (lambda: Rates(10, 1, 1, -1), "first must be"),
        (lambda: Rates(10, 1, 1, 1, -0.1), "oracle_error must be .* but is -0.1"),
        (lambda: Rates(10, 1, 1, 1).primal_bound(-1), "k must be .* at least 0"),
        (lambda: Rates(10, 1, 1, 1).gap_bound(0), "k must be .* at least 1"),
        (lambda: Rates(10, 1, 1, 1).primal_iterations(0), "eps must be .* above 0"),
        (lambda: Rates(10, 1, 1, 1).gap_iterations(-1), "eps must be"),
        (lambda: theory.delay_error(-1, 1, 1, **DIAMETERS), "expected_delay .* is -1"),
        (lambda: theory.delay_error(1, 1, 0, **DIAMETERS), "curvature .* above 0"),
        (
            lambda: theory.bounded_delay_error(
                -2, 10, 1, 1, diameter_one=1, diameter_delayed=1
            ),
            "max_delay .* is -2",
        ),
        (lambda: theory.load_factor(1, 5), "n_blocks must be .* at least 2"),
        (lambda: theory.expected_calls(10, 11), "from 1 to n_blocks"),
        (lambda: theory.expected_calls([10, 20], 5), "one number"),
        (lambda: theory.comparison_table([1, -1], 1, 1, 1), "lipschitz must be"),
        (lambda: theory.fused_lasso_constants(1, 1, 1), "n_rows must be"),
        (lambda: theory.fused_lasso_constants(5, 1, 1, q=0.5), "q must be at least 1"),
        (lambda: theory.multiclass_constants(np.eye(3), [0, 1], 1), "3 entries"),
        (lambda: theory.multiclass_constants(np.eye(2), [0, 1], 0), "alpha .* above 0"),
        (lambda: theory.example_multiclass(5, 1, 1), "n_features must be"),
        (lambda: theory.example_svm(5, -1, 1), "radius must be"),
        (lambda: theory.sample_constants(no_quadratic()), "not quadratic"),
        (
            lambda: theory.sample_constants(curved_lasso(), confidence=1.0),
            r"confidence must lie in \(0, 1\), but is 1.0",
        ),
        (lambda: theory.sample_constants(curved_lasso(), n_samples=1), "n_samples"),
        (lambda: theory.sample_constants(curved_lasso(), n_starts=0), "n_starts"),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")

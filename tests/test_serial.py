"""The compiled loop against a dense NumPy version of Algorithm 1, update by update."""

import numpy as np
import pytest
from helpers import (
    Dense,
    advance,
    begin_run,
    chain_primal,
    chain_v,
    chain_x,
    dense_chain,
    dense_lasso,
    random_chains,
    read_labels,
    update,
)

import wolfpack

ALPHA = 0.4
LABELS = 3


class Lasso:
    def __init__(self):
        rng = np.random.default_rng(0)
        self.Y = rng.normal(size=(9, 2)).cumsum(axis=0)
        self.problem = wolfpack.group_fused_lasso(self.Y, ALPHA)
        self.dense = dense_lasso(self.Y, ALPHA)
        self.tolerance = 1e-11

    def x(self, state):
        points = list(state.blocks.points.copy())
        assert max(np.linalg.norm(u) for u in points) <= ALPHA * (1 + 1e-12)
        return points

    def v(self, shared):
        return shared.ravel().copy()

    def corner(self, i, atom):
        return atom.copy()

    def least(self, gradient):
        return -ALPHA * np.linalg.norm(gradient)

    def certificate(self, x):
        X = self.Y.copy()
        X[:-1] += x
        X[1:] -= x
        jumps = np.linalg.norm(np.diff(X, axis=0), axis=1).sum()
        primal = 0.5 * np.square(X - self.Y).sum() + ALPHA * jumps
        return primal, 0.5 * np.square(self.Y).sum() - 0.5 * np.square(X).sum()


class Chain:
    def __init__(self):
        X, y = random_chains(np.random.default_rng(1), 8, LABELS, [1, 2, 3])
        self.problem = wolfpack.chain_ssvm(X, y, 0.1, n_labels=LABELS)
        self.dense = dense_chain(X, y, 0.1, LABELS)
        self.tolerance = 2e-5

    def x(self, state):
        return chain_x(state, LABELS)

    def v(self, shared):
        return chain_v(shared, LABELS)

    def corner(self, i, atom):
        length = np.diff(self.problem.offsets)[i]
        return np.eye(LABELS**length)[read_labels(atom[:length], LABELS)]

    def least(self, gradient):
        return gradient.min()

    def certificate(self, x):
        return chain_primal(self.dense, self.dense.v(x)), -self.dense.f(x)


class Simplices:
    """|B x - b|^2 / 2 over a product of simplices, with a plain Python gradient."""

    def __init__(self):
        rng = np.random.default_rng(2)
        n, m = 6, 3
        B, b = rng.normal(size=(4, n * m)), rng.normal(size=4)
        self.problem = wolfpack.from_blocks(
            np.tile(np.eye(m)[0], (n, 1)),
            lambda x, i: B[:, m * i : m * i + m].T @ (B @ x.ravel() - b),
            wolfpack.simplex(),
            value=lambda x: 0.5 * np.square(B @ x.ravel() - b).sum(),
            quadratic=True,
        )
        A = np.split(np.eye(n * m), n, axis=1)
        zero = np.zeros(n * m)
        c = [np.zeros(m)] * n
        self.dense = Dense(A, c, zero, B.T @ B, -B.T @ b, 0.5 * b @ b)
        self.tolerance = 1e-11

    def x(self, state):
        points = list(state.blocks.points.copy())
        assert min(z.min() for z in points) >= 0
        assert max(abs(z.sum() - 1) for z in points) < 1e-12
        return points

    def v(self, shared):
        return shared.ravel().copy()

    def corner(self, i, atom):
        return atom.copy()

    def least(self, gradient):
        return gradient.min()

    def certificate(self, x):
        slack = [
            g @ z - g.min()
            for z, g in ((z, self.dense.gradient(x, i)) for i, z in enumerate(x))
        ]
        return sum(slack) - self.dense.f(x), -self.dense.f(x)


CASES = {kind.__name__: kind for kind in (Lasso, Chain, Simplices)}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return CASES[request.param]()


def close(one, two, tolerance):
    np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("rule", ["line", "open-loop", 0.3])
@pytest.mark.parametrize("tau", [1, 3, "n"])
@pytest.mark.parametrize("sampling", ["uniform", "permutation", "gap", "cyclic"])
def test_update_by_update(case, tau, rule, sampling):
    problem, dense, tolerance = case.problem, case.dense, case.tolerance
    tau = problem.n_blocks if tau == "n" else tau
    run = begin_run(problem, tau, rule, sampling)
    x = case.x(run.state)
    for k in range(30):
        before = dense.f(x)
        batch, atoms = advance(run)
        assert len(set(batch.tolist())) == tau
        corners = [case.corner(i, a) for i, a in zip(batch, atoms, strict=True)]
        for i, s in zip(batch, corners, strict=True):
            gradient = dense.gradient(x, i)
            close(s @ gradient, case.least(gradient), tolerance)
        expected, _ = update(dense, x, batch.tolist(), corners, rule, k)
        x = case.x(run.state)
        for z, e in zip(x, expected, strict=True):
            close(z, e, 50 * tolerance)  # a joint line search divides by |A d|^2
        close(case.v(run.state.shared), dense.v(x), 10 * tolerance)
        if rule == "line":
            assert dense.f(x) <= before + 10 * tolerance * (1 + abs(before))
    assert run.state.n_updates == 30
    assert run.state.progress.calls == 30 * tau


def test_gap_is_primal_minus_dual(case):
    for epochs in (0, 0.5, 3, 20):
        result = wolfpack.solve(
            case.problem,
            accelerate=False,
            tol=0,
            max_epochs=epochs,
            rng=0,
            check_every=7.0,
        )
        primal, dual = case.certificate(case.x(result.state))
        close(-result.lower_bound, primal, case.tolerance)
        close(-result.objective, dual, case.tolerance)
        close(result.gap, primal - dual, case.tolerance)
        assert result.gap >= -case.tolerance


def test_weighted_average(case):
    run = begin_run(case.problem, 1, "line", averaging=True)
    total, k = 0.0, 0
    for k in range(1, 26):
        advance(run)
        total = total + k * case.v(run.state.shared)
        mean = case.v(run.state.averaged())
        close(mean, 2 / (k * (k + 1)) * total, 30 * case.tolerance)
    assert np.abs(mean - case.v(run.state.shared)).max() > 1e-3  # not the same thing


@pytest.mark.parametrize("tau", [1, 4])
def test_average_certifies_the_smaller_primal(tau):
    case = Chain()
    seen = set()
    for epochs in (1, 2, 5, 40):
        run = begin_run(case.problem, tau, "open-loop", averaging=True)
        advance(run, epochs * 8 // tau)
        result = wolfpack.solve(
            case.problem, averaging=True, tol=0, max_epochs=epochs, rng=3,
            batch_size=tau, step="open-loop", check_every=100.0,
        )  # fmt: skip
        current = chain_primal(case.dense, case.v(run.state.shared))
        mean = chain_primal(case.dense, case.v(run.state.averaged()))
        close(-result.lower_bound, min(current, mean), 1e-4)
        assert result.averaged == (mean < current)
        seen.add(result.averaged)
    assert True in seen


@pytest.mark.parametrize("tau", [1, 3])
def test_solve_makes_the_same_updates(case, tau):
    run = begin_run(case.problem, tau, "line", "permutation")
    advance(run, -(-4 * case.problem.n_blocks // tau))
    result = wolfpack.solve(
        case.problem, accelerate=False, tol=0, max_epochs=4, rng=3, batch_size=tau,
        sampling="permutation", check_every=1.0,
    )  # fmt: skip
    assert result.n_updates == run.state.n_updates
    close(case.v(result.state.shared), case.v(run.state.shared), 100 * case.tolerance)


def test_an_exact_step_lands_on_the_block_minimiser():
    case = Lasso()
    run = begin_run(case.problem, 1, "exact")
    for _ in range(40):
        before = case.x(run.state)
        (i,), _ = advance(run)
        after = case.x(run.state)
        free = before[i] - 0.5 * case.dense.gradient(before, i)
        size = np.linalg.norm(free)
        close(after[i], free if size <= ALPHA else free * ALPHA / size, 1e-12)


def test_batch_frank_wolfe_ignores_the_seed():
    case = Lasso()
    n = case.problem.n_blocks
    ends = [
        wolfpack.solve(case.problem, batch_size=n, tol=0, max_epochs=9, rng=seed)
        for seed in (0, 1)
    ]
    close(ends[0].state.shared, ends[1].state.shared, 1e-12)
    assert ends[0].n_updates == 9

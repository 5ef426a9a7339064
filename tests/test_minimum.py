"""An oracle must return the exact minimum, and `check` looks for better points."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import wolfpack
from wolfpack import OracleError, Problem, ProblemError, solve

SLACK = 0.01


def first(scores, slack):
    return np.flatnonzero(scores <= scores.min() + slack)[0]


def worst(scores, slack):
    good = np.flatnonzero(scores <= scores.min() + slack)
    return good[scores[good].argmax()]


def relative(scores, slack):
    return worst(scores, slack * abs(scores.min()))


PICKS = {"first": first, "worst": worst, "relative": relative}
VECTORS = pytest.mark.parametrize("vectors", [False, True])
TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def corners(pick, slack, *, vectors=False, dtype=np.float64, bounds=True, seed=0):
    """The sum of points of polytopes comes near a target, at a cost."""
    rng = np.random.default_rng(seed)
    n, K, d = rng.integers(2, 30), rng.integers(2, 12), rng.integers(1, 8)
    P, L = rng.normal(size=(n, K, d)), 0.3 * rng.normal(size=(n, K))
    target = rng.choice([0.3, 1.0]) * np.sqrt(n) * rng.normal(size=d)

    def scores(v, i):
        return P[i].astype(v.dtype) @ (v - target.astype(v.dtype)) + L[i]

    def oracle(data, shared, i, atom, work):
        found = scores(shared, i)
        best = pick(found, slack)
        atom[:] = np.eye(K)[best] if vectors else best
        return found[best]

    def score(data, shared, i, atom):
        return scores(shared, i) @ atom if vectors else scores(shared, i)[atom[0]]

    def add(data, i, atom, scale, out):
        weights = atom if vectors else np.eye(K)[atom[0]]
        out += scale * (weights @ P[i])
        return scale * float(L[i] @ weights)

    def contains(data, i, atom):
        if vectors:
            return abs(atom.sum() - 1) < 1e-6 and atom.min() > -1e-6
        return 0 <= atom[0] < K

    one_each = np.tile(np.eye(K)[0], (n, 1)), None
    labels = np.zeros(n, np.int64), np.arange(n + 1)
    start, offsets = one_each if vectors else labels
    return Problem(
        data=(),
        shared=np.zeros(d, dtype),
        start=start,
        offsets=offsets,
        oracle=oracle,
        score=score,
        add=add,
        slope=lambda data, v, d, rows, gamma: float((v + gamma * d - target) @ d),
        value=lambda data, v: 0.5 * float(np.square(v - target).sum()),
        contains=contains if bounds else None,
    )


@TYPES
@VECTORS
@pytest.mark.parametrize("bounds", [True, False])
def test_an_exact_oracle_is_never_refused(vectors, dtype, bounds):
    for seed in range(60):
        how = {"vectors": vectors, "dtype": dtype, "bounds": bounds, "seed": seed}
        corners(worst, 0.0, **how).check()


@TYPES
@VECTORS
@pytest.mark.parametrize("pick", PICKS.values(), ids=PICKS)
def test_slack_that_gives_a_wrong_bound_is_found(pick, vectors, dtype):
    found = wrong = 0
    for seed in range(60):
        how = {"vectors": vectors, "dtype": dtype, "seed": seed}
        problem = corners(pick, SLACK, **how)
        try:
            problem.check()
        except ProblemError as error:
            found += "oracle is no minimiser on block" in str(error)
            continue
        best = solve(corners(worst, 0.0, **how), tol=1e-4, max_epochs=500, rng=0)
        try:
            result = solve(problem, tol=1e-4, max_epochs=50, rng=0)
        except OracleError:
            continue  # the run has found it
        above = result.lower_bound - best.objective
        wrong += above > 1e-5 * (1.0 + abs(best.objective))
    assert found >= 20
    assert wrong <= 1


# Sets of vectors, whose oracles stop short of the boundary.


def ball(space, shrink, m=4):
    rng = np.random.default_rng(m)
    target = 3.0 * rng.normal(size=(3, m))
    good = wolfpack.from_blocks(
        np.zeros((3, m)), lambda x, i: x.sum(axis=0) - target[i], space, quadratic=True
    )

    def oracle(data, shared, i, atom, work):
        least = good.oracle(data, shared, i, atom, work)
        atom *= shrink
        return shrink * least

    return good, {"oracle": oracle}


@pytest.mark.parametrize(
    "space",
    [
        wolfpack.l1_ball(2.0),
        wolfpack.l2_ball(2.0),
        wolfpack.lp_ball(3.0, 2.0),
        wolfpack.linf_ball(2.0),
        wolfpack.box(-1.0, 2.0),
    ],
    ids=["l1", "l2", "lp", "linf", "box"],
)
def test_an_oracle_that_stops_inside_its_set_is_refused(space):
    good, changes = ball(space, 0.98)
    good.check()
    dataclasses.replace(good).check()
    with pytest.raises(ProblemError, match=r"which contains\(\) accepts, scores"):
        dataclasses.replace(good, **changes).check()


# Structured atoms.


def labelling(greedy, T=6, K=3, n=4, seed=0):
    """Chains of labels; a greedy oracle takes the best label after the last one."""
    rng = np.random.default_rng(seed)
    pairs = rng.normal(size=(K, K))
    phi = rng.normal(size=(n, T, K, 5))

    def tables(v, i):
        return phi[i] @ v

    def best(U):
        if greedy:
            labels = [int(U[0].argmin())]
            for t in range(1, T):
                labels.append(int((U[t] + pairs[labels[-1]]).argmin()))
            return labels
        cost, back = U[0], []
        for t in range(1, T):
            step = cost[:, None] + pairs
            back.append(step.argmin(axis=0))
            cost = step.min(axis=0) + U[t]
        labels = [int(cost.argmin())]
        for b in back[::-1]:
            labels.append(int(b[labels[-1]]))
        return labels[::-1]

    def score(data, v, i, atom):
        U = tables(v, i)
        linear = sum(pairs[a, b] for a, b in itertools.pairwise(atom))
        return float(U[np.arange(T), atom].sum() + linear)

    def oracle(data, v, i, atom, work):
        atom[:] = best(tables(v, i))
        return score(data, v, i, atom)

    def add(data, i, atom, scale, out):
        out += scale * phi[i, np.arange(T), atom].sum(axis=0)
        return scale * sum(pairs[a, b] for a, b in itertools.pairwise(atom))

    return Problem(
        data=(),
        shared=np.zeros(5),
        start=np.zeros(n * T, np.int64),
        offsets=np.arange(n + 1) * T,
        oracle=oracle,
        score=score,
        add=add,
        slope=lambda data, v, d, rows, gamma: float((v + gamma * d) @ d),
        value=lambda data, v: 0.5 * float(v @ v),
        contains=lambda data, i, atom: atom.min() >= 0 and atom.max() < K,
        ridge=1.0,
    )


def test_a_greedy_oracle_is_refused_and_an_exact_one_is_not():
    for seed in range(10):
        labelling(False, seed=seed).check()
        with pytest.raises(ProblemError, match="oracle is no minimiser on block"):
            labelling(True, seed=seed).check()


def assignment(limits):
    """Permutations, whose `contains` looks at their order or at their range only."""
    rng, m, n = np.random.default_rng(0), 5, 4
    phi = rng.normal(size=(n, m, m, 3))
    target = rng.normal(size=3)

    def score(data, v, i, atom):
        return float((phi[i] @ (v - target))[np.arange(m), atom].sum())

    def oracle(data, v, i, atom, work):
        atom[:] = linear_sum_assignment(phi[i] @ (v - target))[1]
        return score(data, v, i, atom)

    def add(data, i, atom, scale, out):
        out += scale * phi[i, np.arange(m), atom].sum(axis=0)
        return 0.0

    return Problem(
        data=(),
        shared=np.zeros(3),
        start=np.tile(np.arange(m), n),
        offsets=np.arange(n + 1) * m,
        oracle=oracle,
        score=score,
        add=add,
        slope=lambda data, v, d, rows, gamma: float((v + gamma * d - target) @ d),
        contains=limits,
    )


@pytest.mark.parametrize(
    "limits",
    [
        lambda data, i, atom: bool((np.sort(atom) == np.arange(5)).all()),
        lambda data, i, atom: atom.min() >= 0 and atom.max() < 5,
        lambda data, i, atom: True,
        None,
    ],
    ids=["exact", "range", "anything", "none"],
)
def test_a_lenient_contains_refuses_no_exact_oracle(limits):
    assignment(limits).check()


def test_a_contains_with_a_tolerance_refuses_no_exact_oracle():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        target = rng.normal(size=(4, 3))
        good = wolfpack.from_blocks(
            np.zeros((4, 3)), lambda x, i, t=target: x.sum(0) - t[i], wolfpack.l2_ball()
        )
        rough = dataclasses.replace(
            good, contains=lambda data, i, atom: np.linalg.norm(atom) <= 1.0 + 5e-4
        )
        rough.check()


@pytest.mark.parametrize("space", [wolfpack.l2_ball(1.0), wolfpack.simplex()])
def test_a_contains_that_accepts_anything_says_nothing_about_vectors(space):
    start = np.full((3, 4), 0.25)
    good = wolfpack.from_blocks(start, lambda x, i: x[i] - 3.0 * i, space)
    dataclasses.replace(good, contains=lambda data, i, atom: True).check()

"""Every engine on every problem: the same optimum, a feasible x, and v = A x."""

import dataclasses
import functools
import itertools
import math
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
import scipy.sparse
import spy

import wolfpack
from wolfpack import Delayed, Ray, Serial, Sync, Threads, delays
from wolfpack.engines.cluster import connect
from wolfpack.engines.shared_memory.copies import STRIPE

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
DATA = Path(os.environ.get("WOLFPACK_DATA") or BESIDE)
RAY_MARKS = (
    pytest.mark.skipif(find_spec("ray") is None, reason="pip install 'wolfpack[ray]'"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray's log files
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
)


@pytest.fixture(scope="module")
def cluster():
    """A Ray of this module, of two cores."""
    import ray

    connect.connect(ray, None, 2)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    ray.shutdown()


def ocr():
    """Fold 0 at alpha = 1, where the file is there; the optimum is known."""
    if (DATA / "ocr").is_dir():
        words = wolfpack.load_ocr(folds=[0], data_home=DATA)
        return wolfpack.chain_ssvm(words.X, words.y, 1.0)
    dates, _ = wolfpack.load_dates(n_train=200)
    return wolfpack.chain_ssvm(dates.X, dates.y, 0.1)


def text():
    """Sequences with sparse features, and a v of more rows than are passed over."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for length in rng.integers(2, 9, 60):
        words = rng.zipf(1.3, (length, 6)) % 5000
        rows = np.repeat(np.arange(length), 6)
        shape = (length, 5000)
        table = scipy.sparse.csr_matrix(
            (np.ones(words.size), (rows, words.ravel())), shape
        )
        table.data[:] = 1.0
        X.append(table)
        y.append((words[:, 0] + rng.integers(0, 2, length)) % 5)
    problem = wolfpack.chain_ssvm(X, y, 0.02, n_labels=5)
    assert problem.touched is not None
    return problem


def classes():
    """Examples of 20 classes; features that are 0 or 1 take the loops of "ocr"."""
    rng = np.random.default_rng(0)
    y, patterns = rng.integers(20, size=300), rng.random((20, 40)) < 0.4
    X = patterns[y] ^ (rng.random((300, 40)) < 0.2)
    return wolfpack.multiclass_svm(X, y, 0.02)


def labels():
    """Examples with sets of labels, in pairs that occur together."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 10))
    Y = X @ rng.normal(size=(10, 3)) + rng.normal(size=(300, 3)) > 0.5
    return wolfpack.multilabel_svm(X, np.hstack([Y, Y ^ (X[:, :3] > 1)]), 0.05)


def signal():
    """The piecewise constant signal of 100 rows whose optimum is known."""
    rng = np.random.default_rng(0)
    cuts = np.sort(rng.choice(np.arange(1, 100), 9, replace=False))
    levels = rng.standard_normal((10, 10))
    clean = levels[np.searchsorted(cuts, np.arange(100), side="right")]
    return clean + 0.1 * rng.standard_normal((100, 10))


@numba.njit
def gradient(x, i, target):
    return x.sum(axis=0) - target + 0.5 * x[i]


@numba.njit
def value(x, target):
    return 0.5 * np.square(x.sum(axis=0) - target).sum() + 0.25 * np.square(x).sum()


@numba.njit
def steep_gradient(x, i, target):
    return np.exp(x.sum(axis=0) - target) + 0.5 * x[i]


@numba.njit
def steep_value(x, target):
    return np.exp(x.sum(axis=0) - target).sum() + 0.25 * np.square(x).sum()


def simplices(steep):
    """Blocks that share a sum, quadratic or not."""
    x0, target = np.tile(np.eye(4)[0], (30, 1)), np.array([4.0, 9.0, 2.0, 15.0])
    functions = (steep_gradient, steep_value) if steep else (gradient, value)
    return wolfpack.from_blocks(
        x0, functions[0], wolfpack.simplex(), value=functions[1], args=(target,),
        quadratic=not steep, scale=50.0,
    )  # fmt: skip


def without_rows(steep):
    """The same problem with a v that is passed over as a whole."""
    problem = dataclasses.replace(simplices(steep), touched=None, max_rows=0)
    return problem.made_by(without_rows, steep)


# How to make it, and how far each is solved.
PROBLEMS = {
    "ocr": (ocr, 1e-3),
    "classes": (classes, 1e-3),
    "text": (text, 1e-2),
    "lasso": (lambda: wolfpack.group_fused_lasso(signal(), 0.5), 1e-3),
    "spy": (spy.make, 1e-4),
    "lasso linf": (lambda: wolfpack.group_fused_lasso(signal(), 0.5, q=1.0), 1e-3),
    "simplices": (lambda: simplices(False), 1e-3),
    "steep": (lambda: simplices(True), 1e-3),
    "simplices without rows": (lambda: without_rows(False), 1e-3),
    "steep without rows": (lambda: without_rows(True), 1e-3),
    "labels": (labels, 1e-3),
}
SLOW_TO_COMPILE = [*PROBLEMS][5:]
LARGE = ["ocr", "classes", "text"]  # where five threads on two cores take long


class Row(NamedTuple):
    """An engine: how it is made of T workers, and what is special about it."""

    make: Callable
    sizes: tuple[int, ...] = (1, 2, 5)
    refuses: tuple = ()  # step rules, and averaging
    may_rise: Callable = lambda problem: False  # f, with two workers and more
    alone: bool = False  # one worker, whatever T says
    marks: tuple = ()
    slow: tuple[str, ...] = ()  # problems that take it long
    fixture: str | None = None


# Here T is the mean delay of Delayed.
ENGINES = {
    "serial": Row(lambda T: Serial(), sizes=(1,)),
    "merge": Row(
        lambda T: Threads(T, mode="merge"),
        refuses=("open-loop", "averaging"),
        may_rise=lambda problem: problem.touched is not None,
    ),
    "server": Row(lambda T: Threads(T, mode="server")),
    "lock-free": Row(
        lambda T: Threads(T, mode="lock-free"),
        refuses=("averaging",),
        may_rise=lambda problem: True,
    ),
    "sync": Row(Sync),
    "delayed": Row(lambda T: Delayed(delays.poisson(T)), alone=True),
    "simulated": Row(lambda T: Delayed(workers=delays.Workers(T))),
    "ray": Row(
        lambda T: Ray(n_workers=T),
        sizes=(2,),
        refuses=("exact",),
        marks=RAY_MARKS,
        slow=(*LARGE, "lasso"),
        fixture="cluster",
    ),
}
# P and D of facts that an independent solver found; f = -D.
KNOWN = {"ocr": (-0.7303991688, -0.7303990740), "lasso": (-22.827210, -22.827208)}


@functools.cache
def problem_of(name):
    return PROBLEMS[name][0]()


@functools.cache
def bracket(name):
    """Return bounds on the optimal value: from the literature, or from `Serial`."""
    if name in KNOWN and (name != "ocr" or (DATA / "ocr").is_dir()):
        return KNOWN[name]
    result = wolfpack.solve(
        problem_of(name), engine=Serial(), tol=0.1 * PROBLEMS[name][1], rng=0,
        max_epochs=10**5, accelerate=False,
    )  # fmt: skip
    assert result.converged
    return result.lower_bound, result.objective


def matrix(problems, without=(), once=False):
    """Parametrise by problem, engine and T, without engines that refuse something.

    `once` takes one of an engine's sizes: two workers, where it has them.
    """
    found = []
    for name, (kind, row) in itertools.product(problems, ENGINES.items()):
        if {*without} & {*row.refuses}:
            continue
        slow = name in SLOW_TO_COMPILE or name in row.slow or (once and row.fixture)
        for T in row.sizes[:2][-1:] if once else row.sizes:
            marks = [*row.marks]
            if slow or (T > 2 and name in LARGE):
                marks.append(pytest.mark.slow)
            where = f"{name}-{kind}-{T}"
            found.append(pytest.param(name, kind, T, marks=marks, id=where))
    return pytest.mark.parametrize(("name", "kind", "T"), found)


@pytest.fixture
def engine(request, name, kind, T):
    """The engine of a row of the matrix, with what it needs to run."""
    if ENGINES[kind].fixture:
        request.getfixturevalue(ENGINES[kind].fixture)
    return ENGINES[kind].make(T)


def is_single(problem):
    return problem.shared.dtype == np.float32


def assert_feasible(problem, state):
    """x lies in its set, and is a convex combination where atoms are kept."""
    kernels, n = problem.kernels(), problem.n_blocks
    assert kernels.first_outside(problem.data, state.blocks, n) == -1
    if problem.offsets is None:
        return
    for i in range(n):
        slot, count = state.blocks.place[i][["slot", "count"]]
        weights = state.blocks.weights[slot : slot + count]
        assert (weights > 0).all()
        assert abs(weights.sum() - 1) < 1e-12


def assert_v_fits_x(problem, state):
    exact = problem.shared.astype(np.float64)
    n = problem.n_blocks
    problem.kernels().rebuild(problem.data, state.blocks, 0, n, exact, problem.work())
    error = np.linalg.norm(exact - state.shared) / np.linalg.norm(exact)
    assert error < (1e-6 if is_single(problem) else 1e-9)


def assert_right(name, result, goal):
    """Check the certificate of a converged run against what else is known."""
    problem = problem_of(name)
    noise = (1e-6 if is_single(problem) else 1e-9) * problem.scale
    assert result.converged, result
    assert 0 <= result.gap <= goal * problem.scale
    assert result.lower_bound == result.objective - result.gap
    below, above = bracket(name)
    assert result.objective >= below - noise
    assert result.lower_bound <= above + noise
    for row in result.trace:
        assert row.lower_bound <= above + noise
        assert 0 <= row.drift < (1e-4 if is_single(problem) else 1e-9)
    assert_feasible(problem, result.state)
    assert_v_fits_x(problem, result.state)


def assert_monotone(problem, result):
    noise = (1e-6 if is_single(problem) else 1e-9) * problem.scale
    for one, two in itertools.pairwise(result.trace):
        assert two.objective <= one.objective + noise


@matrix(PROBLEMS)
def test_the_optimum_is_the_same(engine, name, kind, T):
    problem, goal = problem_of(name), PROBLEMS[name][1]
    how = {"tol": goal, "max_epochs": 10**5, "rng": 0, "accelerate": False}
    result = wolfpack.solve(problem, engine=engine, **how)
    assert_right(name, result, goal)
    assert result.n_workers == (1 if ENGINES[kind].alone else T)
    # Steps that others disturb may rise; all else searches along what it adds.
    if T == 1 or not ENGINES[kind].may_rise(problem):
        assert_monotone(problem, result)


@pytest.mark.parametrize("batch", [1, None])
@pytest.mark.parametrize("T", [2, 5])
def test_a_large_v_is_merged_by_stripes(T, batch, data_home, monkeypatch):
    monkeypatch.setattr("wolfpack.engines.threads.STRIPED_BYTES", 0)
    problem, goal = problem_of("ocr"), PROBLEMS["ocr"][1]
    assert problem.shared.size > 2 * STRIPE
    result = wolfpack.solve(
        problem, engine=Threads(T), batch_size=batch and T * batch, tol=goal, rng=0,
        max_epochs=10**4, accelerate=False,
    )  # fmt: skip
    assert_right("ocr", result, goal)


@matrix(["lasso", "lasso linf"], without=["exact"])
def test_steps_to_the_block_minimiser(engine, name):
    how = {"step": "exact", "tol": 1e-4, "max_epochs": 10**5, "rng": 0}
    result = wolfpack.solve(problem_of(name), engine=engine, **how)
    assert_right(name, result, 1e-4)
    U, alpha = result.state.blocks.points, 0.5
    assert np.linalg.norm(U, axis=1, ord=2 if name == "lasso" else np.inf).max() <= (
        alpha * (1 + 1e-9)
    )
    X = signal()  # the primal and the dual by hand
    jumps = np.zeros_like(X)
    jumps[:-1] += U
    jumps[1:] -= U
    np.testing.assert_allclose(result.solution, X + jumps, atol=1e-9)
    centred = X - X.mean(axis=0)
    dual = 0.5 * np.square(centred).sum() - 0.5 * np.square(centred + jumps).sum()
    assert -result.objective == pytest.approx(dual, rel=1e-9)
    order = 2 if name == "lasso" else 1
    price = np.linalg.norm(np.diff(result.solution, axis=0), axis=1, ord=order).sum()
    primal = 0.5 * np.square(jumps).sum() + alpha * price
    assert -result.lower_bound == pytest.approx(primal, rel=1e-9)


def assert_progress(engine, rule):
    problem = problem_of("spy")
    how = {"step": rule, "tol": 0, "max_epochs": 60, "rng": 0}
    result = wolfpack.solve(problem, engine=engine, **how)
    spy.points(result.state)
    assert_v_fits_x(problem, result.state)
    first = result.trace[0]
    assert result.objective < first.objective
    assert result.gap < 0.5 * first.gap
    assert math.isclose(result.objective - result.gap, result.lower_bound)
    assert result.lower_bound <= bracket("spy")[1] + 1e-12


@matrix(["spy"], once=True)
def test_a_constant_step_stays_feasible(engine):
    assert_progress(engine, 0.05)


@matrix(["spy"], without=["open-loop"], once=True)
def test_open_loop_steps_stay_feasible(engine):
    assert_progress(engine, "open-loop")


@matrix(["spy"], without=["open-loop", "averaging"], once=True)
def test_averages_give_true_bounds(engine):
    below, above = bracket("spy")
    result = wolfpack.solve(
        problem_of("spy"), engine=engine, step="open-loop", averaging=True, tol=0,
        max_epochs=100, rng=0, check_every=5.0,
    )  # fmt: skip
    for row in result.trace:
        assert row.lower_bound <= above + 1e-12
        assert row.objective >= below - 1e-12
    k = result.n_updates
    mean = result.state.averaged()
    assert k == result.state.n_updates > 0
    # An average of v = A x lies within reach: no closer to b than the optimum is.
    assert 0.5 * np.square(mean - problem_of("spy").data.b).sum() >= below - 1e-12

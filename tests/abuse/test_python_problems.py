"""Plain Python functions of every kind belong to one problem, and are never shared.

Two problems whose gradients differ in what they close over, or are called with: each
answer is held against its own target.
"""

import dataclasses
import functools
import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import wolfpack

N, M = 4, 300
random = np.random.default_rng(0)
ONE = random.normal(size=(N, M))
TWO = ONE.copy()  # which prints alike: it differs in the middle
TWO[1:3, 100:200] = 5 * random.normal(size=(2, 100))


@dataclasses.dataclass
class Model:
    T: np.ndarray

    def gradient(self, x, i):
        return x[i] - self.T[i]

    def __call__(self, x, i):
        return x[i] - self.T[i]


class Slots:
    __slots__ = ("T",)

    def __init__(self, T):
        self.T = T


def by_keyword(T):
    def gradient(x, i, *, T=T):
        return x[i] - T[i]

    return gradient


def by_attribute(T):
    def gradient(x, i):
        return x[i] - gradient.T[i]

    gradient.T = T
    return gradient


def by_exec(T):
    space = {"T": T}
    exec("def gradient(x, i):\n    return x[i] - T[i]", space)
    return space["gradient"]


def closing_over(make, read):
    """Return a maker of gradients that read the target from an object."""

    def maker(T):
        held = make(T)
        return lambda x, i: x[i] - read(held, i)

    return maker


MAKERS = {
    "array": closing_over(lambda T: T, lambda T, i: T[i]),
    "masked array": closing_over(np.ma.masked_array, lambda T, i: T.data[i]),
    "sparse": closing_over(sp.csr_matrix, lambda T, i: T[i].toarray()[0]),
    "sparse array": closing_over(sp.csc_array, lambda T, i: T[[i]].toarray()[0]),
    "list of sparse": closing_over(
        lambda T: [sp.csr_matrix(row) for row in T], lambda T, i: T[i].toarray()[0]
    ),
    "dict": closing_over(lambda T: {"T": T}, lambda d, i: d["T"][i]),
    "data frame": closing_over(pd.DataFrame, lambda T, i: T.to_numpy()[i]),
    "object": closing_over(Model, lambda model, i: model.T[i]),
    "slots": closing_over(Slots, lambda held, i: held.T[i]),
    "iterator": closing_over(lambda T: T.__getitem__, lambda get, i: get(i)),
    "method": lambda T: Model(T).gradient,
    "callable": Model,
    "partial": lambda T: functools.partial(lambda x, i, T: x[i] - T[i], T=T),
    "default": lambda T: lambda x, i, T=T: x[i] - T[i],
    "keyword": by_keyword,
    "attribute": by_attribute,
    "exec": by_exec,
}
ARGS = {
    "array": (lambda T: T, lambda x, i, T: x[i] - T[i]),
    "sparse": (sp.csr_matrix, lambda x, i, T: x[i] - T[i].toarray()[0]),
    "dict": (lambda T: {"T": T}, lambda x, i, d: x[i] - d["T"][i]),
    "data frame": (pd.DataFrame, lambda x, i, T: x[i] - T.to_numpy()[i]),
    "object": (Model, lambda x, i, model: x[i] - model.T[i]),
}


def make(gradient, **more):
    x0 = np.full((N, M), 1 / M)
    return wolfpack.from_blocks(
        x0, gradient, wolfpack.simplex(), quadratic=True, **more
    )


def check(problem, T, engine=None):
    """Solve, and compute the gap of the answer without wolfpack."""
    result = wolfpack.solve(problem, tol=1e-2, max_epochs=100, rng=0, engine=engine)
    x = result.solution
    slope = x - T
    gap = float((x * slope).sum() - slope.min(axis=1).sum())
    assert result.gap == pytest.approx(gap, rel=1e-6, abs=1e-9)
    assert result.converged
    return result


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_each_problem_has_its_own_functions(maker):
    problems = [make(maker(T)) for T in (ONE, TWO)]
    for problem, T in zip(problems, (ONE, TWO), strict=True):
        check(problem, T)
    check(problems[0], ONE)  # again, after the other


@pytest.mark.parametrize(("hold", "gradient"), ARGS.values(), ids=ARGS)
def test_args_may_be_anything_in_python(hold, gradient):
    problems = [make(gradient, args=(hold(T),)) for T in (ONE, TWO, ONE)]
    for problem, T in zip(problems, (ONE, TWO, ONE), strict=True):
        check(problem, T)
    marks = [problem.fingerprint for problem in problems]
    assert marks[0] != marks[1]
    assert marks[0] == marks[2]


def test_what_cannot_be_pickled_belongs_to_one_problem():
    def local():
        return ONE

    one, two = (make(lambda x, i, f: x[i] - f()[i], args=(local,)) for _ in range(2))
    assert one.fingerprint == one.fingerprint
    assert one.fingerprint != two.fingerprint
    result = wolfpack.solve(one, max_epochs=3, tol=0, rng=0)
    more = wolfpack.solve(one, max_epochs=5, tol=0, start=result.state)
    assert more.epochs == 5


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"])
def test_sparse_data_count_by_content(kind):
    def mark(T):
        S = sp.csr_matrix(T[:, 90:110]).asformat(kind)
        return make(lambda x, i, S: x[i], args=(S,))

    one, two, again = (mark(T).fingerprint for T in (ONE, TWO, ONE))
    assert one != two
    assert one == again


def test_the_check_calls_as_often_for_many_blocks_as_for_few():
    calls = []

    def gradient(x, i):
        calls.append(i)
        return x[i] - 0.5

    counts = []
    for n in (10, 1000):
        problem = wolfpack.from_blocks(
            np.full((n, 4), 0.25), gradient, wolfpack.simplex(),
            quadratic=True, value=lambda x: float(0.5 * np.square(x - 0.5).sum()),
        )  # fmt: skip
        calls.clear()
        problem.check()
        counts.append(len(calls))
        calls.clear()
        problem.check()  # once is enough
        assert not calls
    assert counts[0] == counts[1]


def test_the_check_is_within_the_time_limit():
    """The clock runs while the functions are tried; here each call takes a second."""
    begin = [0.0]

    def gradient(x, i):
        begin[0] += 1.0
        return x[i] - ONE[i]

    real = time.perf_counter
    problem = make(gradient)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: real() + begin[0])
        result = wolfpack.solve(problem, max_seconds=30.0, tol=0, rng=0)
    assert result.status.name == "TIME_LIMIT"
    assert result.n_updates == 0  # the check alone made more than 30 calls

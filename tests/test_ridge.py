"""`ridge` is held against what the functions say, in any precision."""

import dataclasses

import numba
import numpy as np
import pytest
from spy import unchecked

import wolfpack
from wolfpack import OracleError, Problem, ProblemError, solve

C, CONSTANT = 1000.0 / 3.0, 5.0


def _double(x):
    return x.astype(np.float64)


def _single(x):
    return x.astype(np.float32)


@numba.njit
def _one_by_one(a, b):
    total = np.float32(0.0)
    for k in range(a.size):
        total = np.float32(total + np.float32(a[k]) * np.float32(b[k]))
    return total


# Inner products of different precision, all of them honest.
PRODUCTS = {
    "double": lambda a, b: float(_double(a) @ _double(b)),
    "as given": lambda a, b: float(a @ b),
    "cast": lambda a, b: float(_single(a) @ _single(b)),
    "cast in the end": lambda a, b: float(np.float32(_double(a) @ _double(b))),
    "single precision, in sequence": lambda a, b: float(_one_by_one(a, b)),
}


def make(
    product=PRODUCTS["double"], dtype=np.float32, d=3, *, c=C, told=1.0, add_scale=1.0,
    score_scale=1.0, weights=None, constant=CONSTANT,
):  # fmt: skip
    """min c/2 |A x|^2 over one point per block, whose optimum is known."""
    A = np.random.default_rng(d).normal(size=(3, d))
    W = np.ones(d) if weights is None else weights

    def least(shared, i):
        return c * product(A[i] * W, shared)

    def oracle(data, shared, i, atom, work):
        atom[:] = 1.0
        return score_scale * least(shared, i)

    def score(data, shared, i, atom):
        return score_scale * atom[0] * least(shared, i)

    def add(data, i, atom, scale, out):
        out += add_scale * scale * atom[0] * A[i]
        return 0.0

    def slope(data, shared, direction, rows, gamma):
        return c * product((shared + gamma * direction) * W, direction)

    def value(data, shared):
        return 0.5 * c * product(shared * W, shared) + constant

    problem = Problem(
        data=(A,),
        shared=np.zeros(d, dtype),
        start=np.ones((3, 1)),
        oracle=oracle,
        score=score,
        add=add,
        slope=slope,
        value=value,
        ridge=told * C,
    )
    return problem, 0.5 * C * np.square(A.sum(axis=0)).sum() + constant


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
@pytest.mark.parametrize("d", [1, 3, 50, 20_000])
def test_a_true_ridge_is_accepted_in_any_precision(product, dtype, d):
    for constant in (0.0, 1.0, -1e4):
        make(product, dtype, d, constant=constant)[0].check()
    make(product, dtype, d, c=float(np.float32(C)))[0].check()  # kept as float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
@pytest.mark.parametrize("d", [3, 20_000])
@pytest.mark.parametrize("told", [1 - 5e-5, 1 + 5e-5, 1 - 1e-5])
def test_a_ridge_that_is_a_little_wrong_is_refused(product, dtype, d, told):
    problem, _ = make(product, dtype, d, told=told)
    with pytest.raises(ProblemError, match=r"ridge is .*, but slope does not fit that"):
        problem.check()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_change_of_a_ten_millionth_is_seen_in_double_precision(dtype):
    make(dtype=dtype, told=1 + 1e-8)[0].check()
    with pytest.raises(ProblemError, match=r"333.333433/2 .*but slope does not fit"):
        make(dtype=dtype, told=1 + 3e-7)[0].check()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_other_weights_are_no_ridge(dtype):
    weights = np.where(np.arange(3000) % 2, 1 + 5e-5, 1 - 5e-5)
    with pytest.raises(ProblemError, match="slope does not fit"):
        make(dtype=dtype, d=3000, weights=weights)[0].check()


@pytest.mark.parametrize("fault", ["add_scale", "score_scale"])
def test_scores_that_do_not_fit_the_ridge_are_refused(fault):
    with pytest.raises(ProblemError, match="but score does not fit that"):
        make(**{fault: 1 - 5e-5})[0].check()


def test_a_value_that_does_not_fit_is_refused():
    problem, _ = make()
    value = problem.value
    wrong = dataclasses.replace(
        problem, value=lambda data, shared: 0.99999 * value(data, shared)
    )
    with pytest.raises(ProblemError, match=r"value does not fit that: .* instead of"):
        wrong.check()


# What a run reports where nobody has checked.


@pytest.mark.parametrize(
    ("dtype", "off"), [(np.float32, 1e-6), (np.float64, 1e-10), (np.float64, 0.0)]
)
def test_the_objective_is_f_itself(dtype, off):
    problem, f = make(dtype=dtype, told=1 - off)
    result = solve(unchecked(problem), accelerate=True, tol=1e-3, max_epochs=20, rng=0)
    assert result.state.outer is not None
    assert result.objective == pytest.approx(f, rel=1e-12)
    assert result.lower_bound <= result.objective


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_negative_gap_names_the_ridge(dtype):
    problem = unchecked(make(dtype=dtype, told=0.99)[0])
    with pytest.raises(OracleError, match=r"the gap is -.*ridge=330 does not fit g"):
        solve(problem, accelerate=True, max_epochs=5, rng=0)
    plain = solve(problem, accelerate=False, max_epochs=5, rng=0)
    assert plain.converged  # without acceleration no bound depends on the ridge


def test_a_negative_gap_without_acceleration_names_the_oracle():
    problem = make(score_scale=1.0)[0]

    def oracle(data, shared, i, atom, work):
        atom[:] = 1.0
        return 1.5 * problem.oracle(data, shared, i, atom, work)

    wrong = unchecked(make(dtype=np.float64)[0], oracle=oracle)
    with pytest.raises(OracleError, match="one: the oracle misses its minimum on"):
        solve(wrong, accelerate=False, max_epochs=5, rng=0)


@pytest.mark.slow
def test_ready_problems_fit_their_ridge_to_the_last_digits():
    Y = np.random.default_rng(0).normal(size=(30, 2)).cumsum(axis=0)
    wolfpack.group_fused_lasso(1e3 * Y + 1e5, 0.3).check()
    labels = np.arange(30) % 3
    for alpha in (1e-5, 1 / 3, 30.0):
        wolfpack.multiclass_svm(1e3 * Y, labels, alpha).check()

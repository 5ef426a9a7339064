"""What a Problem is held to before a run, and what happens when it fails during one."""

import dataclasses
import importlib.util
import inspect
import logging
from pathlib import Path
from typing import NamedTuple

import cvxpy as cp
import numba
import numpy as np
import pytest
from scipy.optimize import linprog
from spy import unchecked

import wolfpack
from wolfpack import OracleError, Problem, ProblemError
from wolfpack.checks.problem import check

TEMPLATE = Path(__file__).parents[1] / "extension_template" / "my_problem.py"
spec = importlib.util.spec_from_file_location("my_problem", TEMPLATE)
template = importlib.util.module_from_spec(spec)
spec.loader.exec_module(template)

random = np.random.default_rng(0)
CORNERS, TARGET = random.normal(size=(9, 4, 3)), random.normal(size=3)


def polytopes(target=3 * TARGET, **changes):
    """The template's problem, by default with its plain Python functions."""
    problem = template.make_problem(CORNERS, target)
    names = ("oracle", "score", "add", "slope", "value", "contains")
    plain = {name: getattr(problem, name).py_func for name in names}
    return dataclasses.replace(problem, **(plain | changes))


# The template, and ready sets.


@pytest.fixture(scope="module")
def far():
    """A target that no sum reaches, so that the optimum is not 0."""
    return 40.0 * TARGET


def test_the_template_finds_the_optimum(far):
    weights = cp.Variable(CORNERS.shape[:2], nonneg=True)
    total = sum(weights[i] @ CORNERS[i] for i in range(len(CORNERS)))
    goal = cp.Minimize(0.5 * cp.sum_squares(total - far))
    best = cp.Problem(goal, [cp.sum(weights, axis=1) == 1]).solve(solver=cp.CLARABEL)
    assert best > 1.0
    problem = template.make_problem(CORNERS, far)
    result = wolfpack.solve(problem, tol=1e-7, max_epochs=1000, rng=0)
    assert result.converged
    slack = 1e-7 * best
    assert result.lower_bound - slack <= best <= result.objective + slack
    np.testing.assert_allclose(result.solution, total.value, atol=1e-3)


SETS = {
    "simplex": (wolfpack.simplex(2.0), lambda z: [z >= 0, cp.sum(z) == 2]),
    "l1": (wolfpack.l1_ball(2.0), lambda z: [cp.norm1(z) <= 2]),
    "l2": (wolfpack.l2_ball(2.0), lambda z: [cp.norm2(z) <= 2]),
    "lp": (wolfpack.lp_ball(3.0, 2.0), lambda z: [cp.pnorm(z, 3) <= 2]),
    "linf": (wolfpack.linf_ball(2.0), lambda z: [cp.norm_inf(z) <= 2]),
    "box": (wolfpack.box(-1.0, [0.0, 1, 2, 3]), lambda z: [z >= -1, z <= [0, 1, 2, 3]]),
    "nuclear": (
        wolfpack.nuclear_ball((2, 2), 2.0),
        lambda z: [cp.normNuc(cp.reshape(z, (2, 2), order="C")) <= 2],
    ),
}


@pytest.mark.parametrize("kind", SETS)
def test_from_blocks_over_each_set(kind):
    space, constraints = SETS[kind]
    rng = np.random.default_rng(4)
    n, m = 3, 4
    B, b = rng.normal(size=(6, n * m)), 9 * rng.normal(size=6)
    x0 = np.zeros((n, m))
    if kind == "simplex":
        x0[:, 1] = 2.0

    def gradient(x, i):
        return B[:, m * i : m * i + m].T @ (B @ x.ravel() - b)

    def value(x):
        return 0.5 * np.square(B @ x.ravel() - b).sum()

    problem = wolfpack.from_blocks(x0, gradient, space, value=value, quadratic=True)
    result = wolfpack.solve(problem, tol=0, max_epochs=150, rng=0)
    z = cp.Variable((n, m))
    goal = cp.Minimize(0.5 * cp.sum_squares(B @ cp.reshape(z, n * m, order="C") - b))
    limits = [limit for i in range(n) for limit in constraints(z[i])]
    best = cp.Problem(goal, limits).solve(solver=cp.CLARABEL)
    slack = 1e-6 * best
    assert result.lower_bound - slack <= best <= result.objective + slack
    assert result.gap < 0.05 * best
    assert value(result.solution) == pytest.approx(result.objective, rel=1e-9)
    for i in range(n):
        assert space.contains(space.params, i, result.solution[i], 1e-9)


# Problem.check, before a run.


def mangle(name, change):
    """The template's function `name`, with something done to it."""
    good = getattr(template, name).py_func
    return lambda *args: change(good, *args)


def spoil_atom(good, data, shared, i, atom, work):
    least = good(data, shared, i, atom, work)
    atom[0] = 99
    return least


def maximise(good, data, shared, i, atom, work):
    products = data.corners[i] @ (shared - data.target)
    atom[0] = products.argmax()
    return products[atom[0]]


def write_shared(good, data, shared, i, atom, work):
    least = good(data, shared, i, atom, work)
    shared[0] += 1e-3
    return least


def fail(good, *args):
    raise KeyError("no such node")


def forget_rows(data, i, move, rows, work):
    rows[0] = 0
    return 1


def forget_scale(good, data, i, atom, scale, out):
    return good(data, i, atom, 1.0, out)


def quartic(good, data, shared, direction, rows, gamma):
    return ((shared + gamma * direction - data.target) ** 3) @ direction


def quartic_score(good, data, shared, i, atom):
    return data.corners[i, atom[0]] @ (shared - data.target) ** 3


def quartic_oracle(good, data, shared, i, atom, work):
    products = data.corners[i] @ (shared - data.target) ** 3
    atom[0] = products.argmin()
    return products[atom[0]]


def quartic_value(good, data, shared):
    return ((shared - data.target) ** 4).sum() / 4


QUARTIC = {
    "value": mangle("value", quartic_value),
    "slope": mangle("slope", quartic),
    "score": mangle("score", quartic_score),
    "oracle": mangle("oracle", quartic_oracle),
}

WRONG = {
    "missing": ({"oracle": None}, "oracle is missing: a Problem needs oracle, score"),
    "arguments": (
        {"oracle": lambda data, shared: 0.0},
        r"oracle\(data, shared\) cannot be called as oracle\(data, shared, i,",
    ),
    "raises": ({"oracle": mangle("oracle", fail)}, "oracle on block 0 raised KeyError"),
    "NaN": (
        {"oracle": mangle("oracle", lambda good, *args: good(*args) * np.nan)},
        "oracle on block 0 returned nan; it must be finite",
    ),
    "None": (
        {"add": mangle("add", lambda good, *args: None)},
        "add on block 0 returned None; .*number",
    ),
    "infeasible": (
        {"oracle": mangle("oracle", spoil_atom)},
        r"oracle gave a point of block 0 that contains\(\) .* outside the feasible set",
    ),
    "sign": (
        {"oracle": mangle("oracle", maximise)},
        r"oracle is no minimiser on block \d.*sign the wrong way",
    ),
    "shared": (
        {"oracle": mangle("oracle", write_shared)},
        "oracle wrote into shared; it may only read it",
    ),
    "score": (
        {"score": mangle("score", lambda good, *args: good(*args) + 0.1)},
        "oracle returned .*, but score of its atom is",
    ),
    "slope": (
        {"slope": mangle("slope", lambda good, *args: 2 * good(*args))},
        "slope and add give .*, but score gives .*; they must be equal",
    ),
    "add": (
        {
            "add": mangle(
                "add", lambda good, *args: good(*args[:-2], -args[-2], args[-1])
            )
        },
        "slope and add give",
    ),
    "scale": (
        {"add": mangle("add", forget_scale)},
        "add on block 0 is not proportional",
    ),
    "rows": (
        {"touched": forget_rows, "max_rows": 3},
        "touched leaves out rows that add",
    ),
    "max_rows": (
        {"touched": forget_rows},
        "touched on block 0 reads or writes outside",
    ),
    "value": (
        {"value": mangle("value", lambda good, *args: 7 * good(*args))},
        "value rises by .* along a step, but its slopes say",
    ),
    "scale of tol": ({"scale": 0.0}, "scale must be positive, .* but is 0.0"),
    "quartic": (QUARTIC, "g is not quadratic.*quadratic=False"),
    "half a step": (
        {"prepare": lambda *args: 0.0},
        r"cannot be called|is for spread",
    ),
    "strided": ({"shared": np.zeros((3, 2))[:, 0]}, "shared must be C-contiguous"),
    "list": (
        {"shared": [0.0, 0.0, 0.0]},
        "shared must be a NumPy array, but is a list",
    ),
    "integers": ({"shared": np.zeros(3, int)}, "shared must be float32 or float64"),
    "NaN start": (
        {"offsets": None, "start": np.full((9, 1), np.nan)},
        "start holds NaN or infinity",
    ),
    "empty": (
        {"start": np.zeros(0, int), "offsets": np.zeros(1, int)},
        "start is empty",
    ),
    "offsets": ({"offsets": np.arange(9)}, "offsets end at 8, start has shape"),
    "empty atom": (
        {"offsets": np.array([0, 1, 1, 3, 4, 5, 6, 7, 8, 9])},
        "offsets must start at 0 and increase",
    ),
    "vectors": ({"offsets": None}, "without offsets, start must be a float array"),
    "start": (
        {"start": np.array([0, 0, 7, 0, 0, 0, 0, 0, 0])},
        r"start gave a point of block 2 that contains\(\) .* outside the feasible set",
    ),
}


@pytest.mark.parametrize(("changes", "message"), WRONG.values(), ids=WRONG)
def test_check_says_what_is_wrong(changes, message):
    problem = polytopes(**changes)
    with pytest.raises(ProblemError, match=message) as caught:
        problem.check()
    assert "\n" not in str(caught.value)


def test_check_accepts_what_is_right():
    polytopes().check()
    polytopes(**QUARTIC, quadratic=False).check()


def test_a_wrong_sign_is_seen_where_v_starts_at_zero():
    # As in every SVM: at v = 0 the gradient is c alone, and A does not show in it.
    eye = np.eye(3)

    def make(sign):
        return Problem(
            data=(eye,),
            shared=np.zeros(3),
            start=np.zeros((2, 3)),
            oracle=lambda data, v, i, atom, work: _to_corner(v - 1, atom),
            score=lambda data, v, i, atom: (v - 1) @ atom,
            add=lambda data, i, atom, scale, out: _add_to(
                out, sign * scale, atom, scale
            ),
            slope=lambda data, v, d, rows, gamma: (v + gamma * d) @ d,
        )

    make(1.0).check()
    with pytest.raises(ProblemError, match="slope and add give"):
        make(-1.0).check()


def _to_corner(gradient, atom):
    atom[:] = np.where(np.arange(3) == gradient.argmin(), 1.0, 0.0)
    return gradient @ atom


def _add_to(out, scale, atom, linear):
    out += scale * atom
    return -linear * atom.sum()


def test_a_function_of_x_that_lives_on_the_set_only():
    # -log(sum of x) is not defined at v0 = 0, and is at every point of the set.
    def gradient(x, i):
        with np.errstate(divide="raise", invalid="raise"):
            return -1.0 / x.sum(axis=0)

    problem = wolfpack.from_blocks(np.full((3, 2), 0.5), gradient, wolfpack.simplex())
    assert wolfpack.solve(problem, tol=1e-2, rng=0).converged


@numba.njit
def does_not_type(data, shared, i, atom, work):
    return shared + "text"


@numba.njit
def writes_outside(data, shared, i, atom, work):
    for j in range(atom.size + 1):
        atom[j] = 0
    return 0.0


@numba.njit
def helper_writes_outside(data, shared, i, atom, work):
    return writes_outside(data, shared, i, atom, work)


@numba.njit
def raises(data, shared, i, atom, work):
    raise ValueError("negative cycle")


@pytest.mark.parametrize(
    ("oracle", "message"),
    [
        (does_not_type, "oracle does not compile: "),
        (
            writes_outside,
            r"oracle on block 0 reads or writes outside an array .*indices",
        ),
        (helper_writes_outside, "oracle on block 0 reads or writes outside an array"),
        (raises, "oracle on block 0 raised ValueError: negative cycle"),
    ],
)
def test_check_of_compiled_functions(oracle, message):
    with pytest.raises(ProblemError, match=message) as caught:
        wolfpack.solve(polytopes(oracle=oracle))
    assert str(caught.value).count("\n") == 0


def test_a_check_that_passed_does_not_excuse_another_start():
    good = faulty(FINE, compiled=True)
    good.check()
    good.check()  # remembered
    start = np.where(np.arange(10)[:, None] == 3, 2.0, good.start)
    other = dataclasses.replace(good, start=start)
    with pytest.raises(ProblemError, match="start gave a point of block 3"):
        other.check()


# Failures during a run.

FINE, RAISES, GIVES_NAN, LEAVES = 0, 1, 2, 3
BAD_BLOCK = 7


class Fault(NamedTuple):
    target: np.ndarray
    mode: int


@numba.njit
def faulty_oracle(data, shared, i, atom, work):
    gradient = shared - data.target
    atom[:] = -gradient / np.sqrt(np.dot(gradient, gradient))
    if i == BAD_BLOCK and shared[0] != 0.0:
        if data.mode == RAISES:
            raise ValueError("the graph is not connected")
        if data.mode == GIVES_NAN:
            atom[1] = np.nan
        if data.mode == LEAVES:
            atom *= 2.0
    return np.dot(gradient, atom)


@numba.njit
def faulty_score(data, shared, i, atom):
    return np.dot(shared - data.target, atom)


@numba.njit
def faulty_add(data, i, atom, scale, out):
    out += scale * atom
    return 0.0


@numba.njit
def faulty_slope(data, shared, direction, rows, gamma):
    return np.dot(shared + gamma * direction - data.target, direction)


@numba.njit
def faulty_contains(data, i, atom):
    return not np.dot(atom, atom) > 1.0 + 1e-9


def faulty(mode, compiled):
    functions = {
        "oracle": faulty_oracle,
        "score": faulty_score,
        "add": faulty_add,
        "slope": faulty_slope,
        "contains": faulty_contains,
    }
    if not compiled:
        functions = {name: function.py_func for name, function in functions.items()}
    return Problem(
        data=Fault(np.array([20.0, 1.0]), mode),
        shared=np.zeros(2),
        start=np.zeros((10, 2)),
        name="faulty",
        **functions,
    )


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("tau", [1, 4])
@pytest.mark.parametrize(
    ("mode", "message"),
    [
        (RAISES, "raised ValueError on block 7: the graph is not connected"),
        (GIVES_NAN, "NaN or infinite on block 7 after"),
        (LEAVES, "outside the feasible set on block 7 after"),
    ],
)
def test_a_failure_names_its_block_and_keeps_the_iterate(mode, message, tau, compiled):
    how = {"sampling": "permutation", "batch_size": tau, "tol": 1e-9, "max_epochs": 300}
    with pytest.raises(OracleError, match=message) as caught:
        wolfpack.solve(faulty(mode, compiled), rng=1, **how)
    error = caught.value
    assert error.block == BAD_BLOCK
    state = error.state
    assert state.n_updates > 0
    points = state.blocks.points
    assert np.linalg.norm(points, axis=1).max() <= 1 + 1e-9
    np.testing.assert_allclose(state.shared, points.sum(axis=0), atol=1e-12)
    assert np.abs(points).max() > 0
    result = wolfpack.solve(faulty(FINE, compiled), start=state, rng=0, **how)
    assert result.converged


@pytest.mark.parametrize("compiled", [True, False])
def test_a_failure_in_the_certificate_names_its_block(compiled):
    # All blocks move at once from v = 0, where the oracle is fine; the pass is not.
    with pytest.raises(OracleError, match="raised ValueError on block 7") as caught:
        wolfpack.solve(faulty(RAISES, compiled), batch_size=10, tol=0)
    assert caught.value.state.n_updates == 1
    with pytest.raises(OracleError, match="returned NaN on block 7 in a full pass"):
        wolfpack.solve(faulty(GIVES_NAN, compiled), batch_size=10, tol=0)


def test_an_oracle_that_stops_minimising_is_caught_by_its_gap():
    def lazy(data, shared, i, atom, work):
        least = template.oracle.py_func(data, shared, i, atom, work)
        if np.abs(shared).sum() > 1e-9 and shared[0] != START_SUM[0]:
            products = data.corners[i] @ (shared - data.target)
            atom[0] = products.argmax()
            return products[atom[0]]
        return least

    with pytest.raises(OracleError, match="no minimiser gives a negative one"):
        wolfpack.solve(unchecked(polytopes(oracle=lazy)), rng=0)
    with pytest.raises(ProblemError, match="oracle is no minimiser on block"):
        polytopes(oracle=lazy).check()


START_SUM = CORNERS[:, 0].sum(axis=0)


# Plain Python functions.


def test_an_oracle_from_scipy_reaches_the_same_optimum(caplog, far):
    n, k, _ = CORNERS.shape
    total = np.ones((1, k))

    def oracle(data, shared, i, atom, work):
        gradient = CORNERS[i] @ (shared - far)
        atom[:] = linprog(gradient, A_eq=total, b_eq=[1.0], bounds=(0, None)).x
        return gradient @ atom

    def add(data, i, atom, scale, out):
        out += scale * (atom @ CORNERS[i])
        return 0.0

    problem = Problem(
        data=(),
        shared=np.zeros(3),
        start=np.full((n, k), 1.0 / k),
        oracle=oracle,
        score=lambda data, shared, i, atom: CORNERS[i] @ (shared - far) @ atom,
        add=add,
        slope=lambda data, v, d, rows, gamma: (v + gamma * d - far) @ d,
        value=lambda data, v: 0.5 * np.square(v - far).sum(),
        name="oracle from scipy",
    )
    caplog.set_level(logging.INFO, logger="wolfpack")
    plain = wolfpack.solve(problem, tol=1.0, max_epochs=40, rng=0)
    said = [r for r in caplog.records if "plain Python functions" in r.getMessage()]
    assert [r.levelname for r in said] == ["WARNING"]
    wolfpack.solve(problem, tol=1e9, rng=0)
    again = [r for r in caplog.records if "plain Python functions" in r.getMessage()]
    assert len(again) == 1
    native = template.make_problem(CORNERS, far)
    native = wolfpack.solve(native, tol=1e-9, max_epochs=1000, rng=0)
    assert plain.converged
    assert native.lower_bound <= plain.objective * (1 + 1e-9)
    assert plain.lower_bound <= native.objective <= plain.objective + native.gap


def test_the_uncompiled_loop_makes_the_same_updates(far):
    how = {"tol": 0, "max_epochs": 6, "rng": 2, "batch_size": 2, "sampling": "gap"}
    native = wolfpack.solve(template.make_problem(CORNERS, far), **how)
    plain = wolfpack.solve(polytopes(far), **how)
    np.testing.assert_allclose(plain.state.shared, native.state.shared, rtol=1e-9)
    assert plain.n_oracle_calls == native.n_oracle_calls
    np.testing.assert_array_equal(
        plain.state.blocks.place.count, native.state.blocks.place.count
    )


# from_blocks.


@pytest.mark.parametrize(
    ("x0", "gradient", "space", "message"),
    [
        (np.zeros(3), lambda x, i: x[i], wolfpack.l2_ball(), r"x0 must have shape \(n"),
        (np.zeros((0, 3)), lambda x, i: x[i], wolfpack.l2_ball(), "x0 must have shape"),
        (np.zeros((2, 3)), 3.0, wolfpack.l2_ball(), "gradient must be a function"),
        (np.zeros((2, 3)), lambda x, i: x[i], "simplex", "set must be a wolfpack set"),
    ],
)
def test_from_blocks_refuses(x0, gradient, space, message):
    with pytest.raises(ProblemError, match=message):
        wolfpack.from_blocks(x0, gradient, space)


@pytest.mark.parametrize(
    ("x0", "gradient", "message"),
    [
        (np.ones((3, 2)), lambda x, i: x[i], "start gave a point of block 0"),
        (np.eye(3, 2), lambda x, i: x[i], "start gave a point of block 2"),
        (np.full((2, 2), 0.5), lambda x, i: x[i, :1], "oracle on block 0 raised"),
        (np.full((2, 2), 0.5), lambda x: x, "oracle on block 0 raised TypeError"),
        (np.full((2, 2), 0.5), lambda x, i: x[i] * np.nan, "oracle .* returned nan"),
    ],
)
def test_from_blocks_is_checked(x0, gradient, message):
    problem = wolfpack.from_blocks(x0, gradient, wolfpack.simplex())
    with pytest.raises(ProblemError, match=message):
        wolfpack.solve(problem)


def test_rounding_of_a_large_gradient_is_no_fault():
    """<s, gradient> is tiny here, and the difference of two numbers of 2e11."""
    target = np.array([4.0, 15.0])
    problem = wolfpack.from_blocks(
        np.tile([1.0, 0.0], (30, 1)),
        lambda x, i: np.exp(x.sum(axis=0) - target),
        wolfpack.simplex(),
    )
    problem.check()


def test_the_averaged_solution_is_the_average():
    b = np.array([1.2, 0.8])
    problem = wolfpack.from_blocks(
        np.array([[1.0, 0.0], [1.0, 0.0]]),
        lambda x, i: x.sum(axis=0) - b,
        wolfpack.simplex(),
        value=lambda x: 0.5 * np.square(x.sum(axis=0) - b).sum(),
        quadratic=True,
    )
    result = wolfpack.solve(
        problem, averaging=True, step=0.9, tol=0, max_epochs=8, rng=0
    )
    assert result.averaged
    mean = result.state.averaged()
    np.testing.assert_allclose(result.solution, mean, atol=1e-12)
    assert np.abs(mean - result.state.blocks.points).max() > 1e-3


@pytest.mark.slow
def test_check_holds_the_fused_step_against_the_rest():
    words = wolfpack.load_dates(n_train=4, n_test=1)[0]
    problem = wolfpack.chain_ssvm(words.X, words.y, alpha=0.1)
    check(problem)
    for name in ("curvature", "rate", "spread"):
        wrong = twice(getattr(problem, name))
        with pytest.raises(ProblemError, match=f"{name} .*"):
            check(dataclasses.replace(problem, **{name: numba.njit(wrong)}))


def twice(good):
    """Return the function, or what it writes, doubled."""
    count = len(inspect.signature(good.py_func).parameters)
    if "scale" in inspect.signature(good.py_func).parameters:

        def spread(data, i, move, scale, out, work):
            return good(data, i, move, 2 * scale, out, work)

        return spread
    if count == 4:

        def curvature(data, i, move, work):
            return 2 * good(data, i, move, work)

        return curvature

    def rate(data, shared, i, move, work, is_fresh):
        return 2 * good(data, shared, i, move, work, is_fresh)

    return rate

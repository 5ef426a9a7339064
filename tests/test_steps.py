"""How far an update moves."""

import itertools

import numpy as np
import pytest
from helpers import advance, begin_run
from scipy.optimize import minimize_scalar
from scipy.special import expit

import wolfpack
from wolfpack.update.steps import closed_form, open_loop


@pytest.mark.parametrize("n", [1, 10, 1000])
@pytest.mark.parametrize("tau", [1, 3, 10])
def test_the_open_loop_step_is_the_papers_clipped(n, tau):
    if tau > n:
        with pytest.raises(ValueError, match="batch_size"):
            begin_run(cubes(n), tau)
        return
    steps = [open_loop(n, tau, k) for k in range(500)]
    paper = [2 * n * tau / (tau**2 * k + 2 * n) for k in range(500)]
    np.testing.assert_allclose(steps, np.minimum(paper, 1.0))
    assert max(steps) == 1.0
    assert (max(paper) > 1) == (tau > 1)  # which would leave the feasible set
    assert all(a >= b > 0 for a, b in itertools.pairwise(steps))


def test_the_closed_form_is_clipped_and_never_negative():
    assert closed_form(1.0, 4.0) == 0.25
    assert closed_form(4.0, 1.0) == 1.0
    assert closed_form(1.0, 0.0) == 1.0
    assert closed_form(0.0, 0.0) == 0.0
    assert closed_form(-1e-18, 1e-30) == 0.0  # rounding must not step backwards
    assert np.isnan(closed_form(1.0, np.nan))
    assert closed_form(np.nan, 1.0) == 0.0


def cubes(n, f=None, gradient=None):
    return wolfpack.from_blocks(
        np.full((n, 2), 0.5),
        gradient or (lambda x, i: x[i]),
        wolfpack.box(0.0, 1.0),
        value=f or (lambda x: 0.5 * np.square(x).sum()),
    )


rng = np.random.default_rng(0)
B, b = rng.normal(size=(5, 12)), rng.normal(size=5)


def residual(x):
    return B @ np.asarray(x).ravel() - b


FUNCTIONS = {
    "quartic": (
        lambda x: 0.25 * (residual(x) ** 4).sum(),
        lambda x, i: B[:, 2 * i : 2 * i + 2].T @ residual(x) ** 3,
    ),
    "logistic": (
        lambda x: np.logaddexp(0.0, 3 * residual(x)).sum(),
        lambda x, i: 3 * B[:, 2 * i : 2 * i + 2].T @ expit(3 * residual(x)),
    ),
    "steep": (  # a slope of 1e4 at one end and of -1 at the other
        lambda x: np.exp(8 * residual(x)).sum() - residual(x).sum(),
        lambda x, i: B[:, 2 * i : 2 * i + 2].T @ (8 * np.exp(8 * residual(x)) - 1),
    ),
    "almost linear": (
        lambda x: (1e-9 * residual(x) ** 2 + residual(x)).sum(),
        lambda x, i: B[:, 2 * i : 2 * i + 2].T @ (2e-9 * residual(x) + 1),
    ),
}


@pytest.mark.parametrize("tau", [1, 4])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_line_search_finds_the_minimum_of_any_convex_function(name, tau):
    f, gradient = FUNCTIONS[name]
    run = begin_run(cubes(6, f, gradient), tau, "line")
    inside = 0
    for _ in range(25):
        x = run.state.blocks.points.copy()
        chosen, atoms = advance(run)
        after = run.state.blocks.points.copy()
        direction = np.zeros_like(x)
        direction[chosen] = atoms - x[chosen]
        if not direction.any():
            continue
        best = minimize_scalar(
            lambda t, x=x, direction=direction: f(x + t * direction),
            bounds=(0.0, 1.0),
            method="bounded",
            options={"xatol": 1e-12},
        )
        least = min(best.fun, f(x), f(x + direction))
        assert f(after) <= least + 1e-8 * (f(x) - least) + 1e-12 * (1 + abs(least))
        assert f(after) <= f(x) + 1e-12 * (1 + abs(f(x)))
        moved = np.abs(direction).argmax()
        gamma = (after - x).flat[moved] / direction.flat[moved]
        np.testing.assert_allclose(after, x + gamma * direction, atol=1e-12)
        inside += 0.0 < gamma < 1.0
    assert inside > 5 or name == "almost linear"


def test_a_cliff_takes_no_more_than_a_few_slopes():
    slopes = []

    def gradient(x, i):
        slopes.append(x[0, 0])
        return np.array([np.exp(80 * x[0, 0]) - np.exp(24.0), 0.0])

    problem = wolfpack.from_blocks(np.zeros((1, 2)), gradient, wolfpack.box(0.0, 1.0))
    run = begin_run(problem)
    advance(run)
    assert run.state.blocks.points[0, 0] == pytest.approx(0.3, abs=1e-6)
    assert len(slopes) < 60


def test_a_quadratic_may_say_so_or_not():
    target = np.array([[3.0, -2.0]])

    def make(quadratic):
        return wolfpack.from_blocks(
            np.zeros((4, 2)),
            lambda x, i: x.sum(axis=0) - target[0],
            wolfpack.l2_ball(),
            quadratic=quadratic,
        )

    ends = [
        wolfpack.solve(make(q), tol=0, max_epochs=20, rng=0, batch_size=2).solution
        for q in (True, False)
    ]
    np.testing.assert_allclose(*ends, atol=1e-7)

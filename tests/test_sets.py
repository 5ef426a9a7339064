"""The ready sets: atoms against dual norms, projections against cvxpy."""

import pickle

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wolfpack.sets import (
    Set,
    box,
    l1_ball,
    l2_ball,
    linf_ball,
    lp_ball,
    nuclear_ball,
    simplex,
)

RADIUS = 2.5
LOW, HIGH = np.array([-1.0, 0, 2, -3, 0.5, 0]), np.array([1.0, 0, 4, 5, 0.75, 9])
SIZE = LOW.size

# A set, and the least value of <s, g> over it.
CASES = {
    "simplex": (simplex(RADIUS), lambda g: RADIUS * g.min()),
    "l1": (l1_ball(RADIUS), lambda g: -RADIUS * np.abs(g).max()),
    "l2": (l2_ball(RADIUS), lambda g: -RADIUS * np.linalg.norm(g)),
    "linf": (linf_ball(RADIUS), lambda g: -RADIUS * np.abs(g).sum()),
    "l1.5": (lp_ball(1.5, RADIUS), lambda g: -RADIUS * np.linalg.norm(g, 3)),
    "l4": (lp_ball(4, RADIUS), lambda g: -RADIUS * np.linalg.norm(g, 4 / 3)),
    "box": (box(LOW, HIGH), lambda g: np.minimum(LOW * g, HIGH * g).sum()),
    "nuclear": (
        nuclear_ball((2, 3), RADIUS),
        lambda g: -RADIUS * np.linalg.norm(g.reshape(2, 3), 2),
    ),
}
PROJECTABLE = ["simplex", "l1", "l2", "linf", "box"]

every_set = pytest.mark.parametrize(
    ("space", "least"), CASES.values(), ids=CASES.keys()
)
every_projection = pytest.mark.parametrize(
    "space", [CASES[name][0] for name in PROJECTABLE], ids=PROJECTABLE
)
entries = st.floats(-1e3, 1e3, allow_subnormal=False)
vectors = hnp.arrays(np.float64, SIZE, elements=entries)
quick = settings(max_examples=60, deadline=None)


def minimise(space: Set, gradient: np.ndarray, i: int = 0) -> np.ndarray:
    atom = np.full_like(gradient, 77.0)
    space.minimise(space.params, i, gradient, atom)
    return atom


def project(space: Set, point: np.ndarray, i: int = 0) -> np.ndarray:
    assert space.project is not None
    point = point.copy()
    space.project(space.params, i, point)
    return point


def contains(space: Set, point: np.ndarray, tolerance=1e-9, i: int = 0) -> bool:
    return space.contains(space.params, i, point, tolerance)


def random_points(space: Set, rng: np.random.Generator) -> np.ndarray:
    """Points of the set, drawn without its oracle."""
    draws = rng.normal(size=(50, SIZE))
    if space.name == "simplex":
        return RADIUS * rng.dirichlet(np.full(SIZE, 0.5), 50)
    if space.name == "box":
        return LOW + (HIGH - LOW) * rng.random((50, SIZE))
    if space.name == "nuclear_ball":
        norms = np.linalg.norm(draws.reshape(50, 2, 3), "nuc", (1, 2))
    else:
        p = {"l1_ball": 1, "l2_ball": 2, "linf_ball": np.inf}.get(space.name)
        p = space.params[1][0] if p is None else p
        norms = np.linalg.norm(draws, p, axis=1)
    return draws * (RADIUS * rng.random(50) ** 0.1 / norms)[:, np.newaxis]


@every_set
@quick
@given(gradient=vectors)
def test_atom_is_in_the_set_and_attains_the_dual_norm(space, least, gradient):
    atom = minimise(space, gradient)
    assert contains(space, atom)
    np.testing.assert_allclose(atom @ gradient, least(gradient), rtol=1e-9, atol=1e-9)


@every_set
def test_no_point_of_the_set_beats_the_atom(space, least):
    rng = np.random.default_rng(0)
    points = random_points(space, rng)
    assert all(contains(space, point) for point in points)
    for gradient in rng.normal(size=(20, SIZE)):
        atom = minimise(space, gradient)
        assert (points @ gradient >= atom @ gradient - 1e-9).all()


@every_set
def test_a_point_outside_is_not_contained(space, least):
    gradient = np.array([1.0, 0, 0.5, 3, -1, -0.1])
    inside = minimise(space, gradient)
    outside = inside - 1e-3 * RADIUS * gradient
    assert contains(space, inside)
    assert not contains(space, outside)
    assert contains(space, outside, tolerance=10.0)


@every_set
def test_tolerance_is_relative_to_the_set(space, least):
    gradient, gap = np.array([1.0, -2, 0.5, 3, -1, 0.1]), 1e-6
    inside = minimise(space, gradient)
    assert contains(space, inside * (1 + gap), tolerance=2 * gap)
    assert not contains(space, inside * (1 + gap), tolerance=gap / 2)


@every_set
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_never_contained(space, least, bad):
    for j in range(SIZE):
        point = minimise(space, np.ones(SIZE))
        point[j] = bad
        assert not contains(space, point, tolerance=1e3)


@every_set
def test_a_nan_in_the_gradient_shows_in_the_atom(space, least):
    for j in range(SIZE):
        gradient = np.zeros(SIZE)
        gradient[j] = np.nan
        assert np.isnan(minimise(space, gradient)).any()


@every_set
@pytest.mark.parametrize("size", [0.0, 5e-324, 1e-300, 1e-160, 1e160, 1e300])
def test_extreme_gradients_give_points_of_the_set(space, least, size):
    for gradient in (np.full(SIZE, size), -size * np.arange(SIZE)):
        atom = minimise(space, gradient)
        assert contains(space, atom)
        if size >= 1e-300:
            np.testing.assert_allclose(
                atom @ (gradient / size), least(gradient / size), rtol=1e-9
            )


@every_set
@quick
@given(gradient=vectors)
def test_single_precision(space, least, gradient):
    gradient = gradient.astype(np.float32)
    atom = minimise(space, gradient)
    assert atom.dtype == np.float32
    assert contains(space, atom, tolerance=1e-5)
    size = 1e-5 * RADIUS * (1 + np.abs(gradient).sum())
    exact = gradient.astype(np.float64)
    np.testing.assert_allclose(atom @ exact, least(exact), rtol=1e-5, atol=size)


@every_projection
@quick
@given(point=vectors)
def test_projection_is_contained_idempotent_and_nearest(space, point):
    nearest = project(space, point)
    assert contains(space, nearest)
    np.testing.assert_allclose(project(space, nearest), nearest, atol=1e-12)
    # <point - nearest, s - nearest> <= 0 for all s of the set: the worst is an atom.
    pull = point - nearest
    slack = 1e-9 * (1 + np.abs(pull).sum())
    assert pull @ (minimise(space, -pull) - nearest) <= slack


@every_projection
def test_projection_agrees_with_cvxpy(space):
    x = cp.Variable(SIZE)
    constraints = {
        "simplex": [x >= 0, cp.sum(x) == RADIUS],
        "l1_ball": [cp.norm1(x) <= RADIUS],
        "l2_ball": [cp.norm2(x) <= RADIUS],
        "linf_ball": [cp.norm_inf(x) <= RADIUS],
        "box": [x >= LOW, x <= HIGH],
    }[space.name]
    target = cp.Parameter(SIZE)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - target)), constraints)
    for point in np.random.default_rng(1).normal(scale=3.0, size=(4, SIZE)):
        target.value = point
        problem.solve(solver=cp.CLARABEL)
        expected = np.asarray(x.value)
        np.testing.assert_allclose(project(space, point), expected, atol=1e-5)


@every_projection
def test_projection_of_single_precision_huge_and_nan_points(space):
    point = np.array([3.0, -4, 0.1, 1, 2, 2.5])
    single = project(space, point.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, project(space, point), atol=1e-6)
    assert contains(space, project(space, 1e14 * point))
    assert contains(space, project(space, point - 1e14))
    point[2] = np.nan
    assert np.isnan(project(space, point)).any()


@pytest.mark.parametrize(
    "make", [simplex, l1_ball, l2_ball, linf_ball, lambda radius: lp_ball(3.0, radius)]
)
def test_one_radius_a_block(make):
    radii = np.array([1.0, 2.0, 0.5])
    several, gradient = make(radii), np.array([1.0, -2, 3, -4])
    for i, radius in enumerate(radii):
        alone = minimise(make(radius), gradient, 7)
        np.testing.assert_array_equal(minimise(several, gradient, i), alone)
        assert contains(several, alone, i=i)
        assert not contains(several, 1.1 * alone, i=i)
        if several.project is not None:
            far = 10 * gradient
            expected = project(make(radius), far)
            np.testing.assert_array_equal(project(several, far, i), expected)
    assert np.isnan(minimise(several, gradient, 3)).any()
    assert not contains(several, np.zeros(4), i=3)


def test_nuclear_radius_a_block():
    space, gradient = nuclear_ball((2, 2), [1.0, 3.0]), np.array([2.0, 0, 0, 1])
    atom = minimise(space, gradient, 1)
    np.testing.assert_allclose(atom, [-3.0, 0, 0, 0], atol=1e-12)
    assert not contains(space, atom, i=0)


def test_box_bounds_a_block():
    low, high = np.array([[0.0, 1], [2, 3]]), np.array([[1.0, 1], [5, 6]])
    space = box(low, high)
    np.testing.assert_array_equal(minimise(space, np.array([1.0, -1]), 1), [2, 6])
    np.testing.assert_array_equal(project(space, np.array([3.0, 3]), 0), [1, 1])
    assert np.isnan(minimise(space, np.ones(2), 2)).all()
    assert not contains(space, np.zeros(2), i=2)
    mixed = box(0, high)
    np.testing.assert_array_equal(minimise(mixed, np.array([-1.0, 1]), 1), [5, 0])


def test_bounds_of_another_length_are_seen():
    space = box(0, [1.0, 2])
    assert np.isnan(minimise(space, -np.ones(3))[2])
    with pytest.raises(ValueError, match=r"shape|broadcast"):
        contains(space, np.zeros(3))


def test_the_arrays_given_are_copied():
    radius, low, high = np.ones(2), np.zeros((2, 2)), np.ones((2, 2))
    ball, bounds = l2_ball(radius), box(low, high)
    radius[:], low[:], high[:] = 9.0, 9.0, 9.0
    assert ball.params[0].tolist() == [1.0, 1.0]
    assert bounds.params[0].max() == 0.0
    assert bounds.params[1].max() == 1.0


@every_set
def test_strided_blocks(space, least):
    gradient, atom = np.arange(1.0, 2 * SIZE + 1)[::2], np.empty(2 * SIZE)[::2]
    space.minimise(space.params, 0, gradient, atom)
    np.testing.assert_array_equal(atom, minimise(space, gradient.copy()))


@every_set
def test_pickles(space, least):
    again = pickle.loads(pickle.dumps(space))
    gradient = np.arange(1.0, SIZE + 1)
    assert type(again.params) is type(space.params)
    np.testing.assert_array_equal(minimise(again, gradient), minimise(space, gradient))


@pytest.mark.parametrize("make", [simplex, l1_ball, l2_ball, linf_ball])
@pytest.mark.parametrize(
    "radius", [0.0, -1.0, np.nan, np.inf, [1.0, -2.0], [], [[1.0]], None]
)
def test_bad_radius(make, radius):
    with pytest.raises(ValueError, match=r"radius must be .* got "):
        make(radius)


@pytest.mark.parametrize("p", [1.0, 0.5, np.inf, np.nan, -2])
def test_bad_exponent(p):
    with pytest.raises(ValueError, match=r"1, inf.* got "):
        lp_ball(p)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (1.0, 0.0, "low <= high"),
        ([0.0, 2.0], 1.0, "low <= high"),
        ([0.0, 0.0], [1.0, 1.0, 1.0], "fitting shapes"),
        (-np.inf, 0.0, "low must be finite"),
        (0.0, np.nan, "high must be finite"),
        (0.0, np.ones((1, 1, 1)), "at most 2-D"),
    ],
)
def test_bad_bounds(low, high, message):
    with pytest.raises(ValueError, match=message):
        box(low, high)


@pytest.mark.parametrize("shape", [(2,), (2, 3, 4), (0, 3), (2.0, 3.0), 4, (-1, 2)])
def test_bad_shape(shape):
    with pytest.raises(ValueError, match="two positive integers, got"):
        nuclear_ball(shape)

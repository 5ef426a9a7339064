"""The sums of the outer loop, by vectors and what is left, against NumPy."""

import numpy as np
import pytest

from wolfpack.run.crew import Crew
from wolfpack.update.outer import LANES, LONG, Outer

REACH = 0.3


def three(size, kind):
    rng = np.random.default_rng(size)
    return [rng.normal(size=size).astype(kind) for _ in range(3)]


def begin(v, z):
    outer = Outer.begin(v)
    outer.anchor[...] = z
    outer.numbers.reach = REACH
    u = z.astype(float) + (v.astype(float) - z) / REACH
    return outer, u


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(
    "size", [0, 1, LANES - 1, LANES, LANES + 1, 1000, 2 * LONG + 3]
)
@pytest.mark.parametrize("n_threads", [1, 3])
def test_inner_products(kind, size, n_threads):
    v, z, v0 = three(size, kind)
    outer, u = begin(v, z)
    with Crew(n_threads) as crew:
        found = outer.measure(v, v0.astype(float), crew)
        without = outer.measure(v, np.zeros(0), crew)
        apart = outer.apart(v, crew)
    expected = [v @ v.astype(float), v0 @ v.astype(float), u @ u, (u - v) @ (u - v)]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-10)
    assert without == found._replace(vv0=0.0)
    assert apart == pytest.approx(expected[3], rel=1e-12)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_step_leaves_u_where_it_is(kind):
    v, z, w = three(1003, kind)
    outer, u = begin(v, z)
    outer.last[...] = w
    beta, before = outer.beta, v.astype(float)
    outer.step(v, 0.5, inner=1.0, calls=7)
    tolerance = 1e-5 if kind is np.float32 else 1e-12
    expected = before + beta * (before - w)
    np.testing.assert_allclose(outer.anchor, expected, atol=tolerance)
    np.testing.assert_allclose(outer.last, before, atol=0)
    np.testing.assert_allclose(v, expected + 0.5 * (u - expected), atol=10 * tolerance)
    assert (outer.reach, outer.numbers.steps, outer.numbers.calls) == (0.5, 1, 7)

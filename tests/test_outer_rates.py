"""The rates of the outer loop, against Catalyst as it is printed, on quadratics."""

import math

import numpy as np
import pytest

from wolfpack.theory import OuterRates, Rates
from wolfpack.update.outer import Outer

CONVEXITY = 0.1  # mu
REACHES = (0.5, 0.1, 0.01)


class Quadratic:
    """F(w) = 1/2 w' H w, least eigenvalue mu, least value 0 at 0."""

    def __init__(self, size=30):
        rng = np.random.default_rng(0)
        basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
        self.H = (basis * np.geomspace(CONVEXITY, 100.0, size)) @ basis.T
        self.start = rng.normal(size=size)
        self.rng = rng

    def __call__(self, w):
        return 0.5 * w @ self.H @ w

    def near(self, z, kappa, error):
        """A point whose F(w) + kappa/2 |w - z|^2 is `error` above the least one."""
        whole = self.H + kappa * np.eye(len(z))
        away = self.rng.normal(size=len(z))
        away *= math.sqrt(2.0 * error / (away @ whole @ away))
        return np.linalg.solve(whole, kappa * z) + away


def run(rates, n_steps, extrapolates=True):
    """F after each outer step, all inner problems as inexact as is allowed."""
    F = Quadratic()
    kappa = CONVEXITY * (1.0 / rates.reach - 1.0)
    w = z = F.start
    values = [F(w)]
    for k in range(1, n_steps + 1):
        before = w
        w = F.near(z, kappa, rates.inner_accuracy(k) if extrapolates else 0.0)
        z = w + rates.momentum * (w - before) if extrapolates else w
        values.append(F(w))
    return np.array(values)


def rates_of(reach):
    F = Quadratic()
    return OuterRates(reach, first=F(F.start))


@pytest.mark.parametrize("reach", REACHES)
def test_theorem_3_1_bounds_catalyst_with_inexact_inner_solves(reach):
    rates = rates_of(reach)
    k = np.arange(400)
    assert (run(rates, k[-1]) <= rates.primal_bound(k)).all()


@pytest.mark.parametrize("reach", REACHES)
def test_the_plain_bound_is_above_the_proximal_point_method(reach):
    rates = rates_of(reach)
    k = np.arange(1, 400)
    assert (run(rates, k[-1], False)[1:] <= rates.plain_bound(k)).all()


def test_the_plain_rate_is_met_along_the_flattest_direction():
    # F = mu/2 w^2: one step multiplies w by 1 - s, so F by (1 - s)^2.
    F, rates = Quadratic(1), OuterRates(0.1, first=1.0)
    kappa = CONVEXITY * 9
    assert F.near(F.start, kappa, 0.0) == pytest.approx((1 - rates.reach) * F.start)


@pytest.mark.parametrize("eps", [1.0, 1e-3, 1e-9])
def test_steps_invert_the_bounds(eps):
    rates = OuterRates(np.array(REACHES), first=1.0)
    steps, plain = rates.steps(eps), rates.plain_steps(eps)
    assert (rates.primal_bound(steps) <= eps * (1 + 1e-6)).all()
    assert (rates.primal_bound(steps - 1) > eps).all()
    assert (rates.plain_bound(plain) <= eps * (1 + 1e-6)).all()
    assert ((plain == 1) | (rates.plain_bound(np.maximum(plain - 1, 1)) > eps)).all()


def test_the_number_of_steps_grows_as_the_root_of_the_conditioning():
    far, near = OuterRates(1e-6, 1.0), OuterRates(1e-4, 1.0)
    eps = 1e-100  # so small that the constant C does not count
    assert far.steps(eps) / near.steps(eps) == pytest.approx(10, rel=0.1)
    assert far.plain_steps(eps) / near.plain_steps(eps) == pytest.approx(100, rel=0.1)


def test_the_momentum_is_that_of_the_solver_and_of_the_printed_recursion():
    outer = Outer.begin(np.zeros(3))
    for reach in REACHES:
        outer.numbers.reach = reach
        rates = OuterRates(reach, 1.0)
        assert rates.momentum == pytest.approx(outer.beta)
        # alpha_k^2 = (1 - alpha_k) alpha_(k-1)^2 + q alpha_k stays at sqrt(q).
        alpha = math.sqrt(reach)
        assert alpha**2 == pytest.approx((1 - alpha) * alpha**2 + reach * alpha)
        beta = alpha * (1 - alpha) / (alpha**2 + alpha)
        assert rates.momentum == pytest.approx(beta)


def test_no_gain_in_updates_is_proved():
    plain = float(Rates(1000, 4, 0.5, first=0.0).gap_iterations(1e-3))
    for reach in REACHES:
        assert OuterRates(reach, 1.0).updates_bound(1000, 4, 0.5, 1e-3) > plain


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"reach": 0.0}, "reach must be finite and above 0"),
        ({"reach": 1.0}, r"reach must lie in \(0, 1\), but is 1.0"),
        ({"part": 1.0}, r"part must lie in \(0, 1\), but is 1.0"),
        ({"first": 0.0}, "first must be finite and above 0"),
    ],
)
def test_bad_numbers_are_refused(how, sentence):
    with pytest.raises(ValueError, match=sentence):
        OuterRates(**{"reach": 0.1, "first": 1.0, **how})

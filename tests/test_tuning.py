"""The tuner of `merge` finds the best batch on a hill, and follows it when it moves."""

import numpy as np
import pytest

from wolfpack.engines.tuning import LARGEST, Tuner


def hill(top):
    """Progress that falls off by a third with each doubling away from `top`."""
    return lambda batch: 100.0 * 0.67 ** abs(np.log2(batch / top))


def climb(tuner, progress, slices):
    """Let the tuner choose; return the batches that it chose."""
    tried = []
    for _ in range(slices):
        tried.append(tuner.batch)
        tuner.learn(progress(tuner.batch), 1.0)
    return tried


@pytest.mark.parametrize("top", [1, 2, 8, 32, 64])
@pytest.mark.parametrize("first", [1, 5, 16, 64])
def test_it_finds_the_top(first, top):
    tuner = Tuner(first, 1000)
    climb(tuner, hill(top), 30)
    assert tuner.best == top
    spent = climb(tuner, hill(top), 60)
    assert spent.count(top) >= 0.7 * len(spent)  # and looks aside now and then
    assert len(set(spent)) > 1


def test_it_follows_when_the_top_moves():
    tuner = Tuner(32, 1000)
    climb(tuner, hill(32), 30)
    assert tuner.best == 32
    climb(tuner, hill(2), 150)
    assert tuner.best == 2
    climb(tuner, hill(32), 150)
    assert tuner.best == 32


def test_steps_that_keep_nothing_are_worth_nothing():
    tuner = Tuner(8, 1000)
    for _ in range(60):  # twice the speed for each doubling, but above 4 all is lost
        tuner.learn(float(tuner.batch), 0.9 if tuner.batch <= 4 else -0.5)
    assert tuner.best == 4


@pytest.mark.parametrize("most", [0, 1, 2, 3, 7, 100, 10**6])
@pytest.mark.parametrize("first", [0, 1, 3, 16, 1000])
def test_it_stays_within_its_bounds(first, most):
    tuner = Tuner(first, most)
    bound = max(1, min(LARGEST, most))
    for batch in [tuner.batch, *climb(tuner, float, 50)]:
        assert 1 <= batch <= bound
        assert batch & (batch - 1) == 0  # a power of two
    assert tuner.most <= bound

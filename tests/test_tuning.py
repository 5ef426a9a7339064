"""The tuner of `merge` finds the best batch on a hill, and follows it when it moves."""

import numpy as np
import pytest
import spy
from helpers import begin_run

from wolfpack import Threads
from wolfpack.engines import threads
from wolfpack.engines.shared_memory.tuning import Tuner


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


def favourite(batches):
    return max(set(batches), key=batches.count)


@pytest.mark.parametrize("top", [1, 2, 8, 32, 64])
@pytest.mark.parametrize("first", [1, 5, 16, 64])
def test_it_finds_the_top(first, top):
    tuner = Tuner(first, 1000)
    climb(tuner, hill(top), 40)
    spent = climb(tuner, hill(top), 60)
    assert spent.count(top) >= 0.7 * len(spent)
    assert len(set(spent)) > 1  # it looks aside now and then


def test_it_follows_when_the_top_moves():
    tuner = Tuner(32, 1000)
    for top in (32, 2, 32):
        climb(tuner, hill(top), 200)
        assert favourite(climb(tuner, hill(top), 30)) == top


def test_what_counts_is_what_steps_keep():
    """Ever more steps a second, which keep ever less of what they promised."""
    tuner = Tuner(64, 1000)
    tried = []
    for _ in range(90):
        tried.append(tuner.batch)
        tuner.learn(float(tuner.batch), np.exp(-((tuner.batch / 4) ** 2) / 2))
    assert favourite(tried[-30:]) == 3  # 4 is 7 % better, and WORTH asks for more


@pytest.mark.parametrize("kept", [-1.0, 0.0, 2.0])
def test_odd_measurements_do_no_harm(kept):
    tuner = Tuner(8, 100)
    for _ in range(50):
        tuner.learn(1000.0, kept)
        assert 1 <= tuner.batch <= tuner.most


@pytest.mark.parametrize("most", [0, 1, 2, 3, 7, 100, 10**6])
@pytest.mark.parametrize("first", [0, 1, 3, 16, 1000])
def test_it_stays_within_its_bounds(first, most):
    tuner = Tuner(first, most)
    assert 1 <= tuner.most <= max(1, most)
    assert tuner.batch <= max(1, first)
    batches = [tuner.batch, *climb(tuner, float, 80)]
    assert min(batches) >= 1
    assert max(batches) == tuner.most  # more is better on this hill


def test_where_all_sizes_do_as_well_it_takes_the_smallest():
    rng, tuner = np.random.default_rng(0), Tuner(8, 1000)
    climb(tuner, lambda batch: 100.0 + rng.normal(), 40)
    tried = climb(tuner, lambda batch: 100.0 + rng.normal(), 60)
    assert favourite(tried) == 1


def test_it_starts_where_it_is_told():
    tuner = Tuner(1, 10)
    for first, batch in [(0.0, 1), (3.9, 3), (100, 8), (2, 2)]:
        tuner.start(first)
        assert tuner.batch == batch
    assert tuner.is_new
    tuner.learn(1.0, 1.0)
    assert not tuner.is_new


@pytest.mark.parametrize(
    ("calls_per_second", "line_seconds", "batch"),
    [(10.0, 1.0, 1), (2e4, 1.0, 1), (1e5, 1.0, 4), (1e9, 1e-8, 24), (1e5, 1e-8, 1)],
)
def test_the_longer_a_subproblem_takes_the_fewer_it_starts_with(
    calls_per_second, line_seconds, batch, monkeypatch
):
    """The last one is long beside the moving of a small v, so a merge has one block."""
    monkeypatch.setattr(threads, "LINE_SECONDS", line_seconds)
    engine = Threads(2)
    run = begin_run(spy.make(n=100), None, engine=engine)
    run.certifier.rate = calls_per_second
    run.session.begin(run, 1)
    assert run.session.batch == batch

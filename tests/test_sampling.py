"""Which blocks are drawn, and how often."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from wolfpack.files import random_state
from wolfpack.update import sampling
from wolfpack.update.plan import Plan
from wolfpack.update.sampling import KINDS, create, draw, observe, refresh


def plan(kind):
    return Plan(n_blocks=0, rule=0, step_size=0.0, sampling=KINDS[kind], exact=False)


every_kind = pytest.mark.parametrize("kind", KINDS)


def draws(kind, n, tau, times, gaps=None, seed=0):
    sampler = create(n, kind)
    if gaps is not None:
        sampler.gaps[:] = gaps
        refresh(sampler)
    rng = np.random.default_rng(seed)
    chosen = np.zeros((times, tau), np.int64)
    for row in chosen:
        draw(plan(kind), sampler, rng, row)
    return chosen, sampler


@every_kind
@pytest.mark.parametrize(("n", "tau"), [(1, 1), (5, 1), (5, 2), (5, 5), (8, 8), (7, 6)])
def test_a_batch_is_distinct_and_in_range(kind, n, tau):
    chosen, sampler = draws(kind, n, tau, 200)
    assert chosen.min() >= 0
    assert chosen.max() < n
    assert (np.diff(np.sort(chosen, axis=1), axis=1) > 0).all()
    assert sampling.is_sound(sampler, n)


@pytest.mark.parametrize("tau", [1, 3])
def test_uniform_draws_every_pair_alike(tau):
    n = 6
    chosen, _ = draws("uniform", n, tau, 6000)
    counts = np.bincount(chosen.ravel(), minlength=n)
    assert chisquare(counts).pvalue > 1e-3
    followers = np.bincount(n * chosen[:-1, 0] + chosen[1:, 0], minlength=n * n)
    assert chisquare(followers).pvalue > 1e-3  # the next draw forgets the last
    if tau > 1:
        pairs = np.bincount(n * chosen[:, 0] + chosen[:, 1], minlength=n * n)
        assert chisquare(pairs[pairs > 0]).pvalue > 1e-3
        assert (pairs > 0).sum() == n * (n - 1)


def test_a_permutation_visits_every_block_once_an_epoch():
    n, epochs = 5, 4000
    chosen, _ = draws("permutation", n, 1, n * epochs)
    orders = chosen.reshape(epochs, n)
    np.testing.assert_array_equal(
        np.sort(orders, axis=1), np.tile(range(n), (epochs, 1))
    )
    codes = orders @ n ** np.arange(n)
    _, counts = np.unique(codes, return_counts=True)
    assert len(counts) == 120  # all orders, equally often
    assert chisquare(counts).pvalue > 1e-3


def test_a_permutation_in_batches_leaves_the_remainder_out():
    chosen, _ = draws("permutation", 7, 3, 4000)
    pairs = chosen.reshape(2000, 6)  # two batches an epoch, one block left over
    assert (np.diff(np.sort(pairs, axis=1), axis=1) > 0).all()
    assert chisquare(np.bincount(chosen.ravel(), minlength=7)).pvalue > 1e-3


def in_rounds(gaps, tau, times, seed=0):
    """Draw from rounds in which blocks keep their gaps."""
    how = plan("gap")._replace(sampling=sampling.AWAKE)
    sampler, rng = create(len(gaps), "gap"), np.random.default_rng(seed)
    sampler.gaps[:] = gaps
    sampling.rebuild(sampler, sampling.AWAKE)
    chosen = np.zeros((times, tau), np.int64)
    for row in chosen:
        draw(how, sampler, rng, row)
        assert sampling.is_sound(sampler, len(gaps))
    return chosen


@pytest.mark.parametrize(("n", "tau"), [(1, 1), (5, 1), (9, 4), (9, 9), (50, 7)])
@pytest.mark.parametrize("awake", [0.0, 0.3, 1.0])
def test_a_batch_of_a_round_is_distinct(n, tau, awake):
    gaps = (np.arange(n) < awake * n).astype(float)
    chosen = in_rounds(gaps, tau, 300)
    assert (np.diff(np.sort(chosen, axis=1), axis=1) > 0).all()
    assert set(chosen.ravel()) == set(range(n))  # none is forgotten


def test_rounds_visit_blocks_awake_often_and_others_in_turn():
    gaps = np.zeros(1000)
    gaps[::50] = 1.0
    counts = np.bincount(in_rounds(gaps, 1, 29 * 2000).ravel(), minlength=1000)
    assert counts[::50].max() - counts[::50].min() <= 1  # each once a round
    assert counts[::50].min() >= 1990
    resting = np.delete(counts, np.arange(0, 1000, 50))
    assert resting.max() - resting.min() <= 2  # all alike
    assert 0.25 < resting.sum() / counts.sum() < 0.35


def test_which_sampling_makes_rounds():
    assert sampling.number("gap", True) == sampling.AWAKE
    for kind, number in KINDS.items():
        assert sampling.number(kind, False) == number
        assert kind == "gap" or sampling.number(kind, True) == number


def test_gap_draws_in_proportion():
    gaps = np.array([1.0, 2.0, 0.5, 4.0, 1.5, 1.0])
    chosen, _ = draws("gap", 6, 1, 8000, gaps)
    expected = 8000 * gaps / gaps.sum()
    assert chisquare(np.bincount(chosen.ravel(), minlength=6), expected).pvalue > 1e-3
    chosen, _ = draws("gap", 6, 2, 8000, gaps)
    share = gaps / gaps.sum()  # the second one from what is left
    pairs = share[:, None] * share / (1 - share)[:, None]
    np.fill_diagonal(pairs, 0.0)
    found = np.bincount(6 * chosen[:, 0] + chosen[:, 1], minlength=36)
    keep = pairs.ravel() > 0
    assert found[~keep].sum() == 0
    expected = 8000 * pairs.ravel()[keep]
    assert chisquare(found[keep], expected).pvalue > 1e-3


@pytest.mark.parametrize("gaps", [[0.0, 0, 5, 0], [0.0, 0, 0, 0], [-1e-9, 0, 1, 1]])
def test_a_block_without_a_gap_is_still_reached(gaps):
    chosen, _ = draws("gap", 4, 1, 6000, gaps)
    assert set(chosen.ravel().tolist()) == {0, 1, 2, 3}
    if max(gaps) > 0:
        assert (chosen == np.argmax(gaps)).mean() > 0.4


def test_observed_gaps_change_the_odds():
    sampler = create(4, "gap")
    for i, gap in enumerate([8.0, 1.0, 0.0, 1.0]):
        observe(plan("gap"), sampler, i, gap, 1)
    chosen = np.zeros((6000, 1), np.int64)
    rng = np.random.default_rng(0)
    for row in chosen:
        draw(plan("gap"), sampler, rng, row)
    counts = np.bincount(chosen.ravel(), minlength=4)
    assert 0 < counts[2] < counts[1] < counts[0]
    expected = 6000 * sampler.gaps / sampler.gaps.sum()
    assert chisquare(counts, expected).pvalue > 1e-3


# Sweeps.


class Sweeps:
    """What `cyclic` does, in lists: a sweep, and the blocks that are left of it."""

    def __init__(self, n):
        self.way, self.left = list(range(n)), list(range(n))

    def take(self, tau):
        batch, rest = self.left[:tau], self.left[tau:]
        if len(batch) < tau:  # the next sweep begins with the same blocks
            self.way = self.way[::-1]
            assert set(batch) <= set(self.way[:tau])
            batch, rest = self.way[:tau], self.way[tau:]
        elif not rest:
            self.way = self.way[::-1]
            rest = self.way
        self.left = list(rest)
        return batch


def test_sweeps_lead_forward_and_back():
    chosen, _ = draws("cyclic", 5, 1, 25)
    there, back = [0, 1, 2, 3, 4], [4, 3, 2, 1, 0]
    assert chosen.ravel().tolist() == there + back + there + back + there


def test_a_batch_over_a_turning_point_belongs_to_both_sweeps():
    chosen, _ = draws("cyclic", 7, 3, 5)
    found = [sorted(batch) for batch in chosen.tolist()]
    # Forward, and back from the batch that has the last block.
    assert found == [[0, 1, 2], [3, 4, 5], [4, 5, 6], [1, 2, 3], [0, 1, 2]]


@st.composite
def batches(draw):
    n = draw(st.integers(1, 30))
    return n, draw(st.lists(st.integers(1, n), min_size=1, max_size=60))


@settings(max_examples=200, deadline=None)
@given(batches())
def test_batches_of_any_size_follow_the_sweeps(case):
    """Also where the size changes on the way, as when a run goes on with another."""
    n, sizes = case
    sampler, sweeps = create(n, "cyclic"), Sweeps(n)
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    for tau in sizes:
        chosen = np.zeros(tau, np.int64)
        draw(plan("cyclic"), sampler, rng, chosen)
        assert sorted(chosen.tolist()) == sorted(sweeps.take(tau))
        assert np.ptp(chosen) == tau - 1  # neighbours, in order
        assert sampling.is_sound(sampler, n)
    assert rng.bit_generator.state == before


@settings(max_examples=100, deadline=None)
@given(n=st.integers(1, 30), data=st.data())
def test_every_sweep_visits_every_block(n, data):
    tau = data.draw(st.integers(1, n))
    size = -(-n // tau)  # batches of a sweep
    chosen, _ = draws("cyclic", n, tau, 6 * size)
    for k in range(4 * size):
        assert {*chosen[k : k + 2 * size].ravel().tolist()} == {*range(n)}
    if n % tau == 0:
        for sweep in chosen.reshape(6, n):
            assert sorted(sweep.tolist()) == [*range(n)]


@pytest.mark.parametrize("tau", [1, 3])
def test_neither_kind_takes_the_place_of_another_for_its_own(tau):
    n, rng = 12, np.random.default_rng(0)
    sampler, chosen = create(n, "cyclic"), np.zeros(tau, np.int64)
    draw(plan("cyclic"), sampler, rng, chosen)
    orders = []
    for _ in range(n // tau):  # a new permutation, not the rest of a sorted one
        draw(plan("permutation"), sampler, rng, chosen)
        orders += chosen.tolist()
    assert sorted(orders) == [*range(n)] != orders
    draw(plan("cyclic"), sampler, rng, chosen)
    assert chosen.tolist() == [*range(tau)]


sizes = st.integers(1, 40)
changes = st.lists(st.tuples(st.integers(0, 39), st.floats(0.0, 1e3)), max_size=30)


@settings(max_examples=60, deadline=None)
@given(n=sizes, changes=changes, place=st.floats(0.0, 0.999))
def test_the_tree_holds_cumulative_sums(n, changes, place):
    gaps, tree = np.ones(n), np.zeros(n + 1)
    for i in range(n):
        sampling._raise(tree, i, 1.0)
    for i, gap in changes:
        sampling._raise(tree, i % n, gap - gaps[i % n])
        gaps[i % n] = gap
    total = gaps.sum()
    assert sampling._total(tree) == pytest.approx(total, abs=1e-9)
    target = place * total
    found = sampling._descend(tree, target)
    ends = np.cumsum(gaps)
    begin = ends[found] - gaps[found]
    assert begin - 1e-9 <= target
    assert target <= ends[found] + 1e-9


@pytest.mark.parametrize("name", ["PCG64", "MT19937", "Philox", "SFC64", "PCG64DXSM"])
def test_generators_survive_as_text(name):
    rng = np.random.Generator(getattr(np.random, name)(1))
    rng.random(5)
    again = random_state.unpack_rng(random_state.pack_rng(rng))
    assert again.random(9).tolist() == rng.random(9).tolist()
    assert again.integers(9, dtype=np.int32) == rng.integers(9, dtype=np.int32)

"""The stores of x: a draft moves alone, and a blend is a convex combination."""

from types import SimpleNamespace

import numpy as np
import pytest

from wolfpack.stores import atoms, vectors

N_LABELS = 4


def problem_of(start, offsets=None):
    return SimpleNamespace(n_blocks=len(start), start=start, offsets=offsets)


class Corners:
    """Blocks of weighted atoms: each an index, so x_(i) is a point of a simplex."""

    store = atoms

    def __init__(self, n=3):
        self.blocks = atoms.create(
            problem_of(np.zeros(n, np.uint8), np.arange(n + 1)), 2
        )

    def x(self, blocks, i):
        place, point = blocks.place[i], np.zeros(N_LABELS)
        for b in range(place.count):
            point[blocks.atoms[place.begin + b]] += blocks.weights[place.slot + b]
        return point

    def draft(self, draft, k, i):
        point, begin = np.zeros(N_LABELS), self.blocks.place[i].begin
        weights = draft.weights[draft.slots[k] : draft.slots[k + 1]]
        for b, weight in enumerate(weights):
            point[self.blocks.atoms[begin + b]] += weight
        return point

    def draw(self, rng):
        label = rng.integers(N_LABELS)
        return np.array([label], np.uint8), np.eye(N_LABELS)[label]


class Points:
    """Blocks as vectors."""

    store = vectors

    def __init__(self, n=3):
        self.blocks = vectors.create(
            problem_of(np.tile(np.eye(N_LABELS)[0], (n, 1))), 2
        )

    def x(self, blocks, i):
        return blocks.points[i].copy()

    def draft(self, draft, k, i):
        return self.x(draft, k)

    def draw(self, rng):
        atom = np.eye(N_LABELS)[rng.integers(N_LABELS)]
        return atom, atom


@pytest.mark.parametrize("kind", [Corners, Points])
@pytest.mark.parametrize("theta", [0.0, 0.3, 1.0])
def test_any_number_of_moves_blends_exactly(kind, theta):
    case, rng = kind(), np.random.default_rng(0)
    store, blocks = case.store, case.blocks
    draft = store.make_draft(blocks, 3)
    for _ in range(10):
        chosen = rng.permutation(3)
        before, after = {}, {}
        for k, i in enumerate(chosen):
            before[i] = after[i] = case.x(blocks, i)
            store.begin_draft(blocks, draft, k, i)
            for _ in range(rng.integers(1, 5)):
                atom, corner = case.draw(rng)
                gamma = rng.choice([0.0, 0.2, 0.7, 1.0])
                store.shift_draft((), blocks, draft, k, i, atom, gamma)
                after[i] = (1 - gamma) * after[i] + gamma * corner
                np.testing.assert_array_equal(case.x(blocks, i), before[i])  # x stays
        for k, i in enumerate(chosen):
            np.testing.assert_allclose(case.draft(draft, k, i), after[i], atol=1e-12)
            store.blend(blocks, draft, k, i, theta)
            expected = before[i] + theta * (after[i] - before[i])
            np.testing.assert_allclose(case.x(blocks, i), expected, atol=1e-9)
    if kind is Corners:
        for i in range(3):
            place = blocks.place[i]
            weights = blocks.weights[place.slot : place.slot + place.count]
            assert (weights > 0).all()
            assert weights.sum() == pytest.approx(1.0, abs=1e-12)
            kept = blocks.atoms[place.begin : place.begin + place.count]
            assert len(set(kept.tolist())) == len(kept)  # no atom is kept twice


def test_a_draft_that_is_left_changes_nothing():
    """A slice may end, or an oracle raise, between a move and its merge."""
    case = Corners()
    blocks, draft = case.blocks, atoms.make_draft(case.blocks, 1)
    for label in range(N_LABELS):
        atoms.shift((), blocks, 1, np.array([label], np.uint8), 0.5)
    before, count = case.x(blocks, 1), int(blocks.place[1].count)
    room = int(blocks.place[1].room)
    atoms.begin_draft(blocks, draft, 0, 1)
    for label in range(4, 4 + 2 * room):  # the list grows, and moves in the pool
        atoms.shift_draft((), blocks, draft, 0, 1, np.array([label], np.uint8), 0.1)
    assert blocks.place[1].room > room
    np.testing.assert_array_equal(case.x(blocks, 1), before)
    assert blocks.place[1].count == count
    atoms.begin_draft(blocks, draft, 0, 1)
    atoms.blend(blocks, draft, 0, 1, 1.0)
    np.testing.assert_allclose(case.x(blocks, 1), before, atol=1e-15)

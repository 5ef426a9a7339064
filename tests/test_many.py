"""find_many: the answers of a loop over fit, whatever does the work."""

import numpy as np
import pytest

from wolfpack import GroupFusedLasso, make_piecewise
from wolfpack.change_points import find_many


@pytest.fixture(scope="module")
def signals():
    """More than a batch, of different lengths and widths."""
    shapes = [(20 + i % 7, 1 + i % 2) for i in range(140)]
    made = (make_piecewise(n, d, 3, noise=0.4, rng=n + d) for n, d in shapes)
    return [Y for Y, _, _ in made]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_many_are_those_of_a_loop(signals, n_jobs):
    model = GroupFusedLasso(n_change_points=2)
    found = find_many(iter(signals), model, n_jobs=n_jobs, keep_signals=True)
    assert len(found.change_points) == len(found.statuses) == 140
    assert not hasattr(model, "signal_")
    for k in (0, 63, 64, 139):
        own = GroupFusedLasso(n_change_points=2).fit(signals[k])
        assert found.change_points[k].tolist() == own.change_points_.tolist()
        assert (found.signals[k] == own.signal_).all()
        assert found.relative_gaps[k] == own.relative_gap_
        assert found.alphas[k] == own.alpha_
        assert found.statuses[k] is own.status_
    assert found.n_change_points.tolist() == [2] * 140


def test_notes_are_told_once(capsys):
    stairs = np.append(np.zeros(50), np.linspace(1, 5, 40))
    with pytest.warns(UserWarning, match="2 of 3 signals .* signal 1: .*staircase"):
        found = find_many(
            [np.ones(9), stairs, stairs], GroupFusedLasso(), n_jobs=1, progress=True
        )
    assert sorted(found.notes) == [1, 2]
    assert found.signals is None
    assert "3/3" in capsys.readouterr().err


def test_an_array_is_many_signals(signals):
    rows = np.array([Y[:20, 0] for Y in signals[:3]])
    assert len(find_many(rows).change_points) == 3
    assert find_many([]).n_change_points.tolist() == []


def test_a_wrong_signal_is_named(signals):
    with pytest.raises(ValueError, match=r"signal 65: .*infinity"):
        find_many([*signals[:65], np.full(9, np.inf)], n_jobs=1)
    with pytest.raises(ValueError, match=r"callback must be None; given was"):
        find_many(signals, GroupFusedLasso(callback=print))
    with pytest.raises(ValueError, match=r"warm_start must be False"):
        find_many(signals, GroupFusedLasso(warm_start=True))
    with pytest.raises(TypeError, match="must be a GroupFusedLasso, but is 3"):
        find_many(signals, 3)

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from wolfpack import make_piecewise
from wolfpack.change_points import (
    ChangePointsDisplay,
    PathDisplay,
    best_segments,
    change_point_f1,
    covering,
    plot_change_points,
    thin,
)
from wolfpack.change_points.selection import enough_candidates


def sum_of_squares(Y, points, weights=None):
    w = np.ones(len(Y)) if weights is None else weights
    total = 0.0
    for rows in np.split(np.arange(len(Y)), points):
        if w[rows].sum() > 0:
            mean = np.average(Y[rows], axis=0, weights=w[rows])
            total += w[rows] @ ((Y[rows] - mean) ** 2).sum(axis=1)
    return total


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_subset_of_the_candidates_is_better(d, weighted):
    rng = np.random.default_rng(d)
    Y = rng.standard_normal((30, d)) + 1e6  # an offset costs no digits
    weights = rng.integers(0, 4, 30).astype(float) if weighted else None
    candidates = np.sort(rng.choice(np.arange(1, 30), 8, replace=False))
    costs, points = best_segments(Y, candidates, 8, weights=weights)
    assert len(costs) == len(points) == 9
    for k, (cost, chosen) in enumerate(zip(costs, points, strict=True)):
        subsets = itertools.combinations(candidates, k)
        least = min(sum_of_squares(Y, subset, weights) for subset in subsets)
        assert cost == pytest.approx(least, abs=1e-7)
        assert sum_of_squares(Y, chosen, weights) == pytest.approx(least, abs=1e-7)
        assert len(chosen) == k


def test_a_weight_is_a_repeated_row():
    rng = np.random.default_rng(0)
    Y, times = rng.standard_normal((25, 2)), rng.integers(1, 4, 25)
    candidates = np.array([3, 7, 8, 15, 20])
    first = np.append(0, np.cumsum(times))
    weighted = best_segments(Y, candidates, 5, weights=times)
    repeated = best_segments(np.repeat(Y, times, axis=0), first[candidates], 5)
    np.testing.assert_allclose(weighted.costs, repeated.costs)
    for few, many in zip(weighted.points, repeated.points, strict=True):
        assert first[few].tolist() == many.tolist()


def test_every_row_as_a_candidate_is_what_ruptures_finds():
    ruptures = pytest.importorskip("ruptures")
    Y, _, _ = make_piecewise(n=120, d=2, n_segments=6, noise=0.7)
    _, points = best_segments(Y, np.arange(1, 120), 7)
    theirs = ruptures.Dynp(model="l2", min_size=1, jump=1).fit(Y)
    for k in (1, 4, 7):
        assert points[k].tolist() == theirs.predict(n_bkps=k)[:-1]


def test_candidates_that_cannot_be():
    for wrong in (0, 5):
        with pytest.raises(ValueError, match=rf"out of 1, ..., 4.* got {wrong}\."):
            best_segments(np.zeros((5, 1)), [2, wrong], 1)
    costs, points = best_segments(np.arange(4.0), [], 3)
    assert costs.tolist() == [5.0]
    assert points[0].size == 0


def test_thinning_keeps_the_jumps():
    Y, clean, jumps = make_piecewise(n=3000, d=3, n_segments=12, noise=0.3, rng=2)
    kept, n_dropped = thin(Y, np.arange(1, 3000), 50)
    assert (len(kept), n_dropped) == (50, 2949)
    assert sum_of_squares(Y, kept) <= sum_of_squares(Y, jumps)
    assert set(jumps) <= set(thin(clean, np.arange(1, 3000), 20)[0])
    assert thin(Y, jumps)[1] == 0


@pytest.mark.parametrize("shape", ["constant", "trend"])
def test_thinning_ends_where_candidates_are_alike(shape):
    n = 20_000
    Y = np.zeros(n) if shape == "constant" else np.arange(n) ** 2.0
    kept, n_dropped = thin(Y, np.arange(1, n), 100, weights=np.arange(n) % 3)
    assert (len(kept), n_dropped) == (100, n - 101)


def test_where_candidates_are_enough():
    assert enough_candidates(50, 20) == 25
    assert enough_candidates(10_000, None) == 1000


RUN_LOG = {  # five people, as in the Turing Change Point Dataset
    "6": [60, 96, 114, 174, 204, 240, 258, 317],
    "7": [60, 96, 114, 177, 204, 240, 258, 317],
    "8": [60, 96, 114, 174, 204, 240, 258, 317],
    "10": [2, 60, 96, 114, 174, 204, 240, 258, 317],
    "12": [],
}


def test_f1_of_several_annotators_by_hand():
    guess = [60, 96, 114, 174, 204, 240, 258, 317]
    # Annotator "10" has 0, 2 and 8 others, of which 2 is not found.
    recall, precision = (1 + 1 + 1 + 9 / 10 + 1) / 5, 1
    expected = 2 * precision * recall / (precision + recall)
    assert change_point_f1(RUN_LOG, guess) == pytest.approx(expected)
    # One point: 0 and 98 are right; recalls 2/9 (three times), 2/10 and 1.
    recall = (3 * 2 / 9 + 2 / 10 + 1) / 5
    assert change_point_f1(RUN_LOG, [98]) == pytest.approx(2 * recall / (1 + recall))


def test_f1_counts_a_point_once():
    assert change_point_f1([50, 52], [51]) == pytest.approx(2 * (2 / 3) / (2 / 3 + 1))
    assert change_point_f1([50], [49, 51]) == pytest.approx(2 * (2 / 3) / (2 / 3 + 1))
    assert change_point_f1([50], [55]) == 1.0
    assert change_point_f1([50], [55], margin=4) == 0.5
    assert change_point_f1([], []) == 1.0


def test_f1_is_that_of_ruptures():
    """Ours counts row 0 as well, and a distance that equals the margin."""
    metrics = pytest.importorskip("ruptures.metrics")
    rng, n = np.random.default_rng(0), 500
    for _ in range(20):
        # Points far from each other and from the ends: no point has two neighbours.
        true, guess = (
            np.flatnonzero(rng.random(16) < 0.5) * 30 + 20 + rng.integers(-5, 6)
            for _ in range(2)
        )
        p, r = metrics.precision_recall([*true, n], [*guess, n], margin=6)
        n_found = p * len(guess)
        assert n_found == pytest.approx(r * len(true))
        expected = 2 * (n_found + 1) / (len(true) + 1 + len(guess) + 1)
        assert change_point_f1(true, guess) == pytest.approx(expected)


def slow_covering(true, guess, n):
    """Return the definition, by sets."""
    ours, theirs = (
        [set(part.tolist()) for part in np.split(np.arange(n), points)]
        for points in (true, guess)
    )
    best = [max(len(a & b) / len(a | b) for b in theirs) for a in ours]
    return sum(len(a) * share for a, share in zip(ours, best, strict=True)) / n


def test_covering_is_its_definition():
    rng = np.random.default_rng(1)
    for _ in range(20):
        true, guess = (
            np.sort(rng.choice(np.arange(1, 60), k, replace=False))
            for k in rng.integers(0, 8, 2)
        )
        score = covering(true, guess, 60)
        assert score == pytest.approx(slow_covering(true, guess, 60))
    both = covering([[20], [40]], [20], 60)
    assert both == (covering([20], [20], 60) + covering([40], [20], 60)) / 2


# What the code of the Turing Change Point Dataset says of itself: annotators,
# predictions, rows, and the score.
PUBLISHED_F1 = [
    ({1: [10, 20], 2: [11, 20], 3: [10], 4: [0, 5]}, [10, 20], 1.0),
    ({1: [], 2: [10], 3: [50]}, [10], 0.9090909090909091),
    ({1: [], 2: [10], 3: [50]}, [], 0.8),
]
PUBLISHED_COVERING = [
    ({1: [10, 20], 2: [10], 3: [0, 5]}, [10, 20], 45, 0.7962962962962963),
    ({1: [], 2: [10], 3: [40]}, [10], 45, 0.7954144620811286),
    ({1: [], 2: [10], 3: [40]}, [], 45, 0.8189300411522634),
    # Segments of rows 0 to 5, the true ones second there.
    ([3], [3, 5], 6, 0.8333333333333334),
    ([], [4], 6, 0.6666666666666666),
    ([3], [2, 4], 6, 0.6666666666666666),
    ([1, 2, 3], [], 6, 0.3333333333333333),
]


@pytest.mark.parametrize(("true", "guess", "expected"), PUBLISHED_F1)
def test_f1_is_the_published_one(true, guess, expected):
    assert change_point_f1(true, guess) == pytest.approx(expected, rel=1e-14)
    assert change_point_f1(true, [*guess, 99], n=99) == change_point_f1(true, guess)


@pytest.mark.parametrize(("true", "guess", "n", "expected"), PUBLISHED_COVERING)
def test_covering_is_the_published_one(true, guess, n, expected):
    assert covering(true, guess, n) == pytest.approx(expected, rel=1e-14)
    assert covering(true, [*guess, n], n) == covering(true, guess, n)


def test_points_choose_in_the_order_of_their_set():
    """Python iterates over {31, 33, 0} as 0, 33, 31: 33 takes 32, and 31 takes 28."""
    assert [*{31, 33, 0}] == [0, 33, 31]
    assert change_point_f1([31, 33], [28, 32], margin=4) == 1.0
    # 40 takes 39, the only one within reach of 38, although 44 is within its own.
    assert [*{38, 40, 0}] == [40, 0, 38]
    score = change_point_f1([38, 40], [39, 44], margin=4)
    assert score == pytest.approx(2 / 3)


def test_metrics_refuse():
    with pytest.raises(ValueError, match=r"0, ..., 99; got 50 to 101\."):
        covering([50], [50, 101], 100)
    with pytest.raises(ValueError, match=r"0, ..., 99; got -1 to 50\."):
        change_point_f1([50], [50, -1], n=100)
    with pytest.raises(ValueError, match=r"0, \.\.\.; got -1 to 50\."):
        change_point_f1([50], [50, -1])
    with pytest.raises(ValueError, match="whole numbers"):
        change_point_f1([50.5], [50])
    with pytest.raises(ValueError, match="margin"):
        change_point_f1([50], [50], margin=-1)


class Fitted(BaseEstimator):
    """A model as `GroupFusedLasso` leaves it: the truth, here."""

    def __init__(self, d):
        self.Y, self.signal_, self.change_points_ = make_piecewise(
            n=60, d=d, n_segments=4
        )

    def fit(self):
        """Be an estimator for `check_is_fitted`."""


@pytest.fixture
def plt():
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


def dashed(ax):
    return [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == "--"]


@pytest.mark.parametrize("d", [1, 3, 8])
def test_a_picture_of_change_points(plt, d):
    model = Fitted(d)
    ax = plot_change_points(model.Y, model)
    assert dashed(ax) == [t - 0.5 for t in model.change_points_]
    assert ax.get_title() == "3 change points"
    ax.figure.canvas.draw()
    if d == 3:
        panels = ax.figure.axes
        assert [one.get_ylabel() for one in panels] == [f"column {j}" for j in range(3)]
        for j, one in enumerate(panels):
            assert (one.lines[0].get_ydata() == model.Y[:, j]).all()
            assert dashed(one) == dashed(ax)
            assert len(one.patches) == 2  # every other one of 4 segments is shaded
        own = plt.figure().add_subplot()
        assert plot_change_points(model.Y, model, ax=own) is own
        means = [line for line in own.lines if line.get_linewidth() == 2]
        assert len(means) == 3 * 4  # columns, segments
    if d == 8:
        assert len(ax.collections) == 1  # a heat map
        assert len(ax.lines) == 3


@pytest.mark.parametrize("d", [2, 8])
def test_dates_are_on_the_axis_of_the_picture(plt, d):
    pandas = pytest.importorskip("pandas")
    model = Fitted(d)
    days = pandas.date_range("2024-01-01", periods=60, freq="D")
    frame = pandas.DataFrame(model.Y, index=days).add_prefix("sensor ")
    display = ChangePointsDisplay.from_estimator(model, frame)
    display.figure_.canvas.draw()
    noon = [days[t - 1] + pandas.Timedelta(hours=12) for t in model.change_points_]
    assert [pandas.Timestamp(x) for x in dashed(display.ax_)] == noon
    assert "2024" in display.axes_[-1].xaxis.get_major_formatter().get_offset()
    if d == 2:
        words = [ax.get_ylabel() for ax in display.axes_]
        assert words == ["sensor 0", "sensor 1"]
        _, ax = plt.subplots()
        display.plot(ax)
        words = [text.get_text() for text in ax.get_legend().get_texts()]
        assert words == ["sensor 0", "sensor 1"]
    names = frame.set_axis([f"run {k % 3}" for k in range(60)])
    other = ChangePointsDisplay.from_estimator(model, names)  # no axis: rows
    assert dashed(other.ax_) == [t - 0.5 for t in model.change_points_]


def test_the_truth_is_in_the_picture(plt):
    model = Fitted(2)
    truth = {"one": [10, 30], "other": [30, 45, 60]}  # 60 is the end of the signal
    display = ChangePointsDisplay.from_estimator(model, model.Y, truth=truth)
    for ax in display.axes_:
        marks = [line for line in ax.lines if line.get_label() == "true"]
        assert [line.get_xdata().tolist() for line in marks] == [[9.5, 29.5, 44.5]]
    assert display.ax_.get_title() == "3 change points; triangles are the true ones"
    with pytest.raises(ValueError, match="1 or 2 axes are needed; got 3"):
        display.plot(plt.subplots(3)[1])


def test_a_picture_needs_the_signal_of_the_fit():
    model = Fitted(2)
    with pytest.raises(ValueError, match=r"\(50, 2\) and the fitted one \(60, 2\)"):
        plot_change_points(model.Y[:50], model)


def test_a_picture_of_a_path(plt):
    path = SimpleNamespace(
        alphas=[4.0, 2.0, 1.0],
        change_points=[[], [2], [2, 3]],
        signals=np.array([[2, 2, 2, 2], [1, 1, 2, 2], [0, 0, 3, 5]], float),
    )
    display = PathDisplay.from_path(path)
    counts, jumps = display.axes_
    assert counts.lines[0].get_ydata().tolist() == [0, 1, 2]
    drawn = [line.get_ydata().tolist() for line in jumps.lines]
    assert drawn == [[0, 1, 3], [0, 0, 2]]
    assert counts.xaxis_inverted()
    assert jumps.xaxis_inverted()
    display.figure_.canvas.draw()
    with pytest.raises(ValueError, match="2 axes are needed; got 1"):
        PathDisplay.from_path(path, axes=counts)

import dataclasses
from xml.etree import ElementTree as ET

import matplotlib.image
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from typer.testing import CliRunner

import wolfpack
from wolfpack.cli import app, demo, signal_job
from wolfpack.files.replace import save_picture
from wolfpack.plotting import BLUE, RED, plot_sequences, plot_signals, plot_trace
from wolfpack.result import TraceRow


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def result():
    Y = wolfpack.make_piecewise(n=40, d=2, n_segments=3)[0]
    problem = wolfpack.group_fused_lasso(Y, alpha=0.5)
    return wolfpack.solve(problem, tol=1e-3, max_epochs=500, rng=0)


def test_trace_shows_gap_and_estimate(result):
    ax = plot_trace(result.trace)
    gap, estimate = ax.lines
    np.testing.assert_array_equal(gap.get_xdata(), [row.epoch for row in result.trace])
    np.testing.assert_array_equal(gap.get_ydata(), [row.gap for row in result.trace])
    known = [row.gap_estimate for row in result.trace if row.gap_estimate > 0]
    np.testing.assert_array_equal(estimate.get_ydata(), known)
    assert ax.get_yscale() == "log"
    assert ax.get_xlabel() == "passes over the data"
    assert ax.get_ylabel() == "duality gap"
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["duality gap (exact)", "estimate"]


def test_trace_of_a_start_at_the_optimum():
    row = TraceRow(**dict.fromkeys(TraceRow._fields, 0.0))
    row = row._replace(gap_estimate=float("nan"))
    ax = plot_trace([row])
    assert len(ax.lines) == 1  # no estimate was ever made
    assert ax.get_yscale() == "linear"  # a gap of 0 has no logarithm
    ax.figure.canvas.draw()


def test_result_draws_into_given_axes(result):
    _, ax = plt.subplots()
    assert result.plot(ax=ax) is ax
    assert len(ax.lines) == 2
    assert len(plt.get_fignums()) == 1


def test_result_as_a_table(result):
    frame = result.to_frame()
    assert list(frame.columns) == list(TraceRow._fields)
    assert len(frame) == len(result.trace)
    assert frame["gap"].iloc[-1] == result.gap
    np.testing.assert_allclose(frame["objective"] - frame["gap"], frame["lower_bound"])


def test_signals_side_by_side():
    noisy, clean, _ = wolfpack.make_piecewise(n=20, d=3, n_segments=2)
    axes = plot_signals(noisy, clean)
    assert [ax.get_title() for ax in axes] == ["noisy signal", "recovered signal"]
    axes = plot_signals(noisy, clean + 1, original=clean)
    assert len(axes) == 3
    for ax, signal in zip(axes, (clean, noisy, clean + 1), strict=True):
        assert ax.get_xlabel() == "time"
        drawn = np.transpose([line.get_ydata() for line in ax.lines])
        np.testing.assert_array_equal(drawn, signal)
    assert axes[0].get_ylabel() == "value of each coordinate"
    assert axes[0].get_ylim() == axes[1].get_ylim() == axes[2].get_ylim()


def test_signals_want_as_many_axes():
    noisy = np.zeros((5, 1))
    _, axes = plt.subplots(1, 2)
    assert plot_signals(noisy, noisy, axes=axes) is axes
    with pytest.raises(ValueError, match="3 axes are needed"):
        plot_signals(noisy, noisy, original=noisy, axes=axes)


def test_sequences_show_truth_and_errors(result):
    test = wolfpack.load_dates(n_train=1, n_test=3)[1]
    guess = [labels.copy() for labels in test.y]
    guess[1][2] = (guess[1][2] + 1) % 10
    figure = plot_sequences(test.X, test.y, guess, (8, 8), trace=result.trace)
    words, (curve,) = figure.subfigs[0].axes, figure.subfigs[1].axes
    assert len(words) == 4  # two rows of two, the last one empty
    assert [len(ax.images) for ax in words] == [1, 1, 1, 0]
    assert [len(ax.texts) for ax in words] == [16, 16, 16, 0]
    colours = [to_hex(text.get_color()).upper() for text in words[1].texts[1::2]]
    assert colours == [BLUE] * 2 + [RED] + [BLUE] * 5
    shown = [text.get_text() for text in words[0].texts[::2]]
    assert shown == test.y[0].astype(str).tolist()
    assert curve.get_xlabel() == "passes over the data"
    figure = plot_sequences(test.X[:1], test.y[:1], guess[:1], (8, 8))
    assert len(figure.subfigs) == 1
    figure.canvas.draw()


@pytest.fixture
def saved(monkeypatch):
    """The figures that were saved, by the name of the file."""
    figures = {}

    def note(figure, path):
        figures[path.name] = figure
        save_picture(figure, path)

    for module in (demo, signal_job):
        monkeypatch.setattr(module, "save_picture", note)
    return figures


def assert_shows_readings(figure, test):
    """Dates with errors come first; what is read wrongly, and only that, is red."""
    words = [ax for ax in figure.subfigs[0].axes if ax.images]
    wrong = []
    for ax in words:
        truth = [text.get_text() for text in ax.texts[::2]]
        guess = [text.get_text()[0] for text in ax.texts[1::2]]
        red = [to_hex(text.get_color()).upper() == RED for text in ax.texts[1::2]]
        assert red == [one != two for one, two in zip(truth, guess, strict=True)]
        wrong.append(any(red))
        same = [k for k, y in enumerate(test.y) if y.astype(str).tolist() == truth]
        strip = ax.images[0].get_array()
        letters = np.split(strip, len(truth), axis=1)  # with a margin on each side
        pixels = np.stack([letter[:, 1:-1].ravel() for letter in letters])
        assert any(np.array_equal(pixels, test.X[k]) for k in same)
    assert wrong == [True] * 3 + [False] * 3


def test_demo_draws_both_pictures(tmp_path, saved):
    output = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "new" / "demo")])
    assert output.exit_code == 0
    assert output.stdout.count("CONVERGED") == 2
    assert "9 of the 9 true ones are among them" in output.stdout
    for name in ("dates.png", "signal.png"):
        path = tmp_path / "new" / "demo" / name
        assert str(path) in output.stdout
        assert min(matplotlib.image.imread(path).shape[:2]) > 400
    dates, signal = saved["dates.png"], saved["signal.png"]
    assert_shows_readings(dates, wolfpack.load_dates()[1])
    gap = dates.subfigs[1].axes[0].lines[0].get_ydata()
    assert gap[-1] <= 1e-3 < gap[-2]
    noisy, clean, _ = wolfpack.make_piecewise()
    drawn = [
        np.transpose([line.get_ydata() for line in ax.lines]) for ax in signal.axes
    ]
    np.testing.assert_array_equal(drawn[0], clean)
    np.testing.assert_array_equal(drawn[1], noisy)
    assert np.corrcoef(drawn[2].ravel(), clean.ravel())[0, 1] > 0.9
    rough = [np.linalg.norm(np.diff(Y, axis=0), axis=1).sum() for Y in drawn]
    assert rough[2] < rough[0] < rough[1]


def test_runs_side_by_side(result):
    model = wolfpack.GroupFusedLasso(alpha=0.5, random_state=0)
    model.fit(wolfpack.make_piecewise(n=40, d=2)[0])
    runs = {"Serial": result, "fitted": model, "rows": result.trace[:3]}
    traces = result.trace, model.trace_, result.trace[:3]
    for x, field in (("passes", "epoch"), ("seconds", "wall_seconds")):
        ax = wolfpack.plotting.plot_traces(runs, x=x)
        for line, trace in zip(ax.lines, traces, strict=True):
            wanted = [getattr(row, field) for row in trace]
            np.testing.assert_array_equal(line.get_xdata(), wanted)
            np.testing.assert_array_equal(line.get_ydata(), [row.gap for row in trace])
        names = [text.get_text() for text in ax.get_legend().get_texts()]
        assert names == list(runs)
        assert ax.get_yscale() == "log"
        assert len({line.get_color() for line in ax.lines}) == 3
    _, ax = plt.subplots()
    assert wolfpack.plotting.plot_traces(runs, ax=ax) is ax


@pytest.mark.parametrize(
    ("runs", "x", "sentence"),
    [
        ({}, "passes", "runs must be a dict"),
        ([1], "passes", "runs must be a dict"),
        ({"a": []}, "hours", "x must be one of"),
    ],
)
def test_runs_that_cannot_be_drawn(runs, x, sentence):
    with pytest.raises(ValueError, match=sentence):
        wolfpack.plotting.plot_traces(runs, x=x)


def parse(html):
    return ET.fromstring(html)  # HTML that is XML, too: nothing is left open


def test_a_notebook_shows_the_certificate(result):
    tree = parse(result._repr_html_())
    text = " ".join(" ".join(tree.itertext()).split())
    assert "CONVERGED The duality gap is at most tol." in text
    assert f"{result.lower_bound:.8g}" in text
    assert f"{result.objective:.8g}" in text
    assert f"gap {result.gap:.2e}" in text
    points = tree.find(".//polyline").get("points").split()
    assert len(points) == len(result.trace)
    places = np.array([point.split(",") for point in points], float)
    assert (np.diff(places[:, 0]) > 0).all()
    assert places[-1, 1] == places[:, 1].max()  # the smallest gap is lowest
    assert "left:" in tree.find("./div/div").get("style")  # the dark part of the bar
    assert len(result._repr_html_()) < 10_000


@pytest.mark.parametrize("gap", [0.0, float("nan"), float("inf")])
def test_a_notebook_shows_what_has_no_curve(result, gap):
    row = result.trace[-1]
    row = row._replace(gap=gap, lower_bound=row.objective - gap)
    odd = dataclasses.replace(result, trace=[row], gap=gap, n_workers=3)
    tree = parse(odd._repr_html_())
    assert tree.find(".//polyline") is None
    assert "3 workers" in "".join(tree.itertext())

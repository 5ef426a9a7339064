import json

import matplotlib.image
import matplotlib.pyplot as plt
import numpy as np
import pytest
from typer.testing import CliRunner

import wolfpack
from wolfpack.advice import Advice
from wolfpack.cli import app
from wolfpack.plotting import plot_speedup

QUICK = ("--samples", 20, "--workers", 2)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refuse(name):
    raise ValueError(f"{name} is no JSON")


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    return tmp_path_factory.mktemp("theory") / "speedup.png"


@pytest.fixture(scope="module")
def signal(picture):
    result = run("theory", "piecewise", "--json", "--plot", picture, *QUICK)
    assert result.exit_code == 0
    assert result.stderr == ""
    return json.loads(result.stdout, parse_constant=refuse)


@pytest.fixture(scope="module")
def chains():
    result = run("theory", "dates", *QUICK)
    assert result.exit_code == 0
    return result.stdout


def test_exact_constants_as_json(signal):
    assert signal["dataset"] == "piecewise"
    assert signal["source"] == "exact"
    assert signal["n_samples"] is None
    n = signal["n_blocks"]
    assert n == 99
    assert signal["boundedness"] == 2.0  # Example 2 with alpha = 1
    assert signal["incoherence"] == pytest.approx(2 / n)
    assert signal["incoherence_interval"] == [signal["incoherence"]] * 2
    assert signal["interference"] == pytest.approx(1 / n)
    assert signal["half_linear_batch_size"] == pytest.approx(n + 1)
    taus = np.array(signal["batch_sizes"])
    assert taus.tolist() == [1, 2, 4, 8, 16, 32, 64, 99]
    np.testing.assert_allclose(signal["predicted_speedup"], taus / (1 + (taus - 1) / n))
    bends = wolfpack.theory.curvature_bound(taus, 2.0, 2 / n)
    np.testing.assert_allclose(signal["curvature_bound"], bends)
    calls = wolfpack.theory.expected_calls(n, taus)
    np.testing.assert_allclose(signal["expected_collisions"], calls - taus)


def test_bounds_as_json(signal):
    rates = wolfpack.theory.Rates(99, 1, 8.0, signal["first_gap"])
    Y = wolfpack.make_piecewise()[0]
    scale = wolfpack.group_fused_lasso(Y, 1.0).scale
    assert signal["tol"] == 1e-4  # that of the estimator
    assert signal["iterations"] == rates.primal_iterations(1e-4 * scale)
    assert signal["delay_error"] == pytest.approx(4 * 2)  # 4 kappa D^2 / (4 B)


def test_advice_as_json(signal):
    advice = signal["advice"]
    assert advice["batch_size"] == advice["n_workers"] == 2
    assert "write into v directly" in advice["reason"]
    assert advice["merge_seconds"] is None
    coupling = dict(zip(advice["batch_sizes"], advice["coupling"], strict=True))
    measured = dict(zip(signal["batch_sizes"], signal["measured_speedup"], strict=True))
    assert measured[1] == 1
    assert measured[16] == pytest.approx(16 * coupling[16])
    assert measured[99] is None


def test_plot_draws_a_picture(signal, picture):
    assert signal["plot"] == str(picture)
    pixels = matplotlib.image.imread(picture)
    assert min(pixels.shape[:2]) > 300
    assert pixels.std() > 0.05


def test_in_plain_words(chains):
    assert chains.startswith("n = 1000 blocks, so tau may be 1 to 1000.\nB = ")
    for phrase in (
        "Both were searched for in 20 blocks and pairs, drawn at random (the bounds",
        " hold with probability 0.95 each). A search may miss the largest value",
        "is half of linear at tau = ",
        "Here they are pessimistic",
        "as 2 threads make it, each its share, and merge.",
        "Theorem 1 promises tol = 0.001 after",
        "What delay costs (Theorem 4) is left out",
        "\nSuggested: tau = ",
    ):
        assert phrase in chains
    lines = chains.splitlines()
    (head,) = [k for k, line in enumerate(lines) if line.split()[:1] == ["tau"]]
    rows = [line.split() for line in lines[head + 1 : head + 12]]
    assert [int(row[0]) for row in rows] == [*2 ** np.arange(10), 1000]
    assert rows[0][2:] == ["1.0", "1.0", "1.0", "0.0"]


def test_help_fits_a_terminal():
    text = run("theory", "--help").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "wolfpack.suggest_batch_size(problem)" in " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("nosuch", "there is no data set 'nosuch'; there are dates, ocr,"),
        ("dates --alpha -1", "alpha must be a finite number > 0, but is -1"),
        ("dates --confidence 2 --samples 2", "confidence must lie in (0, 1)"),
        ("dates --tol 0", "tol must be a finite number > 0; given was 0"),
        ("dates --plot nosuch/plot.png", "there is no folder nosuch"),
        ("dates --plot plot.doc", "--plot must end in .png, .pdf or .svg"),
    ],
)
def test_mistakes_get_one_clear_line(arguments, sentence):
    result = run("theory", *arguments.split())
    assert result.exit_code == 1
    assert result.stderr.startswith("wolfpack: ")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["--samples 1", "--workers 0", "--seed -1"])
def test_misuse_is_explained(option):
    result = run("theory", "dates", *option.split())
    assert result.exit_code == 2
    assert "Error: " in result.stderr


def test_curves_and_legend_are_apart():
    sizes = 2 ** np.arange(1, 7)
    advice = Advice(
        8, "because", 2, "merge", 1e-6, 1e-6, sizes, 1 / np.sqrt(sizes), np.ones(6)
    )
    taus = 2 ** np.arange(11)
    ax = plot_speedup(taus, wolfpack.theory.predicted_speedup(taus, 1.0, 0.5), advice)
    ideal, predicted, measured, suggested = ax.lines
    np.testing.assert_array_equal(ideal.get_ydata(), taus)
    np.testing.assert_allclose(measured.get_ydata(), np.sqrt(sizes))
    assert predicted.get_ydata()[-1] < 2
    assert suggested.get_xdata() == [8]
    assert ax.get_xlabel() == "blocks an update, tau"
    assert ax.get_ylabel() == "worth in single updates"
    ax.figure.canvas.draw()
    box = ax.get_legend().get_window_extent()
    for line in ax.lines:
        points = ax.transData.transform(np.column_stack(line.get_data()))
        for part in np.linspace(0, 1, 50):
            between = points[:-1] + part * (points[1:] - points[:-1])
            assert not any(box.contains(*point) for point in between)
    plt.close("all")

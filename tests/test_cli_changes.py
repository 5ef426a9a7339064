import csv
import gzip
import json
import signal

import matplotlib.image
import numpy as np
import pytest
from typer.testing import CliRunner

from wolfpack import make_piecewise
from wolfpack.cli import app
from wolfpack.cli.changes import rows_of
from wolfpack.estimators import signals
from wolfpack.files.table import read_table

Y, CLEAN, JUMPS = make_piecewise(n=80, d=2, n_segments=3, rng=1)
DAYS = (np.datetime64("2024-01-01") + np.arange(80)).astype(str)


def run(*arguments):
    return CliRunner().invoke(app, ["changes", *map(str, arguments)])


@pytest.fixture
def dated(tmp_path):
    """A CSV file with names and dates; the columns differ in scale."""
    path = tmp_path / "signal.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["day", "speed", "load"])
        writer.writerows(zip(DAYS, 1000 + Y[:, 0], 1e-3 * Y[:, 1], strict=True))
    return path


def test_changes_in_plain_words(dated, tmp_path):
    picture, kept = tmp_path / "out.png", tmp_path / "out.csv"
    result = run(dated, "--n", len(JUMPS), "--plot", picture, "--save", kept)
    assert result.exit_code == 0, result.output
    head, count, columns, *rows = result.stdout.splitlines()
    assert head.endswith("80 rows, 2 columns (speed, load).")
    assert count.startswith(f"{len(JUMPS)} change points; alpha = ")
    assert columns.split()[:4] == ["segment", "begins", "day", "rows"]
    for row, begin, end in zip(rows, [0, *JUMPS], [*JUMPS, 80], strict=False):
        _, first, day, length, *means = row.split()
        assert (int(first), day, int(length)) == (begin, DAYS[begin], end - begin)
        expected = 1000 + Y[begin:end, 0].mean(), 1e-3 * Y[begin:end, 1].mean()
        assert [float(mean) for mean in means] == pytest.approx(expected, rel=1e-4)
    assert "CONVERGED: The duality gap is at most tol." in result.stdout
    assert matplotlib.image.imread(picture).std() > 0
    with kept.open() as file:
        saved = [*csv.reader(file)]
    names = ["day", "speed", "load", "speed fitted", "load fitted", "segment"]
    assert saved[0] == names
    assert [row[0] for row in saved[1:]] == DAYS.tolist()
    labels = np.array([int(row[-1]) for row in saved[1:]])
    assert (np.flatnonzero(np.diff(labels)) + 1).tolist() == JUMPS.tolist()
    fitted = np.array([float(row[3]) for row in saved[1:]])
    assert fitted[0] == pytest.approx(1000 + Y[: JUMPS[0], 0].mean())


def test_what_is_sure_is_said(dated):
    result = run(dated, "--sure")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("significant") == len(JUMPS)
    assert "Constant segments explain the signal better" in result.stdout
    report = json.loads(run(dated, "--sure", "--json").stdout)
    assert report["significant"] == [True] * len(JUMPS)
    assert report["model"] == "steps"
    assert max(report["p_values"]) <= 0.05
    assert all(names for names in report["changed"])


def test_a_penalty_and_a_tolerance_in_days(dated):
    many = json.loads(run(dated, "--json", "--penalty", 0.02).stdout)
    few = json.loads(run(dated, "--json", "--penalty", 0.02, "--tolerance", 9).stdout)
    assert many["n_change_points"] > few["n_change_points"] >= len(JUMPS)
    assert min(few["lengths"]) >= 9 > min(many["lengths"])
    assert "significant" not in few
    assert "penalty was given" in few["why"]


def test_a_tolerance_needs_times(tmp_path):
    path = tmp_path / "signal.npy"
    np.save(path, Y)
    result = run(path, "--tolerance", 3)
    assert result.exit_code == 1
    assert "--tolerance is a time, but the file has no column of dates" in result.output
    path = tmp_path / "hours.csv"
    rows = "".join(f"{t / 24},{y}\n" for t, y in enumerate(Y[:, 0]))
    path.write_text("time,y\n" + rows)
    assert rows_of(read_table(path), 0.5) == 12


def test_changes_in_json(dated):
    result = run(dated, "--json")  # --n auto
    report = json.loads(result.stdout)
    assert report["change_points"] == JUMPS.tolist()
    assert report["index"] == DAYS[JUMPS].tolist()
    assert sum(report["lengths"]) == 80
    assert len(report["means"]) == len(JUMPS) + 1
    assert report["dual"] <= report["primal"]
    assert report["gap"] == pytest.approx(report["primal"] - report["dual"], abs=1e-9)
    assert 0 < report["alpha"] < report["alpha_max"]


def test_columns_count_alike_only_if_standardised(dated):
    report = json.loads(run(dated, "--json", "--alpha", 0.5, "--n", "all").stdout)
    plain = run(dated, "--json", "--alpha", 0.5, "--n", "all", "--no-standardize")
    assert report["alpha_max"] != json.loads(plain.stdout)["alpha_max"]


def test_the_lasso_unpruned_says_that_it_has_stairs(tmp_path):
    path = tmp_path / "steps.npy"
    np.save(path, np.append(np.zeros(50), np.linspace(1, 5, 40)))
    report = json.loads(run(path, "--n", "all", "--json").stdout)
    assert any("staircase" in note for note in report["notes"])


@pytest.mark.parametrize("kind", ["npy", "npz", "csv", "csv.gz", "tsv", "txt"])
def test_kinds_of_files(tmp_path, kind):
    path = tmp_path / f"signal.{kind}"
    if kind == "npy":
        np.save(path, Y)
    elif kind == "npz":
        np.savez(path, Y=Y, other=np.arange(3))
    else:
        mark = {"tsv": "\t", "txt": "  "}.get(kind, ";")
        text = "\n".join(mark.join(map(str, row)) for row in Y.tolist()) + "\n\n"
        write = gzip.open if kind == "csv.gz" else open
        with write(path, "wt", encoding="utf-8-sig") as file:
            file.write(text)
    table = read_table(path)
    assert (table.values == Y).all()
    assert table.names == ["column 0", "column 1"]
    assert table.index is None


@pytest.mark.parametrize(
    ("text", "index", "names"),
    [
        (",a\n0,1\n1,2\n", ["0", "1"], ["a"]),  # as pandas writes it
        ("Time,a\n0.5,1\n1.5,2\n", ["0.5", "1.5"], ["a"]),
        ("x,a\n0.5,1\n1.5,2\n", None, ["x", "a"]),
        ("2024-01-01,1\n2024-01-02,2\n", ["2024-01-01", "2024-01-02"], ["column 1"]),
        ("run A,1\nrun B,2\n", ["run A", "run B"], ["column 1"]),
        ("date\n1\n2\n", None, ["date"]),  # the only column is the signal
    ],
)
def test_what_an_index_is(tmp_path, text, index, names):
    path = tmp_path / "signal.csv"
    path.write_text(text)
    table = read_table(path)
    assert (table.index, table.names) == (index, names)
    assert table.values.shape == (2, len(names))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n1,2\n3,x\n", "line 3, column 'b': 'x' is no number"),
        ("a,b\n1,2\n\n3,inf\n", "line 4, column 'b': 'inf' is no number"),
        ("a,b\n1,\n3,\n", "column 'b' has no number; leave it out"),
        ("a,b\n1,2\n3\n", "line 3: 1 cells, but 2 columns"),
        ("a,b\n1,2\n", "has 1 rows; 2 or more are needed"),
        ("a,b\n", "has 0 rows; 2 or more are needed"),
        ("\n\n", "is empty"),
    ],
)
def test_what_is_wrong_with_a_table(tmp_path, text, sentence):
    path = tmp_path / "signal.csv"
    path.write_text(text)
    result = run(path)
    assert result.exit_code == 1
    assert sentence in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nosuch.csv"], "nosuch.csv does not exist"),
        (["signal.csv", "--n", "many"], "--n must be a whole number of 0 or more"),
        (["signal.csv", "--n", "80"], "number of rows minus 1, 79"),
        (["signal.csv", "--alpha", "-1"], "alpha"),
        (["signal.csv", "--penalty", "1", "--n", "2"], "give one of them"),
        (["signal.csv", "--noise", "white"], "noise must be 'auto', 'iid' or 'ar'"),
        (["signal.csv", "--tolerance", "0"], "--tolerance must be a time above 0"),
        (["signal.csv", "--plot", "x.nosuch"], "--plot must end in"),
        (["signal.csv", "--save", "nosuch/out.csv"], "there is no folder nosuch"),
        (["signal.json"], "a signal comes in one of .csv"),
        (["bad.npy"], "bad.npy is no .npy file of numbers"),
        (["deep.npy"], "of shape (2, 2, 2)"),
        (["inf.npy"], "row 1, column 0 is inf"),
        (["signal.csv", "--truth", "4,x"], "--truth must be row numbers such as 40,60"),
        (["signal.csv", "--truth", "4,81"], "for a signal of 80 rows"),
        (["signal.csv", "--truth", "nosuch.json"], "nosuch.json does not exist"),
        (["signal.csv", "--truth", "signal.json"], "1 to 200 of 80"),
        (["signal.csv", "--truth", "bad.json"], "bad.json is no JSON"),
        (["signal.csv", "--truth", "series.json"], "has no entry 'signal'"),
        (["other.npz"], "must hold one of Y, X, signal"),
    ],
)
def test_what_cannot_be(dated, monkeypatch, arguments, sentence):
    monkeypatch.chdir(dated.parent)
    (dated.parent / "signal.json").write_text("[1, 200]")
    (dated.parent / "bad.json").write_text("[1, 2")
    (dated.parent / "series.json").write_text('{"other": {"1": [3]}}')
    (dated.parent / "bad.npy").write_bytes(b"not numpy")
    np.save("deep.npy", np.zeros((2, 2, 2)))
    np.save("inf.npy", np.array([1.0, np.inf, 2.0]))
    np.savez("other.npz", Z=Y)
    result = run(*arguments)
    assert result.exit_code == 1
    assert sentence in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_anything_is_learnt_ends_it_at_once(dated, monkeypatch, number):
    reached = []

    def choose(*_):
        signal.raise_signal(number)
        reached.append("the rest of a search that may take minutes")

    monkeypatch.setattr(signals, "select", choose)
    result = run(dated)
    assert (result.exit_code, result.stdout, reached) == (128 + number, "", [])
    assert "wolfpack: interrupted." in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_lasso_keeps_its_points(
    dated, tmp_path, monkeypatch, number
):
    monkeypatch.setattr(signals, "settle", lambda *_: signal.raise_signal(number))
    result = run(dated, "--save", tmp_path / "kept.csv")
    assert result.exit_code == 128 + number
    assert "all jumps of the lasso so far, unpruned" in result.stdout
    assert len((tmp_path / "kept.csv").read_text().splitlines()) == 81


@pytest.fixture
def holes(tmp_path):
    """A CSV file with empty cells, a row without numbers, and empty rows at the end."""
    path = tmp_path / "holes.csv"
    rows = [[f"{a!r}", f"{b!r}"] for a, b in Y.tolist()]
    rows[0][1] = rows[30][0] = ""
    rows[40] = ["", "NA"]
    lines = ["a,b", *map(",".join, rows), ",", ","]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_empty_cells_are_missing(holes, tmp_path):
    table = read_table(holes)
    expected = Y.copy()
    expected[0, 1] = expected[30, 0] = np.nan
    expected[40] = np.nan
    np.testing.assert_array_equal(table.values, expected)
    kept = tmp_path / "out.csv"
    result = run(holes, "--json", "--save", kept)
    report = json.loads(result.stdout)
    assert report["n_rows"] == 80
    assert report["n_missing"] == 4
    assert "4 of 160 numbers are missing." in report["notes"]
    assert report["change_points"] == JUMPS.tolist()
    first = np.nanmean(expected[: JUMPS[0]], axis=0)
    assert report["means"][0] == pytest.approx(first.tolist())
    with kept.open() as file:
        saved = [*csv.reader(file)]
    assert saved[41][:3] == ["40", "", ""]
    assert all(saved[41][3:])


def test_a_segment_without_a_number_has_no_mean(tmp_path):
    values = Y.copy()
    values[: JUMPS[0] + 1, 1] = np.nan
    path = tmp_path / "late.npy"
    np.save(path, values)
    n = len(JUMPS)
    report = json.loads(run(path, "--json", "--n", n).stdout)
    assert np.abs(report["change_points"] - JUMPS).max() <= 1
    means = [row[1] for row in report["means"]]
    assert [mean is None for mean in means] == [True] + [False] * n
    assert run(path, "--n", n).exit_code == 0


@pytest.mark.parametrize("how", ["numbers", "list", "annotators", "series"])
def test_the_truth_is_compared_and_drawn(dated, tmp_path, how):
    points = JUMPS.tolist()
    found = {
        "list": points,
        "annotators": {"1": points, "2": [*points, 80]},
        "series": {"signal": {"1": points}, "other": {"1": []}},
    }
    truth = ",".join(map(str, points))
    if how in found:
        truth = tmp_path / "truth.json"
        truth.write_text(json.dumps(found[how]))
    picture = tmp_path / "out.png"
    report = json.loads(run(dated, "--json", "--truth", truth).stdout)
    assert report["truth"] == {"f1": 1.0, "margin": 5, "covering": 1.0}
    result = run(dated, "--truth", truth, "--plot", picture)
    assert "F1 1.000 (within 5 rows), covering 1.000." in result.stdout
    assert matplotlib.image.imread(picture).std() > 0


def test_a_constant_signal_has_no_change_points(tmp_path):
    path = tmp_path / "flat.csv"
    path.write_text("a,b\n" + "3,4\n" * 20)
    report = json.loads(run(path, "--json").stdout)
    assert report["change_points"] == []
    assert report["means"] == [[3.0, 4.0]]

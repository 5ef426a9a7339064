import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from wolfpack import load_dates
from wolfpack.cli import app
from wolfpack.files.model_file import load_model


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "dates"
    result = run("fit", "dates", "--tol", 0.01, "--save", path)
    assert result.exit_code == 0
    assert f"Saved: {path}.npz" in result.stdout
    return f"{path}.npz"


def test_predict_reads_dates(model_file):
    result = run("predict", model_file, "dates")
    assert result.exit_code == 0
    test = load_dates()[1]
    lines = result.stdout.splitlines()
    assert len(lines) == len(test.X)
    guess = np.array([[int(digit) for digit in line] for line in lines])
    share = (guess == np.stack(test.y)).mean()
    assert share > 0.85
    assert result.stderr == f"right: {share:.4f} of all positions\n"


def test_predict_takes_a_file(model_file, tmp_path):
    test = load_dates(n_test=5)[1]
    X = [test.X[0][:3], *test.X[1:4], test.X[4][:1]]
    y = [test.y[0][:3], *test.y[1:4], test.y[4][:1]]
    offsets = np.cumsum([0, *map(len, X)])
    arrays = {"X": np.concatenate(X), "offsets": offsets}
    np.savez(tmp_path / "data.npz", **arrays)
    result = run("predict", model_file, tmp_path / "data.npz", "--json")
    assert result.stderr == ""
    expected = [
        labels.astype(str).tolist() for labels in load_model(model_file).predict(X)
    ]
    assert [json.loads(line) for line in result.stdout.splitlines()] == expected
    np.savez(tmp_path / "data.npz", **arrays, y=np.concatenate(y))
    result = run("predict", model_file, tmp_path / "data.npz")
    assert result.stdout.splitlines() == ["".join(word) for word in expected]
    assert re.fullmatch(r"right: [01]\.\d{4} of all positions\n", result.stderr)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"X": np.zeros((4, 64))}, r"lacks \['offsets'\]; it has \['X'\]"),
        ({"X": np.zeros((4, 64)), "offsets": [0, 3]}, "must rise from 0 to 4"),
        ({"X": np.zeros((4, 64)), "offsets": [0, 3, 2, 4]}, "must rise from 0 to 4"),
        ({"X": np.zeros((4, 64)), "offsets": [[0, 4]]}, "offsets must be a row"),
        ({"X": np.zeros((4, 3)), "offsets": [0, 4]}, "X has 3 features, but .* 64"),
        (
            {"X": np.zeros((4, 64)), "offsets": [0, 4], "y": [1]},
            "X has 4 positions and y has 1",
        ),
    ],
)
def test_predict_refuses_other_files(model_file, tmp_path, arrays, sentence):
    np.savez(tmp_path / "data.npz", **arrays)
    result = run("predict", model_file, tmp_path / "data.npz")
    assert result.exit_code == 1
    assert re.search(sentence, result.stderr)


def test_predict_refuses_what_is_no_model(model_file, tmp_path):
    half = Path(model_file).read_bytes()[:2000]
    for name, content in (("text.npz", b"text"), ("cut.npz", half)):
        (tmp_path / name).write_bytes(content)
        result = run("predict", tmp_path / name, "dates")
        assert result.exit_code == 1
        assert "is no .npz file, or is cut short" in result.stderr
    run("fit", "piecewise", "--save", tmp_path / "signal")
    result = run("predict", tmp_path / "signal.npz", "dates")
    assert "is no model of this wolfpack; make one with `wolfpack fit" in result.stderr
    result = run("predict", model_file, "piecewise")
    assert "DATA must be one of dates, ocr, conll2000" in result.stderr


def test_predict_into_a_closed_pipe_is_quiet(model_file):
    command = [sys.executable, "-m", "wolfpack", "predict", model_file, "dates"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:
        process.stdout.close()  # as `head` does when it has enough
        errors = process.stderr.read().decode()
    assert "Broken" not in errors
    assert "Traceback" not in errors

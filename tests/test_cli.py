import json
import os
import re
import signal
import subprocess
import sys

import matplotlib.image
import numpy as np
import pytest
from limits import HANG_SECONDS
from typer.testing import CliRunner

from wolfpack import __version__, make_piecewise
from wolfpack.cli import app
from wolfpack.engines.threads import count_cores
from wolfpack.files.model_file import load_model

SERVER = "fit dates --engine threads --mode server"
LOCK_FREE = "fit dates --engine threads --mode lock-free"


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def real(*arguments, **options):
    """Run in a process of its own."""
    command = [sys.executable, "-m", "wolfpack", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=HANG_SECONDS, **options
    )


def json_lines(text):
    def refuse(name):
        raise ValueError(f"{name} is no JSON")

    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def test_help_names_the_commands():
    result = real("--help")
    assert result.returncode == 0
    assert result.stderr == ""
    for command in ("fit", "predict", "datasets", "cache", "demo"):
        assert re.search(rf"^  {command} ", result.stdout, re.MULTILINE)
    assert run("--version").stdout == f"wolfpack {__version__}\n"


def test_help_of_fit_fits_a_terminal():
    text = run("fit", "--help").stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "130: interrupted" in " ".join(text.split())


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["piecewise", "dates"])
def test_fit_on_a_cluster(dataset):
    pytest.importorskip("ray")
    how = ("--engine", "ray", "--workers", 2, "--tol", 0.01, "--json")
    result = real("fit", dataset, *how)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    *checks, report = json_lines(result.stdout)
    assert report["status"] == "CONVERGED"
    assert (report["engine"], report["workers"]) == ("ray", 2)
    assert report["messages"] > 0
    assert set(checks[-1]["live"]) == {"n_workers", "delay", "n_dropped"}


def test_an_address_is_that_of_a_cluster():
    result = run("fit", "piecewise", "--address", "10.0.0.1:6379")
    assert "--address is for --engine ray; serial has none" in result.output


def test_fit_in_plain_words():
    result = real("fit", "dates", "--tol", "0.01")
    assert result.returncode == 0
    assert result.stderr == ""  # no progress bar where stderr is no terminal
    first, status, certificate, scores = result.stdout.splitlines()
    assert "1000 sequences, 8000 positions, 64 features, 10 labels" in first
    assert status == "CONVERGED: The duality gap is at most tol."
    numbers = re.findall(r"\d\.\d+(?:e-\d+)?", certificate)
    dual, primal, gap = map(float, numbers[:3])
    assert dual <= primal
    assert gap == pytest.approx(primal - dual, rel=0.01)
    train, test = map(float, re.findall(r"\d\.\d{4}", scores))
    assert train > 0.95
    assert test > 0.85


def test_fit_gives_json_lines():
    how = ("--json", "--tol", "0.01", "--alpha", "0.1", "--no-accelerate")
    result = run("fit", "dates", *how)
    assert result.exit_code == 0
    *checks, last, report = json_lines(result.stdout)
    assert report["status"] == "CONVERGED"
    assert report["gap"] == pytest.approx(report["primal"] - report["dual"], abs=1e-12)
    assert 0 <= report["gap"] <= 0.01
    assert {k: report[k] for k in last} == last
    assert checks[0]["epoch"] == 0
    assert checks[0]["primal"] == pytest.approx(1)  # the loss of w = 0
    duals = [check["dual"] for check in (*checks, last)]
    assert duals == sorted(duals)
    assert all(max(duals) <= check["primal"] + 1e-6 for check in checks)
    assert (report["n_outer"], report["reach"]) == (0, 1.0)


def test_fit_is_accelerated_and_samples_by_gap_unasked():
    how = ("--json", "--tol", "0.001")
    *_, fast = json_lines(run("fit", "dates", *how).stdout)
    *_, same = json_lines(
        run("fit", "dates", *how, "--accelerate", "--sampling", "gap").stdout
    )
    *_, plain = json_lines(run("fit", "dates", *how, "--no-accelerate").stdout)
    assert (fast["primal"], fast["epoch"]) == (same["primal"], same["epoch"])
    assert fast["n_outer"] > 0
    assert 0 < fast["reach"] < 1
    assert plain["n_outer"] == 0
    assert fast["epoch"] < plain["epoch"]
    assert fast["dual"] <= plain["primal"]
    assert plain["dual"] <= fast["primal"]


def test_outer_steps_in_plain_words():
    found = run("fit", "dates", "--tol", 0.01).stdout.splitlines()[2]
    assert re.search(r"certified after \d+ passes, \d+ outer steps? and", found)
    found = run("fit", "dates", "--tol", 0.01, "--no-accelerate").stdout
    assert "outer step" not in found


def test_the_seed_decides():
    def clocks_aside(text):
        clocks = ("seconds", "wall_seconds", "peak_memory_mb")
        lines = json_lines(text)
        return [[v for k, v in line.items() if k not in clocks] for line in lines]

    options = ("--json", "--tol", "0.05")
    one, same, other = (
        clocks_aside(run("fit", "dates", *options, "--seed", seed).stdout)
        for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other


@pytest.mark.parametrize(
    "options",
    [
        ("--averaging",),
        ("--batch-size", 50),
        ("--sampling", "uniform"),
        ("--no-accelerate",),
        ("--step", "open-loop"),
        ("--step", "0.01"),
    ],
)
def test_options_reach_the_solver(options):
    plain = run("fit", "dates", "--json", "--max-epochs", 2)
    result = run("fit", "dates", "--json", "--max-epochs", 2, *options)
    assert result.exit_code == 3
    report = json_lines(result.stdout)[-1]
    assert report["status"] == "EPOCH_LIMIT"
    assert report["primal"] != json_lines(plain.stdout)[-1]["primal"]


SPEAK_OF_DELAY = ("delay_mean", "delay_max", "n_collisions", "n_dropped")


@pytest.mark.parametrize(
    ("dataset", "options", "who"),
    [
        ("dates", "", ("serial", None, 1)),
        ("dates", "threads --workers 2", ("threads", "merge", 2)),
        ("dates", "threads --workers 2 --mode server", ("threads", "server", 2)),
        ("piecewise", "threads --workers 2 --mode server", ("threads", "server", 2)),
        ("piecewise", "threads --workers 3 --mode lock-free --sampling uniform",
         ("threads", "lock-free", 3)),
        ("piecewise", "sync --workers 2 --batch-size 4", ("sync", None, 2)),
    ],
)  # fmt: skip
def test_every_engine_finds_the_optimum(dataset, options, who):
    common = ("fit", dataset, "--json", "--tol", "0.001")
    result = run(*common, *(f"--engine {options}".split() if options else ()))
    assert result.exit_code == 0
    report = json_lines(result.stdout)[-1]
    assert (report["engine"], report.get("mode"), report["workers"]) == who
    reference = json_lines(run(*common).stdout)[-1]
    assert report["status"] == "CONVERGED"
    assert report["dual"] <= reference["primal"]
    assert reference["dual"] <= report["primal"]
    delayed = who[0] == "threads"
    for name in (*SPEAK_OF_DELAY, "bytes_per_worker"):
        assert (name in report) == delayed
    if delayed:
        assert 0 <= report["delay_mean"] <= report["delay_max"]
        assert report["bytes_per_worker"] > 0


def test_workers_are_all_cores_by_default():
    report = json_lines(run("fit", "dates", "--json", "--engine", "threads").stdout)[-1]
    assert report["workers"] == count_cores()


def test_threads_in_plain_words():
    options = ("--engine", "threads", "--workers", 2, "--tol", 0.01)
    result = run("fit", "dates", *options)
    line = result.stdout.splitlines()[3]
    assert line.startswith("Workers: 2 (threads, merge). Updates were computed ")


def test_limits_have_an_exit_code():
    result = run("fit", "dates", "--max-epochs", 1)
    assert result.exit_code == 3
    assert "EPOCH_LIMIT: max_epochs passes are done" in result.stdout
    result = run("fit", "dates", "--max-seconds", 1e-6)
    assert result.exit_code == 3
    assert "TIME_LIMIT" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("fit nosuch", "there is no data set 'nosuch'; there are dates, ocr,"),
        ("fit dates --step fast", "--step must be line, open-loop, exact or a number"),
        ("fit dates --step exact", "chain_ssvm has none; use step='line'"),
        ("fit dates --accelerate --averaging", "accelerate=True is not possible here"),
        (
            "fit piecewise --accelerate --sampling gap",
            "the minimiser of group_fused_lasso does not return the gap of a block",
        ),
        ("fit ocr --folds a", "--folds must be out of 0 to 9"),
        ("fit ocr --folds 3-1", "--folds must be out of 0 to 9"),
        ("fit ocr --folds 10", "--folds must be out of 0 to 9"),
        ("fit dates --folds 1", "--folds is for ocr; dates has no folds"),
        ("fit dates --batch-size 0", "batch_size must be an integer from 1 to"),
        ("fit dates --batch-size 1001", "batch_size must be an integer from 1 to"),
        ("fit dates --alpha -1", "alpha must be a finite number > 0, but is -1"),
        ("fit dates --tol -1", "tol must be a number >= 0"),
        ("fit dates --workers 2", "--engine serial has one worker, not 2"),
        ("fit dates --mode server", "--mode is for --engine threads; serial has none"),
        ("fit dates --engine sync --mode merge", "--mode is for --engine threads"),
        (f"{LOCK_FREE} --batch-size 4", "one block at a time (Algorithm 3)"),
        ("fit dates --engine threads --averaging", "use mode='server', Sync() or"),
        ("fit dates --engine threads --step open-loop", "use step='line', or mode="),
        (f"{SERVER} --sampling gap", "use sampling='uniform', not 'gap'"),
        ("fit dates --save nosuch/model", "there is no folder nosuch"),
        ("fit dates --plot nosuch/plot.png", "there is no folder nosuch"),
        ("fit dates --plot plot.doc", "--plot must end in .png, .pdf or .svg"),
        ("predict nosuch.npz dates", "there is no file nosuch.npz"),
    ],
)
def test_mistakes_get_one_clear_line(arguments, sentence):
    result = run(*arguments.split())
    assert result.exit_code == 1
    assert result.stderr.startswith("wolfpack: ")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        "fit",
        "nosuch",
        "fit dates --alpha x",
        "fit dates --max-epochs 0",
        "fit dates --engine nosuch",
        "fit dates --engine threads --workers 0",
        "fit --nosuch",
    ],
)
def test_misuse_is_explained(arguments):
    result = run(*arguments.split())
    assert result.exit_code == 2
    assert "Error: " in result.stderr
    assert "Traceback" not in result.output


def test_fit_finds_change_points_and_saves_them(tmp_path):
    name = tmp_path / "alpha2.0"
    result = run("fit", "piecewise", "--json", "--alpha", "2", "--save", name)
    assert result.exit_code == 0
    report = json_lines(result.stdout)[-1]
    truth = make_piecewise()[2]
    assert set(truth) <= set(report["change_points"])
    assert len(report["change_points"]) <= len(truth) + 2
    assert report["model"] == f"{name}.npz"
    with np.load(f"{name}.npz") as file:
        assert file["change_points"].tolist() == report["change_points"]
        assert file["signal"].shape == (100, 10)


@pytest.mark.parametrize("dataset", ["dates", "piecewise"])
def test_plot_draws_a_picture(tmp_path, dataset):
    path = tmp_path / "plot.png"
    result = run("fit", dataset, "--tol", "0.1", "--plot", path)
    assert f"Picture: {path}" in result.stdout
    pixels = matplotlib.image.imread(path)
    assert min(pixels.shape[:2]) > 300
    assert pixels.std() > 0.05


def test_datasets_come_one_a_line_with_whole_paths(data_home, monkeypatch):
    monkeypatch.setenv("WOLFPACK_DATA", str(data_home))
    lines = run("datasets").stdout.splitlines()
    names = [line.split()[0] for line in lines[1:]]
    assert names == ["dates", "piecewise", "ocr", "conll2000", "acgh"]
    (place,) = [line.split()[-1] for line in lines if line.startswith("acgh")]
    assert os.path.isfile(place)


def test_ocr_is_tested_on_the_other_folds(data_home, monkeypatch):
    monkeypatch.setenv("WOLFPACK_DATA", str(data_home))
    result = run("fit", "ocr", "--folds", "0", "--tol", "0.1", "--json")
    report = json_lines(result.stdout)[-1]
    assert 0.5 < report["test_score"] < report["train_score"] <= 1


@pytest.mark.parametrize(
    ("engine", "number"),
    [
        ("serial", signal.SIGINT),
        ("threads", signal.SIGINT),
        ("serial", signal.SIGTERM),
        ("threads", signal.SIGTERM),
    ],
)
def test_a_signal_keeps_the_answer_so_far(data_home, tmp_path, engine, number):
    command = [sys.executable, "-m", "wolfpack", "fit", "ocr", "--folds", "0"]
    command += [
        "--engine",
        engine,
        "--alpha",
        "0.001",
        "--tol",
        "0",
        "--json",
        "--save",
        str(tmp_path / "model"),
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "WOLFPACK_DATA": str(data_home)},
    )
    first = process.stdout.readline()
    process.send_signal(number)
    rest, errors = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 128 + number
    assert errors == ""
    report = json_lines(first + rest)[-1]
    assert report["status"] == "INTERRUPTED"
    assert report["gap"] == pytest.approx(report["primal"] - report["dual"], abs=1e-12)
    model = load_model(tmp_path / "model.npz")
    assert model.file_info_["dataset"] == "ocr"
    assert model.coef_.shape == (26, 128)

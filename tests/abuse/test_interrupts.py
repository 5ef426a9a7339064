"""Ctrl-C and SIGTERM: a run is kept, and what a cut run gave is never a measurement."""

import contextlib
import importlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from limits import HANG_SECONDS

import wolfpack
from wolfpack import Status, delays
from wolfpack.run.interrupt import AllOrNothing, Interrupt, Terminated

HERE, ROOT = Path(__file__).parent, Path(__file__).resolve().parents[2]


def press(*_):
    """Press Ctrl-C; the signal is handled before this returns."""
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(scope="module")
def problem():
    """Plain Python, so that nothing is compiled."""
    target = np.arange(6.0).reshape(3, 2)
    return wolfpack.from_blocks(
        np.full((3, 2), 0.5),
        lambda x, i: x[i] - target[i] + x.sum(axis=0),
        wolfpack.simplex(),
        quadratic=True,
    )


def solve(problem, callback=press, **how):
    how = {"tol": 0, "max_epochs": 50, "rng": 0} | how
    return wolfpack.solve(problem, callback=callback, **how)


def terminate(*_):
    """Ask this process to end; the signal is handled before this returns."""
    os.kill(os.getpid(), signal.SIGTERM)


both = pytest.mark.parametrize(
    ("send", "number", "error"),
    [
        (press, signal.SIGINT, KeyboardInterrupt),
        (terminate, signal.SIGTERM, Terminated),
    ],
)


@both
def test_alone_a_solve_returns_what_it_has(problem, send, number, error):
    before = signal.getsignal(number)
    result = solve(problem, send)
    assert result.status is Status.INTERRUPTED
    assert result.signal == number
    assert signal.getsignal(number) is before


@both
@pytest.mark.parametrize("tol", [0, 1e9])  # it stops early; it has reached its goal
def test_a_measured_solve_raises(problem, tol, send, number, error):
    before = signal.getsignal(number)
    with pytest.raises(error), AllOrNothing():
        solve(problem, send, tol=tol)
    assert signal.getsignal(number) is before


@both
def test_the_second_signal_is_raised_at_once(problem, send, number, error):
    before, sent = signal.getsignal(number), []

    def callback(event):
        sent.append(send())
        sent.append(send())
        sent.append("never")

    with pytest.raises(error):
        solve(problem, callback)
    assert len(sent) == 1
    assert signal.getsignal(number) is before


@both
def test_an_estimator_keeps_what_it_learnt_and_raises(send, number, error):
    model = wolfpack.GroupFusedLasso(alpha=0.4, callback=send)
    with pytest.raises(error, match="what it had learnt is kept") as caught:
        model.fit(np.arange(20.0).reshape(10, 2))
    assert type(caught.value) is error
    assert model.status_ is Status.INTERRUPTED


def test_a_signal_at_the_goal_is_not_lost(problem):
    result = solve(problem, terminate, tol=1e9)
    assert result.converged
    assert result.signal == signal.SIGTERM


def test_a_handler_of_the_user_is_left_alone(problem):
    got = []

    def own(number, frame):
        got.append(number)

    before = signal.signal(signal.SIGTERM, own)
    try:
        result = solve(problem, terminate, max_epochs=3)
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)
    assert result.status is Status.EPOCH_LIMIT
    assert result.signal is None
    assert set(got) == {signal.SIGTERM}


def test_before_the_first_update_it_is_raised():
    before = signal.getsignal(signal.SIGTERM)

    def gradient(x, i):
        terminate()
        return x[i]

    problem = wolfpack.from_blocks(np.zeros((3, 2)), gradient, wolfpack.l2_ball())
    with pytest.raises(Terminated):
        wolfpack.solve(problem)
    assert signal.getsignal(signal.SIGTERM) is before


def solve_for_ever(path):
    problem = wolfpack.from_blocks(
        np.zeros((3, 2)), lambda x, i: x[i] - 2.0, wolfpack.l2_ball()
    )
    solve(problem, lambda event: Path(path).touch(), max_epochs=np.inf)


def test_a_child_of_multiprocessing_ends_as_its_parent_wants(tmp_path):
    path = tmp_path / "began"
    child = multiprocessing.get_context("spawn").Process(
        target=solve_for_ever, args=(path,)
    )
    child.start()
    while not path.exists():
        assert child.is_alive()
    child.terminate()
    child.join(HANG_SECONDS)
    assert child.exitcode == -signal.SIGTERM


ENDED = """
import os, signal, numpy as np, wolfpack
def send(event):
    os.kill(os.getpid(), signal.SIGTERM)
wolfpack.GroupFusedLasso(alpha=0.4, callback=send).fit(np.arange(20.0).reshape(10, 2))
"""


def test_the_process_ends_as_sigterm_asks():
    done = subprocess.run([sys.executable, "-c", ENDED], timeout=HANG_SECONDS)
    assert done.returncode == 143


@both
def test_it_raises_between_two_solves_and_where_it_was_lost(send, number, error):
    with pytest.raises(error), AllOrNothing():
        send()
    lost = contextlib.suppress(KeyboardInterrupt)  # as in a destructor
    with pytest.raises(error), AllOrNothing(), lost:
        send()


@both
def test_a_solve_within_a_solve_tells_the_outer_one(problem, send, number, error):
    inner = []

    def callback(event):
        if not inner:
            inner.append(solve(problem, send).status)

    outer = solve(problem, callback)
    assert inner == [Status.INTERRUPTED]
    assert outer.status is Status.INTERRUPTED
    assert outer.signal == number


@both
def test_a_run_that_begins_after_the_signal_stops_at_once(problem, send, number, error):
    with Interrupt() as interrupt:
        send()
        with pytest.raises(error):  # before the first update nothing is lost
            solve(problem, None)
    assert interrupt.signal == number
    assert interrupt.asked


def test_costs_are_not_measured_by_halves(problem, monkeypatch):
    module = sys.modules["wolfpack.solve"]
    real = module.solve
    monkeypatch.setattr(
        module, "solve", lambda *a, **how: real(*a, **how, callback=press)
    )
    with pytest.raises(KeyboardInterrupt):
        delays.Workers.measured(problem, 2, seconds=0.1)


# Experiments.


@pytest.fixture
def common(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "experiments")
    return importlib.import_module("_common")


def make(common, name="made", measure=None, draw=None):
    def draw_nothing(rows):
        import matplotlib.pyplot as plt

        return plt.figure()

    return common.Experiment(
        name=name,
        title="A title",
        claim="a claim",
        setting="a setting",
        measure=measure or (lambda fast, tell: [{"a": 0.125, "b": "x"}, {"a": 25}]),
        judge=lambda rows, facts: common.Verdict(common.HOLDS, f"{rows}"),
        draw=draw or draw_nothing,
    )


def spoil(name, problem):
    """Return an experiment's functions, of which one is interrupted."""

    def measure(fast, tell):
        return [{"gap": solve(problem).gap}]

    def between(fast, tell):
        press()
        return [{"gap": 1.0}]

    def lost(fast, tell):
        try:
            press()
        except KeyboardInterrupt:
            return [{"gap": 1.0}]

    if name == "drawing":
        return {"draw": press}
    return {"measure": {"solving": measure, "between": between, "lost": lost}[name]}


@pytest.mark.parametrize("when", ["solving", "between", "lost", "drawing"])
@pytest.mark.parametrize("again", [False, True])
def test_an_interrupted_experiment_keeps_nothing(
    common, problem, tmp_path, when, again
):
    if again:  # another mode was measured before, and stays
        common.run(make(common), False, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(KeyboardInterrupt):
        common.run(make(common, **spoil(when, problem)), True, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    record = common.run(make(common), True, tmp_path)
    assert record["fast"] is True
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"made.csv", "made.json", "made.png", "made.svg"}


def test_ctrl_c_among_the_last_moves_keeps_all_of_them(common, tmp_path, monkeypatch):
    real, moved = os.replace, []

    def replace(*paths):
        real(*paths)
        if Path(paths[1]).parent == tmp_path:  # others write what is moved
            moved.append(paths)
            if len(moved) == 2:
                press()

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        common.run(make(common), True, tmp_path)
    assert len(moved) == 4
    assert common.load("made", tmp_path) is not None


# Damaged files.


def test_whatever_is_cut_is_measured_again(common, tmp_path):
    experiment = make(common)
    common.run(experiment, True, tmp_path)
    assert common.stored(experiment, True, tmp_path) is not None
    for suffix in (".csv", ".json"):
        path = tmp_path / f"made{suffix}"
        whole = path.read_bytes()
        last = len(whole) - (1 if suffix == ".json" else 0)  # its last end of a line
        for size in range(last):
            path.write_bytes(whole[:size])
            assert common.stored(experiment, True, tmp_path) is None, size
        common.run(experiment, True, tmp_path)
        assert path.read_bytes() == whole or suffix == ".json"


@pytest.mark.parametrize(
    "text",
    ["null", "[]", "3", '"a"', "{}", '{"fast": true}', "\xff", "NaN", "{" * 500],
)
def test_a_record_that_is_none_is_not_used(common, tmp_path, text):
    common.run(make(common), True, tmp_path)
    (tmp_path / "made.json").write_bytes(text.encode("latin-1"))
    assert common.load("made", tmp_path) is None
    common.run(make(common), True, tmp_path)
    assert common.load("made", tmp_path) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "fine"}, {"machine": None}, {"machine": {}}, {"seconds": "3"},
        {"fast": 1}, {"why": None}, {"rows": "0"}, {"command": 3},
    ],
)  # fmt: skip
def test_a_record_of_another_shape_is_not_used(common, tmp_path, change):
    path = tmp_path / "made.json"
    common.run(make(common), True, tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert common.load("made", tmp_path) is None


# The command.

SCRIPT = """
import os, signal, sys
from pathlib import Path
from wolfpack import cli
from wolfpack.cli import reproduce
scripts = Path(sys.argv.pop(1))
reproduce.folder = lambda: scripts
cli.main()
"""
FAKE = """
import sys
sys.path[:0] = {folders!r}
import test_interrupts as shared
import _common

problem = shared.problem.__wrapped__() if {cut} else None
EXPERIMENT = shared.make(_common, {name!r}, **(
    shared.spoil("solving", problem) if {cut} else {{}}))
"""


def test_reproduce_all_stops_there_with_130(tmp_path):
    scripts, out = tmp_path / "scripts", tmp_path / "out"
    scripts.mkdir()
    for name in ("_common.py", "_files.py"):
        shutil.copy(ROOT / "experiments" / name, scripts)
    for name, cut in (("figa", False), ("figb", True), ("figc", False)):
        folders = [str(HERE), str(HERE.parent)]
        text = FAKE.format(folders=folders, name=name, cut=cut)
        (scripts / f"{name}.py").write_text(text)
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, scripts, "reproduce", "all", "--out", out],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == 130, done.stderr
    assert done.stdout.split()[0] == "figa"
    assert done.stdout.count("\n") == 1
    assert done.stderr.startswith("wolfpack: interrupted at figb, of which nothing is")
    assert done.stderr.count("\n") == 1
    names = {path.name for path in out.iterdir()}
    assert names == {"figa.csv", "figa.json", "figa.png", "figa.svg"}

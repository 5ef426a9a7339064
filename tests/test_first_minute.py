"""What a person sees while loops are compiled, and that warmup leaves nothing."""

import dataclasses

import numba
import numpy as np
import pytest
from numba.core.event import install_recorder
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import wolfpack
from wolfpack import ChainSSVM, GroupFusedLasso, MulticlassSVM, Threads
from wolfpack.cli.console import Watcher
from wolfpack.engines import active_set
from wolfpack.kernels import specialise
from wolfpack.kernels.notice import compiling


@pytest.fixture
def speaking(monkeypatch):
    monkeypatch.setenv("WOLFPACK_QUIET", "0")


def new_function():
    return numba.njit(lambda x: x + 1)


def lines(capsys):
    return capsys.readouterr().err.splitlines()


def test_what_is_compiled_is_said_once(speaking, capsys):
    with compiling("two sums"), compiling("nothing of its own"):
        for _ in range(2):
            new_function()(1)
    first, last = lines(capsys)
    assert first.startswith("wolfpack: compiling the loops for two sums, once")
    assert last.startswith("wolfpack: compiled in ")


def test_nothing_is_said_where_nothing_is_compiled(speaking, capsys):
    ready = new_function()
    ready(1)
    with compiling("a sum"):
        ready(2)
    assert lines(capsys) == []


def test_plain_python_is_not_said_to_be_compiled(speaking, capsys):
    problem = wolfpack.from_blocks(
        np.zeros((4, 2)), lambda x, i: x[i] - 2.0, wolfpack.l2_ball(1.0)
    )
    assert wolfpack.solve(problem, tol=1e-3, rng=0).converged
    assert "compiling" not in capsys.readouterr().err


def test_silence(speaking, capsys, monkeypatch):
    with compiling("a sum", silent=True), compiling("what is inside"):
        new_function()(1)
    monkeypatch.setenv("WOLFPACK_QUIET", "1")
    with compiling("a sum"):
        new_function()(1)
    monkeypatch.setenv("WOLFPACK_QUIET", "0")
    monkeypatch.setattr("multiprocessing.process._current_process._name", "Worker-1")
    with compiling("a sum"):
        new_function()(1)
    assert lines(capsys) == []


def test_an_error_of_the_compiler_ends_the_block(speaking, capsys):
    with pytest.raises(numba.TypingError), compiling("nonsense"):
        numba.njit(lambda x: x.nosuch)(1)
    with compiling("a sum"):
        new_function()(1)
    nonsense, first, last = lines(capsys)
    assert "the loops for nonsense" in nonsense
    assert "the loops for a sum" in first
    assert "compiled in" in last


def compiled_by(call):
    """Return the names of the functions that were compiled during a call."""
    with install_recorder("numba:compile") as recorder:
        call()
    events = [event for _, event in recorder.buffer if event.is_start]
    return [event.data["dispatcher"].py_func.__name__ for event in events]


def make(kind, **params):
    rng = np.random.default_rng(0)
    if kind is ChainSSVM:
        train, _ = wolfpack.load_dates(n_train=30, n_test=1)
        return kind(alpha=0.05, tol=0.05, random_state=0, **params), train.X, train.y
    X = rng.normal(size=(60, 3))
    if kind is GroupFusedLasso:
        return kind(random_state=0, **params), X, None
    return kind(random_state=0, **params), X, X.argmax(axis=1)


@pytest.fixture
def cold(monkeypatch, tmp_path):
    """Forget all loops, and use a folder of them that is empty."""

    def forget():
        specialise._alive.clear()
        specialise._recent.clear()
        specialise._settled.clear()
        specialise.library.cache_clear()
        active_set._warm_up.cache_clear()

    monkeypatch.setenv("WOLFPACK_CACHE", str(tmp_path))
    forget()
    yield
    forget()


def test_warmup_compiles_all_that_fit_calls(cold, speaking, capsys):
    model, X, _ = make(GroupFusedLasso)
    assert "refine" in compiled_by(lambda: wolfpack.warmup(model, X))
    first, last = lines(capsys)
    assert "compiling the loops for group_fused_lasso, once" in first
    assert "compiled in" in last
    assert not hasattr(model, "signal_")
    assert model.callback is None
    assert compiled_by(lambda: model.fit(X)) == []
    assert lines(capsys) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ChainSSVM, GroupFusedLasso, MulticlassSVM])
@pytest.mark.parametrize("params", [{"n_jobs": 2}, {"engine": Threads(2)}, {}], ids=str)
def test_warmup_compiles_all_for_all(cold, kind, params):
    model, X, y = make(kind, **params)
    assert compiled_by(lambda: wolfpack.warmup(model, X, y)) != []
    assert compiled_by(lambda: model.fit(X, y)) == []
    if kind is not GroupFusedLasso:
        assert compiled_by(lambda: model.predict(X)) == []


def test_warmup_takes_pipelines_and_weights():
    model, X, y = make(MulticlassSVM)
    pipe = make_pipeline(MinMaxScaler(), model)
    wolfpack.warmup(pipe, X, y, multiclasssvm__sample_weight=np.ones(60))
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("model", [MinMaxScaler(), MulticlassSVM, None], ids=repr)
def test_what_warmup_cannot_take(model):
    with pytest.raises(ValueError, match="warmup takes an estimator of wolfpack"):
        wolfpack.warmup(model, np.zeros((2, 2)))


def test_the_bar_of_the_command_line_shows_the_gap_between_checks():
    rows = {}
    wolfpack.solve(
        wolfpack.group_fused_lasso(wolfpack.make_piecewise(n=50, d=2)[0], alpha=0.5),
        callback=lambda event: rows.setdefault("first", event) is None,
    )
    event = rows["first"]
    row = event.row._replace(gap=2.0 * event.scale, epoch=7.0)

    def shown(checked, estimate):
        new = row._replace(gap_estimate=estimate * event.scale)
        watcher(dataclasses.replace(event, row=new, checked=checked, tol=0.02))
        task = watcher.bar.tasks[0]
        return task.fields["note"].split(" passes")[0], task.completed

    with Watcher(as_json=False, quiet=True) as watcher:
        assert shown(True, float("nan")) == ("gap 2.0e+00 -> 2e-02  7", 0.0)
        note, done = shown(False, 0.2)
        assert note == "gap ~2.0e-01 -> 2e-02  7"
        assert done == pytest.approx(0.5)
        assert shown(False, 5.0)[0] == "gap 2.0e+00 -> 2e-02  7"
        assert shown(True, 0.2) == ("gap 2.0e+00 -> 2e-02  7", 0.0)

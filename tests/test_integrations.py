"""The real classes of other libraries meet every estimator."""

import io
import logging
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from marks import HAS_CALLBACKS, needs_callbacks
from sklearn.metrics import accuracy_score, f1_score, make_scorer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler

import wolfpack
from wolfpack import (
    ChainSSVM,
    GroupFusedLasso,
    MulticlassSVM,
    MultilabelSVM,
    Serial,
    Sync,
)


def make_case(kind, **params):
    """Return a model that is not fitted, and the data of its fit."""
    rng = np.random.default_rng(0)
    if kind is ChainSSVM:
        train, _ = wolfpack.load_dates(n_train=30, n_test=1)
        return kind(alpha=0.05, tol=0.05, random_state=0, **params), (train.X, train.y)
    X = rng.normal(size=(60, 3))
    if kind is GroupFusedLasso:
        return kind(alpha=1.0, random_state=0, **params), (X,)
    if kind is MultilabelSVM:
        return kind(alpha=0.01, tol=0.01, random_state=0, **params), (X, (X > 0) * 1)
    y = np.array(["a", "b", "c"])[X.argmax(axis=1)]
    return kind(alpha=0.01, random_state=0, **params), (X, y)


KINDS = [ChainSSVM, GroupFusedLasso, MulticlassSVM, MultilabelSVM]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def learnt(model):
    names = [name for name in vars(model) if name.endswith("_") and name != "result_"]
    return {name: getattr(model, name) for name in names}


def assert_same_model(a, b):
    assert a.get_params() == b.get_params()
    assert learnt(a).keys() == learnt(b).keys()
    for name, value in learnt(a).items():
        np.testing.assert_array_equal(value, getattr(b, name))
    assert a.status_ is b.status_
    for one, two in zip(a.trace_, b.trace_, strict=True):  # as text: NaN is not NaN
        no_clock = {"seconds": 0.0, "wall_seconds": 0.0}
        assert repr(one._replace(**no_clock)) == repr(two._replace(**no_clock))


def by_skops(model):
    """Write and read with skops, trusting classes of wolfpack alone."""
    skops = pytest.importorskip("skops.io")
    content = skops.dumps(model)
    needed = skops.get_untrusted_types(data=content)
    assert all(name.startswith("wolfpack.") for name in needed)
    assert len(needed) <= 5
    with pytest.raises(Exception, match="wolfpack"):
        skops.loads(content)
    return skops.loads(content, trusted=needed)


def by_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


def by_pickle(model):
    return pickle.loads(pickle.dumps(model))


@kinds
@pytest.mark.parametrize("trip", [by_skops, by_joblib, by_pickle])
@pytest.mark.parametrize("warm_start", [False, True])
def test_round_trips(kind, trip, warm_start):
    model, data = make_case(kind, warm_start=warm_start)
    model.fit(*data)
    other = trip(model)
    assert_same_model(other, model)
    if warm_start:  # both go on, from the same point
        for one in (model, other):
            one.set_params(tol=0.1 * one.tol).fit(*data)
        assert_same_model(other, model)


@kinds
@pytest.mark.parametrize("engine", [None, Serial()])
@pytest.mark.parametrize("share", [0.25, 1.0, 4.0])
def test_a_state_that_was_kept_stays_as_it_is(kind, engine, share):
    model, data = make_case(kind, warm_start=True, engine=engine)
    kept = model.set_params(tol=max(model.tol, 1e-5)).fit(*data).result_
    before = pickle.dumps((kept.state, kept.solution))
    model.set_params(alpha=share * model.alpha, tol=0.1 * model.tol).fit(*data)
    assert model.result_ is not kept
    assert model.result_.converged
    assert pickle.dumps((kept.state, kept.solution)) == before


def test_an_engine_survives_skops():
    model, data = make_case(ChainSSVM, engine=Sync(2), sampling="uniform")
    assert by_skops(model.fit(*data)).engine == Sync(2)


def test_a_state_that_skops_brings_is_distrusted():
    model, data = make_case(ChainSSVM, warm_start=True)
    state = by_skops(model.fit(*data)).result_.state
    assert state.from_file
    arrays = state.__getstate__()
    arrays["counts"] = -arrays["counts"] - 5
    with pytest.raises(ValueError, match="cannot be true"):
        wolfpack.State.__new__(wolfpack.State).__setstate__(arrays)


@pytest.mark.parametrize("frame", [False, True])
@kinds
def test_model_files(kind, frame, tmp_path):
    model, data = make_case(kind, engine=Serial())
    if frame and kind is not ChainSSVM:
        data = (pd.DataFrame(data[0], columns=["u", "v", "w"]), *data[1:])
    model.fit(*data)
    path = wolfpack.models.save_model(model, tmp_path / "model", by="us")
    other = wolfpack.models.load_model(path)
    assert other.file_info_ == {"by": "us"}
    assert type(other) is kind
    assert other.get_params() == {**model.get_params(), "engine": None}
    kept = learnt(other)
    kept.pop("file_info_")
    assert kept.keys() >= {"n_features_in_"} | set(
        wolfpack.files.model_file.PARTS[kind.__name__]
    )
    for name, value in kept.items():
        np.testing.assert_array_equal(value, getattr(model, name))
        assert type(value) is type(getattr(model, name))
    if kind is GroupFusedLasso:
        np.testing.assert_array_equal(other.labels_, model.labels_)
        np.testing.assert_array_equal(other.predict(*data), model.labels_)
    else:
        assert other.score(*data) == model.score(*data)
    other.fit(*data)  # it is a whole estimator


def test_two_classes_are_one_row_of_a_model_file(tmp_path):
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    model = MulticlassSVM(random_state=0).fit(X, [0, 0, 1, 1])
    path = wolfpack.models.save_model(model, tmp_path / "model")
    np.testing.assert_array_equal(
        wolfpack.models.load_model(path).predict(X), model.predict(X)
    )
    with np.load(path) as file:
        arrays = dict(file)
    for name in ("coef_", "intercept_"):
        arrays[name] = np.concatenate([arrays[name]] * 2)
    np.savez(path, **arrays)
    with pytest.raises(wolfpack.models.ModelError, match="2 rows for 2 classes"):
        wolfpack.models.load_model(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("change_points_", np.array([3, 2])),
        ("change_points_", np.array([0])),
        ("change_points_", np.array([60])),
        ("change_points_", np.array([1.5])),
        ("signal_", np.full((60, 3), np.nan)),
        ("signal_", np.zeros((60, 0))),
        ("alpha_max_", np.zeros(2)),
    ],
)
def test_a_changed_signal_is_refused(tmp_path, name, value):
    model, data = make_case(GroupFusedLasso)
    path = wolfpack.models.save_model(model.fit(*data), tmp_path / "model")
    with np.load(path) as file:
        arrays = {**file, name: value}
    np.savez(path, **arrays)
    with pytest.raises(wolfpack.models.ModelError, match="is damaged"):
        wolfpack.models.load_model(path)


def test_save_model_says_what_it_takes(tmp_path):
    path = tmp_path / "model"
    with pytest.raises(wolfpack.models.ModelError, match="given was a MinMaxScaler"):
        wolfpack.models.save_model(MinMaxScaler(), path)
    with pytest.raises(wolfpack.models.ModelError, match="call fit before save_model"):
        wolfpack.models.save_model(MulticlassSVM(), path)
    assert not any(tmp_path.iterdir())


def to_sparse(X):
    return [sp.csr_matrix(x) for x in X]


def test_pipelines_and_a_search_with_two_processes():
    model, (X, y) = make_case(ChainSSVM)
    pipe = make_pipeline(FunctionTransformer(to_sparse), model)
    grid = {"chainssvm__alpha": [0.05, 100.0]}
    search = GridSearchCV(pipe, grid, cv=KFold(2), n_jobs=2).fit(X, y)
    assert search.best_params_ == {"chainssvm__alpha": 0.05}
    assert search.score(X, y) > 0.9
    np.testing.assert_array_equal(
        search.best_estimator_[-1].coef_, pipe.fit(X, y)[-1].coef_
    )
    model, (X, y) = make_case(MulticlassSVM)
    pipe = make_pipeline(MinMaxScaler(), model)
    search = GridSearchCV(pipe, {"multiclasssvm__alpha": [1e-3, 100.0]}, n_jobs=2)
    assert search.fit(X, y).score(X, y) > 0.8
    assert by_skops(search.best_estimator_).score(X, y) == search.score(X, y)


def test_set_output_of_the_steps_before():
    model, (X, y) = make_case(MulticlassSVM)
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    pipe = make_pipeline(MinMaxScaler(), model).set_output(transform="pandas")
    pipe.fit(frame, y)
    assert pipe[-1].feature_names_in_.tolist() == ["u", "v", "w"]
    assert pipe.score(frame, y) > 0.8


def token_accuracy(y, found):
    return accuracy_score(np.concatenate(y), np.concatenate(found))


@needs_callbacks
def test_scoring_monitor_records_each_pass_of_chains():
    from sklearn.callback import ScoringMonitor

    model, (X, y) = make_case(ChainSSVM)
    monitor = ScoringMonitor(scoring=make_scorer(token_accuracy))
    model.set_callbacks(monitor).fit(X, y)
    *rows, last = sorted(
        monitor.get_logs().data, key=lambda row: -len(row["task_id_path"])
    )
    assert [row["task_name"] for row in rows] == [
        f"pass {k + 1}" for k in range(model.n_iter_)
    ]
    assert last["task_name"] == "fit"
    assert last["score"] == model.score(X, y) == rows[-1]["score"]
    assert rows[0]["score"] < last["score"]


@needs_callbacks
@pytest.mark.parametrize("weighted", [False, True])
def test_scoring_monitor_of_named_scores_and_data_frames(weighted):
    from sklearn.callback import ScoringMonitor

    model, (X, y) = make_case(MulticlassSVM)
    frame = pd.DataFrame(X, columns=["u", "v", "w"])
    weight = {"sample_weight": np.arange(60)} if weighted else {}
    monitor = ScoringMonitor(scoring=["accuracy", "f1_macro"])
    model.set_callbacks(monitor).fit(frame, y, **weight)
    first = monitor.get_logs().data[0]
    assert first["task_name"] == "fit"
    assert first["accuracy"] == model.score(frame, y, **weight)
    assert first["f1_macro"] == f1_score(
        y, model.predict(frame), average="macro", **weight
    )


@needs_callbacks
@kinds
def test_progress_bar(kind, capsys):
    from sklearn.callback import ProgressBar

    model, data = make_case(kind)
    model.set_callbacks(ProgressBar()).fit(*data)
    assert f"{kind.__name__} - fit" in capsys.readouterr().out


@needs_callbacks
def test_progress_bar_of_a_search(capsys):
    from sklearn.callback import ProgressBar

    model, data = make_case(MulticlassSVM)
    search = GridSearchCV(model, {"alpha": [0.1, 1.0]}, cv=2)
    search.set_callbacks(ProgressBar(max_propagation_depth=None)).fit(*data)
    assert "MulticlassSVM" in capsys.readouterr().out


@pytest.mark.skipif(HAS_CALLBACKS, reason="scikit-learn 1.9 has callbacks")
def test_old_versions_say_what_callbacks_need():
    with pytest.raises(ImportError, match=r"needs scikit-learn 1\.9 or newer"):
        ChainSSVM().set_callbacks()


def test_verbose_shows_the_gap_between_checks(capsys, monkeypatch):
    monkeypatch.setattr("wolfpack.estimators._passes.SILENT_SECONDS", 0.0)
    monkeypatch.setattr("wolfpack.run.journal.BEAT_SECONDS", 0.0)
    model, data = make_case(ChainSSVM, verbose=1)
    model.fit(*data)
    lines = capsys.readouterr().err.splitlines()
    assert any(": relative gap about " in line for line in lines)
    assert f": relative gap {model.relative_gap_:.3e} " in lines[-1]


def test_verbose_needs_no_logging(capsys):
    model, data = make_case(ChainSSVM, verbose=1)
    logger = logging.getLogger("wolfpack")
    assert not logger.isEnabledFor(logging.INFO)
    model.fit(*data)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(model.trace_)
    assert lines[-1].startswith(
        f"pass {model.n_iter_}: relative gap {model.relative_gap_:.3e} (tol"
    )
    model.set_params(verbose=0).fit(*data)
    assert capsys.readouterr().err == ""

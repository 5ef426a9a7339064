"""ChainSSVM as a citizen of scikit-learn: what the common checks cannot try."""

import dataclasses
import pickle
import warnings

import joblib
import numpy as np
import pytest
import sklearn
from marks import needs_callbacks
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.utils import get_tags

import wolfpack
from wolfpack import (
    ChainSSVM,
    Delayed,
    GroupFusedLasso,
    Serial,
    Status,
    Sync,
    Threads,
    load_dates,
    solve,
)
from wolfpack.estimators import _base

LEARNT = ("coef_", "intercept_", "first_", "last_", "transitions_")


@pytest.fixture(scope="module")
def data():
    train, _ = load_dates(n_train=40, n_test=1)
    return train.X, train.y


def make(**params):
    return ChainSSVM(**{"alpha": 0.05, "tol": 0.02, "random_state": 0, **params})


def fit_for(passes, data, model=None, **params):
    """Fit for `passes` passes, which warns."""
    model = model or make(tol=0, max_iter=passes, **params)
    with pytest.warns(ConvergenceWarning):
        return model.set_params(tol=0, max_iter=passes).fit(*data)


def assert_same(a, b):
    for name in LEARNT:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_parameters():
    model = ChainSSVM(alpha=0.3, step="open-loop", n_jobs=2)
    assert repr(model) == "ChainSSVM(alpha=0.3, n_jobs=2, step='open-loop')"
    assert clone(model).get_params() == model.get_params()
    assert clone(model) is not model
    assert model.set_params(alpha=2).alpha == 2
    with pytest.raises(ValueError, match="Invalid parameter 'beta'"):
        model.set_params(beta=1)
    with pytest.raises(TypeError):
        ChainSSVM(0.1)


def test_tags():
    tags = get_tags(ChainSSVM())
    assert not tags.input_tags.two_d_array
    assert tags.input_tags.sparse
    assert tags.target_tags.required
    assert tags.estimator_type is None  # a classifier would get stratified folds
    assert not tags.non_deterministic


def test_tags_say_that_threads_meet_by_chance():
    for model in (ChainSSVM(), GroupFusedLasso(step="line")):
        for n_jobs, expected in ((None, False), (1, False), (2, True), (0, False)):
            tags = get_tags(model.set_params(n_jobs=n_jobs))  # `fit` refuses 0
            assert tags.non_deterministic is expected
        with joblib.parallel_config(n_jobs=2):
            assert get_tags(model.set_params(n_jobs=None)).non_deterministic


@pytest.mark.parametrize("warm_start", [False, True])
def test_pickle_and_joblib(data, tmp_path, warm_start):
    model = make(warm_start=warm_start).fit(*data)
    joblib.dump(model, tmp_path / "model")
    others = [pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model")]
    for other in others:
        assert other.get_params() == model.get_params()
        assert_same(other, model)
        np.testing.assert_array_equal(other.predict(data[0]), model.predict(data[0]))
    assert_same(others[0].fit(*data), others[1].fit(*data))
    assert others[0].n_iter_ == model.n_iter_  # converged: nothing left to do


def test_fit_twice_gives_the_same_bits(data):
    model = make().fit(*data)
    first = {name: getattr(model, name).copy() for name in LEARNT}
    n_iter = model.n_iter_
    model.fit(*data)
    assert model.n_iter_ == n_iter
    for name in LEARNT:
        np.testing.assert_array_equal(getattr(model, name), first[name])


def test_second_fit_forgets_the_first(data):
    X, y = data
    model = make().fit(X, y)
    shorter = [x[:4, :32] for x in X]
    years = [labels[:4] + 100 for labels in y]
    model.fit(shorter, years)
    assert_same(model, make().fit(shorter, years))
    assert model.n_features_in_ == 32
    assert model.coef_.shape == (len(model.classes_), 32)
    assert model.classes_.min() == 100


@pytest.mark.parametrize("n_jobs", [None, 1])
def test_one_thread_gives_the_same_bits(data, n_jobs):
    assert_same(make(n_jobs=n_jobs).fit(*data), make().fit(*data))


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_more_threads_reach_the_same_optimum(data, n_jobs):
    options = {"tol": 5e-3, "max_iter": 100_000}
    one = make(**options).fit(*data)
    many = make(**options, n_jobs=n_jobs).fit(*data)
    assert many.status_ is Status.CONVERGED
    assert 0 <= many.gap_ <= 5e-3
    assert many.dual_objective_ <= one.objective_
    assert one.dual_objective_ <= many.objective_
    # Within the gap, both weights are near the only minimiser: alpha/2 |w - w*|^2.
    far = sum(np.square(getattr(many, k) - getattr(one, k)).sum() for k in LEARNT)
    assert 0.5 * 0.05 * far <= 2 * (one.gap_ + many.gap_)


@pytest.fixture
def asked(monkeypatch):
    """What estimators ask of `solve`."""
    calls = []

    def listen(problem, **options):
        calls.append(options)
        return solve(problem, **options)

    monkeypatch.setattr(_base, "solve", listen)
    return calls


@pytest.mark.parametrize(
    ("n_jobs", "context", "engine"),
    [
        (None, 1, Serial()),
        (1, 1, Serial()),
        (1, 2, Serial()),
        (2, 1, Threads(2)),
        (None, 2, Threads(2)),
        (3, 2, Threads(3)),
    ],
)
def test_n_jobs_chooses_the_engine(data, asked, n_jobs, context, engine):
    with joblib.parallel_config(n_jobs=context):
        make(n_jobs=n_jobs, tol=0.1).fit(*data)
    assert asked[0]["engine"] == engine
    assert asked[0]["batch_size"] is None


def test_minus_one_is_all_cores(data, asked, monkeypatch):
    monkeypatch.setattr(_base, "effective_n_jobs", {-1: 5}.get)
    make(n_jobs=-1, tol=0.1, batch_size=10).fit(*data)
    assert asked[0]["engine"] == Threads(5)
    assert asked[0]["batch_size"] == 10


def test_fits_side_by_side_take_one_thread_each(data, asked):
    X, y = data
    one = cross_val_score(make(), X, y, cv=KFold(4))
    with joblib.parallel_config("threading", n_jobs=2):
        many = cross_val_score(make(), X, y, cv=KFold(4))
    assert [options["engine"] for options in asked] == [Serial()] * 8
    np.testing.assert_array_equal(one, many)


ENGINES = [Serial(), Threads(2), Sync(2), Delayed(wolfpack.delays.poisson(2))]


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_an_engine_of_choice(data, asked, engine):
    model = make(engine=engine, sampling="uniform", tol=0.1).fit(*data)
    assert asked[0]["engine"] is engine
    assert model.status_ is Status.CONVERGED
    assert model.result_.n_workers == getattr(engine, "n_workers", 1)
    assert (model.result_.delay is None) == isinstance(engine, Serial | Sync)
    assert get_tags(model).non_deterministic == isinstance(engine, Threads)
    assert clone(model).engine == engine
    assert pickle.loads(pickle.dumps(model)).engine == engine


def test_a_search_over_engines(data):
    grid = {"engine": [None, Serial(), Sync(2)], "sampling": ["uniform"]}
    search = GridSearchCV(make(tol=0.1), grid, cv=2).fit(*data)
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] == scores[1]
    assert search.best_estimator_.engine in grid["engine"]


@pytest.mark.parametrize(
    "estimator",
    [ChainSSVM, GroupFusedLasso, wolfpack.MulticlassSVM, wolfpack.MultilabelSVM],
)
def test_accelerate_is_a_parameter_of_all(estimator):
    assert estimator().get_params()["accelerate"] == "auto"
    assert clone(estimator(accelerate=False)).accelerate is False
    assert repr(estimator(accelerate=True)).endswith("(accelerate=True)")


def test_fit_is_accelerated_unasked(data):
    fast, same = make(tol=1e-3).fit(*data), make(tol=1e-3, accelerate=True).fit(*data)
    plain = make(tol=1e-3, accelerate=False).fit(*data)
    assert_same(fast, same)
    assert fast.result_.n_outer > 0 == plain.result_.n_outer
    assert fast.trace_[-1].reach < 1.0 == plain.trace_[-1].reach
    assert fast.dual_objective_ <= plain.objective_
    assert plain.dual_objective_ <= fast.objective_


def test_signals_are_accelerated_with_both_steps():
    Y = wolfpack.make_piecewise(n=300, d=2)[0]
    how = {"alpha": 0.5, "tol": 1e-6, "engine": Serial(), "random_state": 0}
    exact = GroupFusedLasso(**how).fit(Y)
    line = GroupFusedLasso(step="line", **how).fit(Y)
    assert min(exact.result_.n_outer, line.result_.n_outer) > 0
    error = np.linalg.norm(exact.signal_ - line.signal_)
    assert error <= np.sqrt(2 * exact.gap_) + np.sqrt(2 * line.gap_)


@pytest.mark.parametrize("value", [None, 1, "yes", 0.5], ids=repr)
def test_what_is_no_answer_to_accelerate(data, value):
    with pytest.raises(ValueError, match="accelerate must be True, False or 'auto'"):
        make(accelerate=value).fit(*data)


def test_why_it_is_not_accelerated_is_said(data):
    with pytest.raises(ValueError, match="set averaging=False"):
        make(accelerate=True, averaging=True).fit(*data)


@pytest.mark.parametrize("engine", ["threads", Threads, 2, print], ids=repr)
def test_what_is_no_engine(data, engine):
    model = make(engine=engine)
    with pytest.raises(
        ValueError, match=r"engine must be an engine such as Serial\(\)"
    ):
        model.fit(*data)
    assert not hasattr(model, "status_")
    assert not get_tags(model).non_deterministic  # a bad argument breaks no tags


@pytest.mark.parametrize("n_jobs", [1, 2, -1])
def test_an_engine_and_n_jobs_exclude_each_other(data, n_jobs):
    sentence = f"has its own number of workers, so n_jobs must be None .* {n_jobs}"
    with pytest.raises(ValueError, match=sentence):
        make(engine=Threads(2), n_jobs=n_jobs).fit(*data)


def test_an_engine_says_what_it_cannot_do(data):
    with pytest.raises(ValueError, match="mode='server' draws uniformly"):
        make(engine=Threads(2, "server"), sampling="gap").fit(*data)


def test_a_callback_sees_every_event_and_may_stop(data):
    events = []

    def listen(event):
        events.append(event)
        return len(events) == 2

    model = make(callback=listen, tol=0, max_iter=50).fit(*data)
    assert model.status_ is Status.STOPPED
    assert len(events) >= 2
    assert clone(model).callback is listen
    quiet = make(callback=lambda event: None, tol=0.1).fit(*data)
    assert_same(quiet, make(tol=0.1).fit(*data))
    with pytest.raises(ValueError, match="callback must be a function of an Event"):
        make(callback="bar").fit(*data)


@pytest.mark.parametrize("status", [Status.ABANDONED, Status.DIVERGED])
def test_a_run_that_failed_warns(data, monkeypatch, status):
    def fail(problem, **options):
        return dataclasses.replace(solve(problem, **options), status=status)

    monkeypatch.setattr(_base, "solve", fail)
    with pytest.warns(ConvergenceWarning, match=status.value[:20]):
        make(tol=0.1).fit(*data)


def test_result_is_that_of_solve(data):
    model = make(tol=0.1).fit(*data)
    result = model.result_
    assert result.trace is model.trace_
    assert result.status is model.status_
    assert result.gap == model.gap_
    assert result.state is None
    with pytest.raises(ValueError, match="no state; fit with warm_start=True"):
        result.save("nowhere")
    assert make(tol=0.1, warm_start=True).fit(*data).result_.state.n_updates > 0


def test_random_state(data):
    one = fit_for(2, data, random_state=1)
    assert not np.array_equal(one.coef_, fit_for(2, data, random_state=2).coef_)
    a = fit_for(2, data, random_state=np.random.RandomState(3))
    b = fit_for(2, data, random_state=np.random.RandomState(3))
    assert_same(a, b)
    a = fit_for(2, data, random_state=None)
    assert not np.array_equal(a.coef_, fit_for(2, data, random_state=None).coef_)


def test_warm_start_goes_on_as_if_never_stopped(data):
    plain = {"accelerate": False}  # whose objective falls in every pass
    model = fit_for(3, data, warm_start=True, **plain)
    assert model.n_iter_ == 3
    dual = model.dual_objective_
    fit_for(3, data, model)
    assert model.n_iter_ == 6
    assert model.dual_objective_ > dual
    assert_same(model, fit_for(6, data, **plain))
    model.set_params(warm_start=False)
    assert fit_for(3, data, model).n_iter_ == 3


@pytest.mark.parametrize("n_jobs", [(1, 2), (2, 1), (2, 2)])
def test_warm_start_goes_on_with_other_threads(data, n_jobs):
    model = fit_for(50, data, warm_start=True, n_jobs=n_jobs[0])
    dual, passes = model.dual_objective_, model.n_iter_
    fit_for(50, data, model.set_params(n_jobs=n_jobs[1]))
    assert model.n_iter_ >= passes + 50
    assert model.dual_objective_ > dual
    assert model.trace_[0].objective == pytest.approx(-dual, abs=1e-6)


def test_warm_start_with_another_alpha_starts_from_a_better_point(data):
    model = make(warm_start=True, tol=1e-3).fit(*data)
    model.set_params(alpha=0.06)
    warm = fit_for(1, data, model)
    cold = fit_for(1, data, alpha=0.06)
    assert warm.n_iter_ == 1
    assert warm.gap_ < 0.5 * cold.gap_
    assert warm.dual_objective_ > cold.dual_objective_


def test_warm_start_refuses_other_labels_and_other_sequences(data):
    X, y = data
    model = make(warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="warm_start needs the labels of the first"):
        model.fit(X, [labels + 1 for labels in y])
    with pytest.raises(ValueError, match="Set warm_start=False to start anew"):
        model.fit(X[:-1], y[:-1])
    model.set_params(warm_start=False).fit(X[:-1], y[:-1])


class Recorder:
    """A callback that writes down what it sees and may ask to stop."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.calls, self.estimators, self.gaps = [], [], []

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        self.calls.append(f"end {context.task_name}")
        if context.task_name != "fit":
            self.estimators.append(fitted_estimator)
            self.gaps.append(fitted_estimator.gap_)
        return context.task_name == f"pass {self.stop_after}"


@needs_callbacks
def test_callbacks_see_every_pass_in_order(data):
    recorder = Recorder()
    model = make().set_callbacks(recorder).fit(*data)
    expected = ["setup", "begin fit"]
    for k in range(1, model.n_iter_ + 1):
        expected += [f"begin pass {k}", f"end pass {k}"]
    assert recorder.calls == [*expected, "end fit", "teardown"]
    assert recorder.gaps[-1] == model.gap_
    assert_same(model, make().fit(*data))  # being watched changes nothing


@needs_callbacks
def test_callbacks_see_every_pass_of_threads(data):
    recorder = Recorder()
    model = make(n_jobs=2).set_callbacks(recorder).fit(*data)
    ends = [call for call in recorder.calls if call.startswith("end pass")]
    assert ends == [f"end pass {k + 1}" for k in range(len(ends))]
    assert model.n_iter_ - 1 <= len(ends) <= model.n_iter_
    assert recorder.calls[-1] == "teardown"
    assert recorder.gaps[-1] == model.gap_
    assert recorder.estimators[-1].score(*data) > 0.9


@needs_callbacks
def test_callbacks_get_a_usable_estimator(data):
    recorder = Recorder()
    model = make().set_callbacks(recorder).fit(*data)
    scores = [estimator.score(*data) for estimator in recorder.estimators]
    assert scores[0] < scores[-1]
    np.testing.assert_allclose(recorder.estimators[-1].coef_, model.coef_, atol=1e-6)


@needs_callbacks
def test_a_callback_may_stop_the_fit(data):
    recorder = Recorder(stop_after=2)
    model = make(accelerate=False).set_callbacks(recorder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # being asked to stop is no failure
        model.fit(*data)
    assert model.status_ is Status.STOPPED
    assert model.n_iter_ == 2
    assert "end pass 2" in recorder.calls
    assert "end pass 3" not in recorder.calls


@needs_callbacks
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_callbacks_count_passes_of_batches_that_do_not_divide(data):
    X, y = data[0][:10], data[1][:10]
    model = ChainSSVM(batch_size=9, max_iter=1, tol=0, warm_start=True, random_state=0)
    recorder = Recorder()
    model.set_callbacks(recorder)
    for _ in range(5):
        model.fit(X, y)
    passes = [call for call in recorder.calls if call.startswith("end pass")]
    assert len(passes) == 5
    assert model.status_ is Status.EPOCH_LIMIT


def test_cross_validation_of_lists_of_sequences(data):
    X, y = data
    scores = cross_val_score(make(), X, y, cv=KFold(4))
    assert scores.shape == (4,)
    train, test = next(KFold(4).split(X))
    model = make().fit([X[i] for i in train], [y[i] for i in train])
    expected = model.score([X[i] for i in test], [y[i] for i in test])
    assert scores[0] == expected


def test_grid_search(data):
    X, y = data
    search = GridSearchCV(make(), {"alpha": [0.05, 100.0]}, cv=KFold(2)).fit(X, y)
    assert search.best_params_ == {"alpha": 0.05}
    assert_same(search.best_estimator_, make().fit(X, y))
    np.testing.assert_array_equal(search.predict(X), search.best_estimator_.predict(X))


def test_metadata_routing_of_weights(data):
    X, y = data
    weight = np.tile([1, 0], 20)
    with sklearn.config_context(enable_metadata_routing=True):
        model = make().set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=False)
        search = GridSearchCV(model, {"alpha": [0.05]}, cv=KFold(2), refit=True)
        search.fit(X, y, sample_weight=weight)
    assert_same(search.best_estimator_, make().fit(X, y, sample_weight=weight))
    assert not np.array_equal(search.best_estimator_.coef_, make().fit(X, y).coef_)

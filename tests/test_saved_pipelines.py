"""A pipeline as the guide teaches it survives a file, and a damaged one is refused."""

import json
import warnings

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from wolfpack import ChainSSVM, MulticlassSVM, SequenceVectorizer
from wolfpack.models import ModelError, load_model, save_model

WORDS = [
    ["a", {"w": "é", "n": 2.5}],
    ["b"],
    ["a", "c", "b\ud800"],
    [{"": 1}, ["c", "d"]],
]
TAGS = [["A", "B"], ["B"], ["A", "A", "B"], ["B", "A"]]


def make(n_features=None, **params):
    words = SequenceVectorizer(n_features=n_features, separator="->")
    chain = ChainSSVM(**{"alpha": 0.1, "tol": 0.1, "random_state": 0, **params})
    return Pipeline([("words", words), ("chain", chain)]).fit(WORDS, TAGS)


@pytest.mark.parametrize("n_features", [None, 16])
def test_round_trip(tmp_path, n_features):
    model = make(n_features)
    path = save_model(model, tmp_path / "tagger", by="us")
    other = load_model(path)
    assert other.file_info_ == {"by": "us"}
    assert [name for name, _ in other.steps] == ["words", "chain"]
    for mine, theirs in zip(other, model, strict=True):
        assert mine.get_params() == theirs.get_params()
    unseen = [["a", "zz"], [], [{"w": "é"}]]
    for X in (WORDS, unseen):
        assert other.predict(X) == model.predict(X)  # lists, as they were in fit
        for a, b in zip(
            other.decision_function(X), model.decision_function(X), strict=True
        ):
            np.testing.assert_array_equal(a, b)
    if n_features is None:
        names = model[0].get_feature_names_out()
        assert other[0].get_feature_names_out().tolist() == names.tolist()
    again = load_model(save_model(other, tmp_path / "again"))
    assert again.predict(unseen) == model.predict(unseen)
    other.fit(WORDS, TAGS)  # it is a whole pipeline
    assert other.predict(WORDS) == model.predict(WORDS)


def test_what_fit_came_to_is_kept(tmp_path):
    costs = [[0, 3], [1, 0]]
    weights = {"A": 2, "B": np.float64(1.0)}
    model = make(loss=costs, class_weight=weights, normalize=True)[1]
    other = load_model(save_model(model, tmp_path / "model"))
    assert (other.alpha_, other.normalize_, other.takes_lists_) == (0.1, True, True)
    np.testing.assert_array_equal(other.losses_, model.losses_)
    assert other.class_weight == weights
    assert other.loss == costs
    X = make()[0].transform(WORDS)
    np.testing.assert_array_equal(
        other.hinge_losses(X, TAGS), model.hinge_losses(X, TAGS)
    )


def test_class_weights_keep_their_labels(tmp_path):
    X, y = [np.eye(3), np.eye(3)[:2]], [[0, 1, 1], [1, 0]]
    model = ChainSSVM(class_weight={0: 2.0, np.int64(1): 1.0}, loss=1 - np.eye(2))
    other = load_model(save_model(model.fit(X, y), tmp_path / "model"))
    assert other.class_weight == {0: 2.0, 1: 1.0}
    assert other.loss == [[0.0, 1.0], [1.0, 0.0]]
    other.fit(X, y)


@pytest.mark.parametrize("kind", ["file", "fit"])
def test_a_warm_start_without_a_state_says_so(tmp_path, kind):
    model = make()[1]
    if kind == "file":
        model = load_model(save_model(model, tmp_path / "model"))
    X = SequenceVectorizer().fit_transform(WORDS)
    words = "a file of `save_model` holds none" if kind == "file" else "the last fit"
    with pytest.warns(UserWarning, match=f"starts? .*{words}|{words}") as caught:
        model.set_params(warm_start=True).fit(X, TAGS)
    assert caught[0].filename == __file__
    assert not hasattr(model, "file_info_")  # it was of the fit before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, TAGS)  # now there is one
        ChainSSVM(alpha=0.1, warm_start=True).fit(X, TAGS)  # the first has none to miss


def test_save_model_says_which_pipelines_it_takes(tmp_path):
    X, y = np.eye(4), [0, 1, 0, 1]
    scaled = make_pipeline(StandardScaler(), MulticlassSVM()).fit(X, y)
    search = GridSearchCV(make(), {"chain__alpha": [0.1]}, cv=2).fit(WORDS, TAGS)
    no_chain = make_pipeline(SequenceVectorizer(), StandardScaler())
    unfitted = make_pipeline(SequenceVectorizer(), ChainSSVM())
    for model, words in (
        (scaled, r"a pipeline of a SequenceVectorizer and a ChainSSVM; given was a Pi"),
        (search, r"GridSearchCV; save its best_estimator_\.$"),
        (no_chain, r"Pipeline that ends with a StandardScaler\.$"),
        (unfitted, r"this ChainSSVM has no classes_: call fit before"),
    ):
        with pytest.raises(ModelError, match=words):
            save_model(model, tmp_path / "model")
    assert not any(tmp_path.iterdir())
    assert load_model(save_model(search.best_estimator_, tmp_path / "best"))


def described(path, **changes):
    with np.load(path) as file:
        told = json.loads(str(file["json"]))
    told["pipeline"] = {**told["pipeline"], **changes}
    return np.array(json.dumps(told))


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: {"letters": None},
        lambda path: {"ends": None},
        lambda path: {"ends": np.array([1, 2])},
        lambda path: {"ends": np.array([2.0])},
        lambda path: {"letters": np.array(["a"])},
        lambda path: {"json": described(path, params={"beta": 1})},
        lambda path: {"json": described(path, params={"separator": 1})},
        lambda path: {"json": described(path, params={"n_features": 3})},
        lambda path: {"json": described(path, params={"n_features": "many"})},
        lambda path: {"json": described(path, params=[])},
        lambda path: {"json": described(path, steps=["one"])},
        lambda path: {"json": described(path, steps=["one", "one"])},
        lambda path: {"json": described(path, steps=[1, 2])},
    ],
)
def test_a_damaged_vectorizer_is_refused(tmp_path, damage):
    path = save_model(make(), tmp_path / "tagger")
    with np.load(path) as file:
        arrays = {**file, **damage(path)}
    np.savez(path, **{k: v for k, v in arrays.items() if v is not None})
    with pytest.raises(ModelError, match="is damaged"):
        load_model(path)

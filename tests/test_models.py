import io
import json
import pickle
import zipfile

import numpy as np
import pytest

from wolfpack import ChainSSVM
from wolfpack.files.model_file import PARTS, ModelError, load_model, save_model


def make_model(names=None, **params):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(t, 3)) for t in (2, 3, 4)]
    y = [rng.integers(3, size=len(x)) for x in X]
    y[2][:3] = 0, 1, 2
    if names is not None:
        y = [np.asarray(names)[labels] for labels in y]
    options = {"alpha": 0.5, "tol": 0.1, "random_state": 0, **params}
    return ChainSSVM(**options).fit(X, y), X


@pytest.mark.parametrize(
    "names",
    [None, [5, -1, 7], ["a", "bc", "ä"], np.array(["a", "bc", "ä"], dtype=object)],
    ids=["codes", "numbers", "strings", "objects"],
)
def test_round_trip(tmp_path, names):
    model, X = make_model(names, sampling="uniform", max_seconds=3000.0)
    path = save_model(model, tmp_path / "model.npz", dataset="made up")
    other = load_model(path)
    assert other.file_info_ == {"dataset": "made up"}
    assert other.get_params() == model.get_params()
    assert other.n_features_in_ == 3
    for name in PARTS["ChainSSVM"]:
        np.testing.assert_array_equal(getattr(other, name), getattr(model, name))
    for a, b in zip(other.predict(X), model.predict(X), strict=True):
        assert a.tolist() == b.tolist()
    other.fit(X, model.predict(X))  # it is a whole estimator


def test_numpy_parameters_stay_numbers(tmp_path):
    model, _ = make_model(
        alpha=np.float32(0.5), batch_size=np.int64(2), random_state=None
    )
    model.random_state = np.random.RandomState(0)
    params = load_model(save_model(model, tmp_path / "m")).get_params()
    assert params["alpha"] == 0.5
    assert isinstance(params["alpha"], float)
    assert isinstance(params["batch_size"], int)
    assert params["random_state"] is None  # a generator is not part of a model


@pytest.mark.parametrize("name", ["model", "alpha0.01", "a.npz"])
def test_the_name_ends_in_npz(tmp_path, name):
    model, _ = make_model()
    path = save_model(model, tmp_path / name)
    assert path.name in (f"{name}.npz", name)
    assert path.suffix == ".npz"
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_the_file_holds_no_pickle(tmp_path):
    model, _ = make_model(np.array(["a", "b", "c"], dtype=object))
    path = save_model(model, tmp_path / "model")
    with np.load(path, allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)


def rewrite(path, **changes):
    """Write the file anew with other arrays; None leaves one out."""
    with np.load(path) as file:
        arrays = {**{name: file[name] for name in file.files}, **changes}
    np.savez(path, **{k: v for k, v in arrays.items() if v is not None})


@pytest.mark.parametrize(
    "changes",
    [
        {"coef_": None},
        {"format": np.array("wolfpack state 1")},
        {"format": None},
        {"json": np.array("{")},
        {"json": np.array("[]")},
        {"json": None},
        {"json": np.array(json.dumps({"params": {"beta": 1}, "about": {}}))},
        {"json": np.array(json.dumps({"params": {}}))},
        {"transitions_": np.zeros((2, 2))},
        {"coef_": np.zeros((2, 3))},
        {"coef_": np.zeros(3)},
        {"first_": np.zeros(4)},
    ],
)
def test_a_changed_file_is_refused(tmp_path, changes):
    path = save_model(make_model()[0], tmp_path / "model")
    rewrite(path, **changes)
    with pytest.raises(ModelError, match=r"is no model of this|is damaged"):
        load_model(path)


def test_files_of_others_are_refused(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("word/document.xml", "<xml/>")
    objects = io.BytesIO()
    np.savez(objects, format=np.array([{}], dtype=object))
    for k, content in enumerate(
        (
            b"",
            b"text",
            pickle.dumps({"a": 1}),
            buffer.getvalue(),
            archive.getvalue(),
            objects.getvalue(),
        )
    ):
        path = tmp_path / f"{k}.npz"
        path.write_bytes(content)
        with pytest.raises(ModelError, match=rf"{k}.npz (is|cannot be read)"):
            load_model(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"there is no file .*nosuch\.npz"):
        load_model(tmp_path / "nosuch.npz")
    with pytest.raises(ModelError, match="cannot be read"):
        load_model(tmp_path)


def test_no_damage_goes_unnoticed_or_ends_in_another_error(tmp_path):
    path = save_model(make_model()[0], tmp_path / "model")
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(200):
        content = bytearray(whole)
        for place in rng.integers(len(whole), size=rng.integers(1, 4)):
            content[place] ^= int(rng.integers(1, 256))
        path.write_bytes(content if rng.random() < 0.7 else whole[:place])
        try:
            load_model(path)
        except ModelError:
            refused += 1
    assert refused > 150  # the others hit bytes that say nothing, such as dates

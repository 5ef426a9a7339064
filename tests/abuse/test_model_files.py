"""An edited model or data file ends in one sentence, or in labels of the model."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mutations import bounded, damages, edits
from typer.testing import CliRunner

from wolfpack import ChainSSVM
from wolfpack.cli import app
from wolfpack.files.model_file import ModelError, load_model, save_model

NAMES = ["a", "b", "c"]


def predict(model, data):
    return CliRunner().invoke(app, ["predict", str(model), str(data), "--json"])


def assert_clear(result, n_lines=None):
    """The command has printed labels, or one sentence."""
    assert result.exception is None or isinstance(result.exception, SystemExit)
    if result.exit_code == 0:
        assert n_lines is None or len(result.stdout.splitlines()) == n_lines
        return
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("wolfpack: ")
    assert lines[0].endswith(".")


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("models")
    X = [rng.normal(size=(t, 3)) for t in (2, 3, 4)]
    y = [rng.integers(3, size=len(x)) for x in X]
    y[2][:3] = 0, 1, 2
    model = ChainSSVM(alpha=0.5, tol=0.1, random_state=0).fit(X, y)
    path = save_model(model, folder / "model", label_names=NAMES, dataset="made up")
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    data = {"X": np.concatenate(X), "y": np.concatenate(y)}
    data["offsets"] = np.array([0, 2, 5, 9])
    np.savez(folder / "data.npz", **data)
    return folder, arrays, data


@bounded
@given(data=st.data())
def test_an_edited_model(case, data):
    folder, arrays, _ = case
    arrays, path = dict(arrays), folder / "edited.npz"
    for edit in data.draw(st.lists(edits(sorted(arrays)), min_size=1, max_size=2)):
        edit(arrays)
    np.savez(path, **arrays)
    assert_clear(predict(path, folder / "data.npz"), n_lines=3)
    try:
        model = load_model(path)
    except ModelError:
        return
    assert all(np.isfinite(getattr(model, name)).all() for name in ("coef_", "first_"))


@bounded
@given(damage=damages())
def test_damaged_bytes(case, damage):
    folder, arrays, _ = case
    path = folder / "damaged.npz"
    np.savez_compressed(path, **arrays)
    path.write_bytes(damage(path.read_bytes()))
    assert_clear(predict(path, folder / "data.npz"), n_lines=3)


@bounded
@given(data=st.data())
def test_edited_data(case, data):
    folder, arrays, good = case
    np.savez(folder / "good.npz", **arrays)
    edited, path = dict(good), folder / "edited_data.npz"
    for edit in data.draw(st.lists(edits(sorted(edited)), min_size=1, max_size=2)):
        edit(edited)
    np.savez(path, **edited)
    assert_clear(predict(folder / "good.npz", path))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["alpha", "n_jobs", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@bounded
@given(
    params=values,
    about=values | st.fixed_dictionaries({"label_names": values}),
    names=st.lists(st.text(max_size=3), max_size=4),
    keep=st.sampled_from(["all", "params", "about", "names"]),
)
def test_edited_words(case, params, about, names, keep):
    folder, arrays, _ = case
    described = json.loads(str(arrays["json"]))
    if keep == "names":
        described["about"]["label_names"] = names
    if keep in ("about", "all"):
        described["params"] = params
    if keep in ("params", "all"):
        described["about"] = about
    path = folder / "words.npz"
    np.savez(path, **{**arrays, "json": np.array(json.dumps(described))})
    assert_clear(predict(path, folder / "data.npz"), n_lines=3)


BAD_MODELS = {
    "NaN": ({"coef_": np.full((3, 3), np.nan)}, "coef_ holds NaN or infinity"),
    "infinity": ({"last_": np.array([0, np.inf, 0])}, "last_ holds NaN or infinity"),
    "too large": ({"first_": np.full(3, 1e200)}, r"scores may reach .* fit again"),
    "strings": (
        {"classes_": np.array(["a", "b", "c"])},
        "must be whole numbers from 0",
    ),
    "beyond": ({"classes_": np.array([0, 1, 7])}, "whole numbers from 0 to 2"),
    "negative": ({"classes_": np.array([-1, 0, 1])}, "whole numbers from 0 to 2"),
    "twice": ({"classes_": np.array([0, 0, 1])}, "not sorted, or has a label twice"),
    "scalar": ({"classes_": np.array(3)}, r"classes_ has shape \(\)"),
    "table": ({"classes_": np.eye(3)}, r"classes_ has shape \(3, 3\)"),
    "whole": ({"coef_": np.ones((3, 3), int)}, "coef_ holds int64, not floats"),
}


@pytest.mark.parametrize(("changes", "sentence"), BAD_MODELS.values(), ids=BAD_MODELS)
def test_bad_models_do_not_predict(case, changes, sentence):
    folder, arrays, _ = case
    np.savez(folder / "bad.npz", **{**arrays, **changes})
    result = predict(folder / "bad.npz", folder / "data.npz")
    assert_clear(result)
    assert result.exit_code == 1
    assert re.search(sentence, result.stderr)


@pytest.mark.parametrize(
    "names", [["a", "b"], [], "abc", [1, 2, 3], {"0": "a"}, [None, "b", "c"], 7]
)
def test_label_names_must_fit(case, names):
    folder, arrays, _ = case
    described = json.loads(str(arrays["json"]))
    described["about"]["label_names"] = names
    words = np.array(json.dumps(described))
    np.savez(folder / "bad.npz", **{**arrays, "json": words})
    result = predict(folder / "bad.npz", folder / "data.npz")
    assert_clear(result)
    assert result.exit_code == 1
    assert "label" in result.stderr


BAD_DATA = {
    "scalar": {"X": np.array(3.0)},
    "row": {"X": np.ones(9)},
    "cube": {"X": np.ones((9, 3, 1))},
    "words": {"X": np.full((9, 3), "x")},
    "NaN": {"X": np.full((9, 3), np.nan)},
    "huge": {"X": np.full((9, 3), 1e38)},
    "unsigned": {"offsets": np.array([0, 5, 2, 9], np.uint8)},
    "y scalar": {"y": np.array(1)},
    "y table": {"y": np.ones((9, 2))},
}


@pytest.mark.parametrize("changes", BAD_DATA.values(), ids=BAD_DATA)
def test_bad_data_is_refused(case, changes):
    folder, arrays, data = case
    np.savez(folder / "good.npz", **arrays)
    np.savez(folder / "bad_data.npz", **{**data, **changes})
    result = predict(folder / "good.npz", folder / "bad_data.npz")
    assert_clear(result)
    assert result.exit_code == 1


def test_labels_of_another_kind_count_as_errors(case):
    folder, arrays, data = case
    np.savez(folder / "good.npz", **arrays)
    np.savez(folder / "words.npz", **{**data, "y": np.full(9, "a")})
    result = predict(folder / "good.npz", folder / "words.npz")
    assert_clear(result, n_lines=3)

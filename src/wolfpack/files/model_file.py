"""Fitted models as files: arrays and JSON in an .npz, never a pickle."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import wolfpack
from wolfpack.files import pipeline_file
from wolfpack.files.npz import (
    FREE_BYTES,
    FileError,
    one_line,
    read_npz,
    read_text,
    with_npz,
    write_npz,
)

FORMAT, CHAINS_ONLY = "wolfpack model 2", "wolfpack chain model 1"
OF_WORDS = "wolfpack model 3"  # a pipeline that begins with a vectorizer
# The arrays of each estimator, and their shapes: a letter is the same number in all of
# them. K counts classes, C rows of weights, L labels, p features; 2 is 2.
PARTS: dict[str, dict[str, str]] = {
    "ChainSSVM": {
        "classes_": "K",
        "coef_": "Kp",
        "intercept_": "K",
        "first_": "K",
        "last_": "K",
        "transitions_": "KK",
        "losses_": "KK",
    },
    "MulticlassSVM": {"classes_": "K", "coef_": "Cp", "intercept_": "C"},
    "MultilabelSVM": {
        "classes_": "K",
        "coef_": "Lp",
        "intercept_": "L",
        "edges_": "e2",
        "pair_coef_": "e",
        "candidates_": "sL",
    },
    "GroupFusedLasso": {
        "signal_": "np",
        "change_points_": "j",
        "alpha_": "",
        "alpha_max_": "",
    },
}
# None where every set of labels is allowed, and where all wrong labels cost 1.
MAY_MISS = ("candidates_", "losses_")
LEARNT = {"alpha_": float, "normalize_": bool, "takes_lists_": bool}  # kept as JSON
NAMES = sorted({name for parts in PARTS.values() for name in parts})
WORDS = "feature_names_in_"  # where X was a data frame


class ModelError(ValueError):
    """A file that is no model of wolfpack."""


def save_model(model: Any, path: str | os.PathLike, **about: Any) -> Path:
    """Write a fitted estimator, and what is known `about` it; return the path.

    The file holds what `predict` needs, and the parameters but engines, callbacks and
    random states. It holds neither the trace nor the state of a warm start. A pipeline
    of a `SequenceVectorizer` and a `ChainSSVM` is saved as a whole.

    Examples
    --------
    >>> import tempfile, wolfpack
    >>> Y, _, _ = wolfpack.make_piecewise(n=50, d=2)
    >>> model = wolfpack.GroupFusedLasso(alpha=1.0, random_state=0).fit(Y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = wolfpack.models.save_model(model, f"{folder}/model.npz", by="me")
    ...     other = wolfpack.models.load_model(path)
    >>> other.file_info_, (other.signal_ == model.signal_).all()
    ({'by': 'me'}, np.True_)
    """
    of_words = pipeline_file.is_of_words(model)
    last = model[-1] if of_words else model
    _check_fitted(last, model)
    path, kind = with_npz(path), type(last).__name__
    given = {name: getattr(last, name) for name in PARTS[kind]}
    arrays = {name: np.asarray(one) for name, one in given.items() if one is not None}
    if "losses_" in arrays:
        arrays["losses_"] = arrays["losses_"].astype(np.float64)
    if hasattr(last, WORDS):
        arrays[WORDS] = getattr(last, WORDS)
    for name, array in arrays.items():
        if array.dtype == object:  # objects would need a pickle
            arrays[name] = np.array(array.tolist())
    also = [name for name in LEARNT if name not in PARTS[kind] and hasattr(last, name)]
    learnt = {name: getattr(last, name) for name in also}
    described = {"estimator": kind, "params": _params(last), "about": about}
    if of_words:
        described["pipeline"], columns = pipeline_file.to_arrays(model)
        arrays |= columns
    arrays["format"] = np.array(OF_WORDS if of_words else FORMAT)
    arrays["json"] = np.array(json.dumps(described | learnt, default=_plain))
    # A large array of zeros is packed so well that `read_npz` would refuse it.
    small = sum(array.nbytes for array in arrays.values()) < FREE_BYTES // 2
    write_npz(path, arrays, packed=small)
    return path


def load_model(path: str | os.PathLike) -> Any:
    """Read what `save_model` wrote; return the model.

    What is known about it besides, `save_model(model, path, **about)`, is the dict
    `file_info_` of the model.

    Raises
    ------
    ModelError
        When the file is missing, damaged, or something else.
    """
    names = ("format", "json", WORDS, *NAMES, *pipeline_file.COLUMNS)
    arrays = open_npz(path, names)
    given = read_text(arrays.get("format"))
    if given not in (OF_WORDS, FORMAT, CHAINS_ONLY):
        raise ModelError(
            f"{os.fspath(path)} is no model of this wolfpack; make one with "
            "`wolfpack fit DATASET --save MODEL`."
        )
    try:
        described = _read_json(read_text(arrays.get("json")))
        model = whole = _build(described, arrays)
        if given == OF_WORDS:
            told = described.get("pipeline")
            whole = pipeline_file.from_arrays(told, arrays, model)
    except Exception as error:  # json raises errors of many kinds
        raise ModelError(f"{os.fspath(path)} is damaged ({one_line(error)}).") from None
    whole.file_info_ = model.file_info_ = described["about"]
    return whole


def _build(described: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    """Return the fitted estimator that a file holds; raise where it is damaged."""
    model = _make(described)
    parts = dict(PARTS[type(model).__name__])
    for name in MAY_MISS:
        if name in parts and name not in arrays:
            del parts[name]
            setattr(model, name, None)
    _check_shapes(arrays, parts)
    if "classes_" in parts:
        _check_classes(arrays["classes_"], described["about"].get("label_names"))
    _check_weights(arrays, parts)
    for name, shape in parts.items():
        setattr(model, name, arrays[name] if shape else arrays[name].item())
    wide = next(name for name, shape in parts.items() if shape.endswith("p"))
    model.n_features_in_ = arrays[wide].shape[1]
    if WORDS in arrays:
        model.feature_names_in_ = arrays[WORDS].astype(object)
    for name in LEARNT.keys() & described.keys():
        if type(described[name]) is not LEARNT[name]:
            raise ValueError(f"{name} is {described[name]!r}")
        setattr(model, name, described[name])
    return model


def open_npz(path: str | os.PathLike, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Read those of `names` that an .npz file has; raise `ModelError` if it is bad."""
    try:
        return read_npz(path, names)
    except FileNotFoundError:
        raise ModelError(f"there is no file {os.fspath(path)}.") from None
    except FileError as error:
        raise ModelError(f"{os.fspath(path)} {error}.") from None


def _check_fitted(last: Any, given: Any) -> None:
    """Refuse what no file of models can hold; `last` is the end of a pipeline."""
    kind = type(last).__name__
    if kind not in PARTS:
        hint = "" if kind == type(given).__name__ else f" that ends with a {kind}"
        if hasattr(given, "best_estimator_"):
            hint = "; save its best_estimator_"
        raise ModelError(
            f"save_model takes {_or(PARTS)}, or a pipeline of a SequenceVectorizer and "
            f"a ChainSSVM; given was a {type(given).__name__}{hint}."
        )
    missing = [name for name in PARTS[kind] if not hasattr(last, name)]
    if missing:
        raise ModelError(
            f"this {kind} has no {missing[0]}: call fit before save_model."
        )


def _read_json(text: str) -> dict[str, Any]:
    described = json.loads(text)
    if not isinstance(described, dict):
        raise ValueError("it does not say what it is")
    for name in ("params", "about"):
        if not isinstance(described.get(name), dict):
            raise ValueError("its parameters are missing")
    return described


def _make(described: dict[str, Any]) -> Any:
    """Return the estimator with its parameters, not fitted yet."""
    kind, params = described.get("estimator", "ChainSSVM"), described["params"]
    if not isinstance(kind, str) or kind not in PARTS:
        raise ValueError(f"it holds no {_or(PARTS)}")
    make = getattr(wolfpack, kind)
    unknown = sorted(set(params) - set(make().get_params()))
    if unknown:
        raise ValueError(f"{kind} has no parameter {unknown[0]!r}")
    if isinstance(params.get("class_weight"), list):  # as `_params` writes a dict
        params = {**params, "class_weight": dict(params["class_weight"])}
    return make(**params)


def _or(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} or {last}"


def _check_shapes(arrays: dict[str, np.ndarray], parts: dict[str, str]) -> None:
    sizes: dict[str, int] = {"2": 2}
    for name, letters in parts.items():
        if name not in arrays:
            raise ValueError(f"{name} is missing")
        shape = arrays[name].shape
        if len(shape) != len(letters):
            raise ValueError(f"{name} has shape {shape}, not {len(letters)} dimensions")
        for letter, size in zip(letters, shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise ValueError(
                    f"{name} has shape {shape}, which does not fit the others"
                )
    if "C" in sizes and sizes["C"] != (1 if sizes["K"] == 2 else sizes["K"]):
        raise ValueError(f"coef_ has {sizes['C']} rows for {sizes['K']} classes")
    if sizes["p"] == 0:
        raise ValueError("there are no features")
    if WORDS in arrays and arrays[WORDS].shape != (sizes["p"],):
        raise ValueError(f"{WORDS} does not name {sizes['p']} features")


def _check_classes(classes: np.ndarray, names: Any) -> None:
    if classes.ndim != 1 or classes.size == 0:
        raise ValueError(f"classes_ has shape {classes.shape}, not one entry a label")
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        raise ValueError("classes_ holds NaN or infinity")
    if not np.array_equal(np.unique(classes), classes):
        raise ValueError("classes_ is not sorted, or has a label twice")
    if names is None:
        return
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("label_names is no list of words")
    if classes.dtype.kind not in "iu" or classes[0] < 0 or classes[-1] >= len(names):
        raise ValueError(
            f"it has {len(names)} label names, so classes_ must be whole numbers from "
            f"0 to {len(names) - 1}"
        )


def _check_weights(arrays: dict[str, np.ndarray], parts: dict[str, str]) -> None:
    for name in sorted(set(parts) - {"classes_"}):
        array = arrays[name]
        if name == "change_points_":
            _check_change_points(array, len(arrays["signal_"]))
        elif name in ("edges_", "candidates_"):
            limit = len(arrays["coef_"]) if name == "edges_" else 2
            if (
                array.dtype.kind not in "iu"
                or not ((array >= 0) & (array < limit)).all()
            ):
                raise ValueError(f"{name} are not whole numbers from 0 to {limit - 1}")
        elif array.dtype not in (np.float32, np.float64):
            raise ValueError(f"{name} holds {array.dtype}, not floats")
        elif not np.isfinite(array).all():
            raise ValueError(f"{name} holds NaN or infinity")


def _check_change_points(points: np.ndarray, n: int) -> None:
    is_rising = points.dtype.kind == "i" and bool((np.diff(points) > 0).all())
    if not is_rising or (points.size and not (points[0] > 0 and points[-1] < n)):
        raise ValueError(f"change_points_ are not rising whole numbers below {n}")


def _params(model: Any) -> dict[str, Any]:
    """Return the parameters; JSON knows no names of classes but strings."""
    params = model.get_params()
    weights = params.get("class_weight")
    if isinstance(weights, dict):
        params["class_weight"] = [*map(list, weights.items())]
    return params


def _plain(value: Any) -> Any:
    """Turn a parameter into what JSON knows; engines and random states become None."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else None

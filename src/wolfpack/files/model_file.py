"""Fitted models as files: arrays and JSON in an .npz, never a pickle."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import wolfpack
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
MAY_MISS = "candidates_"  # None where every set of labels is allowed
NAMES = sorted({name for parts in PARTS.values() for name in parts})
WORDS = "feature_names_in_"  # where X was a data frame


class ModelError(ValueError):
    """A file that is no model of wolfpack."""


def save_model(model: Any, path: str | os.PathLike, **about: Any) -> Path:
    """Write a fitted estimator, and what is known `about` it; return the path.

    The file holds what `predict` needs, and the parameters but engines, callbacks and
    random states. It holds neither the trace nor the state of a warm start.

    Examples
    --------
    >>> import tempfile, wolfpack
    >>> Y, _, _ = wolfpack.make_piecewise(n=50, d=2)
    >>> model = wolfpack.GroupFusedLasso(alpha=1.0, random_state=0).fit(Y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = wolfpack.models.save_model(model, f"{folder}/model.npz", by="me")
    ...     other, about = wolfpack.models.load_model(path)
    >>> about, (other.signal_ == model.signal_).all()
    ({'by': 'me'}, np.True_)
    """
    kind = type(model).__name__
    if kind not in PARTS:
        raise ModelError(f"save_model takes {_or(PARTS)}; given was a {kind}.")
    missing = [name for name in PARTS[kind] if not hasattr(model, name)]
    if missing:
        raise ModelError(
            f"this {kind} has no {missing[0]}: call fit before save_model."
        )
    path = with_npz(path)
    given = {name: getattr(model, name) for name in PARTS[kind]}
    arrays = {name: np.asarray(one) for name, one in given.items() if one is not None}
    if hasattr(model, WORDS):
        arrays[WORDS] = getattr(model, WORDS)
    for name, array in arrays.items():
        if array.dtype == object:  # objects would need a pickle
            arrays[name] = np.array(array.tolist())
    described = {"estimator": kind, "params": model.get_params(), "about": about}
    arrays["format"] = np.array(FORMAT)
    arrays["json"] = np.array(json.dumps(described, default=_plain))
    # A large array of zeros is packed so well that `read_npz` would refuse it.
    small = sum(array.nbytes for array in arrays.values()) < FREE_BYTES // 2
    write_npz(path, arrays, packed=small)
    return path


def load_model(path: str | os.PathLike) -> tuple[Any, dict[str, Any]]:
    """Read what `save_model` wrote; return the model and what is known about it.

    Raises
    ------
    ModelError
        When the file is missing, damaged, or something else.
    """
    arrays = open_npz(path, ("format", "json", WORDS, *NAMES))
    if read_text(arrays.get("format")) not in (FORMAT, CHAINS_ONLY):
        raise ModelError(
            f"{os.fspath(path)} is no model of this wolfpack; make one with "
            "`wolfpack fit DATASET --save MODEL`."
        )
    try:
        model, about = _describe(read_text(arrays.get("json")))
        parts = PARTS[type(model).__name__]
        if MAY_MISS in parts and MAY_MISS not in arrays:
            parts = {name: parts[name] for name in parts if name != MAY_MISS}
            setattr(model, MAY_MISS, None)
        _check_shapes(arrays, parts)
        if "classes_" in parts:
            _check_classes(arrays["classes_"], about.get("label_names"))
        _check_weights(arrays, parts)
    except Exception as error:  # json raises errors of many kinds
        raise ModelError(
            f"{os.fspath(path)} is damaged ({one_line(error)})."
        ) from error
    for name, shape in parts.items():
        setattr(model, name, arrays[name] if shape else arrays[name].item())
    wide = next(name for name, shape in parts.items() if shape.endswith("p"))
    model.n_features_in_ = arrays[wide].shape[1]
    if WORDS in arrays:
        model.feature_names_in_ = arrays[WORDS].astype(object)
    return model, about


def open_npz(path: str | os.PathLike, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Read those of `names` that an .npz file has; raise `ModelError` if it is bad."""
    try:
        return read_npz(path, names)
    except FileNotFoundError:
        raise ModelError(f"there is no file {os.fspath(path)}.") from None
    except FileError as error:
        raise ModelError(f"{os.fspath(path)} {error}.") from error


def _describe(text: str) -> tuple[Any, dict[str, Any]]:
    described = json.loads(text)
    if not isinstance(described, dict):
        raise ValueError("it does not say what it is")
    kind = described.get("estimator", "ChainSSVM")
    params, about = described.get("params"), described.get("about")
    if not isinstance(params, dict) or not isinstance(about, dict):
        raise ValueError("its parameters are missing")
    if not isinstance(kind, str) or kind not in PARTS:
        raise ValueError(f"it holds no {_or(PARTS)}")
    make = getattr(wolfpack, kind)
    unknown = sorted(set(params) - set(make().get_params()))
    if unknown:
        raise ValueError(f"{kind} has no parameter {unknown[0]!r}")
    return make(**params), about


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


def _plain(value: Any) -> Any:
    """Turn a parameter into what JSON knows; engines and random states become None."""
    return value.item() if isinstance(value, np.generic) else None

"""Fitted models as files: arrays and JSON in an .npz, never a pickle."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from wolfpack.estimators.structured import ChainSSVM
from wolfpack.files.npz import (
    FREE_BYTES,
    FileError,
    one_line,
    read_npz,
    read_text,
    replacing,
    with_npz,
)

FORMAT = "wolfpack chain model 1"
ARRAYS = ("classes_", "coef_", "intercept_", "first_", "last_", "transitions_")


class ModelError(ValueError):
    """A file that is no model of wolfpack."""


def save_model(model: ChainSSVM, path: str | os.PathLike, **about: Any) -> Path:
    """Write a fitted model, and what is known `about` it; return the path."""
    path = with_npz(path)
    arrays = {name: getattr(model, name) for name in ARRAYS}
    if arrays["classes_"].dtype == object:  # objects would need a pickle
        arrays["classes_"] = np.array(arrays["classes_"].tolist())
    described = {"params": model.get_params(), "about": about}
    arrays["format"] = np.array(FORMAT)
    arrays["json"] = np.array(json.dumps(described, default=_plain))
    # A large array of zeros is packed so well that `read_npz` would refuse it.
    small = sum(array.nbytes for array in arrays.values()) < FREE_BYTES // 2
    write: Any = np.savez_compressed if small else np.savez
    with replacing(path) as file:
        write(file, **arrays)
    return path


def load_model(path: str | os.PathLike) -> tuple[ChainSSVM, dict[str, Any]]:
    """Read what `save_model` wrote; return the model and what is known about it."""
    arrays = open_npz(path, ("format", "json", *ARRAYS))
    if read_text(arrays.get("format")) != FORMAT or not set(ARRAYS) <= set(arrays):
        raise ModelError(
            f"{os.fspath(path)} is no model of this wolfpack; make one with "
            "`wolfpack fit DATASET --save MODEL`."
        )
    try:
        model, about = _describe(read_text(arrays.get("json")))
        _check_classes(arrays["classes_"], about.get("label_names"))
        _check_weights(arrays, len(arrays["classes_"]))
    except Exception as error:  # json raises errors of many kinds
        raise ModelError(
            f"{os.fspath(path)} is damaged ({one_line(error)})."
        ) from error
    for name in ARRAYS:
        setattr(model, name, arrays[name])
    model.n_features_in_ = model.coef_.shape[1]
    return model, about


def open_npz(path: str | os.PathLike, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Read those of `names` that an .npz file has; raise `ModelError` if it is bad."""
    try:
        return read_npz(path, names)
    except FileNotFoundError:
        raise ModelError(f"there is no file {os.fspath(path)}.") from None
    except FileError as error:
        raise ModelError(f"{os.fspath(path)} {error}.") from error


def _describe(text: str) -> tuple[ChainSSVM, dict[str, Any]]:
    described = json.loads(text)
    if not isinstance(described, dict):
        raise ValueError("it does not say what it is")
    params, about = described.get("params"), described.get("about")
    if not isinstance(params, dict) or not isinstance(about, dict):
        raise ValueError("its parameters are missing")
    unknown = sorted(set(params) - set(ChainSSVM().get_params()))
    if unknown:
        raise ValueError(f"ChainSSVM has no parameter {unknown[0]!r}")
    return ChainSSVM(**params), about


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


def _check_weights(arrays: dict[str, np.ndarray], n_labels: int) -> None:
    coef = arrays["coef_"]
    row, square = (n_labels,), (n_labels, n_labels)
    n_features = coef.shape[1] if coef.ndim == 2 else 1
    shapes = ((n_labels, n_features), row, row, row, square)
    for name, shape in zip(ARRAYS[1:], shapes, strict=True):
        array = arrays[name]
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}, needed is {shape}")
        if array.dtype not in (np.float32, np.float64):
            raise ValueError(f"{name} holds {array.dtype}, not floats")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} holds NaN or infinity")
    if coef.size == 0:
        raise ValueError("coef_ has no features")


def _plain(value: Any) -> Any:
    """Turn a parameter into what JSON knows; engines and random states become None."""
    return value.item() if isinstance(value, np.generic) else None

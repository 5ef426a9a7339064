"""Fitted models as files: arrays and JSON in an .npz, never a pickle."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from wolfpack.estimators.structured import ChainSSVM

FORMAT = "wolfpack chain model 1"
ARRAYS = ("classes_", "coef_", "intercept_", "first_", "last_", "transitions_")


class ModelError(ValueError):
    """A file that is no model of wolfpack."""


def save_model(model: ChainSSVM, path: str | os.PathLike, **about: Any) -> Path:
    """Write a fitted model, and what is known `about` it; return the path."""
    path = with_npz(path)
    arrays = {name: getattr(model, name) for name in ARRAYS}
    if arrays["classes_"].dtype == object:  # which only a pickle could hold
        arrays["classes_"] = np.array(arrays["classes_"].tolist())
    described = {"params": model.get_params(), "about": about}
    temporary = path.with_name(path.name + ".part.npz")
    np.savez_compressed(
        temporary,
        format=np.array(FORMAT),
        json=np.array(json.dumps(described, default=_plain)),
        **arrays,
    )
    os.replace(temporary, path)
    return path


def load_model(path: str | os.PathLike) -> tuple[ChainSSVM, dict[str, Any]]:
    """Read what `save_model` wrote; return the model and what is known about it."""
    arrays = open_npz(path)
    if str(arrays.get("format")) != FORMAT or not set(ARRAYS) <= set(arrays):
        raise ModelError(
            f"{os.fspath(path)} is no model of this wolfpack; make one with "
            "`wolfpack fit DATASET --save MODEL`."
        )
    try:
        described = json.loads(str(arrays["json"]))
        model = ChainSSVM(**described["params"])
        _check_shapes(arrays)
        about = dict(described["about"])
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{os.fspath(path)} is damaged ({error}).") from error
    for name in ARRAYS:
        setattr(model, name, arrays[name])
    model.n_features_in_ = model.coef_.shape[1]
    return model, about


def with_npz(path: str | os.PathLike) -> Path:
    """Append .npz, unless it is there ("alpha0.01" has a suffix that is none)."""
    path = Path(path)
    return path if path.suffix == ".npz" else path.with_name(path.name + ".npz")


def open_npz(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Read all arrays of an .npz file; a `ModelError` says what is wrong with it."""
    try:
        with open(path, "rb") as handle:  # np.load leaves a bad file open
            if not zipfile.is_zipfile(handle):
                raise ModelError(f"{os.fspath(path)} is no .npz file, or is cut short.")
            handle.seek(0)
            file = np.load(handle, allow_pickle=False)
            return {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise ModelError(f"there is no file {os.fspath(path)}.") from None
    except ModelError:
        raise
    except Exception as error:  # zipfile has many ways to say so
        raise ModelError(f"{os.fspath(path)} cannot be read ({error}).") from error


def _check_shapes(arrays: dict[str, np.ndarray]) -> None:
    n_labels = len(arrays["classes_"])
    for name in ARRAYS[2:5]:
        if arrays[name].shape != (n_labels,):
            raise ValueError(f"{name} has shape {arrays[name].shape}")
    square = arrays["transitions_"].shape == (n_labels, n_labels)
    coef = arrays["coef_"]
    if not square or coef.ndim != 2 or len(coef) != n_labels:
        raise ValueError("weights of another number of labels")


def _plain(value: Any) -> Any:
    """Turn a parameter into what JSON knows; a random state is not kept."""
    return value.item() if isinstance(value, np.generic) else None

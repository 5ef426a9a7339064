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
    path = Path(path)
    if path.suffix != ".npz":
        path = path.with_name(path.name + ".npz")
    arrays = {name: getattr(model, name) for name in ARRAYS}
    described = {"params": model.get_params(), "about": about}
    temporary = path.with_name(path.name + ".part.npz")
    np.savez_compressed(
        temporary,
        format=np.array(FORMAT),
        json=np.array(json.dumps(described, default=str)),
        **arrays,
    )
    os.replace(temporary, path)
    return path


def load_model(path: str | os.PathLike) -> tuple[ChainSSVM, dict[str, Any]]:
    """Read what `save_model` wrote; return the model and what is known about it."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise ModelError(f"there is no model file {os.fspath(path)}.") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ModelError(
            f"{os.fspath(path)} is damaged or no model file ({error})."
        ) from error
    if str(arrays.get("format")) != FORMAT or not set(ARRAYS) <= set(arrays):
        raise ModelError(
            f"{os.fspath(path)} is no model of this wolfpack; make one with "
            "`wolfpack fit DATASET --save MODEL`."
        )
    described = json.loads(str(arrays["json"]))
    model = ChainSSVM(**described["params"])
    for name in ARRAYS:
        setattr(model, name, arrays[name])
    model.n_features_in_ = model.coef_.shape[1]
    return model, described["about"]

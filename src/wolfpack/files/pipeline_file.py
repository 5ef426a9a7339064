"""The vectorizer of a pipeline, in the file of the model that comes after it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from wolfpack.estimators.vectorizer import (
    SequenceVectorizer,
    pack_names,
    unpack_names,
)

COLUMNS = ("letters", "ends")  # the names of the columns in UTF-8, and where each ends


def is_of_words(model: Any) -> bool:
    """Return whether this is a pipeline of a SequenceVectorizer and one more step."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else []
    return len(steps) == 2 and isinstance(steps[0], SequenceVectorizer)


def to_arrays(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return what JSON keeps of a pipeline of words, and what arrays do."""
    vectorizer = model[0]
    names = {"steps": [name for name, _ in model.steps]}
    described = {**names, "params": vectorizer.get_params()}
    if vectorizer.n_features is not None:  # hashed: the columns have no names
        return described, {}
    columns = pack_names(vectorizer.vocabulary_)
    return described, dict(zip(COLUMNS, columns, strict=True))


def from_arrays(described: Any, arrays: Mapping[str, np.ndarray], model: Any) -> Any:
    """Return the pipeline of a model; raise ValueError where the file is damaged."""
    if not isinstance(described, dict):
        raise ValueError("its vectorizer is not described")
    params: Any = described.get("params")
    names: Any = described.get("steps")
    known: dict[str, Any] = SequenceVectorizer().get_params()
    if not isinstance(params, dict) or set(params) - set(known):
        raise ValueError("its vectorizer has other parameters")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("its pipeline has no names of steps")
    if len(names) != 2 or names[0] == names[1]:
        raise ValueError(f"its pipeline has the steps {names}")
    vectorizer: Any = SequenceVectorizer(**params)
    n_columns = params.get("n_features")
    if n_columns is None:
        columns = {name: k for k, name in enumerate(_names(arrays))}
        vectorizer.vocabulary_, n_columns = columns, len(columns)
    if n_columns != model.n_features_in_:
        raise ValueError(
            f"its vectorizer has {n_columns} columns, not {model.n_features_in_}"
        )
    vectorizer.transform([])  # checks the parameters
    return Pipeline([(names[0], vectorizer), (names[1], model)])


def _names(arrays: Mapping[str, np.ndarray]) -> list[str]:
    missing = [name for name in COLUMNS if name not in arrays]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    letters, ends = (arrays[name] for name in COLUMNS)
    is_text = letters.dtype == np.uint8 and letters.ndim == 1
    if not is_text or ends.dtype.kind not in "iu" or ends.ndim != 1:
        raise ValueError("the names of its columns are no text")
    bounds = [0, *ends.tolist()]
    if bounds != sorted(bounds) or bounds[-1] != len(letters):
        raise ValueError("the names of its columns are cut short")
    return [*unpack_names(letters, ends)]

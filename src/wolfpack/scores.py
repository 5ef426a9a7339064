"""Scores of labellings, and scorers for `cross_val_score` and `GridSearchCV`.

A scorer is what scikit-learn takes as `scoring`; each is made of the function above it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import make_scorer


def chunk_f1(y_true: Sequence[Any], y_pred: Sequence[Any], **options: Any) -> float:
    """Return the F1 score of chunks, by seqeval: the measure of CoNLL-2000 and 2003.

    A chunk, "B-NP I-NP" say, is right if its kind and both ends are.

    Parameters
    ----------
    y_true, y_pred : list of lists or arrays of str
        Labels such as "B-NP", "I-NP" and "O".
    **options
        Go to `seqeval.metrics.f1_score`: `average`, `mode`, `scheme` ...

    Examples
    --------
    >>> from wolfpack.scores import chunk_f1
    >>> float(chunk_f1([["B-NP", "I-NP", "B-VP"]], [["B-NP", "I-NP", "O"]]))
    0.6666666666666666
    """
    f1_score = _import_f1("chunk_f1")
    _check_lengths(y_true, y_pred)
    lists = [_as_lists(labels) for labels in (y_true, y_pred)]
    return f1_score(*lists, **options)  # pyright: ignore[reportReturnType]


def token_accuracy(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """Return the share of positions that are labelled right.

    Examples
    --------
    >>> from wolfpack.scores import token_accuracy
    >>> token_accuracy([[1, 2, 3], [1]], [[1, 2, 2], [1]])
    0.75
    """
    _check_lengths(y_true, y_pred)
    pairs = zip(y_true, y_pred, strict=True)
    right = [np.asarray(a) == np.asarray(b) for a, b in pairs]
    return float(np.mean(np.concatenate(right)))


def sequence_accuracy(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """Return the share of sequences without a wrong label.

    Examples
    --------
    >>> from wolfpack.scores import sequence_accuracy
    >>> sequence_accuracy([[1, 2, 3], [1]], [[1, 2, 2], [1]])
    0.5
    """
    _check_lengths(y_true, y_pred)
    pairs = zip(y_true, y_pred, strict=True)
    return float(np.mean([np.array_equal(a, b) for a, b in pairs]))


token_accuracy_scorer = make_scorer(token_accuracy)
sequence_accuracy_scorer = make_scorer(sequence_accuracy)


def __getattr__(name: str) -> Any:
    """Make `chunk_f1_scorer`, if seqeval is there.

    Without it, a search over many fits would otherwise fail after the first of them.
    """
    if name == "chunk_f1_scorer":
        _import_f1(name)
        return make_scorer(chunk_f1)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), "chunk_f1_scorer"})


def _import_f1(asker: str) -> Any:
    try:
        from seqeval.metrics import f1_score
    except ImportError as error:
        raise ImportError(
            f"{asker} needs seqeval; install it with: pip install seqeval"
        ) from error
    return f1_score


def _as_lists(labels: Sequence[Any]) -> list[list[str]]:
    return [np.asarray(one).tolist() for one in labels]


def _check_lengths(y_true: Sequence[Any], y_pred: Sequence[Any]) -> None:
    if len(y_true) != len(y_pred):
        raise ValueError(
            f"y_true has {len(y_true)} sequences and y_pred has {len(y_pred)}."
        )
    for i, (a, b) in enumerate(zip(y_true, y_pred, strict=True)):
        if len(a) != len(b):
            raise ValueError(
                f"y_true[{i}] has {len(a)} labels and y_pred[{i}] has {len(b)}."
            )
    if not any(map(len, y_true)):
        raise ValueError("y_true holds no label; a score needs one or more.")

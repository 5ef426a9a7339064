"""What a position of a sequence may be: a dict, a string, or a list of strings."""

from collections.abc import Iterable, Iterator, Mapping
from numbers import Real
from typing import Any

import numpy as np


def check_sequences(X: Any) -> Iterator[Iterable[Any]]:
    """Yield the sequences, a list or another iterable of positions each."""
    if isinstance(X, str | bytes | Mapping) or not isinstance(X, Iterable):
        raise ValueError(
            "X must be a list of sequences, each a list of dicts or strings, not a "
            f"{type(X).__name__}."
        )
    for i, sequence in enumerate(X):
        if isinstance(sequence, str | bytes | Mapping) or not isinstance(
            sequence, Iterable
        ):
            raise ValueError(
                f"X[{i}] must be a list of positions, each a dict or a list of "
                f"strings, but is a {type(sequence).__name__}."
            )
        yield sequence


def as_dict(position: Any, i: int) -> Mapping[str, Any]:
    """Return a position that is given in another way as a dict."""
    if isinstance(position, Mapping):
        return position
    if isinstance(position, str):
        return {position: 1}
    if isinstance(position, Iterable):
        names = list(position)
        if all(isinstance(name, str) for name in names):
            return dict.fromkeys(names, 1)
    raise ValueError(
        f"a position of X[{i}] must be a dict, a string or a list of strings, but is "
        f"{position!r:.60}."
    )


def parts(name: Any, value: Any, joint: str, i: int) -> Iterator[tuple[str, float]]:
    """Yield the columns of a pair of a dict, and their values."""
    if isinstance(value, str):
        yield f"{name}{joint}{value}", 1.0
    elif isinstance(value, Real | np.bool_):
        yield f"{name}", _as_float(name, value, i)
    elif isinstance(value, Mapping):
        for key, number in value.items():
            yield from parts(f"{name}{joint}{key}", number, joint, i)
    elif isinstance(value, list | tuple | set | frozenset) and all(
        isinstance(one, str) for one in value
    ):
        for one in dict.fromkeys(value):
            yield f"{name}{joint}{one}", 1.0
    else:
        raise ValueError(
            f"feature {name!r} of a position of X[{i}] must be a string, a number, a "
            f"list of strings or a dict of such, but is {value!r:.60}."
        )


def _as_float(name: Any, value: Any, i: int) -> float:
    """Return a number of any size as a float."""
    try:
        return float(value)
    except OverflowError:
        raise ValueError(
            f"feature {name!r} of a position of X[{i}] is a number beyond 1e308, which "
            "no float holds; divide it by a constant, or take its logarithm."
        ) from None

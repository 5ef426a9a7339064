"""What the loops of one problem call by name: its functions, its store, constants."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from wolfpack.kernels import slots
from wolfpack.kernels.compile import jit

if TYPE_CHECKING:
    from wolfpack.problem import Problem

REQUIRED = ("oracle", "score", "add", "slope")
OPTIONAL = (
    "value",
    "contains",
    "minimiser",
    "touched",
    "prepare",
    "rate",
    "spread",
    "curvature",
    "parts_of",
    "add_parts",
    "score_parts",
    "contains_parts",
)


def names_of(problem: "Problem") -> dict[str, Any]:
    """Return the names that `specialise` fills in the loops."""
    store = problem.store
    names = {name: getattr(problem, name) for name in REQUIRED}
    names |= {name: getattr(problem, name) or _stub(name) for name in OPTIONAL}
    names |= {slot.__name__: getattr(store, slot.__name__) for slot in slots.STORE}
    for name in ("rate", "spread"):
        if getattr(problem, name) is None:
            names[name] = getattr(store, f"default_{name}")
    return names | {
        "HAS_PREPARE": problem.prepare is not None,
        "HAS_CURVATURE": problem.curvature is not None,
        "HAS_VALUE": problem.value is not None,
        "RESCORE": getattr(problem.shared, "dtype", None) == np.float32,
        "HAS_ROWS": problem.touched is not None,
        "HAS_CONTAINS": problem.contains is not None,
        "HAS_MINIMISER": problem.minimiser is not None,
        "FINDS_GAP": bool(problem.finds_gap) and problem.minimiser is not None,
        "QUADRATIC": bool(problem.quadratic),
    }


@functools.cache
def _stub(name: str) -> Callable:
    stub = jit(getattr(slots, name))
    stub.origin = f"no {name}"
    return stub

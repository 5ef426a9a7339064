"""The weight of each label, from the parameter `class_weight`."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np

from wolfpack.checks.inputs import is_number


def weigh_classes(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray
) -> np.ndarray:
    """Return the weight of each class; `codes` are all labels, as places in `classes`.

    Classes that a dict leaves out have weight 1.
    """
    if isinstance(class_weight, str) and class_weight == "balanced":
        return len(codes) / (len(classes) * np.bincount(codes, minlength=len(classes)))
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            "class_weight must be a dict from labels to numbers, 'balanced' or None; "
            f"given was {class_weight!r}."
        )
    for label, weight in class_weight.items():
        if not (is_number(weight) and 0 <= float(weight) < np.inf):
            raise ValueError(
                f"class_weight[{label!r}] must be a finite number >= 0, but is "
                f"{weight!r}."
            )
    known = classes.tolist()
    missing = [label for label in known if label not in class_weight]
    unknown = [label for label in class_weight if label not in known]
    # A part of the data may lack a rare label, so weights of all labels may be more.
    if unknown and missing:
        raise ValueError(
            f"class_weight has a weight for {unknown[0]!r}, which no position of y "
            f"has{_suggest(unknown[0], missing)}; the labels without a weight are "
            f"{missing}."
        )
    return np.array([class_weight.get(label, 1.0) for label in known], np.float64)


def _suggest(label: Any, others: list[Any]) -> str:
    """Return a question where one of the others looks like the label."""
    named = {str(one): one for one in others}
    near = get_close_matches(str(label), named, n=1)
    return f" (is {named[near[0]]!r} meant?)" if near else ""

"""Callbacks of scikit-learn, which are there from version 1.9 on.

With older versions estimators work without them: `fit` makes the same calls, to a
context that ignores them.
"""

import functools
from collections.abc import Callable
from typing import Any

try:
    from sklearn.callback import (
        CallbackSupportMixin,  # pyright: ignore[reportAssignmentType]
        with_callbacks,
    )
except ImportError:  # scikit-learn 1.6 to 1.8

    class CallbackSupportMixin:
        """Stands for the class of scikit-learn 1.9."""

        def set_callbacks(self, *callbacks: Any) -> Any:
            """Refuse callbacks, and say what to do."""
            raise ImportError(
                "set_callbacks needs scikit-learn 1.9 or newer: pip install -U "
                "scikit-learn. The parameter callback=... works with this version."
            )

        def _init_callback_context(self, max_subtasks: int = 0) -> "_Silent":
            return _Silent(max_subtasks)

    def with_callbacks(method: Callable) -> Callable:
        """Call `method`, one frame deeper, as the decorator of scikit-learn does."""

        @functools.wraps(method)
        def fit(estimator: Any, *args: Any, **named: Any) -> Any:
            return method(estimator, *args, **named)

        return fit


class _Silent:
    """A context without callbacks."""

    def __init__(self, max_subtasks: int) -> None:
        self.max_subtasks = max_subtasks

    def subcontext(self, task_name: str) -> "_Silent":
        return self

    def call_on_fit_task_begin(self, **about: Any) -> None:
        pass

    def call_on_fit_task_end(self, **about: Any) -> bool:
        return False


__all__ = ["CallbackSupportMixin", "with_callbacks"]

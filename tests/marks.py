"""Tests that only some versions of a library can pass."""

import importlib.util

import pytest

HAS_CALLBACKS = importlib.util.find_spec("sklearn.callback") is not None
needs_callbacks = pytest.mark.skipif(
    not HAS_CALLBACKS, reason="scikit-learn before 1.9 has no callbacks"
)

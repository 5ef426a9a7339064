"""Fitted models as files: `save_model` and `load_model`, for every estimator.

A file is an .npz of arrays and JSON. Reading one runs no code of its writer.

Examples
--------
>>> import wolfpack
>>> wolfpack.models.load_model("nosuch.npz")
Traceback (most recent call last):
wolfpack.files.model_file.ModelError: there is no file nosuch.npz.
"""

from wolfpack.files.model_file import ModelError, load_model, save_model

__all__ = ["ModelError", "load_model", "save_model"]

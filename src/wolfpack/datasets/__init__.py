"""Data sets: OCR words, dates, text chunks, array CGH, made-up signals and chains.

Dates, signals and chains need no file. The other sets are not shipped: a loader looks
in ``data_home``, in the folder named by the environment variable ``WOLFPACK_DATA``
and in the user cache; the OCR words, the paper's data, can also be downloaded.
A file that is missing or damaged raises `DatasetError`, which says what to do.
"""

from wolfpack.datasets.files import DatasetError
from wolfpack.datasets.loaders import (
    available,
    load_acgh,
    load_conll2000,
    load_dates,
    load_ocr,
)
from wolfpack.datasets.made import Sequences, make_chains, make_piecewise, make_speech

__all__ = [
    "DatasetError",
    "Sequences",
    "available",
    "load_acgh",
    "load_conll2000",
    "load_dates",
    "load_ocr",
    "make_chains",
    "make_piecewise",
    "make_speech",
]

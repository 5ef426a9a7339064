"""The help of `wolfpack fit` says the defaults that the estimators and jobs have."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

from wolfpack import ChainSSVM, GroupFusedLasso, MulticlassSVM
from wolfpack.cli import app
from wolfpack.cli.signal_job import DEFAULTS
from wolfpack.estimators.structured import auto_alpha

CHAIN, CLASSES, SIGNAL = (
    kind().get_params() for kind in (ChainSSVM, MulticlassSVM, GroupFusedLasso)
)


@pytest.fixture(scope="module")
def helps():
    text = " ".join(CliRunner().invoke(app, ["fit", "--help"]).stdout.split())
    parts = re.split(r" (?=--[a-z-]+ (?:/|<))", text)
    return {part.split(" ", 1)[0]: part for part in parts}


def test_defaults_of_numbers(helps):
    alpha, sparse = auto_alpha([np.eye(2)]), "sparse sequences 0.001"
    assert f"Default: {alpha:g}, for {sparse};" in helps["--alpha"]
    assert CLASSES["alpha"] == alpha
    assert f"signals {DEFAULTS['alpha']:g} (in Python a tenth" in helps["--alpha"]
    assert f"Default: {CHAIN['tol']:g};" in helps["--tol"]
    assert CLASSES["tol"] == CHAIN["tol"]
    assert (
        f"signals {DEFAULTS['tol']:g} (in Python {SIGNAL['tol']:g})" in helps["--tol"]
    )
    limits = f"max_iter, {CHAIN['max_iter']}; signals {SIGNAL['max_iter']}"
    assert limits in helps["--max-epochs"]
    assert CLASSES["max_iter"] == CHAIN["max_iter"]


def test_defaults_of_words(helps):
    step = f"Default: {CHAIN['step']}; multiclass {CLASSES['step']}; "
    assert f"{step}signals {SIGNAL['step']}." in helps["--step"]
    sampling = f"Default: {CHAIN['sampling']}; signals {SIGNAL['sampling']};"
    assert sampling in helps["--sampling"]
    assert CLASSES["sampling"] == CHAIN["sampling"]
    assert not CHAIN["averaging"]
    assert "Keep the average too. Default: not." in " ".join(helps.values())

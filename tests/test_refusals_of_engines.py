"""What an engine cannot do is refused with a sentence, before anything runs."""

import numpy as np
import pytest
import spy

import wolfpack
from wolfpack import Sync, Threads, solve

BAD_FOR_BOTH = [
    (
        {"n_workers": 0},
        "n_workers must be a positive integer.*None for all cores; given 0",
    ),
    ({"n_workers": -2}, "n_workers must be a positive integer.*given -2"),
    ({"n_workers": 1.5}, "n_workers must be a positive integer.*given 1.5"),
    ({"n_workers": "all"}, "n_workers must be a positive integer.*given 'all'"),
    ({"oracle_repeats": (0, 3)}, r"oracle_repeats must be two integers.*\(0, 3\)"),
    ({"oracle_repeats": (3, 2)}, r"oracle_repeats must be two integers.*\(3, 2\)"),
    ({"oracle_repeats": 3}, "oracle_repeats must be two integers.*not 3"),
    ({"oracle_repeats": (1, 2, 3)}, "oracle_repeats must be two integers"),
    ({"oracle_repeats": (1, np.nan)}, "oracle_repeats must be two integers"),
    ({"return_probability": 0.0}, r"return_probability must lie in \(0, 1\].*0.0"),
    ({"return_probability": 1.5}, r"return_probability must lie in \(0, 1\].*1.5"),
    ({"return_probability": np.nan}, r"return_probability must lie in \(0, 1\]"),
    ({"n_workers": 2, "return_probability": (1, 0)}, r"return_probability must lie in"),
    (
        {"n_workers": 2, "return_probability": (1, 1, 1)},
        r"return_probability must be a number or 2 of them.*shape \(3,\)",
    ),
    (
        {"n_workers": 2, "return_probability": ((1, 1),)},
        r"return_probability must be a number or 2 of them.*shape \(1, 2\)",
    ),
]


@pytest.mark.parametrize("engine", [Threads, Sync])
@pytest.mark.parametrize(("options", "sentence"), BAD_FOR_BOTH)
def test_numbers_that_make_no_sense(engine, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        engine(**options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"mode": "fast"}, "mode must be one of .*'merge'.* not 'fast'"),
        ({"mode": "server", "line_search": "both"}, "line_search must be.*not 'both'"),
        ({"line_search": "workers"}, "line_search='workers' is for mode='server'"),
        (
            {"line_search": "workers", "mode": "lock-free"},
            "'lock-free'.* no server",
        ),
    ],
)
def test_modes_that_do_not_exist(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Threads(2, **options)


@pytest.mark.parametrize(
    ("options", "how", "sentence"),
    [
        ({"mode": "lock-free"}, {"batch_size": 4}, "one block at a time.*not 4"),
        ({"mode": "server"}, {"sampling": "gap"}, "draws uniformly.*not 'gap'"),
        ({"mode": "server"}, {"sampling": "cyclic"}, "draws uniformly.*not 'cyclic'"),
        (
            {"mode": "server"},
            {"sampling": "permutation"},
            "draws uniformly.*not 'permutation'.*mode='merge'",
        ),
        ({}, {"averaging": True}, "averaging needs.*mode='merge' has none.*Sync"),
        ({"mode": "lock-free"}, {"averaging": True}, "mode='lock-free' has none"),
        ({}, {"step": "open-loop"}, "mode='merge' searches.*use step='line'"),
        (
            {"mode": "server", "line_search": "workers"},
            {},
            "line_search='workers' needs .* curvature function, and spy has none",
        ),
        ({}, {"batch_size": 41}, "batch_size must be an integer from 1.*40.*41"),
        ({}, {"batch_size": 0}, "batch_size must be an integer from 1.*40.*0"),
    ],
)
def test_ways_that_do_not_go_together(options, how, sentence):
    with pytest.raises(ValueError, match=sentence):
        solve(spy.make(), engine=Threads(2, **options), **how)


@pytest.mark.parametrize(
    "engine",
    [Threads(1), Threads(2, mode="server"), Threads(2, mode="lock-free"), Sync(2)],
)
def test_plain_python_is_for_one_thread(engine):
    plain = wolfpack.from_blocks(
        np.eye(3), lambda x, i: x.sum(axis=0) - 1.0, wolfpack.simplex(), quadratic=True
    )
    with pytest.raises(
        ValueError, match=r"plain Python functions.*numba\.njit.*Serial"
    ):
        solve(plain, engine=engine)
    assert solve(plain, max_epochs=100, rng=0).converged


def test_an_engine_is_no_string():
    with pytest.raises(TypeError, match="engine must be an engine like Serial"):
        solve(spy.make(), engine="threads")


def test_engines_are_values():
    assert Threads(2) == Threads(2) != Threads(3)
    assert hash(Sync(2)) == hash(Sync(2))
    assert Threads().size >= 1
    assert Sync().size == Threads().size
    assert repr(Sync(2)).startswith("Sync(n_workers=2")

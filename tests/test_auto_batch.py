"""`batch_size="auto"`: which engines adapt it, ask for advice, or refuse it."""

from typing import Any

import numpy as np
import pytest
import spy
from sklearn.base import clone

import wolfpack
from wolfpack import Delayed, Serial, Sync, Threads, delays, solve

LASSO = wolfpack.group_fused_lasso(wolfpack.make_piecewise(n=60, d=3, rng=0)[0], 0.5)
ENGINES = [
    Serial(), Delayed(delays.poisson(2)), Threads(1), Threads(3), Threads(2, "server"),
    Threads(50, "server"), Threads(2, "lock-free"),
]  # fmt: skip


@pytest.fixture(scope="module")
def problem():
    return spy.make()


@pytest.fixture(autouse=True)
def healthy(problem):
    spy.set_fault(problem, spy.NEVER)


@pytest.fixture(scope="module")
def optima(problem):
    return {"spy": spy.optimum(problem), "lasso": spy.optimum(LASSO, 1e-4)}


@pytest.mark.parametrize("engine", ENGINES, ids=str)
@pytest.mark.parametrize("name", ["spy", "lasso"])
def test_it_reaches_the_optimum(problem, optima, engine, name):
    at = {"spy": problem, "lasso": LASSO}[name]
    result = solve(
        at, engine=engine, batch_size="auto", tol=2e-3, max_epochs=10**5, rng=0
    )
    low, high = optima[name]
    assert result.converged
    assert low <= result.objective
    assert result.lower_bound <= high


@pytest.mark.parametrize("engine", [Serial(), Delayed(delays.poisson(2))], ids=str)
def test_where_there_is_no_choice_it_is_the_default(problem, engine):
    how = {"engine": engine, "tol": 0, "max_epochs": 5, "rng": 3}
    auto, plain = (solve(problem, batch_size=b, **how) for b in ("auto", None))
    assert auto.n_updates == plain.n_updates
    assert auto.state.shared.tobytes() == plain.state.shared.tobytes()


@pytest.mark.parametrize("given", ["big", "AUTO", 0, 1.5, -1, True, np.nan, [4]])
def test_other_values_are_refused(problem, given):
    with pytest.raises(ValueError, match=r"integer from 1 .* 40.*; given"):
        solve(problem, batch_size=given)


def test_sync_says_what_to_use_instead(problem):
    with pytest.raises(ValueError, match=r"Sync gives the same bits.*by the clock"):
        solve(problem, engine=Sync(2), batch_size="auto")


def test_the_server_takes_what_is_suggested(problem, monkeypatch):
    monkeypatch.setattr("wolfpack.advice.suggest_batch_size", lambda *args, **how: 7)
    result = solve(
        problem, engine=Threads(2, "server"), batch_size="auto", tol=0, max_epochs=20
    )
    assert result.delay.histogram.sum() == 7 * result.n_updates


def test_the_server_averages_and_takes_constant_steps(problem):
    engine = Threads(2, "server")
    for how in ({"averaging": True}, {"step": 0.01}):
        result = solve(
            problem, engine=engine, batch_size="auto", tol=0.1, max_epochs=10**4, **how
        )
        assert result.converged
        spy.assert_sound(problem, result.state)


MODELS = [
    wolfpack.ChainSSVM(batch_size="auto", tol=0.1),
    wolfpack.MulticlassSVM(batch_size="auto", tol=0.1),
    wolfpack.GroupFusedLasso(batch_size="auto", tol=0.1),
]


def fit(model):
    rng = np.random.default_rng(0)
    if isinstance(model, wolfpack.GroupFusedLasso):
        return model.fit(rng.normal(size=(30, 2)))
    if isinstance(model, wolfpack.MulticlassSVM):
        return model.fit(rng.normal(size=(30, 4)), np.arange(30) % 3)
    X = [rng.normal(size=(4, 3)) for _ in range(20)]
    return model.fit(X, [rng.integers(0, 3, 4) for _ in range(20)])


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_estimators_take_it(model, n_jobs):
    copy: Any = clone(model)
    copy.set_params(n_jobs=n_jobs)
    assert copy.get_params()["batch_size"] == "auto"
    assert "batch_size='auto'" in repr(copy)
    assert fit(copy).status_ is wolfpack.Status.CONVERGED
    assert copy.batch_size == "auto"


@pytest.mark.parametrize("given", ["big", 0, 1.5])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_estimators_refuse_the_rest(model, given):
    with pytest.raises(ValueError, match=f"batch_size must be .* given was {given!r}"):
        fit(type(model)(batch_size=given))

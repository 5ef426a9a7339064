"""What `check` finds, in problems of users and in changed copies of ready ones."""

import dataclasses
import pickle

import numpy as np
import pytest

import wolfpack
from wolfpack import ProblemError, solve
from wolfpack.checks import problem as checks

# Changed copies.


def ready(name="lasso"):
    rng = np.random.default_rng(0)
    if name == "lasso":
        return wolfpack.group_fused_lasso(rng.normal(size=(40, 2)).cumsum(axis=0), 1.0)
    X, y = rng.normal(size=(30, 5)), rng.integers(3, size=30)
    if name == "chain":
        return wolfpack.chain_ssvm(np.split(X, 6), np.split(y, 6), 0.1)
    if name == "labels":
        return wolfpack.multilabel_svm(X, rng.integers(2, size=(30, 4)), 0.1)
    return wolfpack.multiclass_svm(X, y, 0.1, vectors=name == "vectors")


READY = ["lasso", "chain", "labels", "classes", "vectors"]


@pytest.mark.parametrize("name", READY)
def test_a_ready_problem_is_ours_and_a_changed_copy_is_not(name):
    problem = ready(name)
    assert problem.is_ours
    assert pickle.loads(pickle.dumps(problem)).is_ours
    copy = dataclasses.replace(problem, scale=1.0)
    assert not copy.is_ours
    assert not copy.made_by(ready, name).is_ours  # a pickle of its own is no check
    copy.check()  # and it is still right
    with pytest.raises(ValueError, match="is_ours"):
        dataclasses.replace(problem, is_ours=True)


@pytest.mark.parametrize("name", READY)
def test_a_copy_with_a_wrong_ridge_is_refused(name):
    problem = ready(name)
    wrong = dataclasses.replace(problem, ridge=0.9 * problem.ridge)
    with pytest.raises(ProblemError, match="so g"):
        solve(wrong, step="line", max_epochs=2)


def test_advice_checks_a_changed_copy():
    problem = ready()
    wrong = dataclasses.replace(problem, ridge=0.9)
    with pytest.raises(ProblemError, match="so g"):
        wolfpack.suggest_batch_size(wrong, seconds=0.1)


def test_a_copy_with_a_start_outside_its_set_is_refused():
    problem = ready()
    outside = dataclasses.replace(problem, start=problem.start + 5.0)
    for how in ({"max_epochs": 0}, {"max_epochs": 3, "accelerate": False}):
        with pytest.raises(ProblemError, match="start gave a point of block 0"):
            solve(outside, step="line", **how)


def test_a_note_of_older_checks_is_not_believed(monkeypatch, tmp_path):
    monkeypatch.setenv("WOLFPACK_CACHE", str(tmp_path))
    ready().check()
    called = []
    monkeypatch.setattr(checks, "check", called.append)
    ready().check()
    assert not called  # the note that it passed is on disk
    monkeypatch.setattr(checks, "source_hash", lambda: "other sources")
    ready().check()
    assert len(called) == 1

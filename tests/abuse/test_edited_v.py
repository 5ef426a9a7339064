"""A file whose v or outer loop was changed: each row of a run from it is true."""

import numpy as np
import pytest
from accelerated import assert_true, bracket, case_of, noise_of

import wolfpack
from wolfpack import State, StateError
from wolfpack.checks.image import MOST_DRIFT
from wolfpack.update.outer import OUTER

NAMES = ["chain", "lasso", "by hand"]
HOW = {"sampling": "permutation", "rng": 0}
EXTREMES = (0.0, 1e-300, 1e-12, 0.5, 1.0, 7.0, 1e15, 1e300, -1.0, -1e300)
EXTREMES += (np.inf, -np.inf, np.nan)


def arrays_of(name, accelerate, folder):
    """Return what a file of a run that is far from its goal holds."""
    problem = case_of(name).problem
    part = wolfpack.solve(problem, max_epochs=8, tol=0, accelerate=accelerate, **HOW)
    with np.load(part.save(folder / "good")) as file:
        return {key: file[key] for key in file.files}


def go_on(name, arrays, folder, **how):
    """Go on from changed arrays; compare every row with the bracket of f*."""
    np.savez(folder / "changed.npz", **arrays)
    state, rows = State.load(folder / "changed.npz"), []
    problem, (below, above) = case_of(name).problem, bracket(name)
    how = {"tol": 1e-3, "max_epochs": 10**4, "check_every": 1} | HOW | how
    result = wolfpack.solve(
        problem, start=state, callback=lambda event: rows.append(event.row), **how
    )
    slack = noise_of(problem) * problem.scale
    for row in [*rows, *result.trace]:
        assert row.lower_bound <= above + slack
        assert row.objective >= below - slack
    return result


def refusal(name, arrays, folder, **how):
    """Return why changed arrays are refused; empty: a run from them is true."""
    try:
        result = go_on(name, arrays, folder, **how)
    except StateError as error:
        return str(error)
    assert result.converged
    assert_true(name, result)
    return ""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("factor", [1.004, 1 - 3e-4, 0.0, -1.0, 1e30])
def test_a_v_that_was_changed_is_computed_anew(name, before, factor, tmp_path, capsys):
    arrays = arrays_of(name, before, tmp_path)
    arrays["shared"] = (arrays["shared"] * factor).astype(arrays["shared"].dtype)
    for accelerate in (before, not before):
        capsys.readouterr()
        begun = go_on(name, arrays, tmp_path, max_epochs=0, accelerate=accelerate)
        spoken = capsys.readouterr().err
        # Plain and accelerated runs go on from each other with a v made anew anyway.
        assert ("v of start is not that of its x" in spoken) == (accelerate == before)
        assert_true(name, begun)
        result = go_on(name, arrays, tmp_path, accelerate=accelerate)
        assert result.converged
        assert_true(name, result)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("accelerate", [False, True])
def test_what_rounding_may_leave_stays_to_the_last_bit(
    name, accelerate, tmp_path, capsys
):
    arrays = arrays_of(name, accelerate, tmp_path)
    v = arrays["shared"]
    step = 0.3 * MOST_DRIFT[v.dtype.name] * np.linalg.norm(v)
    step *= np.random.default_rng(0).choice([-1.0, 1.0], v.shape) / np.sqrt(v.size)
    arrays["shared"] = (v + step).astype(v.dtype)
    assert arrays["shared"].tobytes() != v.tobytes()
    how = {"max_epochs": 0, "check_every": None, "accelerate": accelerate}
    result = go_on(name, arrays, tmp_path, **how)
    assert result.state.shared.tobytes() == arrays["shared"].tobytes()
    assert "start" not in capsys.readouterr().err


@pytest.mark.parametrize("accelerate", [False, True])
def test_v_stays_in_a_file_that_is_as_it_was_written(accelerate, tmp_path, capsys):
    """In single precision rounding alone may leave a percent."""
    problem = case_of("chain").problem
    part = wolfpack.solve(problem, max_epochs=8, tol=0, accelerate=accelerate, **HOW)
    part.state.shared[...] *= 1.01
    state = State.load(part.save(tmp_path / "run"))
    how = {"max_epochs": 0, "accelerate": accelerate, **HOW}
    result = wolfpack.solve(problem, start=state, **how)
    assert result.state.shared.tobytes() == part.state.shared.tobytes()
    assert "start" not in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("which", ["outer_anchor", "outer_last"])
@pytest.mark.parametrize("factor", [-1.0, 30.0, 1e7, 1e30, 1e155, 1e160])
def test_an_outer_loop_that_is_far_away(name, which, factor, tmp_path):
    arrays = arrays_of(name, True, tmp_path)
    with np.errstate(all="ignore"):
        arrays[which] = (arrays[which] * factor).astype(arrays[which].dtype)
    for accelerate in (False, True):
        wrong = refusal(name, arrays, tmp_path, accelerate=accelerate)
        is_far = abs(factor) >= 1e5 and accelerate  # a plain run needs no outer loop
        assert bool(wrong) == (is_far or not np.isfinite(arrays[which]).all())
        assert not wrong or ("outer loop" in wrong and wrong.endswith("."))


@pytest.mark.parametrize("name", ["lasso", "by hand"])
@pytest.mark.parametrize("field", OUTER.names)
def test_the_numbers_of_an_outer_loop(name, field, tmp_path):
    arrays = arrays_of(name, True, tmp_path)
    at, found = OUTER.names.index(field), []
    for value in EXTREMES:
        numbers = arrays["outer_numbers"].copy()
        numbers[at] = value
        found.append(refusal(name, {**arrays, "outer_numbers": numbers}, tmp_path))
    assert "" in found
    for wrong in filter(None, found):
        assert wrong.endswith("the numbers of its outer loop cannot be true.")
    assert any(found)

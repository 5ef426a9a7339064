"""One number is compared with tol, printed and stored; another tells its worth."""

import json
import pickle
import re

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

import wolfpack
from wolfpack import (
    ChainSSVM,
    GroupFusedLasso,
    MulticlassSVM,
    MultilabelSVM,
    Serial,
    Status,
    from_blocks,
    simplex,
    solve,
)
from wolfpack.cli import app


def make(kind, tol, **params):
    """Return a fitted model whose scale is not 1, where that is possible."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    if kind is ChainSSVM:  # undivided losses: the scale is the length
        data = [X[:15], X[15:]], [np.arange(15) % 3, np.arange(25) % 3]
        params = {"normalize": False, "alpha": 0.1, **params}
    elif kind is GroupFusedLasso:  # the optimum is far below both trivial answers
        data = (wolfpack.make_piecewise(n=40, d=2, noise=0.05, rng=0)[0],)
        params = {"engine": Serial(), "alpha": 0.05, **params}
    else:
        Y = rng.integers(2, size=(40, 3))
        data = (X, Y) if kind is MultilabelSVM else (X, Y.sum(axis=1))
    return kind(tol=tol, random_state=0, **params).fit(*data)


def pickled(this):
    return pickle.loads(pickle.dumps(this))


kinds = pytest.mark.parametrize(
    "kind", [ChainSSVM, MulticlassSVM, MultilabelSVM, GroupFusedLasso]
)


@kinds
def test_one_number_is_compared_and_stored(kind):
    model = make(kind, tol=0.01)
    last = model.trace_[-1]
    assert model.status_ is Status.CONVERGED
    assert model.relative_gap_ <= 0.01
    assert model.relative_gap_ == model.result_.relative_gap == last.relative_gap
    assert model.gap_ == last.gap
    share = model.gap_ / abs(model.objective_)
    assert model.result_.gap_over_primal == last.gap_over_primal
    assert last.gap_over_primal == pytest.approx(share, rel=1e-12)
    # all rows but the last were above tol, in the same unit
    assert all(row.relative_gap > 0.01 for row in model.trace_[:-1])
    scale = last.gap / last.relative_gap
    for row, other in zip(model.trace_, pickled(model).trace_, strict=True):
        assert row.gap == pytest.approx(scale * row.relative_gap, rel=1e-12)
        assert other[-2:] == row[-2:] == (row.relative_gap, row.gap_over_primal)
    assert pickled(model).relative_gap_ == model.relative_gap_


@kinds
def test_a_warning_prints_the_numbers_that_are_stored(kind):
    with pytest.warns(ConvergenceWarning) as caught:
        model = make(kind, tol=1e-12, max_iter=2)
    text = str(caught[-1].message)
    share = model.result_.gap_over_primal
    assert f"the relative gap is {model.relative_gap_:.3g} after" in text
    assert f"(gap {model.gap_:.3g}, gap / |primal| {share:.1e})" in text
    assert "above tol = 1e-12" in text


@pytest.mark.parametrize("kind", [ChainSSVM, GroupFusedLasso])
def test_both_numbers_differ_where_the_scale_is_not_the_optimum(kind):
    model = make(kind, tol=0.01)
    assert model.result_.gap_over_primal > 1.1 * model.relative_gap_
    shown = model.result_._repr_html_()
    assert f"relative {model.relative_gap_:.2e}, gap / |primal| " in shown


@pytest.mark.parametrize("tol", [0.3, 0.1, 0.07, 0.03])
def test_converged_means_that_the_stored_number_is_at_most_tol(tol):
    """For any tol, also where gap <= tol * scale and gap / scale > tol by rounding."""
    seen = []
    make(ChainSSVM, tol, callback=lambda event: seen.append(event) and None)
    checks = [event for event in seen if event.checked]
    assert [event.relative_gap <= tol for event in checks][-1]
    assert not any(event.relative_gap <= tol for event in checks[:-1])
    gaps = [event.row.relative_gap for event in checks]
    assert gaps == [event.relative_gap for event in checks]


def quadratic(target, value=True):
    """Return 1/2 |x - target|^2 over two simplices, which has no ridge."""

    def gradient(x, i, target):
        return x[i] - target[i]

    def f(x, target):
        return 0.5 * np.sum((x - target) ** 2)

    x0 = np.tile([1.0, 0.0, 0.0], (2, 1))
    args = {"args": (target,), "quadratic": True, "value": f if value else None}
    return from_blocks(x0, gradient, simplex(), **args)


def test_of_other_problems_the_primal_value_is_f():
    far = solve(quadratic(np.full((2, 3), 2.0)), tol=1e-3, max_epochs=200, rng=0)
    assert far.objective > 1.0
    assert far.gap_over_primal == far.gap / far.objective
    assert far.relative_gap == far.gap
    zero = solve(quadratic(np.tile([1.0, 0.0, 0.0], (2, 1))), tol=1e-3, rng=0)
    assert zero.objective == 0.0
    assert zero.gap_over_primal is None
    assert pickled(zero).gap_over_primal is None
    assert "gap / |primal| -" in zero._repr_html_()
    unknown = solve(quadratic(np.full((2, 3), 2.0), value=False), tol=0.1, rng=0)
    assert np.isnan(unknown.objective)
    assert unknown.gap_over_primal is None


def test_the_command_prints_both():
    how = ["fit", "piecewise", "--tol", "0.01", "--quiet"]
    run = CliRunner().invoke(app, [*how, "--json"])
    *checks, report = map(json.loads, run.stdout.splitlines())
    assert report["relative_gap"] <= 0.01 < checks[0]["relative_gap"]
    assert report["relative_gap"] == checks[-1]["relative_gap"]
    share = report["gap"] / abs(report["primal"])
    assert report["gap_over_primal"] == pytest.approx(share, rel=1e-12)
    text = CliRunner().invoke(app, how).stdout
    assert re.search(
        rf"\(gap {report['gap']:.2e}, relative {report['relative_gap']:.1e}, "
        rf"gap / \|primal\| {share:.1e}\)",
        text,
    )


def test_the_command_for_signals_prints_both(tmp_path):
    path = tmp_path / "signal.csv"
    np.savetxt(path, wolfpack.make_piecewise(n=60, d=2)[0], delimiter=",")
    run = CliRunner().invoke(app, ["changes", str(path), "--json"])
    report = json.loads(run.stdout)
    share = report["gap"] / abs(report["primal"])
    assert report["gap_over_primal"] == pytest.approx(share, rel=1e-12)
    text = CliRunner().invoke(app, ["changes", str(path)]).stdout
    assert f"relative {report['relative_gap']:.1e}, gap / |primal| " in text

"""Weights, labels, parameters and files that make no sense: one sentence, early."""

import os
import sys
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import wolfpack
from wolfpack import ChainSSVM, GroupFusedLasso, MulticlassSVM, ProblemError
from wolfpack.checks.inputs import join_labels, shares
from wolfpack.cli import app

X = np.arange(12.0).reshape(6, 2)
Y = np.array([0, 1, 2, 0, 1, 2])
CHAINS = ([X[:2], X[2:3], X[3:]], [Y[:2], Y[2:3], Y[3:]])
DATA = {ChainSSVM: CHAINS, MulticlassSVM: (X, Y), GroupFusedLasso: (X,)}
ESTIMATORS = [*DATA]
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)


@pytest.fixture
def no_solve(monkeypatch):
    """What is wrong must be found before anything is compiled or solved."""

    def solve(*_, **__):
        raise AssertionError("it went on to solve")

    monkeypatch.setattr(sys.modules["wolfpack.estimators._base"], "solve", solve)


# Weights.


@pytest.mark.parametrize("size", [1e308, 1.7e308, 1.0, 1e-300, 5e-324])
def test_only_the_ratios_of_weights_matter(size):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = shares(np.array([size, 0.0, size, size]), 4)
    np.testing.assert_allclose(found, [1 / 3, 0, 1 / 3, 1 / 3], rtol=1e-12)


def test_a_weight_may_be_too_small_beside_another_to_count():
    np.testing.assert_array_equal(shares([1e308, 1e-308, 0], 3), [1, 0, 0])
    np.testing.assert_array_equal(shares([True, False], 2), [1, 0])
    np.testing.assert_array_equal(shares(np.array([3, 1], np.uint8), 2), [0.75, 0.25])


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        ([0.0] * 3, "not all 0; it reaches from 0 to 0"),
        ([1, -1e-300, 1], ">= 0, and not all 0; it reaches from -1e-300 to 1"),
        ([1, np.nan, 1], "must be finite"),
        ([1, np.inf, 1], "must be finite"),
        ([1, 1], r"must have shape \(3,\), one a sequence, not \(2,\)"),
        ([[1, 1, 1]], r"must have shape \(3,\)"),
        (1.0, r"must have shape \(3,\), one a sequence, not \(\)"),
        (["1", "1", "1"], "must be numbers, but has dtype <U1"),
        ([1, None, 1], "must be numbers, but has dtype object"),
        ([1, 1j, 1], "must be numbers, but has dtype complex"),
    ],
)
def test_weights_that_are_none(weight, sentence):
    with pytest.raises(ValueError, match=sentence):
        shares(weight, 3)


@pytest.mark.parametrize("maker", ["chain_ssvm", "multiclass_svm"])
@pytest.mark.parametrize("size", [1e308, 1e-308])
def test_every_maker_takes_large_and_small_weights(maker, size):
    data = CHAINS if maker == "chain_ssvm" else (X, Y)
    weight = np.ones(len(data[0]))
    make = getattr(wolfpack, maker)
    plain = make(*data, 0.1, sample_weight=weight).data.share
    np.testing.assert_allclose(
        make(*data, 0.1, sample_weight=size * weight).data.share, plain
    )
    with pytest.raises(ValueError, match="sample_weight must be finite"):
        make(*data, 0.1, sample_weight=0 * weight)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_estimator_keeps_weights_in_double_precision(dtype, no_solve):
    with pytest.raises(AssertionError, match="it went on to solve"):
        MulticlassSVM().fit(X.astype(dtype), Y, sample_weight=np.full(6, 1e300))


# Labels.

MIXED = [
    [1, "1"], [1.0, "a"], ["a", True], ["a", np.nan], ["a", None], ["a", b"a"],
    [1, None], np.array([1, "1"], object), ("a", 2),
]  # fmt: skip


@pytest.mark.parametrize("labels", MIXED, ids=repr)
def test_labels_of_two_kinds_are_never_merged(labels, no_solve):
    sentence = "cannot be sorted together; use numbers or strings, not both"
    with pytest.raises(ValueError, match=sentence):
        join_labels([labels])
    with pytest.raises(ValueError, match=sentence):
        join_labels([labels[:1], labels[1:]])
    with pytest.raises(ValueError, match=sentence):
        ChainSSVM().fit([X[:2]], [labels])
    with pytest.raises(ValueError, match=sentence):
        ChainSSVM().fit([X[:1], X[1:2]], [labels[:1], labels[1:]])
    with pytest.raises(ValueError, match=sentence):
        MulticlassSVM().fit(X[:2], labels)
    with pytest.raises(ValueError, match=sentence):
        wolfpack.multiclass_svm(X[:2], labels, 0.1)


@pytest.mark.parametrize(
    ("labels", "distinct"),
    [
        ([["a", "b"], np.array(["b", "c"])], 3),
        ([np.array(["a", "b"], object), ["a", np.str_("b")]], 2),
        ([[0, 1], [2.0]], 3),
        ([[True, False], np.array([True])], 2),
        ([np.array([1], np.int8), np.array([300], np.uint16)], 2),
    ],
)
def test_labels_of_one_kind_are_taken(labels, distinct):
    assert len(np.unique(join_labels(labels))) == distinct


def test_score_compares_labels_of_one_kind_only():
    model = ChainSSVM(max_iter=1, tol=1e9).fit(*CHAINS)
    names = [np.asarray(labels).astype(str) for labels in CHAINS[1]]
    with pytest.raises(ValueError, match="y holds strings, but fit saw numbers"):
        model.score(CHAINS[0], names)


# Parameters.

NO_NUMBERS = [0, -1, np.nan, np.inf, -np.inf, "1", None, True, [1.0], 1j, 10**400]


@every_estimator
@pytest.mark.parametrize("name", ["alpha", "max_iter"])
@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: repr(value)[:9])
def test_limits_are_finite_numbers_above_0(estimator, name, value, no_solve):
    if value is None and (name, estimator) == ("alpha", GroupFusedLasso):
        return  # then it is found
    with pytest.raises(ValueError, match=f"{name} must be a finite number > 0, but is"):
        estimator(**{name: value}).fit(*DATA[estimator])


@every_estimator
@pytest.mark.parametrize(
    "value", [-1, 2**32, 2**40, 1.5, "x", True, [], {}, np.nan], ids=repr
)
def test_random_states(estimator, value, no_solve):
    sentence = r"random_state must be an integer from 0 to 2\^32 - 1, .* given was"
    with pytest.raises(ValueError, match=sentence):
        estimator(random_state=value).fit(*DATA[estimator])


@every_estimator
@pytest.mark.parametrize("value", [0, 1.5, "2", True, [1]], ids=repr)
def test_numbers_of_threads(estimator, value, no_solve):
    with pytest.raises(ValueError, match="n_jobs must be the number of threads, "):
        estimator(n_jobs=value).fit(*DATA[estimator])


FLAGS = [(kind, name) for kind in ESTIMATORS for name in ("averaging", "warm_start")]
FLAGS += [(ChainSSVM, "normalize"), (MulticlassSVM, "fit_intercept")]


@pytest.mark.parametrize(("estimator", "name"), FLAGS)
@pytest.mark.parametrize("value", ["no", 1, None, 0.0], ids=repr)
def test_flags_are_true_or_false(estimator, name, value, no_solve):
    with pytest.raises(ValueError, match=f"{name} must be True(,| or) False"):
        estimator(**{name: value}).fit(*DATA[estimator])


@every_estimator
@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"tol": np.nan}, "tol must be a number >= 0; given was nan"),
        ({"tol": "1"}, "tol must be a number >= 0; given was '1'"),
        ({"tol": None}, "tol must be a number >= 0; given was None"),
        ({"tol": 10**400}, "tol must be a number >= 0; given was 1000"),
        ({"tol": -1e-9}, "tol must be a number >= 0; given was -1e-09"),
        ({"max_seconds": 0}, "max_seconds must be a number > 0 or None, not 0"),
        ({"max_seconds": "1"}, "max_seconds must be a number > 0 or None, not '1'"),
        ({"max_seconds": np.nan}, "max_seconds must be a number > 0 or None"),
        ({"batch_size": 0}, "batch_size must be an integer from 1 .* given was 0"),
        ({"batch_size": 10**30}, "batch_size must be an integer from 1"),
        ({"batch_size": 1.0}, "batch_size must be an integer from 1 .* was 1.0"),
        ({"batch_size": "all"}, "batch_size must be an integer from 1 .* was 'all'"),
        ({"batch_size": True}, "batch_size must be an integer from 1 .* was True"),
        ({"step": "fast"}, "step must be one of .* or a number, not 'fast'"),
        ({"step": 0.0}, r"a constant step must lie in \(0, 1\]; given was 0.0"),
        ({"step": None}, r"a constant step must lie in \(0, 1\]; given was None"),
        ({"step": np.nan}, r"a constant step must lie in \(0, 1\]; given was nan"),
        ({"sampling": None}, "sampling must be one of .* not None"),
        ({"sampling": []}, r"sampling must be one of .* not \[\]"),
    ],
)
def test_what_solve_refuses(estimator, params, sentence):
    with pytest.raises(ValueError, match=sentence):
        estimator(**params).fit(*DATA[estimator])


@pytest.mark.parametrize("q", [0.5, np.nan, -np.inf, "2", None, True, [2]], ids=repr)
def test_the_norm_of_a_jump(q, no_solve):
    with pytest.raises(ValueError, match="q must be at least 1, but is"):
        GroupFusedLasso(q=q).fit(X)
    with pytest.raises(ValueError, match="q must be at least 1, but is"):
        GroupFusedLasso.alpha_max(X, q)


def test_numbers_of_any_type_are_taken(no_solve):
    for alpha in (1, np.float32(0.5), Fraction(1, 2), np.int8(3), 5e-324):
        with pytest.raises(AssertionError, match="it went on to solve"):
            GroupFusedLasso(alpha=alpha).fit(X)


def plain(scale=1.0):
    return wolfpack.from_blocks(
        np.full((2, 2), 0.5), lambda x, i: x[i], wolfpack.simplex(), scale=scale
    )


@pytest.mark.parametrize("scale", ["1", None, 0, -1.0, np.nan, np.inf, True], ids=repr)
def test_the_scale_of_a_problem(scale):
    with pytest.raises(
        ProblemError, match="scale must be positive, a finite number, but"
    ):
        wolfpack.solve(plain(scale))


@pytest.mark.parametrize("rng", [-1, 1.5, "x", {}], ids=repr)
def test_sources_of_randomness(rng):
    with pytest.raises(ValueError, match=r"rng must be a whole number >= 0, .* was"):
        wolfpack.solve(plain(), rng=rng)


@pytest.mark.parametrize("value", ["no", 1, None], ids=repr)
def test_averaging_is_true_or_false(value):
    with pytest.raises(ValueError, match="averaging must be True or False, not"):
        wolfpack.solve(plain(), averaging=value)


# The command line.


def fit(*arguments):
    return CliRunner().invoke(app, ["fit", *map(str, arguments)])


def refuses(sentence, *arguments):
    result = fit("piecewise", *arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("wolfpack: ")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""  # not even the data were described


def test_a_folder_is_no_file_to_write(tmp_path):
    folder = tmp_path / "model.npz"
    folder.mkdir()
    for given in (folder, tmp_path / "model", tmp_path):
        refuses("--save must name a file, but", "--save", given)
    folder = tmp_path / "plot.png"
    folder.mkdir()
    refuses("--plot must name a file, but", "--plot", folder)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.png")
        refuses("pipe.png is no file", "--plot", tmp_path / "pipe.png")


def test_a_name_that_cannot_be_written(tmp_path):
    refuses("cannot be written: File name too long", "--save", tmp_path / ("a" * 300))
    refuses(
        "cannot be written: File name too long",
        "--plot",
        tmp_path / ("a" * 300 + ".png"),
    )
    assert [*tmp_path.iterdir()] == []


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes anywhere"
)
def test_a_folder_that_nobody_may_write_into(tmp_path):
    tmp_path.chmod(0o500)
    refuses("cannot be written: Permission denied", "--save", tmp_path / "model")


def test_the_test_leaves_files_as_they_are(tmp_path):
    from wolfpack.cli.options import check_targets

    old, new = tmp_path / "old.png", tmp_path / "new"
    old.write_text("as it was")
    check_targets(new, old)
    assert [path.name for path in tmp_path.iterdir()] == ["old.png"]
    assert old.read_text() == "as it was"


def test_the_answer_is_told_where_it_cannot_be_kept(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    from wolfpack.cli.signal_job import SignalJob

    monkeypatch.setattr(SignalJob, "save", full)
    result = fit("piecewise", "--tol", 0.1, "--save", tmp_path / "model")
    assert result.exit_code == 1
    assert "CONVERGED" in result.stdout
    assert "No space left on device" in result.stderr


@pytest.mark.parametrize(
    "folds",
    [
        "0-99999999999", "-1", "0--1", "9-10", "5-3", "1-", "-", ",", "1,,2", "0x1",
        "1.0", "9" * 5000,
    ],
)  # fmt: skip
def test_folds_out_of_range(folds):
    result = fit("ocr", f"--folds={folds}")
    assert result.exit_code == 1
    assert "--folds must be out of 0 to 9, as in 0 or 1-9 or 0,3" in result.stderr


def test_folds_in_range():
    from wolfpack.cli.options import read_folds

    assert read_folds("0") == [0]
    assert read_folds("0,3,5-7") == [0, 3, 5, 6, 7]
    assert read_folds("") is None


def test_the_committed_results_are_whole():
    root = Path(__file__).resolve().parents[2] / "experiments"
    if not (root / "results").is_dir():
        pytest.skip("results are in the repository only")
    sys.path.insert(0, str(root))
    try:
        import _files
    finally:
        sys.path.remove(str(root))
    for path in sorted((root / "results").glob("*.json")):
        assert _files.load(path.stem, path.parent) is not None, path.stem

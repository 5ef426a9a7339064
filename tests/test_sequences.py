"""Sequences of dicts and strings: what people bring who come from sklearn-crfsuite."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction import DictVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline

from wolfpack import ChainSSVM, SequenceVectorizer, chain_ssvm, solve
from wolfpack.problems import chain, sequences
from wolfpack.scores import (
    chunk_f1,
    chunk_f1_scorer,
    sequence_accuracy,
    sequence_accuracy_scorer,
    token_accuracy,
    token_accuracy_scorer,
)

WORDS = {"DT": ["the", "a"], "NN": ["dog", "house", "tree"], "VB": ["sees", "runs"]}
TAGS = {"DT": "B-NP", "NN": "I-NP", "VB": "B-VP"}


def make_text(n=40, seed=0):
    """Sentences whose labels follow from the words, as dicts and lists of labels."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        kinds = [*["DT", "NN"] * int(rng.integers(1, 3)), "VB"]
        words = [str(rng.choice(WORDS[kind])) for kind in kinds]
        before = ["<s>", *words]
        X.append(
            [
                {"word": word, "last": last, "bias": 1.0, "long": len(word) > 3}
                for word, last in zip(words, before, strict=False)
            ]
        )
        y.append([TAGS[kind] for kind in kinds])
    return X, y


@pytest.fixture(scope="module")
def text():
    return make_text()


def pipeline(**params):
    how = {"alpha": 0.1, "tol": 0.01, "random_state": 0, **params}
    return make_pipeline(SequenceVectorizer(), ChainSSVM(**how))


def dense(rows):
    return [row.toarray() for row in rows]


def test_columns_are_those_of_dict_vectorizer(text):
    X, _ = text
    ours = SequenceVectorizer()
    rows = ours.fit_transform(X)
    peer = DictVectorizer(sort=False, dtype=np.float32)
    table = peer.fit_transform(itertools.chain.from_iterable(X)).toarray()
    # DictVectorizer keeps columns that are 0 everywhere.
    assert {*ours.get_feature_names_out()} == {*peer.get_feature_names_out()}
    order = [peer.vocabulary_[name] for name in ours.get_feature_names_out()]
    np.testing.assert_array_equal(np.vstack(dense(rows)), table[:, order])
    assert [row.shape[0] for row in rows] == [len(x) for x in X]
    for a, b in zip(dense(ours.transform(X)), dense(rows), strict=True):
        np.testing.assert_array_equal(a, b)


def test_every_kind_of_value():
    position = {"s": "a", "n": 2.5, "t": True, "f": False, "l": ["p", "q", "p"]}
    position |= {"d": {"x": 0.5, "y": "z"}, "i": np.int64(3)}
    vectorizer = SequenceVectorizer(separator=":")
    (row,) = dense(vectorizer.fit_transform([[position]]))
    found = dict(zip(vectorizer.get_feature_names_out(), row[0], strict=True))
    expected = {"s:a": 1, "n": 2.5, "t": 1, "l:p": 1, "l:q": 1, "d:x": 0.5, "d:y:z": 1}
    assert found == expected | {"i": 3}


def test_strings_and_lists_of_strings():
    vectorizer = SequenceVectorizer()
    rows = vectorizer.fit_transform([["the", "end"], [["the", "upper", "the"]]])
    assert vectorizer.get_feature_names_out().tolist() == ["the", "end", "upper"]
    assert rows[0].toarray().tolist() == [[1, 0, 0], [0, 1, 0]]
    assert rows[1].toarray().tolist() == [[1, 0, 1]]


def test_min_count_counts_positions():
    X = [[["a", "a", "b"], ["b"]], [["c"]]]
    vectorizer = SequenceVectorizer(min_count=2)
    rows = vectorizer.fit_transform(X)
    assert vectorizer.get_feature_names_out().tolist() == ["b"]
    assert dense(rows)[1].tolist() == [[0]]
    with pytest.raises(ValueError, match="no feature that 3 or more positions have"):
        SequenceVectorizer(min_count=3).fit(X)


def test_unknown_features_are_left_out():
    vectorizer = SequenceVectorizer().fit([["a", "b"]])
    assert dense(vectorizer.transform([["b", "new"]]))[0].tolist() == [[0, 1], [0, 0]]


def test_hashing_needs_no_fit_and_keeps_inner_products(text):
    X, _ = text
    vectorizer = SequenceVectorizer(n_features=2**20)
    hashed = vectorizer.transform(X)  # hardly any two names share a column
    named = SequenceVectorizer().fit_transform(X)
    assert hashed[0].shape == (len(X[0]), 2**20)
    a, b = sp.vstack([*hashed]), sp.vstack([*named])
    np.testing.assert_allclose((a @ a.T).toarray(), (b @ b.T).toarray())
    with pytest.raises(ValueError, match="hashed columns have no names"):
        vectorizer.get_feature_names_out()
    with pytest.raises(ValueError, match="set min_count=1 or n_features=None"):
        SequenceVectorizer(n_features=8, min_count=2).transform(X)


def test_a_generator_is_read_once(text):
    X, y = text
    rows = SequenceVectorizer().fit_transform(sentence for sentence in X)
    for a, b in zip(rows, SequenceVectorizer().fit_transform(X), strict=True):
        assert (a != b).nnz == 0
    streamed = pipeline().fit((sentence for sentence in X), y)
    np.testing.assert_array_equal(streamed[-1].coef_, pipeline().fit(X, y)[-1].coef_)
    assert streamed.predict(sentence for sentence in X) == y


def test_packed_sequences_are_a_list_of_matrices(text):
    rows = SequenceVectorizer().fit_transform(text[0])
    assert len(rows) == len([*rows]) == 40
    assert (rows[-1] != rows[39]).nnz == 0
    assert [row.shape for row in rows[1:3]] == [rows[1].shape, rows[2].shape]
    with pytest.raises(IndexError):
        rows[40]
    rows[0].data[:] = 7  # a copy
    assert rows[0].max() == 1


@pytest.mark.parametrize(
    ("X", "sentence"),
    [
        ("text", "X must be a list of sequences"),
        ({"a": 1}, "X must be a list of sequences"),
        (3, "X must be a list of sequences"),
        ([], "X is empty"),
        ([["a"], []], r"X\[1\] is empty"),
        (["the end"], r"X\[0\] must be a list of positions"),
        ([{"word": "the"}], r"X\[0\] must be a list of positions"),
        ([[None]], r"a position of X\[0\] must be a dict, a string or a list"),
        ([["a"], [[1.0]]], r"a position of X\[1\] must be a dict, a string or a list"),
        ([[{"a": None}]], r"feature 'a' of a position of X\[0\] must be a string"),
        ([[{"a": [1.0]}]], r"feature 'a' of a position of X\[0\] must be a string"),
    ],
    ids=repr,
)
def test_what_cannot_be_vectorized(X, sentence):
    with pytest.raises(ValueError, match=sentence):
        SequenceVectorizer().fit(X)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "many"], ids=repr)
def test_bad_parameters(value):
    for name in ("min_count", "n_features"):
        with pytest.raises(ValueError, match=f"{name} must be a whole number"):
            SequenceVectorizer(**{name: value}).fit([["a"]])


def test_fit_on_dicts_names_the_class_to_put_before_it(text):
    for X in (text[0], [["the", "dog"]], [[["a", "b"], ["c"]]]):
        with pytest.raises(ValueError, match="put a SequenceVectorizer before"):
            ChainSSVM().fit(X, [[0] * len(x) for x in X])


def test_pipeline_and_grid_search(text):
    X, y = text
    model = pipeline().fit(X, y)
    assert model.score(X, y) == 1
    assert clone(model).get_params()["sequencevectorizer__min_count"] == 1
    grid = {"sequencevectorizer__min_count": [1, 5], "chainssvm__alpha": [0.1, 1]}
    search = GridSearchCV(pipeline(), grid, cv=2, scoring=chunk_f1_scorer).fit(X, y)
    assert search.best_score_ > 0.95


def test_lists_in_lists_out_for_seqeval(text):
    from seqeval.metrics import classification_report, f1_score

    X, y = text
    found = pipeline().fit(X, y).predict(X)
    assert isinstance(found, list)
    assert {type(labels) for labels in found} == {list}
    assert f1_score(y, found) == 1
    assert "micro avg" in classification_report(y, found)
    arrays = pipeline().fit(X, [np.array(labels) for labels in y]).predict(X)
    assert {type(labels) for labels in arrays} == {np.ndarray}


def test_cross_val_predict_on_ragged_sequences(text):
    X, y = text
    found = cross_val_predict(pipeline(), X, y, cv=2)
    assert [len(labels) for labels in found] == [len(labels) for labels in y]
    assert chunk_f1(y, found) > 0.9
    same = [sequence[:3] for sequence in X], [labels[:3] for labels in y]
    assert len(cross_val_predict(pipeline(), *same, cv=2)) == len(X)


def test_scores_against_counts():
    y, found = [["B-NP", "I-NP", "O"], ["B-VP"]], [["B-NP", "I-NP", "O"], ["B-NP"]]
    assert token_accuracy(y, found) == 0.75
    assert sequence_accuracy(y, found) == 0.5
    assert chunk_f1(y, found) == pytest.approx(0.5)
    assert chunk_f1([np.array(labels) for labels in y], found) == pytest.approx(0.5)
    with pytest.raises(ValueError, match=r"y_true\[1\] has 1 labels and y_pred\[1\]"):
        token_accuracy(y, [found[0], []])
    with pytest.raises(ValueError, match="y_true has 2 sequences and y_pred has 1"):
        sequence_accuracy(y, found[:1])


def test_scorers(text):
    X, y = text
    scorers = (token_accuracy_scorer, sequence_accuracy_scorer, chunk_f1_scorer)
    for scorer in scorers:
        assert (cross_val_score(pipeline(), X, y, cv=2, scoring=scorer) > 0.9).all()


def test_normalize_auto_is_for_dense_positions(text):
    X, y = text
    rows = SequenceVectorizer().fit_transform(X)
    how = {"alpha": 0.1, "tol": 0.01, "random_state": 0}
    auto = ChainSSVM(**how).fit(rows, y)
    plain = ChainSSVM(normalize=False, **how).fit(rows, y)
    np.testing.assert_array_equal(auto.coef_, plain.coef_)
    assert auto.normalize_ is False
    auto = ChainSSVM(**how).fit(dense(rows), y)
    plain = ChainSSVM(normalize=True, **how).fit(dense(rows), y)
    np.testing.assert_array_equal(auto.coef_, plain.coef_)
    with pytest.raises(ValueError, match="normalize must be True, False or 'auto'"):
        ChainSSVM(normalize="yes").fit(rows, y)


def test_alpha_auto_is_smaller_for_sparse_positions(text):
    X, y = text
    rows = SequenceVectorizer().fit_transform(X)
    how = {"tol": 0.01, "random_state": 0}
    for given, alpha in ((rows, 0.001), ([*rows], 0.001), (dense(rows), 0.01)):
        auto = ChainSSVM(**how).fit(given, y)
        plain = ChainSSVM(alpha=alpha, **how).fit(given, y)
        assert auto.alpha_ == plain.alpha_ == alpha
        assert auto.alpha == "auto"
        np.testing.assert_array_equal(auto.coef_, plain.coef_)
    with pytest.raises(ValueError, match="alpha must be a finite number > 0"):
        ChainSSVM(alpha="small").fit(rows, y)


def test_packed_rows_are_those_of_the_problem_and_stay_as_they_are(text):
    X, y = text
    rows = SequenceVectorizer(min_count=2).fit_transform(X)
    before = [x.toarray() for x in rows]
    codes = [np.arange(len(labels)) % 3 for labels in y]
    problem = chain_ssvm(rows, codes, 0.1, n_labels=3)
    assert np.shares_memory(problem.data.features, rows.positions.features)
    solve(problem, max_epochs=2, rng=0)
    for matrix, again in zip(before, rows, strict=True):
        np.testing.assert_array_equal(matrix, again.toarray())
    listed = chain_ssvm([*rows], codes, 0.1, n_labels=3)
    assert listed.fingerprint == problem.fingerprint


@pytest.mark.slow
def test_dense_positions_share_their_columns(monkeypatch):
    rng = np.random.default_rng(0)
    X = [rng.integers(0, 3, (T, 4)) + 1.0 for T in (1, 2, 3, 5)]
    X[2][1, 2] = X[3][0] = 0
    y = [rng.integers(0, 3, len(x)) for x in X]
    plain = chain_ssvm(X, y, 0.1, n_labels=3)
    monkeypatch.setattr(sequences, "SHARED_FROM", 1)
    shared = chain_ssvm(X, y, 0.1, n_labels=3)
    own = plain.data.feature_begin[:-1]
    np.testing.assert_array_equal(plain.data.index_begin, own)
    assert (shared.data.index_begin != own).any()
    assert len(shared.data.features) < len(plain.data.features)
    np.testing.assert_array_equal(shared.data.values, plain.data.values)
    how = {"tol": 1e-3, "rng": 0, "max_epochs": 1000}
    a, b = solve(plain, **how), solve(shared, **how)
    np.testing.assert_array_equal(a.state.shared, b.state.shared)
    assert a.gap == b.gap
    np.testing.assert_array_equal(plain.data.gram, shared.data.gram)


def test_packing_takes_little_more_than_the_dense_input():
    X = [np.random.default_rng(i).normal(size=(100, 64)) for i in range(700)]
    packed = sequences.pack_features([x.astype(np.float32) for x in X])
    size = sum(x.size for x in X)
    assert packed.index_begin.size == 70_000
    assert packed.features.size < 200
    assert packed.values.nbytes < 4.2 * size
    assert chain.layout(packed, 3).features.size < 200


def test_the_page_for_people_from_crfsuite_runs(text, monkeypatch, tmp_path):
    import matplotlib.pyplot as plt
    from test_public import python_blocks

    X, y = text
    monkeypatch.chdir(tmp_path)
    names = {
        "X_train": X, "y_train": y, "X_test": X, "X_new": X[:2], "y_new": y[:2],
        "describe": lambda sentence: sentence, "read": lambda path: X,
    }  # fmt: skip
    for block in python_blocks("docs/sequences.md"):
        exec(compile(block, "sequences.md", "exec"), names)
    assert names["y_pred"] == y
    assert [len(one) for one in names["margins"]] == [len(one) for one in y]
    assert names["search"].best_score_ > 0.9
    plt.close("all")

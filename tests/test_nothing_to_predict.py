"""No sequence, or an empty one, has an empty answer; only `fit` refuses it."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline

from wolfpack import (
    ChainSSVM,
    GroupFusedLasso,
    MulticlassSVM,
    MultilabelSVM,
    SequenceVectorizer,
    make_piecewise,
)

WORDS = [["a", "b"], ["b"], ["a", "c", "b"]]
TAGS = [["A", "B"], ["B"], ["A", "A", "B"]]
NOTHING = [[], np.zeros((0, 3)), np.zeros((0, 9)), sp.csr_matrix((0, 3)), np.array([])]


@pytest.fixture(scope="module")
def chain():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(t, 3)) for t in (2, 3, 4, 1)]
    y = [rng.integers(3, size=len(x)) for x in X]
    y[2][:3] = 0, 1, 2
    return ChainSSVM(alpha=0.1, tol=0.1, random_state=0).fit(X, y), X, y


def test_no_sequence_has_no_labelling(chain):
    model, _, _ = chain
    assert model.predict([]) == []
    assert model.decision_function([]) == []


@pytest.mark.parametrize("empty", NOTHING, ids=["list", "array", "wide", "csr", "1-d"])
def test_an_empty_sequence_leaves_the_others_as_they_are(chain, empty):
    model, X, _ = chain
    mixed = [empty, X[0], empty, empty, *X[1:], empty]
    places = [1, 4, 5, 6]
    found, margins = model.predict(mixed), model.decision_function(mixed)
    assert len(found) == len(margins) == len(mixed)
    alone, their_margins = model.predict(X), model.decision_function(X)
    for k, place in enumerate(places):
        np.testing.assert_array_equal(found[place], alone[k])
        np.testing.assert_array_equal(margins[place], their_margins[k])
    for place in set(range(len(mixed))) - set(places):
        assert len(found[place]) == 0
        assert margins[place].shape == (0, 3)
    assert [len(one) for one in model.predict([empty, empty])] == [0, 0]


def test_empty_sequences_count_nothing_in_a_score(chain):
    model, X, y = chain
    score = model.score(X, y)
    assert score > 0
    assert model.score([[], *X, []], [[], *y, []]) == pytest.approx(score, abs=1e-12)
    with pytest.raises(ValueError, match=r"X\[0\] has 0 positions and y\[0\] has 2"):
        model.score([[], X[0]], [y[0], y[0]])


def test_errors_name_sequences_as_they_were_given(chain):
    model, X, _ = chain
    with pytest.raises(ValueError, match=r"X\[2\] has 4 features, X\[1\] has 3;"):
        model.predict([[], X[0], np.zeros((2, 4))])
    with pytest.raises(ValueError, match=r"X\[3\] holds NaN"):
        model.predict([[], X[0], [], np.full((1, 3), np.nan)])


@pytest.mark.parametrize("n_features", [None, 8])
def test_an_empty_sentence_of_a_pipeline(n_features):
    words = SequenceVectorizer(n_features=n_features)
    model = make_pipeline(words, ChainSSVM(alpha=0.1, tol=0.1, random_state=0))
    model.fit(WORDS, TAGS)
    found = model.predict(WORDS)
    assert model.predict([]) == []
    assert model.predict([[]]) == [[]]
    assert model.predict([[], WORDS[0], [], *WORDS[1:], []]) == [
        [],
        found[0],
        [],
        *found[1:],
        [],
    ]
    for X, y in (([], []), ([[], ["a"]], [[], ["A"]])):
        with pytest.raises(ValueError, match="is empty"):
            model.fit(X, y)


def test_packed_sequences_with_empty_ones():
    words = SequenceVectorizer().fit(WORDS)
    packed = words.transform([[], WORDS[2], []])
    assert [x.shape for x in packed] == [(0, 3), (3, 3), (0, 3)]
    np.testing.assert_array_equal(
        packed[1].toarray(), words.transform(WORDS)[2].toarray()
    )
    assert repr(packed).endswith("3 sequences, 3 positions, 3 features, 3 entries>")
    with pytest.raises(ValueError, match=r"X\[0\] must have shape \(T >= 1, p\)"):
        ChainSSVM().fit(packed, [["A"], TAGS[2], ["A"]])


@pytest.mark.parametrize("empty", [[], np.zeros((0, 4)), sp.csr_matrix((0, 4))])
@pytest.mark.parametrize("kind", [MulticlassSVM, MultilabelSVM])
def test_no_rows_have_no_classes(kind, empty):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 4)), rng.integers(2, size=(30, 3))
    y = Y if kind is MultilabelSVM else Y.sum(axis=1)
    model = kind(tol=0.1, random_state=0).fit(X, y)
    assert model.predict(empty).shape == (0, *y.shape[1:])
    assert model.decision_function(empty).shape == (
        0,
        model.decision_function(X).shape[1],
    )


def test_a_signal_without_rows_has_no_segments():
    Y, _, _ = make_piecewise(n=40, d=2)
    model = GroupFusedLasso(n_change_points=2).fit(Y)
    assert model.predict([]).shape == (0,)
    assert model.transform(np.zeros((0, 2))).shape == (0, 2)

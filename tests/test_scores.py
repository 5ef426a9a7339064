"""Scores say what they need before the fits, and what they cannot score."""

import sys

import pytest
import sklearn
from sklearn.pipeline import make_pipeline

import wolfpack.scores
from wolfpack import ChainSSVM, SequenceVectorizer
from wolfpack.scores import chunk_f1, sequence_accuracy, token_accuracy

WORDS = [["a", "b"], ["b"], ["a", "c", "b"]]
TAGS = [["A", "B"], ["B"], ["A", "A", "B"]]


def pipeline():
    chain = ChainSSVM(alpha=0.1, tol=0.1, random_state=0)
    return make_pipeline(SequenceVectorizer(), chain)


def test_seqeval_is_asked_for_when_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "seqeval.metrics", None)
    with pytest.raises(ImportError, match=r"pip install seqeval$"):
        chunk_f1([["O"]], [["O"]])
    # before a search can begin, which would fit every model and then lack the scores
    with pytest.raises(ImportError, match="chunk_f1_scorer needs seqeval"):
        _ = wolfpack.scores.chunk_f1_scorer
    assert "chunk_f1_scorer" in dir(wolfpack.scores)


def test_a_name_that_scores_does_not_have():
    with pytest.raises(AttributeError, match="no attribute 'chunk_f2'"):
        _ = wolfpack.scores.chunk_f2


@pytest.mark.parametrize("score", [token_accuracy, sequence_accuracy, chunk_f1])
@pytest.mark.parametrize("nothing", [[], [[], []]])
def test_a_score_of_nothing_is_a_sentence(score, nothing):
    with pytest.raises(ValueError, match="y_true holds no label"):
        score(nothing, nothing)


def test_empty_sequences_among_others_are_no_errors():
    y, other = [[], ["A", "B"]], [[], ["A", "A"]]
    assert token_accuracy(y, other) == 0.5
    assert sequence_accuracy(y, other) == 0.5


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_tables_are_no_output_of_a_vectorizer(kind):
    expected = pipeline().fit(WORDS, TAGS).predict(WORDS)
    with sklearn.config_context(transform_output=kind):
        assert pipeline().fit(WORDS, TAGS).predict(WORDS) == expected
    model = pipeline().set_output(transform=kind)
    assert model.fit(WORDS, TAGS).predict(WORDS) == expected

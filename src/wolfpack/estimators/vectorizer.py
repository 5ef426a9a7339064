"""From named features, dicts and strings, to sparse rows: what text begins with."""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import compress, count, pairwise
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import murmurhash3_32

from wolfpack.estimators._positions import as_dict, check_sequences, parts
from wolfpack.kernels.memory import give_back
from wolfpack.problems.packed import BIAS, FIRST, LAST, PackedSequences, Packer

ENTRIES = 2**18  # that are collected before they are packed


class SequenceVectorizer(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Turn sequences of dicts or strings into sparse matrices.

    It takes what sklearn-crfsuite takes: a list of sequences, each a list of positions,
    each described by named features. Of the pairs in a dict, `{"word": "the"}` becomes
    a column "word=the" with value 1, `{"length": 3.5}` and `{"upper": True}` columns
    "length" and "upper" with values 3.5 and 1, `{"in": ["a", "b"]}` two columns "in=a"
    and "in=b", and `{"in": {"a": 0.5}}` one column "in=a" with value 0.5. A list of
    strings has a column a string, and a string is one feature by itself.

    Parameters
    ----------
    min_count : int
        Leave out features that fewer positions of the training sequences have. 2 leaves
        out most of the columns of a text, and hardly any accuracy.
    n_features : int, optional
        Hash names into this many columns instead of keeping a vocabulary. It takes less
        memory and needs no `fit`; columns have no names, and some names share one.
    separator : str
        What stands between the name and the value of a feature.

    Attributes
    ----------
    vocabulary_ : dict
        The column of each feature; not with `n_features`.

    Examples
    --------
    >>> import wolfpack
    >>> X = [[{"word": "The"}, {"word": "end", "length": 3}], [{"word": "The"}]]
    >>> vectorizer = wolfpack.SequenceVectorizer()
    >>> vectorizer.fit_transform(X)[0].toarray().tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 3.0]]
    >>> vectorizer.get_feature_names_out().tolist()
    ['word=The', 'word=end', 'length']
    """

    _letters: np.ndarray  # of all names, one after the other, in UTF-8
    _ends: np.ndarray  # of each name

    def __init__(
        self,
        *,
        min_count: int = 1,
        n_features: int | None = None,
        separator: str = "=",
    ) -> None:
        self.min_count = min_count
        self.n_features = n_features
        self.separator = separator

    def fit(self, X: Iterable[Any], y: Any = None) -> "SequenceVectorizer":
        """Learn the columns; `y` is ignored."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Iterable[Any], y: Any = None) -> PackedSequences:
        """Learn the columns and return X as sparse matrices.

        Parameters
        ----------
        X : iterable of sequences
            A generator is read once, a sequence at a time: nothing of it is kept but
            the columns and their names.
        y
            Ignored.

        Returns
        -------
        PackedSequences
            A list of (T_i, p) CSR matrices, of float32.
        """
        self._check()
        if self.n_features is not None:
            return self._hash(X)
        packed = self._learn(X)
        give_back()  # most names are gone by now
        return packed

    def _learn(self, X: Iterable[Any]) -> PackedSequences:
        vocabulary: dict[str, int] = defaultdict(count().__next__)
        packer = Packer()
        begin = self._read(X, vocabulary.__getitem__, packer)
        kept = np.zeros(len(vocabulary), bool)
        kept[: len(packer.often)] = packer.often >= self.min_count
        self._name_columns(compress(vocabulary, kept))
        vocabulary.clear()
        if not self._ends.size:
            raise ValueError(
                f"X has no feature that {self.min_count} or more positions have; lower "
                "min_count, or describe the positions by more."
            )
        return packer.finish(begin, kept)

    def transform(self, X: Iterable[Any]) -> PackedSequences:
        """Return X as sparse matrices; features that `fit` never saw are left out.

        There may be empty sequences, for which `predict` gives empty labellings.
        """
        self._check()
        if self.n_features is not None:
            return self._hash(X, may_be_empty=True)
        known, packer = self.vocabulary_, Packer()
        begin = self._read(X, known.__getitem__, packer, may_be_empty=True)
        return packer.finish(begin, np.arange(len(known) + 1) < len(known))

    def _hash(self, X: Iterable[Any], may_be_empty: bool = False) -> PackedSequences:
        n, packer = int(self.n_features or 0), Packer()

        def column(name: str) -> int:
            return murmurhash3_32(name.encode("utf-8", "surrogatepass"), 0, True) % n

        begin = self._read(X, column, packer, may_be_empty)
        return packer.finish(begin, np.ones(n, bool))

    def set_output(self, *, transform: Any = None) -> "SequenceVectorizer":
        """Return itself: sequences are lists of matrices, whatever the output is."""
        return self

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns; `input_features` is ignored."""
        if self.n_features is not None:
            raise ValueError("hashed columns have no names; set n_features=None.")
        return np.array([*self.vocabulary_], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        """Say that hashing needs no `fit`."""
        return self.n_features is not None or hasattr(self, "_ends")

    @property
    def vocabulary_(self) -> dict[str, int]:
        """The column of each feature; made when it is first asked for.

        Names in one array take a tenth of the memory of a dict, and `fit` of the next
        step of a pipeline needs no names.
        """
        if not hasattr(self, "_ends"):
            raise NotFittedError("This SequenceVectorizer is not fitted; call fit.")
        if not hasattr(self, "_known"):
            names = unpack_names(self._letters, self._ends)
            self._known = _Known((name, k) for k, name in enumerate(names))
        return self._known

    @vocabulary_.setter
    def vocabulary_(self, columns: Mapping[str, int]) -> None:
        self._name_columns(sorted(columns, key=columns.__getitem__))

    def _name_columns(self, names: Iterable[str]) -> None:
        self._letters, self._ends = pack_names(names)
        self.__dict__.pop("_known", None)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the dict, whose names `_letters` holds too."""
        state: Any = super().__getstate__()
        return {name: state[name] for name in state if name != "_known"}

    def __sklearn_tags__(self):
        """Say that X is no array."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.dict = tags.input_tags.string = True
        tags.requires_fit = self.n_features is None
        return tags

    def _check(self) -> None:
        for name, kinds in (("min_count", Integral), ("n_features", Integral | None)):
            value = getattr(self, name)
            is_kind = isinstance(value, kinds) and not isinstance(value, bool)
            if not is_kind or not (value is None or 1 <= value < BIAS):
                raise ValueError(
                    f"{name} must be a whole number from 1, but is {value!r}."
                )
        if not isinstance(self.separator, str):
            raise ValueError(f"separator must be a string, but is {self.separator!r}.")
        if self.n_features is not None and self.min_count > 1:
            raise ValueError(
                "hashing counts no features: set min_count=1 or n_features=None."
            )

    def _read(
        self,
        X: Iterable[Any],
        column: Callable[[str], int],
        packer: Packer,
        may_be_empty: bool = False,
    ) -> np.ndarray:
        """Give the rows of all positions to `packer`; return where sequences begin."""
        indices, odd, odd_at = array("i"), array("f"), array("q")
        indptr, begin, joint = array("q", [0]), array("q", [0]), self.separator
        note, before = indices.append, 0  # most of the time is spent in this loop
        for i, sequence in enumerate(check_sequences(X)):
            note(FIRST)
            for position in sequence:
                named = position if type(position) is dict else as_dict(position, i)
                for name, value in named.items():
                    if type(value) is str:
                        note(column(f"{name}{joint}{value}"))
                        continue
                    for full, number in parts(name, value, joint, i):
                        if number != 1:
                            odd_at.append(len(indices))
                            odd.append(number)
                        note(column(full))
                note(BIAS)
                indptr.append(len(indices))
            begin.append(before + len(indptr) - 1)
            if begin[-1] == begin[-2]:
                if not may_be_empty:
                    raise ValueError(
                        f"X[{i}] is empty: a sequence has one position or more."
                    )
                indices.pop()
                continue
            note(LAST)
            indptr[-1] += 1
            if len(indices) >= ENTRIES:
                before = begin[-1]
                _give(packer, indices, odd, odd_at, indptr)
        if len(begin) == 1 and not may_be_empty:
            raise ValueError("X is empty: at least one sequence is needed.")
        if len(indptr) > 1:
            _give(packer, indices, odd, odd_at, indptr)
        return np.array(begin)


def pack_names(names: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return names in UTF-8, one after the other, and where each ends."""
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), np.uint8), ends


def unpack_names(letters: np.ndarray, ends: np.ndarray) -> Iterator[str]:
    """Undo `pack_names`."""
    text, bounds = letters.tobytes(), pairwise([0, *ends.tolist()])
    return (text[a:b].decode("utf-8", "surrogatepass") for a, b in bounds)


def _give(packer: Packer, indices: Any, odd: Any, odd_at: Any, indptr: Any) -> None:
    """Hand rows over, and empty the arrays for the next ones."""
    values = np.ones(len(indices), np.float32)
    values[np.array(odd_at, np.int64)] = odd
    packer.add(np.array(indices), values, np.array(indptr))
    for one in (indices, odd, odd_at):
        del one[:]
    del indptr[1:]


class _Known(dict):
    """A vocabulary in which all unknown names share the column after the last."""

    def __missing__(self, name: str) -> int:
        return len(self)

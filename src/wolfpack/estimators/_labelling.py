"""What a fitted chain model can do: label, score, and show what it has learnt."""

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from wolfpack.checks.inputs import kinds_of, shares
from wolfpack.kernels.notice import compiling
from wolfpack.problems import chain
from wolfpack.problems.max_marginals import max_marginals
from wolfpack.problems.packed import Positions
from wolfpack.problems.sequences import join_sequences, pack_some

MOST_SCORE = 1e29  # padding labels score -1e30, and must never be the best


class Labellings(list):
    """A list of labellings that NumPy can concatenate, as `cross_val_predict` does.

    NumPy makes an array of each list first, which fails for labellings of different
    lengths; these become an array of objects.
    """

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.concatenate and all(isinstance(one, list) for one in args[0]):
            found = [*itertools.chain.from_iterable(args[0])]
            box = np.empty(len(found), object)
            for i, labels in enumerate(found):
                box[i] = labels
            return box
        return func(*_plain(args), **kwargs)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        kind = list if isinstance(value, Labellings) else type(value)
        return kind(_plain(one) for one in value)
    return value


class ChainLabelling:
    """The half of `ChainSSVM` that comes after `fit`."""

    classes_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray
    first_: np.ndarray
    last_: np.ndarray
    transitions_: np.ndarray
    n_features_in_: int
    # A model that was read from a file does not know these.
    takes_lists_: bool = False  # whether the labellings of `fit` were lists
    normalize_: bool = True
    losses_: np.ndarray | None = None

    def predict(self, X: Sequence[Any]) -> list[Any]:
        """Return the best labelling of each sequence.

        A labelling is a list if `fit` saw lists, which is what seqeval takes, else an
        array. That of an empty sequence is empty.
        """
        packed = self._pack(X)
        codes = self._decode(packed) if packed.begin[-1] else np.zeros(0, np.intp)
        found = _split(self.classes_[codes], packed.begin)
        if self.takes_lists_:
            return Labellings(labels.tolist() for labels in found)
        return Labellings(found)

    def decision_function(self, X: Sequence[Any]) -> list[np.ndarray]:
        """Return, per position and label, the best score of a labelling with it.

        The largest in a row is the score of the best labelling (the max-marginal);
        differences say how much worse another label would be.

        `cross_val_predict(method="decision_function")` cannot call it: scikit-learn
        first makes a column of numbers of `y`, for which sequences are too long. Fit
        and call it for each fold.
        """
        packed = self._pack(X)
        scores = np.zeros((packed.begin[-1], len(self.classes_)))
        if scores.size:
            features, *ends, steps = self._weights()
            table = np.vstack([features.T, *ends])
            full = packed._replace(begin=np.unique(packed.begin))
            scores = max_marginals(full, table, steps)
        return _split(scores, packed.begin)

    def score(
        self, X: Sequence[Any], y: Sequence[Any], sample_weight: Any = None
    ) -> float:
        """Return the share of positions that are labelled right.

        A label that `fit` never saw counts as an error, with a warning.
        """
        predicted = self.predict(X)
        if len(y) != len(predicted):
            raise ValueError(f"X has {len(predicted)} sequences and y has {len(y)}.")
        labels = join_sequences([one for one in y if np.size(one)])
        given, known = kinds_of(labels), kinds_of(self.classes_)
        if given != known:
            raise ValueError(
                f"y holds {' and '.join(given)}, but fit saw {' and '.join(known)}."
            )
        unseen = np.setdiff1d(labels, self.classes_)
        if unseen.size:
            warnings.warn(
                f"y holds labels that fit never saw, {unseen.tolist()}; they count as "
                "errors.",
                UserWarning,
                stacklevel=2,
            )
        lengths = [len(labels) for labels in predicted]
        for i, labels in enumerate(y):
            if len(labels) != lengths[i]:
                raise ValueError(
                    f"X[{i}] has {lengths[i]} positions and y[{i}] has {len(labels)}."
                )
        right = [(np.asarray(a) == b).sum() for a, b in zip(predicted, y, strict=True)]
        weights = shares(sample_weight, len(lengths))
        return float(weights @ right / (weights @ lengths))

    def hinge_losses(self, X: Sequence[Any], y: Sequence[Any]) -> np.ndarray:
        """Return how far each labelling of `y` is from what the model would say.

        It is the structured hinge loss that `fit` minimises: by how much the best
        labelling, its loss added, scores higher than the given one. In the training
        data the largest often belong to labels that are wrong; see `hardest`.
        """
        check_is_fitted(self)
        labels = join_sequences(y)
        unseen = np.setdiff1d(labels, self.classes_)
        if unseen.size:
            raise ValueError(f"y holds labels that fit never saw, {unseen.tolist()}.")
        ends = np.cumsum([len(one) for one in y])[:-1]
        codes = np.split(np.searchsorted(self.classes_, labels), ends)
        how = {"normalize": self.normalize_, "loss": self.losses_}
        problem = chain.chain_ssvm(X, codes, 1.0, n_labels=len(self.classes_), **how)
        self._check_width(problem.data.first_transition - 3)
        shared = chain.pack_weights(self._weights(), problem.data.width)
        with compiling(f"hinge losses with {len(self.classes_)} labels"):
            return chain.hinge_losses(problem, shared)

    def hardest(self, X: Sequence[Any], y: Sequence[Any], n: int = 10) -> np.ndarray:
        """Return the places of the n sequences with the largest hinge losses."""
        return np.argsort(-self.hinge_losses(X, y), kind="stable")[:n]

    def top_features(
        self,
        label: Any,
        names: Sequence[str] | None = None,
        n: int = 10,
        *,
        lowest: bool = False,
    ) -> list[tuple[str, float]]:
        """Return the n features with the largest weights for a label.

        Parameters
        ----------
        label
            One of `classes_`.
        names : list of str, optional
            Names of the columns, `SequenceVectorizer.get_feature_names_out()`, say.
        n : int
            How many.
        lowest : bool
            Return those with the lowest weights, which speak against the label.

        Returns
        -------
        list of (name, weight)
        """
        check_is_fitted(self)
        places = np.flatnonzero(self.classes_ == label)
        if places.size != 1:
            raise ValueError(
                f"{label!r} is no label of this model; it knows "
                f"{self.classes_.tolist()}."
            )
        if names is None:
            names = [f"x{k}" for k in range(self.n_features_in_)]
        if len(names) != self.n_features_in_:
            raise ValueError(
                f"{len(names)} names were given for {self.n_features_in_} features."
            )
        weights = self.coef_[places[0]]
        order = np.argsort(weights if lowest else -weights, kind="stable")[:n]
        return [(str(names[k]), float(weights[k])) for k in order]

    def _pack(self, X: Sequence[Any]) -> Positions:
        """Return the features of sequences, some of which may be empty."""
        check_is_fitted(self)
        packed = pack_some(X)
        if packed.begin[-1]:  # else X may have no columns at all
            self._check_width(packed.n_features)
        return packed

    def _decode(self, packed: Positions) -> np.ndarray:
        """Return the best labels, as places in `classes_`, one after the other."""
        begin = np.unique(packed.begin)
        data = chain.layout(packed._replace(begin=begin), len(self.classes_))
        kernels, weights = chain.kernels_for(data), self._weights()
        _refuse_overflow(weights, data)
        shared, work = chain.pack_weights(weights, data.width), chain.make_work(data)
        codes = np.zeros_like(data.labels)
        with compiling(f"predictions with {data.n_labels} labels"):
            kernels.decode(data, shared, 0, len(begin) - 1, codes, work)
        return codes

    def _check_width(self, n_features: int) -> None:
        if n_features != self.n_features_in_:
            raise ValueError(
                f"X has {n_features} features, but ChainSSVM was fitted with "
                f"{self.n_features_in_}."
            )

    def _weights(self) -> chain.ChainWeights:
        return chain.ChainWeights(
            self.coef_, self.intercept_, self.first_, self.last_, self.transitions_
        )


def _split(rows: np.ndarray, begin: np.ndarray) -> list[np.ndarray]:
    return [rows[a:b] for a, b in itertools.pairwise(begin)]


def _refuse_overflow(weights: chain.ChainWeights, data: chain.Chains) -> None:
    """Refuse scores that overflow float32: any labelling would seem best."""
    largest = float(max(np.abs(part).max() for part in weights))
    sums = np.diff(data.feature_begin)  # of the features of each position
    if data.values.size:
        sums = np.add.reduceat(np.abs(data.values), data.feature_begin[:-1])
    most = largest * (float(sums.max()) + 1.0) * float(np.diff(data.begin).max())
    if not most < MOST_SCORE:
        raise ValueError(
            f"scores may reach {most:.1g}, and must stay below {MOST_SCORE:g}; the "
            f"largest weight is {largest:.1g}: scale X, or fit again."
        )

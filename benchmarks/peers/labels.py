"""Classes and sets of labels, beside scikit-learn's own linear estimators.

    python benchmarks/peers/labels.py [--data scene,digits,letter,path] [--folds 3]

Every estimator gets the same features, and as many values of its regularisation; the
best is chosen by cross-validation on the training set, by the score that is asked for,
and only then meets the test set. `cpu s` is the processor time of the fit on the whole
training set, `search s` that of the cross-validation before it; compiling is in none.
`warned` says that the fit stopped at its own limit of iterations before it converged.

`scene` has six labels a picture, `letter` 26 classes (16,000 to train, the rest to
test, as its authors divide it), `digits` 10. C = 1 / (alpha n) on both sides. `path` is
the passes of single fits and of `alpha_path`. Writes results/labels.csv.
"""

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, hamming_loss
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.svm import LinearSVC

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from _book import Book, say  # noqa: E402
from _threads_cases import machine  # noqa: E402

from wolfpack import MulticlassSVM, MultilabelSVM, alpha_path  # noqa: E402

ALPHAS = np.geomspace(1e-1, 1e-5, 9)
COLUMNS = {
    "section": "8s", "estimator": "34s", "alpha": "8.1e", "cv": "6.3f",
    "exact": "6.3f", "micro_f1": "8.3f", "hamming": "7.4f", "cpu_s": "8.2f",
    "search_s": "9.1f", "warned": "6s", "passes_cold": "12.0f", "passes_path": "12.0f",
    "cold_s": "8.2f", "path_s": "8.2f",
}  # fmt: skip


class Powerset(ClassifierMixin, BaseEstimator):
    """A classifier whose classes are the sets of labels that it sees."""

    def __init__(self, model=None):
        self.model = model

    def fit(self, X, Y):
        self.sets_, codes = np.unique(Y, axis=0, return_inverse=True)
        self.classes_ = np.arange(Y.shape[1])
        self.model_ = clone(self.model).fit(X, codes.ravel())
        return self

    def predict(self, X):
        return self.sets_[self.model_.predict(X)]


def scene():
    folder = Path(os.environ["WOLFPACK_DATA"]) / "scene"
    with np.load(folder / "scene.npz") as held:
        names = "X_train", "y_train", "X_test", "y_test"
        return [held[name].astype(float if "X" in name else int) for name in names]


def letter():
    path = Path(os.environ["WOLFPACK_DATA"]) / "letter" / "letter_20000x16.csv.gz"
    rows = np.loadtxt(path, delimiter=",", dtype=str)
    X, y = rows[:, 1:].astype(float), rows[:, 0]
    X = (X - X[:16000].mean(axis=0)) / X[:16000].std(axis=0)
    return X[:16000], y[:16000], X[16000:], y[16000:]


def digits():
    X, y = load_digits(return_X_y=True)
    parts = train_test_split(X / 16, y, test_size=0.3, stratify=y, random_state=0)
    return parts[0], parts[2], parts[1], parts[3]


def of_classes(n):
    """Return name: (estimator, its grid) for one class an example."""
    C = {"C": (1 / (ALPHAS * n)).tolist()}
    return {
        "wolfpack MulticlassSVM": (MulticlassSVM(random_state=0), {"alpha": ALPHAS}),
        "LinearSVC crammer_singer": (
            LinearSVC(multi_class="crammer_singer", random_state=0), C
        ),
        "LinearSVC one-vs-rest": (LinearSVC(random_state=0), C),
        "LogisticRegression": (LogisticRegression(max_iter=1000), C),
    }  # fmt: skip


def of_sets(n):
    """Return name: (estimator, its grid) for sets of labels."""
    C, alpha = (1 / (ALPHAS * n)).tolist(), {"alpha": ALPHAS}
    svc, logistic = LinearSVC(random_state=0), LogisticRegression(max_iter=1000)
    ours = {
        f"wolfpack pairs={pairs}, {sets}": (
            MultilabelSVM(pairs=pairs, candidates=sets, random_state=0), alpha
        )
        for pairs, sets in [
            ("full", "observed"), (None, "observed"), ("full", "all"), ("tree", "all"),
            (None, "all"),
        ]
    }  # fmt: skip
    return ours | {
        "powerset of wolfpack MulticlassSVM": (
            Powerset(MulticlassSVM(random_state=0)), {"model__alpha": ALPHAS}
        ),
        "powerset of LinearSVC c.-singer": (
            Powerset(LinearSVC(multi_class="crammer_singer", random_state=0)),
            {"model__C": C},
        ),
        "OneVsRest LinearSVC": (OneVsRestClassifier(svc), {"estimator__C": C}),
        "OneVsRest LogisticRegression": (
            OneVsRestClassifier(logistic), {"estimator__C": C}
        ),
        "ClassifierChain LinearSVC": (
            ClassifierChain(svc, random_state=0), {"estimator__C": C}
        ),
        "ClassifierChain LogisticRegression": (
            ClassifierChain(logistic, random_state=0), {"estimator__C": C}
        ),
    }  # fmt: skip


def timed(run):
    """Return what a call returns, its processor time, and whether it warned."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        begin = time.process_time()
        result = run()
        seconds = time.process_time() - begin
    return (
        result,
        seconds,
        any(issubclass(w.category, ConvergenceWarning) for w in seen),
    )


def compare(book, name, parts, estimators, folds):
    X, y, X_test, y_test = parts
    sets, cv = y.ndim == 2, KFold(folds, shuffle=True, random_state=0)
    title = f"{len(X)} to train, {len(X_test)} to test; {folds}-fold search for exact"
    scores = ["micro_f1", "hamming"] if sets else []
    book.begin(
        name, title,
        ["estimator", "alpha", "cv", "exact", *scores, "cpu_s", "search_s", "warned"],
    )  # fmt: skip
    for label, (model, grid) in estimators.items():
        if "wolfpack" in label:  # compile what the fit needs
            clone(model).fit(X[:300], y[:300]).predict(X[:2])
        search = GridSearchCV(
            model, grid, cv=cv, scoring="accuracy", refit=False, error_score="raise"
        )
        _, search_seconds, _ = timed(lambda: search.fit(X, y))  # noqa: B023
        best = clone(model).set_params(**search.best_params_)
        _, seconds, warned = timed(lambda: best.fit(X, y))  # noqa: B023
        found = best.predict(X_test)
        ((key, strength),) = search.best_params_.items()
        alpha = strength if key.endswith("alpha") else 1 / (strength * len(X))
        book.add(
            estimator=label, alpha=alpha, cv=search.best_score_,
            exact=accuracy_score(y_test, found), cpu_s=seconds, search_s=search_seconds,
            micro_f1=f1_score(y_test, found, average="micro") if sets else None,
            hamming=hamming_loss(y_test, found) if sets else None,
            warned="yes" if warned else "no",
        )  # fmt: skip


def paths(book):
    book.begin(
        "path", "13 alphas from 1 to 1e-4, tol 1e-3: passes in all, and CPU seconds",
        ["estimator", "passes_cold", "passes_path", "cold_s", "path_s"],
    )  # fmt: skip
    for name, load, model in [
        ("letter MulticlassSVM", letter, MulticlassSVM),
        ("digits MulticlassSVM", digits, MulticlassSVM),
        ("scene MultilabelSVM", scene, MultilabelSVM),
    ]:
        X, y, *_ = load()
        alphas = np.geomspace(1, 1e-4, 13)
        model(random_state=0).fit(X[:300], y[:300])
        single, cold_seconds, _ = timed(
            lambda: [model(alpha=a, random_state=0).fit(X, y) for a in alphas]  # noqa: B023
        )
        path, seconds, _ = timed(
            lambda: alpha_path(model(random_state=0), X, y, alphas)  # noqa: B023
        )
        counts = [sum(m.result_.epochs for m in models) for models in (single, path)]
        book.add(
            estimator=name, passes_cold=counts[0], passes_path=counts[1],
            cold_s=cold_seconds, path_s=seconds,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="scene,digits,letter,path")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=HERE.parent / "results")
    asked = parser.parse_args()
    book = Book(asked.out, "labels", COLUMNS, machine())
    loaders = {"scene": scene, "digits": digits, "letter": letter}
    for name in asked.data.split(","):
        if name == "path":
            paths(book)
            continue
        parts = loaders[name]()
        estimators = of_sets if parts[1].ndim == 2 else of_classes
        compare(book, name, parts, estimators(len(parts[0])), asked.folds)
    say("")


if __name__ == "__main__":
    main()

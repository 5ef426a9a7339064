"""What `wolfpack fit` and `predict` do with people's own files."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from wolfpack.cli.jobs import Job, forced
from wolfpack.estimators.multiclass import MulticlassSVM
from wolfpack.estimators.structured import ChainSSVM, auto_alpha
from wolfpack.files.columns import ColumnsReader
from wolfpack.files.model_file import save_model
from wolfpack.files.numbers import ArraysReader, SvmlightReader
from wolfpack.files.own import Examples, Reader, check_labels, check_test, flat
from wolfpack.files.rows import TableReader
from wolfpack.files.table import check_file
from wolfpack.problem import Problem
from wolfpack.problems.chain import chain_ssvm
from wolfpack.problems.multiclass import multiclass_svm
from wolfpack.scores import chunk_f1

READERS: tuple[type[Reader], ...] = (
    ColumnsReader,
    TableReader,
    SvmlightReader,
    ArraysReader,
)
ENDINGS = {
    ColumnsReader: (".conll", ".txt", ".tsv"),
    TableReader: (".csv",),
    SvmlightReader: (".svm", ".svmlight", ".libsvm"),
    ArraysReader: (".npz",),
}
KNOWN = {ending for endings in ENDINGS.values() for ending in endings}
UNCLEAR = {".txt", ".tsv"}  # lines of a table, or of sequences
OPTIONS = {  # and the only reader that takes them
    "template": ColumnsReader,
    "min_count": ColumnsReader,
    "label": TableReader,
    "standardize": TableReader,
    "header": TableReader,
    "decimal": TableReader,
}


def make_reader(path: Path, model: str | None, **options: Any) -> Reader:
    """Return the reader of a file to train on, by the file's ending."""
    check_file(path)
    ending = _ending(path)
    make: Any = next((kind for kind in ENDINGS if ending in ENDINGS[kind]), None)
    if model and ending not in KNOWN - UNCLEAR:
        make = TableReader if model == "multiclass" else ColumnsReader
    if make is None:
        known = ", ".join(end for ends in ENDINGS.values() for end in ends)
        raise ValueError(
            f"{path}: what a file holds is told by its ending, one of {known}; with "
            "another, say --model chain (CoNLL columns) or --model multiclass (CSV)."
        )
    for name in options:
        if OPTIONS[name] is not make:
            option, kind = name.replace("_", "-"), OPTIONS[name].kind
            raise ValueError(f"--{option} is for {kind}; {path} holds {make.kind}.")
    return make(**options)


def load_reader(about: dict[str, Any], path: Path) -> Reader:
    """Return the reader that a saved model keeps."""
    saved = about["input"]
    try:
        kinds = {reader.kind: reader for reader in READERS}
        return kinds[saved["kind"]].from_dict(saved)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path} is damaged (its input: {error}).") from error


def read_alike(reader: Reader, path: Path) -> Examples:
    """Read a file as that of the training; refuse one of another kind."""
    check_file(path)
    own = next(ends for kind, ends in ENDINGS.items() if isinstance(reader, kind))
    text = UNCLEAR if isinstance(reader, ColumnsReader | TableReader) else set()
    if _ending(path) in KNOWN - {*own, *text}:
        raise ValueError(
            f"{path}: the model was trained on {reader.kind}, so a file of it ends in "
            f"{' or '.join(own)}."
        )
    return reader.read(path)


class FileJob(Job):
    """Train on a file: a chain for sequences, else a multiclass SVM."""

    def __init__(
        self,
        path: Path,
        test: Path | None = None,
        model: str | None = None,
        **options: Any,
    ) -> None:
        self.path, self.reader = path, make_reader(path, model, **options)
        self.train, self.test = self.reader.learn(path), None
        self.notes = [*getattr(self.reader, "notes", ())]
        chains = self.reader.chains
        self._check_model(model)
        self.estimator = ChainSSVM if chains else MulticlassSVM
        self.classes = check_labels(path, self.train, chains)
        self.predicted: dict[str, Any] = {}
        self.note: str | None = None
        if test is not None:
            self.test = read_alike(self.reader, test)
            self.note = check_test(test, self.test, self.classes, chains)

    def _check_model(self, model: str | None) -> None:
        chains, path = self.reader.chains, self.path
        if model is not None and chains is not (model == "chain"):
            what = "sequences" if chains else "single examples"
            raise ValueError(f"--model {model}: {path} holds {what}.")
        if model is None and _ending(path) in UNCLEAR and len(self.train.y) == 1:
            raise ValueError(
                f"{path} has no blank lines, so it is one sequence, or each line is an "
                "example by itself: say --model chain or --model multiclass."
            )

    def describe(self, options: dict[str, Any]) -> str:
        """Say what will be done."""
        alpha = self.alpha(options.get("alpha"))
        n, chains = len(self.train.y), self.reader.chains
        what = "a chain structural SVM" if chains else "a multiclass SVM"
        size = f"{n} examples"
        if chains:
            size = f"{n} sequences, {sum(map(len, self.train.y))} positions"
        text = (
            f"Training {what} on {self.path}: {size}, {self.reader.n_names} "
            f"features, {len(self.classes)} labels; alpha = {alpha:g}."
        )
        skipped = getattr(self.reader, "skipped", None)
        if skipped is not None:
            text += f" Its first column, {skipped!r}, names the rows: it is left out."
        return "\n".join([text, *(f"Note: {note}" for note in self.notes)])

    def alpha(self, given: float | str | None) -> float:
        """Return the regularisation, or the default for these data."""
        alpha = self.estimator().alpha if given is None else given
        return auto_alpha(self.train.X) if isinstance(alpha, str) else float(alpha)

    def problem(self, alpha: float | None) -> Problem:
        """Return what `fit` solves."""
        alpha = self.alpha(alpha)
        X, y = self.train.X, self.train.y
        if not self.reader.chains:
            codes = np.searchsorted(self.classes, y)
            return multiclass_svm(X, codes, alpha, intercept=True)
        codes = [np.searchsorted(self.classes, labels) for labels in y]
        return chain_ssvm(X, codes, alpha, normalize="auto")

    def fit(
        self, options: dict[str, Any], as_json: bool, quiet: bool, engine: Any = None
    ) -> dict[str, Any]:
        """Train; return the report."""
        self.model = self.estimator(**{**forced(engine), **options})
        report = self.watch((self.train.X, self.train.y), as_json, quiet, engine)
        for name, part in (("train", self.train), ("test", self.test)):
            if part is not None:
                self.predicted[name] = self.model.predict(part.X)
                found = scores(part.y, self.predicted[name], self.reader.chains)
                report |= {f"{name}_{key}": value for key, value in found.items()}
        if self.note is not None:
            report["note"] = self.note
        if self.notes:
            report["notes"] = self.notes  # which `describe` has said
        return report

    def save(self, path: Path) -> Path:
        """Keep the model, and how such files are read."""
        return save_model(
            self.model, path, dataset=self.path.name, input=self.reader.to_dict()
        )

    def page(self, report: dict[str, Any]) -> str:
        """Return the model in one page of HTML."""
        from wolfpack.cli.model_page import Page

        labels = [str(label) for label in self.classes]
        page = Page(self, self.path.name, labels, self.reader.names)
        part, name = (self.train, "train") if self.test is None else (self.test, "test")
        chains = self.reader.chains
        truth, found = flat(part.y, chains), flat(self.predicted[name], chains)
        return page.render(report, {"train": "training"}.get(name, name), truth, found)


def scores(y: Any, predicted: Any, chains: bool) -> dict[str, float]:
    """Return the share of right labels and, of chunks, F1 if seqeval is there."""
    truth = flat(y, chains)
    found = {"score": float(np.mean(truth == flat(predicted, chains)))}
    if chains and _are_chunks(truth) and find_spec("seqeval"):
        found["chunk_f1"] = float(chunk_f1(y, predicted))
    return found


def _are_chunks(labels: np.ndarray) -> bool:
    """Return whether labels are B-, I- and O, or another scheme of that kind."""
    names = {str(label) for label in np.unique(labels)}
    begun = {name for name in names if name[:2] in ("B-", "I-", "E-", "S-", "L-", "U-")}
    return names - begun <= {"O"} and any(name.startswith("B-") for name in begun)


def _ending(path: Path) -> str:
    return (Path(path.stem) if path.suffix == ".gz" else path).suffix.lower()

"""`wolfpack predict`: label a data set, or a file of the user's own."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from wolfpack.cli.console import plain_errors
from wolfpack.cli.options import check_target, read_folds

HELP = {
    "model": "A file of `wolfpack fit --save`.",
    "data": "A data set, or a file like that of the training.",
    "output": "Write the file with its labels here, as columns or CSV.",
}


def predict(
    model: Annotated[Path, typer.Argument(help=HELP["model"])],
    data: Annotated[str, typer.Argument(help=HELP["data"])],
    output: Annotated[Path | None, typer.Option(help=HELP["output"])] = None,
    folds: Annotated[str, typer.Option(help="ocr: only these, as 0 or 1-9.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="A JSON line each.")] = False,
) -> None:
    """Label sequences or examples with a saved model.

    Of a data set with a test part, that part is labelled; the share of right labels,
    where they are known, goes to stderr. Without --output a sequence, or an example, is
    a line of labels.

    An .npz file holds `X` (positions, features) and, for sequences, `offsets` (where
    each begins, and the end), and may hold `y`. In Python: `model.predict(X)`.
    """
    with plain_errors():
        if output is not None:
            check_target("--output", output, output)
        estimator, chains = _load(model)
        about = estimator.file_info_
        reader, examples = _read(estimator, about, model, data, read_folds(folds))
        found = estimator.predict(examples.X)
        names = about.get("label_names")
        words = _in_words(found, names, chains)
        # Labels of one letter each are read best without spaces.
        letters = all(len(str(one)) == 1 for one in names or estimator.classes_)
        mark = "" if letters or not chains else " "
        if output is None:
            for one in words:
                print(json.dumps(one) if as_json else mark.join(one))  # noqa: T201
        else:
            _write(reader, examples, words, output)
        _tell_score(examples.y, found, estimator.classes_, chains)


def _load(path: Path) -> tuple[Any, bool]:
    """Return a saved model, and whether it labels sequences."""
    from wolfpack.estimators.multiclass import MulticlassSVM
    from wolfpack.estimators.structured import ChainSSVM
    from wolfpack.files.model_file import load_model

    estimator = load_model(path)
    if not isinstance(estimator, ChainSSVM | MulticlassSVM):
        kind = type(estimator).__name__
        raise ValueError(
            f"{path} holds a {kind}, and predict needs a model of labels; in Python: "
            "wolfpack.models.load_model."
        )
    return estimator, isinstance(estimator, ChainSSVM)


def _read(
    estimator: Any, about: dict, model: Path, data: str, folds: list[int] | None
) -> tuple[Any, Any]:
    """Return the reader of the model, and what it is to label."""
    from wolfpack.cli import jobs
    from wolfpack.cli.own_files import load_reader, read_alike
    from wolfpack.files.numbers import ArraysReader
    from wolfpack.files.own import Examples

    if "input" in about:
        reader = load_reader(about, model)
        if reader.n_names != estimator.n_features_in_:
            raise ValueError(f"{model} is damaged (its input has other features).")
        return reader, read_alike(reader, Path(data))
    reader = ArraysReader(hasattr(estimator, "transitions_"))
    reader.n_features = estimator.n_features_in_
    if reader.chains:
        X, y = jobs.load_sequences(data, folds)
        return reader, Examples(X, y, None, None)
    return reader, read_alike(reader, Path(data))


def _in_words(found: Any, names: list[str] | None, chains: bool) -> list[Any]:
    """Return labels as words: a list a sequence, or one an example."""
    if not chains:
        return [str(label) for label in found]
    return [[names[k] if names else str(k) for k in labels] for labels in found]


def _write(reader: Any, examples: Any, labels: Any, path: Path) -> None:
    from wolfpack.files.replace import replacing

    with replacing(path) as file:
        file.write(reader.write(examples, labels).encode())
    print(f"Labels: {path}")  # noqa: T201


def _tell_score(y: Any, found: Any, classes: np.ndarray, chains: bool) -> None:
    """Say how many labels are right, where some are known."""
    from wolfpack.cli.own_files import scores
    from wolfpack.files.own import flat

    if y is None or not np.isin(flat(y, chains), classes).any():
        return
    right = scores(y, found, chains)
    what = "positions" if chains else "examples"
    text = f"right: {right['score']:.4f} of all {what}"
    if "chunk_f1" in right:
        text += f"; chunk F1: {right['chunk_f1']:.4f}"
    print(text, file=sys.stderr)  # noqa: T201

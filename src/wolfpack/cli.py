"""The command line: `wolfpack fit`, `predict`, `datasets` and `demo`."""

import json
import logging
import sys
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(
    help="Block-coordinate Frank-Wolfe: train, certify, predict.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
say = Console(highlight=False, soft_wrap=True).print

LIMIT_REACHED, INTERRUPTED = 3, 130


class Engine(StrEnum):
    """Who runs the updates."""

    serial = "serial"


class Sampling(StrEnum):
    """How blocks are chosen."""

    uniform = "uniform"
    permutation = "permutation"
    gap = "gap"


def fail(message: object) -> NoReturn:
    """Say what is wrong on stderr and leave."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(
        f"wolfpack: {message}", markup=False
    )
    raise typer.Exit(1)


@app.command()
def fit(
    dataset: Annotated[str, typer.Argument(help="One of `wolfpack datasets`.")],
    alpha: Annotated[float | None, typer.Option(help="Regularisation, lambda.")] = None,
    tol: Annotated[float | None, typer.Option(help="Relative duality gap.")] = None,
    engine: Annotated[Engine, typer.Option(help="Who runs it.")] = Engine.serial,
    workers: Annotated[int, typer.Option(help="Workers, T; serial has 1.")] = 1,
    batch_size: Annotated[int, typer.Option(help="Blocks an update, tau.")] = 1,
    step: Annotated[
        str, typer.Option(help="line, open-loop, exact, or a number.")
    ] = "",
    sampling: Annotated[Sampling | None, typer.Option(help="Choice of blocks.")] = None,
    averaging: Annotated[bool, typer.Option(help="Keep the average too.")] = False,
    max_epochs: Annotated[int, typer.Option(help="The most passes.")] = 100_000,
    max_seconds: Annotated[float | None, typer.Option(help="The most time.")] = None,
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 0,
    folds: Annotated[str, typer.Option(help="OCR: train on these, as 0 or 1-9.")] = "",
    save: Annotated[Path | None, typer.Option(help="Keep the model here.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw convergence here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
    quiet: Annotated[bool, typer.Option(help="No progress bar.")] = False,
) -> None:
    """Train on a data set and certify the answer.

    In Python: `wolfpack.ChainSSVM(...).fit(X, y)` or
    `wolfpack.GroupFusedLasso(...).fit(Y)`. Exit code 0: converged; 3: a limit was
    reached first; 130: interrupted (the model so far is saved all the same).
    """
    from wolfpack import _jobs

    if workers != 1:
        fail(f"--engine {engine.value} has one worker, not {workers}.")
    options = {
        "alpha": alpha,
        "tol": tol,
        "batch_size": batch_size,
        "step": _step(step),
        "sampling": sampling.value if sampling else None,
        "averaging": averaging,
        "max_iter": max_epochs,
        "max_seconds": max_seconds,
        "random_state": seed,
    }
    given = {name: value for name, value in options.items() if value is not None}
    with _plain_errors():
        job = _jobs.load(dataset, _folds(folds))
        if not as_json:
            say(job.describe(given))
        report = job.fit(given, as_json=as_json, quiet=quiet)
        if save is not None:
            report["model"] = str(job.save(save))
        if plot is not None:
            job.plot(plot)
            report["plot"] = str(plot)
    say(json.dumps(report), markup=False) if as_json else say(job.summary(report))
    status = report["status"]
    if status == "INTERRUPTED":
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(0 if status == "CONVERGED" else LIMIT_REACHED)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A file of `wolfpack fit --save`.")],
    data: Annotated[str, typer.Argument(help="A data set, or an .npz file.")],
    folds: Annotated[str, typer.Option(help="OCR: only these, as 0 or 1-9.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="A JSON line each.")] = False,
) -> None:
    """Label the sequences of a data set (its test part, if it has one).

    An .npz file holds `X` (positions, features) and `offsets` (where each sequence
    begins, and the end), and may hold `y`. In Python: `model.predict(X)`.
    """
    from wolfpack import _jobs
    from wolfpack.models import load_model

    with _plain_errors():
        estimator, about = load_model(model)
        sequences = _jobs.load_sequences(data, _folds(folds))
        labels = estimator.predict(sequences.X)
        names = about.get("label_names")
        for labelling in labels:
            words = [names[k] if names else str(k) for k in labelling]
            line = json.dumps(words) if as_json else _joined(words)
            print(line)  # noqa: T201
        if sequences.y is not None:
            score = estimator.score(sequences.X, sequences.y)
            print(f"right: {score:.4f} of all positions", file=sys.stderr)  # noqa: T201


@app.command()
def datasets() -> None:
    """List the data sets and where they are.

    In Python: `wolfpack.datasets.available()`.
    """
    from wolfpack.datasets import available

    table = Table("name", "task", "size", "where", box=None, pad_edge=False)
    for row in available():
        table.add_row(row["name"], row["task"], row["size"], row["where"])
    say(table)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the pictures go.")] = Path("demo"),
) -> None:
    """Read handwritten dates: train, certify, test, and draw, in under a minute."""
    from wolfpack._demo import run

    with _plain_errors():
        run(out, say)


def _step(text: str) -> str | float | None:
    if not text or text in ("line", "open-loop", "exact"):
        return text or None
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(
            f"--step must be line, open-loop, exact or a number, not {text!r}."
        ) from None


def _folds(text: str) -> list[int] | None:
    """Read "0", "1-9" or "0,3,5-7"."""
    if not text:
        return None
    folds: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            folds += range(int(first), int(last or first) + 1)
    except ValueError:
        raise typer.BadParameter(
            f"--folds must look like 0 or 1-9, not {text!r}."
        ) from None
    return folds


def _joined(words: list[str]) -> str:
    return ("" if all(len(word) == 1 for word in words) else " ").join(words)


class _plain_errors:
    """Turn the library's errors into one line, and its warnings into nothing."""

    def __enter__(self) -> None:
        self._caught = warnings.catch_warnings()
        self._caught.__enter__()
        warnings.simplefilter("ignore")
        logging.getLogger("wolfpack").setLevel(logging.ERROR)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._caught.__exit__(None, None, None)
        if isinstance(error, ValueError | RuntimeError | OSError | ImportError):
            fail(error)


def main() -> None:
    """Run the command line."""
    app(prog_name="wolfpack")

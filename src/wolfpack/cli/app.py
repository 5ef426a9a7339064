"""The command line: `wolfpack fit`, `predict`, `changes`, `theory` and more."""

import json
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from wolfpack.cli.changes import changes
from wolfpack.cli.console import INTERRUPTED, LIMIT_REACHED, fail, plain_errors
from wolfpack.cli.options import (
    Engine,
    Mode,
    Sampling,
    check_targets,
    read_folds,
    read_step,
)

app = typer.Typer(
    help="Block-coordinate Frank-Wolfe: train, certify, predict.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help in plain columns: readable anywhere
)
say = Console(highlight=False, soft_wrap=True).print

HELP = {
    "alpha": "Regularisation, lambda. Default: 0.01 for chains, 1 for signals.",
    "tol": "Relative duality gap to stop at. Default: 0.001; signals 0.0001.",
    "step": "line, open-loop, exact (signals only) or a number.",
    "engine": "Who runs it: one thread, threads, threads in step, a Ray cluster.",
    "address": "ray: of a running cluster. Default: start one on this machine.",
    "mode": "threads: how they work together. Default: merge.",
    "workers": "Workers, T. Default: all cores; serial has 1.",
    "batch": "Blocks an update, tau. Default: what the engine finds best.",
    "sampling": "Choice of blocks. Default: gap, or what the engine can do; signals "
    "cyclic.",
    "avg": "Keep the average too.",
    "accelerate": "An accelerated outer loop. Default: where it is possible.",
    "plot": "Draw convergence (chains) or the signal here.",
    "json": "JSON lines: one a check, and the report.",
    "samples": "Blocks and pairs to sample. Default: by the size of v, 8 to 1000.",
    "clear": "Remove them: what is needed is compiled again.",
    "fast": "Small settings: all of it in minutes, to see that it runs.",
    "out": "Where CSV, JSON, pictures and the report go.",
    "goal": "Relative duality gap that Theorem 1 speaks of. Default: as in `fit`.",
}


def _show_version(wanted: bool) -> None:
    if wanted:
        from wolfpack import __version__

        say(f"wolfpack {__version__}")
        raise typer.Exit


@app.callback(help=app.info.help)
def top(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show it.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Take the options that belong to no single command."""


@app.command()
def fit(
    dataset: Annotated[str, typer.Argument(help="One of `wolfpack datasets`.")],
    alpha: Annotated[float | None, typer.Option(help=HELP["alpha"])] = None,
    tol: Annotated[float | None, typer.Option(help=HELP["tol"])] = None,
    engine: Annotated[Engine, typer.Option(help=HELP["engine"])] = Engine.serial,
    mode: Annotated[Mode | None, typer.Option(help=HELP["mode"])] = None,
    workers: Annotated[int | None, typer.Option(min=1, help=HELP["workers"])] = None,
    address: Annotated[str | None, typer.Option(help=HELP["address"])] = None,
    batch_size: Annotated[int | None, typer.Option(help=HELP["batch"])] = None,
    step: Annotated[str, typer.Option(help=HELP["step"])] = "",
    sampling: Annotated[Sampling | None, typer.Option(help=HELP["sampling"])] = None,
    averaging: Annotated[bool, typer.Option("--averaging", help=HELP["avg"])] = False,
    accelerate: Annotated[
        bool | None,
        typer.Option("--accelerate/--no-accelerate", help=HELP["accelerate"]),
    ] = None,
    max_epochs: Annotated[int, typer.Option(min=1, help="Most passes.")] = 100_000,
    max_seconds: Annotated[float | None, typer.Option(help="Most time.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the random numbers.")] = 0,
    folds: Annotated[str, typer.Option(help="ocr: train on these, as 0 or 1-9.")] = "",
    save: Annotated[Path | None, typer.Option(help="Keep the model here.")] = None,
    plot: Annotated[Path | None, typer.Option(help=HELP["plot"])] = None,
    as_json: Annotated[bool, typer.Option("--json", help=HELP["json"])] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Train on a data set and certify the answer.

    In Python: `wolfpack.ChainSSVM(...).fit(X, y)` or
    `wolfpack.GroupFusedLasso(...).fit(Y)`; `--engine threads` is `engine=Threads()`.
    Exit code 0: converged; 3: a limit was reached first; 130: interrupted (the model so
    far is saved all the same).
    """
    options = {
        "alpha": alpha,
        "tol": tol,
        "batch_size": batch_size,
        "step": read_step(step),
        "sampling": sampling.value if sampling else None,
        "averaging": averaging,
        "accelerate": accelerate,
        "max_iter": max_epochs,
        "max_seconds": max_seconds,
        "random_state": seed,
    }
    given = {name: value for name, value in options.items() if value is not None}
    with plain_errors():
        from wolfpack.cli import jobs

        check_targets(save, plot)
        team = jobs.make_engine(engine.value, mode and mode.value, workers, address)
        job = jobs.load(dataset, read_folds(folds))
        if not as_json:
            say(job.describe(given))
        report = job.fit(given, as_json=as_json, quiet=quiet, engine=team)
        failed = job.keep(report, save, plot)
        say(json.dumps(report) if as_json else job.summary(report), markup=False)
        if failed is not None:  # the answer was printed before
            fail(failed)
    status = report["status"]
    if status == "INTERRUPTED":
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(0 if status == "CONVERGED" else LIMIT_REACHED)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A file of `wolfpack fit --save`.")],
    data: Annotated[str, typer.Argument(help="A data set, or an .npz file.")],
    folds: Annotated[str, typer.Option(help="ocr: only these, as 0 or 1-9.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="A JSON line each.")] = False,
) -> None:
    """Label sequences with a saved model.

    Of a data set with a test part, that part is labelled; the share of right labels,
    where they are known, goes to stderr.

    An .npz file holds `X` (positions, features) and `offsets` (where each sequence
    begins, and the end), and may hold `y`. In Python: `model.predict(X)`.
    """
    from wolfpack.cli import jobs
    from wolfpack.estimators.structured import ChainSSVM
    from wolfpack.files.model_file import load_model

    with plain_errors():
        estimator, about = load_model(model)
        if not isinstance(estimator, ChainSSVM):
            kind = type(estimator).__name__
            raise ValueError(
                f"{model} holds a {kind}, and predict labels sequences; in Python: "
                "wolfpack.models.load_model."
            )
        sequences = jobs.load_sequences(data, read_folds(folds))
        labels = estimator.predict(sequences.X)
        names = about.get("label_names")
        for labelling in labels:
            words = [names[k] if names else str(k) for k in labelling]
            line = json.dumps(words) if as_json else _joined(words)
            print(line)  # noqa: T201
        if sequences.y is not None:
            score = estimator.score(sequences.X, sequences.y)
            print(f"right: {score:.4f} of all positions", file=sys.stderr)  # noqa: T201


app.command()(changes)


@app.command()
def theory(
    dataset: Annotated[str, typer.Argument(help="One of `wolfpack datasets`.")],
    alpha: Annotated[float | None, typer.Option(help=HELP["alpha"])] = None,
    workers: Annotated[int | None, typer.Option(min=1, help=HELP["workers"])] = None,
    tol: Annotated[float | None, typer.Option(help=HELP["goal"])] = None,
    samples: Annotated[int | None, typer.Option(min=2, help=HELP["samples"])] = None,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Of the random numbers.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw the speed-up here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say how many blocks to move at once, and why.

    The paper's constants, what its theorems make of them, and what a short run
    measures. In Python: `wolfpack.theory` and `wolfpack.suggest_batch_size(problem)`.
    """
    with plain_errors():
        from wolfpack.cli import jobs
        from wolfpack.cli.theory_report import Report

        check_targets(None, plot)
        job = jobs.load(dataset, None)
        goal = job.estimator().tol if tol is None else tol
        report = Report.make(
            job.problem(alpha), tol=goal, workers=workers, samples=samples,
            confidence=confidence, seed=seed,
        )  # fmt: skip
        if plot is not None:
            report.draw(plot)
    if as_json:
        about = {"dataset": dataset, "plot": None if plot is None else str(plot)}
        print(json.dumps(report.to_dict(**about)))  # noqa: T201
        return
    report.show(say)
    if plot is not None:
        say(f"Picture: {plot}", markup=False)


@app.command()
def reproduce(
    figure: Annotated[str, typer.Argument(help="all, fig1a to fig5, or a theory.")],
    fast: Annotated[bool, typer.Option("--fast", help=HELP["fast"])] = False,
    out: Annotated[Path, typer.Option(help=HELP["out"])] = Path("reproduction"),
) -> None:
    """Measure the paper's figures and claims again, and report.

    What the folder has already, in the same mode, is drawn and not measured again; so
    a run that was stopped goes on. It ends with report.html, one page with everything
    inside. Ctrl-C keeps nothing of the experiment that it falls into: exit code 130.
    In Python: `python experiments/fig1a.py`.
    """
    with plain_errors():
        from wolfpack.cli.reproduce import choose, run

        report = run(choose(figure), fast, out, say)
    say(f"Report: {report}", markup=False)


@app.command()
def datasets() -> None:
    """List the data sets and where they are.

    In Python: `wolfpack.datasets.available()`.
    """
    from wolfpack.datasets import available

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 1000  # one line a data set, for grep
    table = Table("name", "task", "size", box=None, pad_edge=False)
    table.add_column("where", overflow="fold")
    for row in available():
        table.add_row(row["name"], row["task"], row["size"], row["where"])
    console.print(table, markup=False)


@app.command()
def cache(
    clear: Annotated[bool, typer.Option("--clear", help=HELP["clear"])] = False,
) -> None:
    """Show the compiled loops that are kept on disk, or remove them.

    They are kept in the folder WOLFPACK_CACHE, or the user's cache folder, and compiled
    again where they are missing. In Python: `wolfpack.kernels.cache.kept()`.
    """
    with plain_errors():
        from wolfpack.kernels.cache import clear as empty
        from wolfpack.kernels.cache import show

        if clear:
            say(f"Removed {empty() / 1e6:.1f} MB.")
        show(say)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the pictures go.")] = Path("demo"),
) -> None:
    """Read handwritten dates, find change points, draw both."""
    with plain_errors():
        from wolfpack.cli.demo import run

        run(out, say)


def _joined(words: list[str]) -> str:
    return ("" if all(len(word) == 1 for word in words) else " ").join(words)


def main() -> None:
    """Run the command line."""
    try:
        app(prog_name="wolfpack")
    finally:  # everything is saved, so Ctrl-C may end the process without a message
        signal.signal(signal.SIGINT, signal.SIG_DFL)

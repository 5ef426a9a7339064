"""`wolfpack fit`: train on a data set, or a file of the user's own, and certify."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from wolfpack.cli.console import fail, leave, plain_errors
from wolfpack.cli.options import (
    Decimal,
    Engine,
    Mode,
    Sampling,
    check_target,
    check_targets,
    read_folds,
    read_step,
)
from wolfpack.run.interrupt import Interrupt

HELP = {
    "dataset": "One of `wolfpack datasets`, or a file: .txt or .conll (CoNLL columns), "
    ".csv, .svm, .npz.",
    "alpha": "Regularisation, lambda. Default: 0.01, for sparse sequences 0.001; "
    "signals 1 (in Python a tenth of alpha_max).",
    "tol": "Relative duality gap to stop at. Default: 0.001; signals 0.0001 (in Python "
    "1e-08).",
    "step": "line, open-loop, exact (signals, multiclass) or a number. Default: line; "
    "multiclass auto; signals exact.",
    "engine": "What runs it: one thread, threads, threads in step, a Ray cluster.",
    "address": "ray: of a running cluster. Default: start one on this machine.",
    "mode": "threads: how they work together. Default: merge.",
    "workers": "Workers, T. Default: all cores; serial has 1.",
    "batch": "Blocks per update, tau. Default: what the engine finds best.",
    "sampling": "Choice of blocks. Default: gap; signals cyclic; uniform where the "
    "engine knows no other.",
    "avg": "Keep the average too. Default: not.",
    "max_epochs": "Maximum number of passes (in Python max_iter, 1000; signals 10000).",
    "accelerate": "An accelerated outer loop. Default: where it is possible.",
    "plot": "Draw convergence (labels) or the signal here.",
    "json": "JSON lines: one a check, and the report.",
    "test": "files: another of that kind, for scores.",
    "model": "files: chain or multiclass, where the ending does not tell.",
    "template": "columns: window, or a file in the manner of CRF++. Default: window.",
    "min_count": "columns: leave out features of fewer positions. Default: 2.",
    "label": "CSV: the column of the label, its name or number. Default: the last.",
    "standardize": "CSV: bring columns to mean 0 and deviation 1. Default: yes.",
    "header": "CSV: whether its first line is names. Default: by what is in it.",
    "decimal": "CSV: of numbers, where it cannot be told.",
    "report": "Write the model in one page of HTML here.",
}
say = Console(highlight=False, soft_wrap=True).print


class Model(StrEnum):
    """What a file is for."""

    chain = "chain"
    multiclass = "multiclass"


def fit(
    dataset: Annotated[str, typer.Argument(help=HELP["dataset"])],
    alpha: Annotated[float | None, typer.Option(help=HELP["alpha"])] = None,
    tol: Annotated[float | None, typer.Option(help=HELP["tol"])] = None,
    test: Annotated[Path | None, typer.Option(help=HELP["test"])] = None,
    model: Annotated[Model | None, typer.Option(help=HELP["model"])] = None,
    template: Annotated[str | None, typer.Option(help=HELP["template"])] = None,
    min_count: Annotated[
        int | None, typer.Option(min=1, help=HELP["min_count"])
    ] = None,
    label: Annotated[str | None, typer.Option(help=HELP["label"])] = None,
    standardize: Annotated[
        bool | None,
        typer.Option("--standardize/--no-standardize", help=HELP["standardize"]),
    ] = None,
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help=HELP["header"])
    ] = None,
    decimal: Annotated[Decimal | None, typer.Option(help=HELP["decimal"])] = None,
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
    max_epochs: Annotated[int, typer.Option(min=1, help=HELP["max_epochs"])] = 100_000,
    max_seconds: Annotated[
        float | None, typer.Option(help="Time limit in seconds.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    folds: Annotated[str, typer.Option(help="ocr: train on these, as 0 or 1-9.")] = "",
    save: Annotated[Path | None, typer.Option(help="Keep the model here.")] = None,
    plot: Annotated[Path | None, typer.Option(help=HELP["plot"])] = None,
    report: Annotated[Path | None, typer.Option(help=HELP["report"])] = None,
    as_json: Annotated[bool, typer.Option("--json", help=HELP["json"])] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Train on a data set, or a file of your own, and certify the answer.

    In Python: `wolfpack.ChainSSVM(...).fit(X, y)`, `wolfpack.MulticlassSVM(...)` or
    `wolfpack.GroupFusedLasso(...).fit(Y)`; `--engine threads` is `engine=Threads()`.
    Exit code 0: converged; 3: a limit was reached first; 130: interrupted, 143: ended
    by SIGTERM (the model so far is still saved).
    """
    options = _given(
        alpha=alpha,
        tol=tol,
        batch_size=batch_size,
        step=read_step(step),
        sampling=sampling and sampling.value,
        averaging=averaging,
        accelerate=accelerate,
        max_iter=max_epochs,
        max_seconds=max_seconds,
        random_state=seed,
    )
    own = _given(
        test=test,
        model=model and model.value,
        template=template,
        min_count=min_count,
        label=label,
        standardize=standardize,
        header=header,
        decimal=decimal and decimal.value,
    )
    with plain_errors():
        from wolfpack.cli import jobs

        check_targets(save, plot)
        if report is not None:
            check_target("--report", report, report)
        team = jobs.make_engine(engine.value, mode and mode.value, workers, address)
        job = jobs.load(dataset, read_folds(folds), own)
        if report is not None and not job.has_page:
            raise ValueError("--report is for labels; --plot draws a signal.")
        if not as_json:
            say(job.describe(options), markup=False)
        with Interrupt() as stop:  # what was learnt is saved before the command ends
            found = job.fit(options, as_json=as_json, quiet=quiet, engine=team)
            failed = job.keep(found, save, plot, report)
            say(json.dumps(found) if as_json else job.summary(found), markup=False)
        if failed is not None:  # the answer was printed before
            fail(failed)
    leave(found["status"], stop.signal)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}

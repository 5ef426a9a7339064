"""The command line: `wolfpack fit`, `predict`, `changes`, `theory` and more."""

import json
import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from wolfpack.cli.changes import changes
from wolfpack.cli.console import complain, plain_errors
from wolfpack.cli.fit import fit
from wolfpack.cli.options import check_targets
from wolfpack.cli.output import answering
from wolfpack.cli.predict import predict

app = typer.Typer(
    help="Block-coordinate Frank-Wolfe: train, certify, predict.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help in plain columns: readable anywhere
)
say = Console(highlight=False, soft_wrap=True).print

HELP = {
    "alpha": "Regularisation, lambda. Default: 0.01 for labels, 1 for signals.",
    "workers": "Workers, T. Default: all cores; serial has 1.",
    "samples": "Blocks and pairs to sample. Default: by the size of v, 8 to 1000.",
    "clear": "Remove them: what is needed is compiled again.",
    "fast": "Small settings: all of it in minutes, to see that it runs.",
    "out": "Where CSV, JSON, pictures and the report go.",
    "goal": "Relative gap to which Theorem 1 is evaluated. Default: as in `fit`.",
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


app.command()(fit)
app.command()(predict)
app.command()(changes)


@app.command()
def theory(
    dataset: Annotated[str, typer.Argument(help="As in `wolfpack fit`.")],
    alpha: Annotated[float | None, typer.Option(help=HELP["alpha"])] = None,
    workers: Annotated[int | None, typer.Option(min=1, help=HELP["workers"])] = None,
    tol: Annotated[float | None, typer.Option(help=HELP["goal"])] = None,
    samples: Annotated[int | None, typer.Option(min=2, help=HELP["samples"])] = None,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
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
        goal = job.tol if tol is None else tol
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
    inside. Ctrl-C discards the experiment that is being measured: exit code 130.
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


def main() -> None:
    """Run the command line."""
    try:
        with answering(complain):
            app(prog_name="wolfpack")
    finally:  # everything is saved, so Ctrl-C may end the process without a message
        signal.signal(signal.SIGINT, signal.SIG_DFL)

"""`wolfpack changes`: the change points of a signal in a file of the user's own."""

import csv
import io
import json
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from wolfpack.cli.changes_shown import MARGIN, means_of, show
from wolfpack.cli.console import Watcher, fail, leave, plain_errors
from wolfpack.cli.options import Decimal, check_target, check_targets
from wolfpack.cli.truth import read_truth
from wolfpack.files.replace import replacing, save_picture
from wolfpack.files.table import Table, read_table
from wolfpack.run.interrupt import Interrupt, Raised

HELP = {
    "file": "A signal, one row a time: .csv, .tsv, .txt, .npy or .npz.",
    "n": "How many change points; auto; or all of the lasso, unpruned.",
    "penalty": "In place of --n: the price per change point, exact on all rows.",
    "noise": "What --n auto assumes: auto (dependent, may drift), iid or ar.",
    "tolerance": "The shortest segment: in units of the index, or in days for dates.",
    "sure": "Simulate signals without a change, and print p-values.",
    "alpha": "The price of a jump. Default: low enough to have candidates.",
    "q": "The norm of a jump: 1, 2, inf or another.",
    "standardize": "Bring columns to mean 0 and deviation 1 first.",
    "header": "Whether a first line of a table is names. Default: by what is in it.",
    "decimal": "Of numbers in a table, where it cannot be told.",
    "plot": "Draw the signal and its segments here.",
    "truth": "Known change points, to draw and compare with: 40,60 or a .json file.",
    "save": "Write signal, fitted signal and segments here, as CSV.",
}
CUT_SHORT = "it was interrupted: these are all jumps of the lasso so far, unpruned."
Number = int | str | None


def changes(
    file: Annotated[Path, typer.Argument(help=HELP["file"])],
    n: Annotated[str | None, typer.Option("--n", help=HELP["n"])] = None,
    penalty: Annotated[float | None, typer.Option(help=HELP["penalty"])] = None,
    noise: Annotated[str, typer.Option(help=HELP["noise"])] = "auto",
    min_size: Annotated[int, typer.Option(help="The fewest rows of a segment.")] = 1,
    tolerance: Annotated[float | None, typer.Option(help=HELP["tolerance"])] = None,
    sure: Annotated[bool, typer.Option("--sure", help=HELP["sure"])] = False,
    alpha: Annotated[float | None, typer.Option(help=HELP["alpha"])] = None,
    q: Annotated[float, typer.Option(help=HELP["q"])] = 2.0,
    standardize: Annotated[bool, typer.Option(help=HELP["standardize"])] = True,
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help=HELP["header"])
    ] = None,
    decimal: Annotated[Decimal | None, typer.Option(help=HELP["decimal"])] = None,
    max_seconds: Annotated[
        float | None, typer.Option(help="Time limit in seconds.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help=HELP["plot"])] = None,
    truth: Annotated[str | None, typer.Option(help=HELP["truth"])] = None,
    save: Annotated[Path | None, typer.Option(help=HELP["save"])] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Find the change points of a signal in a file.

    A CSV file may have a line of names, and an index of dates in its first column.
    Empty cells are missing values.
    In Python: `wolfpack.GroupFusedLasso(n_change_points="auto").fit(Y)`.
    Exit code 0: converged; 3: a limit was reached first; 130: interrupted;
    143: ended by SIGTERM.
    """
    with plain_errors():
        check_targets(None, plot)
        if save is not None:
            check_target("--save", save, save)
        table = read_table(file, header, decimal and decimal.value)
        if tolerance is not None:
            min_size = max(min_size, rows_of(table, tolerance))
        options = {"n_change_points": _read_number(n, penalty), "penalty": penalty}
        options |= {"noise": noise, "min_size": min_size, "alpha": alpha, "q": q}
        found = Found(table, standardize, as_json)
        if truth is not None:
            series = file.name.partition(".")[0]
            found.truth = read_truth(truth, series, len(table.values))
        with Interrupt() as stop:  # the answer is saved before the command ends
            found.fit({**options, "max_seconds": max_seconds})
            report, failed = found.report(sure), None
            try:
                _keep(found, report, plot, save)
            except OSError as error:
                failed = error
            if as_json:
                print(json.dumps({"file": str(file), **report}))  # noqa: T201
            else:
                show(file, found, report)
        if failed is not None:  # the answer was printed before
            fail(failed)
    leave(report["status"], stop.signal)


class Found:
    """A signal, the model fitted to it, and both in the units of the file."""

    model: Any
    truth: Any = None  # change points that are known

    def __init__(self, table: Table, standardize: bool, quiet: bool) -> None:
        self.table, self.quiet = table, quiet
        self.centre, self.scale = np.zeros(1), np.ones(1)
        if standardize:
            self.centre = np.nanmean(table.values, axis=0)
            scale = np.nanstd(table.values, axis=0)
            self.scale = np.where(scale > 0, scale, 1.0)

    def fit(self, options: dict[str, Any]) -> None:
        """Fit, and keep what the estimator warns of."""
        from wolfpack.estimators.signals import GroupFusedLasso

        with (
            Watcher(as_json=False, quiet=self.quiet) as watcher,
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            self.model = GroupFusedLasso(**options, callback=watcher)
            try:
                with Raised():
                    self.model.fit((self.table.values - self.centre) / self.scale)
            except KeyboardInterrupt:
                if not hasattr(self.model, "status_"):  # nothing is learnt yet
                    raise
                warnings.warn(CUT_SHORT, stacklevel=1)
        said = (str(warning.message) for warning in caught)
        self.notes = [*self.table.notes, *dict.fromkeys(said)]
        self.signal = self.model.signal_ * self.scale + self.centre
        self.parts = np.split(np.arange(len(self.signal)), self.model.change_points_)

    def report(self, sure: bool = False) -> dict[str, Any]:
        """Return what JSON has; where one is `sure`, with p-values."""
        model, table = self.model, self.table
        points = model.change_points_.tolist()
        report = {
            "status": model.status_.name,
            "reason": model.status_.value,
            "n_rows": len(table.values),
            "columns": table.names,
            "n_change_points": len(points),
            "change_points": points,
            "lengths": [len(rows) for rows in self.parts],
            "means": [means_of(table.values[rows]) for rows in self.parts],
            "n_missing": int(np.isnan(table.values).sum()),
            "alpha": model.alpha_,
            "alpha_max": model.alpha_max_,
            "primal": model.objective_,
            "dual": model.dual_objective_,
            "gap": model.gap_,
            "relative_gap": model.relative_gap_,
            "gap_over_primal": model.result_.gap_over_primal,
            "notes": self.notes,
        }
        if hasattr(model, "model_"):  # there was a choice, and no interrupt
            report["model"], report["why"] = model.model_, model.reason_
            if model.n_change_points == "auto":
                report["significant"] = model.significant_.tolist()
        if sure:
            support = model.explain((table.values - self.centre) / self.scale)
            report["gains"] = support.gains.sum(axis=1).tolist()
            report["p_values"] = support.p_values.tolist()
            report["changed"] = [
                [table.names[j] for j in np.flatnonzero(row)] for row in support.columns
            ]
        if table.index is not None:
            report["index"] = [table.index[t] for t in points]
        if self.truth is not None:
            report["truth"] = self._compare(points, len(table.values))
        return report

    def _compare(self, points: list[int], n: int) -> dict[str, float]:
        from wolfpack.change_points import change_point_f1, covering

        score = change_point_f1(self.truth, points, MARGIN, n)
        return {
            "f1": score,
            "margin": MARGIN,
            "covering": covering(self.truth, points, n),
        }


def rows_of(table: Table, tolerance: float) -> int:
    """Return how many rows a time takes, by the median distance of two rows."""
    if not tolerance > 0:
        fail(f"--tolerance must be a time above 0; given was {tolerance}.")
    axis = table.axis()
    if axis is None:
        fail(
            "--tolerance is a time, but the file has no column of dates or rising "
            "times before its values; give --min-size, a number of rows."
        )
    step = np.median(np.diff(axis))
    if axis.dtype.kind == "M":
        step = step / np.timedelta64(1, "D")
    return max(int(np.ceil(tolerance / float(step) - 1e-9)), 1)


def _read_number(text: str | None, penalty: float | None) -> Number:
    if text is None:
        return "auto" if penalty is None else None
    if text not in ("auto", "all") and not text.isdecimal():
        fail(f"--n must be a whole number of 0 or more, auto or all; not {text!r}.")
    names: dict[str, Number] = {"auto": "auto", "all": None}
    return names[text] if text in names else int(text)


def _keep(found: Found, report: dict[str, Any], plot: Path | None, save: Path | None):
    """Write what is asked for, and say so in the report."""
    table, model = found.table, found.model
    if save is not None:
        names = [table.index_name or "index"] if table.index else ["row"]
        names += [*table.names, *(f"{name} fitted" for name in table.names), "segment"]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(names)
        index = table.index or range(len(table.values))
        rows = zip(index, table.values, found.signal, model.labels_, strict=True)
        for name, given, fitted, label in rows:
            cells = ["" if np.isnan(value) else value for value in given.tolist()]
            writer.writerow([name, *cells, *fitted.tolist(), label])
        with replacing(save) as file:
            file.write(text.getvalue().encode())
        report["saved"] = str(save)
    if plot is not None:
        from wolfpack.change_points.display import MAX_LINES, ChangePointsDisplay

        about = {"index": table.axis(), "names": table.names, "truth": found.truth}
        drawn = table.values, found.signal
        is_map = table.values.shape[1] > MAX_LINES  # columns share one scale of colours
        if is_map:
            drawn = tuple((one - found.centre) / found.scale for one in drawn)
        display = ChangePointsDisplay(*drawn, model.change_points_, **about).plot()
        if is_map and found.scale.size > 1:
            display.ax_.set_ylabel("column, standardised")
        save_picture(display.figure_, plot)
        report["plot"] = str(plot)

"""What `wolfpack changes` prints: segments, what is sure, certificate and files."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from wolfpack.result import in_words

if TYPE_CHECKING:
    from wolfpack.cli.changes import Found

SHOWN = 4  # columns whose means are printed
MARGIN = 5  # rows within which a known point counts as found
SURE = {True: "significant", False: "describes only"}


def show(path: Path, found: "Found", report: dict[str, Any]) -> None:
    """Print the segments, the certificate and the files."""
    console = Console(highlight=False, soft_wrap=True)
    table, n, d = found.table, *found.table.values.shape
    columns = ", ".join(table.names[:SHOWN]) + (", ..." if d > SHOWN else "")
    count = report["n_change_points"]
    console.print(
        f"{path}: {n} rows, {d} column{'' if d == 1 else 's'} ({columns}).\n"
        f"{count} change point{'' if count == 1 else 's'}; alpha = "
        f"{report['alpha']:.4g} (from {report['alpha_max']:.4g} on there is none).",
        markup=False,
    )
    console.print(_segments(found, report), markup=False)
    lines = [
        *([report["why"]] if "why" in report else []),
        f"{report['status']}: {report['reason']}",
        f"The best objective of the lasso lies between {report['dual']:.8g} and "
        f"{report['primal']:.8g} (gap {report['gap']:.1e}, relative "
        f"{report['relative_gap']:.1e}, {in_words(report['gap_over_primal'])}).",
        *(f"Note: {note}" for note in report["notes"]),
    ]
    if "truth" in report:
        seen = report["truth"]
        lines.append(
            f"Beside the truth: F1 {seen['f1']:.3f} (within {MARGIN} rows), covering "
            f"{seen['covering']:.3f}."
        )
    names = {"saved": "Saved", "plot": "Picture"}
    lines += [f"{names[k]}: {report[k]}" for k in names if k in report]
    console.print("\n".join(lines), markup=False)


def _segments(found: "Found", report: dict[str, Any]) -> Grid:
    """Return a row per segment: where it begins, how long it is, and its means."""
    table = found.table
    grid = Grid("segment", box=None, pad_edge=False)
    grid.add_column("begins", justify="right")
    if table.index is not None:
        grid.add_column(table.index_name or "index")
    grid.add_column("rows", justify="right")
    for name in table.names[:SHOWN]:
        grid.add_column(f"mean of {name}", justify="right")
    heads = {"significant": "change", "p_values": "p"}
    marks = [name for name in heads if name in report]
    for name in marks:
        grid.add_column(heads[name])
    for k, rows in enumerate(found.parts):
        means = means_of(table.values[rows])[:SHOWN]
        named = [] if table.index is None else [table.index[rows[0]]]
        numbers = ("" if mean is None else f"{mean:.5g}" for mean in means)
        said = [_mark(report[name], k) for name in marks]
        grid.add_row(str(k), str(rows[0]), *named, str(len(rows)), *numbers, *said)
    return grid


def _mark(values: list[Any], k: int) -> str:
    """Say of segment k whether its beginning is sure; the first has none."""
    if k == 0:
        return ""
    value = values[k - 1]
    return f"{value:.3g}" if isinstance(value, float) else SURE[bool(value)]


def means_of(values: np.ndarray) -> list[float | None]:
    """Return the mean of each column; None where it has no number."""
    known = ~np.isnan(values)
    sums = np.where(known, values, 0.0).sum(axis=0)
    pairs = zip(sums.tolist(), known.sum(axis=0).tolist(), strict=True)
    return [total / count if count else None for total, count in pairs]

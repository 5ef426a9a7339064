"""`wolfpack demo`: the main job on the embedded data, in plain words and pictures."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from wolfpack import datasets
from wolfpack.cli import jobs
from wolfpack.files.replace import save_picture
from wolfpack.run.interrupt import AllOrNothing


def run(out: Path, say: Callable[[str], None]) -> None:
    """Train on handwritten dates, certify, test, draw; then find change points."""
    with AllOrNothing():  # Ctrl-C ends both parts
        _run(out, say)


def _run(out: Path, say: Callable[[str], None]) -> None:
    begin = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    job = jobs.ChainJob(*datasets.load_dates())
    say(
        "[bold]1. Reading handwritten dates[/bold]\n"
        "Each date is eight digit images in a row. A chain structural SVM learns what "
        "the digits look like, and which digit follows which. The optimiser, "
        "block-coordinate Frank-Wolfe, takes one date at a time and asks: which wrong "
        "reading of it would hurt most? It stops when the duality gap proves that the "
        "objective is within 0.001 of the best possible."
    )
    options = {"alpha": 0.01, "tol": 1e-3, "sampling": "gap", "random_state": 0}
    say(job.describe(options))
    report = job.fit(options, as_json=False, quiet=False)
    say(job.summary(report))
    picture = _draw_dates(job, out / "dates.png")
    say(f"Picture: {picture} (wrong labels are bold and underlined)\n")
    say(
        "[bold]2. Finding change points[/bold]\n"
        "A signal of 10 coordinates jumps at 9 unknown times, under noise. The group "
        "fused lasso recovers it."
    )
    signal = jobs.load("piecewise", None)
    options = {"alpha": 2.0, "random_state": 0}
    say(signal.describe(options))
    report = signal.fit(options, as_json=False, quiet=False)
    say(signal.summary(report))
    truth = datasets.make_piecewise()[2]
    found = set(report["change_points"])
    hits = sum(t in found for t in truth)
    say(f"{hits} of the {len(truth)} true ones are among them.")
    signal.plot(out / "signal.png")
    say(f"Picture: {out / 'signal.png'}\n")
    say(f"All of it took {time.perf_counter() - begin:.0f} s, compilation included.")


def _draw_dates(job: jobs.ChainJob, path: Path) -> Path:
    """Draw test dates, those with errors first, and the convergence curve."""
    from wolfpack.plotting import plot_sequences

    test = job.test
    assert test is not None
    assert test.image_shape is not None
    labels = job.model.predict(test.X)
    errors = np.array([(a != b).sum() for a, b in zip(labels, test.y, strict=True)])
    chosen = [*np.flatnonzero(errors)[:3], *np.flatnonzero(errors == 0)[:3]]
    figure = plot_sequences(
        [test.X[i] for i in chosen],
        [test.y[i] for i in chosen],
        [labels[i] for i in chosen],
        test.image_shape,
        trace=job.model.trace_,
    )
    save_picture(figure, path)
    return path

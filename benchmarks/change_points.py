"""Change points on annotated series: F1 and covering beside ruptures; times to a gap.

python benchmarks/change_points.py [--only scores | times]

The series are run_log and well_log of the Turing Change Point Dataset, in the folder
`tcpd` of WOLFPACK_DATA. Columns are standardised; well_log has every sixth point.
"""

import argparse
import gzip
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.signal import medfilt

from wolfpack import (
    ActiveSet,
    GroupFusedLasso,
    Result,
    fused_lasso_path,
    group_fused_lasso,
    make_piecewise,
    solve,
)
from wolfpack.change_points import StaircaseWarning, change_point_f1, covering
from wolfpack.datasets import load_acgh

MARGIN = 5
# The number of points that most annotators marked.
NUMBERS = {"run_log": 8, "well_log": 9}


def load(
    step: int = 6,
) -> tuple[dict[str, np.ndarray], dict[str, dict[str, list[int]]]]:
    """Return the series, and annotations: those of well_log of every sixth point."""
    folder = Path(os.environ.get("WOLFPACK_DATA", "."), "tcpd")
    record = json.loads((folder / "run_log.json").read_text())
    run = np.array([series["raw"] for series in record["series"]], dtype=float).T
    with gzip.open(folder / "well_log_4050.txt.gz", "rt") as file:
        well = np.loadtxt(file, ndmin=2).reshape(-1, 1)[::step]
    annotations = json.loads((folder / "annotations.json").read_text())
    series = {"run_log": run, "well_log": well}
    return {k: (Y - Y.mean(0)) / Y.std(0) for k, Y in series.items()}, annotations


def answers(Y: np.ndarray, number: int) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name of a method and the change points that it finds."""
    import ruptures

    n, d = Y.shape
    smooth = np.column_stack([medfilt(column, 7) for column in Y.T])
    for k in (number, "auto"):
        for name, Z in (("", Y), ("medians of 7, ", smooth)):
            model = GroupFusedLasso(n_change_points=k).fit(Z)
            yield f"wolfpack, {name}{k}", model.change_points_
    for kernel in ("linear", "rbf"):
        found = ruptures.KernelCPD(kernel=kernel, min_size=1).fit(Y)
        yield f"KernelCPD {kernel}, {number}", found.predict(n_bkps=number)[:-1]
    binary = ruptures.Binseg(model="l2", min_size=1, jump=1).fit(Y)
    yield f"Binseg l2, {number}", binary.predict(n_bkps=number)[:-1]
    # Pelt has no number of points: its penalty is that of BIC, by the noise's variance.
    noise = np.diff(Y, axis=0)
    variance = np.mean((1.4826 * np.median(np.abs(noise), axis=0)) ** 2 / 2)
    pelt = ruptures.Pelt(model="l2", min_size=1, jump=1).fit(Y)
    yield "Pelt l2, BIC", pelt.predict(pen=variance * np.log(n) * (d + 2))[:-1]
    rbf = ruptures.Pelt(model="rbf", min_size=2, jump=1).fit(Y)
    yield "Pelt rbf, log n", rbf.predict(pen=np.log(n))[:-1]


def scores() -> None:
    """Print a table of F1 and covering for each series."""
    series, annotations = load()
    for name, Y in series.items():
        marked = annotations[name]
        counts = ", ".join(str(len(points)) for points in marked.values())
        print(f"\n{name}: {Y.shape[0]} x {Y.shape[1]}; annotators marked {counts}")
        print(f"{'method':32s} {'points':>6s} {'F1':>6s} {'covering':>8s}")
        for method, points in answers(Y, NUMBERS[name]):
            f1 = change_point_f1(marked, points, MARGIN)
            cover = covering(marked, points, len(Y))
            print(f"{method:32s} {len(points):6d} {f1:6.3f} {cover:8.3f}", flush=True)


def _seconds(work: Callable[[], object], times: int = 5) -> float:
    """Return the least seconds of several calls, after one that compiles."""
    work()
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def _to_gap(name: str, Y: np.ndarray, alpha: float, times: int = 5) -> None:
    """Print the seconds that make the problem, solve it and certify it."""

    def work() -> Result:
        problem = group_fused_lasso(Y, alpha)
        return solve(problem, engine=ActiveSet(), tol=tol)

    # `tol` is relative to the smaller of two trivial objectives, at most half |Y|^2.
    tol = 1e-6
    while (result := work()).gap > 1e-6 * -result.lower_bound:
        tol *= 0.3
    number = len(np.unique(result.solution, axis=0)) - 1
    best, gap = -result.lower_bound, result.gap / -result.lower_bound
    row = f"{name:34s} {_seconds(work, times):8.4f} {gap:9.1e} {number:7d} {best:14.6f}"
    print(row, flush=True)


def times() -> None:
    """Print the seconds to a certified gap of 1e-6, relative to the objective."""
    head = f"{'signal':34s} {'seconds':>8s} {'gap':>9s} {'changes':>7s}"
    print(f"\n{head} {'objective':>14s}")
    series = {**load(step=1)[0], "acgh": load_acgh()}
    for name, Y in series.items():
        top = GroupFusedLasso.alpha_max(Y)
        for share in (0.5, 0.1, 0.03, 0.01):
            _to_gap(f"{name}, {share} alpha_max", Y, share * top)
    for n in (10**4, 10**5, 10**6):
        Y, _, _ = make_piecewise(n=n, d=4, rng=0)
        _to_gap(f"made, {n} x 4, alpha 1", Y, 1.0, times=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StaircaseWarning)
        for name, Y in series.items():
            _path(name, Y)


def _path(name: str, Y: np.ndarray) -> None:
    """Print the seconds of fits and of a path."""
    top = GroupFusedLasso.alpha_max(Y)
    fits = [
        (share, _seconds(lambda s=share: GroupFusedLasso(alpha=s * top).fit(Y)))
        for share in (0.5, 0.1, 0.01)
    ]
    shown = ", ".join(f"{seconds:.4f} s at {share}" for share, seconds in fits)
    path = _seconds(lambda: fused_lasso_path(Y))
    print(f"{name}: a fit {shown}; a path of 30 {path:.4f} s", flush=True)


def main() -> None:
    """Run one part, or both."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=["scores", "times"])
    only = parser.parse_args().only
    if only != "times":
        scores()
    if only != "scores":
        times()


if __name__ == "__main__":
    main()

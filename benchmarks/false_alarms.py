"""How many change points: false alarms, power and scores, beside known rules.

    python benchmarks/false_alarms.py [--only alarms,power,scores] [--reps 100]
        [--seed 1] [--out benchmarks/results]

alarms: the share of signals without a change in which a method finds one. Ours counts
where a point is called significant; "described" counts any point that it reports.
power: the share of signals with steps of 1 to 5 deviations in which some is found, and
F1, of significant and of all reported points, with what noise="iid" and "ar" give.
scores: F1 and covering of all reported points on signals with known change points.
Pelt and Binseg are those of ruptures (Pelt as KernelCPD with a linear kernel, which has
the same optimum), with the penalties of BIC and modified BIC, and the deviation of the
noise from the median of differences; Lavielle's rule has its threshold of 0.75.
`--reps` is how many signals of each kind: large ones have fewer. With 100 it takes some
ten minutes on one core. With --out the rows go to false_alarms.csv.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from _book import Book, say
from _signals import KINKED, NOISES, STEPPED, places, signal, stepped
from _threads_cases import machine

from wolfpack.change_points import change_point_f1, choose_change_points, covering
from wolfpack.change_points.elbow import elbow_path
from wolfpack.change_points.noise import spread

SHAPES = [
    (8, 1), (20, 1), (50, 1), (100, 1), (300, 1), (1000, 1), (3000, 1), (10_000, 1),
    (50, 5), (300, 5), (100, 30), (300, 100), (1000, 10),
]  # fmt: skip
ROWS = 30_000  # a kind has signals of this many entries together, or fewer
LARGEST = 300  # rows times columns, up to which the peers are run
FORMATS = {
    "section": "8s", "method": "24s", "kind": "14s", "n": "6d", "d": "4d",
    "points": "6d", "size": "4d", "reps": "5d", "seed": "5d", "found": "6.3f",
    "f1": "6.3f", "covering": "8.3f",
}  # fmt: skip


def peers(Y: np.ndarray) -> Iterator[tuple[str, list[int]]]:
    """Yield the name of a known method and its change points."""
    try:
        import ruptures
    except ImportError:
        raise SystemExit(
            "The peers are those of ruptures: pip install ruptures, or "
            "pip install 'wolfpack[peers]'."
        ) from None
    n, d = Y.shape
    scale = spread(np.diff(Y, axis=0)) / np.sqrt(2)
    Z = Y / np.where(scale > 0, scale, 1.0)
    linear = ruptures.KernelCPD(kernel="linear", min_size=2).fit(Z)
    binary = ruptures.Binseg(model="l2", min_size=2, jump=1).fit(Z)
    for name, factor in (("BIC", d + 1), ("modified BIC", d + 2)):
        pen = factor * np.log(n)
        yield f"Pelt, {name}", linear.predict(pen=pen)[:-1]
        yield f"Binseg, {name}", binary.predict(pen=pen)[:-1]
    path = elbow_path(Y, None, 2, False)
    yield "Lavielle", path.points[path.chosen].tolist()


def answers(Y: np.ndarray, noise: str = "auto") -> tuple[list[int], list[int]]:
    """Return our significant change points, and all that are reported."""
    choice = choose_change_points(Y, noise=noise)
    return choice.points[choice.significant].tolist(), choice.points.tolist()


def alarms(book: Book, reps: int, seed: int) -> None:
    """Fill the table of false alarms."""
    shown = ("method", "kind", "n", "d", "reps", "found")
    book.begin("alarms", "share of signals without a change that have one", shown)
    for n, d in SHAPES:
        for kind, make in NOISES.items():
            times = max(20, min(reps, ROWS * reps // 100 // (n * d)))
            found: dict[str, list[bool]] = {}
            for s in range(times):
                Y = make(np.random.default_rng([seed, s, n, d]), n, d)
                ours = zip(("significant", "described"), answers(Y), strict=True)
                others = peers(Y) if n * d <= LARGEST else ()
                for name, points in [*ours, *others]:
                    found.setdefault(name, []).append(len(points) > 0)
            for name, hits in found.items():
                share = float(np.mean(hits))
                about = {"kind": kind, "n": n, "d": d, "reps": times, "seed": seed}
                book.add(method=name, found=share, **about)


def power(book: Book, reps: int, seed: int) -> None:
    """Fill the table of power: steps of 1 to 5 deviations, 1 to n / 20 points."""
    shown = ("method", "kind", "n", "points", "size", "found", "f1")
    book.begin("power", "share of signals whose steps are seen, and F1", shown)
    for n, count in ((12, 1), (50, 1), (50, 2), (300, 1), (300, 4), (300, 15),
                     (1000, 8), (1000, 50)):  # fmt: skip
        for kind in ("iid", "t3", "AR(.5)", "AR(.8)", "season", "slope"):
            for size in (1, 2, 3, 5):
                times, found = max(reps // 4, 10), {}
                for s in range(times):
                    rng = np.random.default_rng([seed, s, n, count, size])
                    truth = places(rng, n, count, 5)
                    Y = stepped(rng, kind, n, truth, size)[:, np.newaxis]
                    for name, points in _ours(Y):
                        f1 = change_point_f1(truth, points)
                        found.setdefault(name, []).append((len(points) > 0, f1))
                for name, pairs in found.items():
                    hit, f1 = np.mean(pairs, axis=0)
                    about = {"kind": kind, "n": n, "d": 1, "points": count}
                    book.add(
                        method=name, size=size, reps=times, seed=seed,
                        found=float(hit), f1=float(f1), **about,
                    )  # fmt: skip


def _ours(Y: np.ndarray) -> Iterator[tuple[str, list[int]]]:
    significant, described = answers(Y)
    yield "significant", significant
    yield "described", described
    for noise in ("iid", "ar"):
        yield f"noise={noise!r}", answers(Y, noise)[0]


def scores(book: Book, reps: int, seed: int) -> None:
    """Fill the table of F1 and covering on kinds of signals."""
    shown = ("method", "kind", "reps", "f1", "covering")
    book.begin("scores", "F1 and covering of all reported points", shown)
    means: dict[str, list[np.ndarray]] = {}
    for kind in [*STEPPED, *KINKED]:
        found: dict[str, list[tuple[float, float]]] = {}
        for s in range(reps):
            y, truth = signal(kind, np.random.default_rng([seed, s, 77]))
            Y = y[:, np.newaxis]
            ours = ("wolfpack, auto", answers(Y)[1])
            for name, points in [("none", []), ours, *peers(Y)]:
                pair = change_point_f1(truth, points), covering(truth, points, len(y))
                found.setdefault(name, []).append(pair)
        for name, pairs in found.items():
            both = np.mean(pairs, axis=0)
            means.setdefault(name, []).append(both)
            f1, cover = map(float, both)
            about = {"kind": kind, "reps": reps, "seed": seed}
            book.add(method=name, f1=f1, covering=cover, **about)
    for name, pairs in means.items():
        f1, cover = map(float, np.mean(pairs, axis=0))
        about = {"kind": "mean", "reps": reps, "seed": seed}
        book.add(method=name, f1=f1, covering=cover, **about)
        book.headline(f"{name:24s} F1 {f1:.3f} covering {cover:.3f}")


PARTS: dict[str, Callable[[Book, int, int], None]] = {
    "alarms": alarms,
    "power": power,
    "scores": scores,
}


def main() -> None:
    """Run the parts that are asked for."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--reps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--stem", default="false_alarms")
    asked = parser.parse_args()
    book = Book(asked.out, asked.stem, FORMATS, machine())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in asked.only.split(","):
            PARTS[part](book, asked.reps, asked.seed)
    for line in book.headlines:
        say(line)


if __name__ == "__main__":
    main()

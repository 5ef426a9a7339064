"""What delay costs, and how well simulated workers foretell real ones.

    WOLFPACK_DATA=... python benchmarks/delays.py [--sections figure,...] [--fast]
        [--out FOLDER]

figure      the paper's Figure 4: updates to gap 0.1 on its group fused lasso (n = 100,
            d = 10, tau = 1) against the expected delay, mean and standard error of 20
            seeds, and the ratio to no delay, which the paper says stays below 2
collisions  oracle calls per update of tau distinct blocks, against Proposition 1
real        seconds a pass of `Threads(T, "server")` on the OCR words, against what
            simulated workers say, for whom an oracle call was timed on T cores, and an
            update by a server that T workers kept busy; with and without a straggler,
            with long and very long oracles; medians of three
cluster     seconds to gap 0.01 on the OCR words with 1 to 1000 workers, an oracle of
            1 ms and messages of 0.5 ms, and how busy the server is ("nan": not there
            after 1000 passes or 25 s of computing, the gap tells how far)

The scale of Figure 4. The paper names no scale for its signal, and no rule for the
step. With levels of size 1 and noise 0.1, its lambda = 0.01 is nearly no regularisation
at all: the gap starts at 0.77 and is at 0.1 after two visits of each block ("small").
With lambda = 0.5 it starts at 38, and jumps have to merge into segments, which is what
the problem is about; that takes 50 passes ("large"). Both are here, each with the line
search and with the open-loop step, for which alone Theorem 4 is proved.

Prints each row as it is measured, and writes it to delays_SECTION.csv; the machine's
facts are in delays_SECTION_machine.json beside it. `real` needs a core for each worker
and one for the server: workers beyond that are left out. Compiling is in no number.
"""

import argparse
import dataclasses
import math
from pathlib import Path

import numpy as np
from _book import Book, say
from _threads_cases import machine, ocr, run_for, warm

import wolfpack
from wolfpack import Delayed, Threads, theory
from wolfpack.delays import Workers, pareto, poisson
from wolfpack.engines.threads import count_cores

COLUMNS = {
    "case": "<16", "step": "<9", "delay": "<7", "workers": ">7d",
    "blocks": ">6d", "mean_delay": ">10.1f", "updates": ">9.1f", "error": ">7.1f",
    "ratio": ">6.3f", "ratio_error": ">11.3f", "calls": ">8.3f", "expected": ">8.3f",
    "predicted": ">9.4f", "measured": ">9.4f", "seconds": ">9.3f", "passes": ">7.1f",
    "server": ">7.3f", "standing": ">8.3f", "queue": ">6d", "gap": ">7.4f",
}  # fmt: skip
HARD, HARDER = (5, 15), (50, 150)
REAL_SECONDS = 0.8  # of each real run
SECONDS = 25.0  # that a simulated cluster may take here
STEP_SECONDS = 2e-6  # x (1 + tau): roughly an update of OCR words, on a busy core


def begin(folder: Path, section: str, title: str, *shown: str) -> Book:
    """Print the head of a table with these columns, and begin its file."""
    formats = {name: COLUMNS[name] for name in shown}
    book = Book(folder, f"delays_{section}", formats, machine())
    book.begin(section, title, shown)
    return book


def updates_to_gap(problem, engine, step, gap, seeds, check_every) -> np.ndarray:
    """Return how many updates each seed takes to the gap."""
    results = [
        wolfpack.solve(
            problem, engine=engine, step=step, tol=gap / problem.scale,
            max_epochs=10**5, check_every=check_every, rng=seed,
        )
        for seed in range(seeds)
    ]  # fmt: skip
    assert all(result.converged for result in results)
    return np.array([result.n_updates for result in results], float)


def run_figure(folder, fast) -> None:
    """Figure 4: what the expected delay costs."""
    seeds, means = (5, (20,)) if fast else (20, (1, 2, 5, 10, 20))
    noisy, _, _ = wolfpack.make_piecewise(100, 10)
    book = begin(
        folder, "figure", f"updates to gap 0.1, {seeds} seeds", "case", "step", "delay",
        "mean_delay", "updates", "error", "ratio", "ratio_error",
    )  # fmt: skip
    worst = 0.0
    for case, alpha, often in (("small, 0.01", 0.01, 0.02), ("large, 0.5", 0.5, 0.1)):
        problem = wolfpack.group_fused_lasso(noisy, alpha)
        for step in ("line", "open-loop"):
            how = (step, 0.1, seeds, often)
            none = updates_to_gap(problem, Delayed(0), *how)
            laws = [("none", 0, None)]
            laws += [(law.__name__, m, law) for law in (poisson, pareto) for m in means]
            for name, mean, law in laws:
                late = none
                if law is not None:
                    late = updates_to_gap(problem, Delayed(law(mean)), *how)
                error = late.std(ddof=1) / math.sqrt(seeds)
                ratio = late.mean() / none.mean()
                noise = none.std(ddof=1) / math.sqrt(seeds) / none.mean()
                worst = max(worst, ratio)
                book.add(
                    case=case, step=step, delay=name, mean_delay=mean,
                    updates=late.mean(), error=error, ratio=ratio,
                    ratio_error=ratio * math.hypot(error / late.mean(), noise),
                )  # fmt: skip
    say(f"at worst {worst:.2f} times the updates without delay (the paper: below 2)")


def run_collisions(folder, fast) -> None:
    """Proposition 1: calls per update of tau distinct blocks."""
    noisy, _, _ = wolfpack.make_piecewise(101, 2)
    problem = wolfpack.group_fused_lasso(noisy, 0.5)
    book = begin(
        folder, "collisions", "oracle calls per update, n = 100", "workers", "blocks",
        "updates", "calls", "expected", "ratio",
    )  # fmt: skip
    for tau in (1, 2, 5, 10, 20, 50, 80, 100):
        workers = Workers(tau, oracle_seconds=(0.5e-3, 1.5e-3))
        calls = theory.expected_calls(100, tau)
        result = wolfpack.solve(
            problem, engine=Delayed(workers=workers), batch_size=tau, step="open-loop",
            tol=0, max_epochs=calls * (20 if fast else 200), check_every=1e9, rng=0,
        )  # fmt: skip
        made = (result.n_oracle_calls - result.n_dropped) / result.n_updates
        book.add(
            workers=tau, blocks=tau, updates=result.n_updates, calls=made,
            expected=calls, ratio=made / calls,
        )  # fmt: skip


def run_real(folder, fast) -> None:
    """Compare simulated and real seconds per pass, three times each."""
    problem = ocr(0.01)
    workers = [T for T in (1, 2, 4, 8, 14) if count_cores() > T]
    warm(problem, [Threads(1, "server"), Delayed(0), Delayed(workers=Workers(1))])
    Workers.measured(problem, 1, seconds=0.1)
    book = begin(
        folder, "real", "seconds a pass over the OCR words, predicted and measured",
        "case", "workers", "predicted", "measured", "ratio", "server",
    )  # fmt: skip
    ratios = []
    for repeats in (HARDER, HARD):
        for T in workers:
            found = {1.0: [], 0.1: []}
            for _ in range(1 if fast else 3):
                like_here = Workers.measured(problem, T, oracle_repeats=repeats)
                for p, rounds in found.items():
                    rounds.append(foretell(problem, T, repeats, p, like_here))
            for p, rounds in found.items():
                predicted, measured, server = np.median(rounds, axis=0)
                ratios.append(predicted / measured)
                book.add(
                    case=f"{repeats[0]}-{repeats[1]}, p={p:g}", workers=T,
                    predicted=predicted, measured=measured, ratio=ratios[-1],
                    server=server,
                )  # fmt: skip
    say(f"predicted / measured: {min(ratios):.2f} to {max(ratios):.2f}")


def foretell(problem, T, repeats, p, like_here) -> tuple[float, float, float]:
    """Return seconds a pass, simulated and real, and how busy the server would be."""
    chance = (p, *[1.0] * (T - 1))
    mode = {"oracle_repeats": repeats, "return_probability": chance}
    real = run_for(problem, Threads(T, "server", **mode), T, REAL_SECONDS)
    straggling = dataclasses.replace(like_here, return_probability=chance)
    play = wolfpack.solve(
        problem, engine=Delayed(workers=straggling), batch_size=T, tol=0, max_epochs=2,
        check_every=1e9, rng=0,
    )  # fmt: skip
    predicted = play.simulated.seconds / play.epochs
    utilisation = play.simulated.server_utilisation
    return predicted, real.seconds / real.epochs, utilisation


def run_cluster(folder, fast) -> None:
    """Predict how long 1 to 1000 workers would take."""
    problem = ocr(0.01)
    book = begin(
        folder, "cluster", "predicted seconds to gap 0.01 on the OCR words", "workers",
        "blocks", "queue", "seconds", "passes", "gap", "mean_delay", "server",
        "standing",
    )  # fmt: skip
    cases = [(1, 1, 4), (10, 1, 40), (100, 1, 400), (100, 10, 400), (1000, 1, 100)]
    cases += [(1000, 100, 100), (1000, 100, 4000)]
    for T, tau, queue in cases[1:3] if fast else cases:
        workers = Workers(
            T, oracle_seconds=1e-3, message_seconds=5e-4, queue=queue,
            step_seconds=STEP_SECONDS * (1 + tau),
        )  # fmt: skip
        result = wolfpack.solve(
            problem, engine=Delayed(workers=workers), batch_size=tau, tol=0.01,
            max_epochs=1000, max_seconds=SECONDS, rng=0,
        )  # fmt: skip
        play = result.simulated
        book.add(
            workers=T, blocks=tau, queue=queue, passes=result.epochs,
            seconds=play.seconds if result.converged else math.nan,
            gap=result.relative_gap, mean_delay=result.delay.mean,
            server=play.server_utilisation, standing=1.0 - play.worker_utilisation,
        )  # fmt: skip


SECTIONS = {
    "figure": run_figure, "collisions": run_collisions, "real": run_real,
    "cluster": run_cluster,
}  # fmt: skip


def main() -> None:
    """Run the sections asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    here = Path(__file__).parent / "results"
    parser.add_argument("--sections", default=",".join(SECTIONS))
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--out", type=Path, default=here)
    asked = parser.parse_args()
    for name in asked.sections.split(","):
        SECTIONS[name](asked.out, asked.fast)


if __name__ == "__main__":
    main()

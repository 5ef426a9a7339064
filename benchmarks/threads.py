"""Threads against one thread, and against stragglers: ratios within one run.

    WOLFPACK_DATA=... python benchmarks/threads.py [--sections ocr,hard,...]
        [--workers 1,2,4,8,16] [--fast] [--out FOLDER]

ocr, hard, harder   seconds to gap 0.01 on the OCR words, with the oracle solved once,
                    5 to 15 and 50 to 150 times; steps per second
chains, conll       the same on long made-up chains, and on sparse text
apart               as many single threads as workers, which share nothing: no way to
                    use T threads makes more steps per second than these together
straggler, mixed    the paper's Figures 3a and 3b: seconds a pass where one worker, or
                    all to their own degree, lose what they solved
optima              every way to put threads together against minima known before

Prints each row as it is measured, and writes it to threads.csv; the machine's facts
are in threads_machine.json beside it. Compiling is in no number. All sections take
10 to 15 minutes on 16 cores, with --fast 90 s on 2, compiling not counted.
"""

import argparse
import math
import time
import traceback
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _book import Book, say
from _threads_cases import (
    APART,
    COLUMNS,
    RACE,
    Budget,
    conll,
    every_engine,
    judge,
    machine,
    ocr,
    optima,
    rates_apart,
    run_for,
    speech,
    time_to_gap,
    warm,
    wide,
)

from wolfpack import Serial, Sync, Threads
from wolfpack.datasets import DatasetError
from wolfpack.engines.threads import count_cores

# Seconds that each section may take, compiling and loading data apart.
BUDGETS = {
    "ocr": 40.0, "hard": 40.0, "harder": 60.0, "chains": 400.0, "conll": 90.0,
    "apart": 60.0, "straggler": 25.0, "mixed": 25.0, "optima": 250.0,
}  # fmt: skip
OCR_ALPHA = 0.01
HARD, HARDER = (5, 15), (50, 150)
LONGEST = 15.0  # seconds to a known minimum


class Race(NamedTuple):
    """How a problem is timed; `blocks` are fixed numbers of blocks a worker."""

    case: str
    tol: float
    repeats: tuple[int, int] = (1, 1)
    blocks: tuple[int, ...] = ()  # tried beside the automatic number
    from_workers: int = 2  # the least number of workers that try them
    n_seeds: int = 1

    def entrants(self, workers):
        """Yield engine, workers and blocks: single threads first, then many to few."""
        if self.repeats == (1, 1):
            yield Serial(), 1, None
        yield Threads(1, oracle_repeats=self.repeats), 1, None
        for T in reversed(workers):  # where time is short, small T are left out
            engine = Threads(T, oracle_repeats=self.repeats)
            for B in (None, *self.blocks) if T > 1 else ():
                if B is None or self.from_workers <= T:
                    yield engine, T, B


def race(book, budget, problem, workers, rules: Race) -> None:
    """Time all to the gap; speed-ups are over the best single thread so far."""
    single = wall = best = (math.inf, "")
    for engine, T, B in rules.entrants(workers):
        if budget.is_spent():
            break
        # A run that is slower than one thread is cut off.
        limit = min(budget.left if wall[1] else budget.left / 2, 1.5 * wall[0])
        batch = B and min(T * B, problem.n_blocks)
        goal = (rules.tol, limit, rules.n_seeds)
        result = time_to_gap(problem, engine, batch, *goal)
        name = "Serial" if isinstance(engine, Serial) else f"T={T} B={B or 'auto'}"
        if result.converged and T == 1:
            single = min(single, (result.seconds, name))
            wall = min(wall, (result.wall_seconds, name))
        elif result.converged:
            best = min(best, (result.seconds, name))
        comparable = result.converged and wall[1] != ""
        book.add(
            case=rules.case,
            engine=type(engine).__name__,
            workers=T,
            blocks=B or "auto",
            seconds=result.seconds,
            wall_seconds=result.wall_seconds,
            speedup=single[0] / result.seconds if comparable else math.nan,
            wall_speedup=wall[0] / result.wall_seconds if comparable else math.nan,
            passes=result.epochs,
            steps_per_second=result.n_oracle_calls / result.seconds,
            gap=result.relative_gap,
            kilobytes_per_worker=result.bytes_per_worker / 1e3,
            status=result.status.name,
        )
    if single[1] and best[1]:
        book.headline(
            f"{single[0] / best[0]:.2f} times as fast to gap {rules.tol} "
            f"({rules.case}): {best[0]:.3f} s, {best[1]}; "
            f"{single[0]:.3f} s, {single[1]}"
        )


def throughput(book, budget, problem, section, workers, seconds, blocks=(None,)):
    """Count steps per second without checks; ratios are over the best single one."""
    shown = ("case", "engine", "workers", "blocks", "steps_per_second", "ratio")
    shown += ("kilobytes_per_worker",)
    book.begin(section, "steps per second, no checks", shown)
    entrants = [(Serial(), 1, None)]
    entrants += [(Threads(T), T, B) for T in sorted({1, *workers}) for B in blocks]
    single, best = 0.0, (0.0, "")
    for engine, T, B in entrants:
        if budget.is_spent():
            break
        batch = B and min(T * B, problem.n_blocks)
        result = run_for(problem, engine, batch, seconds)
        rate = result.n_oracle_calls / result.seconds
        if T == 1:
            single = max(single, rate)
        else:
            best = max(best, (rate / single, f"T={T} B={B or 'auto'}"))
        book.add(
            case="throughput",
            engine=type(engine).__name__,
            workers=T,
            blocks=B or "auto",
            seconds=result.seconds,
            passes=result.epochs,
            steps_per_second=rate,
            ratio=rate / single,
            kilobytes_per_worker=result.bytes_per_worker / 1e3,
        )
    if best[1]:
        book.headline(f"{best[0]:.2f} times as many steps per second: {best[1]}")


def run_ocr(book, workers, fast, seconds) -> None:
    """Cheap oracle: about 1 us."""
    problem = ocr(OCR_ALPHA)
    warm(problem, [Serial(), Threads(2)])
    book.begin("ocr", f"{problem.n_blocks} words, alpha {OCR_ALPHA}", RACE)
    budget = Budget(seconds)
    blocks, n_seeds = ((8,), 1) if fast else ((4, 6, 8), 3)
    rules = Race("ocr", 0.01, blocks=blocks, n_seeds=n_seeds)
    race(book, budget, problem, workers, rules)
    throughput(book, budget, problem, "ocr", workers, 0.3 if fast else 1.0, (64,))


def run_hard(book, workers, fast, seconds) -> None:
    """Oracle of about 10 us."""
    problem, tol = ocr(OCR_ALPHA), 0.1 if fast else 0.01
    warm(problem, [Threads(2)])
    book.begin("hard", f"OCR, each subproblem solved {HARD} times", RACE)
    rules = Race("hard", tol, HARD, blocks=(4,) if fast else (2, 3, 4))
    race(book, Budget(seconds), problem, workers, rules)


def run_harder(book, workers, fast, seconds) -> None:
    """Oracle of about 100 us."""
    problem, tol = ocr(OCR_ALPHA), 0.4 if fast else 0.01
    warm(problem, [Threads(2)])
    book.begin("harder", f"OCR, each subproblem solved {HARDER} times", RACE)
    rules = Race("harder", tol, HARDER, blocks=(1, 4), from_workers=8)
    race(book, Budget(seconds), problem, workers, rules)


def run_chains(book, workers, fast, seconds) -> None:
    """Long chains of many labels: 60 to 100 us, and nothing is played."""
    n, budget = 500 if fast else 20_000, Budget(seconds)
    for case, make in (("speech", speech), ("wide", wide)):
        problem = make(n)
        warm(problem, [Serial(), Threads(2)])
        bytes_of_v = problem.shared.nbytes
        title = f"{n} chains of 100 to 300 positions, 50 labels; v has {bytes_of_v} B"
        book.begin("chains", title, RACE)
        rules = Race(case, 0.01, blocks=(1,), from_workers=8)
        race(book, budget, problem, workers, rules)


def run_conll(book, workers, fast, seconds) -> None:
    """Sparse text: v has 100,000 rows, of which a step touches a few hundred."""
    problems = conll((1e-2,) if fast else (1e-2, 1e-3))
    warm(problems[1e-2], [Serial(), Threads(2)])
    book.begin("conll", "8936 sentences, sparse", (*RACE, "kilobytes_per_worker"))
    budget = Budget(seconds)
    for alpha, problem in problems.items():
        n_seeds = 1 if fast else 3
        rules = Race(f"conll, a={alpha:g}", 0.05 if fast else 0.01, n_seeds=n_seeds)
        race(book, budget, problem, workers, rules)
    spell = 0.3 if fast else 1.0
    throughput(book, Budget(15.0), problems[1e-2], "conll", workers, spell)


def run_apart(book, workers, fast, seconds) -> None:
    """What the machine has to give: as many `Serial` as workers, each on its own."""
    T, budget = max(workers), Budget(seconds)
    shown = ("case", "engine", "workers", "steps_per_second", "ratio")
    book.begin("apart", f"{T} processes that share nothing, against one", shown)
    ratios = []
    for case in ("ocr", "speech") if fast else APART:
        if budget.is_spent():
            break
        spell = 0.5 if fast else 1.5
        rates = {count: sum(rates_apart(case, count, spell)) for count in (1, T)}
        for count, rate in rates.items():
            book.add(
                case=case,
                engine="Serial",
                workers=count,
                steps_per_second=rate,
                ratio=rate / rates[1],
            )
        ratios.append(f"{case} {rates[T] / rates[1]:.1f}")
    book.headline(f"{T} times one, sharing nothing: {', '.join(ratios)}")


def play(book, budget, problem, cases, T, spell) -> None:
    """Time a pass of workers that lose what they solved, each with its probability.

    The first case is the yardstick. `ideal` is T / sum(p): each reported update counts,
    from any worker. `slowest` is 1 / min(p): all workers wait for the slowest.
    """
    whole, worst = {}, {}
    for case, p in cases.items():
        settings = {"oracle_repeats": HARDER, "return_probability": tuple(p)}
        for engine, name in (
            (Threads(T, **settings), "merge"),
            (Threads(T, "server", **settings), "server"),
            (Sync(T, **settings), "Sync"),
        ):
            if budget.is_spent():
                break
            result = run_for(problem, engine, T, spell)
            reported = result.n_updates * T
            if name == "merge":
                reported = result.n_oracle_calls
            passes = reported / problem.n_blocks
            pace = result.seconds / max(passes, 1e-9)
            ratio = pace / whole.setdefault(name, pace)
            worst[name] = max(worst.get(name, 0.0), ratio)
            book.add(
                case=case,
                engine=name,
                workers=T,
                seconds=result.seconds,
                passes=passes,
                seconds_per_pass=pace,
                ratio=ratio,
                ideal=T / sum(p),
                slowest=1 / min(p),
            )
    text = ", ".join(f"{name} {ratio:.2f}" for name, ratio in worst.items())
    book.headline(f"{T} workers, seconds a pass at worst over none late: {text}")


PLAY = (
    "case", "engine", "workers", "passes", "seconds_per_pass", "ratio", "ideal",
    "slowest",
)  # fmt: skip


def run_straggler(book, workers, fast, seconds) -> None:
    """Figure 3a: one worker reports with probability p."""
    T = 14 if count_cores() >= 15 else max(2, count_cores())
    problem = ocr(OCR_ALPHA)
    warm(problem, [Threads(2), Threads(2, "server"), Sync(2)])
    chances = (1.0, 0.2, 0.05) if fast else (1.0, 0.5, 0.2, 0.1, 0.05)
    cases = {f"p={p:g}": [p] + [1.0] * (T - 1) for p in chances}
    book.begin("straggler", f"one of {T} workers reports with probability p", PLAY)
    play(book, Budget(seconds), problem, cases, T, 0.5 if fast else 1.0)


def run_mixed(book, workers, fast, seconds) -> None:
    """Figure 3b: worker i reports with probability min(1, theta + i/T)."""
    T = 14 if count_cores() >= 15 else max(2, count_cores())
    problem = ocr(OCR_ALPHA)
    warm(problem, [Threads(2), Threads(2, "server"), Sync(2)])
    thetas = (1.0, 0.5, 0.0) if fast else (1.0, 0.8, 0.5, 0.2, 0.0)
    ranks = np.arange(1, T + 1) / T
    cases = {f"theta={t:g}": np.minimum(1.0, t + ranks).tolist() for t in thetas}
    book.begin("mixed", f"worker i of {T} reports with p = min(1, theta + i/T)", PLAY)
    play(book, Budget(seconds), problem, cases, T, 0.5 if fast else 1.0)


def run_optima(book, workers, fast, seconds) -> None:
    """Every engine, against minima that another solver found."""
    cases = optima(fast)
    teams = workers[-1:] if fast else workers
    shown = ("case", "engine", "workers", "seconds", "passes", "gap", "rise", "status")
    for case in {case.problem.name: case for case in cases}.values():
        warm(case.problem, [engine for _, engine in every_engine(2)])
    book.begin("optima", "is the known minimum within the bounds?", (*shown, "verdict"))
    budget = Budget(seconds)
    counts = {"yes": 0}
    for case in cases:
        for T in teams:
            for name, engine in every_engine(T):
                if budget.is_spent():
                    break
                result = time_to_gap(case.problem, engine, None, case.tol, LONGEST)
                verdict, rise = judge(case, result)
                counts[verdict] = counts.get(verdict, 0) + 1
                book.add(
                    case=case.case,
                    engine=name,
                    workers=T,
                    seconds=result.seconds,
                    wall_seconds=result.wall_seconds,
                    passes=result.epochs,
                    gap=result.relative_gap,
                    rise=rise,
                    status=result.status.name,
                    verdict=verdict,
                )
    total = sum(counts.values())
    others = {name: count for name, count in counts.items() if name != "yes"}
    book.headline(f"{counts['yes']} of {total} runs as they should be {others or ''}")


SECTIONS = {
    "ocr": run_ocr, "hard": run_hard, "harder": run_harder, "chains": run_chains,
    "conll": run_conll, "apart": run_apart, "straggler": run_straggler,
    "mixed": run_mixed, "optima": run_optima,
}  # fmt: skip


def main() -> None:
    """Run the sections that were asked for, and sum up."""
    powers = [2**k for k in range(count_cores().bit_length())]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sections", default=",".join(SECTIONS))
    parser.add_argument("--workers", default=",".join(map(str, powers)))
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    chosen = options.sections.split(",")
    unknown = [name for name in chosen if name not in SECTIONS]
    if unknown:
        parser.error(
            f"no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}"
        )
    workers = sorted({int(T) for T in options.workers.split(",")})
    book = Book(options.out, "threads", COLUMNS, machine())
    say("\n".join(f"{name}: {fact}" for name, fact in machine().items()))
    for name in chosen:
        seconds = BUDGETS[name] * (0.35 if options.fast else 1.0)
        begin = time.perf_counter()
        try:
            SECTIONS[name](book, workers, options.fast, seconds)
        except DatasetError as error:
            say(f"\n{name}: left out, {error}")
        except Exception:  # go on with the other sections
            traceback.print_exc()
            book.headline(f"{name} FAILED, see above")
        say(f"({time.perf_counter() - begin:.0f} s, compiling included)")
    say("\nsummary")
    say("\n".join(book.headlines))


if __name__ == "__main__":
    main()

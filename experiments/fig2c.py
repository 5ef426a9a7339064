"""Figure 2c: speed-up against T with the best tau of each, our oracle of 1 us."""

from pathlib import Path

from _common import (
    FAILS,
    HOLDS,
    NOT_JUDGED,
    Experiment,
    Verdict,
    command_line,
    run,
    say,
)  # fmt: skip
from _race import MERGE, ONCE, SERVER, measure, panels
from _speedup import draw_speedups, entrants, in_words, levels, speedups

CASES = {(0.01, ONCE): (0.1, 10**-1.4, 0.01), (1.0, ONCE): (0.1, 0.01, 0.001)}
SECONDS = 50.0
SMALL_T = 4  # "near-linear for smaller T": at least three quarters of it here


def measure_all(fast, tell):
    """Race them."""
    goals = sorted({goal for goals in CASES.values() for goal in goals})
    teams = entrants(CASES, fast, (1, 3))
    return measure(teams, fast, goals, SECONDS, tell)


def judge(rows, facts) -> Verdict:
    """Say whether the speed-up is near linear up to a small T."""
    measured = in_words(rows, {1: "1 µs"})
    if facts["cores"] <= 8:
        return Verdict(NOT_JUDGED, measured, "It takes more than 8 cores.")
    near, merged = [], []
    for _, some in panels(rows):
        level = levels(some)[0]
        near += [s.ratio for s in speedups(some, SERVER, level) if s.workers == SMALL_T]
        merged += [s.ratio for s in speedups(some, MERGE, level)]
    if near and min(near) >= 0.75 * SMALL_T:
        return Verdict(HOLDS, measured)
    best = max(merged, default=0.0)
    return Verdict(
        FAILS, measured,
        "Our oracle takes 1 µs, a hundredth of the authors', so there is nothing to "
        "share out that costs more than sharing it: Algorithm 2 is slower than one "
        f"thread, and merge, which has no server, gains {best:.1f} at best. Figure 2d "
        "has the oracle at their cost.",
    )  # fmt: skip


EXPERIMENT = Experiment(
    name="fig2c",
    title="Figure 2c: speed-up against workers",
    claim="With the best τ among multiples of T, AP-BCFW speeds up nearly linearly for "
    "smaller T and tapers off for larger T; generous thresholds gain more.",
    setting="Structural SVM on all OCR words, our oracle of about 1 µs; τ out of T and "
    "3T. Seconds to f - f* over those of BCFW on one thread.",
    measure=measure_all,
    judge=judge,
    draw=draw_speedups,
)


def main(fast: bool, out: Path) -> dict:
    """Measure, judge and draw."""
    return run(EXPERIMENT, fast, out, say)


if __name__ == "__main__":
    command_line(main)

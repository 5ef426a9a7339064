"""Figure 3a: seconds an effective pass where one worker is slow."""

from _common import (
    FAILS,
    HOLDS,
    NOT_JUDGED,
    REMARK,
    Experiment,
    Verdict,
    command_line,
    runs,
)  # fmt: skip
from _straggler import ASYNC, MERGE, SYNC, draw, measure, slowdown, team_size

CHANCES = (1.0, 0.5, 0.2, 0.1, 0.05)
SECONDS = 25.0
UNCHANGED, LINEAR = 1.2, 0.5  # at most; at least, of the slow-down of the straggler


def measure_all(fast, tell):
    """Let worker 0 report with probability p, the others always."""
    T = team_size()
    chances = (1.0, 0.2) if fast else CHANCES
    cases = {p: [p] + [1.0] * (T - 1) for p in chances}
    return measure(cases, fast, SECONDS, tell)


def judge(rows, facts) -> Verdict:
    """Say whether a straggler slows down the synchronous algorithm alone."""
    p = min(row["x"] for row in rows)
    ratios = {name: slowdown(rows, name)[p][0] for name in (ASYNC, MERGE, SYNC)}
    measured = f"With one of {rows[0]['workers']} workers {1 / p:.0f} times slower, an "
    measured += "effective pass takes " + ", ".join(
        f"{ratio:.2f} times as long with {name}" for name, ratio in ratios.items()
    )
    measured += ". " + runs(rows, "algorithm", "x")
    if facts["cores"] < 15:
        return Verdict(NOT_JUDGED, measured, "It takes 15 cores for T = 14.")
    if max(ratios[ASYNC], ratios[MERGE]) > UNCHANGED:
        return Verdict(FAILS, measured, "The asynchronous pass did slow down.")
    if ratios[SYNC] >= LINEAR / p:
        return Verdict(HOLDS, measured)
    return Verdict(
        REMARK, measured,
        "The synchronous pass grows linearly, but by less than the straggler's own "
        "factor: meeting after each round takes time with no straggler, too.",
    )  # fmt: skip


EXPERIMENT = Experiment(
    name="fig3a",
    title="Figure 3a: one straggler",
    claim="With one straggler among 14 workers, the time per effective pass of AP-BCFW "
    "stays almost unchanged, while that of the synchronous SP-BCFW grows linearly with "
    "the straggler's slow-down 1/p.",
    setting="Structural SVM on all OCR words, each subproblem solved 50-150 times, "
    "τ = 10T; spells of 0.25 s; bars: least and most. τ = 10T was chosen so that the "
    "meetings of SP-BCFW cost little; with τ = T they rule a round, and hide much of "
    "the straggler (benchmarks/results/threads.csv).",
    measure=measure_all,
    judge=judge,
    draw=lambda rows: draw(rows, lambda p: 1 / p, "slow-down of the straggler, 1/p"),
)


if __name__ == "__main__":
    command_line(EXPERIMENT)

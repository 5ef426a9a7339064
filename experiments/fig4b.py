"""Figure 4b: what heavy-tailed Pareto delay costs in updates."""

from pathlib import Path

from _common import command_line, run, say
from _delay import experiment

from wolfpack.delays import pareto

EXPERIMENT = experiment("fig4b", pareto, "heavy-tailed Pareto")


def main(fast: bool, out: Path) -> dict:
    """Measure, judge and draw."""
    return run(EXPERIMENT, fast, out, say)


if __name__ == "__main__":
    command_line(main)

"""Figure 4a: what Poisson delay costs in updates."""

from pathlib import Path

from _common import command_line, run, say
from _delay import experiment

from wolfpack.delays import poisson

EXPERIMENT = experiment("fig4a", poisson, "Poisson")


def main(fast: bool, out: Path) -> dict:
    """Measure, judge and draw."""
    return run(EXPERIMENT, fast, out, say)


if __name__ == "__main__":
    command_line(main)

"""Figure 4b: what heavy-tailed Pareto delay costs in updates."""

from _common import command_line
from _delay import experiment

from wolfpack.delays import pareto

EXPERIMENT = experiment("fig4b", pareto, "heavy-tailed Pareto")


if __name__ == "__main__":
    command_line(EXPERIMENT)

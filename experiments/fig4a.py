"""Figure 4a: what Poisson delay costs in updates."""

from _common import command_line
from _delay import experiment

from wolfpack.delays import poisson

EXPERIMENT = experiment("fig4a", poisson, "Poisson")


if __name__ == "__main__":
    command_line(EXPERIMENT)

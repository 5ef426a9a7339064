"""What the server of a cluster has reported, over all of its lives."""

import logging
from typing import Any

import numpy as np

from wolfpack.engines.shared_memory.team import add_up
from wolfpack.result import Live, Traffic
from wolfpack.update.plan import make_progress, make_tallies

logger = logging.getLogger("wolfpack")


class Ledger:
    """Counts, delays and traffic; each start of the server has a row of its own."""

    def __init__(self) -> None:
        self.made = np.zeros(2, np.int64)  # the most updates and calls reported
        self.known: Any = make_progress()  # of the server since its last start
        self.tallies = make_tallies(0)
        self.traffic: list[tuple] = []
        self.n_live, self.n_restarts, self.unsaved = 0, 0, ""

    def begin(self, status: dict[str, Any]) -> None:
        """Open the row of a server that has begun."""
        self.known, self.n_live, self.n_restarts = make_progress(), 0, 0
        tallies = make_tallies(len(self.tallies) + 1)
        tallies[:-1] = self.tallies
        self.tallies = tallies
        self.traffic.append(status["traffic"])

    def note(self, progress: Any, status: dict[str, Any]) -> None:
        """Copy the counts of the server, which may die; give a run what is new."""
        now, known = status["progress"], self.known
        self.made = np.maximum(self.made, (now.updates, now.calls))
        progress.gap_sum += now.gap_sum - known.gap_sum
        progress.gaps_seen += now.gaps_seen - known.gaps_seen
        self.known = now
        self.tallies[-1], self.traffic[-1] = status["tally"], status["traffic"]
        self._tell(status)
        self.n_live, self.unsaved = status["workers"], status["unsaved"]
        self.n_restarts = status["restarts"]

    def _tell(self, status: dict[str, Any]) -> None:
        """Say what has gone wrong since the last status, in a sentence each."""
        if status["unsaved"] not in ("", self.unsaved):
            logger.warning("Ray: the checkpoint fails: %s.", status["unsaved"])
        if status["restarts"] > self.n_restarts:
            logger.warning("Ray: a worker died, and was started again.")
        if status["workers"] < self.n_live:
            logger.warning(
                "Ray: %d of %d workers are silent; the others go on.",
                self.n_live - status["workers"],
                self.n_live,
            )

    @property
    def live(self) -> Live:
        """The numbers of this moment, for callbacks."""
        tallies = self.tallies
        count = max(int(tallies.histogram.sum()), 1)
        delay = float(tallies.delays.sum() / count)
        return Live(self.n_live, delay, int(tallies.dropped.sum()))

    def report(self, chunk: int, tau: int) -> dict[str, Any]:
        """Return what a `Result` says of delays and messages."""
        messages, size, busy, lived = np.sum(self.traffic, axis=0).tolist()
        return {
            **add_up(self.tallies),
            "traffic": Traffic(
                chunk=chunk,
                batch_size=tau,
                n_messages=int(messages),
                n_bytes=int(size),
                server_utilisation=busy / max(lived, 1e-300),
            ),
        }

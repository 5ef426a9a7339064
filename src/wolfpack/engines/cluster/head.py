"""The head of a cluster (Ray's GCS), asked every second whether it is there.

Ray ends the process of a driver whose head has been silent for a minute, without an
exception. Server and workers go on meanwhile, so a run that looks has time to fetch x,
to leave the cluster, and to raise.
"""

import threading
from typing import Any

PAUSE_SECONDS = 1.0  # between two questions
ANSWER_SECONDS = 2.0
MISSES = 3  # questions without an answer, after which the head counts as lost
LOST = (
    "the head of the Ray cluster, at {}, does not answer. See gcs_server.out in the "
    "logs of Ray on that machine."
)


class Head:
    """The head, and what it says of the cluster."""

    def __init__(self, ray: Any) -> None:
        self.address = ray.get_runtime_context().gcs_address
        self.n_cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.misses = 0
        self._over = threading.Event()
        watch = threading.Thread(target=self._watch, name="wolfpack-head", daemon=True)
        watch.start()

    @property
    def is_lost(self) -> bool:
        """Whether the head has not answered several times."""
        return self.misses >= MISSES

    @property
    def sentence(self) -> str:
        """Say that it is lost."""
        return LOST.format(self.address)

    def close(self) -> None:
        """Ask no more."""
        self._over.set()

    def _watch(self) -> None:
        """Ask until all is over; a client that stays would let Ray end the process."""
        from ray import _raylet

        client = getattr(_raylet, "GcsClient")(address=self.address)  # noqa: B009
        while not (self.is_lost or self._over.wait(PAUSE_SECONDS)):
            try:
                self._read(client.get_all_node_info(timeout=ANSWER_SECONDS))
                self.misses = 0
            except Exception:
                self.misses += 1

    def _read(self, nodes: dict[Any, Any]) -> None:
        alive = [node for node in nodes.values() if node.state == 0]
        cores = sum(node.resources_total.get("CPU", 0.0) for node in alive)
        self.n_cores = max(1, int(cores))

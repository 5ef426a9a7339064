"""One Ray for all runs of this process, which enter it and leave it.

Ray knows one cluster a process. The first run starts or joins one, runs beside it share
it, and the last one to leave shuts it down; a Ray that the program had before is used
and never shut down.
"""

import subprocess
import threading
from typing import Any, NamedTuple

from wolfpack.engines import cluster, watchdog

_lock = threading.Lock()
_users = 0
_ours: "Lease | None" = None  # the Ray that the last run is to shut down
_dog: subprocess.Popen | None = None


class Lease(NamedTuple):
    """What a run that is in a cluster knows of it."""

    name: tuple  # its address, and the job there: no other Ray has the same
    alone: bool  # whether no other run of this process was in it


def enter(ray: Any, address: str | None, n_workers: int | None) -> Lease:
    """Be in a cluster; start or join one, if this process is in none."""
    global _users, _ours, _dog
    with _lock:
        if ray.is_initialized():
            cluster.refuse_another(ray, address, busy=_users > 0)
        else:
            try:
                cluster.connect(ray, address, n_workers)
            except BaseException:
                ray.shutdown()
                raise
            watchdog.stop(_dog)
            _dog = watchdog.start(ray) if address is None else None
            _ours = Lease(_name(ray), True)
        _users += 1
        return Lease(_name(ray), _users == 1)


def leave(ray: Any) -> None:
    """Leave it; the last run shuts down what the first one started."""
    global _users, _ours, _dog
    with _lock:
        _users -= 1
        if _users > 0:
            return
        if holds(ray, _ours):
            ray.shutdown()
        watchdog.stop(_dog)
        _ours = _dog = None


def holds(ray: Any, lease: Lease | None) -> bool:
    """Return whether this process is still in the cluster of a lease."""
    return lease is not None and ray.is_initialized() and _name(ray) == lease.name


def _name(ray: Any) -> tuple:
    context = ray.get_runtime_context()
    return context.gcs_address, context.get_job_id()

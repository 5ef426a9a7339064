"""One Ray for all runs of this process, which enter it and leave it.

Ray allows one cluster a process. The first run starts or joins one, runs beside it
share it, and the last one to leave shuts it down; a Ray that the program had before is
used and never shut down.
"""

import subprocess
import threading
from typing import Any, NamedTuple

from wolfpack.engines.cluster import connect, noise, watchdog
from wolfpack.run.interrupt import Held

LEAVE_SECONDS = 9.0  # to leave a cluster whose head is lost; usually it takes 7

_lock = threading.Lock()
_users = 0
_ours: "Lease | None" = None  # the Ray that the last run is to shut down
_dog: subprocess.Popen | None = None
_over = threading.Event()  # ends the thread that started Ray


class Lease(NamedTuple):
    """The cluster that a run has entered."""

    name: tuple  # the address and the job, which together are unique
    alone: bool  # whether no other run of this process was in the cluster then


def enter(ray: Any, address: str | None, n_workers: int | None) -> Lease:
    """Enter the cluster of this process; start or join one if it has none."""
    global _users, _ours, _dog, _over
    with _lock:
        if ray.is_initialized():
            connect.refuse_another(ray, address, busy=_users > 0)
        else:
            _release()
            _over = threading.Event()
            try:
                _connect(_over, ray, address, n_workers)
            except BaseException:
                ray.shutdown()
                _over.set()
                raise
            _dog = watchdog.start(ray) if address is None else None
            noise.hide(ray)
            _ours = Lease(_name(ray), True)
        _users += 1
        return Lease(_name(ray), _users == 1)


def leave(ray: Any, in_time: bool = False) -> None:
    """Leave the cluster; the last run shuts down what the first one started.

    Ray asks a head that is lost for some seconds, or for ever; `in_time` limits that.
    """
    global _users
    with _lock:
        _users -= 1
        if _users > 0:
            return
        if holds(ray, _ours) and in_time:
            ending = threading.Thread(target=ray.shutdown, daemon=True)
            ending.start()
            ending.join(LEAVE_SECONDS)
        elif holds(ray, _ours):
            ray.shutdown()
        _release()


def holds(ray: Any, lease: Lease | None) -> bool:
    """Return whether this process is still in the cluster of a lease."""
    return lease is not None and ray.is_initialized() and _name(ray) == lease.name


def _connect(over: threading.Event, ray: Any, *where: Any) -> None:
    """Start or join a cluster, in a thread that lives until the event is set.

    Linux ends the processes of a local Ray with the thread that started them, and the
    run in that thread may end before the other runs do. In the main thread Ray would
    handle SIGTERM while it starts, and end the program with half a cluster behind it;
    so signals wait here until the cluster is there.
    """
    ready = threading.Event()
    failed: list[BaseException] = []

    def keep() -> None:
        try:
            connect.connect(ray, *where)
            if over.is_set():  # a second signal, and no run waits any more
                ray.shutdown()
        except BaseException as error:
            failed.append(error)
            over.set()
        ready.set()
        over.wait()

    with Held():
        threading.Thread(target=keep, name="wolfpack-ray", daemon=True).start()
        ready.wait()
        if failed:
            raise failed[0]


def _release() -> None:
    """End the thread and the watchdog of a Ray that was shut down."""
    global _ours, _dog
    noise.show()
    _over.set()
    watchdog.stop(_dog)
    _ours = _dog = None


def _name(ray: Any) -> tuple:
    context = ray.get_runtime_context()
    return context.gcs_address, context.get_job_id()

"""A process that ends the agents of a local Ray, also when the driver is killed.

Ray's own processes end with the driver or at its word, except two agents of the raylet,
which try for a minute to reach a cluster that has died. This file is run as a script,
with the ids of the driver and of the agents; pidfds make sure that no later process of
the same id is hit.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any


def start(ray: Any) -> subprocess.Popen | None:
    """Watch over the Ray that this process started; None where there are no pidfds."""
    agents = _children(_raylet(ray))
    if not agents or not hasattr(os, "pidfd_open"):
        return None
    words = [sys.executable, "-I", "-S", __file__, os.getpid(), *agents]
    nowhere = subprocess.DEVNULL
    with contextlib.suppress(OSError):
        return subprocess.Popen(
            [str(word) for word in words],
            stdin=nowhere,
            stdout=nowhere,
            stderr=nowhere,
            start_new_session=True,  # so that Ctrl-C in a terminal does not end it
        )
    return None


def stop(dog: subprocess.Popen | None) -> None:
    """Let the watchdog end what is left of its Ray, which has been shut down."""
    if dog is not None:
        dog.terminate()
        dog.wait()


def _raylet(ray: Any) -> int:
    """Return the id of the raylet that this process started, or 0."""
    node = getattr(ray._private.worker, "_global_node", None)
    found = getattr(node, "all_processes", {}).get("raylet", [])
    return found[0].process.pid if found else 0


def _children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*") if parent else ():
        with contextlib.suppress(OSError):  # the process ended meanwhile
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(stat[1]) == parent:
                found.append(int(entry.name))
    return found


def watch(driver: int, agents: list[int]) -> None:
    """Wait until the driver has ended, or a SIGTERM comes, then end its agents."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    gone = contextlib.suppress(ProcessLookupError)
    doors = []
    for pid in agents:
        with gone:
            doors.append(os.pidfd_open(pid))
    with gone, contextlib.suppress(KeyboardInterrupt):
        door = os.pidfd_open(driver)
        if os.getppid() == driver:
            select.select([door], [], [])
    for door in doors:
        with gone:
            signal.pidfd_send_signal(door, signal.SIGKILL)


if __name__ == "__main__":
    watch(int(sys.argv[1]), [int(word) for word in sys.argv[2:]])

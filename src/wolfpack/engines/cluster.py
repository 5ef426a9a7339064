"""How the driver gets into a Ray cluster, or starts one, and hears from it."""

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

from wolfpack.result import EngineError

CONNECT_SECONDS = 18.0
OPEN = (
    "this Ray cluster has {} hosts and lets everybody in; on each, before `ray start`:"
    "\n    export RAY_AUTH_MODE=token"
    "\n    export RAY_AUTH_TOKEN_PATH=/path/to/the/same/token"
)
MISSING = "Ray is not installed; pip install 'wolfpack[ray]'."


def import_ray() -> Any:
    """Return the module, or say how to get it."""
    try:
        import ray
    except ImportError as error:
        raise ImportError(MISSING) from error
    return ray


def connect(ray: Any, address: str | None, n_workers: int | None) -> None:
    """Join the cluster at `address`; without one, start Ray on this machine."""
    quiet = {"logging_level": "ERROR", "log_to_driver": False}
    if address is None:
        # Its processes find the modules that this one finds.
        places = os.pathsep.join(place or os.getcwd() for place in sys.path)
        with _environment(RAY_USAGE_STATS_ENABLED="0", PYTHONPATH=places):
            ray.init("local", num_cpus=n_workers, include_dashboard=False, **quiet)
        return
    _knock(address)
    failed: list[BaseException] = []

    def enter() -> None:
        try:
            ray.init(address=address, **quiet)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    thread.join(CONNECT_SECONDS)
    if thread.is_alive() or failed:
        why = failed[0] if failed else f"no answer in {CONNECT_SECONDS:.0f} s"
        raise ConnectionError(
            f"cannot join the Ray cluster at {address} ({why}); is the token "
            "(RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH) the one of the cluster?"
        )
    refuse_open(ray)


def count_hosts(ray: Any) -> int:
    """Return how many machines the cluster has."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    return len({node["NodeManagerAddress"] for node in nodes})


def is_guarded() -> bool:
    """Return whether only those who know a token may join."""
    return os.environ.get("RAY_AUTH_MODE", "").lower() == "token"


def refuse_open(ray: Any) -> None:
    """Refuse a cluster of several machines that lets everybody in."""
    hosts = count_hosts(ray)
    if hosts > 1 and not is_guarded():
        raise PermissionError(OPEN.format(hosts))


def refuse_another(ray: Any, address: str | None) -> None:
    """Refuse an address that is not that of the cluster this process is in."""
    here = ray.get_runtime_context().gcs_address
    if address not in (None, "auto", here):
        raise ValueError(
            f"address is {address!r}, but this process is in the Ray cluster at "
            f"{here} already; call ray.shutdown() first, or leave the address out."
        )
    refuse_open(ray)


def stay_here(ray: Any, checkpoint: Any) -> Any:
    """Keep the server on this machine: firmly if its checkpoint is here alone."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = ray.get_runtime_context().get_node_id()
    return NodeAffinitySchedulingStrategy(here, soft=checkpoint is not None)


def _knock(address: str) -> None:
    """Refuse an address where nobody listens, before Ray tries for a long time."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto":
        return
    if not (host and port.isdigit()):
        raise ValueError(f"address must be like '10.0.0.1:6379', not {address!r}.")
    try:
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except OSError as error:
        raise ConnectionError(
            f"nobody answers at {address} ({error}); start Ray there: ray start --head"
        ) from error


def fetch(thing: list) -> Any:
    """Return what a list holds: a reference, which it hides from Ray, or the thing."""
    from ray import ObjectRef, get

    return get(thing[0]) if isinstance(thing[0], ObjectRef) else thing[0]


def result_of(ray: Any, ref: Any) -> Any:
    """Return what a call returned; say in one line what it raised."""
    from ray.exceptions import RayTaskError

    try:
        return ray.get(ref)
    except RayTaskError as error:
        raise EngineError(
            f"a process of the cluster failed: {last_line(error)}"
        ) from error


def last_line(error: BaseException) -> str:
    """Return what was raised; Ray puts the traceback before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


@contextlib.contextmanager
def _environment(**names: str) -> Iterator[None]:
    """Set variables for the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

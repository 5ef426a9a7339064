"""How the driver joins or starts a Ray cluster, and waits for its answers."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from wolfpack.engines.cluster.tls import CERTIFICATES, check_certificates
from wolfpack.result import EngineError
from wolfpack.run.interrupt import same_handler

__all__ = ["CERTIFICATES", "check_certificates", "connect", "import_ray"]

CONNECT_SECONDS = 18.0
ANSWER_SECONDS = 300.0  # a server that is silent for longer counts as lost
HURRY_SECONDS = 5.0  # the same, after Ctrl-C or SIGTERM
LOOK_SECONDS = 5.0  # for the head to say which machines it has
PROBE_SECONDS = 30.0  # to start a Python and to ask a cluster one question
QUIET = {"logging_level": "ERROR", "log_to_driver": False}
# A second Python, which has no token, runs this; its last line is the answer.
PROBE = """
import sys
from ray._raylet import GcsClient
from ray.exceptions import AuthenticationError
try:
    GcsClient(address=sys.argv[1]).internal_kv_keys(b"", b"wolfpack", timeout=10)
    print("open")
except AuthenticationError:
    print("guarded")
except Exception as error:
    print(str(error) or type(error).__name__)
"""
OPEN = (
    "this Ray cluster has {} hosts and asks for no token; on each, before `ray start`:"
    "\n    export RAY_AUTH_MODE=token"
    "\n    export RAY_AUTH_TOKEN_PATH=/path/to/the/same/token"
)
MISSING = "Ray is not installed; pip install ray."


def import_ray() -> Any:
    """Return the module `ray`, or say how to install it."""
    try:
        import ray
    except ImportError as error:
        raise ImportError(MISSING) from error
    return ray


def connect(ray: Any, address: str | None, n_workers: int | None) -> None:
    """Join the cluster at `address`; without one, start Ray on this machine.

    Ray sets RAY_AUTH_MODE while it joins; it is restored, because the next cluster may
    need another value. So is the handler of SIGTERM, which Ray sets, too.
    """
    check_certificates()
    with _environment(RAY_AUTH_MODE=None), same_handler():
        if address is None:
            _start(ray, n_workers)
        else:
            _knock(address)
            _refuse_stranger(address)
            _join(ray, address)
            refuse_open(ray)


def _start(ray: Any, n_workers: int | None) -> None:
    with _environment(RAY_USAGE_STATS_ENABLED="0", PYTHONPATH=_places()):
        try:
            ray.init("local", num_cpus=n_workers, include_dashboard=False, **QUIET)
        except Exception as error:
            raise EngineError(
                f"Ray could not be started on this machine: {last_line(error)}"
            ) from error


def _join(ray: Any, address: str) -> None:
    failed: list[BaseException] = []
    late = threading.Event()

    def enter() -> None:
        try:
            ray.init(address=address, **QUIET)
            if late.is_set():  # the caller has given up waiting
                ray.shutdown()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    thread.join(CONNECT_SECONDS)
    if thread.is_alive() or failed:
        late.set()
        why = failed[0] if failed else f"no answer in {CONNECT_SECONDS:.0f} s"
        raise ConnectionError(
            f"cannot join the Ray cluster at {address} ({why}); is the token "
            "(RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH) the one of the cluster?"
        )


def count_hosts(ray: Any) -> int:
    """Return how many machines the cluster has."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    return len({node["NodeManagerAddress"] for node in nodes})


def is_guarded(ray: Any) -> bool:
    """Ask the cluster whether only those who know its token may join."""
    address = ray.get_runtime_context().gcs_address
    secrets = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    stranger = {k: v for k, v in os.environ.items() if k not in secrets}
    stranger |= {"RAY_AUTH_MODE": "disabled", "PYTHONPATH": _places()}
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROBE, address], env=stranger, text=True,
            capture_output=True, timeout=PROBE_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        said = done.stdout.strip() or done.stderr.strip()
    except subprocess.TimeoutExpired:
        said = f"no answer in {PROBE_SECONDS:.0f} s"
    answer = said.splitlines()[-1] if said else "no answer"
    if answer not in ("open", "guarded"):
        raise ConnectionError(
            f"cannot tell whether the Ray cluster at {address} asks for a token: "
            f"{answer}."
        )
    return answer == "guarded"


def refuse_open(ray: Any) -> None:
    """Refuse a cluster of several machines that asks for no token."""
    hosts = count_hosts(ray)
    if hosts > 1 and not is_guarded(ray):
        raise PermissionError(OPEN.format(hosts))


def refuse_another(ray: Any, address: str | None, busy: bool = False) -> None:
    """Refuse an address that is not that of the cluster this process is in."""
    here = ray.get_runtime_context().gcs_address
    if address not in (None, "auto", here):
        way = "wait for the run that uses it" if busy else "call ray.shutdown() first"
        raise ValueError(
            f"address is {address!r}, but this process is in the Ray cluster at "
            f"{here} already; {way}, or leave the address out."
        )
    refuse_open(ray)


def stay_here(ray: Any) -> Any:
    """Return how Ray is to keep the server on this machine.

    Its checkpoint is on a disk of this machine, which others may not share. There would
    be nothing gained elsewhere: the driver, which is here, does not outlive it.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = ray.get_runtime_context().get_node_id()
    return NodeAffinitySchedulingStrategy(here, soft=False)


def _knock(address: str) -> None:
    """Refuse an address that no process listens at; Ray would try for a long time."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal() and int(port) < 2**16):
        raise ValueError(f"address must be like '10.0.0.1:6379', not {address!r}.")
    try:
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except (OSError, UnicodeError) as error:
        raise ConnectionError(
            f"no process answers at {address} ({error}); start Ray there: ray start "
            "--head"
        ) from error


def _refuse_stranger(address: str) -> None:
    """Refuse a machine on which no process of the cluster runs.

    A driver speaks to the raylet of its own machine by a socket in the file system.
    Without one Ray waits for half a minute, and may then end the process.
    """
    from ray import _raylet

    try:
        client = getattr(_raylet, "GcsClient")(address=address)  # noqa: B009
        nodes = client.get_all_node_info(timeout=LOOK_SECONDS).values()
    except Exception:  # no token, or the wrong one: `_join` says so
        return
    alive = [node for node in nodes if node.state == 0]
    if alive and not any(os.path.exists(node.raylet_socket_name) for node in alive):
        names = ", ".join(sorted({node.node_manager_address for node in alive})[:5])
        raise ConnectionError(
            f"this machine is not in the Ray cluster at {address}, whose machines are "
            f"{names}; run `ray start --address {address}` here, or start the script "
            "on one of them."
        )


def fetch(thing: list) -> Any:
    """Return the only item of a list, or the object that it refers to.

    Ray replaces a reference among the arguments of a call by its object before the
    call; it does not look into lists.
    """
    from ray import ObjectRef, get

    return get(thing[0]) if isinstance(thing[0], ObjectRef) else thing[0]


def result_of(ray: Any, ref: Any) -> Any:
    """Return what a call returned; raise what it raised, told in one line."""
    from ray.exceptions import RayTaskError

    try:
        return ray.get(ref)
    except RayTaskError as error:
        raise EngineError(
            f"a process of the cluster failed: {last_line(error)}"
        ) from error


def await_answer(
    ray: Any, call: Any, hurry: Callable[[], bool], look: Callable[[], None]
) -> Any:
    """Return the server's answer.

    Waiting ends after ANSWER_SECONDS, or after HURRY_SECONDS if `hurry()` is true, or
    when `look()` raises.
    """
    begin = time.monotonic()
    limit = begin + ANSWER_SECONDS
    while True:
        done, _ = ray.wait([call], timeout=0.5)
        if done:
            return result_of(ray, call)
        look()
        now = time.monotonic()
        if now > begin + HURRY_SECONDS and hurry():
            limit = now
        if now >= limit:
            raise EngineError(
                f"the server has not answered for {now - begin:.0f} s. Ray's processes "
                "have a low priority, so busy programs slow them down; start Ray with "
                "RAY_worker_niceness=0 in its environment to give them their share."
            )


def last_line(error: BaseException) -> str:
    """Return the last line of a message; Ray puts the traceback before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


@contextlib.contextmanager
def carrying(state: Any) -> Iterator[None]:
    """Give every error of the cluster the last state that reached the driver."""
    from ray.exceptions import RayError

    try:
        yield
    except EngineError as error:
        if error.state is None:
            error.state = state
        raise
    except RayError as error:
        raise EngineError(f"the cluster failed: {last_line(error)}", state) from error


def _places() -> str:
    """Return the module search path, for the processes that this one starts."""
    return os.pathsep.join(place or os.getcwd() for place in sys.path)


@contextlib.contextmanager
def _environment(**names: str | None) -> Iterator[None]:
    """Set the variables that are not None; restore all of them at the end."""
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({k: v for k, v in names.items() if v is not None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

"""Several runs in one Ray, and a Ray that goes away under a run."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from limits import HANG_SECONDS
from played import assert_sound, children, lasso

from wolfpack import EngineError, Ray, Status, solve
from wolfpack.engines.cluster import connect, lease, watchdog

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'wolfpack[ray]'")

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray's log files
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
FOREVER = {"tol": 0, "max_epochs": np.inf, "max_seconds": HANG_SECONDS}


# Who shuts down what, without Ray.


class PlayedRay:
    """A Ray that notes what is done with it."""

    def __init__(self):
        self.number, self.is_up, self.log = 0, False, []

    def is_initialized(self):
        return self.is_up

    def start(self):
        assert not self.is_up
        self.is_up = True
        self.number += 1

    def shutdown(self):
        self.log.append(self.number if self.is_up else "nothing")
        self.is_up = False

    def get_runtime_context(self):
        assert self.is_up
        number = self.number
        return SimpleNamespace(gcs_address=f"10.0.0.1:{number}", get_job_id=lambda: 1)


@pytest.fixture
def played(monkeypatch):
    monkeypatch.setattr(connect, "connect", lambda ray, address, count: ray.start())
    monkeypatch.setattr(connect, "count_hosts", lambda ray: 1)
    monkeypatch.setattr(watchdog, "start", lambda ray: None)
    return PlayedRay()


def test_the_last_run_shuts_down_what_the_first_one_started(played):
    first, second = (lease.enter(played, None, 1) for _ in range(2))
    assert (first.alone, second.alone) == (True, False)
    lease.leave(played)
    assert played.log == []
    assert lease.holds(played, second)
    third = lease.enter(played, None, 1)
    assert third.name == first.name
    for _ in range(2):
        assert played.log == []
        lease.leave(played)
    assert played.log == [1]
    assert lease.enter(played, None, 1).name != first.name
    lease.leave(played)
    assert played.log == [1, 2]


def test_a_ray_of_the_program_is_never_shut_down(played):
    played.start()
    assert lease.enter(played, None, 1).alone
    lease.leave(played)
    assert played.log == []
    played.shutdown()
    mine = lease.enter(played, None, 1)
    played.shutdown()  # by the program, which then starts its own
    played.start()
    assert not lease.holds(played, mine)
    lease.leave(played)
    assert played.log == [1, 2]
    assert played.is_up


def test_another_address_while_a_run_is_in_a_cluster(played):
    lease.enter(played, None, 1)
    with pytest.raises(ValueError, match=r"at 10\.0\.0\.1:1 already; wait for the run"):
        lease.enter(played, "10.0.0.9:6379", 1)
    lease.enter(played, "10.0.0.1:1", 1)
    for _ in range(2):
        lease.leave(played)
    assert played.log == [1]


def test_a_ray_that_does_not_start_is_no_lease(played, monkeypatch):
    def fail(ray, address, count):
        raise ConnectionError("no process answers")

    with monkeypatch.context() as patch:
        patch.setattr(connect, "connect", fail)
        with pytest.raises(ConnectionError):
            lease.enter(played, "10.0.0.9:6379", 1)
    assert lease.enter(played, None, 1).alone
    lease.leave(played)
    assert played.log == ["nothing", 1]


def test_many_runs_come_and_go(played):
    seen = []

    def work():
        for _ in range(50):
            held = lease.enter(played, None, 1)
            seen.append(lease.holds(played, held))
            lease.leave(played)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(seen)
    assert len(seen) == 400
    assert played.log == [*range(1, played.number + 1)]


def test_every_fault_of_the_cluster_carries_the_state():
    from ray.exceptions import GetTimeoutError

    for error in (EngineError("no"), GetTimeoutError("no")):
        with pytest.raises(EngineError, match="no") as caught, connect.carrying("x"):
            raise error
        assert caught.value.state == "x"
    with pytest.raises(EngineError) as caught, connect.carrying("x"):
        raise EngineError("no", "y")
    assert caught.value.state == "y"
    with pytest.raises(ValueError, match="mine"), connect.carrying("x"):
        raise ValueError("mine")


# With Ray.


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="finds processes in /proc"
)


def run_side_by_side(engine):
    """Let one run end while another one is in the same Ray, and goes on."""
    begun, ended, found, problem = threading.Event(), threading.Event(), {}, lasso()

    def watch_long(event):
        begun.set()
        calls = event.row.n_oracle_calls
        if ended.is_set():
            found.setdefault("calls", calls)
        if calls <= found.get("calls", np.inf) + 2000:
            return False
        found["names"] = " ".join(children(os.getpid()).values())
        return True

    def work(name, callback):
        try:
            found[name] = solve(problem, engine=engine, callback=callback, **FOREVER)
        except BaseException as error:
            found[name] = error

    short = threading.Thread(target=work, args=("short", lambda _: begun.is_set()))
    long = threading.Thread(target=work, args=("long", watch_long))
    short.start()
    while short.is_alive() and lease._users == 0:  # until it is in, and maybe the owner
        time.sleep(0.01)
    long.start()
    short.join()  # the kernel ends what this thread started
    ended.set()
    long.join()
    for name in ("short", "long"):
        assert getattr(found[name], "status", None) is Status.STOPPED, found[name]
        assert_sound(problem, found[name].state)
    assert "gcs_server" in found["names"]
    assert "raylet" in found["names"]


@needs_proc
def test_two_runs_at_once_share_a_ray_that_ends_with_them(monkeypatch):
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    run_side_by_side(Ray(n_workers=1))
    assert not ray.is_initialized()
    assert "RAY_AUTH_MODE" not in os.environ


@pytest.mark.slow
def test_a_ray_that_is_shut_down_during_a_run():
    def callback(event):
        if event.row.n_oracle_calls > 500:
            ray.shutdown()

    problem = lasso()
    with pytest.raises(EngineError, match=r"called ray\.shutdown\(\) during") as caught:
        solve(problem, engine=Ray(n_workers=1), callback=callback, **FOREVER)
    assert_sound(problem, caught.value.state)
    assert not ray.is_initialized()


@pytest.fixture(scope="module")
def local():
    """A Ray of this module, as if the program had started it."""
    connect.connect(ray, None, 1)
    yield
    ray.shutdown()


@pytest.mark.slow
@needs_proc
def test_two_runs_at_once_in_a_ray_of_the_program(local):
    run_side_by_side(Ray())
    assert ray.is_initialized()


def test_a_cluster_that_asks_for_a_token(local, monkeypatch):
    monkeypatch.setattr(connect, "count_hosts", lambda ray: 2)
    connect.refuse_open(ray)  # it was started with one
    assert "RAY_AUTH_MODE" not in os.environ


def test_a_probe_that_fails_is_no_answer(local, monkeypatch):
    monkeypatch.setattr(connect, "count_hosts", lambda ray: 2)
    monkeypatch.setattr(connect, "PROBE", "raise SystemExit('no such thing')")
    with pytest.raises(ConnectionError, match=r"asks for a token: no such thing\."):
        connect.refuse_open(ray)


OPEN = """
import os, ray
os.environ["RAY_AUTH_MODE"] = "disabled"
ray.init("local", num_cpus=1, include_dashboard=False, logging_level="ERROR")
os.environ["RAY_AUTH_MODE"] = "token"  # says this process, and not the cluster
from wolfpack.engines.cluster import connect
connect.count_hosts = lambda ray: 2
try:
    connect.refuse_open(ray)
except PermissionError as error:
    print(error)
ray.shutdown()
"""


@pytest.mark.slow
def test_an_open_cluster_is_refused_whatever_this_process_says():
    done = subprocess.run([sys.executable, "-c", OPEN], capture_output=True, text=True,
                          timeout=HANG_SECONDS)  # fmt: skip
    assert "has 2 hosts and asks for no token" in done.stdout, done.stderr

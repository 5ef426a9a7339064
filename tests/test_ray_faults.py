"""The cluster goes on whichever process is killed, and leaves no process behind."""

import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from accelerated import assert_fits
from limits import HANG_SECONDS
from played import assert_certified, assert_sound, children, is_alive, lasso, sleepy

from wolfpack import EngineError, Ray, State, Status, solve
from wolfpack.engines.cluster import connect, folder
from wolfpack.engines.cluster.driver import RaySession
from wolfpack.engines.cluster.fleet import Fleet

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'wolfpack[ray]'")

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray's log files
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="finds processes in /proc"
    ),
]

FOREVER = {"tol": 0, "max_epochs": np.inf, "max_seconds": HANG_SECONDS}


@pytest.fixture(scope="module")
def local():
    """A Ray of this module, of two cores."""
    connect.connect(ray, None, 2)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    ray.shutdown()


def kill_one(name):
    found = [pid for pid, title in children(os.getpid()).items() if name in title]
    assert found, f"there is no process {name}"
    os.kill(random.choice(found), signal.SIGKILL)


class Killer:
    """A callback: it kills the next process on its list whenever calls were made."""

    def __init__(self, todo, tol):
        self.todo, self.tol, self.calls = [*todo], tol, 0

    def __call__(self, event):
        calls = event.row.n_oracle_calls
        if calls <= self.calls + 3000:
            return False
        if self.todo:
            kill_one(self.todo.pop(0))
            self.calls = calls
            return False
        return event.checked and event.relative_gap <= self.tol


def survive(todo, n):
    """Solve while processes are killed; compare with one thread."""
    problem, tol = lasso(n), 1e-3
    reference = solve(problem, accelerate=False, tol=tol, max_epochs=10**5, rng=0)
    killer = Killer(todo, tol)
    engine = Ray(n_workers=2, checkpoint_seconds=0.5)
    result = solve(problem, engine=engine, callback=killer, **FOREVER)
    assert result.status is Status.STOPPED, (killer.todo, result)
    assert result.relative_gap <= tol
    for row in result.trace:
        assert row.objective >= reference.lower_bound - 1e-9
        assert row.lower_bound <= reference.objective + 1e-9
    assert_certified(result, n)
    if result.state.outer is None:
        assert_sound(problem, result.state)
    else:
        assert_fits(problem, result.state)
    calls = [row.n_oracle_calls for row in result.trace]
    assert calls == sorted(calls)


WORKER, SERVER = "ray::WorkerActor", "ray::ServerActor"


def test_it_survives_the_death_of_worker_and_server(local, monkeypatch, caplog):
    begin, sessions = RaySession._begin, []

    def note(self, run):
        sessions.append(self)
        begin(self, run)

    monkeypatch.setattr(RaySession, "_begin", note)
    with caplog.at_level(logging.WARNING, "wolfpack"):
        survive([WORKER, SERVER, WORKER], n=500)
    assert len(sessions) == 2
    assert sessions[0].restarted_at > 0
    said = [record.getMessage() for record in caplog.records]
    assert "Ray: the server died; it goes on from its checkpoint." in said
    assert all(line.startswith("Ray: ") and "\n" not in line for line in said)


def test_what_ray_prints_of_a_death_is_hidden():
    code = NOISE.format(here=str(Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          timeout=HANG_SECONDS)  # fmt: skip
    assert done.stdout == "STOPPED\n", done.stdout + done.stderr
    assert done.stderr.strip() == "Ray: a worker died, and was started again."


@pytest.mark.slow
def test_it_survives_a_massacre(local):
    survive([*[WORKER] * 5, SERVER, *[WORKER] * 5], n=3000)


def test_a_check_survives_the_death_of_a_worker(local, monkeypatch):
    bound, passes = Fleet.bound, []

    def bound_while_one_dies(self, exact, stop):
        timer = threading.Timer(0.1, kill_one, [WORKER])
        if not passes:
            timer.start()
        passes.append(bound(self, exact, stop))
        return passes[-1]

    monkeypatch.setattr("wolfpack.engines.cluster.driver.ALONE_SECONDS", 0.0)
    monkeypatch.setattr(Fleet, "bound", bound_while_one_dies)
    engine = Ray(n_workers=2)
    result = solve(
        sleepy(5000), engine=engine, tol=0, max_epochs=3, max_seconds=HANG_SECONDS
    )
    assert passes[0] is not None  # the workers made it among themselves
    alone = solve(sleepy(0), tol=0, max_epochs=1, rng=0)
    close = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(result.trace[0].gap, alone.trace[0].gap, **close)


def dies_on_request(x, i, target, driver, flag):
    if os.getpid() != driver and Path(flag).exists():
        os._exit(1)
    return x.sum(axis=0) - target


@pytest.mark.slow
def test_workers_that_only_die_end_the_run(local, tmp_path):
    import wolfpack

    flag = tmp_path / "flag"
    problem = wolfpack.from_blocks(
        np.zeros((8, 3)), dies_on_request, wolfpack.l2_ball(), quadratic=True,
        args=(np.ones(3), os.getpid(), str(flag)),
    )  # fmt: skip
    with pytest.raises(EngineError, match="workers died before they sent anything"):
        solve(problem, engine=Ray(n_workers=2), **FOREVER,
              callback=lambda event: flag.touch())  # fmt: skip


class Damage:
    """A callback: it kills the server, spoils its checkpoint, and waits for more.

    `is_back` says whether the server has begun again.
    """

    def __init__(self, spoil, is_back=lambda: True):
        self.spoil, self.is_back, self.calls = spoil, is_back, None

    def __call__(self, event):
        calls = event.row.n_oracle_calls
        if self.calls is None and calls > 500:
            kill_one(SERVER)
            self.spoil()
            self.calls = calls
        enough = self.calls is not None and calls > self.calls + 3000
        return enough and self.is_back()


@pytest.mark.parametrize(
    "kind",
    [
        "cut",
        pytest.param("deleted", marks=pytest.mark.slow),
        pytest.param("folder deleted", marks=pytest.mark.slow),
    ],
)
def test_a_lost_checkpoint_is_no_lost_run(local, tmp_path, caplog, kind):
    path = tmp_path / "runs" / "server.npz"
    path.parent.mkdir()
    spoil = {
        "cut": lambda: os.truncate(path, 100),
        "deleted": path.unlink,
        "folder deleted": lambda: shutil.rmtree(path.parent),
    }
    engine = Ray(n_workers=2, checkpoint=path, checkpoint_seconds=1000)
    said = "The server goes on from the last check."
    problem, damage = lasso(), Damage(spoil[kind], lambda: said in caplog.text)
    with caplog.at_level(logging.WARNING, "wolfpack"):
        result = solve(problem, engine=engine, callback=damage, **FOREVER)
    assert result.status is Status.STOPPED
    assert said in caplog.text
    if result.state.outer is None:
        assert_sound(problem, result.state)
    else:
        assert_fits(problem, result.state)
    calls = [row.n_oracle_calls for row in result.trace]
    assert calls == sorted(calls)


@pytest.mark.slow
def test_a_checkpoint_that_can_never_be_written_again(local, tmp_path):
    path = tmp_path / "server.npz"

    def spoil():
        path.unlink()
        path.mkdir()

    engine = Ray(n_workers=2, checkpoint=path, checkpoint_seconds=1000)
    problem, sentence = lasso(), "can neither be read nor written anew"
    with pytest.raises(EngineError, match=sentence) as caught:
        solve(problem, engine=engine, callback=Damage(spoil), **FOREVER)
    assert caught.value.state.n_updates > 0
    assert_sound(problem, caught.value.state)


SCRIPT = """
import sys, numpy as np, wolfpack
sys.path.insert(0, {here!r})
from played import lasso
result = wolfpack.solve(lasso(), tol=0, max_epochs=np.inf,
    engine=wolfpack.Ray(n_workers=2, checkpoint={path!r}, checkpoint_seconds=0.2),
    callback=lambda event: print("alive", flush=True))
print(result.status.name, result.n_updates > 0, result.gap < 38)
"""


def start_driver(path=None):
    here = str(Path(__file__).parent)
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(here=here, path=path)], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    for _ in range(8):
        assert process.stdout.readline() == "alive\n", process.stderr.read()
    return process, children(process.pid)


def assert_gone(below):
    end = time.monotonic() + HANG_SECONDS
    while left := [name for pid, name in below.items() if is_alive(pid)]:
        assert time.monotonic() < end, left
        time.sleep(0.1)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_to_all_leaves_no_process_behind(number):
    process, below = start_driver()
    assert any("raylet" in name for name in below.values())
    os.killpg(process.pid, number)  # as a terminal or Slurm does it: Ray ends, too
    rest, errors = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, errors
    assert rest.splitlines()[-1] == "INTERRUPTED True True"
    assert errors == ""
    assert_gone(below)


def test_a_signal_while_ray_starts_leaves_no_process_behind():
    script = SCRIPT.format(here=str(Path(__file__).parent), path=None)
    process = subprocess.Popen(
        [sys.executable, "-c", script], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    end = time.monotonic() + HANG_SECONDS
    while not any("gcs_server" in name for name in children(process.pid).values()):
        assert time.monotonic() < end
        time.sleep(0.02)
    process.terminate()  # Ray itself would leave with code 15, and forget its agents
    below = children(process.pid)
    rest, errors = process.communicate(timeout=HANG_SECONDS)
    assert (process.returncode, rest) == (143, ""), errors
    assert_gone(below)


def test_another_driver_goes_on_from_the_checkpoint(tmp_path):
    path = str(tmp_path / "server.npz")
    process, below = start_driver(path)
    process.kill()
    process.communicate(timeout=HANG_SECONDS)
    try:
        assert_gone(below)
    finally:
        for pid in filter(is_alive, below):
            os.kill(pid, signal.SIGKILL)
    state, problem = State.load(path), lasso()
    assert state.n_updates > 0
    assert_sound(problem, state)
    result = solve(problem, start=state, tol=1e-3, max_epochs=10**5, rng=0)
    assert result.converged
    assert result.trace[0].epoch > 0


NOISE = """
import os, signal, sys, numpy as np, wolfpack
sys.path.insert(0, {here!r})
from played import children, lasso
from wolfpack.engines.cluster import ledger
killed, said = [], []
warn = ledger.logger.warning
ledger.logger.warning = lambda *line: (warn(*line), said.append(line))

def callback(event):
    if not killed and event.row.n_oracle_calls > 5000:
        killed.extend(pid for pid, name in children(os.getpid()).items()
                      if "ray::WorkerActor" in name)
        os.kill(killed[0], signal.SIGKILL)
    return bool(said)

print(wolfpack.solve(lasso(), engine=wolfpack.Ray(n_workers=2), tol=0,
                     max_epochs=np.inf, callback=callback).status.name)
"""
HEADLESS = """
import os, signal, sys, time, numpy as np, wolfpack
sys.path.insert(0, {here!r})
from played import children, is_alive, lasso
killed, below = [], set()

def kill():
    below.update(children(os.getpid()))
    killed.extend(pid for pid, name in children(os.getpid()).items()
                  if "gcs_server" in name.split(chr(0))[0])
    os.kill(killed[0], signal.SIGKILL)

def callback(event):
    if not killed and event.row.n_oracle_calls > 5000:
        kill()

engine = wolfpack.Ray(n_workers={n_workers!r}, checkpoint={path!r},
                      checkpoint_seconds=1000)
try:
    wolfpack.solve(lasso(), engine=engine, tol=0, max_epochs=np.inf, callback=callback)
except wolfpack.EngineError as error:
    saved = wolfpack.State.load({path!r})
    print(error)
    print(error.state.n_oracle_calls > 5000,
          saved.n_oracle_calls >= error.state.n_oracle_calls)
end = time.monotonic() + 20
while any(map(is_alive, below)) and time.monotonic() < end:
    time.sleep(0.1)
print(sum(map(is_alive, below)), "are left")
"""
TOO_EARLY = """
from wolfpack.engines.cluster.fleet import Fleet
wait = Fleet._wait
Fleet._wait = lambda *args: (killed or kill(), wait(*args))[1]
"""


@pytest.mark.parametrize("n_workers", ["auto", pytest.param(2, marks=pytest.mark.slow)])
def test_the_head_dies(tmp_path, n_workers):
    here, path = str(Path(__file__).parent), str(tmp_path / "server.npz")
    code = HEADLESS.format(here=here, path=path, n_workers=n_workers)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          timeout=HANG_SECONDS)  # fmt: skip
    assert done.returncode == 0, done.stderr
    sentence, numbers, left = done.stdout.splitlines()
    assert left == "0 are left"
    assert sentence.startswith("the head of the Ray cluster, at ")
    assert "the minimum is at least -" in sentence
    assert numbers == "True True"
    state, problem = State.load(path), lasso()
    assert_sound(problem, state)
    assert solve(problem, start=state, tol=1e-3, max_epochs=10**5, rng=0).converged


def test_the_head_dies_before_a_worker_is_there(tmp_path):
    # Ray would end this process a minute later, without an exception.
    here, path = str(Path(__file__).parent), str(tmp_path / "server.npz")
    code = HEADLESS.format(here=here, path=path, n_workers=2)
    code = code.replace("engine =", f"{TOO_EARLY}\nengine =", 1)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          timeout=HANG_SECONDS)  # fmt: skip
    assert done.returncode == 0, done.stderr
    sentence, numbers, left = done.stdout.splitlines()
    assert sentence.startswith("the head of the Ray cluster, at ")
    assert numbers == "False True"
    assert left == "0 are left"


def test_folders_of_dead_processes_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with folder.make() as mine:
        own = Path(mine).name
        begin = own[: own.index(str(os.getpid()))]
        (tmp_path / f"{begin}{gone.pid}-abcd").mkdir()
        (tmp_path / f"{begin}{gone.pid}-abcd" / "server.npz").touch()
        kept = {own, f"{begin}{os.getppid()}-abcd", "wolfpack-ray-00000000-1-abcd"}
        for name in kept - {own}:
            (tmp_path / name).mkdir()
        aside = tmp_path / "aside"
        aside.mkdir()
        (tmp_path / f"{begin}{gone.pid}-link").symlink_to(aside)
        with folder.make():
            pass
        names = {path.name for path in tmp_path.iterdir()}
        assert names == kept | {"aside", f"{begin}{gone.pid}-link"}


def test_the_server_stays_where_its_checkpoint_is(local):
    assert connect.stay_here(ray).soft is False


LATE = """
import sys, numpy as np, wolfpack
sys.path.insert(0, {here!r})
from played import lasso
from ray.cluster_utils import Cluster
one = {{"num_cpus": 1, "include_dashboard": False}}
cluster = Cluster(initialize_head=True, head_node_args=one)
node, seen = [], []

def callback(event):
    live, calls = event.live.n_workers, event.row.n_oracle_calls
    if seen[-1:] != [live]:
        seen.append(live)
    if not node and calls > 500:
        node.append(cluster.add_node(num_cpus=1))
    if len(node) == 1 and live == 2:
        cluster.remove_node(node[0], allow_graceful=False)
        node.append(calls)
    return len(node) == 2 and live == 1 and calls > node[1] + 5000

result = wolfpack.solve(lasso(), engine=wolfpack.Ray(cluster.address), tol=0,
    max_epochs=np.inf, callback=callback)
print("found", result.status.name, seen[-3:], result.relative_gap < 1e-3)
cluster.shutdown()
"""


@pytest.mark.slow
def test_a_worker_comes_late_and_is_lost():
    code = LATE.format(here=str(Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          timeout=HANG_SECONDS)  # fmt: skip
    assert "found STOPPED [1, 2, 1] True" in done.stdout, done.stdout + done.stderr

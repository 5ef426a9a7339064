"""The cluster, on this machine: it converges, and goes on whoever is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import helpers
import numpy as np
import pytest

import wolfpack
from wolfpack import OracleError, Ray, State, Status, solve
from wolfpack.engines import cluster
from wolfpack.result import EngineError

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'wolfpack[ray]'")

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray's log files
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
linux = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="finds processes in /proc"
)


@pytest.fixture(scope="module")
def pack():
    """Two workers on a Ray of this module."""
    cluster.connect(ray, None, 2)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield Ray(n_workers=2)
    ray.shutdown()


def lasso(n=100):
    Y, _, _ = wolfpack.make_piecewise(n=n, d=4)
    return wolfpack.group_fused_lasso(Y, alpha=0.5)


def chain():
    X, y = helpers.random_chains(np.random.default_rng(0), 30, 3, [2, 3, 4])
    return wolfpack.chain_ssvm(X, y, alpha=0.1, n_labels=3)


def gradient(x, i, target, driver, flag, kind):
    """Of 1/2 |sum_i x_(i) - target|^2; workers fail, or on block 7, if told to."""
    time.sleep(1e-3)
    if os.getpid() != driver and Path(flag).exists():
        if kind == "dies":
            os._exit(1)
        if kind == "raises" and i == 7:
            raise ValueError("there is no path")
        if kind == "is nan" and i == 7:
            return np.full(x.shape[1], np.nan)
    return x.sum(axis=0) - target


def uncompiled(flag="", kind="", n=20):
    """A problem in plain Python, that is in no hurry."""
    rng = np.random.default_rng(0)
    args = (0.3 * n * rng.normal(size=3), os.getpid(), str(flag), kind)
    return wolfpack.from_blocks(
        np.zeros((n, 3)), gradient, wolfpack.l2_ball(), args=args, quadratic=True,
        value=lambda x, target, *rest: 0.5 * np.square(x.sum(axis=0) - target).sum(),
        scale=float(n * n),
    )  # fmt: skip


def assert_sound(problem, state):
    """v = A x."""
    exact = problem.shared.astype(np.float64)
    args = (problem.data, state.blocks, 0, problem.n_blocks, exact)
    problem.kernels().rebuild(*args)
    np.testing.assert_allclose(state.shared, exact, rtol=0, atol=1e-6)


def assert_same_optimum(problem, result, reference):
    assert result.objective >= reference.lower_bound - 1e-9
    assert result.lower_bound <= reference.objective + 1e-9
    assert_sound(problem, result.state)
    rows = result.trace
    assert [row.n_oracle_calls for row in rows] == sorted(
        row.n_oracle_calls for row in rows
    )
    assert min(row.gap for row in rows) >= 0


@pytest.mark.parametrize(("make", "tau"), [(lasso, None), (chain, 3)])
def test_it_converges_to_the_optimum_of_serial(pack, make, tau):
    problem = make()
    how = {"tol": 1e-3, "max_epochs": 10**5, "max_seconds": 60}
    reference = solve(problem, rng=0, **how)
    result = solve(problem, engine=pack, batch_size=tau, averaging=True, **how)
    assert result.converged
    assert result.n_workers == 2
    assert result.delay.mean > 0
    assert_same_optimum(problem, result, reference)


def test_plain_python_gains_from_it(pack):
    problem = uncompiled()
    how = {"tol": 1e-3, "max_epochs": 3000, "max_seconds": 30}
    result = solve(problem, engine=pack, **how)
    assert result.converged
    assert_sound(problem, result.state)


def test_passes_are_counted_to_the_end(pack):
    problem = lasso()
    result = solve(problem, engine=pack, tol=0, max_epochs=7.5)
    assert result.status is Status.EPOCH_LIMIT
    assert result.n_oracle_calls == np.ceil(7.5 * problem.n_blocks)
    more = solve(problem, engine=pack, tol=0, max_epochs=10, start=result.state)
    assert more.n_oracle_calls == 10 * problem.n_blocks
    assert more.n_updates > result.n_updates
    assert_sound(problem, more.state)


def test_the_checkpoint_goes_on_elsewhere(pack, tmp_path):
    problem, path = lasso(), tmp_path / "server.npz"
    engine = Ray(n_workers=2, checkpoint=path, checkpoint_seconds=0.1)
    result = solve(problem, engine=engine, tol=0, max_epochs=50)
    state = State.load(path)
    assert state.n_updates >= result.n_updates
    rest = solve(problem, start=state, tol=1e-3, max_epochs=10**4)
    assert rest.converged
    assert rest.trace[0].epoch >= 50


# Who fails.


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("raises", "raised ValueError on block 7: there is no path"),
        ("is nan", "on block 7"),
    ],
)
def test_a_block_that_fails_on_a_worker_is_named(pack, tmp_path, kind, sentence):
    flag = tmp_path / "flag"
    problem = uncompiled(flag, kind)
    begin = []

    def callback(event):  # first at a check, which the driver makes
        begin.append(time.monotonic())
        flag.touch()

    with pytest.raises(OracleError, match=sentence) as caught:
        solve(problem, engine=pack, tol=0, max_epochs=np.inf, callback=callback,
              max_seconds=60)  # fmt: skip
    assert time.monotonic() - begin[0] < 10
    assert caught.value.block == 7
    assert_sound(problem, caught.value.state)
    if kind == "raises":
        assert "In a worker" in caught.value.__cause__.__notes__[0]


def children(root):
    """Return the processes below one, and how they are called."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                names[int(entry.name)] = (entry / "cmdline").read_bytes().decode()
            except OSError:  # gone meanwhile
                continue
            if stat[0] != "Z":
                parents[int(entry.name)] = int(stat[1])
    found, new = {}, {root}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new}
        found |= {pid: names[pid] for pid in new}
    return found


def kill_one(name):
    victims = [pid for pid, title in children(os.getpid()).items() if name in title]
    assert victims, f"there is no process {name}"
    os.kill(victims[0], signal.SIGKILL)


@linux
def test_it_survives_the_death_of_worker_and_server(pack):
    problem, tol = lasso(), 1e-3
    reference = solve(problem, tol=tol, max_epochs=10**5, rng=0)
    todo = ["ray::WorkerActor", "ray::ServerActor", "ray::WorkerActor"]
    killed, begin = [], time.monotonic()

    def callback(event):
        gone = killed[-1] if killed else begin
        if todo and time.monotonic() > gone + 2 and event.row.n_oracle_calls > 0:
            kill_one(todo.pop(0))
            killed.append(time.monotonic())
            calls.append(event.row.n_oracle_calls)
        enough = not todo and event.row.n_oracle_calls > calls[-1] + 5000
        return enough and event.relative_gap <= tol

    calls = []
    engine = Ray(n_workers=2, checkpoint_seconds=0.5)
    result = solve(problem, engine=engine, tol=0, max_epochs=np.inf, callback=callback,
                   max_seconds=60)  # fmt: skip
    assert result.status is Status.STOPPED, (todo, calls, result)
    assert len(killed) == 3
    assert result.relative_gap <= tol
    assert_same_optimum(problem, result, reference)


@pytest.mark.slow
def test_workers_that_only_die_end_the_run(pack, tmp_path):
    flag = tmp_path / "flag"
    problem = uncompiled(flag, "dies", n=8)
    with pytest.raises(EngineError, match="workers died before they sent anything"):
        solve(problem, engine=pack, tol=0, max_epochs=np.inf,
              callback=lambda event: flag.touch(), max_seconds=100)  # fmt: skip


def test_an_error_of_the_callback_is_raised(pack):
    with pytest.raises(ZeroDivisionError):
        solve(lasso(), engine=pack, tol=0, callback=lambda event: 1 / event.row.epoch)


SCRIPT = """
import numpy as np, wolfpack
Y = wolfpack.make_piecewise(n=100, d=4)[0]
problem = wolfpack.group_fused_lasso(Y, alpha=0.5)
result = wolfpack.solve(problem, engine=wolfpack.Ray(n_workers=2), tol=0,
    max_epochs=np.inf, callback=lambda event: print("alive", flush=True))
print(result.status.name, result.n_updates > 0, result.gap < 10)
"""


@linux
def test_ctrl_c_leaves_no_process_behind():
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    for _ in range(4):
        assert process.stdout.readline() == "alive\n"
    below = children(process.pid)
    assert any("raylet" in name for name in below.values())
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
    rest, errors = process.communicate(timeout=40)
    assert process.returncode == 0, errors
    assert rest.splitlines()[-1] == "INTERRUPTED True True"
    assert errors == ""
    end = time.monotonic() + 10
    while left := [name for pid, name in below.items() if _is_alive(pid)]:
        assert time.monotonic() < end, left
        time.sleep(0.1)


def _is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


LATE = """
import time, numpy as np, wolfpack
from ray.cluster_utils import Cluster
one = {"num_cpus": 1, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=one)
problem = wolfpack.group_fused_lasso(wolfpack.make_piecewise(n=100, d=4)[0], alpha=0.5)
node, seen = [], []

def callback(event):
    if seen[-1:] != [event.live.n_workers]:
        seen.append(event.live.n_workers)
    if not node and event.row.n_oracle_calls > 500:
        node.append(cluster.add_node(num_cpus=1))
    if len(node) == 1 and event.live.n_workers == 2:
        cluster.remove_node(node[0], allow_graceful=False)
        node.append(event.row.n_oracle_calls)
    if len(node) == 2 and event.live.n_workers == 1:
        return event.row.n_oracle_calls > node[1] + 5000

result = wolfpack.solve(problem, engine=wolfpack.Ray(cluster.address), tol=0,
    max_epochs=np.inf, max_seconds=60, callback=callback)
print("found", result.status.name, seen[-3:], result.relative_gap < 1e-3)
cluster.shutdown()
"""


@pytest.mark.slow
def test_a_machine_comes_late_and_is_lost():
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True,
                          timeout=110)  # fmt: skip
    assert "found STOPPED [1, 2, 1] True" in done.stdout, done.stdout + done.stderr


# What is refused.


def test_an_address_where_nobody_is():
    begin = time.monotonic()
    with pytest.raises(ConnectionError, match=r"nobody answers at 127\.0\.0\.1:1 "):
        cluster.connect(ray, "127.0.0.1:1", None)
    assert time.monotonic() - begin < 20
    with pytest.raises(ValueError, match=r"address must be like '10\.0\.0\.1:6379'"):
        cluster.connect(ray, "nowhere", None)


def test_another_address_than_that_of_this_process(pack):
    with pytest.raises(ValueError, match=r"is in the Ray cluster at .* already"):
        solve(lasso(), engine=Ray(address="10.0.0.1:6379"))


SILENT = """
import socket, threading, time, wolfpack
door = socket.create_server(("127.0.0.1", 0))
address = "127.0.0.1:%d" % door.getsockname()[1]
problem = wolfpack.group_fused_lasso(wolfpack.make_piecewise(n=20, d=2)[0], alpha=0.5)
begin = time.monotonic()
try:
    wolfpack.solve(problem, engine=wolfpack.Ray(address=address))
except ConnectionError as error:
    print(time.monotonic() - begin < 25, str(error).startswith("cannot join"))
"""


@pytest.mark.slow
def test_an_address_that_never_answers():
    done = subprocess.run([sys.executable, "-c", SILENT], capture_output=True,
                          text=True, timeout=80)  # fmt: skip
    assert "True True" in done.stdout, done.stderr


def test_ray_is_missing():
    code = (
        "import sys; sys.modules['ray'] = None; import wolfpack\n"
        "Y = wolfpack.make_piecewise(n=20, d=2)[0]\n"
        "problem = wolfpack.group_fused_lasso(Y, alpha=0.5)\n"
        "try: wolfpack.solve(problem, engine=wolfpack.Ray())\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "Ray is not installed; pip install 'wolfpack[ray]'."


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"n_workers": 0}, "n_workers must be a positive integer or 'auto', not 0"),
        ({"chunk": 1.5}, "chunk must be a positive integer or 'auto', not 1.5"),
        ({"n_workers": True}, "n_workers must be"),
        ({"checkpoint_seconds": 0}, "checkpoint_seconds must be positive, not 0"),
    ],
)
def test_bad_arguments(how, sentence):
    with pytest.raises(ValueError, match=sentence):
        Ray(**how)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"sampling": "gap"}, "Ray draws uniformly"),
        ({"step": "exact"}, "use step='line', not 'exact'"),
    ],
)
def test_what_a_cluster_cannot_do(how, sentence):
    with pytest.raises(ValueError, match=sentence):
        solve(lasso(), engine=Ray(), **how)

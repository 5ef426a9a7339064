"""The cluster, on this machine: it converges, certifies, and says what is wrong."""

import dataclasses
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import helpers
import numpy as np
import pytest
from limits import HANG_SECONDS
from played import assert_certified, assert_sound, from_file, lasso, sleepy

import wolfpack
from wolfpack import OracleError, Ray, State, Status, solve
from wolfpack.engines.cluster import connect, sending, worker_actor
from wolfpack.engines.cluster.fleet import Fleet
from wolfpack.problem import ProblemError

ray = pytest.importorskip("ray", reason="needs Ray: pip install 'wolfpack[ray]'")

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray's log files
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def pack():
    """Two workers on a Ray of this module."""
    connect.connect(ray, None, 2)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield Ray(n_workers=2)
    ray.shutdown()


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


def uncompiled(flag="", kind="", n=20, feasible=None):
    """A problem in plain Python, that is in no hurry."""
    rng = np.random.default_rng(0)
    args = (0.3 * n * rng.normal(size=3), os.getpid(), str(flag), kind)
    return wolfpack.from_blocks(
        np.zeros((n, 3)), gradient, feasible or wolfpack.l2_ball(), args=args,
        quadratic=True,
        value=lambda x, target, *rest: 0.5 * np.square(x.sum(axis=0) - target).sum(),
        scale=float(n * n),
    )  # fmt: skip


def assert_same_optimum(problem, result, reference):
    rows = result.trace
    for row in rows:
        assert row.objective >= reference.lower_bound - 1e-9
        assert row.lower_bound <= reference.objective + 1e-9
    assert_sound(problem, result.state)
    assert [row.n_oracle_calls for row in rows] == sorted(
        row.n_oracle_calls for row in rows
    )


def test_it_converges_to_the_optimum_of_serial(pack):
    problem = chain()
    how = {"tol": 1e-3, "max_epochs": 10**5, "max_seconds": HANG_SECONDS}
    reference = solve(problem, rng=0, **how)
    result = solve(problem, engine=pack, batch_size=3, averaging=True, **how)
    assert result.converged
    assert result.n_workers == 2
    assert_same_optimum(problem, result, reference)
    delay, traffic = result.delay, result.traffic
    assert 0 < delay.mean <= delay.maximum
    assert delay.histogram.sum() == 3 * result.n_updates
    used = 3 * result.n_updates + result.n_collisions + result.n_dropped
    assert 0 <= result.n_oracle_calls - used < 3  # the rest waits for a whole batch
    assert traffic.batch_size == 3
    assert traffic.chunk * traffic.n_messages == result.n_oracle_calls
    assert 3 < traffic.bytes_per_atom - 32 / traffic.chunk < 5  # 1, and 1 a letter
    assert 0 < traffic.server_utilisation <= 1


def test_more_workers_than_cores_reach_the_known_optimum(pack):
    engine = Ray(n_workers=4)
    result = solve(
        lasso(), engine=engine, tol=1e-3, max_epochs=10**5, max_seconds=HANG_SECONDS
    )
    assert result.converged
    assert_certified(result)
    assert -result.objective <= 22.827228
    assert -result.lower_bound >= 22.827208


def fold_0():
    data = wolfpack.load_ocr(folds=[0])
    return wolfpack.chain_ssvm(data.X, data.y, alpha=0.01)


def assert_optimum_of_fold_0(result):
    assert result.converged
    assert -result.objective <= 0.1650298089
    assert -result.lower_bound >= 0.1650297363
    head = 32 / result.traffic.chunk
    assert 8 < result.traffic.bytes_per_atom - head < 14  # 2 for the word, 1 a letter


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [2, 4])
def test_ocr_reaches_its_known_optimum(pack, data_home, n_workers):
    problem = fold_0()
    how = {"tol": 0.01, "max_epochs": 10**5, "max_seconds": HANG_SECONDS}
    reference = solve(problem, rng=0, **how)
    result = solve(problem, engine=Ray(n_workers=n_workers), **how)
    assert_optimum_of_fold_0(result)
    assert_same_optimum(problem, result, reference)


def test_plain_python_runs_in_both_workers_at_once(pack, tmp_path):
    """In each worker, one oracle call waits until another process is in one, too."""
    ball, driver, folder = wolfpack.l2_ball(), os.getpid(), tmp_path

    def minimise(params, i, gradient, atom):
        if os.getpid() != driver and (folder / "flag").exists():
            (folder / f"worker {os.getpid()}").touch()
            end = time.monotonic() + HANG_SECONDS
            while len([*folder.iterdir()]) < 3 and time.monotonic() < end:
                time.sleep(0.01)
        ball.minimise(params, i, gradient, atom)

    def callback(event):  # first at a check: everything has begun
        (folder / "flag").touch()

    problem = uncompiled(feasible=ball._replace(minimise=minimise))
    how = {"tol": 1e-3, "max_epochs": 3000, "callback": callback}
    result = solve(problem, engine=pack, **how)
    assert len([*folder.glob("worker *")]) == 2
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


@pytest.mark.parametrize(
    "averaging", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_a_check_is_spread_over_the_workers(pack, monkeypatch, averaging):
    problem, passes = sleepy(500), []
    bound = Fleet.bound
    monkeypatch.setattr("wolfpack.engines.cluster.driver.ALONE_SECONDS", 0.0)

    def spy_on(self, exact, stop):
        passes.append(bound(self, exact, stop))
        return passes[-1]

    monkeypatch.setattr(Fleet, "bound", spy_on)
    how = {"tol": 0, "max_epochs": 5, "averaging": averaging}
    result = solve(problem, engine=pack, **how)
    assert len(passes) >= len(result.trace)
    assert None not in passes
    assert all(fault is None for _, fault in passes)
    rest = solve(problem, start=result.state, tol=0, max_epochs=5)  # by one thread
    close = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(rest.trace[0].objective, result.objective, **close)
    if not result.averaged:
        np.testing.assert_allclose(rest.trace[0].gap, result.gap, **close)


class DeafWorker:
    """A worker whose first answers never come."""

    def __init__(self, deaf):
        self.deaf, self.given = deaf, []

    @property
    def bound(self):
        return self

    def options(self, **how):
        return self

    def remote(self, problem, v, first, last):
        self.given.append((first, last))
        self.deaf -= 1
        return self, (first, last), self.deaf >= 0


def test_a_share_of_a_check_is_done_again_by_others(monkeypatch):
    fleet = object.__new__(Fleet)
    fleet.n_blocks, fleet.problem, fleet.seconds = 100, None, 1e-3
    fleet.workers = [DeafWorker(0), DeafWorker(100)]
    fleet.ray = SimpleNamespace(
        put=lambda v: v,
        wait=lambda calls, timeout: ([call for call in calls if not call[2]], None),
    )
    fleet._answer = lambda call: (float(sum(range(*call[1]))), None)
    total, fault = fleet.bound(np.zeros(1), lambda: False)
    assert (total, fault) == (sum(range(100)), None)
    assert fleet.workers[1].given[0] in fleet.workers[0].given
    assert fleet.bound(np.zeros(1), lambda: True) is None
    fleet._answer = lambda call: (np.nan, (3, ValueError("no")))
    assert fleet.bound(np.zeros(1), lambda: False)[1][0] == 3


def test_data_may_stay_in_a_file(pack, tmp_path):
    path = str(tmp_path / "matrices.npy")
    rng = np.random.default_rng(0)
    np.save(path, rng.normal(size=(2000, 5, 200)) / 2000)  # 16 MB
    problem = from_file(path)
    assert len(pickle.dumps(problem)) < 500  # the path, and who reads it
    result = solve(
        problem, engine=pack, tol=1e-3, max_epochs=100, max_seconds=HANG_SECONDS
    )
    assert result.converged
    assert_sound(problem, result.state)


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

    def callback(event):  # first at a check, which the driver makes
        flag.touch()

    with pytest.raises(OracleError, match=sentence) as caught:
        solve(problem, engine=pack, tol=0, max_epochs=np.inf, callback=callback,
              max_seconds=HANG_SECONDS)  # fmt: skip
    assert caught.value.block == 7
    assert_sound(problem, caught.value.state)
    if kind == "raises":
        where = caught.value.__cause__.__notes__[0]  # the server may be first: it steps
        assert where.startswith(("In a worker:", "On the server:"))


def test_a_worker_in_a_long_oracle_call_counts_as_alive(pack, monkeypatch):
    beats, over = [], threading.Event()

    def beat(me):
        beats.append(me)
        if len(beats) == 3:
            over.set()

    server = SimpleNamespace(beat=SimpleNamespace(remote=beat))
    post = SimpleNamespace(sent=0.0, me=3, server=server)
    monkeypatch.setattr(worker_actor, "BEAT_SECONDS", 0.0)
    worker_actor.Post.beat(post, over)
    assert beats == [3, 3, 3]


def test_the_benchmark_of_stragglers_runs(pack, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    import _ray_cases as cases

    ray.cloudpickle.register_pickle_by_value(cases)
    problem = cases.asleep(20, 10)
    assert cases.seconds_per_pass_in_step(ray, problem, 1, 2, 1) > 0


# What is refused.


class Guest(NamedTuple):
    """Data of a problem that no other process can be given."""

    numbers: np.ndarray
    door: object


def test_what_cannot_be_sent_is_named(pack):
    problem = dataclasses.replace(lasso(), data=Guest(np.zeros(3), threading.Lock()))
    with pytest.raises(
        ProblemError, match=r"and problem\.data\.door cannot be"
    ) as told:
        sending.send(ray, problem)
    assert len(str(told.value)) < 300
    door, ball = threading.Lock(), wolfpack.l2_ball()
    args = {"args": (np.ones(3), door)}
    problem = wolfpack.from_blocks(
        np.zeros((4, 3)), lambda x, i, target, door: x[i] - target, ball, **args
    )
    with pytest.raises(ProblemError, match=r"problem\.data\.args\[1\] cannot be"):
        solve(problem, engine=pack)


def test_a_machine_that_is_not_in_the_cluster(pack, monkeypatch):
    address = ray.get_runtime_context().gcs_address
    connect._refuse_stranger(address)  # this one is
    monkeypatch.setattr(connect.os.path, "exists", lambda path: False)
    with pytest.raises(ConnectionError, match="this machine is not in the Ray cluster"):
        connect._refuse_stranger(address)


def test_an_address_where_nobody_is():
    with pytest.raises(ConnectionError, match=r"no process answers at 127\.0\.0\.1:1 "):
        connect.connect(ray, "127.0.0.1:1", None)
    for address in ("nowhere", "", ":6379", "here:", "10.0.0.1:99999", "10.0.0.1:²"):
        with pytest.raises(ValueError, match=r"must be like '10\.0\.0\.1:6379', not"):
            connect.connect(ray, address, None)
    with pytest.raises(ConnectionError, match="no process answers at"):
        connect.connect(ray, "a" * 70 + ".example:6379", None)


@pytest.mark.parametrize("damage", ["unset", "missing", "a folder"])
def test_certificates_that_cannot_be_read(monkeypatch, tmp_path, damage):
    good, bad = tmp_path / "good.pem", tmp_path / "bad.pem"
    good.touch()
    if damage == "a folder":
        bad.mkdir()
    monkeypatch.setenv("RAY_USE_TLS", "1")
    for name in connect.CERTIFICATES:
        monkeypatch.setenv(name, str(good))
    for name in connect.CERTIFICATES:
        with monkeypatch.context() as patch:
            patch.setenv(name, str(bad))
            if damage == "unset":
                patch.delenv(name)
            with pytest.raises(ValueError, match=f"so {name} must be the path of a"):
                connect.connect(ray, None, 1)
            patch.setenv("RAY_USE_TLS", "0")
            connect.check_certificates()


@pytest.mark.skipif(not shutil.which("openssl"), reason="makes a certificate")
def test_certificates_that_do_not_belong_together(monkeypatch, tmp_path):
    for name in ("mine", "yours"):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=wolfpack",
             "-keyout", f"{name}.key", "-out", f"{name}.pem"],
            check=True, capture_output=True, cwd=tmp_path,
        )  # fmt: skip
    (tmp_path / "empty").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_USE_TLS", "true")

    def check(*paths):
        for name, path in zip(connect.CERTIFICATES, paths, strict=True):
            monkeypatch.setenv(name, path)
        connect.check_certificates()

    check("mine.pem", "mine.key", "yours.pem")
    for paths in [
        ("mine.pem", "yours.key", "mine.pem"),
        ("empty", "mine.key", "mine.pem"),
        ("mine.pem", "mine.key", "empty"),
    ]:
        with pytest.raises(ValueError, match="of a certificate, its key and the CA"):
            check(*paths)


def test_another_address_than_that_of_this_process(pack):
    with pytest.raises(ValueError, match=r"is in the Ray cluster at .* already"):
        solve(lasso(), engine=Ray(address="10.0.0.1:6379"))


SILENT = """
import socket, wolfpack
door = socket.create_server(("127.0.0.1", 0))
address = "127.0.0.1:%d" % door.getsockname()[1]
problem = wolfpack.group_fused_lasso(wolfpack.make_piecewise(n=20, d=2)[0], alpha=0.5)
try:
    wolfpack.solve(problem, engine=wolfpack.Ray(address=address))
except ConnectionError as error:
    print(error)
"""


@pytest.mark.slow
def test_an_address_that_never_answers():
    done = subprocess.run([sys.executable, "-c", SILENT], capture_output=True,
                          text=True, timeout=HANG_SECONDS)  # fmt: skip
    assert done.stdout.startswith("cannot join"), done.stderr


def test_ray_is_missing():
    code = (
        "import sys; sys.modules['ray'] = None; import wolfpack\n"
        "Y = wolfpack.make_piecewise(n=20, d=2)[0]\n"
        "problem = wolfpack.group_fused_lasso(Y, alpha=0.5)\n"
        "try: wolfpack.solve(problem, engine=wolfpack.Ray())\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "Ray is not installed; pip install ray."


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"n_workers": 0}, "n_workers must be a positive integer or 'auto', not 0"),
        ({"chunk": 1.5}, "chunk must be a positive integer or 'auto', not 1.5"),
        ({"n_workers": True}, "n_workers must be"),
        ({"n_workers": np.array([1, 2])}, "n_workers must be"),
        ({"checkpoint_seconds": 0}, "checkpoint_seconds must be positive, not 0"),
        ({"checkpoint_seconds": "5"}, "checkpoint_seconds must be positive, not '5'"),
        ({"checkpoint": 5}, "checkpoint must be a path or None, not 5"),
        ({"address": 5}, "address must be a string like .* or None, not 5"),
        ({"address": b"auto"}, "address must be a string like"),
    ],
)
def test_bad_arguments(how, sentence):
    with pytest.raises(ValueError, match=sentence):
        Ray(**how)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"sampling": "gap"}, "Ray draws uniformly"),
        ({"sampling": "cyclic"}, "Ray draws uniformly"),
        ({"step": "exact"}, "use step='line', not 'exact'"),
    ],
)
def test_what_a_cluster_cannot_do(how, sentence):
    with pytest.raises(ValueError, match=sentence):
        solve(lasso(), engine=Ray(), **how)

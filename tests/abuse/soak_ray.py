"""Faults of a cluster: killed workers, killed servers, and damaged checkpoints."""

import contextlib
import dataclasses
import os
import signal
import time

import soak_disk as disk
from played import children
from soak_checks import require
from soak_faults import Outcome

from wolfpack import EngineError, Serial, Status

WORKER, SERVER = "ray::WorkerActor", "ray::ServerActor"
LIMIT = 100.0


def actors(name="Actor"):
    """Return the processes of workers and servers below this one."""
    return [pid for pid, title in children(os.getpid()).items() if name in title]


class Killer:
    """A callback: when the run has begun it does its work, then lets the run go on."""

    def __init__(self, scene, todo):
        self.wait = float(scene.rng.uniform(0.05, 1.0))
        self.todo, self.done, self.calls = [*todo], 0, 0
        self.next = None

    def __call__(self, event):
        now, calls = time.monotonic(), event.row.n_oracle_calls
        if self.next is None:
            self.next = now + self.wait
        if self.todo and now > self.next and calls > self.calls:
            self.todo[0]()
            self.todo.pop(0)
            self.done, self.calls = self.done + 1, calls
            self.next = now + 2.0
        return not self.todo and calls > self.calls + 2000


def kill(name):
    """Kill one of the processes of this name, if there is one."""
    for pid in actors(name)[:1]:
        os.kill(pid, signal.SIGKILL)


def _run(scene, todo, **how):
    engine = dataclasses.replace(scene.engine, checkpoint_seconds=0.2, **how)
    killer = Killer(scene, todo)
    result = scene.solve(engine=engine, callback=killer, max_seconds=LIMIT)
    ends = {Status.STOPPED, Status.CONVERGED, Status.STALLED}
    require(result.status in ends, f"it ended as {result.status.name}")
    word = "went on" if killer.done else "missed"
    return Outcome(word, result.state, result)


def killed_worker(scene):
    """A worker is killed, or several are, one after the other."""
    count = int(scene.rng.integers(1, 3))
    return _run(scene, [lambda: kill(WORKER)] * count)


def killed_server(scene):
    """The server is killed; it goes on from its checkpoint."""
    return _run(scene, [lambda: kill(SERVER)])


def bad_checkpoint(scene):
    """The server is killed, and its checkpoint is damaged."""
    path = scene.folder / "checkpoint.npz"

    def both():
        disk.damage(path, scene.rng)
        kill(SERVER)

    try:
        return _run(scene, [both], checkpoint=path)
    except EngineError as error:
        return Outcome("EngineError", error.state)


def killed_head(scene):
    """The head of a cluster that wolfpack started is killed: an error with x."""

    def kill_head():
        below = children(os.getpid()).items()
        for pid in [p for p, name in below if "gcs_server" in name.split("\0")[0]][:1]:
            os.kill(pid, signal.SIGKILL)

    path = scene.folder / "checkpoint.npz"
    how = {"checkpoint": path} if scene.rng.random() < 0.5 else {}
    begin = time.monotonic()
    try:
        outcome = _run(scene, [kill_head], **how)
    except EngineError as error:
        taken = time.monotonic() - begin
        require(taken < LIMIT, f"the error came after {taken:.0f} s")
        require(error.state is not None, f"no state: {error}")
        outcome = Outcome("EngineError", error.state)
    # This process has lost its Ray, so the run goes on with another engine.
    scene.engine, scene.options = Serial(), scene.options | {"batch_size": 1}
    return outcome


def full_disk(scene):
    """The disk of the checkpoint becomes full; the run goes on."""
    if scene.small_disk is None:
        return _run(scene, [lambda: kill(WORKER)])
    folder = scene.small_disk
    path = folder / "checkpoint.npz"
    with contextlib.ExitStack() as room:
        fill = [lambda: room.enter_context(disk.filled(folder))]
        outcome = _run(scene, fill, checkpoint=path)
    left = [item.name for item in folder.iterdir() if item != path]
    require(not left, f"files are left: {left}")
    path.unlink()
    return outcome

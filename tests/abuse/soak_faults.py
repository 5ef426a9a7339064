"""The faults: each makes a run in which something goes wrong, and returns what came.

What came is an `Outcome`: a word for the table and the state to go on from. A fault
raises `Broken` where a promise does not hold that is particular to it.
"""

import contextlib
import math
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soak_arms as arms
import soak_checks as checks
import soak_disk as disk
import soak_plans as plans
import soak_problems as problems
from soak_checks import require

import wolfpack
from wolfpack import EngineError, OracleError, State, StateError, Status
from wolfpack.run.interrupt import raise_terminated

PATIENCE = 20.0  # seconds, after which a fault that did not come is given up
HANDLERS = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: raise_terminated,
}
ENDS = {Status.CONVERGED, Status.STALLED, Status.TIME_LIMIT}


class Outcome(NamedTuple):
    """What a faulty run came to."""

    word: str
    state: State | None = None
    result: Any = None
    has_v: bool = True  # False: the fault kept v from being computed


class Scene:
    """One injection: its choices, its folder, and how it calls `solve`."""

    def __init__(self, plan, folder, optimum, small_disk):
        self.plan, self.folder, self.optimum = plan, Path(folder), optimum
        self.rng = np.random.default_rng(plan.seed)
        self.known = problems.make(plan.problem)
        self.small_disk = small_disk
        self.engine, self.options = plans.choose(plan.engine, plan.problem, self.rng)
        self.seed = int(self.rng.integers(2**31))

    def solve(self, *fault, **how):
        """Solve with a fault of the functions, or none, for as long as it takes."""
        problem = problems.with_fault(self.plan.problem, *(fault or (arms.NEVER,)))
        how = {"tol": 0.0, "max_epochs": np.inf, "max_seconds": PATIENCE, **how}
        return wolfpack.solve(
            problem, **{"engine": self.engine, **self.options, "rng": self.seed} | how
        )

    def resume(self, **how):
        """Go on without a fault, with this engine or another, and a sure step."""
        engine, options = self.engine, self.options
        if self.rng.random() < 0.5:
            names = [
                name
                for name, kind in plans.ENGINES.items()
                if name != "ray"
                and not (kind.threads and self.plan.problem in plans.PLAIN)
            ]
            name = str(self.rng.choice(names))
            engine, options = plans.choose(name, self.plan.problem, self.rng)
        if options["step"] == "open-loop":
            options = options | {"step": "line"}
        return self.solve(engine=engine, **options | how)

    def random_block(self):
        """Return a block, or now and then all of them (-1)."""
        n = self.known.problem.n_blocks
        return -1 if self.rng.random() < 0.2 else int(self.rng.integers(n))


def _failing(scene, kind, has_v=True):
    """Run with a function that fails after a while: an OracleError names the block."""
    block, after = scene.random_block(), int(scene.rng.integers(30))
    try:
        result = scene.solve(kind, block, after)
    except OracleError as error:
        named = kind not in (arms.RAISES_IN_SLOPE, arms.RAISES_IN_ADD)
        if named and block >= 0:
            sentence = f"block {block} is at fault, but {error.block} is named: {error}"
            require(error.block == block, sentence)
        return Outcome("OracleError", error.state, has_v=has_v)
    require(result.status in ENDS, f"it ended as {result.status.name}")
    return Outcome("missed", result.state, result)


def raising(scene):
    """The oracle raises, or the slope, or what adds to v."""
    kinds = [arms.RAISES, arms.RAISES, arms.RAISES_IN_SLOPE, arms.RAISES_IN_ADD]
    kind = int(scene.rng.choice(kinds))
    return _failing(scene, kind, has_v=kind != arms.RAISES_IN_ADD)


def nan(scene):
    """The oracle's atom or value is NaN."""
    return _failing(scene, arms.IS_NAN)


def infeasible(scene):
    """The oracle's atom lies outside its set."""
    return _failing(scene, arms.LEAVES)


def slow(scene):
    """A block takes long, or all do: others go on, and limits of time hold."""
    microseconds = int(10 ** scene.rng.uniform(2, 4.3))
    limit = float(scene.rng.uniform(0.1, 1.0))
    fault = (arms.SLEEPS, scene.random_block(), 1, microseconds)
    result = scene.solve(*fault, tol=1e-2, max_seconds=limit)
    require(result.status in ENDS, f"it ended as {result.status.name}")
    return Outcome(result.status.name, result.state, result)


class Sender(threading.Thread):
    """Sends signals to this process: some time after now, or after `begin` is set."""

    def __init__(self, scene, signals, apart=0.0):
        super().__init__(daemon=True)
        self.delay, self.apart = float(scene.rng.uniform(0.0, 0.4)), apart
        self.signals, self.begin = signals, threading.Event()
        if scene.rng.random() < 0.3:
            self.begin.set()

    def run(self):
        self.begin.wait(PATIENCE)
        time.sleep(self.delay)
        for number in self.signals:
            os.kill(os.getpid(), number)
            time.sleep(self.apart)


def ctrl_c(scene):
    """One Ctrl-C keeps the iterate; two end it at once, and nothing is spoilt."""
    count = 1 if scene.rng.random() < 0.8 else 2
    apart = float(scene.rng.uniform(0.0, 0.05))
    microseconds = int(scene.rng.choice([0, 30, 300]))
    saved = scene.folder / "state.npz"

    def save(event):
        if event.checked:
            event.state.save(saved)
            sender.begin.set()

    number = int(scene.rng.choice([signal.SIGINT, signal.SIGTERM]))
    before = signal.signal(number, HANDLERS[number])
    sender, result = Sender(scene, [number] * count, apart), None
    try:
        try:
            sender.start()
            result = scene.solve(arms.SLEEPS, -1, 1, microseconds, callback=save)
            sender.join()  # it may come when all is over
        finally:
            signal.signal(number, signal.SIG_IGN)
    except KeyboardInterrupt as error:
        require(count > 1 or not _was_inside(error), f"signal {number} lost x")
    except EngineError as error:  # a server that does not answer is not waited for
        return Outcome("EngineError", error.state)
    finally:
        sender.begin.set()
        sender.join()
        signal.signal(number, before)
    if result is None:
        state = State.load(saved) if saved.exists() else None
        return Outcome("KeyboardInterrupt", state)
    ends = ENDS | {Status.INTERRUPTED}
    require(result.status in ends, f"it ended as {result.status.name}")
    if scene.plan.engine in plans.SAME_BITS:
        _check_bits(scene, result)
    return Outcome(result.status.name, result.state, result)


def _check_bits(scene, result):
    """Going on gives the bits of a run that was never stopped."""
    how = {"max_epochs": math.ceil(result.epochs) + 3, "max_seconds": 10.0}
    runs = [scene.solve(start=result.state, **how), scene.solve(**how)]
    if all(run.status is Status.EPOCH_LIMIT for run in runs):
        one, other = (run.state.shared.tobytes() for run in runs)
        require(one == other, "going on gives other bits than never having stopped")


def _was_inside(error):
    """Whether Ctrl-C was raised where it should have been a flag."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name == "to_the_end":
            return True
        trace = trace.tb_next
    return False


def full_disk(scene):
    """The disk becomes full while a run saves its state; what was saved stays."""
    real = scene.small_disk is not None and scene.rng.random() < 0.8
    folder = scene.small_disk if real else scene.folder
    path, room = Path(folder) / "state.npz", contextlib.ExitStack()
    when, count = int(scene.rng.integers(1, 5)), [0]

    def save(event):
        if not event.checked:
            return
        count[0] += 1
        if count[0] > when:
            room.enter_context(disk.filled(folder) if real else disk.limited(1000))
        event.state.save(path)

    path.unlink(missing_ok=True)
    word, state, result = "missed", None, None
    try:
        with room:
            result = scene.solve(callback=save, max_seconds=5.0)
            state = result.state
    except OSError as error:
        require(disk.is_full(error), f"it is another error: {error!r}")
        word, state = "OSError", State.load(path)
    left = [item.name for item in Path(folder).iterdir() if item != path]
    require(not left, f"files are left: {left}")
    state.save(path)  # there is room again
    path.unlink()
    return Outcome(word, state, result)


def damaged_state(scene):
    """A state file is damaged: one clear sentence, or a sound state."""
    epochs = float(scene.rng.integers(1, 20))
    first = scene.solve(max_epochs=epochs)
    path = first.save(scene.folder / "state.npz")
    do = [disk.damage, disk.flip, disk.edit][scene.rng.integers(3)]
    done = do(path, scene.rng)
    try:
        result = scene.solve(start=State.load(path), max_epochs=epochs + 50.0)
    except (StateError, OracleError) as error:
        sound = type(error) is StateError and len(str(error)) < 400
        require(sound, f"{done}: {error!r}")
        return Outcome("StateError", first.state, first)
    try:
        checks.check_result(scene.known, scene.optimum, result)
    except checks.Broken as error:
        raise checks.Broken(f"{done}: {error}") from error
    return Outcome("read", first.state, first)


def dying(scene):
    """The process dies while it saves its state now and then. It never returns."""
    path, sender = scene.folder / "state.npz", Sender(scene, [signal.SIGKILL])

    def save(event):
        if event.checked:
            event.state.save(path)
            sender.begin.set()

    sender.start()
    scene.solve(arms.SLEEPS, -1, 1, 30, check_every=1.0, callback=save)
    sender.join()
    time.sleep(5.0)
    raise checks.Broken("SIGKILL did not end the process")


def after_death(scene):
    """Another process finds the file of the one that died."""
    path = scene.folder / "state.npz"
    if not path.exists():
        return Outcome("died early")
    return Outcome("died", State.load(path))


def fresh(scene):
    """A new process whose compile cache is damaged, or lies on a full disk."""
    full = contextlib.nullcontext()
    if scene.plan.fault == "cache disk":
        small = scene.small_disk
        full = disk.limited(2000) if small is None else disk.filled(small)
    with full:
        result = scene.solve(tol=checks.TOL)
    require(result.status is Status.CONVERGED, f"it ended as {result.status.name}")
    return Outcome("CONVERGED", result.state, result)

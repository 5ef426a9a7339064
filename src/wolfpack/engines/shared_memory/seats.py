"""Where workers wait between two slices: in compiled code, for a moment.

Threads that Python starts pass its lock from one to the next, which took 0.2 ms a
thread on 16 cores, and a pass over cheap blocks takes 2 ms in all. So a worker that has
ended a slice stays in its loop and watches its seat, a word that says what it is to do.
The run gives its orders and calls all workers by one write each. A worker that is not
called for about PATIENT_SECONDS goes back to Python, and is started anew later: a check
may take long, and a run that was given up must leave no thread behind.
"""

import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from wolfpack.engines.shared_memory.choice import APART
from wolfpack.engines.shared_memory.worker import Task
from wolfpack.kernels.atomics import (
    LONG,
    NAP_SECONDS,
    PATIENCE,
    compare_exchange,
    load_acquire,
    nap,
    relax,
    store_release,
)
from wolfpack.kernels.compile import entry, jit
from wolfpack.kernels.memory import zeros
from wolfpack.kernels.specialise import library
from wolfpack.run.crew import PULSE_SECONDS
from wolfpack.update.plan import Plan

AWAY, WAITING, WORKING = 0, 1, 2  # what a seat says of its worker
PATIENT_SECONDS = 0.02
# `relax` naps once in PATIENCE spins, after LONG of them.
MOST_SPINS = LONG + PATIENCE * int(PATIENT_SECONDS / NAP_SECONDS)
LOOKS = int(PULSE_SECONDS / NAP_SECONDS)  # at all seats, between two pulses


class Seats:
    """The threads of one session, started when they are needed."""

    def __init__(self, count: int) -> None:
        self.words = zeros(count * APART, np.int64)
        self._is_away = np.zeros(count, np.bool_)
        self._pool = ThreadPoolExecutor(count, "wolfpack")
        self._futures: dict[int, Future] = {}

    def run(
        self,
        work: Callable[[int], None],
        stop: Callable[[], None],
        pulse: Callable[[], None],
    ) -> None:
        """Let every worker run a slice; `work(t)` starts those that are away.

        This thread waits, and calls `pulse` meanwhile. If it or a worker raises, `stop`
        is called to end the slice, and the error is raised here.
        """
        kernels = library(sys.modules[__name__])
        kernels.call(self.words, self._is_away)
        away = [*np.flatnonzero(self._is_away).tolist()]
        try:
            while away:
                self._futures[away[0]] = self._pool.submit(self._sit, work, away[0])
                del away[0]
            while not kernels.is_over_within(self.words, LOOKS):
                pulse()
        except BaseException:  # raised by `pulse`, or a thread could not be started
            stop()
            for t in away:
                self.words[t * APART] = AWAY
            while not kernels.is_over_within(self.words, LOOKS):
                pass
            raise
        for t in [*self._futures]:
            if self.words[t * APART] == AWAY:
                self._futures.pop(t).result()

    def _sit(self, work: Callable[[int], None], t: int) -> None:
        try:
            work(t)
        except BaseException:  # a worker that returns has set AWAY itself
            self.words[t * APART] = AWAY
            raise

    def clear(self) -> None:
        """Send all workers that wait back to Python, and wait for them."""
        library(sys.modules[__name__]).dismiss(self.words)
        while self._futures:
            self._futures.popitem()[1].exception()

    def close(self) -> None:
        """End all threads."""
        self.clear()
        self._pool.shutdown()


@jit
def is_called(seats, me):
    """End this worker's slice; return True when the next one begins.

    False: the worker goes back to Python.
    """
    at = me * APART
    store_release(seats, at, WAITING)
    spins = 0
    while load_acquire(seats, at) == WAITING:
        relax(spins)
        spins += 1
        if spins > MOST_SPINS and compare_exchange(seats, at, WAITING, AWAY):
            return False
    return load_acquire(seats, at) == WORKING


@jit
def obey(team, plan, task):
    """Return the plan and the task of the slice that begins."""
    now = team.orders[0]
    plan = Plan(
        plan.n_blocks, plan.rule, plan.step_size, plan.sampling, plan.exact, now.reach
    )
    task = Task(
        task.me, task.n_workers, now.batch, now.budget, task.repeats,
        task.return_probability, task.is_searching, task.parts,
    )  # fmt: skip
    return plan, task


@entry
def call(seats, is_away):
    """Call all workers; tell which of them do not wait, and have to be started."""
    for t in range(is_away.size):
        is_away[t] = not compare_exchange(seats, t * APART, WAITING, WORKING)
        if is_away[t]:
            store_release(seats, t * APART, WORKING)


@entry
def is_over_within(seats, looks):
    """Return whether no worker is working; look up to `looks` times, and nap."""
    for _ in range(looks):
        is_over = True
        for at in range(0, seats.size, APART):
            is_over &= load_acquire(seats, at) != WORKING
        if is_over:
            return True
        nap()
    return False


@entry
def dismiss(seats):
    """Let all workers that wait go back to Python."""
    for at in range(0, seats.size, APART):
        compare_exchange(seats, at, WAITING, AWAY)

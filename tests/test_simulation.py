"""Workers on a simulated clock, against closed forms and an event queue in Python."""

import heapq
import math

import numpy as np
import pytest
import spy
from helpers import begin_run as begin
from helpers import update
from limits import HANG_SECONDS
from test_serial import Chain, Lasso, Simplices, close

import wolfpack
from wolfpack import Delayed, OracleError, Serial, Status, solve, theory
from wolfpack.delays import Workers
from wolfpack.engines.late.simulation import GONE


@pytest.fixture(scope="module")
def problem():
    Y, _, _ = wolfpack.make_piecewise(101, 2)
    return wolfpack.group_fused_lasso(Y, 0.5)


def simulate(problem, workers, epochs=40, tau=None, **how):
    """A run without checks that ends after `epochs` passes."""
    how = {"tol": 0, "check_every": 1e9, "rng": 0, "step": "open-loop", **how}
    engine = Delayed(workers=workers)
    return solve(problem, engine=engine, batch_size=tau, max_epochs=epochs, **how)


def begin_run(problem, workers, tau, step="line"):
    """A run that the test drives itself."""
    return begin(problem, tau, step, engine=Delayed(workers=workers))


def advance(run, calls=1):
    until = run.state.n_oracle_calls + calls
    while run.state.n_oracle_calls < until:
        run.settle(run.session.advance(run, until - run.state.n_oracle_calls))


# Event by event.


class Cluster:
    """Algorithm 1 on a queue of events, in Python, keeping every version of x.

    It draws what the engine draws, in the same order: at each start of a worker a block
    and how long it takes, and at each end whether the worker reports.
    """

    def __init__(self, case, workers, tau, rng):
        self.case, self.workers, self.tau, self.rng = case, workers, tau, rng
        self.speed, self.chance = (
            workers.each("speed"),
            workers.each("return_probability"),
        )
        self.fails = workers.each("fails")
        self.room = workers.queue
        self.events = []  # (time, who, what): the server is -1
        for w, time in enumerate(workers.each("joins")):
            heapq.heappush(self.events, (time, w))
        self.solving = {}  # worker -> (block, version)
        self.read = {}  # worker -> version
        self.sent = []  # (arrival, block, version)
        self.waiting = []  # (since, worker)
        self.batch, self.taken = {}, []
        self.ready, self.step_at, self.now = 0.0, None, 0.0
        self.k = self.n_lost = self.n_dropped = self.n_collisions = 0

    def begin(self, w):
        i = int(self.rng.random() * len(self.case.dense.A))
        least, most = self.workers.oracle_range
        spent = (least + (most - least) * self.rng.random()) / self.speed[w]
        if self.read.get(w) != self.k:
            self.read[w] = self.k
            spent += self.workers.read_seconds
        self.solving[w] = (i, self.k)
        heapq.heappush(self.events, (min(self.now + spent, self.fails[w]), w))

    def send(self, w):
        arrival = self.now + self.workers.message_seconds
        self.sent.append((arrival, *self.solving.pop(w)))

    def server_time(self):
        if self.step_at is not None:
            return self.step_at
        return max(self.ready, self.sent[0][0]) if self.sent else math.inf

    def work(self):
        self.now, w = heapq.heappop(self.events)
        if self.fails[w] <= self.now:
            self.solving.pop(w, None)
            return
        if w in self.solving:
            if self.rng.random() >= self.chance[w]:
                self.n_lost += 1
            elif len(self.sent) == self.room:
                self.waiting.append((self.now, w))
                return
            else:
                self.send(w)
        self.begin(w)

    def take(self):
        """Take a message; return whether the batch is complete now."""
        _, i, version = self.sent.pop(0)
        late = self.k - version
        if 2 * late > self.k:
            self.n_dropped += 1
        else:
            self.n_collisions += i in self.batch
            self.batch[i] = version
        self.ready = self.now + self.workers.take_seconds
        if len(self.batch) == self.tau:
            self.step_at = self.ready = self.ready + self.workers.step_seconds
        self.waiting = [(at, w) for at, w in self.waiting if self.fails[w] > self.now]
        if self.waiting:
            self.waiting.sort()
            _, w = self.waiting.pop(0)
            self.send(w)
            heapq.heappush(self.events, (self.now, w))

    def until_taken(self):
        """Let time pass until a message is taken; return the steps on the way."""
        steps = []
        while True:
            turn = self.server_time()
            if self.events and self.events[0][0] < turn:
                self.work()
                continue
            assert turn < math.inf, "all workers have failed"
            self.now = turn
            if self.step_at is None:
                self.take()
                return steps
            steps.append(self.batch)
            self.batch, self.step_at, self.k = {}, None, self.k + 1


CLUSTERS = {
    "alike": Workers(3, oracle_seconds=1.0, step_seconds=0.3, queue=12),
    "uniform": Workers(4, oracle_seconds=(0.5, 2.0), take_seconds=0.01, queue=3),
    "far": Workers(5, oracle_seconds=(1, 1.5), message_seconds=0.7, read_seconds=0.4,
                   queue=5),
    "server-bound": Workers(6, oracle_seconds=(0.3, 0.4), take_seconds=0.2,
                            step_seconds=0.5, queue=1),
    "motley": Workers(
        6, oracle_seconds=(0.4, 1.1), message_seconds=0.1, take_seconds=0.15,
        step_seconds=0.3, speed=(1, 0.2, 1, 1, 2, 0.5), joins=(0, 0, 7, 3, 0, 0),
        fails=(np.inf, np.inf, 20, 40, 30, np.inf), queue=2,
        return_probability=(1, 1, 0.3, 1, 0.8, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize("tau", [1, 3])
@pytest.mark.parametrize("kind", [Lasso, Chain, Simplices])
def test_event_by_event(kind, name, tau):
    case, workers = kind(), CLUSTERS[name]
    run = begin_run(case.problem, workers, tau)
    other = Cluster(case, workers, tau, np.random.default_rng(3))
    inbox = run.session.inbox.batch
    past = [case.x(run.state)]
    for _ in range(150 if kind is Lasso else 60):
        chosen, atoms = inbox.chosen.tolist(), inbox.atoms.copy()
        advance(run)
        for batch in other.until_taken():
            assert set(batch) == set(chosen)
            k = len(past) - 1
            corners = [case.corner(i, a) for i, a in zip(chosen, atoms, strict=True)]
            for i, s in zip(chosen, corners, strict=True):
                gradient = case.dense.gradient(past[batch[i]], i)
                close(s @ gradient, case.least(gradient), 10 * case.tolerance)
            x, _ = update(case.dense, past[k], chosen, corners, "line", k)
            past.append(case.x(run.state))
            for z, expected in zip(past[-1], x, strict=True):
                close(z, expected, 50 * case.tolerance)
        assert run.session.clock == pytest.approx(other.now, rel=1e-12)
        assert run.state.n_updates == other.k
        close(case.v(run.state.shared), case.dense.v(past[-1]), 50 * case.tolerance)
    report = run.session.report()
    assert report["n_lost"] == other.n_lost
    assert report["n_dropped"] == other.n_dropped
    assert report["n_collisions"] == other.n_collisions
    assert run.state.n_updates > 10


# Closed forms.


@pytest.mark.parametrize("T", [1, 4, 25])
def test_time_per_pass_of_a_free_server(problem, T):
    """n oracle / T: no worker waits."""
    result = simulate(problem, Workers(T, oracle_seconds=2e-3))
    expected = problem.n_blocks * 2e-3 / T
    assert result.simulated.seconds / result.epochs == pytest.approx(expected, rel=0.01)
    assert result.simulated.server_utilisation == 0.0
    assert result.simulated.worker_utilisation == 1.0
    assert result.n_workers == T


def test_oracle_times_are_uniform_and_reading_takes_time(problem):
    workers = Workers(5, oracle_seconds=(1.0, 3.0), read_seconds=0.5)
    result = simulate(problem, workers, tau=1, epochs=200)
    expected = problem.n_blocks * 2.5 / 5
    assert result.simulated.seconds / result.epochs == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("tau", [1, 8])
def test_time_per_update_of_a_busy_server(problem, tau):
    """take x calls + step: the queue is never empty."""
    workers = Workers(64, oracle_seconds=1.0, take_seconds=0.1, step_seconds=0.7)
    result = simulate(problem, workers, tau=tau)
    calls = result.n_oracle_calls / result.n_updates
    expected = 0.1 * calls + 0.7
    spent = result.simulated.seconds / result.n_updates
    assert spent == pytest.approx(expected, rel=0.01)
    assert result.simulated.server_utilisation == pytest.approx(1.0, abs=0.01)
    # What was taken, what is in the queue, and what 64 workers hold: 1 second each.
    solved = result.n_oracle_calls + 4 * 64 + 64
    busy = solved / (64 * result.simulated.seconds)
    assert result.simulated.worker_utilisation == pytest.approx(busy, rel=0.01)


def test_the_server_works_a_known_share_of_the_time(problem):
    workers = Workers(10, oracle_seconds=1.0, take_seconds=0.02, step_seconds=0.1)
    result = simulate(problem, workers, epochs=100, tau=4)
    spent = 0.02 * result.n_oracle_calls + 0.1 * result.n_updates
    share = spent / result.simulated.seconds
    assert result.simulated.server_utilisation == pytest.approx(share, rel=1e-3)
    assert 0.4 < share < 0.5


def test_a_message_delays_and_keeps_nobody_busy(problem):
    how = {"oracle_seconds": (0.5, 1.5), "queue": 100}
    near = simulate(problem, Workers(10, **how), epochs=200)
    far = simulate(problem, Workers(10, message_seconds=3.0, **how), epochs=200)
    seconds = near.simulated.seconds
    assert far.simulated.seconds == pytest.approx(seconds + 3.0, rel=1e-3)
    more = 3.0 * near.n_updates / seconds
    assert far.delay.mean == pytest.approx(near.delay.mean + more, rel=0.02)


@pytest.mark.parametrize(("T", "tau"), [(20, 1), (20, 5), (20, 20), (5, 20)])
def test_the_mean_delay_is_what_others_do_meanwhile(problem, T, tau):
    """While one is at work, T - 1 others send: (T - 1) / calls updates are made."""
    result = simulate(problem, Workers(T, oracle_seconds=(0.5, 1.5)), 200, tau)
    calls = result.n_oracle_calls / result.n_updates
    # A batch is complete some calls after a message: it may count as one more.
    assert result.delay.mean == pytest.approx((T - 1) / calls, rel=0.06, abs=0.05)
    assert result.delay.histogram.sum() == tau * result.n_updates


@pytest.mark.parametrize("tau", [10, 50])
def test_collisions_are_those_of_proposition_1(problem, tau):
    assert problem.n_blocks == 100
    result = simulate(problem, Workers(tau), epochs=1500, tau=tau)
    extra = theory.expected_calls(100, tau) - tau
    used = result.n_oracle_calls - result.n_dropped
    assert result.n_updates > 2000
    assert result.n_collisions / result.n_updates == pytest.approx(extra, rel=0.02)
    assert used / result.n_updates == pytest.approx(tau + extra, rel=0.005)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_one_straggler_costs_what_it_does_not_report(problem, p):
    """(T - 1 + p) / T of the speed; what it lost is counted."""
    T = 8
    workers = Workers(T, return_probability=(p, *[1.0] * (T - 1)))
    result = simulate(problem, workers, epochs=300)
    expected = problem.n_blocks * 1e-3 / (T - 1 + p)
    assert result.simulated.seconds / result.epochs == pytest.approx(expected, rel=0.01)
    solved = result.simulated.seconds / 1e-3
    assert result.n_lost == pytest.approx((1 - p) * solved, rel=0.05)


def test_speeds_add_up(problem):
    speed = (1.0, 0.1, 2.0, 0.5)
    result = simulate(problem, Workers(4, speed=speed), epochs=100)
    expected = problem.n_blocks * 1e-3 / sum(speed)
    assert result.simulated.seconds / result.epochs == pytest.approx(expected, rel=0.01)


def test_who_comes_late_and_who_goes(problem):
    """4 workers for 10 s, 8 for 10 s, then 2: their messages, one a second each."""
    joins = (0, 0, 0, 0, 10, 10, 10, 10)
    fails = (20.5, 20.5, 20.5, 20.5, 20.5, 20.5, np.inf, np.inf)
    workers = Workers(8, oracle_seconds=1.0, joins=joins, fails=fails)
    for calls, seconds in ((40, 10), (120, 20), (140, 30)):
        run = begin_run(problem, workers, 1)
        advance(run, calls)
        assert run.session.clock == pytest.approx(seconds)
    utilisation = run.session.report()["simulated"].worker_utilisation
    assert utilisation == 1.0


@pytest.mark.parametrize("fails", [5.5, (5.5, 3.2, 4.0)])
def test_when_all_have_failed_the_iterate_is_kept(problem, fails):
    workers = Workers(3, oracle_seconds=1.0, fails=fails)
    result = simulate(problem, workers, epochs=100, tau=1, step="line")
    assert result.status is Status.ABANDONED
    done = sum(math.ceil(t) - 1 for t in workers.each("fails"))
    assert result.n_oracle_calls == done
    assert result.simulated.seconds == pytest.approx(5.5)
    first, last = result.trace[0], result.trace[-1]
    assert last.objective < first.objective
    assert last.n_updates == result.n_updates == result.state.n_updates
    more = solve(problem, engine=Serial(), start=result.state, max_epochs=2000, rng=0)
    assert more.converged


def test_who_fails_before_a_full_queue_sends_nothing(problem):
    """One message fits; the server takes one in 10 s: the others stand, and go."""
    workers = Workers(
        3, oracle_seconds=1.0, take_seconds=10.0, queue=1, fails=(np.inf, 5.0, 5.0)
    )
    run = begin_run(problem, workers, 1)
    advance(run, 1)
    assert run.session.clock == 1.0
    advance(run, 1)
    assert run.session.clock == 11.0
    report = run.session.report()["simulated"]
    # At 1 all have solved. One message is taken, one waits, one worker stands; what
    # stands at 5 goes. Worker 0 solves again by 2 and stands, too.
    assert report.server_utilisation == pytest.approx(1.0, abs=0.1)
    for calls in range(3, 8):
        advance(run, 1)
        assert run.session.clock == pytest.approx(10.0 * (calls - 1) + 1.0)
    assert (run.session.cluster.doing[1:] == GONE).all()


def test_a_queue_of_one(problem):
    """Without room each waits for the server, and nothing is lost."""
    workers = Workers(4, oracle_seconds=1.0, take_seconds=2.0, queue=1)
    result = simulate(problem, workers, epochs=20, tau=1)
    spent = result.simulated.seconds / result.n_oracle_calls
    assert spent == pytest.approx(2.0, rel=0.01)
    assert result.simulated.worker_utilisation == pytest.approx(0.5 / 4, rel=0.02)
    assert result.n_lost == 0


# The same bits, and real runs.


def same(one, two):
    assert np.array_equal(one.state.shared, two.state.shared)
    assert one.simulated == two.simulated
    assert [row[:6] for row in one.trace] == [row[:6] for row in two.trace]
    times = [[row.simulated_seconds for row in run.trace] for run in (one, two)]
    assert times[0] == times[1]


@pytest.mark.parametrize("kind", [Lasso, Chain])
def test_the_same_seed_gives_the_same_bits(kind, monkeypatch):
    problem = kind().problem
    how = {"engine": Delayed(workers=CLUSTERS["far"]), "tol": 0, "max_epochs": 60}
    how |= {"batch_size": 3}
    first = solve(problem, rng=5, **how)
    same(first, solve(problem, rng=5, **how))
    other = solve(problem, rng=6, **how)
    assert not np.array_equal(first.state.shared, other.state.shared)
    monkeypatch.setattr("wolfpack.run.journal.BEAT_SECONDS", 0.0)
    monkeypatch.setattr("wolfpack.run.schedule.SLICE_SECONDS", 1e-6)
    beats = []
    same(first, solve(problem, rng=5, callback=beats.append, **how))
    assert sum(not event.checked for event in beats) > 20


def test_time_in_the_trace_only_grows(problem):
    workers = Workers(20, oracle_seconds=(1e-3, 2e-3), step_seconds=1e-4)
    result = solve(problem, engine=Delayed(workers=workers), tol=1e-3, max_epochs=5000)
    assert result.converged
    times = [row.simulated_seconds for row in result.trace]
    assert times[0] == 0.0
    assert (np.diff(times) > 0).all()
    assert times[-1] == result.simulated.seconds
    best = solve(problem, tol=1e-5, max_epochs=10**5)
    assert result.lower_bound <= best.objective
    assert result.objective >= best.lower_bound


def test_more_workers_take_less_time_to_the_gap(problem):
    seconds = [
        solve(
            problem, engine=Delayed(workers=Workers(T)), batch_size=1, tol=0.01,
            max_epochs=2000, rng=0,
        ).simulated.seconds
        for T in (1, 4, 16)
    ]  # fmt: skip
    assert seconds[0] > 2 * seconds[1] > 4 * seconds[2]


def test_one_block_a_worker_by_default(problem):
    assert Delayed(workers=Workers(7)).blocks_per_update(None, 99) == 7
    assert Delayed(workers=Workers(700)).blocks_per_update(None, 99) == 99
    assert Delayed(workers=Workers(7)).blocks_per_update(3, 99) == 3
    result = simulate(problem, Workers(300), epochs=30)
    assert result.n_updates > 2
    assert result.n_collisions > 0


def test_a_resumed_run_starts_its_clock_anew(problem):
    workers = Workers(4, oracle_seconds=1.0)
    first = simulate(problem, workers, epochs=10)
    more = simulate(problem, workers, epochs=15, start=first.state)
    assert more.n_oracle_calls == 15 * problem.n_blocks
    assert more.simulated.seconds == pytest.approx(5 * problem.n_blocks / 4, rel=0.01)
    assert more.n_dropped == 0


def test_plain_python_is_slow_but_works():
    simplices = Simplices()
    engine = Delayed(workers=Workers(3, step_seconds=1e-3))
    result = solve(simplices.problem, engine=engine, tol=0.03, max_epochs=500, rng=0)
    assert result.converged


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (spy.RAISES, "raised ValueError on block 7: there is no path"),
        (spy.IS_NAN, "is NaN or infinite on block 7"),
        (spy.LEAVES, "outside the feasible set on block 7"),
    ],
)
def test_a_block_that_fails_is_named(kind, sentence):
    problem = spy.make()
    engine = Delayed(workers=Workers(3))
    spy.set_fault(problem, kind, block=7, after=5)
    with pytest.raises(OracleError, match=sentence) as caught:
        solve(problem, engine=engine, tol=0, max_epochs=np.inf, rng=0,
              max_seconds=HANG_SECONDS)  # fmt: skip
    assert caught.value.block == 7
    assert caught.value.state.n_updates > 0
    spy.assert_sound(problem, caught.value.state)


def test_it_draws_uniformly(problem):
    for sampling in ("gap", "cyclic"):
        with pytest.raises(ValueError, match=rf"draws uniformly.*not '{sampling}'"):
            solve(problem, engine=Delayed(workers=Workers(2)), sampling=sampling)

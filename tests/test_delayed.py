"""Updates that come late, against a dense version that keeps every past iterate."""

import numpy as np
import pytest
import spy
from helpers import begin_run as begin
from helpers import update
from limits import HANG_SECONDS
from test_serial import ALPHA, Chain, Lasso, Simplices, close

from wolfpack import Delayed, OracleError, Serial, Status, solve
from wolfpack.delays import Delays, constant, empirical, geometric, pareto, poisson
from wolfpack.engines.late import backlog
from wolfpack.state import State

CASES = {kind.__name__: kind for kind in (Lasso, Chain, Simplices)}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return CASES[request.param]()


@pytest.fixture(scope="module")
def lasso():
    return Lasso()


class Draws:
    """The delays and blocks of a run, in the order of its messages."""

    def __init__(self, monkeypatch, chunk=16):
        self.delays, self.blocks = [], []
        draw, more = Delays.draw, backlog.draw_more

        def record_delays(delays, rng, size):
            drawn = draw(delays, rng, size)
            self.delays.extend(drawn.tolist())
            return drawn

        def record_blocks(backlog, delays, choose, *others):
            def record(size):
                chosen = choose(size)
                self.blocks.extend(chosen.tolist())
                return chosen

            return more(backlog, delays, record, *others)

        monkeypatch.setattr(Delays, "draw", record_delays)
        monkeypatch.setattr(backlog, "draw_more", record_blocks)
        monkeypatch.setattr(backlog, "CHUNK", chunk)

    def of(self, k, tau):
        own = slice(k * tau, (k + 1) * tau)
        return list(zip(self.blocks[own], self.delays[own], strict=True))


def begin_run(problem, delay, tau=1, step="line", averaging=False):
    """A run that the test drives itself, with no check in between."""
    return begin(problem, tau, step, averaging=averaging, engine=Delayed(delay))


def advance(run, updates=1):
    until = run.state.n_updates + updates
    while run.state.n_updates < until:
        calls = (until - run.state.n_updates) * run.options.batch_size
        run.settle(run.session.advance(run, calls))


def late_update(case, run, past, k, messages, rule):
    """Update k of the reference; return the new x, and the delays that were used.

    After a line search two corners may be equally good. Which one the loop took is read
    from its inbox, and that it is a best one for the old iterate is checked.
    """
    x, tau, inbox = past[k], run.options.batch_size, run.session.inbox
    used = [(i, late) for i, late in messages if 2 * late <= k]
    blocks = [i for i, _ in used]
    assert inbox.batch.chosen[: inbox.count[0]].tolist() == blocks
    corners = [
        case.corner(i, inbox.batch.atoms[j].copy()) for j, i in enumerate(blocks)
    ]
    for s, (i, late) in zip(corners, used, strict=True):
        gradient = case.dense.gradient(past[k - late], i)
        close(s @ gradient, case.least(gradient), 10 * case.tolerance)
    if rule == "open-loop":  # its gamma is that of tau blocks, though some are missing
        rule = min(1.0, 2 * len(x) * tau / (tau**2 * k + 2 * len(x)))
    if used:
        x, _ = update(case.dense, x, blocks, corners, rule, k)
    return x, [late for _, late in used]


@pytest.mark.parametrize("rule", ["line", "open-loop", 0.3])
@pytest.mark.parametrize("tau", [1, 3])
@pytest.mark.parametrize("delay", [geometric(4), pareto(5)], ids=["light", "heavy"])
def test_every_past_iterate_kept(case, tau, rule, delay, monkeypatch):
    draws = Draws(monkeypatch)
    run = begin_run(case.problem, delay, tau, rule)
    past, used = [case.x(run.state)], []
    for k in range(60):
        advance(run)
        x, lates = late_update(case, run, past, k, draws.of(k, tau), rule)
        used += lates
        past.append(case.x(run.state))
        for z, expected in zip(past[-1], x, strict=True):
            close(z, expected, 50 * case.tolerance)
        close(case.v(run.state.shared), case.dense.v(x), 50 * case.tolerance)
    assert run.state.n_updates == 60
    assert run.state.n_oracle_calls == 60 * tau
    report = run.session.report()
    assert report["n_dropped"] == 60 * tau - len(used) > 0
    assert report["n_collisions"] == report["n_lost"] == 0
    assert report["delay"].mean == pytest.approx(np.mean(used))
    assert report["delay"].maximum == max(used) > 5
    counts = np.bincount(used, minlength=256)
    assert np.array_equal(report["delay"].histogram, np.trim_zeros(counts, "b"))


@pytest.mark.parametrize("tau", [1, 3])
@pytest.mark.parametrize("rule", ["line", "open-loop", 0.3])
def test_without_delay_it_is_serial(case, tau, rule):
    """The same draws, and the same steps but for the closed form of one block."""
    late, serial = (
        begin_run(case.problem, 0, tau, rule),
        begin(case.problem, tau, rule),
    )
    advance(late, 40)
    serial.session.advance(serial, 40 * tau)
    close(late.state.shared, serial.state.shared, 50 * case.tolerance)
    assert late.session.report()["delay"].maximum == 0
    assert late.session.report()["n_dropped"] == 0


def test_exact_steps_come_late_too(lasso, monkeypatch):
    draws = Draws(monkeypatch)
    run = begin_run(lasso.problem, poisson(3), step="exact")
    past = [lasso.x(run.state)]
    for k in range(50):
        advance(run)
        ((i, late),) = draws.of(k, 1)
        x = past[k]
        if 2 * late <= k:
            old = past[k - late]
            target = old[i] - lasso.dense.gradient(old, i) / 2
            target *= min(1.0, ALPHA / np.linalg.norm(target))
            x, _ = update(lasso.dense, x, [i], [target], "line", k)
        for z, expected in zip(lasso.x(run.state), x, strict=True):
            close(z, expected, 1e-9)
        past.append(x)


@pytest.mark.parametrize(
    "delay", [poisson(6), pareto(6), constant(9), empirical([0, 1, 0, 5])], ids=repr
)
@pytest.mark.parametrize("tau", [1, 2])
def test_dropped_is_what_is_older_than_half_of_all_updates(
    lasso, delay, tau, monkeypatch
):
    draws = Draws(monkeypatch, chunk=64)
    result = solve(
        lasso.problem, engine=Delayed(delay), batch_size=tau, tol=0, max_epochs=50,
        rng=1,
    )  # fmt: skip
    made = result.n_updates
    lates = np.array(draws.delays[: made * tau])
    k = np.repeat(np.arange(made), tau)
    assert result.n_dropped == (2 * lates > k).sum()
    kept = lates[2 * lates <= k]
    assert result.delay is not None
    assert result.delay.mean == pytest.approx(kept.mean())
    assert result.delay.histogram.sum() == kept.size


def same(one, two):
    assert one.n_updates == two.n_updates
    assert np.array_equal(one.state.shared, two.state.shared)
    assert np.array_equal(one.state.average, two.state.average)
    assert (one.n_dropped, one.status) == (two.n_dropped, two.status)
    assert [row.gap for row in one.trace] == [row.gap for row in two.trace]


@pytest.mark.parametrize(("tau", "delay"), [(1, pareto(20)), (3, poisson(5))], ids=str)
def test_the_same_seed_gives_the_same_bits(case, tau, delay):
    how = {"batch_size": tau, "tol": 0, "max_epochs": 300, "engine": Delayed(delay)}
    first = solve(case.problem, rng=5, **how)
    same(first, solve(case.problem, rng=5, **how))
    other = solve(case.problem, rng=6, **how)
    assert not np.array_equal(first.state.shared, other.state.shared)


@pytest.mark.parametrize("tau", [1, 3])
def test_slices_leave_no_mark(lasso, tau, monkeypatch):
    how = {"batch_size": tau, "tol": 0, "max_epochs": 400, "rng": 5}
    how |= {"engine": Delayed(pareto(10))}
    whole = solve(lasso.problem, **how)
    beats = []
    monkeypatch.setattr("wolfpack.run.journal.BEAT_SECONDS", 0.0)
    monkeypatch.setattr("wolfpack.run.schedule.SLICE_SECONDS", 1e-6)
    sliced = solve(lasso.problem, callback=beats.append, **how)
    assert sum(not event.checked for event in beats) > 100
    same(whole, sliced)


def test_a_time_limit_ends_it_soon_with_a_certificate(lasso, clock):
    how = {"engine": Delayed(pareto(10)), "tol": 0, "max_epochs": np.inf, "rng": 5}
    how |= {"step": "open-loop"}
    clock.is_late = lambda: clock.looks > 50
    cut = solve(lasso.problem, max_seconds=1e5, **how)
    assert cut.status is Status.TIME_LIMIT
    assert clock.looks < 70
    assert cut.n_updates > 0
    primal, dual = lasso.certificate(lasso.x(cut.state))
    close(cut.gap, primal - dual, 1e-9)
    # The same updates, when they are asked for by number.
    epochs = cut.n_oracle_calls / lasso.problem.n_blocks
    again = solve(lasso.problem, **{**how, "max_epochs": epochs})
    assert again.n_updates == cut.n_updates
    assert np.array_equal(again.state.shared, cut.state.shared)


@pytest.mark.parametrize("tau", [1, 3])
def test_the_average_counts_updates_that_moved_nothing(case, tau):
    run = begin_run(case.problem, poisson(6), tau, "open-loop", averaging=True)
    total = 0.0
    for k in range(1, 41):
        advance(run)
        total = total + k * case.v(run.state.shared)
    mean = case.v(run.state.averaged())
    close(mean, 2 / (40 * 41) * total, 100 * case.tolerance)
    assert run.session.report()["n_dropped"] > 0


@pytest.mark.parametrize("tau", [1, 3])
def test_a_line_search_never_rises(case, tau):
    run = begin_run(case.problem, pareto(15), tau)
    values = [case.dense.f(case.x(run.state))]
    for _ in range(150):
        advance(run)
        values.append(case.dense.f(case.x(run.state)))
    slack = 10 * case.tolerance * (1 + abs(values[0]))
    assert np.diff(values).max() <= slack
    assert values[-1] < values[0] - 0.05 * abs(values[0])


@pytest.mark.parametrize(
    ("delay", "step", "tol"),
    [(poisson(20), "line", 3e-3), (pareto(20), "open-loop", 0.03)],
    ids=["line", "open-loop"],
)
def test_it_converges_to_the_optimum(case, delay, step, tol):
    best = solve(case.problem, tol=1e-4, max_epochs=10**5, rng=0)
    result = solve(
        case.problem, engine=Delayed(delay), step=step, tol=tol, max_epochs=10**4,
        rng=0,
    )  # fmt: skip
    assert result.converged
    slack = 1e-6 * case.problem.scale
    assert result.lower_bound <= best.objective + slack
    assert result.objective >= best.lower_bound - slack
    assert result.n_workers == 1
    assert result.simulated is None
    assert result.trace[-1].simulated_seconds is None


def test_a_resumed_run_begins_with_nothing_on_its_way(lasso, monkeypatch):
    how = {"engine": Delayed(constant(20)), "tol": 0, "rng": 1}
    first = solve(lasso.problem, max_epochs=25, **how)
    draws = Draws(monkeypatch)
    begin = first.n_updates
    run = begin_run(lasso.problem, constant(20))
    run.state = State.resume(lasso.problem, first.state, run.options, None)
    past = {begin: lasso.x(run.state)}
    for k in range(begin, begin + 60):
        advance(run)
        ((i, late),) = draws.of(k - begin, 1)
        assert 2 * late <= k
        gradient = lasso.dense.gradient(past[max(begin, k - late)], i)
        corner = -ALPHA * gradient / np.linalg.norm(gradient)
        past[k + 1], _ = update(lasso.dense, past[k], [i], [corner], "line", k)
        for z, expected in zip(lasso.x(run.state), past[k + 1], strict=True):
            close(z, expected, 1e-9)
    assert run.session.report()["delay"].maximum == 20
    more = solve(lasso.problem, start=first.state, max_epochs=30, **how)
    assert more.n_updates == 30 * 8
    assert more.n_dropped == 0
    done = solve(
        lasso.problem, start=more.state, engine=Delayed(pareto(20)), tol=1e-5,
        max_epochs=10**4,
    )  # fmt: skip
    assert done.converged
    assert done.n_updates > more.n_updates


def test_any_engine_goes_on_from_a_late_one(lasso):
    late = solve(lasso.problem, engine=Delayed(poisson(9)), max_epochs=9, tol=0, rng=0)
    assert solve(lasso.problem, engine=Serial(), start=late.state).converged


@pytest.mark.parametrize(
    ("delay", "room"), [(constant(50), 60), (poisson(50), 110), (pareto(50), 600)]
)
def test_only_atoms_that_wait_are_kept(lasso, delay, room):
    """About as many as the mean delay, not one for each past version."""
    run = begin_run(lasso.problem, delay)
    advance(run, 20_000)
    assert len(run.session.backlog.atoms) <= room
    # And no draws but those of updates that may read the current v.
    assert run.session.backlog.reads.size <= 2 * 20_000 + 2 * backlog.CHUNK
    if delay.maximum < 1000:
        assert run.session.backlog.reads.size <= 3 * backlog.CHUNK


def test_too_long_a_memory_is_refused_in_a_sentence(lasso, monkeypatch):
    monkeypatch.setattr(backlog, "MAX_BYTES", 2**20)
    sentence = (
        r"pareto\(mean=20.0, shape=2.0\) with batch_size 1 keeps \d+ atoms and \d+ "
        r"draws in memory after \d+ updates .* the limit is .* Use a shorter delay or"
    )
    with pytest.raises(MemoryError, match=sentence):
        solve(
            lasso.problem, engine=Delayed(pareto(20)), step="open-loop", tol=0,
            max_epochs=10**5,
        )  # fmt: skip
    # A delay with a maximum never needs that much memory.
    short = solve(
        lasso.problem, engine=Delayed(9), step="open-loop", tol=0, max_epochs=4000
    )
    assert short.status is Status.EPOCH_LIMIT


@pytest.mark.parametrize("tau", [1, 2])
def test_plain_python_is_slow_but_works(tau):
    simplices = Simplices()
    assert not simplices.problem.kernels().compiled
    result = solve(
        simplices.problem, engine=Delayed(poisson(2)), batch_size=tau, tol=0.01,
        max_epochs=10**3, rng=0,
    )  # fmt: skip
    assert result.converged


FAULTS = [
    (spy.RAISES, "raised ValueError on block 7: there is no path"),
    (spy.IS_NAN, "is NaN or infinite on block 7"),
    (spy.LEAVES, "outside the feasible set on block 7"),
]


@pytest.mark.parametrize("tau", [1, 3])
@pytest.mark.parametrize(("kind", "sentence"), FAULTS)
def test_a_block_that_fails_is_named(kind, sentence, tau):
    problem = spy.make()
    engine = Delayed(poisson(4))
    spy.set_fault(problem, kind, block=7, after=5)
    with pytest.raises(OracleError, match=sentence) as caught:
        solve(
            problem, engine=engine, batch_size=tau, tol=0, max_epochs=np.inf,
            max_seconds=HANG_SECONDS, rng=0,
        )  # fmt: skip
    assert caught.value.block == 7
    assert caught.value.state.n_updates > 0
    spy.assert_sound(problem, caught.value.state)
    spy.set_fault(problem, spy.NEVER)
    more = solve(
        problem, engine=engine, start=caught.value.state, tol=1e-3, max_epochs=10**5
    )
    assert more.converged


def test_a_line_search_that_fails_leaves_v_whole():
    problem = spy.make()
    spy.set_fault(problem, spy.RAISES_IN_SLOPE, after=500)
    with pytest.raises(OracleError, match="there is no slope") as caught:
        solve(problem, engine=Delayed(2), tol=0, max_epochs=np.inf, rng=0)
    spy.assert_sound(problem, caught.value.state)


@pytest.mark.parametrize("sampling", ["gap", "permutation"])
def test_it_draws_uniformly(lasso, sampling):
    with pytest.raises(ValueError, match=f"draws uniformly.*not '{sampling}'"):
        solve(lasso.problem, engine=Delayed(1), sampling=sampling)


@pytest.mark.parametrize("tau", [1, 3])
def test_sweeps_come_late_too(lasso, tau, monkeypatch):
    """Blocks are those of a sweep, in order, and the optimum is that of `Serial`."""
    draws = Draws(monkeypatch, chunk=4096)
    n, how = lasso.problem.n_blocks, {"batch_size": tau, "sampling": "cyclic"}
    runs = [
        solve(lasso.problem, engine=Delayed(poisson(3)), tol=1e-5, rng=0, **how,
              max_epochs=10**4)
        for _ in range(2)
    ]  # fmt: skip
    assert runs[0].status is Status.CONVERGED
    assert runs[0].state.shared.tobytes() == runs[1].state.shared.tobytes()
    there = np.arange(n)
    expected = np.concatenate([there, there[::-1]])
    if tau == 1:
        assert draws.blocks[: 2 * n] == expected.tolist()
    best = solve(lasso.problem, tol=1e-6, max_epochs=10**5, rng=0)
    assert runs[0].lower_bound <= best.objective
    assert runs[0].objective >= best.lower_bound


def test_draws_are_uniform_and_distinct(lasso, monkeypatch):
    draws = Draws(monkeypatch, chunk=4096)
    solve(
        lasso.problem, engine=Delayed(0), batch_size=3, tol=0, max_epochs=3000,
        step="open-loop", rng=0,
    )  # fmt: skip
    batches = np.reshape(draws.blocks, (-1, 3))
    assert (np.diff(np.sort(batches, axis=1), axis=1) > 0).all()
    counts = np.bincount(batches.ravel(), minlength=8)
    assert np.abs(counts / counts.sum() - 1 / 8).max() < 0.005
    assert draws.of(0, 3) != draws.of(1, 3)


def test_an_empty_run(lasso):
    result = solve(lasso.problem, engine=Delayed(5), max_epochs=0, tol=0)
    assert (result.n_updates, result.n_dropped, result.delay) == (0, 0, None)

"""`engines.base` is all that an engine has to know: engines written from it alone."""

import numpy as np
import pytest
import spy

import wolfpack
from wolfpack import (
    Delayed,
    EngineError,
    OracleError,
    Ray,
    Serial,
    Status,
    Sync,
    Threads,
    delays,
    solve,
)
from wolfpack.engines.base import Engine, Session
from wolfpack.update.plan import Exit


class ByHand(Engine):
    """Block-coordinate Frank-Wolfe in plain Python, through a problem's functions."""

    def session(self, problem, options):
        return ByHandSession()


class ByHandSession(Session):
    def advance(self, run, calls):
        for _ in range(calls):
            self.update(run.problem, run.state, run.work)
            if run.pulse():
                break
        return Exit.DONE

    def update(self, problem, state, work):
        data, v, points = problem.data, state.shared, state.blocks.points
        i = int(state.rng.integers(problem.n_blocks))
        atom, move = problem.scratch_atom(i), np.zeros_like(v)
        problem.oracle(data, v, i, atom, work)
        change = atom - points[i]
        problem.add(data, i, change, 1.0, move)
        first, last = (
            problem.slope(data, v, move, np.arange(len(v)), gamma) for gamma in (0, 1)
        )
        gamma = np.clip(-first / (last - first), 0, 1) if first < 0 else 0.0
        points[i] += gamma * change
        v += gamma * move
        state.progress.updates += 1
        state.progress.calls += 1


class Noting(Engine):
    """Serial, whose session notes how it is called, and raises where it is told to."""

    reproducible = True

    def __init__(self, raises="", error=None):
        self.raises, self.error, self.calls = raises, error, []

    def loops(self, problem):
        return Serial().loops(problem)

    def session(self, problem, options):
        return NotingSession(self, Serial().session(problem, options))


class NotingSession(Session):
    def __init__(self, engine, inner):
        self.engine, self.inner = engine, inner

    def note(self, name):
        if name != "advance" or self.engine.calls[-1] != name:
            self.engine.calls.append(name)
        if name == self.engine.raises:
            raise self.engine.error

    def warm_up(self, run):
        self.note("warm_up")
        self.inner.warm_up(run)

    def open(self, run):
        self.note("open")

    def advance(self, run, calls):
        self.note("advance")
        return self.inner.advance(run, calls)

    def fetch(self, run):
        self.note("fetch")

    def oracle_sum(self, state, exact, stop):
        self.note("oracle_sum")

    def report(self):
        self.note("report")
        return {"n_workers": 7}

    def close(self):
        self.note("close")


@pytest.fixture(scope="module")
def problem():
    return spy.make()


@pytest.fixture(autouse=True)
def healthy(problem):
    spy.set_fault(problem, spy.NEVER)


def test_an_engine_of_three_lines_converges_with_a_certificate(problem):
    low, high = spy.optimum(problem)
    result = solve(problem, engine=ByHand(), tol=1e-3, max_epochs=1000, rng=0)
    assert result.status is Status.CONVERGED
    assert low <= result.objective
    assert result.lower_bound <= high
    assert result.gap <= 1e-3 * problem.scale
    assert result.n_updates == result.n_oracle_calls
    spy.assert_sound(problem, result.state)


def test_an_engine_that_says_nothing_has_sensible_defaults(problem):
    events = []
    how = {"tol": 0, "max_epochs": 2, "batch_size": "auto", "callback": events.append}
    result = solve(problem, engine=ByHand(), rng=0, **how)
    plain = solve(problem, tol=0, max_epochs=2, rng=0)
    assert result.status is Status.EPOCH_LIMIT
    assert result.epochs == 2
    for name in ("n_workers", "n_collisions", "delay", "simulated", "traffic"):
        assert getattr(result, name) == getattr(plain, name)
    assert result.trace[-1].simulated_seconds is None
    assert events[-1].live is None
    assert not ByHand().reproducible
    assert ByHand().size == ByHand().blocks_per_update(None, 40) == 1
    assert ByHand().blocks_per_update(5, 40) == 5
    assert ByHand().loops(problem) == ()


def test_a_wrapped_session_gives_the_bits_of_the_one_inside(problem):
    how = {"tol": 0, "max_epochs": 3, "check_every": 1, "rng": 0}
    result = solve(problem, engine=Noting(), **how)
    expected = solve(problem, **how)
    assert result.state.shared.tobytes() == expected.state.shared.tobytes()
    assert [row.gap for row in result.trace] == [row.gap for row in expected.trace]
    assert result.n_workers == 7


def test_a_session_is_called_in_order(problem):
    engine = Noting()
    solve(problem, engine=engine, tol=0, max_epochs=2, check_every=1, rng=0)
    check = ["fetch", "oracle_sum"]
    turns = [*check, "advance", *check, "advance", *check]
    assert engine.calls == ["warm_up", "open", *turns, "report", "close"]


@pytest.mark.parametrize("name", ["warm_up", "open", "advance", "fetch", "report"])
@pytest.mark.parametrize("error", [EngineError("no"), KeyboardInterrupt(), OSError(1)])
def test_a_session_is_closed_whatever_raises(problem, name, error):
    engine = Noting(name, error)
    wanted = type(error)
    if name == "advance" and wanted is OSError:  # it is blamed on the problem
        wanted = OracleError
    with pytest.raises(wanted):
        solve(problem, engine=engine, tol=0, max_epochs=2, rng=0)
    assert engine.calls[-1] == "close"
    assert engine.calls.count("close") == 1
    between = engine.calls[engine.calls.index(name) + 1 : -1]
    check = {"advance": ["fetch", "oracle_sum"], "fetch": ["fetch"]}
    check["report"] = check["advance"]
    is_tried = isinstance(error, EngineError)  # to certify what is left
    assert between == (check.get(name, []) if is_tried else [])


class Ends(ByHand):
    """Comes back as it is told to, after it has done what it is told to."""

    def __init__(self, ended, first=lambda run: None):
        self.ended, self.first = ended, first

    def session(self, problem, options):
        session, engine = ByHandSession(), self

        def advance(run, calls):
            ByHandSession.advance(session, run, 3)
            engine.first(run)
            return engine.ended

        session.advance = advance
        return session


def test_what_a_session_gives_up_is_kept(problem):
    result = solve(problem, engine=Ends(Exit.ABANDONED), tol=0, rng=0)
    assert result.status is Status.ABANDONED
    assert result.n_updates == 3


@pytest.mark.parametrize("ended", [Exit.NOT_A_NUMBER, Exit.INFEASIBLE])
def test_what_is_wrong_is_said_in_the_sentence_of_the_exit(problem, ended):
    with pytest.raises(OracleError, match=f"spy: {ended.sentence} on block 0 after 3 "):
        solve(problem, engine=Ends(ended), tol=0, rng=0)


def test_an_error_that_is_no_fault_of_the_problem_is_raised_as_it_is(problem):
    error = MemoryError("no room")
    engine = Ends(Exit.DONE, lambda run: run.fail(error))
    with pytest.raises(MemoryError) as caught:
        solve(problem, engine=engine, tol=0, rng=0)
    assert caught.value is error


def test_one_who_only_looks_like_an_engine_is_refused(problem):
    class Duck:
        def advance(self, run, calls):
            return Exit.DONE

    for engine in (Duck(), Serial, ByHandSession()):
        with pytest.raises(TypeError, match=r"engine must be an engine like Serial"):
            solve(problem, engine=engine)
    with pytest.raises(TypeError, match="abstract"):
        Engine()
    with pytest.raises(TypeError, match="abstract"):
        Session()


def test_every_engine_keeps_the_contract(problem):
    workers = delays.Workers(2, oracle_seconds=1e-3)
    engines = [
        Serial(), Sync(2), Threads(2), Threads(2, "server"), Threads(2, "lock-free"),
        Delayed(3), Delayed(workers=workers), Ray(),
    ]  # fmt: skip
    lasso = wolfpack.group_fused_lasso(wolfpack.make_piecewise(n=20, d=2)[0], 0.5)
    loops = {str(engine): engine.loops(problem) for engine in engines}
    assert all(isinstance(engine, Engine) for engine in engines)
    assert all(len(modules) == 1 for modules in loops.values())
    names = [modules[0].__name__.rpartition(".")[2] for modules in loops.values()]
    assert names == [
        "serial", "rounds", "merge", "ring", "rows", "backlog", "simulation", "service"
    ]  # fmt: skip
    assert Threads(2).loops(lasso)[0].__name__.endswith("local")  # it reads few rows

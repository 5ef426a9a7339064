"""A user's fused step: it must not rely on what the oracle left in `work`."""

import dataclasses

import numpy as np
import pytest

import wolfpack
from wolfpack import Delayed, Problem, ProblemError, Serial, delays, solve

N, K, M = 12, 6, 4
random = np.random.default_rng(0)
CORNERS, TARGET = random.normal(size=(N, K, M)), 9 * random.normal(size=M)
COSTS = random.normal(size=(N, K))


# The problem: the sum of a corner of each block comes near a target, at a cost.


def oracle(data, shared, i, atom, work):
    scores = CORNERS[i] @ (shared - TARGET) + COSTS[i]
    atom[0] = scores.argmin()
    work[0][:] = CORNERS[i, atom[0]]
    work[1][:] = shared - TARGET
    return scores[atom[0]]


def score(data, shared, i, atom):
    return CORNERS[i, atom[0]] @ (shared - TARGET) + COSTS[i, atom[0]]


def add(data, i, atom, scale, out):
    out += scale * CORNERS[i, atom[0]]
    return scale * COSTS[i, atom[0]]


def slope(data, shared, direction, rows, gamma):
    return (shared + gamma * direction - TARGET) @ direction


def value(data, shared):
    return 0.5 * np.square(shared - TARGET).sum()


def mean(move, i, table, most=None):
    """What x_(i) makes of a table: the mean over its atoms, by their weights."""
    pairs = zip(move.weights[:most], move.atoms[:most], strict=True)
    return sum(weight * table[i, corner] for weight, corner in pairs)


def change(move, i, table, most=None):
    """What a move makes of a table."""
    return table[i, move.atom[0]] - mean(move, i, table, most)


def prepare(data, i, move, work):
    work[0][:] = change(move, i, CORNERS)
    work[2][0] = change(move, i, COSTS)


def rate(data, shared, i, move, work, is_fresh):
    gradient = work[1] if is_fresh else shared - TARGET
    return float(work[0] @ gradient) + work[2][0]


def spread(data, i, move, scale, out, work):
    out += scale * work[0]
    return scale * work[2][0]


def curvature(data, i, move, work):
    return float(work[0] @ work[0])


def make(**changes):
    made = Problem(
        data=(),
        shared=np.zeros(M),
        start=np.zeros(N, np.int64),
        offsets=np.arange(N + 1),
        oracle=oracle,
        score=score,
        add=add,
        slope=slope,
        value=value,
        contains=lambda data, i, atom: 0 <= atom[0] < K,
        prepare=prepare,
        rate=rate,
        spread=spread,
        curvature=curvature,
        work=lambda: (np.zeros(M), np.zeros(M), np.zeros(1)),
    )
    return dataclasses.replace(made, **changes)


def plain():
    return make(prepare=None, rate=None, spread=None, curvature=None)


ENGINES = [Serial(), Delayed(0), Delayed(delays.poisson(5))]
ENGINES += [Delayed(workers=delays.Workers(4))]


@pytest.mark.parametrize("engine", ENGINES, ids=repr)
@pytest.mark.parametrize("changes", [{}, {"curvature": None}, {"rate": None}])
def test_a_right_step_is_accepted_and_gives_what_plain_steps_give(engine, changes):
    how = {"engine": engine, "tol": 0, "max_epochs": 20, "rng": 0}
    fused, steps = solve(make(**changes), **how), solve(plain(), **how)
    assert fused.objective == pytest.approx(steps.objective, rel=1e-9)
    assert fused.gap == pytest.approx(steps.gap, rel=1e-3)
    assert max(row.drift for row in fused.trace) < 1e-9


def relies_on_the_oracle(data, i, move, work):
    work[0][:] -= mean(move, i, CORNERS)  # the oracle has left the corner there
    work[2][0] = change(move, i, COSTS)


def relies_on_zeros(data, i, move, work):
    work[0][:] = change(move, i, CORNERS)
    work[2][0] += change(move, i, COSTS)


def knows_one_atom(data, i, move, work):
    work[0][:] = change(move, i, CORNERS, most=1)
    work[2][0] = change(move, i, COSTS)


def is_the_rate_of_one_atom(data, shared, i, move, work, is_fresh):
    return float(change(move, i, CORNERS, most=1) @ (shared - TARGET)) + work[2][0]


def is_always_fresh(data, shared, i, move, work, is_fresh):
    return rate(data, shared, i, move, work, True)


def is_never_right_when_fresh(data, shared, i, move, work, is_fresh):
    return (0.5 if is_fresh else 1.0) * rate(data, shared, i, move, work, is_fresh)


def is_nan_elsewhere(data, shared, i, move, work, is_fresh):
    return rate(data, shared, i, move, work, True) if work[1].any() else np.nan


def forgets_the_cost(data, i, move, scale, out, work):
    out += scale * work[0]
    return 0.0


def forgets_the_scale_of_the_cost(data, i, move, scale, out, work):
    out += work[0] if scale > 0 else scale * work[0]
    return scale * work[2][0]


def spreads_once(data, i, move, scale, out, work):
    out += scale * work[0]
    work[0][:] = 0.0
    return scale * work[2][0]


def relies_on_the_oracle_of_the_block(data, i, move, work):
    if work[2][0] != i + 1.0:  # the oracle was called for another block
        work[0][:] = CORNERS[i, move.atom[0]]
    work[0][:] -= mean(move, i, CORNERS)
    work[2][1] = change(move, i, COSTS)


def notes_the_block(data, shared, i, atom, work):
    work[2][0] = i + 1.0
    return oracle(data, shared, i, atom, work)


def rates_the_second(data, shared, i, move, work, is_fresh):
    return float(work[0] @ (shared - TARGET)) + work[2][1]


def spreads_the_second(data, i, move, scale, out, work):
    out += scale * work[0]
    return scale * work[2][1]


def overwrites(data, i, move, scale, out, work):
    out[:] = scale * work[0]
    return scale * work[2][0]


def is_of_the_spread(data, i, move, work):
    return float(work[3] @ work[3])


def notes_the_spread(data, i, move, scale, out, work):
    work[3][:] = work[0]
    return spread(data, i, move, scale, out, work)


def forgets_a_row(data, i, move, rows, work):
    rows[: M - 1] = np.arange(M - 1)
    return M - 1


WRONG = {
    "the oracle's work": (
        {"prepare": relies_on_the_oracle, "rate": None},
        r"spread and add disagree on block 0 where prepare is called with fresh work: "
        r"what it keeps .* not on what the oracle left in work",
    ),
    "zeros": (
        {"prepare": relies_on_zeros, "rate": None},
        "where prepare is called with the work that another block has used: what it",
    ),
    "the oracle's work for another atom": (
        {
            "oracle": notes_the_block,
            "prepare": relies_on_the_oracle_of_the_block,
            "rate": rates_the_second,
            "spread": spreads_the_second,
            "curvature": None,
            "work": lambda: (np.zeros(M), np.zeros(M), np.zeros(2)),
        },
        "where the oracle has found another atom of the block in the meantime: what it",
    ),
    "what was there": ({"spread": overwrites}, r"spread and add disagree on block 0\."),
    "one atom": (
        {"prepare": knows_one_atom, "rate": None, "curvature": None},
        r"spread and add disagree on block 0\.",
    ),
    "one atom's rate": (
        {"rate": is_the_rate_of_one_atom},
        "rate returned .*, but the scores give",
    ),
    "another oracle's gradient": (
        {"rate": is_always_fresh},
        "rate returned .*, but the scores give",
    ),
    "fresh": (
        {"rate": is_never_right_when_fresh},
        "rate returned .*, but the scores give",
    ),
    "NaN": ({"rate": is_nan_elsewhere}, "rate on block 0 returned nan; it must"),
    "cost": ({"spread": forgets_the_cost}, r"spread and add disagree on block 0\."),
    "scale": ({"spread": forgets_the_scale_of_the_cost}, "spread and add disagree"),
    "once": ({"spread": spreads_once}, "spread and add disagree"),
    "curvature": (
        {
            "spread": notes_the_spread,
            "curvature": is_of_the_spread,
            "work": lambda: (np.zeros(M), np.zeros(M), np.zeros(1), np.zeros(M)),
        },
        "curvature is 0, but slopes give",
    ),
    "rows": (
        {"touched": forgets_a_row, "max_rows": M},
        "touched leaves out rows that spread wrote on block 0",
    ),
}


@pytest.mark.parametrize(("changes", "message"), WRONG.values(), ids=WRONG)
def test_check_finds_what_a_step_relies_on(changes, message):
    with pytest.raises(ProblemError, match=message) as caught:
        make(**changes).check()
    assert "\n" not in str(caught.value)


def test_an_add_that_overwrites_is_refused():
    def sets(data, i, atom, scale, out):
        out[:] = scale * CORNERS[i, atom[0]]
        return scale * COSTS[i, atom[0]]

    with pytest.raises(ProblemError, match="add on block 0 sets entries of out"):
        make(add=sets, prepare=None, rate=None, spread=None, curvature=None).check()


def test_one_block_has_no_other():
    one = {"start": np.zeros(1, np.int64), "offsets": np.arange(2)}
    make(**one).check()
    with pytest.raises(ProblemError, match="with fresh work"):
        make(prepare=relies_on_the_oracle, **one).check()


def test_the_rate_of_a_ready_step_needs_no_oracle():
    # Chains take the scores that the oracle left in `work` only where they are fresh.
    X = random.normal(size=(30, 5))
    y = random.integers(3, size=30)
    problem = wolfpack.chain_ssvm(np.split(X, 3), np.split(y, 3), 0.1)
    dataclasses.replace(problem).check()


def test_a_check_that_passed_does_not_excuse_quadratic():
    # `curvature` is held against the slopes only where g is said to be quadratic.
    passed = []
    for quadratic in (True, False):
        problem = make(quadratic=quadratic)
        problem.check()
        passed.append(problem._passed)
    assert len(set(passed)) == 2

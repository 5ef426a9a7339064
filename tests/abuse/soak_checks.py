"""What must hold after a fault, held against the problem written out."""

import math

import numpy as np

from wolfpack import State, Status

TOL = 1e-3
RESUME_SECONDS = 60.0


class Broken(AssertionError):
    """A promise that does not hold."""


class Left(Broken):
    """A thread, process or file of a run is still there."""

    kind = "leftover process"


def require(holds, sentence):
    """Raise `Broken` unless it holds."""
    if not holds:
        raise Broken(sentence)


def slack(known):
    """Return how far rounding may go: of v, and of f (both relative)."""
    single = known.problem.shared.dtype == np.float32
    return (2e-5, 2e-5) if single else (1e-8, 1e-6)


def check_point(known, state):
    """x is feasible; return it."""
    try:
        x = known.point(state)
    except (AssertionError, IndexError) as error:
        raise Broken(f"x cannot be read: {error!r}") from error
    for i, z in enumerate(x):
        require(np.isfinite(z).all(), f"block {i} of x is not finite")
        off = known.set.miss(z)
        require(off < 1e-8, f"block {i} of x is outside its set by {off:.3g}")
    return x


def check_state(known, state):
    """v = v0 + A x, or follows it in an accelerated run, and x is feasible."""
    require(state is not None, "there is no state")
    x = check_point(known, state)
    v, exact = known.v(state.shared), known.dense.v(x)
    if state.outer is not None:
        s, z = state.outer.reach, known.v(state.outer.anchor)
        exact = s * exact + (1.0 - s) * z
    off = np.abs(v - exact).max()
    most = slack(known)[0] * (1.0 + np.abs(exact).max())
    require(off <= most, f"v differs from v0 + A x by {off:.3g}")
    return x


def check_certificate(known, optimum, objective, gap, lower_bound):
    """objective - gap <= f* <= objective."""
    most = slack(known)[1] * (known.problem.scale + abs(optimum))
    require(gap >= 0.0, f"the gap is {gap}")
    require(
        math.isclose(lower_bound, objective - gap, rel_tol=1e-9, abs_tol=1e-9),
        f"the bound {lower_bound} is not {objective} - {gap}",
    )
    require(
        lower_bound <= optimum + most,
        f"the bound {lower_bound} is above the optimum {optimum}",
    )
    require(
        objective >= optimum - most,
        f"the objective {objective} is below the optimum {optimum}",
    )


def check_result(known, optimum, result):
    """The state is sound, and every certificate of the run was right."""
    x = check_state(known, result.state)
    found, most = known.dense.f(x), slack(known)[1] * known.problem.scale
    off = abs(found - result.objective)
    if result.objective < found and result.state.outer is not None:
        start = float(result.state.outer.numbers.first)  # x has run away
        off = min(off, abs(start - result.objective))
    require(off <= most, f"f(x) = {found}, but the result says {result.objective}")
    check_certificate(known, optimum, result.objective, result.gap, result.lower_bound)
    for row in result.trace:
        check_certificate(known, optimum, row.objective, row.gap, row.lower_bound)
    calls = [row.n_oracle_calls for row in result.trace]
    require(calls == sorted(calls), f"counts fall: {calls}")


def check_resume(known, optimum, state, solve, folder=None):
    """The run goes on without the fault, and reaches the known optimum."""
    updates = 0
    if state is not None:
        updates = state.n_updates
        if folder is not None:  # by way of a file
            state = State.load(state.save(folder / "state.npz"))
            require(state.n_updates == updates, "the file has another count")
    result = solve(start=state, tol=TOL, max_seconds=RESUME_SECONDS)
    check_result(known, optimum, result)
    status = result.status
    require(status is Status.CONVERGED, f"it went on, and ended as {status.name}")
    scale = known.problem.scale
    most = TOL * scale * (1.0 + 1e-6) + slack(known)[1] * (scale + abs(optimum))
    off = result.objective - optimum
    require(off <= most, f"it converged {off:.3g} above the optimum {optimum}")
    require(result.n_updates >= updates, f"{updates} updates became {result.n_updates}")

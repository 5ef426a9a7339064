"""Problems that every process of a cluster makes for itself."""

from pathlib import Path

import numpy as np
import spy

import wolfpack
from wolfpack import Problem


def from_file(path):
    """Return the problem of a file of matrices, which is mapped, not read."""
    A = np.load(path, mmap_mode="r")
    n, d, m = A.shape
    data = spy.Data(A, np.full(d, 0.3), np.zeros(n, np.int64), np.zeros(4))
    return Problem(
        data=data,
        shared=np.zeros(d),
        start=np.tile(np.eye(m)[0], (n, 1)),
        oracle=spy.oracle,
        score=spy.score,
        add=spy.add,
        slope=spy.slope,
        value=spy.value,
        contains=spy.contains,
        scale=0.5 * d * 0.09,
        name="from a file",
    ).made_by(from_file, path, ours=True)


def sleepy(microseconds):
    """Return a problem in no hurry."""
    problem = spy.make(n=100)
    spy.set_fault(problem, spy.SLEEPS, microseconds=microseconds)
    return problem.made_by(sleepy, microseconds, ours=True)


def lasso(n=100):
    """Return one of the optima of the paper's kind: 22.8272 at n = 100."""
    Y, _, _ = wolfpack.make_piecewise(n, 10)
    return wolfpack.group_fused_lasso(Y, alpha=0.5)


def assert_certified(result, n=100, alpha=0.5):
    """Both ends of the bracket of `lasso(n)` are what NumPy makes of x and signal."""
    Y, _, _ = wolfpack.make_piecewise(n, 10)
    signal, x = result.solution, result.state.blocks.points
    assert np.linalg.norm(x, axis=1).max() <= alpha * (1 + 1e-12)
    jumps = np.linalg.norm(np.diff(signal, axis=0), axis=1).sum()
    primal = 0.5 * np.square(signal - Y).sum() + alpha * jumps
    edge = np.zeros((1, x.shape[1]))
    dual = 0.5 * np.square(Y + np.diff(np.vstack([edge, x, edge]), axis=0)).sum()
    close = {"rtol": 1e-9, "atol": 0}
    np.testing.assert_allclose(-result.lower_bound, primal, **close)
    np.testing.assert_allclose(
        result.objective, dual - 0.5 * np.square(Y).sum(), **close
    )


def exact_v(problem, state):
    """Return v0 + A x."""
    exact = problem.shared.astype(np.float64)
    args = (problem.data, state.blocks, 0, problem.n_blocks, exact, problem.work())
    problem.kernels().rebuild(*args)
    return exact


def assert_sound(problem, state):
    """v fits x: it is v0 + A x, or what the outer loop makes of that."""
    exact = exact_v(problem, state)
    if state.outer is not None:
        s, z = state.outer.reach, state.outer.anchor
        exact = s * exact + (1 - s) * z
    np.testing.assert_allclose(state.shared, exact, rtol=0, atol=1e-6)


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


def is_alive(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return stat[0] != "Z"

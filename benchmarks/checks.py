"""What a check costs beside the oracle calls that it makes.

    python benchmarks/checks.py [--workers 1,16] [--rounds 9]

Both run on the same threads, in turns, after some accelerated passes: a pass that only
calls the oracle, a check as most are (no stored atom is looked at), and one with u and
<c, x> computed from the atoms, as near the goal. Medians of the milliseconds, and the
ratio to the bare pass.
"""

import argparse
import time
from statistics import median
from unittest.mock import patch

import numba

import wolfpack
from wolfpack import datasets
from wolfpack.run import loop


@numba.njit(nogil=True)
def call_oracle(oracle, data, shared, atom, work, first, last):
    """Call the oracle on blocks [first, last)."""
    total = 0.0
    for i in range(first, last):
        own = atom[: data.begin[i + 1] - data.begin[i]]
        total += oracle(data, shared, i, own, work)
    return total


def measure(problem, workers, rounds):
    """Return medians of the seconds of a bare pass, a check, and an exact one."""
    engine = wolfpack.Threads(workers) if workers > 1 else wolfpack.Serial()
    found, finish = [], loop.Run._finish

    def watched(run, status):
        found.extend(compare(run, rounds))
        return finish(run, status)

    with patch.object(loop.Run, "_finish", watched):
        wolfpack.solve(
            problem, engine=engine, tol=0, max_epochs=10, sampling="gap",
            accelerate=True, rng=0,
        )  # fmt: skip
    return found


def compare(run, rounds):
    """Time the three in turns."""
    problem, certifier, state = run.problem, run.certifier, run.state

    def bare():
        def work(t):
            first, last = certifier._share(t, certifier.size)
            args = (certifier.atoms[t], certifier.works[t], first, last)
            return call_oracle(problem.oracle, problem.data, state.shared, *args)

        certifier.divide(work, certifier.size)

    def check():
        certifier.certify(state, lambda: False, is_last=False)

    def exact():
        certifier.certify(state, lambda: False, is_last=True)

    certifier.goal, state.outer.numbers.rebuilt = 0.0, state.n_oracle_calls
    seconds = {bare: [], check: [], exact: []}
    for _ in range(rounds + 2):
        for call, times in seconds.items():
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
    return [median(times[2:]) for times in seconds.values()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", default="1,16")
    parser.add_argument("--rounds", type=int, default=9)
    asked = parser.parse_args()
    for name, load, alpha in (
        ("ocr", datasets.load_ocr, 0.01),
        ("conll", datasets.load_conll2000, 0.001),
    ):
        data = load()
        problem = wolfpack.chain_ssvm(data.X, data.y, alpha)
        for workers in map(int, asked.workers.split(",")):
            bare, check, exact = measure(problem, workers, asked.rounds)
            print(
                f"{name:6} {workers:2} threads: bare pass {1e3 * bare:6.2f} ms, "
                f"check {1e3 * check:6.2f} ({check / bare:.2f} times), with atoms "
                f"{1e3 * exact:6.2f} ({exact / bare:.2f} times)",
                flush=True,
            )


if __name__ == "__main__":
    main()

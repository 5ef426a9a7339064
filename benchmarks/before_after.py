"""Speed before and after a change: two trees take turns, a case at a time.

    git worktree add ../before COMMIT
    python benchmarks/before_after.py ../before --rounds 9 --workers 1,8,16

Each tree has a process, and both measure the same case one after the other, so what
other programs do to the machine falls on both. Prints, and writes to
results/before_after.csv with the machine's facts, the medians of the steps per second
and of the seconds to a relative gap of 0.01, and of the ratio of each pair. Only the
ratios mean something where others use the machine. The first turn compiles, and does
not count.
"""

import argparse
import csv
import functools
import inspect
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve()
RESULTS = HERE.parent / "results"
TOL = 0.01
COLUMNS = ("case", "what", "before", "after", "ratio", "rounds")


# One process of one tree.


@functools.cache
def make(name):
    """Return a problem."""
    import wolfpack
    from wolfpack.datasets import load_conll2000, load_ocr

    if name == "lasso":
        return wolfpack.group_fused_lasso(wolfpack.make_piecewise(n=1000, d=4)[0], 0.5)
    words = load_conll2000() if name == "conll" else load_ocr(folds=range(1, 10))
    return wolfpack.chain_ssvm(words.X, words.y, 0.01)


def measure(name, workers, seconds, steps_only):
    """Return the steps a second, and the seconds to the gap, if they are wanted."""
    from wolfpack import Serial, Threads, solve

    # Steps are compared, not outer loops.
    has_outer = "accelerate" in inspect.signature(solve).parameters
    engine = Threads(workers) if workers else Serial()
    how = {"engine": engine, "rng": 0, "max_epochs": 1e6}
    how |= {"accelerate": False} if has_outer else {}
    free = solve(make(name), tol=0, max_seconds=seconds, check_every=1e9, **how)
    if name == "lasso" or steps_only:
        return free.n_oracle_calls / free.seconds, None
    wall = solve(make(name), tol=TOL, max_seconds=60, **how).wall_seconds
    return free.n_oracle_calls / free.seconds, wall


def serve():
    """Measure what the lines of standard input ask for."""
    for line in sys.stdin:
        print(json.dumps(measure(*json.loads(line))), flush=True)


# The table.


def start(tree):
    """Start the process of a tree."""
    tree = Path(tree).resolve()
    cache = HERE.parents[1] / ".before_after" / tree.name
    more = {"PYTHONPATH": str(tree / "src"), "WOLFPACK_CACHE": str(cache)}
    words = [sys.executable, str(HERE), "", "--child"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen(words, env=os.environ | more, text=True, **pipes)


def ask(children, *words):
    """Let processes measure the same, one after the other; return what they found."""
    found = []
    for child in children:
        child.stdin.write(json.dumps(words) + "\n")
        child.stdin.flush()
        found.append(json.loads(child.stdout.readline()))
    return found


def compare(children, name, workers, asked):
    """Yield the rows of one case."""
    pairs = []
    for turn in range(asked.rounds + 1):
        order = -1 if turn % 2 else 1
        how = name, workers, asked.seconds, asked.steps_only
        found = ask(children[::order], *how)[::order]
        pairs += [found] if turn else []
    case = f"{name} T={workers}" if workers else f"{name} Serial"
    for at, what in enumerate(("steps per second", f"seconds to gap {TOL:g}")):
        before, after = ([one[side][at] for one in pairs] for side in (0, 1))
        if None not in before:
            ratios = [b / a for a, b in zip(before, after, strict=True)]
            middle = [statistics.median(x) for x in (before, after, ratios)]
            yield case, what, *(f"{x:.4g}" for x in middle), asked.rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", help="the other tree")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--workers", default="")
    parser.add_argument("--data", default="lasso,ocr,conll")
    parser.add_argument("--steps-only", action="store_true", help="no time to a gap")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        serve()
        return
    from _threads_cases import machine

    children = [start(asked.before), start(HERE.parents[1])]
    numbers = [int(one) for one in asked.workers.split(",") if one]
    with (RESULTS / "before_after.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for name in asked.data.split(","):
            for workers in [0, *([] if name == "lasso" else numbers)]:
                for row in compare(children, name, workers, asked):
                    table.writerow(row)
                    file.flush()
                    print(*row, sep="\t", flush=True)
    for child in children:
        child.stdin.close()
    facts = json.dumps(machine(), indent=2) + "\n"
    (RESULTS / "before_after_machine.json").write_text(facts)


if __name__ == "__main__":
    main()

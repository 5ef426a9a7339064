"""How long a second process takes from its start to its first step.

    python benchmarks/start.py

Runs a child process twice: the first may compile, the second loads from disk.
"""

import subprocess
import sys

CHILD = """
import time; begin = time.perf_counter()
import wolfpack
train, _ = wolfpack.load_dates()
loaded = time.perf_counter()
class FirstStep(Exception): pass
def stop(event):
    if event.row.n_updates > 0:
        raise FirstStep
problem = wolfpack.chain_ssvm(train.X, train.y, alpha=0.01)
try:
    wolfpack.solve(problem, callback=stop, rng=0)
except FirstStep:
    pass
now = time.perf_counter()
print(f"{now - begin:.2f} s to the first pass's end, {loaded - begin:.2f} s of it "
      "imports and data")
"""


def main() -> None:
    """Start the child twice."""
    for what in ("first process (may compile)", "second process"):
        child = subprocess.run(
            [sys.executable, "-c", CHILD], check=True, capture_output=True, text=True
        )
        print(f"{what}: {child.stdout.strip()}")


if __name__ == "__main__":
    main()

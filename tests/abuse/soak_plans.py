"""Which fault comes next: a pure function of a seed and a number.

`draw(0, 17)` is injection "0-17": an engine, a problem, a fault, and a seed for all
that is chosen on the way, such as the options of `solve`.
"""

from typing import NamedTuple

import numpy as np

from wolfpack import Delayed, Ray, Serial, Sync, Threads, delays

PROBLEMS = ["lasso", "chain", "classes", "simplices", "python", "spy", "matching"]
PLAIN = {"python"}  # which threads refuse
EXACT = {"lasso"}  # which have a minimiser of each block
RIDGE = {"lasso", "chain", "classes"}  # which can be accelerated
SAME_BITS = {"serial", "batch", "sync"}  # stopped and resumed, or never stopped
SLOPES = ("exact", "gap")  # which see no gaps, so no outer step is possible
ANY, UNIFORM = ["uniform", "permutation", "gap", "cyclic"], ["uniform"]
LINE, BOTH = ["line"], ["line", "open-loop"]


class Kind(NamedTuple):
    """How an engine is made, and which options it takes."""

    make: object  # a generator -> an engine
    steps: list
    samplings: list
    batches: list
    threads: bool = True
    exact: bool = True
    averaging: bool = False


def _workers(rng):
    fails = [float(rng.uniform(0.01, 0.1)), *[np.inf] * 3]
    chance = [1.0, 1.0, 0.3, 1.0]
    how = {"step_seconds": 1e-5, "fails": fails, "return_probability": chance}
    return Delayed(workers=delays.Workers(4, **how))


def _threads(mode):
    return lambda rng: Threads(int(rng.integers(1, 5)), mode)


ENGINES = {
    "serial": Kind(lambda rng: Serial(), BOTH, ANY, [1], False, averaging=True),
    "batch": Kind(lambda rng: Serial(), BOTH, ANY, [2, 3, 5], False, averaging=True),
    "merge": Kind(_threads("merge"), LINE, ANY, [None, 1, 4]),
    "server": Kind(_threads("server"), BOTH, UNIFORM, [None, 1, 4], averaging=True),
    "lock-free": Kind(_threads("lock-free"), BOTH, ANY, [None]),
    "sync": Kind(
        lambda rng: Sync(int(rng.integers(1, 4))), BOTH, ANY, [None, 2, 5],
        averaging=True,
    ),
    "delayed": Kind(
        lambda rng: Delayed(delays.poisson(float(rng.integers(0, 20)))), BOTH, UNIFORM,
        [1, 3], False,
    ),
    "workers": Kind(_workers, BOTH, UNIFORM, [1, 4], False),
    "ray": Kind(lambda rng: Ray(n_workers=2), BOTH, UNIFORM, [None, 2], False, False),
}  # fmt: skip

# How often each comes, relative to the others.
HERE = {
    "signal": 6, "raising": 5, "nan": 4, "infeasible": 4, "slow": 3, "disk": 3,
    "damage": 6, "kill": 1,
}  # fmt: skip
ON_RAY = {"worker": 6, "server": 6, "checkpoint": 2, "head": 2}
FRESH = {"cache": 2, "cache disk": 1}
FAULTS = [*HERE, *ON_RAY, *FRESH]
SHARE_OF_RAY, SHARE_OF_FRESH = 0.06, 0.01


class Plan(NamedTuple):
    """One injection."""

    name: str
    engine: str
    problem: str
    fault: str
    seed: int

    @property
    def place(self) -> str:
        """Which child process plays it: one with Ray, a new one, or the usual one.

        Where the driver or the head is killed wolfpack starts Ray ("own"), as it has to
        end it.
        """
        if self.fault in FRESH:
            return "fresh"
        if self.engine == "ray" and self.fault in ("kill", "head"):
            return "own"
        return "ray" if self.engine == "ray" else "plain"


def draw(seed, number):
    """Return the plan of an injection."""
    rng = np.random.default_rng([seed, number])
    chance, problem = rng.random(), str(rng.choice(PROBLEMS))
    engine = str(rng.choice([name for name in ENGINES if name != "ray"]))
    table = HERE
    if chance < SHARE_OF_RAY:
        engine, table = "ray", HERE | ON_RAY
    elif chance < SHARE_OF_RAY + SHARE_OF_FRESH:
        table, kinds = FRESH, [("serial", "spy"), ("merge", "simplices")]
        engine, problem = kinds[rng.integers(2)]  # which are soon compiled
    if problem in PLAIN and ENGINES[engine].threads:
        problem = "simplices"
    weights = np.array([*table.values()], float)
    fault = str(rng.choice([*table], p=weights / weights.sum()))
    return Plan(f"{seed}-{number}", engine, problem, fault, int(rng.integers(2**31)))


def choose(engine, problem, rng):
    """Return the engine and options of `solve` for a run of this kind."""
    kind = ENGINES[engine]
    steps = kind.steps + (["exact"] if kind.exact and problem in EXACT else [])
    options = {
        "step": str(rng.choice(steps)),
        "sampling": str(rng.choice(kind.samplings)),
        "batch_size": kind.batches[rng.integers(len(kind.batches))],
        "averaging": bool(kind.averaging and rng.random() < 0.2),
    }
    takes = options["step"] != "open-loop" and not options["averaging"]
    takes &= problem in RIDGE and (options["step"], options["sampling"]) != SLOPES
    options["accelerate"] = bool(takes and rng.random() < 0.6)
    return kind.make(rng), options

"""Proposition 1: oracle calls per update of tau distinct blocks."""

import math

import numpy as np
from _common import FAILS, HOLDS, Experiment, Verdict, command_line
from _race import legend_beneath

import wolfpack
from wolfpack import Delayed, Threads, theory
from wolfpack.delays import Workers
from wolfpack.plotting import BLUE, ORANGE, RED

N = 100
BATCHES = (1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
CLUSTER, THREADS = "simulated cluster", "two threads and a server"
NEAR = 0.03  # of the expectation; about three standard errors of the largest batch


def measure(fast, tell):
    """Count calls per update in a simulated cluster and in threads; and draw at random.

    `doubled` is the share of updates that take more than 2 tau calls.
    """
    noisy, _, _ = wolfpack.make_piecewise(N + 1, 2)
    problem = wolfpack.group_fused_lasso(noisy, 0.5)
    rng, rows = np.random.default_rng(0), []
    for tau in BATCHES[::3] if fast else BATCHES:
        tell(f"τ = {tau}")
        workers = Workers(tau, oracle_seconds=(0.5e-3, 1.5e-3))
        engines = {CLUSTER: Delayed(workers=workers), THREADS: Threads(2, "server")}
        expected = float(theory.expected_calls(N, tau))
        updates = 500 if fast else 3000
        for name, engine in engines.items():
            result = wolfpack.solve(
                problem,
                accelerate=False,
                engine=engine,
                batch_size=tau,
                step="open-loop",
                tol=0,
                max_epochs=expected * updates / N,
                check_every=1e9,
                rng=0,
            )
            calls = result.n_oracle_calls - result.n_dropped
            row = {"way": name, "tau": tau, "updates": result.n_updates}
            rows.append(row | {"calls": calls / result.n_updates, "expected": expected})
        many = draws_needed(tau, 500 if fast else 5000, rng)
        row = {"way": "draws", "tau": tau, "updates": len(many)}
        calls = {"calls": float(many.mean()), "expected": expected}
        rows.append(row | calls | {"doubled": float((many > 2 * tau).mean())})
    return rows


def draws_needed(tau: int, times: int, rng: np.random.Generator) -> np.ndarray:
    """Draw blocks at random until tau are different; return how many it took."""
    blocks = rng.integers(N, size=(times, 12 * N))
    needed = np.empty(times, int)
    for k, row in enumerate(blocks):
        first = np.sort(np.unique(row, return_index=True)[1])
        needed[k] = first[tau - 1] + 1 if tau <= first.size else 12 * N
    return needed


def judge(rows, facts) -> Verdict:
    """Say whether calls are as expected, and rarely more than 2 tau."""
    off = {
        way: max(abs(r["calls"] / r["expected"] - 1) for r in rows if r["way"] == way)
        for way in (CLUSTER, THREADS)
    }
    within = [r for r in rows if r["way"] == "draws" and 0.02 * N < r["tau"] < 0.6 * N]
    bound = math.exp(-N / 60)
    doubled = max(r["doubled"] for r in within)
    text = ", ".join(f"{share:.1%} ({way})" for way, share in off.items())
    measured = (
        f"Calls per update differ from the expectation by at most {text}; more than 2τ "
        f"calls happen in at most {doubled:.2%} of the updates with 0.02n < τ < 0.6n "
        f"(bound: {bound:.1%})."
    )
    if max(off.values()) <= NEAR + 0.02 * facts["fast"] and doubled <= bound:
        return Verdict(HOLDS, measured)
    return Verdict(FAILS, measured, "The counts are not those of Proposition 1.")


def draw(rows):
    """Draw calls per update on the left, the risk of 2 tau on the right."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.3), layout="constrained")
    left, right = axes
    taus = np.arange(1, N + 1)
    label = "Proposition 1 (i), expected"
    left.plot(taus, theory.expected_calls(N, taus), color="#555555", label=label)
    left.plot(taus, taus, color="#BBBBBB", lw=1, label="no collisions")
    for way, colour, mark in ((CLUSTER, BLUE, "o"), (THREADS, RED, "x")):
        mine = [row for row in rows if row["way"] == way]
        spots = [r["tau"] for r in mine], [r["calls"] for r in mine]
        left.plot(*spots, mark, ms=5, color=colour, label=way)
    left.set_ylabel("oracle calls per update")
    drawn = [row for row in rows if row["way"] == "draws"]
    spots = [r["tau"] for r in drawn], [r["doubled"] for r in drawn]
    right.plot(*spots, "s-", ms=4, color=ORANGE, label="more than 2τ calls, measured")
    bound = math.exp(-N / 60)
    label = "Proposition 1 (ii), bound"
    right.hlines(bound, 0.02 * N, 0.6 * N, color="#555555", ls="--", label=label)
    right.set_ylabel("share of updates")
    for ax in axes:
        ax.set_xlabel(f"minibatch τ, of n = {N} blocks")
        ax.grid(alpha=0.3)
    legend_beneath(figure, axes, columns=3)
    return figure


EXPERIMENT = Experiment(
    name="collisions",
    title="Proposition 1: collisions",
    claim="An update of τ distinct blocks takes τ + Σ i/(n-i) oracle calls on average "
    "(i < τ), and for 0.02n < τ < 0.6n at most 2τ with probability 1 - exp(-n/60).",
    setting="n = 100 blocks; calls per update that the server made, of a simulated "
    "cluster of τ workers and of real threads.",
    measure=measure,
    judge=judge,
    draw=draw,
)


if __name__ == "__main__":
    command_line(EXPERIMENT)

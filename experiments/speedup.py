"""Speed-up that Theorems 1 and 3 predict from B and mu, against what was measured."""

import numpy as np
from _common import FAILS, HOLDS, REMARK, Experiment, Verdict, command_line
from _minibatch import measure, speedups
from _problems import FIRST, OTHERS, signal, words
from _race import SHADES, legend_beneath

from wolfpack import theory

LASSO, WORDS = "group fused lasso", "OCR words"
ALPHAS = {LASSO: 0.5, WORDS: 1.0}
BATCHES = {LASSO: (1, 2, 5, 10, 20, 40, 60, 80, 99), WORDS: (1, 5, 10, 20, 50, 100)}
STEPS = ("open-loop", "line")
PART = 0.01  # of f - f* at the start


def measure_all(fast, tell):
    """Run both problems with both steps; beside each, what theory predicts."""
    rows = []
    for name, alpha in ALPHAS.items():
        task = (
            signal(alpha) if name == LASSO else words(alpha, FIRST if fast else OTHERS)
        )
        ratio = interference(task.problem, name, 30 if fast else 200)
        for step in STEPS:
            found = measure(
                task,
                BATCHES[name][::4] if fast else BATCHES[name],
                [PART * -task.best],
                (3 if fast else 20) if name == LASSO else (1 if fast else 3),
                tell,
                {"problem": name, "step": step},
                lambda batch, n=task.problem.n_blocks: max(batch / n, 0.02),
                max_epochs=400,
                step=step,
            )
            for row in found:
                tau = row["batch"]
                row["predicted"] = float(theory.predicted_speedup(tau, 1.0, ratio))
            rows += found
    return rows


def interference(problem, name: str, samples: int) -> float:
    """Return mu / B: exact for the lasso, from sampled blocks for the words."""
    if name == LASSO:
        found = theory.fused_lasso_constants(problem.n_blocks + 1, 10, ALPHAS[name])
    else:
        found = theory.measure_constants(problem, n_samples=samples, rng=0)
    return found.incoherence / found.boundedness


def lines(rows, name: str, step: str):
    """Return measured speed-ups and predicted ones, by batch."""
    mine = [r for r in rows if (r["problem"], r["step"]) == (name, step)]
    (measured,) = speedups(mine).values()
    return measured, {row["batch"]: row["predicted"] for row in mine}


def judge(rows, facts) -> Verdict:
    """Say whether the lasso, diagonally dominant, gains tau / 2, as predicted."""
    least, parts = {}, []
    for step in STEPS:
        measured, predicted = lines(rows, LASSO, step)
        least[step] = min(
            ratio / predicted[tau] for tau, (ratio, _) in measured.items()
        )
        tau = max(measured)
        parts.append(f"{measured[tau][0]:.0f} with {step} steps")
    text = (
        f"Group fused lasso, τ = {tau}: predicted {predicted[tau]:.0f}, measured "
        f"{' and '.join(parts)}."
    )
    measured, predicted = lines(rows, WORDS, "line")
    tau = max(measured)
    text += (
        f" OCR words, λ = 1, τ = {tau}: predicted {predicted[tau]:.1f}, measured "
        f"{measured[tau][0]:.0f} with line search."
    )
    slack = 0.8 if facts["fast"] else 0.9
    if least["open-loop"] < slack:
        return Verdict(FAILS, text, "The measured speed-up is below the predicted one.")
    if least["line"] >= slack:
        return Verdict(HOLDS, text)
    return Verdict(
        REMARK, text,
        "It holds for the open-loop step, for which the bounds are made. A line search "
        "is faster for every τ, but most for τ = 1, so the ratio is smaller. On the "
        "words the prediction is far too careful: B and μ are of the worst labellings, "
        "where no run stays.",
    )  # fmt: skip


def draw(rows):
    """Draw a panel for each problem."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained")
    for ax, name in zip(axes, ALPHAS, strict=True):
        for colour, step in zip(SHADES, STEPS, strict=False):
            measured, predicted = lines(rows, name, step)
            mean, error = np.array([*measured.values()]).T
            style = {"color": colour, "ms": 4, "capsize": 2.5}
            label = f"measured, {step} steps"
            ax.errorbar([*measured], mean, yerr=error, fmt="o-", label=label, **style)
        taus = [*predicted]
        label = "predicted, τ / (1 + (τ - 1) μ / B)"
        ax.plot(taus, predicted.values(), "--", color="#333333", label=label)
        half = [tau / 2 for tau in taus]
        ax.plot(taus, half, ":", color="#777777", label="τ / 2")
        ax.plot(taus, taus, color="#BBBBBB", lw=1, label="linear")
        ax.set_title(f"{name}, λ = {ALPHAS[name]:g}")
        ax.set_xlabel("minibatch τ (blocks per update)")
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("speed-up in updates over τ = 1")
    legend_beneath(figure, axes, columns=3)
    return figure


EXPERIMENT = Experiment(
    name="speedup",
    title="Theorems 1 and 3: predicted and measured speed-up",
    claim="How much τ blocks at once gain depends on their coupling μ / B; with a "
    "block diagonally dominant Hessian (group fused lasso) it is about τ/2 or more.",
    setting="Updates until f - f* is at 1% of its start: group fused lasso (n = 100, "
    "λ = 0.5, 20 seeds) and OCR folds 1-9 (λ = 1, 3 seeds); bars: standard errors.",
    measure=measure_all,
    judge=judge,
    draw=draw,
)


if __name__ == "__main__":
    command_line(EXPERIMENT)

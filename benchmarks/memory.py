"""Peak memory of training on sparse text (CoNLL-2000 chunking), step by step.

WOLFPACK_DATA=... python benchmarks/memory.py
"""

import resource

import wolfpack
from wolfpack.datasets import load_conll2000


def say(what: str) -> None:
    """Print the peak memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"{peak:7.0f} MB peak after {what}")


def main() -> None:
    """Load, pack, train, score."""
    say("imports")
    train, test = load_conll2000("train"), load_conll2000("test")
    n_features = train.X[0].shape[1]
    say(f"loading {len(train.X)} + {len(test.X)} sentences, p = {n_features}")
    problem = wolfpack.chain_ssvm(train.X, train.y, alpha=1e-3)
    say(f"packing; v has {problem.shared.nbytes / 1e6:.1f} MB")
    result = wolfpack.solve(problem, sampling="gap", tol=1e-2, max_epochs=200, rng=0)
    say(
        f"{result.epochs:.0f} passes ({result.status.name}, gap {result.gap:.4f}, "
        f"{result.wall_seconds:.1f} s); state {result.state.nbytes / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    main()

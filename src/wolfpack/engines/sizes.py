"""On a cluster: how many blocks go into a push, and how many into an update."""

import math

WINDOW = 2  # pushes of a worker on their way
PUSH_SECONDS = 5e-4  # that a push takes of the worker, and of the server
STALENESS = 20.0  # see `choose_chunk`: 1 for a fused lasso, 200 for OCR at alpha=0.01
STEP_BYTES = 2**18  # of v, which a line search passes over in about 20 microseconds


def choose_chunk(seconds: float, n_workers: int, n_blocks: int) -> int:
    """Return how many blocks of so many seconds each a push should hold.

    With T workers and chunks of c blocks, W T c of n blocks are on their way, and one
    is worth 1 / (1 + a W T c / n) of a fresh one; its push takes h / c of a worker and
    of the server. Their product is least at the root, if the server can keep up.
    """
    T, h = n_workers, PUSH_SECONDS
    best = math.sqrt(h * n_blocks / (STALENESS * WINDOW * T * seconds))
    most = max(1, n_blocks // (2 * WINDOW * T))
    return min(most, math.ceil(max(best, (T - 1) * h / seconds)))


def choose_tau(problem, n_workers: int, chunk: int) -> int:
    """Return how many blocks the server gathers for an update.

    Stale atoms do least harm one by one: each meets a line search of its own, on the
    newest v. Only where that passes over a large v are there more to an update.
    """
    reach = 0 if problem.touched is not None else problem.shared.nbytes
    most = min(n_workers * chunk, problem.n_blocks // 2)
    return max(1, min(most, reach // STEP_BYTES))

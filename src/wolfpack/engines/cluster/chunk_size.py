"""On a cluster: how many blocks go into a message, and how many into an update."""

import math
from typing import Any

PUSH_SECONDS = 5e-4  # that a message takes of the worker, and of the server
ROUND_TRIP = 1e-3
CHUNK_SECONDS = 0.02  # of oracle calls in a message: then it is 3 % of the time
SHARE = 0.25  # of all blocks may be on their way: the mild-delay regime, and a margin
STEP_BYTES = 2**18  # of v, which a line search passes over in about 20 microseconds


def choose(
    problem, chunk: Any, asked: int | None, seconds: float, n_workers: int
) -> tuple[int, int, int]:
    """Return chunk, window and tau; the user may have set the first and the last."""
    size, window = choose_chunk(seconds, n_workers, problem.n_blocks)
    if chunk != "auto":
        size = min(int(chunk), problem.n_blocks)
        window = choose_window(seconds * size)
    return size, window, asked or choose_tau(problem, n_workers, size)


def choose_chunk(seconds: float, n_workers: int, n_blocks: int) -> tuple[int, int]:
    """Return the blocks of a message, `seconds` each, and the messages on their way.

    Enough that they are worth a message, and that the server is busy for half of its
    time at most; but with T workers, windows of W and chunks of c, W T c blocks are on
    their way, tau kappa in the paper, and these must be few of all n.
    """
    wanted = max(CHUNK_SECONDS, 2.0 * PUSH_SECONDS * n_workers) / seconds
    most = SHARE * n_blocks / n_workers
    window = choose_window(min(wanted, most / 2) * seconds)
    return max(1, math.ceil(min(wanted, most // window))), window


def choose_window(seconds: float) -> int:
    """Return the messages on their way at once, if one takes so long to solve.

    Two hide the round trip; where solving takes less than that, the second one would
    only make v older.
    """
    return 2 if seconds > ROUND_TRIP else 1


def choose_tau(problem, n_workers: int, chunk: int) -> int:
    """Return how many blocks the server gathers for an update.

    Stale atoms do least harm one by one: each meets a line search of its own, on the
    newest v. Only where that passes over a large v are there more to an update.
    """
    reach = 0 if problem.touched is not None else problem.shared.nbytes
    most = min(n_workers * chunk, problem.n_blocks // 2)
    return max(1, min(most, reach // STEP_BYTES))

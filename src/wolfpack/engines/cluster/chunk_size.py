"""On a cluster: how many blocks go into a message, and how many into an update."""

import math
from typing import Any

PUSH_SECONDS = 5e-4  # the cost of a message, to the worker and to the server
ROUND_TRIP = 1e-3  # seconds
CHUNK_SECONDS = 0.02  # of oracle calls a message, which then costs 3 % of them
# Of all blocks may be in flight, so that delays stay mild. Accelerated runs need fewer
# passes, and lose more of them to an old v.
SHARE, ACCELERATED_SHARE = 0.25, 0.03
STEP_BYTES = 2**18  # of v: a line search reads them in about 20 microseconds


def choose(
    problem, chunk: Any, options, seconds: float, n_workers: int
) -> tuple[int, int, int]:
    """Return chunk, window and tau; the user may have set the first and the last."""
    share = ACCELERATED_SHARE if options.accelerate else SHARE
    size, window = choose_chunk(seconds, n_workers, problem.n_blocks, share)
    if chunk != "auto":
        size = min(int(chunk), problem.n_blocks)
        window = choose_window(seconds * size)
    return size, window, options.asked or choose_tau(problem, n_workers, size)


def choose_chunk(
    seconds: float, n_workers: int, n_blocks: int, share: float = SHARE
) -> tuple[int, int]:
    """Return the blocks in a message, and the messages of a worker in flight.

    `seconds` is the time of an oracle call. A chunk is large enough that a message is
    worth its cost, and that messages keep the server busy for at most half of its time.
    It is limited because T workers with W messages of c blocks each have W T c blocks
    in flight, tau kappa in the paper, which must be a small part of all n.
    """
    wanted = max(CHUNK_SECONDS, 2.0 * PUSH_SECONDS * n_workers) / seconds
    most = share * n_blocks / n_workers
    window = choose_window(min(wanted, most / 2) * seconds)
    return max(1, math.ceil(min(wanted, most // window))), window


def choose_window(seconds: float) -> int:
    """Return how many messages a worker has in flight, if one takes `seconds` to solve.

    Two hide the round trip. Where solving takes less than the round trip, a second
    message would only be solved against an older v.
    """
    return 2 if seconds > ROUND_TRIP else 1


def choose_tau(problem, n_workers: int, chunk: int) -> int:
    """Return how many blocks the server gathers for an update.

    One is best: each stale atom then gets its own line search, on the newest v. An
    update takes more only where that search reads a large v and would cost too much.
    """
    reach = 0 if problem.touched is not None else problem.shared.nbytes
    most = min(n_workers * chunk, problem.n_blocks // 2)
    return max(1, min(most, reach // STEP_BYTES))

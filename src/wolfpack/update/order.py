"""The order of the blocks: permutations, sweeps, and rounds of the blocks awake.

A block is at rest when its gap was 0 at the last visit: x_(i) is the corner that the
oracle returns. Near the optimum most blocks are (480 of 20,000 are not, on `letter`).
A round visits every block that is awake, and some of those at rest, in turn, because
the steps of others wake them. LIBLINEAR calls this shrinking.
"""

from wolfpack.kernels.compile import jit

RESTING = 0.4  # blocks at rest in a round, for each one awake


@jit
def shuffle(order, rng, count):
    """Put `count` blocks in a random order, drawn from all of `order`, in front."""
    n = order.size
    for j in range(count):
        k = j + int(rng.random() * (n - j))
        order[j], order[k] = order[k], order[j]


@jit
def sweep(place, n, chosen):
    """Fill `chosen` with the next blocks of a sweep; return the place after them.

    Places 0 to n - 1 lead forward, n to 2 n - 1 back. A batch that reaches over a
    turning point belongs to both sweeps: it holds the last blocks of one, and these are
    among the first of the other, which goes on behind the batch.
    """
    tau, is_back = chosen.size, place >= n
    done = place - n if is_back else place
    first = min(done, n - tau)
    for j in range(tau):
        chosen[j] = n - 1 - first - j if is_back else first + j
    done += tau
    if done < n:
        return place + tau
    rest = tau if done > n else 0
    return rest if is_back else (n + rest) % (2 * n)


@jit
def draw_awake(order, cursor, gaps, rng, chosen):
    """Fill `chosen` with the next blocks of the round.

    `cursor` is the place in the round, its length (0: none is begun), and the place in
    `order` from which the next blocks at rest are taken.
    """
    tau = chosen.size
    if cursor[0] + tau > cursor[1]:
        begin_round(order, cursor, gaps, rng, tau)
    for j in range(tau):
        chosen[j] = order[cursor[0] + j]
    cursor[0] += tau


@jit
def begin_round(order, cursor, gaps, rng, least):
    """Put the blocks of the next round in front of `order`: `least` of them or more.

    Only blocks of the last round can have changed between awake and at rest. Those at
    rest change places with the ones that are due, which were seen longer ago.
    """
    n = order.size
    awake = 0
    for j in range(cursor[1] if cursor[1] > 0 else n):
        i = order[j]
        if gaps[i] > 0.0:
            order[j], order[awake] = order[awake], i
            awake += 1
    length = min(max(awake + 1 + int(RESTING * awake), least), n)
    due = max(cursor[2], awake)
    for j in range(awake, length):
        due = due if due < n else j
        order[j], order[due] = order[due], order[j]
        due += 1
    shuffle(order[:length], rng, length - 1)
    cursor[0], cursor[1], cursor[2] = 0, length, due

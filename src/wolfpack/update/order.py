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

    `cursor` is the place in the round, the length of the round (0: all gaps are new),
    the place in `order` from which the next blocks at rest are taken, and the number of
    blocks awake.
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

    Those awake come first. A block wakes as soon as its gap is not 0, but goes to rest
    only when all blocks at rest have had their turn: some are at rest at one visit and
    awake at the next, and leaving these out at once took twice the passes.
    """
    n = order.size
    is_new = cursor[1] == 0
    is_over = is_new or cursor[2] >= n
    awake = 0 if is_over else cursor[3]
    for j in range(awake, n if is_new else cursor[1]):
        i = order[j]
        if gaps[i] > 0.0:
            order[j], order[awake] = order[awake], i
            awake += 1
    shuffle(order[:awake], rng, awake - 1)
    due = max(cursor[2], awake)
    if is_over:
        due = awake
        if least > 1:  # else batches would leave out the same remainder each time
            shuffle(order[awake:], rng, n - awake - 1)
    length = min(awake + 1 + int(RESTING * awake), awake + n - due)
    for j in range(awake, length):
        order[j], order[due] = order[due], order[j]
        due += 1
    cursor[0], cursor[1] = 0, min(max(length, least), n)
    cursor[2], cursor[3] = due, awake

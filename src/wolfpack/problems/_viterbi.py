"""Loss-augmented Viterbi: the compiled search for the best labels of a sequence.

v is a table of rows, one a feature, then bias, first, last and a row per label for the
transitions out of it; columns are labels, padded to `width`. Rows are read as vectors
of LANES labels; positions in v count numbers from its start. Scores are those of a
maximisation: theta = loss + <w, phi>.
"""

import numpy as np

from wolfpack.kernels.compile import entry, jit
from wolfpack.kernels.simd import (
    fetch,
    fill,
    load,
    maximum,
    multiply_add,
    plus,
    put,
    store,
)
from wolfpack.problems._features import is_unit, shift

# `chain.kernels_for` replaces these by those of the problem.
LANES = 32  # labels in one vector
WIDTH = 0  # columns of v, if there are at most 64; else 0, and `data.width` is read
COPIED = False  # whether the oracle copies the transitions before it reads them
COSTS = False  # whether a wrong label costs what `data.losses` says, else 1

LOWEST = np.float32(-1e30)  # the score of a padding label


@jit
def columns(data):
    """Return the number of columns of v: a constant where that makes code faster."""
    return WIDTH if WIDTH > 0 else data.width


@jit
def unaries(data, shared, i, work):
    """theta[t, k] = loss of label k at position t + the weights of its features."""
    theta, features, values, pad = work.theta, data.features, data.values, data.pad
    labels, feature_begin = data.labels, data.feature_begin
    width = columns(data)
    cost, unit = data.cost[i], is_unit(data)
    first = data.begin[i]
    for t in range(data.begin[i + 1] - first):
        begin, end = feature_begin[first + t], feature_begin[first + t + 1]
        at = shift(data, first + t)
        label = np.int64(fetch(labels, first + t))
        for c in range(0, width, LANES):
            # Four independent sums: in one, each addition would wait for the last.
            a = plus(fill(cost, LANES), load(pad, c, LANES))
            if COSTS:
                losses = load(data.losses, label * width + c, LANES)
                a = multiply_add(fill(cost, LANES), losses, load(pad, c, LANES))
            b = fill(np.float32(0.0), LANES)
            d = b
            e = b
            f = begin
            if unit:
                while f + 3 < end:
                    a = plus(
                        a, load(shared, fetch(features, f + at) * width + c, LANES)
                    )
                    b = plus(
                        b, load(shared, fetch(features, f + at + 1) * width + c, LANES)
                    )
                    d = plus(
                        d, load(shared, fetch(features, f + at + 2) * width + c, LANES)
                    )
                    e = plus(
                        e, load(shared, fetch(features, f + at + 3) * width + c, LANES)
                    )
                    f += 4
                while f < end:
                    a = plus(
                        a, load(shared, fetch(features, f + at) * width + c, LANES)
                    )
                    f += 1
            else:
                while f + 1 < end:
                    row = load(shared, fetch(features, f + at) * width + c, LANES)
                    a = multiply_add(fill(fetch(values, f), LANES), row, a)
                    row = load(shared, fetch(features, f + at + 1) * width + c, LANES)
                    b = multiply_add(fill(fetch(values, f + 1), LANES), row, b)
                    f += 2
                if f < end:
                    row = load(shared, fetch(features, f + at) * width + c, LANES)
                    a = multiply_add(fill(fetch(values, f), LANES), row, a)
            store(theta, t * width + c, plus(plus(a, b), plus(d, e)))
        if not COSTS:
            right = t * width + label
            put(theta, right, fetch(theta, right) - cost)


@jit
def viterbi(data, shared, length, labels, work):
    """Write the labels that maximise theta plus transitions; return the maximum.

    Where each maximum came from is searched for on the way back, along the best path
    only: to keep it for every label would double the work of the forward pass. Other
    threads may have changed the transitions in between, so that no label gives the
    maximum any more. Then the label that is best now is taken instead.
    """
    theta, best, reached = work.theta, work.best, work.reached
    width, n_labels = columns(data), data.n_labels
    copy_steps(data, shared, length, work)
    steps, transitions = find_steps(data, shared, work)
    for c in range(0, width, LANES):
        store(best, c, load(theta, c, LANES))
    for t in range(1, length):
        now = t * width
        for c in range(0, width, LANES):
            top = fill(LOWEST, LANES)
            for k in range(n_labels):
                before = fill(fetch(best, now - width + k), LANES)
                row = load(steps, transitions + k * width + c, LANES)
                top = maximum(plus(before, row), top)
            store(reached, now + c, top)
            store(best, now + c, plus(top, load(theta, now + c, LANES)))
    now = (length - 1) * width
    label = 0
    highest = fetch(best, now)
    for k in range(1, n_labels):
        if fetch(best, now + k) > highest:
            label, highest = k, fetch(best, now + k)
    labels[length - 1] = label
    for t in range(length - 1, 0, -1):
        now = t * width
        top = fetch(reached, now + label)
        step = transitions + label
        label = 0
        while label < n_labels and (
            fetch(best, now - width + label) + fetch(steps, step) != top
        ):
            label += 1
            step += width
        if label == n_labels:
            step -= n_labels * width
            label = best_before(best, steps, now - width, step, width, n_labels)
        labels[t - 1] = label
    return highest


@jit
def copy_steps(data, shared, length, work):
    """Copy the transitions, where other threads may change them at any time.

    Sequences of one position have none, and those of classes no room for them.
    """
    if COPIED and length > 1:
        for c in range(0, data.n_labels * columns(data), LANES):
            store(work.steps, c, load(shared, data.transitions + c, LANES))


@jit
def find_steps(data, shared, work):
    """Return the array in which the transitions are, and where they start."""
    if COPIED:
        return work.steps, 0
    return shared, data.transitions


@jit
def best_before(best, steps, at, step, width, n_labels):
    """Return the label from which a step has the highest score, as it is now."""
    label = 0
    highest = LOWEST
    for k in range(n_labels):
        score = fetch(best, at + k) + fetch(steps, step + k * width)
        if score > highest:
            label, highest = k, score
    return label


@entry
def decode(data, shared, first, last, labels, work):
    """Write the best labels of sequences [first, last), one after the other."""
    for i in range(first, last):
        unaries(data, shared, i, work)
        length = data.begin[i + 1] - data.begin[i]
        viterbi(data, shared, length, labels[data.begin[i] :], work)

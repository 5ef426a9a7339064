"""The step of `problems.chain`: a move computed once, as marginals.

x_(i) is a distribution over labellings, so s - x_(i) is known by its marginals: one
number for each position and label, and one for each transition. They are 0 wherever all
atoms of x_(i) agree with s, and only the others are kept. `prepare` finds them, `rate`
is their product with the scores, `spread` adds them to v or to another array,
`curvature` is the square of what they add to v, and `touched` lists the rows of v that
they reach.

The layout of v, and LANES, WIDTH and the other constants, are those of `_viterbi`.
"""

import numpy as np

from wolfpack.kernels.compile import jit
from wolfpack.kernels.simd import (
    accumulate,
    fetch,
    fill,
    load,
    multiply_add,
    put,
    store,
    times,
    total,
    word,
)
from wolfpack.problems._features import is_unit, shift
from wolfpack.problems._viterbi import (
    COSTS,
    LANES,
    columns,
    copy_steps,
    find_steps,
    unaries,
)

PER_WORD = 8  # labels in eight bytes
LABEL_BITS = np.uint64(255)  # the bits of the first of these labels


@jit
def prepare(data, i, move, work):
    """Keep the marginals of the move where they are not 0.

    `marginals[t]` holds them at the positions listed in `changed`, `pairs` those of
    the transitions, in the rows listed in `pair_rows`.
    """
    atom, weights, atoms = move.atom, move.weights, move.atoms
    width, count = columns(data), weights.size
    length = data.begin[i + 1] - data.begin[i]
    marginals, pairs = work.marginals, work.pairs
    clear_pairs(width, work)
    n_changed = 0
    n_rows = 0
    last = False
    bits = np.uint64(0)
    for t in range(length):
        if t % PER_WORD == 0:
            # A word of labels at once: bits are set where an atom differs from s.
            bits = np.uint64(0)
            new = word(atom, t)
            for b in range(count):
                bits |= word(atoms, b * length + t) ^ new
        differs = bits & LABEL_BITS != np.uint64(0)
        bits >>= np.uint64(64 // PER_WORD)
        label = np.int64(fetch(atom, t))
        if differs:
            now = t * width
            for c in range(0, width, LANES):
                store(marginals, now + c, fill(np.float32(0.0), LANES))
            marginals[now + label] = 1.0
            for b in range(count):
                weight = np.float32(fetch(weights, b))
                other = now + np.int64(fetch(atoms, b * length + t))
                put(marginals, other, fetch(marginals, other) - weight)
            work.changed[n_changed] = t
            n_changed += 1
        if t > 0 and (differs or last):
            row = np.int64(fetch(atom, t - 1))
            pair = row * width + label
            put(pairs, pair, fetch(pairs, pair) + np.float32(1.0))
            n_rows = note_row(row, n_rows, work)
            for b in range(count):
                weight = np.float32(fetch(weights, b))
                at = b * length + t
                row = np.int64(fetch(atoms, at - 1))
                pair = row * width + np.int64(fetch(atoms, at))
                put(pairs, pair, fetch(pairs, pair) - weight)
                n_rows = note_row(row, n_rows, work)
        last = differs
    work.counts[0] = n_changed
    work.counts[1] = n_rows


@jit
def rate(data, shared, i, move, work, is_fresh):
    """Return <d, grad_i f>, from the scores that the oracle has just left, or anew."""
    width = columns(data)
    theta, marginals, pairs = work.theta, work.marginals, work.pairs
    if not is_fresh:
        unaries(data, shared, i, work)
        copy_steps(data, shared, data.begin[i + 1] - data.begin[i], work)
    steps, transitions = find_steps(data, shared, work)
    rise = fill(np.float32(0.0), LANES)
    for j in range(work.counts[0]):
        now = work.changed[j] * width
        for c in range(now, now + width, LANES):
            row = load(marginals, c, LANES)
            rise = multiply_add(row, load(theta, c, LANES), rise)
    for k in range(work.counts[1]):
        now = work.pair_rows[k] * width
        for c in range(now, now + width, LANES):
            row = load(pairs, c, LANES)
            rise = multiply_add(row, load(steps, transitions + c, LANES), rise)
    return -data.share[i] * np.float64(total(rise))


@jit
def note_row(row, n_rows, work):
    """List a row of `pairs` unless it is listed; without a branch to mispredict."""
    put(work.pair_rows, n_rows, row)
    n_rows += 1 - fetch(work.is_pair_row, row)
    put(work.is_pair_row, row, 1)
    return n_rows


@jit
def clear_pairs(width, work):
    """Zero what the last call of `prepare` left in `pairs`."""
    for k in range(work.counts[1]):
        row = work.pair_rows[k]
        for c in range(0, width, LANES):
            store(work.pairs, row * width + c, fill(np.float32(0.0), LANES))
        work.is_pair_row[row] = 0


@jit
def spread(data, i, move, scale, out, work):
    """Add scale A_i d to `out`; return -scale q (loss of d)."""
    width, features, values = columns(data), data.features, data.values
    marginals, changed, pairs = work.marginals, work.changed, work.pairs
    labels, feature_begin, transitions = (
        data.labels,
        data.feature_begin,
        data.transitions,
    )
    first, unit = data.begin[i], is_unit(data)
    step = -scale * data.share[i] / data.alpha
    right = 0.0
    for j in range(work.counts[0]):
        t = changed[j]
        begin, end = feature_begin[first + t], feature_begin[first + t + 1]
        label = np.int64(labels[first + t])
        if COSTS:
            for k in range(data.n_labels):
                right -= data.losses[label, k] * marginals[t * width + k]
        else:
            right += marginals[t * width + label]
        at = shift(data, first + t)
        for c in range(0, width, LANES):
            row = load(marginals, t * width + c, LANES)
            row = times(fill(np.float32(step), LANES), row)
            if unit:
                for f in range(begin, end):
                    accumulate(out, fetch(features, f + at) * width + c, row)
            else:
                for f in range(begin, end):
                    scaled = times(fill(fetch(values, f), LANES), row)
                    accumulate(out, fetch(features, f + at) * width + c, scaled)
    for k in range(work.counts[1]):
        at = work.pair_rows[k] * width
        for c in range(0, width, LANES):
            row = load(pairs, at + c, LANES)
            row = times(fill(np.float32(step), LANES), row)
            accumulate(out, transitions + at + c, row)
    return scale * data.share[i] * data.cost[i] * right


@jit
def curvature(data, i, move, work):
    """Return lambda |A_i d|^2, by inner products of positions."""
    width = columns(data)
    marginals, changed, pairs = work.marginals, work.changed, work.pairs
    gram = data.gram
    square = fill(np.float32(0.0), LANES)
    for c in range(0, width, LANES):
        for j in range(work.counts[0]):
            t = changed[j]
            row = load(marginals, t * width + c, LANES)
            at = data.gram_begin[i] + t * (t + 1) // 2
            own = fill(np.float32(gram[at + t]), LANES)
            square = multiply_add(times(own, row), row, square)
            for m in range(j):
                u = changed[m]
                twice = fill(np.float32(2.0) * np.float32(gram[at + u]), LANES)
                other = load(marginals, u * width + c, LANES)
                square = multiply_add(times(twice, row), other, square)
        for k in range(work.counts[1]):
            row = load(pairs, work.pair_rows[k] * width + c, LANES)
            square = multiply_add(row, row, square)
    return data.share[i] ** 2 / data.alpha * np.float64(total(square))


@jit
def touched(data, i, move, rows, work):
    """List the features of the changed positions (some twice), and the transitions."""
    features, feature_begin = data.features, data.feature_begin
    first, count = data.begin[i], 0
    for j in range(work.counts[0]):
        t = first + work.changed[j]
        at = shift(data, t)
        for f in range(feature_begin[t], feature_begin[t + 1]):
            rows[count] = features[f + at]
            count += 1
    for k in range(work.counts[1]):
        rows[count] = data.first_transition + work.pair_rows[k]
        count += 1
    return count

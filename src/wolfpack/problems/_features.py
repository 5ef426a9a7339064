"""Packed features in compiled code, and the inner products of positions.

Nothing here depends on the labels, so it is compiled once for all numbers of them.
"""

from wolfpack.kernels.compile import entry, jit


@jit
def is_unit(data):
    """Return whether every feature is 1, so that no values are kept.

    It is no constant of the compiler, because then twice as many loops would have to be
    compiled, and to test it once per position takes no time.
    """
    return data.values.size == 0


@jit
def shift(data, t):
    """Return how far the features of position t are from its values."""
    return data.index_begin[t] - data.feature_begin[t]


@entry
def gram_matrices(data, gram_begin, gram):
    """Fill the inner products of the features of every two positions of a sequence.

    Features are sorted within a position, so two lists are merged.
    """
    begin, feature_begin = data.begin, data.feature_begin
    features, values, unit = data.features, data.values, is_unit(data)
    for i in range(begin.size - 1):
        length = begin[i + 1] - begin[i]
        for t in range(length):
            for u in range(t + 1):
                f, f_end = feature_begin[begin[i] + t], feature_begin[begin[i] + t + 1]
                h, h_end = feature_begin[begin[i] + u], feature_begin[begin[i] + u + 1]
                at_f, at_h = shift(data, begin[i] + t), shift(data, begin[i] + u)
                inner = 0.0
                while f < f_end and h < h_end:
                    if features[f + at_f] < features[h + at_h]:
                        f += 1
                    elif features[f + at_f] > features[h + at_h]:
                        h += 1
                    else:
                        inner += 1.0 if unit else values[f] * values[h]
                        f += 1
                        h += 1
                gram[gram_begin[i] + t * (t + 1) // 2 + u] = inner

"""The compiled functions of the ready sets: an atom, a test, a projection each.

`params` is the record of the set, one entry a block or one for all. The functions of
one set have the signatures that `wolfpack.sets.Set` names.
"""

import numpy as np

from wolfpack.kernels.compile import jit


@jit
def _pick(table, i):
    if len(table) == 1:
        return table[0]
    return table[i] if i < len(table) else table[0] * np.nan


@jit
def _largest(vector):
    largest = 0.0
    for value in vector:
        size = np.float64(abs(value))
        if not size <= largest:  # true for NaN as well, which is then returned
            largest = size
            if size != size:
                break
    return largest


@jit
def _norm(vector, p):
    scale, total = _largest(vector), 0.0
    if not 0.0 < scale < np.inf:
        return scale
    for value in vector:
        part = abs(value) / scale
        total += part * part if p == 2.0 else part**p
    return scale * total ** (1.0 / p)


@jit
def minimise_simplex(params, i, gradient, atom):
    """Pick the corner of the least gradient entry; NaN if that is not finite."""
    best = gradient.argmin()  # the first NaN, if there is one
    atom[:] = 0.0
    atom[best] = _pick(params.radius, i) if np.isfinite(gradient[best]) else np.nan


@jit
def contains_simplex(params, i, point, tolerance):
    """Whether no entry is negative and the sum is the radius."""
    radius, total = _pick(params.radius, i), point.astype(np.float64).sum()
    slack = tolerance * radius
    return abs(total - radius) <= slack and point.min() >= -slack


@jit
def _shrink(values, radius):
    # A shift of all entries does not change the projection, and only entries within a
    # radius of the largest stay above 0. Shifting the largest to 0 makes the rounding
    # errors relative to the radius.
    values -= values.max()
    total, threshold = 0.0, 0.0
    for k, value in enumerate(np.sort(values)[::-1]):
        total += value
        if value <= (total - radius) / (k + 1):
            break
        threshold = (total - radius) / (k + 1)
    return np.maximum(values - threshold, 0.0)


@jit
def project_simplex(params, i, point):
    """Shift all entries by one number and cut them off at 0."""
    point[:] = _shrink(point.astype(np.float64), _pick(params.radius, i))


@jit
def contains_ball(params, i, point, tolerance):
    """Whether |s|_p is at most the radius."""
    return _norm(point, params.detail[0]) <= _pick(params.radius, i) * (1.0 + tolerance)


@jit
def minimise_l1(params, i, gradient, atom):
    """Pick the corner against the gradient entry of the largest size."""
    low, high = gradient.argmin(), gradient.argmax()
    best = high if gradient[high] >= -gradient[low] else low
    atom[:] = 0.0
    atom[best] = -_pick(params.radius, i) * np.sign(gradient[best])


@jit
def project_l1(params, i, point):
    """Shrink the sizes of the entries, as on the simplex; keep their signs."""
    radius = _pick(params.radius, i)
    if not _norm(point, 1.0) <= radius:
        point[:] = np.sign(point) * _shrink(np.abs(point).astype(np.float64), radius)


@jit
def minimise_lp(params, i, gradient, atom):
    """Solve for equality in Hoelder's inequality."""
    # s_j = -r sign(g_j) |g_j|^(q-1) / |g|_q^(q-1), where q - 1 = 1 / (p - 1), with g
    # divided by its largest entry: total >= 1 for any gradient but zero.
    p, scale, total = params.detail[0], _largest(gradient) or 1.0, 0.0
    for j in range(gradient.size):
        part = abs(gradient[j]) / scale
        power = part if p == 2.0 else part ** (1.0 / (p - 1.0))
        total += part * power
        atom[j] = np.copysign(power, gradient[j])
    atom *= -_pick(params.radius, i) / np.maximum(total, 1.0) ** (1.0 / p)


@jit
def project_l2(params, i, point):
    """Shorten the point to the radius."""
    radius, norm = _pick(params.radius, i), _norm(point, 2.0)
    if not norm <= radius:
        point *= radius / norm


@jit
def _spectrum(params, vector):
    rows, columns = int(params.detail[0]), int(params.detail[1])
    return np.linalg.svd(vector.reshape(rows, columns), False)


@jit
def minimise_nuclear(params, i, gradient, atom):
    """Write -radius u v^T, of the gradient's first singular vectors u and v."""
    if not _largest(gradient) < np.inf:
        atom[:] = np.nan
        return
    left, _, right = _spectrum(params, gradient.astype(np.float64))
    for j in range(atom.size):
        row, column = divmod(j, right.shape[1])
        atom[j] = -_pick(params.radius, i) * left[row, 0] * right[0, column]


@jit
def contains_nuclear(params, i, point, tolerance):
    """Whether the singular values sum to at most the radius."""
    if not _largest(point) < np.inf:
        return False
    norm = _spectrum(params, point.astype(np.float64))[1].sum()
    return norm <= _pick(params.radius, i) * (1.0 + tolerance)


@jit
def minimise_box(params, i, gradient, atom):
    """Take the lower bound where the gradient is >= 0, else the upper one."""
    low, high = _pick(params.low, i), _pick(params.high, i)
    for j in range(gradient.size):
        best = _pick(low if gradient[j] >= 0.0 else high, j)
        atom[j] = best if np.isfinite(gradient[j]) else np.nan


@jit
def contains_box(params, i, point, tolerance):
    """Whether every entry lies between its bounds."""
    low, high = _pick(params.low, i), _pick(params.high, i)
    slack = tolerance * np.maximum(np.abs(low), np.abs(high))
    return bool(np.all((point >= low - slack) & (point <= high + slack)))


@jit
def project_box(params, i, point):
    """Clip every entry to its bounds."""
    low, high = _pick(params.low, i), _pick(params.high, i)
    point[:] = np.minimum(np.maximum(point, low), high)

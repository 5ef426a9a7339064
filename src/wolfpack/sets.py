"""Ready convex sets M_i for the blocks: the linear oracle of equation (3).

    s_(i) = argmin over s in M_i of <s, grad_(i) f(x)>          (Algorithm 1, step d)

Where the gradient leaves a choice, any minimiser may come back. A NaN in the gradient,
or a block i beyond the parameters given, puts a NaN in the atom: never a silent guess.
A `radius` is one number for all blocks or an array of n numbers, one a block.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolfpack.checks.inputs import is_number
from wolfpack.kernels.compile import jit

__all__ = ["Set", "box", "l1_ball", "l2_ball", "linf_ball", "lp_ball"]
__all__ += ["nuclear_ball", "simplex"]


class _Ball(NamedTuple):
    radius: np.ndarray
    detail: np.ndarray  # the exponent p, or rows and columns


class _Bounds(NamedTuple):
    low: np.ndarray  # one row for all blocks, or one a block
    high: np.ndarray


class Set(NamedTuple):
    """A convex set for every block: compiled functions and their arrays.

    ``minimise(params, i, gradient, atom)`` writes the atom s_(i) of block i.
    ``contains(params, i, point, tolerance)`` forgives an error relative to the size of
    the set. ``project(params, i, point)`` moves a point to the nearest one of the set,
    in place; it is None where that costs far more than an atom.

    Examples
    --------
    >>> ball, atom = l2_ball(5.0), np.empty(2)
    >>> ball.minimise(ball.params, 0, np.array([3.0, 4.0]), atom)
    >>> atom
    array([-3., -4.])
    """

    name: str
    minimise: Callable[..., None]
    contains: Callable[..., bool]
    project: Callable[..., None] | None
    params: _Ball | _Bounds


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
        if not size <= largest:  # larger, or NaN, which stays
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
def _minimise_simplex(params, i, gradient, atom):
    best = gradient.argmin()  # the first NaN, if there is one
    atom[:] = 0.0
    atom[best] = _pick(params.radius, i) if np.isfinite(gradient[best]) else np.nan


@jit
def _contains_simplex(params, i, point, tolerance):
    radius, total = _pick(params.radius, i), point.astype(np.float64).sum()
    slack = tolerance * radius
    return abs(total - radius) <= slack and point.min() >= -slack


@jit
def _shrink(values, radius):
    # A shift does not move the projection, and only entries within a radius of the
    # largest survive: measured from there, rounding is relative to the radius.
    values -= values.max()
    total, threshold = 0.0, 0.0
    for k, value in enumerate(np.sort(values)[::-1]):
        total += value
        if value <= (total - radius) / (k + 1):
            break
        threshold = (total - radius) / (k + 1)
    return np.maximum(values - threshold, 0.0)


@jit
def _project_simplex(params, i, point):
    point[:] = _shrink(point.astype(np.float64), _pick(params.radius, i))


@jit
def _contains_ball(params, i, point, tolerance):
    return _norm(point, params.detail[0]) <= _pick(params.radius, i) * (1.0 + tolerance)


@jit
def _minimise_l1(params, i, gradient, atom):
    low, high = gradient.argmin(), gradient.argmax()
    best = high if gradient[high] >= -gradient[low] else low
    atom[:] = 0.0
    atom[best] = -_pick(params.radius, i) * np.sign(gradient[best])


@jit
def _project_l1(params, i, point):
    radius = _pick(params.radius, i)
    if not _norm(point, 1.0) <= radius:
        point[:] = np.sign(point) * _shrink(np.abs(point).astype(np.float64), radius)


@jit
def _minimise_lp(params, i, gradient, atom):
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
def _project_l2(params, i, point):
    radius, norm = _pick(params.radius, i), _norm(point, 2.0)
    if not norm <= radius:
        point *= radius / norm


@jit
def _spectrum(params, vector):
    rows, columns = int(params.detail[0]), int(params.detail[1])
    return np.linalg.svd(vector.reshape(rows, columns), False)


@jit
def _minimise_nuclear(params, i, gradient, atom):
    if not _largest(gradient) < np.inf:
        atom[:] = np.nan
        return
    left, _, right = _spectrum(params, gradient.astype(np.float64))
    for j in range(atom.size):
        row, column = divmod(j, right.shape[1])
        atom[j] = -_pick(params.radius, i) * left[row, 0] * right[0, column]


@jit
def _contains_nuclear(params, i, point, tolerance):
    if not _largest(point) < np.inf:
        return False
    norm = _spectrum(params, point.astype(np.float64))[1].sum()
    return norm <= _pick(params.radius, i) * (1.0 + tolerance)


@jit
def _minimise_box(params, i, gradient, atom):
    low, high = _pick(params.low, i), _pick(params.high, i)
    for j in range(gradient.size):
        best = _pick(low if gradient[j] >= 0.0 else high, j)
        atom[j] = best if np.isfinite(gradient[j]) else np.nan


@jit
def _contains_box(params, i, point, tolerance):
    low, high = _pick(params.low, i), _pick(params.high, i)
    slack = tolerance * np.maximum(np.abs(low), np.abs(high))
    return bool(np.all((point >= low - slack) & (point <= high + slack)))


@jit
def _project_box(params, i, point):
    low, high = _pick(params.low, i), _pick(params.high, i)
    point[:] = np.minimum(np.maximum(point, low), high)


def _table(name: str, value: ArrayLike, ndim: int) -> np.ndarray:
    table = np.array(value, dtype=np.float64, ndmin=ndim, order="C")
    if table.ndim > ndim or table.size == 0 or not np.isfinite(table).all():
        raise ValueError(f"{name} must be finite, at most {ndim}-D, got {value!r}")
    return table


def _ball(radius: ArrayLike, *detail: float) -> _Ball:
    radii = _table("radius", radius, 1)
    if radii.min() <= 0.0:
        raise ValueError(f"radius must be positive, got {radius!r}")
    return _Ball(radii, np.array(detail, dtype=np.float64))


def simplex(radius: ArrayLike = 1.0) -> Set:
    """Return the simplex s >= 0, sum_j s_j = radius; projects by sorting.

    Examples
    --------
    >>> simplex([1.0, 2.0]).params.radius
    array([1., 2.])
    """
    kernels = _minimise_simplex, _contains_simplex, _project_simplex
    return Set("simplex", *kernels, _ball(radius))


def l1_ball(radius: ArrayLike = 1.0) -> Set:
    """Return the ball |s|_1 <= radius; projects by sorting.

    Examples
    --------
    >>> l1_ball(2.0).name
    'l1_ball'
    """
    return Set("l1_ball", _minimise_l1, _contains_ball, _project_l1, _ball(radius, 1))


def l2_ball(radius: ArrayLike = 1.0) -> Set:
    """Return the ball |s|_2 <= radius.

    Examples
    --------
    >>> l2_ball(2.0).name
    'l2_ball'
    """
    return Set("l2_ball", _minimise_lp, _contains_ball, _project_l2, _ball(radius, 2))


def lp_ball(p: float, radius: ArrayLike = 1.0) -> Set:
    """Return the ball |s|_p <= radius, 1 < p < inf; a power an entry.

    Examples
    --------
    >>> lp_ball(3.0).project is None
    True
    """
    if not (is_number(p) and 1.0 < p < np.inf):
        raise ValueError(f"p must lie in (1, inf) (else l1_ball, linf_ball), got {p!r}")
    return Set("lp_ball", _minimise_lp, _contains_ball, None, _ball(radius, p))


def linf_ball(radius: ArrayLike = 1.0) -> Set:
    """Return the ball max_j |s_j| <= radius.

    Examples
    --------
    >>> linf_ball(2.0).params.high
    array([[2.]])
    """
    radii = _ball(radius).radius[:, np.newaxis]
    return box(-radii, radii)._replace(name="linf_ball")


def box(low: ArrayLike, high: ArrayLike) -> Set:
    """Return the box low <= s <= high; bounds are scalar, (m,) or (n, m).

    Examples
    --------
    >>> box(0.0, [1.0, 2.0]).params.high
    array([[1., 2.]])
    """
    bounds = _Bounds(_table("low", low, 2), _table("high", high, 2))
    shapes = zip(*map(np.shape, bounds), strict=True)
    fit = all(a == b or 1 in (a, b) for a, b in shapes)
    if not fit or (bounds.low > bounds.high).any():
        raise ValueError(f"low <= high of fitting shapes needed, got {low!r}, {high!r}")
    return Set("box", _minimise_box, _contains_box, _project_box, bounds)


def nuclear_ball(shape: tuple[int, int], radius: ArrayLike = 1.0) -> Set:
    """Return the flattened matrices of trace norm <= radius; an SVD an atom.

    Examples
    --------
    >>> nuclear_ball((2, 3)).name
    'nuclear_ball'
    """
    sizes = [k for k in np.atleast_1d(shape).tolist() if isinstance(k, int) and k > 0]
    if len(sizes) != 2 or np.size(shape) != 2:
        raise ValueError(f"shape must be two positive integers, got {shape!r}")
    params = _ball(radius, *sizes)
    return Set("nuclear_ball", _minimise_nuclear, _contains_nuclear, None, params)

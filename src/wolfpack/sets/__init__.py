"""Ready convex sets M_i for the blocks: the linear oracle of equation (3).

    s_(i) = argmin over s in M_i of <s, grad_(i) f(x)>          (Algorithm 1, step d)

Where there are several minimisers, any of them may come back. A NaN in the gradient,
or a block i beyond the parameters given, puts a NaN in the atom: never a silent guess.
A `radius` is one number for all blocks or an array of n numbers, one a block.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wolfpack.checks.inputs import is_number
from wolfpack.sets.oracles import (
    contains_ball,
    contains_box,
    contains_nuclear,
    contains_simplex,
    minimise_box,
    minimise_l1,
    minimise_lp,
    minimise_nuclear,
    minimise_simplex,
    project_box,
    project_l1,
    project_l2,
    project_simplex,
)

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
    kernels = minimise_simplex, contains_simplex, project_simplex
    return Set("simplex", *kernels, _ball(radius))


def l1_ball(radius: ArrayLike = 1.0) -> Set:
    """Return the ball |s|_1 <= radius; projects by sorting.

    Examples
    --------
    >>> l1_ball(2.0).name
    'l1_ball'
    """
    return Set("l1_ball", minimise_l1, contains_ball, project_l1, _ball(radius, 1))


def l2_ball(radius: ArrayLike = 1.0) -> Set:
    """Return the ball |s|_2 <= radius.

    Examples
    --------
    >>> l2_ball(2.0).name
    'l2_ball'
    """
    return Set("l2_ball", minimise_lp, contains_ball, project_l2, _ball(radius, 2))


def lp_ball(p: float, radius: ArrayLike = 1.0) -> Set:
    """Return the ball |s|_p <= radius, 1 < p < inf; an atom costs a power per entry.

    Examples
    --------
    >>> lp_ball(3.0).project is None
    True
    """
    if not (is_number(p) and 1.0 < p < np.inf):
        raise ValueError(f"p must lie in (1, inf) (else l1_ball, linf_ball), got {p!r}")
    return Set("lp_ball", minimise_lp, contains_ball, None, _ball(radius, p))


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
    return Set("box", minimise_box, contains_box, project_box, bounds)


def nuclear_ball(shape: tuple[int, int], radius: ArrayLike = 1.0) -> Set:
    """Return the flattened matrices of trace norm <= radius; an atom costs an SVD.

    Examples
    --------
    >>> nuclear_ball((2, 3)).name
    'nuclear_ball'
    """
    sizes = [k for k in np.atleast_1d(shape).tolist() if isinstance(k, int) and k > 0]
    if len(sizes) != 2 or np.size(shape) != 2:
        raise ValueError(f"shape must be two positive integers, got {shape!r}")
    params = _ball(radius, *sizes)
    return Set("nuclear_ball", minimise_nuclear, contains_nuclear, None, params)

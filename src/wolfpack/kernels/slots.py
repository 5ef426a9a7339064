"""The names that a problem fills in the loops: its functions, by signature.

The loops import these; `_compile.specialise` puts a problem's own functions in their
place. `data` is the problem's read-only record, `shared` is v, `i` a block, `atom` a
point of M_i, `work` scratch memory that nobody else touches.
"""

from typing import Any

HAS_CURVATURE = False
HAS_ROWS = False
HAS_VALUE = False
RESCORE = False  # whether v is float32
HAS_CONTAINS = False
HAS_MINIMISER = False
QUADRATIC = True


def oracle(data, shared, i, atom, work) -> Any:
    """Write argmin over M_i of <s, grad_i f> into `atom`; return that minimum."""


def score(data, shared, i, atom) -> Any:
    """Return <s, grad_i f> for any s of block i."""


def add(data, i, atom, scale, out) -> Any:
    """Add scale A_i s to `out`; return scale <c_i, s>."""


def slope(data, shared, direction, rows, gamma) -> Any:
    """Return d/dgamma g(v + gamma direction); `rows`: where direction is not 0."""


def value(data, shared) -> Any:
    """Return g(v)."""


def contains(data, i, atom) -> Any:
    """Return whether `atom` is a point of M_i."""


def minimiser(data, shared, i, atom, work) -> Any:
    """Replace `atom`, which holds x_(i), by the minimiser of f over block i."""


def touched(data, i, rows, work) -> Any:
    """Write the rows that the last `spread` of block i wrote; return how many."""


def prepare(data, shared, blocks, i, atom, work) -> Any:
    """Keep s - x_(i) in `work`; return the block gap <x_(i) - s, grad_i f>."""


def spread(data, blocks, i, atom, scale, out, work) -> Any:
    """Add scale A_i (s - x_(i)) to `out`; return scale <c_i, s - x_(i)>."""


def curvature(data, blocks, i, atom, work) -> Any:
    """Return the second derivative of f along s - x_(i)."""

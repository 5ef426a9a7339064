"""The names that a problem, and its store of x, fill in the loops.

The loops import these; `specialise` puts the problem's own functions, and those of its
store (a module of `stores`), in their place. `data` is the problem's read-only record,
`shared` is v, `blocks` the store, `i` a block, `atom` a point of M_i, `move` a change
of x_(i) as the store writes it, `work` scratch memory of one worker.
"""

from typing import Any

HAS_CURVATURE = False
HAS_PREPARE = False
HAS_ROWS = False
HAS_VALUE = False
RESCORE = False  # whether v is float32
HAS_CONTAINS = False
HAS_MINIMISER = False
FINDS_GAP = False  # whether the minimiser returns the gap of the block
QUADRATIC = True

# Functions of the problem.


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


def minimiser(data, shared, i, atom, work, reach) -> Any:
    """Replace `atom`, x_(i), by the minimiser over block i; return the block gap."""


def touched(data, i, move, rows, work) -> Any:
    """Write the rows of v that a prepared move reaches; return how many."""


def curvature(data, i, move, work) -> Any:
    """Return the second derivative of f along a prepared move."""


def prepare(data, i, move, work) -> Any:
    """Keep a move in `work`, in a form that the next three read."""


# Functions of a problem that is kept as parts.


def parts_of(data, i, atom, parts) -> Any:
    """Write the parts of an atom, ascending; return how many."""


def add_parts(data, i, parts, weights, scale, out) -> Any:
    """Add scale sum_p w_p A_i e_p to `out`; return scale sum_p w_p <c_i, e_p>."""


def score_parts(data, shared, i, parts, weights) -> Any:
    """Return sum_p w_p <e_p, grad_i f>."""


def contains_parts(data, i, parts, weights) -> Any:
    """Return whether the weights are a point of M_i."""


# Functions of the problem, or else `default_rate` and `default_spread` of the store.


def rate(data, shared, i, move, work, is_fresh) -> Any:
    """Return <d, grad_i f> of a move d; `is_fresh`: the oracle was just called."""


def spread(data, i, move, scale, out, work) -> Any:
    """Add scale A_i d to `out`; return scale <c_i, d>."""


# Functions of the store.


def has_room(blocks, batch_size) -> Any:
    """Return whether an update of `batch_size` blocks fits into the store."""


def is_full(blocks, i) -> Any:
    """Return whether the next move of block i takes memory that all blocks share."""


def trim(blocks, i, atom) -> Any:
    """Return the part of a scratch atom that block i fills."""


def read_point(blocks, i, atom) -> Any:
    """Write x_(i) into `atom`."""


def towards(data, blocks, i, atom) -> Any:
    """Return the move s - x_(i)."""


def last_move(blocks, i, atom) -> Any:
    """Return what `towards` returned last, or, before it was called, its like."""


def shift(data, blocks, i, atom, gamma) -> Any:
    """x_(i) <- (1 - gamma) x_(i) + gamma s."""


def expand(data, blocks, i, out, work) -> Any:
    """Add A_i x_(i) to `out`; return <c_i, x_(i)>."""


def is_inside(data, blocks, i) -> Any:
    """Return whether x_(i) is a point of M_i."""


def begin_draft(blocks, draft, k, i) -> Any:
    """x'_(i) <- x_(i), as the k-th block of the draft of a worker."""


def is_draft_full(blocks, draft, k, i) -> Any:
    """Return whether the next move of x'_(i) takes memory that all blocks share."""


def shift_draft(data, blocks, draft, k, i, atom, gamma) -> Any:
    """x'_(i) <- (1 - gamma) x'_(i) + gamma s; x_(i) stays."""


def blend(blocks, draft, k, i, theta) -> Any:
    """x_(i) <- x_(i) + theta (x'_(i) - x_(i))."""


STORE = (
    has_room, is_full, trim, read_point, towards, last_move, shift, expand, is_inside,
    begin_draft, is_draft_full, shift_draft, blend,
)  # fmt: skip

"""The records of a chain problem: packed sequences, a worker's memory, the weights.

v is a table. It has a row a feature, then bias, first, last, and a row per label for
the transitions out of it; its columns are labels, padded to the width of a vector.
"""

from typing import Any, NamedTuple

import numpy as np

from wolfpack.checks.inputs import LARGEST_FEATURE
from wolfpack.kernels import room
from wolfpack.kernels.memory import copy, zeros
from wolfpack.problems._viterbi import LOWEST
from wolfpack.problems.packed import Positions


class Chains(NamedTuple):
    """Packed sequences: positions one after the other, features in CSR form."""

    labels: np.ndarray  # per position
    begin: np.ndarray  # first position of each sequence, and the end
    feature_begin: np.ndarray  # first feature of each position, and the end
    index_begin: np.ndarray  # first of its entries in `features`
    features: np.ndarray  # row of v, sorted within a position
    values: np.ndarray  # empty if all are 1
    gram: np.ndarray  # inner products of positions; whole numbers if no values
    gram_begin: np.ndarray
    share: np.ndarray  # q_i
    cost: np.ndarray  # loss of a wrong label in sequence i
    losses: np.ndarray  # times this, by right and given label; empty if all are 1
    pad: np.ndarray  # 0 for labels, `_viterbi.LOWEST` for padding
    alpha: float
    n_labels: int
    width: int
    transitions: int  # where the transitions start in v as a flat array
    first_transition: int  # the row of v in which they start


class Work(NamedTuple):
    """Memory of one worker; see `_chain_step.prepare`."""

    theta: np.ndarray
    best: np.ndarray
    reached: np.ndarray
    steps: np.ndarray
    marginals: np.ndarray
    changed: np.ndarray
    pairs: np.ndarray
    pair_rows: np.ndarray
    is_pair_row: np.ndarray
    counts: np.ndarray


class ChainWeights(NamedTuple):
    """What a chain model has learnt: phi's parts, label by label."""

    features: np.ndarray  # (n_labels, n_features)
    bias: np.ndarray
    first: np.ndarray
    last: np.ndarray
    transitions: np.ndarray  # from, to


def make_work(data: Chains) -> Work:
    """Return scratch memory for the longest sequence."""
    size = int(np.diff(data.begin).max()) * data.width
    return Work(
        theta=zeros(size, np.float32),
        best=zeros(size, np.float32),
        reached=zeros(size, np.float32),
        steps=zeros((data.n_labels, data.width), np.float32),
        marginals=zeros(size, np.float32),
        changed=zeros(size // data.width, np.int64),
        pairs=zeros(data.n_labels * data.width, np.float32),
        pair_rows=zeros(data.n_labels + 1, np.int64),
        is_pair_row=zeros(data.n_labels, np.int64),
        counts=zeros(2, np.int64),
    )


def layout(packed: Positions, n_labels: int) -> Chains:
    """Return packed sequences as a record; the caller sets labels, shares and costs."""
    lanes = choose_lanes(n_labels)
    width = -(-n_labels // lanes) * lanes
    n_features, n = packed.n_features, len(packed.begin) - 1
    refuse_too_many(n_features, n_labels)
    pad = np.where(np.arange(width) < n_labels, 0, LOWEST)
    return Chains(
        labels=np.zeros(packed.begin[-1], np.uint8 if n_labels <= 256 else np.int32),
        begin=packed.begin.astype(np.int64),
        feature_begin=packed.feature_begin,
        index_begin=packed.index_begin,
        features=packed.features,
        values=packed.values,
        gram=np.zeros(0, np.float32),
        gram_begin=np.zeros(0, np.int64),
        share=np.zeros(n),
        cost=np.zeros(n, np.float32),
        losses=np.zeros((0, 0), np.float32),
        pad=copy(pad, np.float32),
        alpha=1.0,
        n_labels=n_labels,
        width=width,
        transitions=(n_features + 3) * width,
        first_transition=n_features + 3,
    )


def refuse_too_many(n_features: int, n_labels: int) -> None:
    """Raise where there are more weights than memory, or than numbers for them."""
    lanes = choose_lanes(n_labels)
    n_rows, width = n_features + 3 + n_labels, -(-n_labels // lanes) * lanes
    size = n_rows * (4 * width + 16 * n_labels)  # v, and what is learnt
    what = f"the weights of {n_features} features x {n_labels} labels"
    advice = "Number the features without gaps, leave out rare ones, or hash them."
    room.check(size, what, advice)
    if n_rows * width >= 2**31:
        raise ValueError(
            f"{what} are more than 2^31, and would take {room.in_words(size)} of "
            f"memory. {advice}"
        )


def pad_losses(loss: Any, n_labels: int, width: int) -> np.ndarray:
    """Check a matrix of losses, and widen its rows; None gives an empty array."""
    if loss is None:
        return np.zeros((0, 0), np.float32)
    table, shape = np.asarray(loss), (n_labels, n_labels)
    if table.shape != shape or table.dtype.kind not in "biuf":
        raise ValueError(
            f"loss must be numbers of shape {shape}, a row for each right label and a "
            f"column for each given one, but has shape {table.shape} and dtype "
            f"{table.dtype}."
        )
    if not (np.isfinite(table) & (table >= 0) & (table <= LARGEST_FEATURE)).all():
        raise ValueError(f"loss must lie from 0 to {LARGEST_FEATURE:g}.")
    if table.diagonal().any() or not table.any():
        raise ValueError(
            "loss must be 0 on its diagonal, where the label is right, and more than 0 "
            "somewhere else."
        )
    losses = np.zeros((n_labels, width), np.float32)
    losses[:, :n_labels] = table
    return losses


def choose_lanes(n_labels: int) -> int:
    """Return how many labels go into one vector."""
    return 8 if n_labels <= 8 else 16 if n_labels <= 16 else 32


def unpack_weights(shared: np.ndarray, n_features: int, n_labels: int) -> ChainWeights:
    """Cut the table v into its parts."""
    table = np.ascontiguousarray(shared[:, :n_labels].T, np.float64)
    return ChainWeights(
        features=table[:, :n_features],
        bias=table[:, n_features],
        first=table[:, n_features + 1],
        last=table[:, n_features + 2],
        transitions=np.ascontiguousarray(table[:, n_features + 3 :].T),
    )


def pack_weights(weights: ChainWeights, width: int) -> np.ndarray:
    """Undo `unpack_weights`."""
    n_labels, n_features = weights.features.shape
    table = np.zeros((n_features + 3 + n_labels, width), np.float32)
    rows = [weights.features.T, weights.bias, weights.first, weights.last]
    table[:, :n_labels] = np.vstack([*rows, weights.transitions])
    return table

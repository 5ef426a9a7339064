"""Which sets of labels there are, and which labels interact.

A `Structure` is the record that the searches of `_label_sets` read. `edges` are pairs
of labels that have a weight of their own, counted where a set has both.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from wolfpack.kernels.notice import compiling
from wolfpack.kernels.specialise import specialise
from wolfpack.problems import _label_sets

MOST_LABELS = 16  # 2^16 sets take about half a millisecond


class Structure(NamedTuple):
    """Edges between labels, and a list of sets if there is one."""

    kind: int
    n_labels: int
    first: np.ndarray  # of each edge
    second: np.ndarray
    label_begin: np.ndarray  # of each listed set, and the end
    set_labels: np.ndarray
    edge_begin: np.ndarray
    set_edges: np.ndarray


class Scratch(NamedTuple):
    """Memory of one worker."""

    gains: np.ndarray
    table: np.ndarray
    theta: np.ndarray
    found: np.ndarray


def make_structure(
    n_labels: int, edges: np.ndarray, candidates: np.ndarray | None
) -> Structure:
    """Return the record of edges (E, 2) and candidate sets (C, K), if any."""
    kind = _label_sets.FOREST if len(edges) < n_labels else _label_sets.ALL
    if candidates is not None:
        kind = _label_sets.LISTED
    elif kind == _label_sets.ALL and n_labels > MOST_LABELS:
        raise ValueError(
            f'pairs="full" tries all sets of labels, of which {n_labels} labels have '
            f'2^{n_labels}; it takes at most {MOST_LABELS}. Use pairs="tree", or '
            'candidates="observed".'
        )
    sets = np.zeros((0, n_labels), bool) if candidates is None else candidates > 0
    first, second = np.ascontiguousarray(edges.T, np.int64)
    return Structure(
        kind,
        n_labels,
        first,
        second,
        *_as_lists(sets),
        *_as_lists(sets[:, first] & sets[:, second]),
    )


def make_scratch(structure: Any) -> Scratch:
    """Return memory for the searches."""
    K = structure.n_labels
    side = K if structure.kind == _label_sets.ALL else 0
    return Scratch(
        gains=np.zeros(K),
        table=np.zeros((side, side)),
        theta=np.zeros(K),
        found=np.zeros(K, np.uint8),
    )


def best_sets(
    structure: Structure, scores: np.ndarray, pairs: np.ndarray, margins: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best set of each example as zeros and ones, and its margins if asked.

    The margin of a label is how much the best set with it exceeds the best without.
    """
    n, K = scores.shape
    labels, found = np.zeros((n, K), np.uint8), np.zeros((n, K if margins else 0))
    scores, pairs = (np.ascontiguousarray(a, np.float64) for a in (scores, pairs))
    loops, work = specialise([_label_sets], {}), make_scratch(structure)
    with compiling("predictions of sets of labels"):
        loops.decode(structure, scores, pairs, labels, found, work)
    return labels, found


def all_pairs(Y: np.ndarray, seen_only: bool) -> np.ndarray:
    """Return all edges, or those between labels that some row of Y has both of."""
    first, second = np.triu_indices(Y.shape[1], 1)
    if seen_only:
        together = (Y.astype(np.float32).T @ Y)[first, second] > 0
        first, second = first[together], second[together]
    return np.column_stack([first, second])


def spanning_tree(Y: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return the tree of labels with the largest mutual information, parents first.

    It is the tree of Chow and Liu (1968).
    """
    K = Y.shape[1]
    if K < 2:
        return np.zeros((0, 2), np.int64)
    information = _mutual_information(Y, share)
    lengths = 1.0 + information.max() - information  # 0 would be no edge
    tree = minimum_spanning_tree(lengths)
    order, parents = breadth_first_order(tree, 0, directed=False)
    return np.column_stack([parents[order[1:]], order[1:]])


def _mutual_information(Y: np.ndarray, share: np.ndarray) -> np.ndarray:
    on = (share[:, None] * Y).sum(axis=0)
    both = (share[:, None] * Y).T @ Y
    either = on[:, None] - both
    chances = {1: on, 0: 1.0 - on}
    joint = {(1, 1): both, (1, 0): either, (0, 1): either.T}
    joint[0, 0] = 1.0 - both - either - either.T
    information = np.zeros_like(both)
    for (a, b), cell in joint.items():
        apart = np.outer(chances[a], chances[b])
        with np.errstate(divide="ignore", invalid="ignore"):
            part = cell * np.log(cell / apart)
        information += np.where((cell > 1e-15) & (apart > 1e-15), part, 0.0)
    return information


def _as_lists(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the list of each row begins, and the columns that are true."""
    begin = np.concatenate([[0], np.cumsum(table.sum(axis=1))]).astype(np.int64)
    return begin, np.nonzero(table)[1].astype(np.int64)

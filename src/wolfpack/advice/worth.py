"""What a joint update of tau blocks is worth, in updates of one block.

Let F(k) be how far f falls by k updates of one block each, and G(tau) how far it falls
by a joint update of tau blocks. The latter is worth the k at which F(k) = G(tau):

    coupling(tau) = F^-1(G(tau)) / tau

which is 1 where blocks do not interfere, and 1 / tau where all are alike.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

# F flattens out towards the optimum, where noise would decide between very different k:
# single updates count as equal once they reach this part of the joint update's fall.
ENOUGH = 0.999


class Falls(NamedTuple):
    """How far f fell by `counts` single updates, and by joint ones of `sizes`."""

    counts: np.ndarray
    single: np.ndarray
    sizes: np.ndarray
    joint: np.ndarray


def worth(falls: Falls) -> np.ndarray:
    """Return the coupling of each joint update, from 1 / tau to 1."""
    single = np.concatenate([[0.0], np.maximum.accumulate(falls.single)])
    counts = np.concatenate([[0], falls.counts])
    found = np.interp(ENOUGH * falls.joint, single, counts) / falls.sizes
    # Coupling falls with tau. Where samples say otherwise, they are averaged, with the
    # number of their blocks as weights.
    steady = isotonic_regression(found, weights=falls.sizes, increasing=False).x
    return np.clip(steady, 1.0 / falls.sizes, 1.0)

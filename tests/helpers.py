"""Independent, slow, dense versions of what wolfpack computes."""

import itertools
from typing import NamedTuple

import numpy as np

import wolfpack
from wolfpack.run.loop import Run
from wolfpack.solve import _validate
from wolfpack.state import State
from wolfpack.stores import atoms as atom_store
from wolfpack.update.batch import Batch

SERIAL = wolfpack.Serial()


class Dense(NamedTuple):
    """f(x) = 1/2 <v, H v> + <b, v> + <c, x> with every matrix written out."""

    A: list  # per block (size of v, size of x_(i))
    c: list
    v0: np.ndarray
    H: np.ndarray
    b: np.ndarray
    constant: float

    def v(self, x):
        return self.v0 + sum(A @ z for A, z in zip(self.A, x, strict=True))

    def f(self, x):
        v = self.v(x)
        linear = sum(c @ z for c, z in zip(self.c, x, strict=True))
        return 0.5 * v @ self.H @ v + self.b @ v + linear + self.constant

    def gradient(self, x, i):
        return self.A[i].T @ (self.H @ self.v(x) + self.b) + self.c[i]


def update(dense, x, batch, corners, rule, k):
    """One update of (mini)batch block-coordinate Frank-Wolfe: the new x, and gamma."""
    n, tau = len(x), len(batch)
    d = {i: s - x[i] for i, s in zip(batch, corners, strict=True)}
    if rule == "open-loop":
        gamma = min(1.0, 2 * n * tau / (tau**2 * k + 2 * n))
    elif rule == "line":
        move = sum(dense.A[i] @ d[i] for i in batch)
        down = -sum(dense.gradient(x, i) @ d[i] for i in batch)
        bend = move @ dense.H @ move
        gamma = float(np.clip(down / bend, 0, 1)) if down > 0 and bend > 0 else 0.0
    else:
        gamma = rule
    return [z + gamma * d[i] if i in d else z for i, z in enumerate(x)], gamma


def dense_lasso(Y, alpha):
    n, d = Y.shape
    A = []
    for t in range(n - 1):
        table = np.zeros((n, d, d))
        table[t], table[t + 1] = np.eye(d), -np.eye(d)
        A.append(table.reshape(n * d, d))
    Y = Y - Y.mean(axis=0)  # the answer moves along with the mean
    half = -0.5 * np.square(Y).sum()
    c = [np.zeros(d)] * (n - 1)
    return Dense(A, c, Y.ravel(), np.eye(n * d), np.zeros(n * d), half)


def labelings(n_labels, length):
    return list(itertools.product(range(n_labels), repeat=length))


def phi(x, labels, n_labels):
    """Feature counts: p rows of features, bias, first, last, then the transitions."""
    p = x.shape[1]
    table = np.zeros((p + 3 + n_labels, n_labels))
    for t, label in enumerate(labels):
        table[:p, label] += x[t]
        table[p, label] += 1
    table[p + 1, labels[0]] += 1
    table[p + 2, labels[-1]] += 1
    for a, b in itertools.pairwise(labels):
        table[p + 3 + a, b] += 1
    return table.ravel()


def dense_chain(X, y, alpha, n_labels, normalize=True, weight=None, costs=None):
    """The dual with one variable a labelling of a sequence."""
    costs = 1.0 - np.eye(n_labels) if costs is None else np.asarray(costs)
    weight = np.ones(len(X)) if weight is None else np.asarray(weight, float)
    A, c = [], []
    for x, truth, share in zip(X, y, weight / weight.sum(), strict=True):
        all_labels = np.array(labelings(n_labels, len(truth)))
        right = phi(x, truth, n_labels)
        psi = np.stack([right - phi(x, labels, n_labels) for labels in all_labels], 1)
        loss = costs[truth, all_labels].sum(1) / (len(truth) if normalize else 1.0)
        A.append(share / alpha * psi)
        c.append(-share * loss)
    size = len(A[0])
    return Dense(A, c, np.zeros(size), alpha * np.eye(size), np.zeros(size), 0.0)


def chain_primal(dense, v):
    """alpha/2 |w|^2 + sum_i q_i max_y [loss - <w, psi>] by enumeration."""
    parts = zip(dense.A, dense.c, strict=True)
    hinge = sum(-(A.T @ dense.H @ v + c).min() for A, c in parts)
    return 0.5 * v @ dense.H @ v + hinge


def read_labels(labels, n_labels):
    """The place of a labelling in `labelings`."""
    return int(np.polyval(np.asarray(labels, int), n_labels))


def chain_x(state, n_labels, is_edited=False):
    """x of a state over all labellings, and the check that weights are convex.

    An edited file may hold an atom twice, which is as good as once.
    """
    x = []
    for i, length in enumerate(np.diff(state.offsets)):
        z = np.zeros(n_labels**length)
        slot, count = state.blocks.place[i][["slot", "count"]]
        weights = state.blocks.weights[slot : slot + count]
        assert (weights > 0).all()
        assert abs(weights.sum() - 1) < 1e-12
        for b in range(count):
            labels = atom_store.get_point(state.blocks, i, b)
            place = read_labels(labels, n_labels)
            assert is_edited or z[place] == 0, "an atom is kept twice"
            z[place] += weights[b]
        x.append(z)
    return x


def chain_v(shared, n_labels):
    return np.asarray(shared[:, :n_labels], float).ravel()


def random_chains(rng, n, n_labels, lengths, p=4, unit=True):
    X, y = [], []
    for length in rng.choice(lengths, n):
        x = rng.integers(0, 2, (length, p)).astype(float)
        X.append(x if unit else x * rng.normal(size=x.shape))
        y.append(rng.integers(0, n_labels, length))
    return X, y


def begin_run(
    problem, batch_size=1, step="line", sampling="uniform", averaging=False,
    engine=SERIAL, accelerate=False,
):  # fmt: skip
    """A run that the test drives itself, with no check in between."""
    options = _validate(
        problem, batch_size, step, sampling, averaging, accelerate, 0.0, np.inf, None,
        1.0, engine,
    )  # fmt: skip
    state = State.begin(problem, options, np.random.default_rng(3))
    return Run(problem, engine, state, options, None).open()


def advance(run, updates=1):
    """Make updates; return the blocks and atoms of the last one."""
    until = run.state.n_updates + updates
    while run.state.n_updates < until:
        calls = (until - run.state.n_updates) * run.options.batch_size
        run.settle(run.session.advance(run, calls))
    batch = getattr(run.session, "batch", None)  # of Serial
    return isinstance(batch, Batch) and (batch.chosen.copy(), batch.atoms.copy())

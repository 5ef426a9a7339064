"""Points near an atom that may lie in the same set; `contains` says which do."""

from collections.abc import Iterator

import numpy as np

MOST = 60  # changes of each kind
BEYOND = (0.01, 0.1)  # how far beyond the atom, seen from another point


def far_out(atom: np.ndarray, known: list[np.ndarray]) -> list[np.ndarray]:
    """Return points that no `contains` accepts which tells inside from outside."""
    if atom.dtype.kind != "f":
        most = np.full_like(atom, min(np.iinfo(atom.dtype).max, 2**31 - 1))
        return [most]
    size = 1.0 + max(np.abs(one).max() for one in (atom, *known))
    away = [atom + 3.0 * (atom - one) for one in known if not np.array_equal(one, atom)]
    return [*away, atom + 1e3 * size, atom - 1e3 * size]


def near(
    atom: np.ndarray, known: list[np.ndarray], others: list[np.ndarray]
) -> Iterator[np.ndarray]:
    """Yield changes of an atom: `known` are of its set, `others` of any block's.

    Where all known atoms have the same entries in another order, only the order is
    changed: the set may be one of permutations, or of vectors with so many ones.
    """
    random, is_float = np.random.default_rng(0), atom.dtype.kind == "f"
    if is_float or atom.size == 1:
        yield from (one.copy() for one in others if one.shape == atom.shape)
    if is_float:
        for one in (*known, np.zeros_like(atom)):
            yield from (atom + t * (atom - one) for t in BEYOND)
    yield from _swapped(atom, random)
    kinds = {tuple(np.sort(one).tolist()) for one in (atom, *known)}
    if len(kinds) > 1 or is_float:
        yield from _replaced(atom, known, random)


def _swapped(atom: np.ndarray, random: np.random.Generator) -> Iterator[np.ndarray]:
    """Exchange two entries that differ, and for floats their signs, too."""
    pairs = [(j, k) for j in range(atom.size) for k in range(j) if atom[j] != atom[k]]
    for p in random.permutation(len(pairs))[:MOST]:
        changed = atom.copy()
        changed[list(pairs[p])] = atom[list(pairs[p][::-1])]
        yield changed
        if atom.dtype.kind == "f":
            yield np.where(changed != atom, -changed, changed)


def _replaced(
    atom: np.ndarray, known: list[np.ndarray], random: np.random.Generator
) -> Iterator[np.ndarray]:
    """Give one entry the value that it has in another known atom, or its negative."""
    places = random.permutation(atom.size)[:MOST]
    for j in places:
        values = {one.item(j) for one in known}
        if atom.dtype.kind == "f":
            values.add(-atom.item(j))
        for value in values - {atom.item(j)}:
            changed = atom.copy()
            changed[j] = value
            yield changed

"""The central record: data, and a few small functions that speak of atoms and v.

Every problem has the form

    min f(x) = g(v) + <c, x>,   v = v0 + sum_i A_i x_(i),   x_(i) in M_i

and a problem says four things about it: how to minimise a linear function over M_i
(`oracle`, `score`), what an atom adds to v (`add`), and g along a line (`slope`,
`value`). How x_(i) is stored, and when an engine calls these functions, it does not
know.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from types import ModuleType
from typing import Any

import numpy as np

from wolfpack.kernels import cache
from wolfpack.kernels.compile import is_compiled
from wolfpack.kernels.fingerprint import Fingerprint
from wolfpack.kernels.names import OPTIONAL, REQUIRED, names_of
from wolfpack.kernels.records import canonical
from wolfpack.kernels.specialise import Loops, specialise, specialise_once
from wolfpack.stores import STORES
from wolfpack.update import gap


class ProblemError(ValueError):
    """A problem record that cannot be solved as it is, in a plain sentence.

    Examples
    --------
    >>> import numpy as np, wolfpack
    >>> x0 = np.full((4, 2), 0.5)
    >>> problem = wolfpack.from_blocks(x0, lambda x, i: x[9], wolfpack.simplex())
    >>> problem.check()
    Traceback (most recent call last):
    wolfpack.problem.ProblemError: oracle on block 0 reads or writes outside an ...
    """


def _no_work() -> tuple:
    return ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """A block-separable problem, ready for any engine.

    The functions are `numba.njit` functions, or plain Python ones where an oracle
    calls a library; then the loops run uncompiled. They never write to `data` or
    `shared`. Their exact meaning is in `extension_template/my_problem.py`.

    Parameters
    ----------
    oracle : function (data, shared, i, atom, work) -> float
        Writes argmin over M_i of <s, grad_i f(x)> into `atom`, returns the minimum.
        **The minimum must be exact**: every lower bound is made of it, and an oracle
        with slack gives wrong certificates. `check` can only look for better points.
        With threads, other workers may change `shared` while the oracle reads it, so a
        number that is read twice may differ.
    score : function (data, shared, i, atom) -> float
        <s, grad_i f(x)> of any point of block i; linear in s.
    add : function (data, i, atom, scale, out) -> float
        out += scale A_i s; returns scale <c_i, s>; linear in s. With vectors both are
        called with differences s - x_(i), too: no entry may be skipped for its sign.
    slope : function (data, shared, direction, rows, gamma) -> float
        d/dgamma g(v + gamma direction). `rows` are the rows where `direction` is not
        zero; without `touched` they are all rows.
    value : function (data, shared) -> float, optional
        g(v). Without it the objective is unknown (NaN); the gap is not.
    data : tuple of arrays and numbers
        What the functions read; a NamedTuple is the most readable.
    shared : ndarray of float32 or float64
        v0, and the shape and precision of v.
    start : ndarray
        A feasible x: with the store of vectors an array (n, m); with the store of
        atoms one atom a block, one after the other.
    offsets : ndarray of int64, optional
        Chooses the store of weighted atoms: block i starts with the atom
        `start[offsets[i]:offsets[i + 1]]`. Without it x_(i) is kept as a vector.
    keeps : "atoms", "parts" or "vectors", optional
        How x_(i) is kept. Default: "atoms" with `offsets`, "vectors" without. "parts":
        as weights of what atoms are made of, where A_i and c_i are linear over parts up
        to what is the same for all atoms of a block. It needs the next three.
    parts_of : function (data, i, atom, parts) -> int, optional
        Writes the parts of an atom, ascending numbers from 0 to 2^31 - 2, and returns
        how many, at most `max_parts`.
    add_parts : function (data, i, parts, weights, scale, out) -> float, optional
        out += scale sum_p w_p A_i e_p; returns scale sum_p w_p <c_i, e_p>. Weights may
        be negative, here and in the next.
    score_parts : function (data, shared, i, parts, weights) -> float, optional
        sum_p w_p <e_p, grad_i f>.
    contains_parts : function (data, i, parts, weights) -> bool, optional
        Whether these weights are a point of M_i; states from files need it.
    max_parts : int
        The largest number of parts of an atom; 0: as many as its entries.
    atom_room : int
        The least number of entries in the memory of an atom, for functions that read
        beyond the end of a short atom.
    contains : function (data, i, atom) -> bool, optional
        Whether `atom` lies in M_i; called after each oracle call.
    minimiser : function (data, shared, i, atom, work, reach), optional
        For `step="exact"`: replaces `atom`, which holds x_(i), by the minimiser over
        block i of f, with all other blocks fixed, where the curvature of f is `reach`
        times its own: 1 in plain steps, less in an accelerated run.
    finds_gap : bool
        Whether `minimiser` returns the gap of the block at x_(i), the largest
        <x_(i) - s, grad_i f> over s in M_i. Accelerated steps to minimisers with
        `sampling="gap"` need it.
    touched : function (data, i, move, rows, work) -> int, optional
        Writes the rows of v that A_i d reaches into `rows`, in any order, and returns
        how many, at most `max_rows`; for a v too large to pass over at each update.
        `work` is as `prepare` left it.
    local : bool
        Whether the functions of block i read no other rows of v than `touched` lists,
        and `touched` looks at neither `move` nor `work`. Where `curvature` is given,
        too, threads hold these rows during a step, which makes it exact.
    prepare : function (data, i, move, work), optional
        With `rate`, `spread` and `curvature`, where these are given, a fused step, for
        speed: keeps a move d = s - x_(i) in `work`, in a form that they read. The move
        is what the store makes of it: the vector d, or a record of s and of the atoms
        that x_(i) has, with their weights (`stores.atoms.Move`). What is kept follows
        from the move alone: `work` may be fresh, or as another block left it.
    rate : function (data, shared, i, move, work, is_fresh) -> float, optional
        <d, grad_i f>, of the move that `prepare` kept. `is_fresh`: the oracle or the
        minimiser was just called for this block, v and `work`, and what it left there
        may be used. By default `score` gives it.
    spread : function (data, i, move, scale, out, work) -> float, optional
        out += scale A_i d, of the move that `prepare` kept; returns scale <c_i, d>.
        Called several times for one `prepare`, or never. By default `add` does it.
    curvature : function (data, i, move, work) -> float, optional
        The second derivative of f along the move that `prepare` kept; called before or
        after `spread`.
    work : function () -> tuple
        Makes scratch memory for one worker; what it held before must not matter.
    quadratic : bool
        Whether g is quadratic: the line search is then in closed form.
    ridge : float
        c, where g(v) = c/2 |v|^2 plus a constant; then the run can be accelerated (see
        `solve`), if there is a `value`. Lower bounds depend on it, so `check` holds it
        against `slope`, `value` and `score`, to seven digits. 0: g is another function.
    scale : float
        What `tol`, the relative gap, is relative to: about the optimal value.
    constants : function (problem) -> theory.Constants or None, optional
        The exact B and mu of the paper; None where this problem has none in closed
        form. `theory.measure_constants` samples them where they are not given.
    finish : function (shared) -> Any, optional
        Turns v into what a person wants. Default: x itself for vectors, v for atoms.
    name : str
        For messages and files.

    Examples
    --------
    >>> from wolfpack import from_blocks, simplex, solve
    >>> import numpy as np
    >>> problem = from_blocks(np.eye(3), lambda x, i: x.sum(axis=0), simplex())
    >>> solve(problem, step="line", max_epochs=100, rng=0).gap < 1e-3
    True
    """

    data: Any
    shared: np.ndarray
    start: np.ndarray
    oracle: Callable
    score: Callable
    add: Callable
    slope: Callable
    value: Callable | None = None
    offsets: np.ndarray | None = None
    keeps: str = ""
    parts_of: Callable | None = None
    add_parts: Callable | None = None
    score_parts: Callable | None = None
    contains_parts: Callable | None = None
    max_parts: int = 0
    atom_room: int = 0
    contains: Callable | None = None
    minimiser: Callable | None = None
    finds_gap: bool = False
    touched: Callable | None = None
    max_rows: int = 0
    local: bool = False
    prepare: Callable | None = None
    rate: Callable | None = None
    spread: Callable | None = None
    curvature: Callable | None = None
    work: Callable[[], tuple] = _no_work
    quadratic: bool = True
    ridge: float = 0.0
    scale: float = 1.0
    constants: Callable[["Problem"], Any] | None = field(default=None, repr=False)
    finish: Callable[[np.ndarray], Any] | None = None
    name: str = "problem"
    is_ours: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        """Give compiled functions a `data` whose type every process knows."""
        given = (getattr(self, name) for name in REQUIRED + OPTIONAL)
        if all(one is None or is_compiled(one) for one in given):
            object.__setattr__(self, "data", canonical(self.data))

    def made_by(self, function: Callable, *args: Any, ours: bool = False) -> "Problem":
        """Note the call that makes this problem; a pickle holds that call alone.

        Functions that are compiled for one problem, and lambdas, cannot be pickled.
        `ours`: wolfpack made this problem, so it needs no check. A changed copy
        (`dataclasses.replace`) has neither mark: its fields may be anyone's.
        """
        object.__setattr__(self, "_recipe", (function, args))
        object.__setattr__(self, "is_ours", ours)
        return self

    def __reduce__(self) -> Any:
        """Return how another process makes the problem."""
        return getattr(self, "_recipe", None) or super().__reduce__()

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields without the loops, which belong to this process."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @property
    def n_blocks(self) -> int:
        """The number of blocks, n in the paper."""
        return len(self.start if self.offsets is None else self.offsets[1:])

    @property
    def atom_size(self) -> int:
        """Room for the largest atom, and at least `atom_room`."""
        if self.offsets is None:
            return self.start.shape[1]
        return max(int(np.diff(self.offsets).max()), self.atom_room)

    def scratch_atom(self, i: int) -> np.ndarray:
        """Return zeros as long as an atom of block i, with the room of the largest."""
        room = np.zeros(self.atom_size, self.start.dtype)
        return room if self.offsets is None else room[: np.ptp(self.offsets[i : i + 2])]

    @property
    def store_name(self) -> str:
        """How x_(i) is kept."""
        return self.keeps or ("vectors" if self.offsets is None else "atoms")

    @property
    def store(self) -> ModuleType:
        """The module that stores x_(i): one of `stores`."""
        return STORES[self.store_name]

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of the data: which problem a saved state belongs to."""
        digest = Fingerprint()
        digest.add((self.name, self.data, self.shared, self.offsets))
        return digest.hexdigest()

    def kernels(self, loops: Sequence[ModuleType] = ()) -> Loops:
        """Return loops, compiled for this problem or ready to be.

        They are the loops of `update.gap`, which certify, and those of the modules that
        an engine names in `loops`. A user's compiled functions are read anew each time,
        because a constant that they use may have changed. Plain Python functions are
        called as they are, by loops of this problem alone.
        """
        kept = self.__dict__.setdefault("_loops", {})
        wanted = (gap, *self.store.LOOPS, *loops)
        if wanted not in kept or (kept[wanted].compiled and not self.is_ours):
            make = specialise_once if self.is_ours else specialise
            kept[wanted] = make(wanted, names_of(self))
        return kept[wanted]

    def check(self) -> None:
        """Try every function on a few blocks, with bounds checking on.

        Raises
        ------
        ProblemError
            With one sentence that says what is wrong and what is needed.
        """
        from wolfpack.checks.parts import check_store
        from wolfpack.checks.problem import check, source_hash

        check_store(self)
        loops = self.kernels()
        digest = Fingerprint()
        facts = loops.key, self.fingerprint, self.start, self.max_rows, self.work()
        facts = *facts, self.local, self.ridge, self.quadratic, self.atom_room
        digest.add((*facts, source_hash()))
        passed = digest.hexdigest()
        if passed == getattr(self, "_passed", None):
            return
        kept = loops.compiled and not loops.opaque
        note = cache.loops_folder() / loops.key / f"checked_{passed}"
        if not (kept and cache.read(note) is not None):
            check(self)
            if kept:
                cache.write(note, b"")
        object.__setattr__(self, "_passed", passed)

"""Where a run stands: all that is needed to go on as if it had never stopped.

The weighted average of the iterates, 2 / (k (k + 1)) sum_j j v_j, is kept lazily. With
Q_j = j (j + 1) / 2 and d_j = v_j - v_(j-1), summation by parts gives

    average of v_1 ... v_k = v_k - (1 / Q_k) sum_j Q_(j-1) d_j

so a step adds Q_(k-1) d_k to `average` where d_k is not zero, and nothing elsewhere.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wolfpack import sampling
from wolfpack._memory import copy
from wolfpack.engines.serial import CALLS, UPDATES
from wolfpack.problem import Problem
from wolfpack.stores import atoms, vectors

FORMAT = "wolfpack state 1"
N_COUNTS, N_SUMS = 4, 2
CHECKED = 3  # in `counts`: the oracle calls before the last scheduled check


class StateError(ValueError):
    """A state that does not belong here: corrupt, foreign, or of another problem.

    Examples
    --------
    >>> import wolfpack
    >>> wolfpack.State.load("nosuch.npz")
    Traceback (most recent call last):
    wolfpack.state.StateError: there is no state file nosuch.npz.
    """


@dataclass(eq=False)
class State:
    """The iterate of a run and what its next update depends on.

    Examples
    --------
    >>> import numpy as np, tempfile, wolfpack
    >>> Y, _, _ = wolfpack.make_piecewise(n=50, d=2)
    >>> problem = wolfpack.group_fused_lasso(Y, alpha=0.5)
    >>> first = wolfpack.solve(problem, max_epochs=3, tol=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = first.save(f"{folder}/state.npz")
    ...     state = wolfpack.State.load(path)
    >>> wolfpack.solve(problem, start=state, max_epochs=5, tol=0).epochs
    5.0
    """

    fingerprint: str
    offsets: np.ndarray | None
    blocks: Any
    shared: np.ndarray
    average: np.ndarray
    sampler: sampling.Sampler
    rng: np.random.Generator
    counts: np.ndarray
    sums: np.ndarray

    @property
    def n_updates(self) -> int:
        """Updates so far, k in the paper."""
        return int(self.counts[UPDATES])

    @property
    def n_oracle_calls(self) -> int:
        """Oracle calls of all updates so far."""
        return int(self.counts[CALLS])

    @property
    def nbytes(self) -> int:
        """The memory that the state takes, in bytes, without spare room."""
        arrays = [*_store(self.offsets).pack(self.blocks).values(), self.shared]
        arrays += [self.average, *self.sampler]
        return sum(array.nbytes for array in arrays)

    @classmethod
    def begin(
        cls, problem: Problem, options, rng: np.random.Generator, blocks: Any = None
    ) -> "State":
        """Start at the problem's own point, or at the x that `blocks` holds."""
        cold = blocks is None
        if cold:
            make = problem.store.create
            blocks = make(problem.start, problem.offsets, options.batch_size)
        state = cls(
            fingerprint=problem.fingerprint,
            offsets=problem.offsets,
            blocks=blocks,
            shared=copy(problem.shared),
            average=_average(problem.shared, options.averaging),
            sampler=sampling.create(problem.n_blocks, options.sampling),
            rng=rng,
            counts=np.zeros(N_COUNTS, np.int64),
            sums=np.zeros(N_SUMS),
        )
        state.counts[CHECKED] = -1
        exact = problem.shared.astype(np.float64)
        n = problem.n_blocks
        problem.kernels().rebuild(problem.data, blocks, 0, n, exact)
        state.shared[...] = exact
        return state

    @classmethod
    def resume(cls, problem: Problem, start: "State", options, rng) -> "State":
        """Go on from `start`, whose arrays are copied, not used.

        The same problem goes on bit for bit. Another problem with the same blocks (a
        new regularisation, say) takes the point x over and starts its count anew.
        """
        if not isinstance(start, State):
            given = type(start).__name__
            raise StateError(f"start must be a wolfpack.State, but is a {given}.")
        store = problem.store
        if not _same_blocks(problem, start):
            raise StateError(
                f"start has the blocks of another problem: {_describe(start)}, while "
                f"{problem.name} has {problem.n_blocks} blocks."
            )
        packed = store.pack(start.blocks)
        blocks = store.unpack(packed, problem.offsets, options.batch_size)
        _check_point(problem, blocks)
        if start.fingerprint != problem.fingerprint:
            return cls.begin(problem, options, rng, blocks)
        sampler = sampling.create(problem.n_blocks, options.sampling)
        if len(sampler.gaps) == len(start.sampler.gaps):
            sampler = sampling.Sampler(*(array.copy() for array in start.sampler))
        average = _average(problem.shared, options.averaging)
        if average.size == start.average.size:
            average = start.average.copy()
        generator = np.random.Generator(type(start.rng.bit_generator)())
        generator.bit_generator.state = start.rng.bit_generator.state
        return cls(
            fingerprint=start.fingerprint,
            offsets=start.offsets,
            blocks=blocks,
            shared=copy(start.shared),
            average=average,
            sampler=sampler,
            rng=generator,
            counts=start.counts.copy(),
            sums=start.sums.copy(),
        )

    def averaged(self) -> np.ndarray | None:
        """Return the weighted average of v over the run, if it is kept."""
        k = self.n_updates
        if self.average.size == 0 or k == 0:
            return None
        return self.shared - self.average / (0.5 * k * (k + 1.0))

    def save(self, path: str | os.PathLike) -> Path:
        """Write to an .npz file (no pickle), all at once or not at all."""
        path = Path(path)
        if path.suffix != ".npz":  # "alpha0.01" has a suffix that is none
            path = path.with_name(path.name + ".npz")
        packed = _store(self.offsets).pack(self.blocks)
        arrays: dict[str, Any] = {f"block_{name}": packed[name] for name in packed}
        for name, array in zip(self.sampler._fields, self.sampler, strict=True):
            arrays[f"sampler_{name}"] = array
        temporary = path.with_suffix(".part.npz")
        np.savez(
            temporary,
            format=np.array(FORMAT),
            fingerprint=np.array(self.fingerprint),
            rng=np.array(sampling.pack_rng(self.rng)),
            offsets=np.zeros(0, np.int64) if self.offsets is None else self.offsets,
            shared=self.shared,
            average=self.average,
            counts=self.counts,
            sums=self.sums,
            **arrays,
        )
        os.replace(temporary, path)
        return path

    @classmethod
    def load(cls, path: str | os.PathLike) -> "State":
        """Read what `save` wrote.

        Raises
        ------
        StateError
            When the file is missing, damaged, or something else.
        """
        try:
            with open(path, "rb") as handle:  # np.load leaves a bad file open
                file = np.load(handle, allow_pickle=False)
                if isinstance(file, np.ndarray):
                    raise ValueError("it holds a single array")
                arrays = {name: file[name] for name in file.files}
        except FileNotFoundError:
            raise StateError(f"there is no state file {os.fspath(path)}.") from None
        except Exception as error:  # zipfile has many ways to say so
            raise StateError(
                f"{os.fspath(path)} is damaged or no state file ({error})."
            ) from error
        if str(arrays.get("format")) != FORMAT:
            raise StateError(
                f"{os.fspath(path)} is no state of this wolfpack: its format is "
                f"{str(arrays.get('format'))!r}, needed is {FORMAT!r}."
            )
        try:
            return cls._from_arrays(arrays)
        except (KeyError, ValueError, IndexError, TypeError) as error:
            raise StateError(
                f"{os.fspath(path)} is damaged: {type(error).__name__} {error}."
            ) from error

    @classmethod
    def _from_arrays(cls, arrays: dict[str, np.ndarray]) -> "State":
        offsets = arrays["offsets"] if arrays["offsets"].size else None
        prefix = "block_"
        packed = {
            k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)
        }
        if offsets is not None:
            _check_lists(packed, offsets)
        names = (f"sampler_{name}" for name in sampling.Sampler._fields)
        sampler = sampling.Sampler(*(arrays[name] for name in names))
        n = len(packed["points"]) if offsets is None else len(offsets) - 1
        if not sampling.is_sound(sampler, n):
            raise ValueError("the sampler does not fit the blocks")
        counts, shared, average = arrays["counts"], arrays["shared"], arrays["average"]
        if counts.shape != (N_COUNTS,) or arrays["sums"].shape != (N_SUMS,):
            raise ValueError("counters of another length")
        if counts.dtype != np.int64 or counts[UPDATES] < 0:
            raise ValueError("counters that do not count")
        if average.shape not in ((0, *shared.shape[1:]), shared.shape):
            raise ValueError("an average of another shape")
        return cls(
            fingerprint=str(arrays["fingerprint"]),
            offsets=offsets,
            blocks=_store(offsets).unpack(packed, offsets, 1),
            shared=shared,
            average=average,
            sampler=sampler,
            rng=sampling.unpack_rng(str(arrays["rng"])),
            counts=counts,
            sums=arrays["sums"],
        )


def _store(offsets: np.ndarray | None) -> Any:
    return vectors if offsets is None else atoms


def _average(shared: np.ndarray, averaging: bool) -> np.ndarray:
    return np.zeros(shared.shape if averaging else (0, *shared.shape[1:]))


def _check_lists(packed: dict[str, np.ndarray], offsets: np.ndarray) -> None:
    counts, weights = packed["counts"], packed["weights"]
    if len(counts) != len(offsets) - 1 or (counts < 1).any():
        raise ValueError("counts of atoms do not fit the blocks")
    if counts.sum() != len(weights) or counts @ np.diff(offsets) != len(
        packed["atoms"]
    ):
        raise ValueError("atoms and weights do not fit their counts")
    sums = np.add.reduceat(weights, np.cumsum(counts) - counts)
    if not (weights.min() >= 0 and np.abs(sums - 1).max() < 1e-6):
        raise ValueError("the weights of a block are no convex combination")


def _same_blocks(problem: Problem, state: State) -> bool:
    if (problem.offsets is None) != (state.offsets is None):
        return False
    if problem.shared.shape != state.shared.shape:
        return False
    entries = state.blocks.points if state.offsets is None else state.blocks.atoms
    if problem.start.dtype != entries.dtype:
        return False
    if problem.offsets is None:
        return problem.start.shape == entries.shape
    return np.array_equal(problem.offsets, np.asarray(state.offsets))


def _check_point(problem: Problem, blocks: Any) -> None:
    """Refuse a point outside the feasible set: a compiled loop would trust it."""
    if problem.contains is None:
        return
    bad = problem.kernels().first_outside(problem.data, blocks, problem.n_blocks)
    if bad >= 0:
        raise StateError(f"block {bad} of start lies outside its feasible set.")


def _describe(state: State) -> str:
    if state.offsets is None:
        return f"{len(state.blocks.points)} vectors"
    return f"{len(state.offsets) - 1} blocks of atoms, {int(state.offsets[-1])} entries"

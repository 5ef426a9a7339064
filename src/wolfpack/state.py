"""Where a run stands: all that is needed to go on as if it had never stopped.

The weighted average of the iterates, 2 / (k (k + 1)) sum_j j v_j, is kept lazily. With
Q_j = j (j + 1) / 2 and d_j = v_j - v_(j-1), summation by parts gives

    average of v_1 ... v_k = v_k - (1 / Q_k) sum_j Q_(j-1) d_j

so a step adds Q_(k-1) d_k to `average` where d_k is not zero, and nothing elsewhere.
"""

import math
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from wolfpack.checks.image import image, overflow, settle
from wolfpack.checks.point import count_blocks, describe_blocks, point_fault
from wolfpack.files import state_file as _state_file
from wolfpack.files.npz import (
    FileError,
    one_line,
    read_npz,
    read_text,
    with_npz,
    write_npz,
)
from wolfpack.kernels.memory import copy
from wolfpack.problem import Problem
from wolfpack.stores import STORES, name_of, parts
from wolfpack.update import sampling
from wolfpack.update.outer import Outer
from wolfpack.update.plan import make_progress


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
    progress: Any  # a record, see `update.plan.PROGRESS`
    outer: Outer | None = None  # where the run is accelerated
    from_file: bool = field(default=False, repr=False)  # then it may hold anything
    is_intact: bool = field(default=True, repr=False)  # as `save` wrote it

    @property
    def keeps(self) -> str:
        """How x is kept: the name of a store, as in `Problem`."""
        return name_of(self.blocks)

    def read(self, what: str, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights and the atoms of x_(i), or its parts and their weights."""
        read = getattr(STORES[self.keeps], f"read_{what}", None)
        if read is None:
            raise ValueError(f"x is kept as {self.keeps}, which have no {what}.")
        return read(self.blocks, range(self.n_blocks)[i])

    @property
    def n_blocks(self) -> int:
        """The number of blocks."""
        offsets = self.offsets
        return len(self.blocks.points if offsets is None else offsets[1:])

    @property
    def n_updates(self) -> int:
        """Updates so far, k in the paper."""
        return int(self.progress["updates"])  # far faster than by attribute

    @property
    def n_oracle_calls(self) -> int:
        """Oracle calls of all updates so far."""
        return int(self.progress["calls"])

    @property
    def nbytes(self) -> int:
        """The memory that the state takes, in bytes, without spare room."""
        arrays = [*STORES[self.keeps].pack(self.blocks).values(), self.shared]
        arrays += [self.average, *self.sampler]
        if self.outer is not None:
            arrays += [self.outer.anchor, self.outer.last]
        return sum(array.nbytes for array in arrays)

    @classmethod
    def begin(
        cls, problem: Problem, options, rng: np.random.Generator, blocks: Any = None
    ) -> "State":
        """Start at the problem's own point, or at the x that `blocks` holds."""
        cold = blocks is None
        if cold:
            blocks = problem.store.create(problem, options.batch_size)
        state = cls(
            fingerprint=problem.fingerprint,
            offsets=problem.offsets,
            blocks=blocks,
            shared=copy(problem.shared),
            average=_average(problem.shared, options.averaging),
            sampler=sampling.create(problem.n_blocks, options.sampling),
            rng=rng,
            progress=make_progress(),
        )
        exact, linear = image(problem, blocks)
        _refuse("" if cold else overflow(problem, exact))
        state.shared[...] = exact
        first = math.inf
        if options.accelerate:
            first = linear + float(problem.kernels().evaluate(problem.data, exact))
        del exact  # as large as the two copies that follow
        if options.accelerate:
            first = math.inf if math.isnan(first) else first  # `check` says why
            state.outer = Outer.begin(state.shared, options.is_coarse, first)
        return state

    @classmethod
    def resume(cls, problem: Problem, start: "State", options, rng) -> "State":
        """Go on from `start`, whose arrays are copied and stay as they are.

        The same problem goes on bit for bit. Another problem with the same blocks (a
        new regularisation, say) takes the point x over and starts its count anew;
        blocks that were appended begin at their own start.
        """
        if not isinstance(start, State):
            given = type(start).__name__
            raise StateError(f"start must be a wolfpack.State, but is a {given}.")
        store = problem.store
        n_old = count_blocks(problem, start)
        if n_old is None:
            raise StateError(
                f"start has the blocks of another problem, {describe_blocks(start)}; "
                f"{problem.name} has {problem.n_blocks} blocks."
            )
        packed = STORES[start.keeps].pack(start.blocks)
        if start.keeps != problem.store_name:  # of a release that kept atoms
            packed = parts.from_atoms(packed, problem)
        if n_old < problem.n_blocks:
            packed = store.append(packed, problem)
        blocks = store.unpack(packed, problem, options.batch_size)
        same = start.fingerprint == problem.fingerprint
        _refuse(point_fault(problem, blocks, start.from_file, same))
        if start.fingerprint != problem.fingerprint:
            return cls.begin(problem, options, rng, blocks)
        sampler = sampling.create(problem.n_blocks, options.sampling)
        if len(sampler.gaps) == len(start.sampler.gaps):
            sampler = sampling.Sampler(*(array.copy() for array in start.sampler))
            sampler = sampling.repair(sampler, options.plan.sampling)
        average = _average(problem.shared, options.averaging)
        if average.size == start.average.size:
            average = start.average.copy()
        outer = start.outer
        generator = np.random.Generator(type(start.rng.bit_generator)())
        generator.bit_generator.state = start.rng.bit_generator.state
        state = cls(
            fingerprint=start.fingerprint,
            offsets=problem.offsets,
            blocks=blocks,
            shared=copy(start.shared, problem.shared.dtype),
            average=average,
            sampler=sampler,
            rng=generator,
            progress=start.progress.copy(),
            outer=outer.copy() if options.accelerate and outer is not None else None,
        )
        if options.accelerate != (outer is not None):
            state.shared[...], _ = image(problem, blocks)
        if not start.is_intact:
            _refuse(settle(problem, state))
        if options.accelerate and outer is None:
            state.outer = Outer.begin(state.shared, options.is_coarse)
        elif outer is not None and not options.accelerate:
            state.forget_gaps()
        return state

    def drawn_back(self, problem: Problem, ratio: float) -> "State":
        """Return this state at start + ratio (x - start); v is as it was, and stale.

        In a structural SVM v is A x / ridge, and A maps the start to 0. So where the
        ridge falls by `ratio`, the new x has the old v, which is near the optimum.
        """
        if count_blocks(problem, self) is None:  # `resume` refuses it
            return self
        store = problem.store
        packed = store.draw_back(store.pack(self.blocks), problem, ratio)
        return replace(self, blocks=store.unpack(packed, problem, 1))

    def rebuild(self, problem: Problem, kernels: Any, work: tuple) -> float:
        """Compute v anew from x, without rounding drift; return the relative drift."""
        exact = problem.shared.astype(np.float64)
        args = problem.data, self.blocks, 0, problem.n_blocks, exact, work
        kernels.rebuild(*args)
        if self.outer is not None:
            return self.outer.mix(exact, self.shared)
        drift = np.linalg.norm(exact - self.shared)
        self.shared[...] = exact
        return float(drift / max(np.linalg.norm(exact), 1e-300))

    def forget_gaps(self) -> None:
        """Begin the running estimate of the gap anew."""
        self.progress.gap_sum = self.progress.gaps_seen = 0.0

    def averaged(self) -> np.ndarray | None:
        """Return the weighted average of v over the run, if it is kept."""
        k = self.n_updates
        if self.average.size == 0 or k == 0:
            return None
        return self.shared - self.average / (0.5 * k * (k + 1.0))

    def __getstate__(self) -> dict[str, Any]:
        """Return plain arrays: the records and tuples of a run are no public format."""
        return _state_file.to_arrays(self)

    def __setstate__(self, arrays: dict[str, Any]) -> None:
        """Take what `__getstate__` returned, and check it as if it came from a file."""
        self.__init__(**_state_file.from_arrays(arrays), from_file=True)

    def save(self, path: str | os.PathLike) -> Path:
        """Write to an .npz file (no pickle), all at once or not at all."""
        path = with_npz(path)
        write_npz(path, _state_file.to_arrays(self))
        return path

    @classmethod
    def load(cls, path: str | os.PathLike) -> "State":
        """Read what `save` wrote.

        Raises
        ------
        StateError
            When the file is missing, damaged, or something else.
        """
        name = os.fspath(path)
        try:
            arrays = read_npz(path, _state_file.NAMES)
        except FileNotFoundError:
            raise StateError(f"there is no state file {name}.") from None
        except FileError as error:
            raise StateError(
                f"{name} is damaged or no state file: it {error}."
            ) from error
        given, needed = read_text(arrays.get("format")), _state_file.FORMAT
        if given != needed:
            raise StateError(
                f"{name} is no state of this wolfpack: its format is {given!r}, needed "
                f"is {needed!r}."
            )
        try:
            return cls(**_state_file.from_arrays(arrays), from_file=True)
        except Exception as error:
            raise StateError(f"{name} is damaged: {one_line(error)}.") from error


def _average(shared: np.ndarray, averaging: bool) -> np.ndarray:
    return np.zeros(shared.shape if averaging else (0, *shared.shape[1:]))


def _refuse(wrong: str) -> None:
    if wrong:
        raise StateError(wrong)

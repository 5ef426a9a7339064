"""Change points of many signals, by all cores.

A fit of a short signal takes about as long as the Python around its loops, which one
interpreter runs in one thread at a time. So the signals go to processes, in batches.
"""

import itertools
import warnings
from collections.abc import Iterable, Iterator, Sized
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone

from wolfpack.result import Status

BATCH = 64  # signals that go to a process together


@dataclass(frozen=True, eq=False)
class ManyChangePoints:
    """What `find_many` found; entry i of each list is of signal i.

    Attributes
    ----------
    change_points : list of int arrays
        Rows where new segments begin.
    alphas, relative_gaps : ndarray (n_signals,)
        The alpha of each lasso, and the gap that `tol` is compared with.
    statuses : list of Status
        Why each fit stopped.
    signals : list of arrays, or None
        The fitted signals, where they were asked for.
    notes : dict of int to list of str
        What the fits warned of, by the number of the signal.
    """

    change_points: list[np.ndarray] = field(repr=False)
    alphas: np.ndarray = field(repr=False)
    relative_gaps: np.ndarray = field(repr=False)
    statuses: list[Status] = field(repr=False)
    signals: list[np.ndarray] | None = field(repr=False)
    notes: dict[int, list[str]] = field(repr=False)

    @property
    def n_change_points(self) -> np.ndarray:
        """The number of change points of each signal."""
        return np.array([len(points) for points in self.change_points], dtype=np.intp)


class _Found(NamedTuple):
    """What one fit found."""

    points: np.ndarray
    alpha: float
    relative_gap: float
    status: str  # a word, because an Enum takes longer to pickle
    signal: np.ndarray | None
    notes: list[str]


def find_many(
    signals: Iterable[Any],
    model: Any = None,
    *,
    n_jobs: int | None = -1,
    keep_signals: bool = False,
    progress: bool = False,
) -> ManyChangePoints:
    """Find the change points of many signals, each by a fit of its own.

    The answers are those of a loop over `fit`, to the last bit.

    Parameters
    ----------
    signals : iterable of arrays (n, d) or (n,)
        Signals of any lengths: a list, a generator, an array (n_signals, n) or
        (n_signals, n, d).
    model : GroupFusedLasso, optional
        How to fit. Default: `GroupFusedLasso(n_change_points="auto")`.
    n_jobs : int or None
        Processes: -1 is one per core, None and 1 are this process alone. The first 64
        signals are fitted here, so that few signals start no process.
    keep_signals : bool
        Whether to return the fitted signals, which take as much memory as the given.
    progress : bool
        Whether to show a bar on stderr.

    Returns
    -------
    ManyChangePoints

    Raises
    ------
    ValueError
        A signal cannot be fitted; the message begins with its number.

    Examples
    --------
    >>> import wolfpack
    >>> from wolfpack.change_points import find_many
    >>> signals = [wolfpack.make_piecewise(n=60, d=1, rng=i)[0] for i in range(3)]
    >>> model = wolfpack.GroupFusedLasso(n_change_points=2)
    >>> find_many(signals, model).n_change_points
    array([2, 2, 2])
    """
    model = _check(model)
    total = len(signals) if isinstance(signals, Sized) else None
    found: list[_Found] = []
    with _bar(total, progress) as advance:
        for batch in _fit_all(model, iter(signals), n_jobs, keep_signals):
            found += batch
            advance(len(batch))
    notes = {i: one.notes for i, one in enumerate(found) if one.notes}
    _warn(notes, len(found))
    return ManyChangePoints(
        [one.points for one in found],
        np.array([one.alpha for one in found]),
        np.array([one.relative_gap for one in found]),
        [Status[one.status] for one in found],
        [np.asarray(one.signal) for one in found] if keep_signals else None,
        notes,
    )


def _check(model: Any) -> Any:
    from wolfpack.estimators.signals import GroupFusedLasso

    if model is None:
        return GroupFusedLasso(n_change_points="auto")
    if not isinstance(model, GroupFusedLasso):
        raise TypeError(f"model must be a GroupFusedLasso, but is {model!r}.")
    for name, plain in (("warm_start", False), ("callback", None)):
        if getattr(model, name) != plain:
            raise ValueError(
                f"each signal has a fit of its own, so {name} must be {plain}; given "
                f"was {getattr(model, name)!r}."
            )
    return clone(model)


def _fit_all(
    model: Any, signals: Iterator[Any], n_jobs: int | None, keep: bool
) -> Iterator[list[_Found]]:
    """Yield what was found in each batch, in order; the first one is fitted here."""
    batches = enumerate(iter(lambda: list(itertools.islice(signals, BATCH)), []))
    tasks = ((model, k * BATCH, batch, keep) for k, batch in batches)
    for task in itertools.islice(tasks, 1):
        yield _fit_batch(*task)
    many: Any = n_jobs
    if effective_n_jobs(many) == 1:
        for task in tasks:
            yield _fit_batch(*task)
        return
    second = list(itertools.islice(tasks, 1))
    if second:  # `Parallel` starts processes even if there is nothing to do
        how: dict[str, Any] = {"batch_size": 1, "return_as": "generator"}
        crew: Any = Parallel(n_jobs, prefer="processes", **how)
        calls = itertools.chain(second, tasks)
        yield from crew(delayed(_fit_batch)(*task) for task in calls)


def _fit_batch(model: Any, first: int, batch: list[Any], keep: bool) -> list[_Found]:
    return [_fit(model, first + i, Y, keep) for i, Y in enumerate(batch)]


def _fit(model: Any, number: int, Y: Any, keep: bool) -> _Found:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(Y)
        except (ValueError, TypeError) as error:
            raise ValueError(f"signal {number}: {error}") from error
    return _Found(
        model.change_points_,
        model.alpha_,
        model.relative_gap_,
        model.status_.name,
        model.signal_ if keep else None,
        [str(warning.message) for warning in caught],
    )


def _warn(notes: dict[int, list[str]], count: int) -> None:
    """Say once what the first of the signals with notes was told."""
    if notes:
        number, (text, *_) = next(iter(notes.items()))
        warnings.warn(
            f"{len(notes)} of {count} signals have a note (see .notes). That of signal "
            f"{number}: {text}",
            UserWarning,
            stacklevel=3,
        )


def _bar(total: int | None, progress: bool) -> AbstractContextManager[Any]:
    """Return a context whose value is called with the number of signals just done."""
    return _Bar(total) if progress else nullcontext(lambda count: None)


class _Bar:
    """A bar on stderr."""

    def __init__(self, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

        columns = *Progress.get_default_columns(), MofNCompleteColumn()
        self._bar = Progress(
            *columns, TimeElapsedColumn(), console=Console(stderr=True)
        )
        self._total = total

    def __enter__(self) -> Any:
        self._bar.start()
        task = self._bar.add_task("signals", total=self._total)
        return lambda count: self._bar.advance(task, count)

    def __exit__(self, *exc_info: object) -> None:
        self._bar.stop()

"""Signals: change points by the group fused lasso, as an estimator."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from wolfpack.change_points.chosen import Choice
from wolfpack.change_points.given import Given, Incomplete, Limits, read_given
from wolfpack.change_points.path import find_alpha
from wolfpack.change_points.segmentation import (
    check_signal,
    fill_rows,
    find_jumps,
    price_ratio,
    read_signal,
    warn_of_stairs,
)
from wolfpack.change_points.selection import (
    Wish,
    enough_candidates,
    select,
    settle,
)
from wolfpack.checks.inputs import positive
from wolfpack.engines.active_set import ActiveSet
from wolfpack.engines.interior_point import InteriorPoint
from wolfpack.estimators._advice import UNFINISHED
from wolfpack.estimators._callbacks import with_callbacks
from wolfpack.estimators._choosing import Choosing
from wolfpack.problem import Problem
from wolfpack.result import Event
from wolfpack.state import State

NORMS = (1, 2, np.inf)  # that ActiveSet takes
SHARE = 0.1  # of alpha_max is alpha where neither it nor a number of points is given


class GroupFusedLasso(Choosing):
    """Find change points, and the piecewise constant signal between them.

    Minimises 1/2 sum_t w_t |X_t - Y_t|^2 + alpha sum_t |X_(t+1) - X_t|_q: all columns
    of the signal jump together, and rarely. The penalty shrinks jumps, so that a large
    one is often spread over neighbouring rows, as a staircase. With `n_change_points`
    or `penalty` the best points are kept, out of all rows where that is affordable,
    else out of those of the lasso, and segments get their means.

    Parameters
    ----------
    alpha : float, optional
        The price of a jump, lambda in the paper. From `alpha_max(X)` on the answer is
        constant. Default: a tenth of that; where the points of the lasso are the
        candidates (see `reason_`), alpha_max, halved until there are enough of them.
        With an alpha of your own they are, except for "auto".
    n_change_points : None, int or "auto"
        None: all of the lasso, without `penalty`. A number: that many, the best by
        least squares. "auto" estimates season, outliers and noise, compares steps and
        straight segments with noise and drift that have no change
        (`wolfpack.change_points.choose_change_points`), and says in `model_`,
        `reason_` and `significant_` what came out.
    penalty : float, optional
        In place of a number: the price per point, beside the sum of squares.
    noise : "auto", "iid" or "ar"
        What "auto" assumes: rows may depend on each other and the signal may drift;
        independent rows; dependent rows without drift. See the guide for the power.
    min_size : int
        The fewest rows of a segment that is chosen; "auto" asks for 2 or more.
    refit : bool or "auto"
        Whether `signal_` has the mean of each segment (its straight line, where these
        were chosen), instead of the lasso's values, whose jumps are too small. "auto":
        where a number or a penalty is given.
    q : float
        The norm of a jump.
    engine : engine, optional
        Default: `ActiveSet()`, or, where q is not 1, 2 or inf, `InteriorPoint()`, which
        need milliseconds, if batch_size, step, sampling, averaging and accelerate have
        their defaults. Else `Serial()`, or `Threads` where `n_jobs` asks for them,
        which visit all rows again and again.
    batch_size, averaging, max_iter, max_seconds, warm_start, n_jobs, accelerate
        As in `ChainSSVM`; they concern engines that visit all rows.
    sampling : "cyclic", "permutation", "uniform" or "gap"
        How such engines choose rows; see `wolfpack.solve`.
    step : "exact", "line", "open-loop" or float
        How far they move; "exact" needs q in {1, 2, inf}.
    tol : float
        Stop at this duality gap, relative to the smaller of the objectives of X itself
        and of its mean. Engines that visit all rows may need a larger one.
    random_state, callback, verbose
        As in `ChainSSVM`.

    Attributes
    ----------
    change_points_ : ndarray of int
        Where new segments begin: row t differs from row t - 1.
    labels_ : ndarray of int (n,)
        The segment of each row, from 0 on.
    signal_ : ndarray (n, d)
        The recovered signal.
    candidates_ : ndarray of int
        The change points of the lasso at `alpha_`. Points chosen among all rows need
        not be there.
    n_change_points_ : int
        How many there are.
    model_, reason_ : str
        What the signal is between its points, and a sentence that says why.
    significant_ : ndarray of bool
        Which points noise and drift do not explain; others only describe the signal.
    change_points_path_ : NumberPath
        Cost and points for each number, and `plot`; "auto" measures columns in units
        of their noise. `costs_` are its costs.
    alpha_, alpha_max_ : float
        The alpha used, and the smallest that gives a constant signal.
    objective_, dual_objective_, gap_, relative_gap_ : float
        The certificate of the lasso: the optimum lies between the first two. `tol` is
        compared with the last.
    n_iter_, status_, trace_, result_, n_features_in_
        As in `ChainSSVM`.

    Examples
    --------
    >>> import wolfpack
    >>> Y, clean, change_points = wolfpack.make_piecewise(n=60, d=5, n_segments=3)
    >>> model = wolfpack.GroupFusedLasso(n_change_points="auto").fit(Y)
    >>> bool((model.change_points_ == change_points).all())
    True
    """

    alpha: float | None
    penalty: float | None
    noise: Literal["auto", "iid", "ar"]
    refit: bool | Literal["auto"]
    q: float
    _caution = " The change points so far mean nothing."

    def __init__(
        self,
        *,
        alpha: float | None = None,
        n_change_points: int | Literal["auto"] | None = None,
        penalty: float | None = None,
        noise: Literal["auto", "iid", "ar"] = "auto",
        min_size: int = 1,
        refit: bool | Literal["auto"] = "auto",
        q: float = 2.0,
        batch_size: int | Literal["auto"] | None = None,
        step: Literal["exact", "line", "open-loop"] | float = "exact",
        sampling: Literal["cyclic", "permutation", "uniform", "gap"] = "cyclic",
        averaging: bool = False,
        accelerate: bool | Literal["auto"] = "auto",
        tol: float = 1e-8,
        max_iter: int = 10000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        engine: Any = None,
        random_state: int | np.random.RandomState | None = None,
        callback: Callable[[Event], bool | None] | None = None,
        verbose: int = 0,
    ) -> None:
        self._set(locals())

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None):
        """Find the change points of a signal.

        Parameters
        ----------
        X : array (n, d) or (n,), or a pandas Series or DataFrame
            The noisy signal, one row a time. NaN is a missing entry.
        y : None
            Not used.
        sample_weight : array (n,) or (n, d), optional
            Weights of the rows, or of all entries. Rows of weight 0 follow the row
            before them; an entry of weight 0 counts as missing.

        Returns
        -------
        GroupFusedLasso
            Itself.
        """
        X = read_signal(self, X, reset=True)
        given = read_given(X, sample_weight)
        values, rows, q = given.values, given.rows, self.q
        wish = Wish.read(self, len(values))
        refit = not wish.is_empty if self.refit == "auto" else self._flag("refit")
        self.alpha_max_ = given.largest_alpha(q)
        choice = select(given, wish, self.alpha)
        self.alpha_ = alpha = self._choose_alpha(given, wish, choice)
        before = getattr(self, "result_", None)
        try:
            with given.interruptible() as stop:
                problem = given.problem(alpha, q, Limits(self, stop))
                how = {"certify": given.certify}
                result = self._solve(problem, lambda Z: {"signal_": Z}, X, **how)
            points = find_jumps(values, self.signal_, given.prices(result), alpha, q)
            self.candidates_ = rows[points]
            choice = settle(given, points, wish, self.alpha, choice)
        except KeyboardInterrupt:
            if getattr(self, "result_", None) is not before:  # this fit has learnt
                self._choice, jumps = None, np.diff(self.signal_, axis=0).any(axis=1)
                self._keep(np.flatnonzero(jumps) + 1, rows, X)
            raise
        if choice is None and result.status not in UNFINISHED:
            warn_of_stairs(self.signal_, points)
        self._choice = choice
        points = points if choice is None else choice.points
        if refit:
            self.signal_ = self._fit_segments(given, points)
        self._keep(points, rows, X)
        return self

    def _choose_alpha(self, given: Given, wish: Wish, choice: Choice | None) -> float:
        if self.alpha is not None:
            return positive("alpha", self.alpha)
        chosen = choice is not None and not isinstance(given, Incomplete)
        if chosen or wish.is_empty or not self.alpha_max_ or self.q not in NORMS:
            return SHARE * self.alpha_max_ or 1.0
        count = wish.number if isinstance(wish.number, int) else None
        count = count if choice is None else len(choice.points)
        enough = enough_candidates(len(given.values), count)
        return find_alpha(given.values, enough, self.q, given.weights)

    def _start(self, problem: Problem) -> State | None:
        """Scale the last prices with alpha, which keeps the change points."""
        last = self._last_state()
        if last is None or last.fingerprint == problem.fingerprint:
            return last
        prices = last.blocks.points
        return last.drawn_back(problem, price_ratio(prices, self.alpha_, self.q))

    def _choose_engine(self) -> Any:
        plain = (
            self.batch_size is None
            and self.step == "exact"
            and self.sampling == "cyclic"
            and not self.averaging
            and self.accelerate in ("auto", False)
        )
        if self.engine is None and plain:
            kind = ActiveSet if self.q in NORMS else InteriorPoint
            return kind(self._count_workers())
        return super()._choose_engine()

    def _keep(self, points: np.ndarray, rows: np.ndarray, given: np.ndarray) -> None:
        """Set what a fitted estimator has, for all rows that were given."""
        self.change_points_ = rows[points]
        self._rows = None if len(rows) == len(given) else rows
        signal = fill_rows(self.signal_, rows, len(given))
        self.signal_ = signal.astype(given.dtype, copy=False)

    def __sklearn_tags__(self):
        """Say whether NaN is a missing value: the default engine takes it."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = isinstance(self.engine, ActiveSet | None)
        return tags

    @staticmethod
    def alpha_max(X: Any, q: float = 2.0, sample_weight: Any = None) -> float:
        """Return the smallest alpha for which the recovered signal is constant."""
        return read_given(check_signal(X), sample_weight).largest_alpha(q)

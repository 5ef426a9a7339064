"""What a fit tells while it goes on: the user's callbacks, and lines of progress."""

import math
import time
from typing import Any

import numpy as np

from wolfpack.kernels.notice import say
from wolfpack.result import Event, in_words

SILENT_SECONDS = 2.0  # after which `verbose` says the estimate of the gap


class Passes:
    """A callback for `solve` that tells all callbacks of the estimator.

    `callback` sees every event, those of scikit-learn each whole pass.
    """

    def __init__(self, about, context, problem, describe, done: float) -> None:
        self.about, self.context, self.problem = about, context, problem
        self.estimator = about["estimator"]
        self.describe, self.told = describe, math.floor(done)
        # A batch that does not divide n ends a little after the last whole pass, which
        # would be one subtask too many.
        self.last = self.told + context.max_subtasks
        self.said = time.perf_counter()

    def __call__(self, event: Event) -> bool:
        row, estimator = event.row, self.estimator
        stop = estimator.callback is not None and bool(estimator.callback(event))
        if estimator.verbose:
            self._say(event)
        while self.told < min(math.floor(row.epoch + 1e-9), self.last):
            self.told += 1
            task = self.context.subcontext(task_name=f"pass {self.told}")
            task.call_on_fit_task_begin(**self.about)
            stop |= task.call_on_fit_task_end(
                **self.about, reconstruction_attributes=lambda: self._attributes(event)
            )
        return bool(stop)

    def _say(self, event: Event) -> None:
        """Say the gap of a check, and its estimate where checks are far apart."""
        row, now = event.row, time.perf_counter()
        estimate = row.gap_estimate / event.scale
        if event.checked:
            text = f"{row.relative_gap:.3e} (tol {event.tol:.1e}), "
            text += f"{in_words(row.gap_over_primal)}, objective {-row.lower_bound:.8g}"
        elif now - self.said > SILENT_SECONDS and estimate > 0.0:
            text = f"about {estimate:.1e} (tol {event.tol:.1e})"
        else:
            return
        self.said = now
        say(f"pass {row.epoch:g}: relative gap {text}, {row.wall_seconds:.1f} s")

    def _attributes(self, event: Event) -> dict[str, Any]:
        """Return what `fit` would have learnt by now, and the certificate so far."""
        row, shared = event.row, event.state.shared.astype(np.float64)
        return {
            **self.describe(self.problem.finish(shared)),
            "objective_": -row.lower_bound,
            "dual_objective_": -row.objective,
            "gap_": row.gap,
            "relative_gap_": row.relative_gap,
            "n_iter_": self.told,
        }

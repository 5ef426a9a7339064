"""What `wolfpack fit` does with the made signals and the aCGH profiles."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from wolfpack.change_points.segmentation import StaircaseWarning
from wolfpack.cli.jobs import Job, forced
from wolfpack.engines.ray import Ray
from wolfpack.estimators.signals import GroupFusedLasso
from wolfpack.files.npz import with_npz, write_npz
from wolfpack.files.replace import save_picture
from wolfpack.problem import Problem
from wolfpack.problems.fused_lasso import group_fused_lasso

# Where the user gives none. Engines that visit all rows take long to a smaller gap.
DEFAULTS = {"alpha": 1.0, "tol": 1e-4}


class SignalJob(Job):
    """Find the change points of a signal."""

    estimator = GroupFusedLasso
    has_page = False

    def __init__(self, name: str, noisy: np.ndarray, clean: np.ndarray | None):
        self.name, self.noisy, self.clean = name, noisy, clean

    @property
    def tol(self) -> float:
        """Where `fit` stops, unless the user says otherwise."""
        return DEFAULTS["tol"]

    def describe(self, options: dict[str, Any]) -> str:
        """Say what will be done."""
        n, d = self.noisy.shape
        alpha = options.get("alpha", DEFAULTS["alpha"])
        top = GroupFusedLasso.alpha_max(self.noisy)
        return (
            f"Group fused lasso on {self.name}: {n} rows in {d} dimensions; "
            f"alpha = {alpha:g} (from {top:.4g} on the answer is constant)."
        )

    def problem(self, alpha: float | None) -> Problem:
        """Return what `fit` solves."""
        return group_fused_lasso(self.noisy, alpha or DEFAULTS["alpha"])

    def fit(
        self, options: dict[str, Any], as_json: bool, quiet: bool, engine: Any = None
    ) -> dict[str, Any]:
        """Recover the signal; return the report."""
        if isinstance(engine, Ray):  # its workers lack x_(i), which "exact" needs
            options = {"step": "line", **options}
        self.model = GroupFusedLasso(**{**DEFAULTS, **forced(engine), **options})
        with warnings.catch_warnings():  # the command shows the lasso as it is
            warnings.simplefilter("ignore", StaircaseWarning)
            report = self.watch((self.noisy,), as_json, quiet, engine)
        report["change_points"] = self.model.change_points_.tolist()
        return report

    def save(self, path: Path) -> Path:
        """Keep the recovered signal."""
        path = with_npz(path)
        model = self.model
        found = {"signal": model.signal_, "change_points": model.change_points_}
        write_npz(path, found)
        return path

    def plot(self, path: Path) -> None:
        """Draw original, noisy and recovered signal."""
        axes = self.model.plot(self.noisy, original=self.clean)
        save_picture(axes.ravel()[0].figure, path)

    def summary(self, report: dict[str, Any]) -> str:
        """Say what came out."""
        found = len(report["change_points"])
        lines = [self.certificate(report), f"{found} change points found."]
        return "\n".join(lines + self.files(report))

"""wolfpack: block-coordinate Frank-Wolfe, with a certificate."""

import importlib
from typing import TYPE_CHECKING

from wolfpack import delays, theory
from wolfpack.blocks import from_blocks
from wolfpack.datasets import load_dates, load_ocr, make_piecewise
from wolfpack.engines.active_set import ActiveSet
from wolfpack.engines.delayed import Delayed
from wolfpack.engines.interior_point import InteriorPoint
from wolfpack.engines.ray import Ray
from wolfpack.engines.serial import Serial
from wolfpack.engines.sync import Sync
from wolfpack.engines.threads import Threads
from wolfpack.problem import Problem, ProblemError
from wolfpack.problems.chain import chain_ssvm
from wolfpack.problems.fused_lasso import group_fused_lasso
from wolfpack.problems.multiclass import multiclass_svm
from wolfpack.problems.multilabel import multilabel_svm
from wolfpack.problems.trend_filter import group_trend_filter
from wolfpack.result import EngineError, Event, OracleError, Result, Status
from wolfpack.sets import (
    box,
    l1_ball,
    l2_ball,
    linf_ball,
    lp_ball,
    nuclear_ball,
    simplex,
)
from wolfpack.solve import solve
from wolfpack.state import State, StateError

if TYPE_CHECKING:
    from wolfpack import models, plotting
    from wolfpack.advice import suggest_batch_size
    from wolfpack.change_points.path import fused_lasso_path
    from wolfpack.estimators.multiclass import MulticlassSVM
    from wolfpack.estimators.multilabel import MultilabelSVM
    from wolfpack.estimators.path import alpha_path
    from wolfpack.estimators.signals import GroupFusedLasso
    from wolfpack.estimators.structured import ChainSSVM
    from wolfpack.estimators.trends import GroupTrendFilter
    from wolfpack.estimators.vectorizer import SequenceVectorizer
    from wolfpack.estimators.warmup import warmup

__version__ = "0.1.0"

__all__ = [
    "ActiveSet",
    "ChainSSVM",
    "Delayed",
    "EngineError",
    "Event",
    "GroupFusedLasso",
    "GroupTrendFilter",
    "InteriorPoint",
    "MulticlassSVM",
    "MultilabelSVM",
    "OracleError",
    "Problem",
    "ProblemError",
    "Ray",
    "Result",
    "SequenceVectorizer",
    "Serial",
    "State",
    "StateError",
    "Status",
    "Sync",
    "Threads",
    "alpha_path",
    "box",
    "chain_ssvm",
    "delays",
    "from_blocks",
    "fused_lasso_path",
    "group_fused_lasso",
    "group_trend_filter",
    "l1_ball",
    "l2_ball",
    "linf_ball",
    "load_dates",
    "load_ocr",
    "lp_ball",
    "make_piecewise",
    "models",
    "multiclass_svm",
    "multilabel_svm",
    "nuclear_ball",
    "plotting",
    "simplex",
    "solve",
    "suggest_batch_size",
    "theory",
    "warmup",
]


# The modules of names that need scikit-learn or matplotlib. They are imported when such
# a name is first used, because both take long to import.
_LAZY = {
    "ChainSSVM": "estimators.structured",
    "GroupFusedLasso": "estimators.signals",
    "GroupTrendFilter": "estimators.trends",
    "MulticlassSVM": "estimators.multiclass",
    "MultilabelSVM": "estimators.multilabel",
    "SequenceVectorizer": "estimators.vectorizer",
    "alpha_path": "estimators.path",
    "fused_lasso_path": "change_points.path",
    "suggest_batch_size": "advice",
    "warmup": "estimators.warmup",
}


def __getattr__(name: str):
    """Import a name that `solve` does not need, when it is first used."""
    if name in ("models", "plotting"):
        return importlib.import_module(f"wolfpack.{name}")
    if name in _LAZY:
        return getattr(importlib.import_module(f"wolfpack.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

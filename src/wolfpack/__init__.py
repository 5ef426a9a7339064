"""wolfpack: block-coordinate Frank-Wolfe, with a certificate."""

from typing import TYPE_CHECKING

from wolfpack import delays, theory
from wolfpack.blocks import from_blocks
from wolfpack.datasets import load_dates, load_ocr, make_piecewise
from wolfpack.engines.delayed import Delayed
from wolfpack.engines.ray import Ray
from wolfpack.engines.serial import Serial
from wolfpack.engines.sync import Sync
from wolfpack.engines.threads import Threads
from wolfpack.problem import Problem, ProblemError
from wolfpack.problems.chain import chain_ssvm
from wolfpack.problems.fused_lasso import group_fused_lasso
from wolfpack.problems.multiclass import multiclass_svm
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
    from wolfpack.advice import suggest_batch_size
    from wolfpack.estimators.multiclass import MulticlassSVM
    from wolfpack.estimators.path import alpha_path
    from wolfpack.estimators.signals import GroupFusedLasso
    from wolfpack.estimators.structured import ChainSSVM
    from wolfpack.estimators.vectorizer import SequenceVectorizer

__version__ = "0.1.0"

__all__ = [
    "ChainSSVM",
    "Delayed",
    "EngineError",
    "Event",
    "GroupFusedLasso",
    "MulticlassSVM",
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
    "group_fused_lasso",
    "l1_ball",
    "l2_ball",
    "linf_ball",
    "load_dates",
    "load_ocr",
    "lp_ball",
    "make_piecewise",
    "multiclass_svm",
    "nuclear_ball",
    "simplex",
    "solve",
    "suggest_batch_size",
    "theory",
]


def __getattr__(name: str):
    """Import scikit-learn only for those who want an estimator."""
    if name == "ChainSSVM":
        from wolfpack.estimators.structured import ChainSSVM

        return ChainSSVM
    if name == "GroupFusedLasso":
        from wolfpack.estimators.signals import GroupFusedLasso

        return GroupFusedLasso
    if name == "MulticlassSVM":
        from wolfpack.estimators.multiclass import MulticlassSVM

        return MulticlassSVM
    if name == "SequenceVectorizer":
        from wolfpack.estimators.vectorizer import SequenceVectorizer

        return SequenceVectorizer
    if name == "alpha_path":
        from wolfpack.estimators.path import alpha_path

        return alpha_path
    if name == "suggest_batch_size":
        from wolfpack.advice import suggest_batch_size

        return suggest_batch_size
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

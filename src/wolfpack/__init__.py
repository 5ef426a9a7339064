"""wolfpack: parallel and distributed block-coordinate Frank-Wolfe."""

from wolfpack.blocks import from_blocks
from wolfpack.datasets import load_dates, load_ocr, make_piecewise
from wolfpack.engines.serial import Serial
from wolfpack.problem import Problem, ProblemError
from wolfpack.problems.chain import chain_ssvm
from wolfpack.problems.fused_lasso import group_fused_lasso
from wolfpack.result import Event, OracleError, Result, Status
from wolfpack.sets import box, l1_ball, l2_ball, linf_ball, lp_ball, nuclear_ball, simplex
from wolfpack.solve import solve
from wolfpack.state import State, StateError

__version__ = "0.1.0"

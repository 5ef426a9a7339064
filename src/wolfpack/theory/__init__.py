"""What the paper proves, as formulas: rates, minibatches, delays, collisions.

Symbols: n `n_blocks`, tau `batch_size`, C_f^tau `curvature`, B `boundedness`, mu
`incoherence`, h_0 = f(x_0) - f* `first`, delta `oracle_error`, kappa `expected_delay`.
Arrays are taken everywhere, and broadcast. Theorems, examples and sections are numbered
as in Wang et al., Parallel and Distributed Block-Coordinate Frank-Wolfe Algorithms.

What is proved. Theorem 1 as printed holds for tau = 1, where gamma never exceeds 1.
With more blocks its first steps are longer than 1 and leave the feasible set; every
engine clips them, and then the printed bound can fail: for a linear f it does as soon
as tau (1 - tau / n) > 2, and on the paper's group fused lasso (n = 100, lambda = 0.01,
tau = 16) the mean of 1000 runs was 6 % above it at k = 5. With clipped steps it holds
if h_0 <= n C_f^tau (1 + delta) / tau. For any start the proof goes through with h_0
weighted by `start_weight`, and that is what `Rates` does, unless told otherwise.

The rates of the accelerated outer loop, `OuterRates`, are from other papers; the module
`outer` names them, and says what is proved of such runs.

Examples
--------
>>> from wolfpack import theory
>>> found = theory.fused_lasso_constants(n_rows=101, n_columns=3, alpha=0.5)
>>> theory.predicted_speedup([1, 10, 100], *found[:2]).round(1)
array([ 1. ,  9.2, 50.3])
"""

from wolfpack.theory.asynchrony import (
    bounded_delay_error,
    delay_error,
    double_calls_risk,
    expected_calls,
    load_factor,
)
from wolfpack.theory.constants import (
    Constants,
    fused_lasso_constants,
    multiclass_constants,
)
from wolfpack.theory.examples import (
    Comparison,
    comparison_table,
    example_fused_lasso,
    example_multiclass,
    example_svm,
)
from wolfpack.theory.outer import OuterRates
from wolfpack.theory.rates import (
    Rates,
    curvature_bound,
    open_loop_steps,
    predicted_speedup,
    start_weight,
)
from wolfpack.theory.sampled import measure_constants, sample_constants

__all__ = [
    "Comparison",
    "Constants",
    "OuterRates",
    "Rates",
    "bounded_delay_error",
    "comparison_table",
    "curvature_bound",
    "delay_error",
    "double_calls_risk",
    "example_fused_lasso",
    "example_multiclass",
    "example_svm",
    "expected_calls",
    "fused_lasso_constants",
    "load_factor",
    "measure_constants",
    "multiclass_constants",
    "open_loop_steps",
    "predicted_speedup",
    "sample_constants",
    "start_weight",
]

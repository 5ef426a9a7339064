"""Compile or load all that a run will call, by calls without updates or blocks."""

import logging
from typing import TYPE_CHECKING

import numpy as np

from wolfpack.kernels.memory import widen
from wolfpack.problem import Problem

if TYPE_CHECKING:
    from wolfpack.run.loop import Run

logger = logging.getLogger("wolfpack")

_said_uncompiled: set[str] = set()
_said_opaque: set[str] = set()


def warm_up(run: "Run") -> None:
    """Call every loop of the run once, so that none is compiled while time counts."""
    problem, kernels, state = run.problem, run.kernels, run.state
    _warn(problem, kernels)
    if not kernels.compiled:
        return
    run.session.warm_up(run)
    if state.outer is not None:
        state.outer.warm_up()
    certifier, gaps = run.certifier, state.sampler.gaps
    origin = widen(problem.shared)
    exact = certifier.precise(state.shared[:0])
    certifier.oracle_values(state, state.shared, exact, 0, 0, gaps)
    if state.outer is None:
        kernels.inner_products(problem.data, origin, origin, np.arange(0))
    kernels.evaluate(problem.data, origin)


def _warn(problem: Problem, kernels) -> None:
    """Warn, once for each problem, about what makes it slow."""
    name = problem.name
    if not kernels.compiled:
        if name not in _said_uncompiled:
            _said_uncompiled.add(name)
            logger.warning("%s has plain Python functions: running uncompiled.", name)
    elif kernels.opaque and name not in _said_opaque:
        _said_opaque.add(name)
        logger.warning(
            "%s depends on %s, whose content has no fingerprint: its loops are "
            "compiled for this process only, with the present content. Restart Python "
            "after a change.",
            name,
            " and ".join(kernels.opaque[:3]),
        )

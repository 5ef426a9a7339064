"""What is saved of a run: x of a cluster that cannot go on, and a lost checkpoint."""

import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from wolfpack.engines.cluster import lease
from wolfpack.errors import EngineError
from wolfpack.state import State

if TYPE_CHECKING:
    from wolfpack.engines.cluster.driver import RaySession
    from wolfpack.run.loop import Run

RESCUE_SECONDS = 2.0  # for the answer of the server

logger = logging.getLogger("wolfpack")


def rescue(session: "RaySession", run: "Run") -> None:
    """Give the run the newest x, and save it where the user has asked for that."""
    with contextlib.suppress(Exception):
        if not _take_from_server(session, run):
            _take_from_checkpoint(session, run)
    if session.engine.checkpoint is not None:
        with contextlib.suppress(OSError):
            run.state.save(session.path)


def _take_from_server(session: "RaySession", run: "Run") -> bool:
    if not lease.holds(session.ray, session.lease):  # a call would start a new Ray
        return False
    with contextlib.suppress(Exception):
        call = session.server.snapshot.remote()
        session.receive(run, session.ray.get(call, timeout=RESCUE_SECONDS))
        return True
    return False


def _take_from_checkpoint(session: "RaySession", run: "Run") -> None:
    saved, state = State.load(session.path), run.state
    if saved.n_oracle_calls > state.n_oracle_calls:
        saved = State.resume(session.problem, saved, session.options, state.rng)
        for name in ("blocks", "shared", "average", "outer", "progress"):
            setattr(state, name, getattr(saved, name))


def save_anew(path: str, state: State, wrong: str) -> None:
    """Save the state of the driver for a server whose checkpoint is lost."""
    logger.warning("Ray: %s The server goes on from the last check.", wrong)
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        state.save(path)
    except OSError as error:
        raise EngineError(
            "the server died, and its checkpoint can neither be read nor written "
            f"anew: {wrong} {error}."
        ) from error

"""Algorithm 1 on a cluster, over Ray.

The server's state machine is in `service`. The processes are the `driver`, which
starts, watches and certifies, the `server_actor`, and `worker_actor`s.
"""

import os
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

import numpy as np

from wolfpack.engines.base import Engine
from wolfpack.engines.cluster import service
from wolfpack.engines.cluster.driver import RaySession
from wolfpack.engines.threads import count_cores


@dataclass(frozen=True)
class Ray(Engine):
    """A cluster of worker processes, on this machine or on many. Not reproducible.

    Parameters
    ----------
    address : str, optional
        Of a running Ray cluster; "auto": the one that this machine belongs to.
        Default: start one on this machine, and stop it afterwards. A Ray that this
        process has joined before is used as it is.
    n_workers : int or "auto"
        T in the paper. "auto": all cores of the cluster, also those that join later.
    chunk : int or "auto"
        Blocks in a message. Large chunks save messages, small ones are solved against
        a fresher v: up to 2 T chunks are in flight. "auto" weighs both by how long the
        oracle takes.
    checkpoint : path, optional
        Where the server, which stays on this machine, saves its state; an old file is
        overwritten. Default: a temporary file.
    checkpoint_seconds : float
        The time between two saves; it is longer where saving takes long.

    Notes
    -----
    `batch_size` of `solve` is tau, by default 1: stale atoms do least harm one by one.
    Where v is large and each block touches all of it, the default is one block for each
    256 kB of v.

    References
    ----------
    Wang et al., ICML 2016, Algorithm 1.

    Examples
    --------
    >>> import wolfpack
    >>> wolfpack.Ray(n_workers=4).chunk
    'auto'
    """

    address: str | None = None
    n_workers: int | Literal["auto"] = "auto"
    chunk: int | Literal["auto"] = "auto"
    checkpoint: str | os.PathLike | None = None
    checkpoint_seconds: float = 5.0

    reproducible = False
    acceleration = "always"

    def __post_init__(self) -> None:
        """Refuse what cannot run."""
        if not isinstance(self.address, str | None):
            raise ValueError(
                "address must be a string like '10.0.0.1:6379' or 'auto', or None, not "
                f"{self.address!r}."
            )
        for name in ("n_workers", "chunk"):
            value: Any = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            text = isinstance(value, str)
            if not (value == "auto" if text else whole and value >= 1):
                raise ValueError(
                    f"{name} must be a positive integer or 'auto', not {value!r}."
                )
        if not isinstance(self.checkpoint, str | os.PathLike | None):
            raise ValueError(
                f"checkpoint must be a path or None, not {self.checkpoint!r}."
            )
        seconds = self.checkpoint_seconds
        real = isinstance(seconds, int | float | np.integer | np.floating)
        if not (real and seconds > 0):
            raise ValueError(f"checkpoint_seconds must be positive, not {seconds!r}.")

    @property
    def size(self) -> int:
        """The threads of the driver, which certify."""
        return count_cores()

    def loops(self, problem) -> tuple[ModuleType, ...]:
        """Return the module with the loops of server and workers."""
        return (service,)

    def refuse(self, problem, options) -> None:
        """Raise if this problem cannot be solved this way."""
        if options.sampling != "uniform":
            raise ValueError(
                "Ray draws uniformly, as Algorithm 1 does; use sampling='uniform', not "
                f"{options.sampling!r}."
            )
        if options.step == "exact":
            raise ValueError("Ray workers know v, not x; use step='line', not 'exact'.")

    def session(self, problem, options) -> RaySession:
        """Return the driver's side of a run."""
        return RaySession(problem, options, self)

"""What a run may raise after it has begun; both errors carry the iterate so far."""

from wolfpack.state import State


class OracleError(RuntimeError):
    """A problem's function failed during a run.

    `block` is the block on which it failed (-1: unknown); `state` is the iterate up to
    there, which `solve(start=error.state)` goes on from and `error.state.save` keeps.

    Examples
    --------
    >>> import wolfpack
    >>> try:
    ...     raise wolfpack.OracleError("there is no path from 3 to 7", block=3)
    ... except wolfpack.OracleError as error:
    ...     print(f"block {error.block}: {error}")
    block 3: there is no path from 3 to 7
    """

    def __init__(self, message: str, block: int, state: State | None = None) -> None:
        super().__init__(message)
        self.block = block
        self.state = state


class EngineError(RuntimeError):
    """An engine that cannot go on, for no fault of the problem.

    `state` is the last iterate that reached this process.

    Examples
    --------
    >>> import wolfpack
    >>> try:
    ...     raise wolfpack.EngineError("all workers are gone")
    ... except wolfpack.EngineError as error:
    ...     print(error)
    all workers are gone
    """

    def __init__(self, message: str, state: State | None = None) -> None:
        super().__init__(message)
        self.state = state

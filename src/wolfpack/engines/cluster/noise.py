"""What Ray prints about workers and hosts that died: hidden, as we say it ourselves.

Ray prints these paragraphs on stdout whatever `log_to_driver` is. They go to the logger
"wolfpack" at level DEBUG, while the process is in a cluster that a run has entered.
"""

import importlib
import logging
from typing import Any

PRINTER = "print_to_stdstream"

logger = logging.getLogger("wolfpack")
_hidden: list[tuple[Any, Any]] = []


def hide(ray: Any) -> None:
    """Log what Ray would print."""
    if getattr(ray, "__name__", "") != "ray":
        return
    worker = importlib.import_module("ray._private.worker")
    printer = getattr(worker, PRINTER, None)
    if printer is not None and not _hidden:
        _hidden.append((worker, printer))
        setattr(worker, PRINTER, _log)


def show() -> None:
    """Let Ray print again."""
    while _hidden:
        worker, printer = _hidden.pop()
        setattr(worker, PRINTER, printer)


def _log(data: dict[str, Any], *_: Any, **__: Any) -> None:
    logger.debug("Ray: %s", "\n".join(map(str, data.get("lines", ()))))

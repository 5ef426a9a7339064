"""How a problem gets into the object store; what cannot be sent is named."""

import dataclasses
from dataclasses import fields
from typing import Any

from wolfpack.problem import ProblemError

MOST_DEEP, MOST_LETTERS = 3, 200


def send(ray: Any, problem: Any) -> Any:
    """Put a problem into the object store, or name the field that cannot be sent."""
    try:
        return ray.put(problem)
    except Exception as error:
        name, why = _find_what_stays("problem", problem, error, ray.cloudpickle.dumps)
    raise ProblemError(
        f"Ray sends the problem to other processes, and {name} cannot be "
        f"pickled ({why}). Leave it out, or say how each process makes the problem: "
        "`problem.made_by(function, ...)`."
    )


def _find_what_stays(
    name: str, thing: Any, error: Exception, dumps: Any, depth: int = 0
) -> tuple[str, str]:
    """Return the path of the innermost part that cannot be pickled, and why."""
    for part, value in _parts(thing) if depth < MOST_DEEP else ():
        try:
            dumps(value)
        except Exception as inner:
            path = f"{name}{part}"
            return _find_what_stays(path, value, inner, dumps, depth + 1)
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return name, lines[0][:MOST_LETTERS].rstrip(" :.")


def _parts(thing: Any) -> list[tuple[str, Any]]:
    """Return the fields of a record, with how they are written."""
    if dataclasses.is_dataclass(thing):
        return [(f".{f.name}", getattr(thing, f.name)) for f in fields(thing)]
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        names = getattr(thing, "_fields")  # noqa: B009
        return [(f".{k}", v) for k, v in zip(names, thing, strict=True)]
    if isinstance(thing, tuple | list):
        return [(f"[{k}]", value) for k, value in enumerate(thing)]
    if isinstance(thing, dict):
        return [(f"[{k!r}]", value) for k, value in thing.items()]
    return []

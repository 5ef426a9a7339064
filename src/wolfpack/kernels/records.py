"""Named tuples that every process knows by name.

Compiled code on disk is found again only for arguments of the same types, and a user's
own NamedTuple, pickled by value from a script, is a new type each time. `canonical`
turns it into a class of this module with the same fields, made on demand from its name.
"""

from collections import namedtuple
from typing import Any

_PREFIX = "Record__"


def __getattr__(name: str) -> type:
    if not name.startswith(_PREFIX):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    fields = name[len(_PREFIX) :].split("__")
    record = namedtuple(name, fields, module=__name__)
    globals()[name] = record
    return record


def canonical(data: Any) -> Any:
    """Return `data` with every named tuple in it replaced by one of this module."""
    if not isinstance(data, tuple):
        return data
    items = [canonical(item) for item in data]
    fields = getattr(data, "_fields", ())
    name = _PREFIX + "__".join(fields)
    apart = name[len(_PREFIX) :].split("__") == list(fields)
    if not fields or not apart or any(one.startswith("_") for one in fields):
        return data if fields else tuple(items)  # no class name can hold these fields
    return (globals().get(name) or __getattr__(name))(*items)

"""Which names a Python function reads: its globals, and attributes of modules."""

import dis
import functools
import types


def _nested(code: types.CodeType) -> list[types.CodeType]:
    return [value for value in code.co_consts if isinstance(value, types.CodeType)]


@functools.lru_cache(4096)
def globals_of(code: types.CodeType) -> frozenset[str]:
    """Return the globals that a function, or one inside it, reads."""
    reads = ("LOAD_GLOBAL", "LOAD_NAME")
    own = {i.argval for i in dis.get_instructions(code) if i.opname in reads}
    return frozenset(own.union(*map(globals_of, _nested(code))))


@functools.lru_cache(4096)
def attributes_of(code: types.CodeType) -> frozenset[str]:
    """Return what a function may read as an attribute of a module."""
    texts = (value for value in code.co_consts if isinstance(value, str))
    return frozenset(code.co_names).union(texts, *map(attributes_of, _nested(code)))

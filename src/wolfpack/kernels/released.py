"""What Python, NumPy, SciPy and Numba define, told from what users set there.

An object of a release is known by its name and the package's version, so its content
need not be hashed. Anybody may set `math.sin`, and a wrapper may call itself `sin` of
`math` (`functools.wraps`). So an object counts as the release's own if the name that it
gives leads back to it, and what it runs is the release's: compiled code, which says
itself where it is from, or Python code with the globals of a released module.
"""

import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
import scipy

_RELEASED = {*sys.stdlib_module_names, "numpy", "numba", "llvmlite", "scipy"}
_PACKAGES = tuple(
    str(Path(str(package.__file__)).parent) for package in (np, numba, llvmlite, scipy)
)
_STANDARD = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))


def is_released(value: Any) -> bool:
    """Return whether a released package defines this object by the name it gives.

    Examples
    --------
    >>> import math
    >>> is_released(math.sin), is_released(lambda x: x)
    (True, False)
    """
    if isinstance(value, types.ModuleType):
        return _comes_with_release(value)
    if isinstance(value, np.ufunc):
        return getattr(np, value.__name__, None) is value
    return _leads_back(value) and _runs_released_code(value)


def name_of(value: Any) -> str:
    """Return the name that an object gives itself; empty where it has none."""
    return str(getattr(value, "__qualname__", None) or getattr(value, "__name__", ""))


def _leads_back(value: Any) -> bool:
    if isinstance(value, types.BuiltinFunctionType):
        return True  # it holds its module, or an object of its class
    found: Any = sys.modules.get(str(getattr(value, "__module__", "")))
    if found is None or not _comes_with_release(found):
        return False
    if getattr(found, str(getattr(value, "__name__", "")), None) is value:
        return True
    for part in name_of(value).split("."):
        found = getattr(found, part, None)
    return found is value


def _runs_released_code(value: Any) -> bool:
    if isinstance(value, types.BuiltinFunctionType):
        owner: Any = value.__self__
        is_module = isinstance(owner, types.ModuleType)
        return is_released(owner if is_module else type(owner))
    if isinstance(value, types.FunctionType):
        space = value.__globals__
        module = sys.modules.get(str(space.get("__name__")))
        return module is not None and vars(module) is space and is_released(module)
    if isinstance(value, type):
        own = (getattr(one, "__func__", one) for one in vars(value).values())
        functions = (one for one in own if isinstance(one, types.FunctionType))
        return all(map(_runs_released_code, functions))
    for part in ("py_func", "__func__", "_implementation"):  # the last one is NumPy's
        if hasattr(value, part):
            return _runs_released_code(getattr(value, part))
    # Whoever writes a name onto an object may write any name.
    return "__name__" not in getattr(value, "__dict__", ())


def _comes_with_release(module: types.ModuleType) -> bool:
    """Return whether a module is the released one of its name.

    A user's own `profile.py` is not.
    """
    if module.__name__.partition(".")[0] not in _RELEASED:
        return False
    file = getattr(module, "__file__", None)
    if file is None:  # compiled into the interpreter
        return module.__name__ in sys.builtin_module_names
    if "site-packages" in file or "dist-packages" in file:
        return file.startswith(_PACKAGES)
    return file.startswith((*_STANDARD, *_PACKAGES))

"""A hash of values by their content, the same in every process.

`known` hashes what this module understands to the last bit, and returns False for the
rest: two different values must not get the same hash because they print alike. The data
of a problem may hold anything; `add` pickles what `known` does not understand.
"""

import enum
import hashlib
import pickle
import secrets
import struct
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
import scipy.sparse
from numba.core import types as numba_types

# A function or class of these packages is known by its name and the package's version.
_RELEASED = {*sys.stdlib_module_names, "numpy", "numba", "llvmlite", "scipy"}
_VERSIONS = (
    *sys.version_info[:2],
    *(package.__version__ for package in (numba, llvmlite, np, scipy)),
)
_PLAIN = (bool, int, str, type(None), type(...), range, slice)
_PACKAGES = tuple(
    str(Path(str(package.__file__)).parent) for package in (np, numba, llvmlite, scipy)
)
_STANDARD = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_PLAIN_TYPES = (
    numba_types.Number,
    numba_types.Boolean,
    numba_types.NumberClass,
    numba_types.Array,
)


class Fingerprint:
    """A hash to which values are added one by one.

    Examples
    --------
    >>> one, two = Fingerprint(), Fingerprint()
    >>> one.known((1, 2.0)), two.known((1, 2))
    (True, True)
    >>> one.hexdigest() == two.hexdigest()
    False
    """

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.put("versions", repr(_VERSIONS).encode())

    def hexdigest(self) -> str:
        """Return the hash of what was added so far."""
        return self._hash.hexdigest()

    def put(self, tag: str, content: Any = b"") -> None:
        """Add bytes, with a tag and their length, so that no two sequences collide."""
        view = memoryview(content)
        self._hash.update(f"{tag} {view.nbytes}\n".encode())
        self._hash.update(view)

    def text(self, tag: str, text: str) -> None:
        """Add a text."""
        self.put(tag, text.encode("utf-8", "surrogatepass"))

    def add(self, value: Any) -> None:
        """Add any value of a problem's data.

        What cannot be pickled gets a number of its own: it equals nothing, not even
        itself when it is added again.
        """
        if isinstance(value, tuple | list):
            self._items(type(value).__name__, value, self.add)
        elif isinstance(value, dict):
            self._items("dict keys", value.keys(), self.add)
            self._items("dict values", value.values(), self.add)
        elif scipy.sparse.issparse(value):
            self._sparse(value)
        elif not self.known(value):
            self._pickled(value)

    def known(self, value: Any) -> bool:
        """Add a value that is understood; return whether it was."""
        kind = type(value)
        if kind in _PLAIN:
            self.text(kind.__name__, repr(value))
        elif kind in (float, complex):
            whole = complex(value)
            self.put(kind.__name__, struct.pack("<dd", whole.real, whole.imag))
        elif kind is bytes:
            self.put("bytes", value)
        elif isinstance(value, tuple):
            return self._tuple(value)
        elif kind is frozenset:
            return self._set(value)
        elif isinstance(value, np.generic | np.dtype):
            return self._scalar(value)
        elif kind in (np.ndarray, np.memmap):
            return self._array(value)
        elif isinstance(value, enum.EnumMeta):
            members: Any = value.__members__
            self.text("enum", value.__qualname__)
            return self.known(tuple((name, members[name].value) for name in members))
        elif isinstance(value, enum.Enum):
            self.text("member", value.name)
            return self.known(kind)
        elif isinstance(value, _PLAIN_TYPES):
            self.text("numba type", f"{kind.__name__} {value}")
        elif isinstance(value, numba_types.ExternalFunction):
            self.text("external", f"{value.symbol} {value.sig}")
        elif is_released(value):
            self.text("released", f"{getattr(value, '__module__', '')} {_name(value)}")
        else:
            return self._record_class(value)
        return True

    def _items(self, tag: str, items: Any, add: Any) -> None:
        self.text(tag, str(len(items)))
        for item in items:
            add(item)

    def _tuple(self, value: tuple) -> bool:
        fields = getattr(value, "_fields", ())
        self.text("tuple", f"{type(value).__name__} {len(value)} {fields}")
        return all(self.known(item) for item in value)

    def _set(self, value: frozenset) -> bool:
        parts = []
        for item in value:
            part = Fingerprint()
            if not part.known(item):
                return False
            parts.append(part.hexdigest())
        self.text("set", " ".join(sorted(parts)))
        return True

    def _scalar(self, value: np.generic | np.dtype) -> bool:
        dtype = value if isinstance(value, np.dtype) else value.dtype
        if dtype.hasobject:
            return False
        self.text("dtype", repr(dtype))
        if isinstance(value, np.generic):
            self.put("scalar", value.tobytes())
        return True

    def _array(self, value: np.ndarray) -> bool:
        if not self._scalar(value.dtype):
            return False
        self.text("array", str(value.shape))
        # No copy: the array may be a mapped file that is larger than the memory.
        flat = np.ascontiguousarray(value).reshape(-1)
        self.put("content", flat.view(np.uint8).data if flat.size else b"")
        return True

    def _record_class(self, value: Any) -> bool:
        """Add the class of a named tuple, of which only names and defaults count."""
        if not (isinstance(value, type) and issubclass(value, tuple)):
            return False
        fields: Any = getattr(value, "_fields", None)
        if fields is None:
            return False
        self.text("record", f"{value.__qualname__} {fields}")
        return self.known(tuple(getattr(value, "_field_defaults", {}).values()))

    def _sparse(self, value: Any) -> None:
        self.text("sparse", f"{value.format} {value.shape}")
        if value.format in ("csr", "csc", "bsr"):
            parts = value.indptr, value.indices, value.data
        else:
            table = value.tocoo()
            parts = *table.coords, table.data
        self._items("parts", parts, self.add)

    def _pickled(self, value: Any) -> None:
        buffers: list[pickle.PickleBuffer] = []
        try:
            content = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
            self.put("pickle", content)
            for buffer in buffers:
                self.put("buffer", buffer.raw())
        except Exception:
            self.put("unknown", secrets.token_bytes(16))


def is_released(value: Any) -> bool:
    """Return whether a name in a released package refers to this object."""
    if isinstance(value, np.ufunc):
        return getattr(np, value.__name__, None) is value
    if isinstance(value, types.ModuleType):
        return _comes_with_release(value)
    module = getattr(value, "__module__", None)
    found: Any = sys.modules.get(module) if isinstance(module, str) else None
    if found is None or not _comes_with_release(found):
        return False
    if getattr(found, str(getattr(value, "__name__", "")), None) is value:
        return True
    for part in _name(value).split("."):
        found = getattr(found, part, None)
    return found is value


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


def _name(value: Any) -> str:
    return str(getattr(value, "__qualname__", None) or getattr(value, "__name__", ""))

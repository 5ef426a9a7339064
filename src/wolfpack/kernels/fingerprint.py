"""A hash of values by their content, the same in every process.

`known` hashes what this module understands to the last bit, and returns False for the
rest: two different values must not get the same hash because they print alike. The data
of a problem may hold anything; `add` pickles what `known` does not understand.
"""

import enum
import functools
import hashlib
import pickle
import secrets
import struct
import sys
from typing import Any

import llvmlite
import numba
import numpy as np
import scipy.sparse
from numba.core import types as numba_types

from wolfpack.kernels.released import is_released, name_of

_VERSIONS = (
    *sys.version_info[:2],
    *(package.__version__ for package in (numba, llvmlite, np, scipy)),
)
_PLAIN = (bool, int, str, type(None), type(...), range, slice)
_PLAIN_TYPES = (
    numba_types.Number,
    numba_types.Boolean,
    numba_types.NumberClass,
    numba_types.Array,
    numba_types.UnicodeType,
)


@functools.lru_cache(maxsize=64)
def _repr(dtype: np.dtype) -> str:
    return repr(dtype)


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
            self.text(
                "released", f"{getattr(value, '__module__', '')} {name_of(value)}"
            )
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
        self.text("dtype", _repr(dtype))
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

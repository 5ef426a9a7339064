"""A state as named arrays, and the checks of it that do not need its problem.

Compiled loops trust every index of a state. So the type, shape and range of each array
from a file are checked against the others first. `State.resume` checks what needs the
problem: whether each atom exists, and which v belongs to x.
"""

import hashlib
import math
from typing import Any

import numpy as np

from wolfpack.files import random_state
from wolfpack.files.npz import read_text
from wolfpack.stores import STORES, name_in, name_of
from wolfpack.update import sampling
from wolfpack.update.outer import LEAST, OUTER, Outer
from wolfpack.update.plan import make_progress

FORMAT = "wolfpack state 1"
# The fields of the progress, in the order that the arrays of a file have.
COUNTS, SUMS = ("updates", "calls", "at", "checked"), ("gap_sum", "gaps_seen")
OLD_NUMBERS = 6  # of an outer loop, in files from before it judged when it is at rest
MOST = 2**53  # larger counts are not exact as floats

_OWN = ("offsets", "shared", "average")
_BLOCKS = dict.fromkeys(name for one in STORES.values() for name in one.ARRAYS)
NAMES = (
    *("format", "fingerprint", "rng", "counts", "sums", *_OWN),
    *(f"sampler_{name}" for name in sampling.Sampler._fields),
    *(f"block_{name}" for name in _BLOCKS),
    *("outer_anchor", "outer_last", "outer_numbers"),
    "seal",
)


def to_arrays(state: Any) -> dict[str, Any]:
    """Return those arrays of `NAMES` that the state has."""
    arrays: dict[str, Any] = {name: getattr(state, name) for name in _OWN}
    if state.offsets is None:
        arrays["offsets"] = np.zeros(0, np.int64)
    progress = state.progress
    arrays["counts"] = np.array([progress[name] for name in COUNTS], np.int64)
    arrays["sums"] = np.array([progress[name] for name in SUMS], np.float64)
    arrays["format"] = np.array(FORMAT)
    arrays["fingerprint"] = np.array(state.fingerprint)
    arrays["rng"] = np.array(random_state.pack_rng(state.rng))
    for name, array in state.sampler._asdict().items():
        arrays[f"sampler_{name}"] = array
    for name, array in STORES[name_of(state.blocks)].pack(state.blocks).items():
        arrays[f"block_{name}"] = array
    if state.outer is not None:
        numbers = state.outer.numbers
        arrays["outer_anchor"], arrays["outer_last"] = state.outer[:2]
        arrays["outer_numbers"] = np.array([float(one) for one in numbers.item()])
    arrays["seal"] = _seal(arrays)
    return arrays


def _seal(arrays: dict[str, Any]) -> np.ndarray:
    """Return a hash of all other arrays, which tells a file that was changed."""
    digest = hashlib.blake2b(digest_size=16)
    for name in (name for name in NAMES[:-1] if name in arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return np.frombuffer(digest.digest(), np.uint8)


def from_arrays(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the fields of a state; a `ValueError` says what is wrong with it."""
    read = _Arrays(arrays)
    offsets = _read_offsets(read["offsets"])
    given = {name for name in _BLOCKS if f"block_{name}" in arrays}
    store = STORES[name_in(given, offsets is None)]
    packed = {name: read[f"block_{name}"] for name in store.ARRAYS}
    store.refuse(packed, offsets)
    for name, array in packed.items():
        _refuse_endless(name, array)
    n = len(packed["points"]) if offsets is None else len(offsets) - 1
    fields = (read[f"sampler_{name}"] for name in sampling.Sampler._fields)
    sampler = sampling.Sampler(*fields)
    if sampler.cursor.shape == (1,):  # of a file from before there were rounds
        sampler = sampler._replace(cursor=np.append(sampler.cursor, [0, 0, 0]))
    if not sampling.is_sound(sampler, n):
        raise ValueError("its sampler does not fit its blocks")
    progress = _read_progress(read["counts"], read["sums"], n)
    _check_v(read["shared"], read["average"])
    outer = _read_outer(read, progress) if "outer_numbers" in arrays else None
    return {
        "fingerprint": read_text(read["fingerprint"]),
        "offsets": offsets,
        "blocks": store.read(packed, offsets),
        "shared": read["shared"],
        "average": read["average"],
        "sampler": sampler,
        "rng": random_state.unpack_rng(read_text(read["rng"])),
        "progress": progress,
        "outer": outer,
        "is_intact": np.array_equal(arrays.get("seal", ()), _seal(arrays)),
    }


class _Arrays(dict):
    def __missing__(self, name: str) -> np.ndarray:
        raise ValueError(f"it lacks {name}")


def _read_offsets(offsets: np.ndarray) -> np.ndarray | None:
    if offsets.dtype.kind not in "iu" or offsets.ndim != 1 or len(offsets) == 1:
        raise ValueError("its offsets are no row of whole numbers")
    if offsets.size == 0:
        return None
    if offsets[0] != 0 or (offsets[1:] <= offsets[:-1]).any():
        raise ValueError("its offsets do not rise from 0")
    return offsets.astype(np.int64, copy=False)


def _read_progress(counts: np.ndarray, sums: np.ndarray, n: int) -> Any:
    if (counts.dtype, counts.shape) != (np.int64, (len(COUNTS),)):
        raise ValueError(f"its counts are not {len(COUNTS)} whole numbers")
    if (sums.dtype, sums.shape) != (np.float64, (len(SUMS),)):
        raise ValueError(f"its sums are not {len(SUMS)} numbers")
    progress = make_progress()
    for name, number in zip((*COUNTS, *SUMS), (*counts, *sums), strict=True):
        progress[name] = number
    updates, calls, checked = progress.updates, progress.calls, progress.checked
    if not (0 <= updates <= MOST and -1 <= checked <= calls <= MOST and calls >= 0):
        raise ValueError("its counts of updates and oracle calls cannot be true")
    if not -1 <= progress.at < n:
        raise ValueError("its last block does not exist")
    if not np.isfinite(sums).all() or progress.gaps_seen < 0:
        raise ValueError("its sums of gaps cannot be true")
    return progress


def _read_outer(read: "_Arrays", progress: Any) -> Outer:
    vectors, numbers = (read["outer_anchor"], read["outer_last"]), read["outer_numbers"]
    for array in vectors:
        if (array.dtype, array.shape) != (read["shared"].dtype, read["shared"].shape):
            raise ValueError("its outer loop has another shape than its v")
        _refuse_endless("outer loop", array)
    outer = Outer.begin(read["shared"])._replace(anchor=vectors[0], last=vectors[1])
    record, names = outer.numbers, OUTER.names or ()
    if numbers.shape == (OLD_NUMBERS,):
        numbers = np.append(numbers, list(record.item()[OLD_NUMBERS:]))
    if (numbers.dtype, numbers.shape) != (np.float64, (len(names),)):
        raise ValueError("its outer loop does not have the numbers that it needs")
    named = dict(zip(names, numbers, strict=True))
    counts = [named[name] for name in names if OUTER[name].kind == "i"]
    is_sound = all(0.0 <= count <= progress.calls for count in counts)
    # `inner` is infinite before the first outer step.
    is_sound &= all(named[name] >= 0.0 for name in ("inner", "largest", "least"))
    is_sound &= all(LEAST <= named[name] <= 1.0 for name in ("reach", "most"))
    is_sound &= 1.0 <= named["bias"] < MOST and named["first"] > -math.inf
    if not is_sound:
        raise ValueError("the numbers of its outer loop cannot be true")
    for name, number in named.items():
        record[name] = number
    return outer


def _check_v(shared: np.ndarray, average: np.ndarray) -> None:
    if shared.dtype not in (np.float32, np.float64) or shared.ndim == 0:
        raise ValueError("its v is no array of floats")
    if average.dtype != np.float64:
        raise ValueError("its average is no array of floats")
    if average.shape not in ((0, *shared.shape[1:]), shared.shape):
        raise ValueError("its average has another shape than its v")
    _refuse_endless("shared", shared)
    _refuse_endless("average", average)


def _refuse_endless(name: str, array: np.ndarray) -> None:
    if array.dtype.kind not in "biuf":
        raise ValueError(f"its {name} are no numbers")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"its {name} hold NaN or infinity")

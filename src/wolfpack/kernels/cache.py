"""The folder of compiled loops: what Numba compiled, for the next process.

    loops/KEY/NAME-SIGNATURE.bin      a checksum, and one compiled function

KEY is a hash of all that the machine code depends on (`specialise`), SIGNATURE one of
the argument types and the processor. A damaged file is dropped, and its function
compiled again. Where nothing can be written, each process compiles for itself, and
warns once. Loops that were not used for a long time are removed.
"""

import contextlib
import hashlib
import logging
import os
import pickle
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from numba.core import config, serialize
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult

from wolfpack.files.replace import replacing
from wolfpack.kernels import link

# Loops that were used within KEPT_DAYS stay, the latest up to KEPT_BYTES in all.
KEPT_DAYS, KEPT_BYTES = 90, 512 * 2**20
_CHECKSUM = 32

logger = logging.getLogger("wolfpack")


def user_cache() -> Path:
    """Return the folder named by `WOLFPACK_CACHE`, or the user's cache folder."""
    given = os.environ.get("WOLFPACK_CACHE")
    if given:
        return Path(given).absolute()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("wolfpack"))


def loops_folder() -> Path:
    """Return the folder of the compiled loops."""
    return user_cache() / "loops"


class LoopCache(_Cache):
    """Where Numba finds, and leaves, the machine code of one function."""

    def __init__(self, key: str, name: str) -> None:
        self.folder, self.name = loops_folder() / key, name

    @property
    def cache_path(self) -> str:
        """The folder, for Numba's statistics."""
        return str(self.folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function for a signature, or None."""
        path = self._path(sig, target_context)
        payload = read(path)
        if payload is None:
            return None
        try:
            needed, parts = pickle.loads(payload)
            link.provide(needed, target_context)
            found = CompileResult._rebuild(target_context, *parts)
        except Exception as error:
            _drop(path, f"{type(error).__name__}: {error}")
            return None
        return found if tuple(found.signature.args) == tuple(sig) else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function, unless it holds addresses of this process."""
        lifted = any(not part.can_cache for part in data.lifted)
        if lifted or data.library.has_dynamic_globals:
            logger.info("%s depends on a large array, and is not kept.", self.name)
            return
        path = self._path(sig, data.target_context)
        write(path, serialize.dumps((link.needed_by(data.library), link.reduce(data))))

    def _path(self, sig: Any, target_context: Any) -> Path:
        options = [getattr(config, name) for name in ("OPT", "BOUNDSCHECK")]
        where = target_context.codegen().magic_tuple(), options
        text = f"{[(str(one), repr(one)) for one in sig]} {where}"
        short = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        return self.folder / f"{self.name}-{short}.bin"

    def enable(self) -> None:
        """Do nothing: the cache is always enabled."""

    def disable(self) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing: another content has another key, so no file is ever stale."""


def read(path: Path) -> bytes | None:
    """Return what `write` kept; None if the file is missing or damaged."""
    try:
        if not path.is_file():  # reading a pipe would never end
            return None
        content = path.read_bytes()
    except (OSError, MemoryError):
        return None
    checksum, payload = content[:_CHECKSUM], content[_CHECKSUM:]
    if _sum(payload) != checksum:
        _drop(path, "its checksum does not fit")
        return None
    _mark_used(path.parent)
    return payload


def write(path: Path, payload: bytes) -> None:
    """Keep bytes, all of them or none; warn once if the folder cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(_sum(payload))
            file.write(payload)
        _prune_once(path.parents[1])
    except OSError as error:
        _say_once(path.parents[1], error)


def _sum(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=_CHECKSUM).digest()


def _drop(path: Path, why: str) -> None:
    logger.info("%s is damaged (%s) and compiled again.", path.name, why)
    with contextlib.suppress(OSError):  # if it stays, it is found damaged again
        path.unlink(missing_ok=True)


_said: set[str] = set()
_pruned: set[Path] = set()
_used: set[Path] = set()


def _say_once(folder: Path, error: OSError) -> None:
    if "write" not in _said:
        _said.add("write")
        logger.warning(
            "Compiled loops cannot be kept in %s (%s): every process compiles them "
            "anew. Make room there, or name another folder in WOLFPACK_CACHE.",
            folder,
            os.strerror(error.errno) if error.errno else error,
        )


def _mark_used(folder: Path) -> None:
    if folder not in _used:
        _used.add(folder)
        with contextlib.suppress(OSError):  # a folder of another user
            os.utime(folder)


class Kept(NamedTuple):
    """The loops of one module, compiled for one problem, on disk."""

    folder: Path
    used: float  # seconds since 1970
    size: int  # bytes


def kept() -> list[Kept]:
    """Return what is in the folder, last used first."""
    return sorted(_look(loops_folder()), key=lambda one: -one.used)


def clear() -> int:
    """Remove all compiled loops; return how many bytes that were."""
    found = kept()
    for one in found:
        shutil.rmtree(one.folder, ignore_errors=True)
    return sum(one.size for one in found) - sum(one.size for one in kept())


def show(say: Callable[..., None]) -> None:
    """Say where compiled loops are kept, how many, and how large they are."""
    found, folder = kept(), loops_folder()
    if not found:
        say(f"No compiled loops in {folder}.", markup=False)
        return
    size = sum(one.size for one in found) / 1e6
    say(
        f"{len(found)} sets of compiled loops, {size:.1f} MB, in {folder}", markup=False
    )
    for one in found:
        day = time.strftime("%Y-%m-%d", time.localtime(one.used))
        say(f"  {one.folder.name}  last used {day}  {one.size / 1e3:8.0f} kB")
    say(
        f"Unused ones go after {KEPT_DAYS} days, the oldest beyond "
        f"{KEPT_BYTES // 2**20} MB; `wolfpack cache --clear` removes all."
    )


def _look(folder: Path) -> Iterator[Kept]:
    try:
        entries = [entry for entry in os.scandir(folder) if entry.is_dir()]
    except OSError:
        return
    for entry in entries:
        # Only folders of wolfpack: a hash, to which earlier versions added a suffix.
        if re.fullmatch(r"[0-9a-f]{32}(_native|_python)?", entry.name):
            path = Path(entry.path)
            try:
                files = [one for one in path.rglob("*") if one.is_file()]
                size = sum(one.stat().st_size for one in files)
                yield Kept(path, path.stat().st_mtime, size)
            except OSError:  # removed meanwhile
                continue


def _prune_once(folder: Path) -> None:
    """Remove loops unused for KEPT_DAYS, and the oldest of those beyond KEPT_BYTES."""
    if folder in _pruned:
        return
    _pruned.add(folder)
    total, now = 0, time.time()
    for one in sorted(_look(folder), key=lambda one: -one.used):
        total += one.size
        if now - one.used > KEPT_DAYS * 86400 or total > KEPT_BYTES:
            shutil.rmtree(one.folder, ignore_errors=True)

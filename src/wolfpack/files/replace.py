"""Files that are written whole or not at all.

A file is written under a name of its own beside the target, brought to the disk, and
then takes the target's place: neither a full disk nor a second writer leaves half a
file. Where the target is a link, the file behind it is replaced; its mode is kept. What
is no file (a pipe, a device, `/dev/stdout`) has no place to take and is written into.

A part file is named after its target and its owner: the process that writes it, and
where that process's number means something. It is removed once its owner is gone.
"""

import contextlib
import errno
import functools
import hashlib
import io
import os
import platform
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

# A part file begins with the first KEPT letters of its target's name. Where its owner
# cannot be looked up from here, it is removed STALE_SECONDS after its last change.
PART, KEPT, STALE_SECONDS = ".part", 32, 3600.0
MOST_LINKS = 40  # as Linux follows
DESCRIPTORS = "/dev/fd", "/proc/self/fd"
FULL = errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of `path` once it is written.

    Where the writing fails, `path` stays as it was and the new file is removed.
    """
    target = follow(path)
    if isinstance(target, int) or _is_device(target):
        with _open_as_it_is(target) as file:
            yield file
        return
    with _explaining(path), _part_of(target) as part:
        with open(part, "r+b") as file:
            yield file
        put(part, target)
    _remove_stale(target)


def put(source: Path, target: Path) -> None:
    """Let a file that is written take the place of another on the same disk."""
    with open(source, "r+b") as file:
        with contextlib.suppress(FileNotFoundError):
            _keep_mode(file, target.stat())
        os.fsync(file.fileno())
    os.replace(source, target)


def try_to_write(path: str | os.PathLike) -> None:
    """Raise what `replacing` would raise at its begin, and leave `path` as it is."""
    target = follow(path)
    if not isinstance(target, int) and not _is_device(target):
        with _part_of(target):
            pass


def is_stream(path: str | os.PathLike) -> bool:
    """Return whether a path names a device, a pipe or an open file of this process."""
    try:
        target = follow(path)
        return isinstance(target, int) or _is_device(target)
    except OSError:  # a name that is too long, or may not be looked up
        return False


def save_picture(figure: Any, path: str | os.PathLike, **how: Any) -> None:
    """Write a figure of matplotlib as the kind of picture that its name asks for."""
    whole = io.BytesIO()  # Pillow does not notice all errors of a full disk
    figure.savefig(whole, format=Path(path).suffix[1:].lower(), dpi=150, **how)
    with replacing(path) as file:
        file.write(whole.getvalue())


def follow(path: str | os.PathLike) -> Path | int:
    """Return the file behind links, or the number of an open file of this process."""
    path = Path(path)
    own = {name for place in DESCRIPTORS for name in (place, os.path.realpath(place))}
    for _ in range(MOST_LINKS):
        folder = os.path.realpath(path.parent)
        if folder in own and path.name.isdecimal():
            return int(path.name)
        path = Path(folder, path.name)
        if not path.is_symlink():
            return path
        path = path.parent / os.readlink(path)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))


def _is_device(target: Path) -> bool:
    """Return whether this is there, and no file or folder."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


class _Stream(io.BufferedWriter):
    """A file without places to return to, as zip archives would."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise io.UnsupportedOperation("tell")


def _open_as_it_is(target: Path | int) -> BinaryIO:
    if isinstance(target, Path):
        return _Stream(io.FileIO(target, "wb"))
    # A second opening of /dev/stdout would begin at 0 and overwrite what is there.
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    return _Stream(io.FileIO(os.dup(target), "wb"))


@contextlib.contextmanager
def _part_of(target: Path) -> Iterator[Path]:
    """Make an empty part file beside the target; remove it unless it took its place."""
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {target.parent} to write {target.name} into."
        )
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder, not a file.")
    usual = 0o666
    if target.exists():  # raises where the name is too long
        usual = 0o600  # until it has the mode of the target
        if not os.access(target, os.W_OK):
            raise PermissionError(
                errno.EACCES, os.strerror(errno.EACCES), os.fspath(target)
            )
    name = f"{target.name[:KEPT]}.{_here()}-{os.getpid()}-{secrets.token_hex(4)}{PART}"
    part = target.with_name(name)
    try:  # Ctrl-C may come as soon as the file is there
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, usual))
        yield part
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def _keep_mode(file: BinaryIO, old: os.stat_result) -> None:
    """Give a new file the mode and, where that is allowed, the owner of the old one."""
    if hasattr(os, "fchown"):
        for owner in ((-1, old.st_gid), (old.st_uid, -1)):
            with contextlib.suppress(OSError):
                os.fchown(file.fileno(), *owner)
    with contextlib.suppress(OSError):  # some disks know no modes
        os.chmod(file.name, stat.S_IMODE(old.st_mode))


@contextlib.contextmanager
def _explaining(path: str | os.PathLike) -> Iterator[None]:
    """Let errors of a full disk say which file was not written.

    Where writing into a zip archive fails, closing it fails too, for another reason.
    """
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause and getattr(cause, "errno", None) not in FULL:
            cause = cause.__context__
        if not isinstance(cause, OSError):
            raise
        told = OSError(
            f"{os.fspath(path)} cannot be written: {cause.strerror}. What was there "
            "before is as it was."
        )
        told.errno = cause.errno
        raise told from error


def _here() -> str:
    """Return a name of all processes whose numbers mean the same as here."""
    return hashlib.blake2b(_describe_here().encode(), digest_size=4).hexdigest()


def _describe_here() -> str:
    """Return the start of the machine and, of containers, the namespace of numbers.

    Two containers may share a host's name, and two hosts a container's.
    """
    try:
        space = os.stat("/proc/self/ns/pid")
        return f"{platform.node()} {_boot()} {space.st_dev} {space.st_ino}"
    except OSError:
        if sys.platform == "linux":  # without /proc nobody's number can be looked up
            return _token(os.getpid())
        import uuid

        return f"{platform.node()} {uuid.getnode()}"


@functools.cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")


@functools.cache
def _token(pid: int) -> str:
    return f"{pid} {secrets.token_hex(16)}"


def _remove_stale(path: Path) -> None:
    """Remove what a killed process left half written."""
    name, here = re.escape(path.name[:KEPT]), _here()
    form = rf"{name}\.([0-9a-f]{{8}})-(\d+)-[0-9a-f]{{8}}{re.escape(PART)}"
    with contextlib.suppress(OSError), os.scandir(path.parent) as entries:
        now = path.stat().st_mtime  # by the clock of the disk, which may be elsewhere
        for entry in entries:
            found = re.fullmatch(form, entry.name)
            if found is None:
                continue
            with contextlib.suppress(OSError):
                old = now - entry.stat().st_mtime > STALE_SECONDS
                if old or (found[1] == here and not _is_alive(int(found[2]))):
                    os.unlink(entry.path)


def _is_alive(pid: int) -> bool:
    """Return whether a process of this machine is there."""
    if os.name != "posix":  # on Windows `os.kill` would end the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # it belongs to another user
        pass
    return True

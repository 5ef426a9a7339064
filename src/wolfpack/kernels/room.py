"""How much memory this process can have, and a sentence where that is not enough.

Linux promises memory that it does not have and kills a process that uses it, so a size
that comes from a file is compared with what there is before anything is made.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None

# Where each version of control groups keeps limits, and what is used of them.
GROUPS = (
    ("/sys/fs/cgroup", "memory.max", "memory.current"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
)


def available() -> int | None:
    """Return how many bytes can still be had, or None where nothing tells."""
    found: list[int] = []
    for look in (_of_machine, _of_groups, _of_process):
        with contextlib.suppress(OSError, ValueError, LookupError):
            found += look()
    return max(min(found), 0) if found else None


def check(size: int, what: str, advice: str) -> None:
    """Raise MemoryError where `size` bytes are more than there are."""
    there = available()
    if there is not None and size > there:
        raise MemoryError(
            f"{what} would take {in_words(size)} of memory, and {in_words(there)} are "
            f"free. {advice}"
        )


def in_words(size: float) -> str:
    """Return a number of bytes for a person.

    Examples
    --------
    >>> in_words(5e7), in_words(1.7e10)
    ('50 MB', '17 GB')
    """
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"


def _of_machine() -> Iterator[int]:
    info = Path("/proc/meminfo")
    if info.exists():
        lines = dict(line.split(":") for line in info.read_text().splitlines())
        yield int(lines["MemAvailable"].split()[0]) * 1024
    elif hasattr(os, "sysconf"):
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _of_groups() -> Iterator[int]:
    """Yield what is left in each control group that this process is in."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = [line.split(":", 2) for line in lines]
    names = {path for _, kinds, path in own if kinds in ("", "memory")}
    for root, limit, used in GROUPS:
        for name in names:
            folder = Path(root, name.lstrip("/"))
            for place in (folder, *folder.parents):
                if place.is_relative_to(root) and (place / limit).is_file():
                    yield from _left(place, limit, used)


def _left(place: Path, limit: str, used: str) -> Iterator[int]:
    most = (place / limit).read_text().strip()
    if most == "max":
        return
    # Pages of files that were not used for a while are given back first.
    lines = (place / "memory.stat").read_text().splitlines()
    stat = dict(line.split() for line in lines)
    cached = int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))
    yield int(most) - int((place / used).read_text()) + cached


def _of_process() -> Iterator[int]:
    """Yield what `ulimit -v` leaves."""
    if resource is None:
        return
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most != resource.RLIM_INFINITY:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        yield most - pages * os.sysconf("SC_PAGE_SIZE")

"""A temporary folder for the checkpoint of a run, which outlives no second run.

Its name says which process made it. A process that is killed cannot remove it, so each
run first removes the folders of processes that are gone.
"""

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

from wolfpack.files.replace import _here, _is_alive

NAME = re.compile(r"wolfpack-ray-([0-9a-f]{8})-(\d+)-\w+")


def make() -> tempfile.TemporaryDirectory:
    """Make a folder of this process, and remove those of processes that are gone."""
    _remove_stale(Path(tempfile.gettempdir()))
    name = f"wolfpack-ray-{_here()}-{os.getpid()}-"
    return tempfile.TemporaryDirectory(prefix=name, ignore_cleanup_errors=True)


def _remove_stale(place: Path) -> None:
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            made = NAME.fullmatch(entry.name)
            if made and made[1] == _here() and not _is_alive(int(made[2])):
                with contextlib.suppress(OSError):
                    _remove_own(entry)


def _remove_own(entry: os.DirEntry) -> None:
    """Remove a folder, and no link, if it belongs to this user."""
    is_folder = entry.is_dir(follow_symlinks=False)
    owner = entry.stat(follow_symlinks=False).st_uid
    if is_folder and (not hasattr(os, "getuid") or owner == os.getuid()):
        shutil.rmtree(entry.path, ignore_errors=True)

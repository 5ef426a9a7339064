"""Options of the command line that are read, or refused, before any work begins."""

from enum import StrEnum
from pathlib import Path

from wolfpack.cli.console import fail
from wolfpack.files.replace import follow, try_to_write
from wolfpack.update.steps import RULES


class Engine(StrEnum):
    """What runs the updates."""

    serial = "serial"
    threads = "threads"
    sync = "sync"
    ray = "ray"


class Mode(StrEnum):
    """How threads put their work together."""

    merge = "merge"
    server = "server"
    lock_free = "lock-free"


class Sampling(StrEnum):
    """How blocks are chosen."""

    uniform = "uniform"
    permutation = "permutation"
    gap = "gap"
    cyclic = "cyclic"


class Decimal(StrEnum):
    """What stands before the fraction of a number."""

    comma = "comma"
    point = "point"


def read_step(text: str) -> str | float | None:
    """Read the name of a rule, or a number."""
    if not text or text in RULES:
        return text or None
    try:
        return float(text)
    except ValueError:
        rules = ", ".join(RULES)
        fail(f"--step must be {rules} or a number, not {text!r}.")


def read_folds(text: str) -> list[int] | None:
    """Read "0", "1-9" or "0,3,5-7"."""
    if not text:
        return None
    folds: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            low, high = int(first), int(last if dash else first)
            if not 0 <= low <= high <= 9:
                raise ValueError
            folds += range(low, high + 1)
    except ValueError:
        fail(f"--folds must be out of 0 to 9, as in 0 or 1-9 or 0,3; not {text!r}.")
    return folds


def check_targets(save: Path | None, plot: Path | None) -> None:
    """Find out before the training, not after it, that a file cannot be written."""
    if plot is not None:
        from matplotlib.backend_bases import FigureCanvasBase

        check_target("--plot", plot, plot)
        kinds = FigureCanvasBase.get_supported_filetypes()
        if plot.suffix[1:].lower() not in kinds:
            fail(f"--plot must end in .png, .pdf or .svg, not {plot.name!r}.")
    if save is not None:
        from wolfpack.files.npz import with_npz

        check_target("--save", save, with_npz(save) if save.name else save)


def check_target(option: str, given: Path, path: Path) -> None:
    """Fail where an option names a file that cannot be written."""
    try:
        for place in (given, path):
            is_open = isinstance(follow(place), int) or place.is_char_device()
            if place.exists() and not place.is_file() and not is_open:
                what = "a folder" if place.is_dir() else "no file"
                fail(f"{option} must name a file, but {place} is {what}.")
        if not path.parent.is_dir():
            fail(f"there is no folder {path.parent} to write {path.name} into.")
        try_to_write(path)
    except OSError as error:
        fail(f"{option}: {path} cannot be written: {error.strerror}.")

"""Files of arrays that others may have touched: read with care.

An .npz file is read entry by entry: only those that are asked for, never a pickle, and
only after the sizes that it declares have been compared with the size of the file.
"""

import math
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from wolfpack.files.replace import is_stream, replacing

# Entries may unpack to FREE_BYTES in all, or to MOST_RATIO times the file if that is
# more.
FREE_BYTES, MOST_RATIO = 2**28, 100
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class FileError(ValueError):
    """What is wrong with a file: a sentence that lacks its subject, the file's name."""


def write_npz(
    path: str | os.PathLike, arrays: dict[str, Any], *, packed: bool = False
) -> None:
    """Write arrays into an .npz file, all at once or not at all."""
    write: Any = np.savez_compressed if packed else np.savez
    with replacing(path) as file:
        write(file, **arrays)


def read_npz(path: str | os.PathLike, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Return those of the arrays `names` that an .npz file has.

    Raises
    ------
    FileNotFoundError
    FileError
        When it is damaged, holds objects, or would unpack to far more than its size.
    """
    try:
        with open(path, "rb") as handle:
            if not zipfile.is_zipfile(handle):
                raise FileError("is no .npz file, or is cut short")
            with zipfile.ZipFile(handle) as archive:
                return _read_entries(archive, names, os.fstat(handle.fileno()).st_size)
    except (FileNotFoundError, FileError):
        raise
    except Exception as error:  # zipfile and numpy raise errors of many kinds
        raise FileError(f"cannot be read ({one_line(error)})") from error


def _read_entries(
    archive: zipfile.ZipFile, names: Iterable[str], size: int
) -> dict[str, np.ndarray]:
    there = {info.filename: info for info in archive.infolist()}
    found = {name: there[f"{name}.npy"] for name in names if f"{name}.npy" in there}
    declared = sum(info.file_size for info in found.values())
    if declared > max(FREE_BYTES, MOST_RATIO * size):
        raise ValueError(
            f"it declares {declared / 1e6:.0f} MB in a file of {size / 1e6:.3g} MB; "
            "if you trust it, write it again without compression: np.savez"
        )
    return {name: _read_array(archive, found[name]) for name in found}


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    if info.compress_type not in _METHODS:
        raise ValueError(f"{info.filename} is compressed by an unknown method")
    with archive.open(info) as member:
        source: Any = member
        read_header = _HEADERS.get(npy.read_magic(source))
        if read_header is None:
            raise ValueError(f"{info.filename} is of an unknown version")
        shape, fortran, dtype = read_header(source)
        if dtype.kind not in "biufSU" or dtype.itemsize == 0:
            raise ValueError(f"{info.filename} holds {dtype}, not numbers or text")
        n_bytes = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or n_bytes != info.file_size - member.tell():
            raise ValueError(f"{info.filename} is not as long as its header says")
        raw = np.empty(n_bytes, np.uint8)
        view, at = raw.data, 0
        while at < n_bytes:
            count = source.readinto(view[at : at + 2**20])
            if not count:
                raise ValueError(f"{info.filename} is cut short")
            at += count
        member.read(1)  # at the end zipfile compares the checksum
    array = (raw != 0) if dtype.kind == "b" else raw.view(dtype)
    array = array.astype(dtype.newbyteorder("="), copy=False)
    if dtype.kind == "U":
        _check_letters(array.view(np.uint32), info.filename)
    array = array.reshape(shape, order="F" if fortran else "C")
    return np.ascontiguousarray(array).reshape(shape)


def _check_letters(codes: np.ndarray, name: str) -> None:
    half = (codes >= 0xD800) & (codes < 0xE000)  # halves of a pair cannot be printed
    if half.any() or (codes > 0x10FFFF).any():
        raise ValueError(f"{name} holds what is no text")


def read_text(array: np.ndarray | None) -> str:
    """Return the text that an entry of one string holds; "" where there is none."""
    if array is None or array.shape != () or array.dtype.kind != "U":
        return ""
    return str(array)


def one_line(error: Exception) -> str:
    """Return what an error says, in a line without a full stop."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:300].rstrip(".")


def with_npz(path: str | os.PathLike) -> Path:
    """Append .npz unless it is there; "alpha0.01" has a dot, but no known suffix."""
    path = Path(path)
    if path.suffix == ".npz" or is_stream(path):  # as /dev/stdout
        return path
    return path.with_name(path.name + ".npz")

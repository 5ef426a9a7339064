"""Disks that are full, and files that are damaged."""

import contextlib
import ctypes
import errno
import os
import resource
import signal

import numpy as np

NEW_NAMESPACE, PRIVATE = 0x20000, 0x4000 | 0x40000
BYTES = 400_000


def mount_small(folder):
    """Mount a small disk that only this process and its children see.

    Returns whether that worked: it takes root, and Linux. The mount goes with the last
    of these processes. Call it before any thread is started.
    """
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        os.makedirs(folder, exist_ok=True)
        size = f"size={BYTES}".encode()
        here = os.fsencode(folder)
        return (
            libc.unshare(NEW_NAMESPACE) == 0
            and libc.mount(b"none", b"/", None, PRIVATE, None) == 0
            and libc.mount(b"tmpfs", here, b"tmpfs", 0, size) == 0
        )
    except (OSError, AttributeError):
        return False


@contextlib.contextmanager
def filled(folder):
    """Fill the small disk to the last byte, and make room again afterwards."""
    path = os.path.join(folder, "filler")
    with open(path, "wb", buffering=0) as file:
        for size in (4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)
    try:
        yield
    finally:
        os.remove(path)


@contextlib.contextmanager
def limited(most):
    """Let no file of this process grow beyond `most` bytes: a quota."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, old)


def is_full(error):
    """Whether an error says that there is no room."""
    return error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


def damage(path, rng):
    """Do to a file what power cuts and bad disks do; return what was done."""
    whole = path.read_bytes()
    size = len(whole)
    kind = str(rng.choice(["empty", "cut", "zeros", "noise", "tail of zeros"]))
    at = int(rng.integers(size)) if size else 0
    changed = {
        "empty": b"",
        "cut": whole[:at],
        "zeros": bytes(size),
        "noise": rng.bytes(size),
        "tail of zeros": whole[:at] + bytes(size - at),
    }[kind]
    path.write_bytes(changed)
    return f"{kind} at {at} of {size}"


def flip(path, rng):
    """Flip a few bits; return where."""
    whole = bytearray(path.read_bytes())
    places = rng.integers(len(whole), size=int(rng.integers(1, 4)))
    for at in places:
        whole[at] ^= 1 << int(rng.integers(8))
    path.write_bytes(whole)
    return f"bits flipped at {places.tolist()}"


def edit(path, rng):
    """Change one number of one array, and write a sound .npz file again."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    some = [k for k in arrays if arrays[k].size and arrays[k].dtype.kind in "iuf"]
    name = some[rng.integers(len(some))]
    array = arrays[name] = arrays[name].copy()
    values = [0, 1, -1, 255, 2**31, -(2**62), 2**62, 1e300, np.nan, np.inf, 0.5]
    value = values[rng.integers(len(values))]
    at = int(rng.integers(array.size))
    with np.errstate(all="ignore"):
        array.flat[at] = np.array(value).astype(array.dtype)
    np.savez(path, **arrays)
    return f"{name}.flat[{at}] = {value}"

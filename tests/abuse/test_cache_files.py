"""What a power cut, a full disk or a busy neighbour leaves in the folder of loops."""

import logging
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numba
import pytest
import tiny
from typer.testing import CliRunner

from wolfpack.cli import app
from wolfpack.kernels import cache as _cache
from wolfpack.kernels import specialise as _compile


@numba.njit
def score(data, shared, i, atom):
    return 4.5


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WOLFPACK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(_cache, "_said", set())
    monkeypatch.setattr(_cache, "_pruned", set())
    return tmp_path / "cache" / "loops"


def ask_anew():
    """Call it with nothing left in memory; return answer and cache hits."""
    _compile._recent.clear()
    _compile._alive.clear()
    answer, loops = tiny.ask(score)
    return answer, sum(loops.call.stats.cache_hits.values())


def flip(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 16]) + content[middle + 1 :]


DAMAGES = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "one byte short": lambda content: content[:-1],
    "one bit": flip,
    "noise": lambda content: os.urandom(len(content)),
    "zeros": lambda content: bytes(len(content)),
    "longer": lambda content: content + b"x",
    "no function": lambda content: _cache._sum(b"(") + b"(",
    "another object": lambda content: _cache._sum(b"N.") + b"N.",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_compiled_again(folder, damage):
    assert ask_anew() == (4.5, 0)
    assert ask_anew() == (4.5, 1)
    (path,) = folder.glob("*/*.bin")
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert ask_anew() == (4.5, 0)
    assert ask_anew() == (4.5, 1)


def test_a_folder_in_place_of_a_file_is_no_obstacle(folder):
    ask_anew()
    (path,) = folder.glob("*/*.bin")
    path.unlink()
    path.mkdir()
    assert ask_anew() == (4.5, 0)


@pytest.mark.parametrize("what", ["file", "closed"])
def test_a_cache_that_cannot_be_written_costs_one_warning(folder, caplog, what):
    folder.parent.mkdir()
    if what == "file":
        folder.write_text("not a folder")
    elif os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    else:
        folder.parent.chmod(0o500)
    with caplog.at_level(logging.WARNING, "wolfpack"):
        assert ask_anew() == (4.5, 0)
        assert ask_anew() == (4.5, 0)
    (record,) = caplog.records
    assert "WOLFPACK_CACHE" in record.getMessage()


FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
sys.path.insert(0, {here!r})
import test_cache_files as t
print(t.ask_anew()[0], t.ask_anew()[0])
"""


def test_a_full_disk_leaves_nothing_behind(folder):
    assert resource.RLIMIT_FSIZE is not None
    source = str(Path(_compile.__file__).parents[2])
    environment = os.environ | {"WOLFPACK_CACHE": str(folder.parent)}
    done = subprocess.run(
        [sys.executable, "-c", FULL.format(here=str(Path(__file__).parent))],
        env=environment | {"PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["4.5", "4.5"], done.stderr
    assert done.stderr.count("cannot be kept") == 1
    assert not [path for path in folder.rglob("*") if path.is_file()]


def test_what_is_old_or_too_much_goes(folder, monkeypatch):
    now = time.time()
    ages = {"a" * 32: 1, "b" * 32: 2, "c" * 32: 3, "d" * 32: 200}
    for name, days in ages.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "loop.bin").write_bytes(bytes(1000))
        os.utime(folder / name, (now - days * 86400,) * 2)
    (folder / "of somebody else").mkdir()
    monkeypatch.setattr(_cache, "KEPT_BYTES", 2500)
    _cache._prune_once(folder)
    left = {path.name for path in folder.iterdir()}
    assert left == {"a" * 32, "b" * 32, "of somebody else"}


def test_the_cache_is_listed_and_cleared(folder):
    def command(*more):
        return CliRunner().invoke(app, ["cache", *more])

    assert f"No compiled loops in {folder}" in command().stdout
    ask_anew()
    (one,) = _cache.kept()
    assert one.size > 1000
    listed = command().stdout
    assert "1 sets of compiled loops" in listed
    assert one.folder.name in listed
    done = command("--clear")
    assert done.exit_code == 0
    assert f"Removed {one.size / 1e6:.1f} MB" in done.stdout
    assert _cache.kept() == []
    assert ask_anew() == (4.5, 0)

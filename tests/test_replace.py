"""Files are written whole or not at all, whoever writes them and wherever they lie."""

import contextlib
import errno
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from limits import HANG_SECONDS
from matplotlib.figure import Figure
from typer.testing import CliRunner

import wolfpack
from wolfpack.cli import app, changes, jobs
from wolfpack.files import replace
from wolfpack.files.npz import with_npz, write_npz
from wolfpack.files.replace import put, replacing, save_picture

SOURCES = Path(wolfpack.__file__).parent
EXPERIMENTS = Path(__file__).parents[1] / "experiments"
OLD = b"precious: the result of a long run"


@contextlib.contextmanager
def room_for(most):
    """Let no file of this process grow beyond `most` bytes, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, old)


def picture():
    figure = Figure()
    figure.add_subplot().plot([1, 2, 3])
    return figure


def write_text(path):
    with replacing(path) as file:
        file.write(b"x" * 5000)


NOISE = np.random.default_rng(0).random(500)
WRITERS = {
    "text": write_text,
    "numbers.npz": lambda path: write_npz(path, {"x": NOISE}),
    "packed.npz": lambda path: write_npz(path, {"x": NOISE}, packed=True),
    **{
        f"picture.{kind}": lambda path: save_picture(picture(), path)
        for kind in ("png", "svg", "pdf", "eps", "jpg")
    },
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("most", [0, 700])
def test_a_full_disk_leaves_the_old_file(tmp_path, name, is_new, most):
    path = tmp_path / name
    if not is_new:
        path.write_bytes(OLD)
    WRITERS[name](tmp_path / f"first.{name}")  # matplotlib keeps files of its own
    (tmp_path / f"first.{name}").unlink()
    with room_for(most), pytest.raises(OSError, match=r"cannot be written: ") as caught:
        WRITERS[name](path)
    assert caught.value.errno == errno.EFBIG
    assert [one.name for one in tmp_path.iterdir()] == ([] if is_new else [name])
    assert is_new or path.read_bytes() == OLD
    WRITERS[name](path)
    assert path.stat().st_size > 700


def fill_up(monkeypatch, where, name):
    """Let the disk be full while the command keeps what it found."""
    keep = getattr(where, name)

    def in_no_room(*arguments):
        with room_for(300):
            return keep(*arguments)

    monkeypatch.setattr(where, name, in_no_room)


@pytest.mark.parametrize(
    "command",
    [
        "fit piecewise --tol .1 --save old.npz",
        "fit piecewise --tol .1 --plot old.png",
        "fit dates --tol .1 --save old.npz",
        "fit dates --tol .1 --plot old.svg",
        "fit rows.csv --tol .1 --report old.html",
        "changes rows.csv --save old.csv",
        "changes rows.csv --plot old.png",
    ],
)
def test_a_command_that_cannot_keep_its_answer(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{k},{k * k % 7},{k // 20}\n" for k in range(60))
    (tmp_path / "rows.csv").write_text("a,b,label\n" + rows)
    old = tmp_path / command.split()[-1]
    old.write_bytes(OLD)
    fill_up(monkeypatch, jobs.Job, "keep")
    fill_up(monkeypatch, changes, "_keep")
    found = CliRunner().invoke(app, command.split())
    assert found.exit_code == 1
    assert f"{old.name} cannot be written: File too large." in found.stderr
    assert found.stderr.count("\n") == 1
    assert "CONVERGED" in found.stdout
    assert old.read_bytes() == OLD
    assert {one.name for one in tmp_path.iterdir()} == {"rows.csv", old.name}


def test_nothing_is_written_in_another_way():
    """Only `replace` opens files to write, and only `npz` gives them arrays."""
    ways = r"savez|savefig\(|\.to_csv\(|write_(text|bytes)\(|np\.save\(|os\.replace\("
    ways += r"|open\([^)]*[\"'][wax]b?\+?[\"']"
    alone = {"replace.py", "npz.py"}
    paths = [*SOURCES.rglob("*.py"), *EXPERIMENTS.glob("*.py")]
    found = [
        f"{path.name}: {line.strip()}"
        for path in paths
        if path.name not in alone
        for line in path.read_text().splitlines()
        if re.search(ways, line)
    ]
    assert found == []


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o666])
def test_the_mode_of_a_file_is_kept(tmp_path, mode):
    path = tmp_path / "old.npz"
    path.write_bytes(OLD)
    path.chmod(mode)
    with replacing(path) as file:
        part = next(tmp_path.glob("*.part"))
        assert stat.S_IMODE(part.stat().st_mode) & ~mode == 0  # never more open
        file.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    source = tmp_path / "made elsewhere"
    source.write_bytes(b"newer")
    put(source, path)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"newer", mode)


@pytest.mark.parametrize("exists", [True, False])
def test_the_file_behind_links_is_replaced(tmp_path, exists):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "target", tmp_path / "link"
    if exists:
        target.write_bytes(OLD)
    (tmp_path / "far" / "near").symlink_to("target")
    link.symlink_to("far/near")
    replace.try_to_write(link)
    assert target.exists() is exists
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert not [*tmp_path.rglob("*.part")]


def test_links_in_a_circle(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"), replacing(tmp_path / "a"):
        pass


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="has no /dev/null")
def test_a_device_stays_one(tmp_path):
    link = tmp_path / "nothing.npz"
    link.symlink_to("/dev/null")
    for path in (Path("/dev/null"), link):
        write_npz(path, {"x": NOISE})
        save_picture(picture(), tmp_path / "a.png")
        assert path.is_char_device()
    assert with_npz("/dev/null") == Path("/dev/null")
    assert not [*Path("/dev").glob("null.*")]


def test_a_pipe_is_written_into(tmp_path):
    path = tmp_path / "pipe.npz"
    os.mkfifo(path)
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as reader:
        write_npz(path, {"x": NOISE})
        text = reader.stdout.read()
    (tmp_path / "copy.npz").write_bytes(text)
    with np.load(tmp_path / "copy.npz") as copy:
        assert (copy["x"] == NOISE).all()
    assert path.is_fifo()


PRINT = """
from wolfpack.files.replace import replacing
print("before")
with replacing("{path}") as file:
    file.write(b"kept\\n")
print("after")
"""


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_stdout_is_written_into_where_it_stands(tmp_path, path, kind):
    if not os.path.exists(path):
        pytest.skip(f"has no {path}")
    command = [sys.executable, "-c", PRINT.format(path=path)]
    log = tmp_path / "log"
    log.write_text("old\n")
    with log.open("a") as file:
        out = file if kind == "file" else subprocess.PIPE
        done = subprocess.run(command, stdout=out, text=True, check=True)
    text = "old\nbefore\nkept\nafter\n"
    assert log.read_text() + (done.stdout or "") == text
    assert [one.name for one in tmp_path.iterdir()] == ["log"]


def leave_parts(folder, **owners):
    paths = {key: folder / f"run.npz.{name}.part" for key, name in owners.items()}
    for path in paths.values():
        path.write_bytes(b"half")
    return paths


def gone():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_parts_of_the_dead_are_removed(tmp_path):
    """At once where the process is gone, an hour later where that cannot be told."""
    pid, here, there = gone(), replace._here(), "0" * 8
    paths = leave_parts(
        tmp_path,
        dead=f"{here}-{pid}-{'a' * 8}",
        alive=f"{here}-{os.getpid()}-{'a' * 8}",
        elsewhere=f"{there}-{pid}-{'a' * 8}",
        old=f"{there}-{pid}-{'b' * 8}",
        other="notes",
    )
    os.utime(paths["old"], (time.time() - 4000,) * 2)
    with replacing(tmp_path / "run.npz") as file:
        file.write(b"whole")
    left = {key for key, path in paths.items() if path.exists()}
    assert left == {"alive", "elsewhere", "other"}


@pytest.mark.parametrize("other", ["boot", "namespace"])
def test_a_number_from_elsewhere_means_nothing(tmp_path, monkeypatch, other):
    """Another start of the machine, or a container, has processes of its own."""
    pid = gone()
    with monkeypatch.context() as there:
        if other == "boot":
            there.setattr(replace, "_boot", lambda: "another start")
        else:
            there.setattr(replace.os, "stat", lambda _: os.lstat(tmp_path))
        name = replace._here()
    assert name != replace._here()
    paths = leave_parts(tmp_path, a=f"{name}-{pid}-{'a' * 8}")
    with replacing(tmp_path / "run.npz") as file:
        file.write(b"whole")
    assert paths["a"].exists()


WAIT = """
import sys
from wolfpack.files.replace import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"A")
    file.flush()
    print("writing", flush=True)
    sys.stdin.readline()
"""


def test_containers_leave_each_others_parts(tmp_path):
    """Process numbers of one container mean nothing in another."""
    unshare = [shutil.which("unshare") or "", "--pid", "--fork", "--mount-proc"]
    if not unshare[0] or subprocess.run([*unshare, "true"], check=False).returncode:
        pytest.skip("takes root, and Linux")
    command = [sys.executable, "-c", WAIT, str(tmp_path / "run.npz")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as first:
        assert first.stdout.readline() == "writing\n"
        second = subprocess.run(
            [*unshare, *command], input="\n", text=True, capture_output=True,
            timeout=HANG_SECONDS, check=False,
        )  # fmt: skip
        assert second.returncode == 0, second.stderr
        assert len([*tmp_path.glob("*.part")]) == 1
        first.communicate("\n")
    assert first.returncode == 0
    assert [one.name for one in tmp_path.iterdir()] == ["run.npz"]


def test_an_error_of_the_writer_keeps_its_words(tmp_path):
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "a") as file:
        file.write(bytes(1 // 0))
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "a"):
        open(tmp_path / "nosuch").close()
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError), replacing(tmp_path / "folder"):
        pass


def test_ctrl_c_when_the_part_file_is_made(tmp_path, monkeypatch):
    close = os.close

    def press(number):
        close(number)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "close", press)
    with pytest.raises(KeyboardInterrupt):
        write_text(tmp_path / "a")
    assert not os.listdir(tmp_path)

"""The children of `soak.py`: started when needed, watched, and buried."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import soak_disk as disk
from played import children, is_alive
from soak_path import TESTS

END_SECONDS = 60.0  # in which a child that has nothing to do must end
GONE_SECONDS = 30.0  # in which all below a child must be gone after its end


class Crash(Exception):
    """A child died by itself."""


class Hang(Exception):
    """A child did not answer in time."""


class Child:
    """One process that plays injections."""

    def __init__(self, scratch, lie, environment=None):
        self.scratch, self.below = Path(scratch), {}
        number = len([*self.scratch.glob("log-*")])
        self.log = self.scratch / f"log-{number}"
        temporary = self.scratch / f"tmp-{number}"
        temporary.mkdir()
        self.temporary = temporary
        command = [
            sys.executable,
            str(TESTS / "abuse" / "soak_child.py"),
            str(scratch),
            lie,
        ]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                env=os.environ | {"TMPDIR": str(temporary)} | (environment or {}),
                start_new_session=True,
            )  # fmt: skip

    def play(self, plan, folder, phase, limit):
        """Have an injection played; return the answer."""
        job = {"plan": [*plan], "folder": str(folder), "phase": phase}
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self._died()
        line, end = b"", time.monotonic() + limit
        out = self.process.stdout
        while not line.endswith(b"\n"):
            self.below |= children(self.process.pid)
            wait = min(0.5, end - time.monotonic())
            if wait <= 0:
                self._dump()
                raise Hang(f"no answer in {limit:.0f} s\n{self.last_words()}")
            if select.select([out], [], [], wait)[0]:
                more = os.read(out.fileno(), 2**16)
                if not more:
                    return self._died()
                line += more
        return json.loads(line)

    def _died(self):
        code = self.process.wait()
        raise Crash(f"exit code {code}\n{self.last_words()}")

    def _dump(self):
        """Have all stacks written to the log, then kill it."""
        self.process.send_signal(signal.SIGUSR2)
        time.sleep(2.0)
        self.bury()

    def bury(self):
        """Kill it, with all below it."""
        below = self.below | children(self.process.pid)
        self.process.kill()
        self.process.wait()
        for pid in filter(is_alive, below):
            os.kill(pid, signal.SIGKILL)

    def last_words(self):
        """Return the end of its log."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-60:])

    def end(self):
        """Let it end; return what it leaves behind: processes and files."""
        self.below |= children(self.process.pid)
        self.process.stdin.close()
        try:
            code = self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._dump()
            return [f"it did not end in {END_SECONDS:.0f} s\n{self.last_words()}"], []
        left = [] if code == 0 else [f"exit code {code}\n{self.last_words()}"]
        end = time.monotonic() + GONE_SECONDS
        while names := self.leftover():
            if time.monotonic() > end:
                left += names
                self.bury()
                break
            time.sleep(0.1)
        return left, [path.name for path in self.temporary.glob("wolfpack-*")]

    def leftover(self):
        """Return the names of those below it that live on."""
        alive = [name for pid, name in self.below.items() if is_alive(pid)]
        return [name.replace("\0", " ") for name in alive]


def damaged_cache(plan, scratch, fill, rng):
    """Return a cache of compiled loops with damaged files, and what was done to them.

    `fill(folder)` compiles into an empty one; that is done once a kind, and kept.
    """
    folder = Path(scratch) / f"cache-{plan.engine}-{plan.problem}"
    kept = folder.with_name("kept-" + folder.name)
    if not kept.exists():
        fill(folder)
        shutil.copytree(folder, kept)  # with the dates, which count
    shutil.rmtree(folder)
    shutil.copytree(kept, folder)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    count = int(rng.choice([1, 2, len(files)]))
    done = []
    for k in rng.permutation(len(files))[:count]:
        times = files[k].stat()
        do = disk.flip if times.st_size and rng.random() < 0.3 else disk.damage
        done.append(f"{files[k].name}: {do(files[k], rng)}")
        os.utime(files[k], ns=(times.st_atime_ns, times.st_mtime_ns))
    return folder, "; ".join(done[:4])

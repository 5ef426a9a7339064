"""The soak itself: it finds nothing wrong, and notices what is."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from limits import HANG_SECONDS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks in /proc"),
]

SOAK = Path(__file__).with_name("soak.py")
SLOW = ("--seconds", "3", "--faults", "slow", "--engines", "serial,batch")


def soak(*options):
    command = [sys.executable, str(SOAK), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS)


def test_twenty_seconds_of_faults():
    done = soak("--seconds", "20", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    count, rest = re.search(r"(\d+) injections in \d+ s (.*)", done.stdout).groups()
    assert int(count) > 0
    expected = "0 wrong, 0 hangs, 0 crashes, 0 leftover processes, 0 leftover files"
    assert rest == f"with seed 1: {expected}"


@pytest.mark.parametrize(
    ("lie", "sentence"),
    [
        ("v", "v differs from v0 . A x by"),
        ("gap", "is above the optimum"),
        ("hang", "hang: .*no answer in 40 s(.|\n)*in cheat"),
        ("crash", "crash: .*exit code -11"),
        ("leave", "these are left: .*sleep 600(.|\n)*1 leftover processes"),
    ],
)
def test_a_lie_is_noticed(lie, sentence):
    limit = ("--limit", "40") if lie == "hang" else ()
    done = soak(*SLOW, "--lie", lie, *limit)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(sentence, done.stdout), done.stdout
    again = r'seed (\d+-\d+); again: make soak ARGS="--only (\d+-\d+)"'
    first, second = re.search(again, done.stdout).groups()
    assert first == second


def test_one_injection_is_played_again():
    done = soak("--only", "0-10", "--verbose")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0-10  " in done.stdout
    assert "1 injections" in done.stdout

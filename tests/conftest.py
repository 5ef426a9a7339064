import os
import time
from pathlib import Path

import pytest

os.environ["MPLBACKEND"] = "Agg"

# Modules that take longest begin first, so that both processes end at about the same
# time. Those that start a Ray of several processes do so one after the other.
FIRST = ["test_engines", "test_problem", "test_public", "test_stale_code", "test_chain"]


def pytest_configure(config):
    """Say what a mark of pytest-xdist means where that is not installed."""
    config.addinivalue_line("markers", "xdist_group(name): runs in one process")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items):
    """Keep the tests of a module together, and those of all modules that start Ray."""
    for item in items:
        group = item.path.stem
        if "ray" in group.split("_"):
            group = "ray"
        item.add_marker(pytest.mark.xdist_group(group))
    ranks = {name: rank for rank, name in enumerate(["ray", *FIRST])}

    def rank(item):
        return ranks.get(item.get_closest_marker("xdist_group").args[0], len(ranks))

    items.sort(key=rank)


@pytest.fixture(scope="session")
def data_home():
    """The folder of data sets: WOLFPACK_DATA, else the one beside the repository."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("WOLFPACK_DATA") or beside)
    if not folder.is_dir():
        pytest.skip(f"needs the data sets: {folder} is no folder, set WOLFPACK_DATA")
    return folder


class Clock:
    """The clock of this process, but a million seconds ahead once `is_late` says so."""

    def __init__(self, real):
        self.real, self.looks, self.is_late = real, 0, lambda: False

    def __call__(self):
        self.looks += 1
        return self.real() + (1e6 if self.is_late() else 0.0)


@pytest.fixture
def clock(monkeypatch):
    """A clock that lets a time limit pass at an event, however fast the machine is."""
    clock = Clock(time.perf_counter)
    monkeypatch.setattr(time, "perf_counter", clock)
    return clock

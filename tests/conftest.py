import os
import time
from pathlib import Path

import pytest

os.environ["MPLBACKEND"] = "Agg"
# Ray's processes would come last beside busy programs, and their limits would pass.
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ["WOLFPACK_QUIET"] = "1"  # what is printed must not depend on the cache

# Groups of tests that take longest, so that two processes end at about the same time.
FIRST = ["ray", "test_engines", "test_problem", "test_reproduce", "test_public"]


def group_of(nodeid):
    """Return which tests stay in one process: those of a module, and all of Ray.

    Tests of a module share what takes long to make, and clusters start one by one.
    """
    path, _, name = nodeid.partition("::")
    module = Path(path).stem
    return "ray" if "ray" in module.split("_") or "-ray-" in name else module


def pytest_collection_modifyitems(items):
    """Begin with the groups that take longest."""
    ranks = {name: rank for rank, name in enumerate(FIRST)}
    items.sort(key=lambda item: ranks.get(group_of(item.nodeid), len(ranks)))


@pytest.hookimpl(optionalhook=True)  # where pytest-xdist is installed
def pytest_xdist_make_scheduler(config, log):
    """Give the groups to the processes, in the order of the tests."""
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group_of(nodeid)

    return ByGroup(config, log)


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

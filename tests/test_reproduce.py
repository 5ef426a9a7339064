"""`wolfpack reproduce`: every figure is measured, judged, drawn and in the report."""

import base64
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib.image
import pytest
from limits import HANG_SECONDS

from wolfpack.cli import reproduce as command

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "experiments" / "results"
NAMES = [
    "fig1a", "fig1b", "fig2a", "fig2b", "fig2c", "fig2d", "fig3a", "fig3b", "fig4a",
    "fig4b", "fig5", "acceleration", "bound", "collisions", "speedup",
]  # fmt: skip
VERDICTS = ("holds", "holds with a remark", "does not hold", "not judged here")


def reproduce(*arguments):
    """Run in a process of its own, from another folder."""
    command = [sys.executable, "-m", "wolfpack", "reproduce", *map(str, arguments)]
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )


class Page(HTMLParser):
    """What a reader of the report sees of each section."""

    def __init__(self, text):
        super().__init__()
        self.sections, self.links, self.open = {}, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.links += [given[key] for key in ("src", "href") if key in given]
        if tag == "section":
            self.sections[given["id"]] = {"images": [], "text": ""}
        if tag == "img":
            [*self.sections.values()][-1]["images"].append(given["src"])
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "section" in self.open:
            [*self.sections.values()][-1]["text"] += data


def check_report(path, records):
    """Every figure is there, as a picture that can be read, with claim and verdict."""
    page = Page(path.read_text(encoding="utf-8"))
    assert page.open == []
    assert [*page.sections] == [*records]
    for link in page.links:  # nothing is fetched
        assert link.startswith(("data:", "#"))
    for name, section in page.sections.items():
        (source,) = section["images"]
        kind, data = source.split(",", 1)
        assert kind == "data:image/svg+xml;base64"
        tree = ET.fromstring(base64.b64decode(data))
        assert tree.tag.endswith("svg")
        record = records[name]
        text = section["text"].replace("\n", " ")
        assert record["claim"].replace("`", "") in text
        assert record["verdict"] in text
        for part in re.split(r"[.:;] ", record["measured"].replace("`", "")):
            assert part.rstrip(".") in text
        assert record["machine"]["cpu"] in text


def records_in(folder, names=NAMES):
    return {
        name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        for name in names
    }


def check_files(out, names):
    """A small run leaves its record, its rows and a picture that shows something."""
    for name, record in records_in(out, names).items():
        assert record["verdict"] in VERDICTS
        assert record["fast"] is True
        assert record["command"] == f"wolfpack reproduce {name} --fast"
        assert (out / f"{name}.csv").read_text().count("\n") > 2
        picture = matplotlib.image.imread(out / f"{name}.png")
        assert min(picture.shape[:2]) > 300
        assert picture.std() > 0.02


@pytest.fixture(scope="module")
def fast(tmp_path_factory):
    """The folder of a small run of everything, and what it said."""
    out = tmp_path_factory.mktemp("fast")
    done = reproduce("all", "--fast", "--out", out)
    assert done.returncode == 0, done.stderr
    return out, done


@pytest.mark.slow
def test_all_of_it_runs_in_minutes(fast):
    out, done = fast
    assert done.stderr == ""  # no bar where stderr is no terminal, and no warning
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == NAMES
    assert lines[-1] == f"Report: {out / 'report.html'}"


@pytest.mark.slow
def test_every_figure_has_its_files(fast):
    out, _ = fast
    check_files(out, NAMES)


@pytest.mark.slow
def test_the_report_shows_every_figure(fast):
    out, _ = fast
    check_report(out / "report.html", records_in(out))
    assert "made with <code>--fast</code>" in (out / "report.html").read_text()


@pytest.mark.slow
def test_claims_that_need_no_cores_hold_in_small(fast):
    out, _ = fast
    records = records_in(out)
    for name in ("fig1b", "fig4a", "fig4b", "fig5", "bound", "collisions", "speedup"):
        record = records[name]
        stand_in = "dates took their place" in record["why"]
        assert stand_in or record["verdict"].startswith("holds"), record


@pytest.mark.slow
def test_it_goes_on_where_it_stopped(fast):
    out, _ = fast
    before = {name: (out / f"{name}.csv").read_bytes() for name in NAMES}
    (out / "fig5.json").unlink()
    (out / "fig4b.json").write_text('{"half":')
    (out / "fig3a.svg").unlink()
    done = reproduce("all", "--fast", "--out", out)
    assert done.returncode == 0, done.stderr
    *lines, _ = done.stdout.splitlines()
    again = [line.split()[0] for line in lines if "measured before" not in line]
    assert again == ["fig4b", "fig5"]
    assert (out / "fig3a.svg").is_file()
    for name in NAMES:
        assert (out / f"{name}.csv").read_bytes() == before[name]
    check_report(out / "report.html", records_in(out))


def test_one_figure_by_its_number(tmp_path):
    done = reproduce("5", "--fast", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    first, last = done.stdout.splitlines()
    assert first.split()[:2] == ["fig5", "holds"]
    assert last == f"Report: {tmp_path / 'report.html'}"
    check_files(tmp_path, ["fig5"])
    check_report(tmp_path / "report.html", records_in(tmp_path, ["fig5"]))
    again = reproduce("5", "--fast", "--out", tmp_path)
    assert "measured before" in again.stdout


def clusters(speed):
    """Rows of `acceleration`, where `speed(workers, late)` is the gain over plain."""
    return [
        {"alpha": 0.01, "goal": 1e-3, "workers": T, "late": late, "way": way,
         "seed": 0, "seconds": 100 / T / (speed(T, late) if way != "plain" else 1)}
        for T in (1, 10, 100) for late in (0, 1)[: min(T, 2)]
        for way in ("plain", "accelerated")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("speed", "verdict", "words"),
    [
        (lambda T, late: 4.0, "holds", ["4.0, 4.0, 4.0 (1, 10, 100 workers)"]),
        (lambda T, late: 8.0 if T == 1 else 4.0, "holds with a remark",
         ["8.0, 4.0, 4.0", "100 workers over one gain 50, with plain steps 100"]),
        (lambda T, late: 4.0 - 3.5 * late, "does not hold",
         ["with stragglers 0.5, 0.5 (10, 100 workers)"]),
        (lambda T, late: 1e-300 if T == 100 else 4.0, "does not hold", ["0.0"]),
    ],
)  # fmt: skip
def test_acceleration_is_judged_by_its_rows(monkeypatch, speed, verdict, words):
    monkeypatch.syspath_prepend(ROOT / "experiments")
    import importlib

    judge = importlib.import_module("acceleration").EXPERIMENT.judge
    found = judge(clusters(speed), {"fast": False})
    assert found.verdict == verdict
    assert bool(found.why) == (verdict != "holds")
    for word in words:
        assert word in found.measured
    small = judge(clusters(speed), {"fast": True})
    assert (small.verdict, small.measured) == ("not judged here", found.measured)


def test_a_cluster_that_never_arrives_is_no_gain(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "experiments")
    import importlib

    judge = importlib.import_module("acceleration").EXPERIMENT.judge
    rows = clusters(lambda T, late: 4.0)
    for row in rows:
        if (row["workers"], row["way"]) == (100, "accelerated"):
            row["seconds"] = float("inf")
    assert judge(rows, {"fast": False}).verdict == "does not hold"


def test_an_unknown_figure_is_refused():
    done = reproduce("9z")
    assert done.returncode == 1
    assert "there is no figure '9z'; there are all, fig1a, fig1b" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_experiments_is_said_clearly(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "__file__", str(tmp_path / "a" / "b" / "c.py"))
    with pytest.raises(OSError, match="not part of this installation"):
        command.folder()


@pytest.mark.skipif(not RESULTS.is_dir(), reason="results are in the repository only")
def test_committed_results_are_what_the_report_says():
    records = records_in(RESULTS)
    assert not any(record["fast"] for record in records.values())
    for record in records.values():
        assert record["verdict"] != "not judged here"
    for name in ("fig2a", "fig2b", "fig2c", "fig2d", "fig3a", "fig3b"):
        assert records[name]["machine"]["cores"] >= 16
    check_report(ROOT / "docs" / "reproduction.html", records)
    assert (ROOT / "docs" / "reproduction.html").stat().st_size < 3e6


@pytest.mark.skipif(not RESULTS.is_dir(), reason="results are in the repository only")
def test_committed_verdicts_follow_from_the_rows(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "experiments")
    import importlib

    common = importlib.import_module("_common")
    for name, record in records_in(RESULTS).items():
        experiment = importlib.import_module(name).EXPERIMENT
        rows = common.read_rows(RESULTS / f"{name}.csv")
        found = experiment.judge(rows, record["machine"] | {"fast": False})
        words = found.verdict, found.measured, found.why
        assert words == (record["verdict"], record["measured"], record["why"])

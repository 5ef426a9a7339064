import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
from limits import HANG_SECONDS

import wolfpack

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(wolfpack.__path__, "wolfpack.")
    if module.name != "wolfpack.__main__"
)
HEAVY = ("sklearn", "matplotlib", "pandas", "rich", "typer", "cvxpy", "joblib", "ray")


def with_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    for name in MODULES:
        module = importlib.import_module(name)
        if any(test.examples for test in finder.find(module, name)):
            yield name


@pytest.mark.parametrize("name", wolfpack.__all__)
def test_public_names_are_documented_with_an_example(name):
    thing = getattr(wolfpack, name)
    text = thing.__doc__
    assert text, f"{name} has no docstring"
    summary = text.strip().splitlines()[0]
    assert len(summary) <= 80
    assert summary.endswith(".")
    assert ">>> " in text, f"{name} has no example"


def test_there_are_few_public_names():
    assert len(wolfpack.__all__) <= 48
    assert wolfpack.__all__ == sorted(wolfpack.__all__, key=lambda s: (s.islower(), s))
    lazy = {*wolfpack._LAZY, "models", "plotting"}
    assert set(wolfpack.__all__) <= {*dir(wolfpack), *lazy}
    with pytest.raises(AttributeError, match="has no attribute 'nosuch'"):
        wolfpack.nosuch  # noqa: B018


@pytest.mark.parametrize("name", [*with_examples()])
def test_examples_in_docstrings(name):
    flags = doctest.ELLIPSIS
    found = doctest.testmod(importlib.import_module(name), optionflags=flags)
    assert found.attempted > 0
    assert found.failed == 0


def readme():
    return (ROOT / "README.md").read_text(encoding="utf-8")


def python_blocks(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_readme_runs(capsys):
    blocks = python_blocks("README.md")
    assert len(blocks) >= 2
    names = {"__name__": "__main__"}  # as in a script
    for block in blocks:  # in order, as a reader would
        exec(compile(block, "README.md", "exec"), names)
    assert names["result"].converged
    printed = re.search(r"^```text\n(.*?)^```", readme(), re.MULTILINE | re.DOTALL)
    assert printed is not None
    assert capsys.readouterr().out.startswith(printed[1])
    model, test = names["model"], names["test"]
    assert model.score(test.X, test.y) > 0.89  # it says 0.9
    assert model.dual_objective_ <= model.objective_


def test_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Y = wolfpack.make_piecewise(n=50, d=2)[0]
    problem = wolfpack.group_fused_lasso(Y / 2, alpha=0.25)
    names = {"wolfpack": wolfpack, "problem": problem}
    for block in python_blocks("docs/guide.md"):
        exec(compile(block, "guide.md", "exec"), names)
    assert names["result"].status is wolfpack.Status.STOPPED
    assert names["later"].converged
    assert names["plain"].epochs > 3 * names["fast"].epochs
    assert names["answer"].n_workers == 2
    assert names["answer"].delay is not None
    assert (tmp_path / "run.npz").is_file()


@pytest.mark.skipif(
    (ROOT / "PKG-INFO").exists(), reason="a source distribution has not all files"
)
def test_links_of_the_readme_lead_to_files():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text)
    missing = [link for link in links if not (ROOT / link).exists()]
    assert missing == []


def test_links_of_the_package_index_are_absolute():
    pytest.importorskip("hatchling")
    sys.path.insert(0, str(ROOT))
    try:
        absolute = importlib.import_module("hatch_build").absolute
    finally:
        sys.path.remove(str(ROOT))
    text = "[a](docs/a.md#b) ![c](c.png) [d](https://d.org) [e](#e)"
    assert absolute(text, "https://r.org") == (
        "[a](https://r.org/blob/HEAD/docs/a.md#b) ![c](https://r.org/raw/HEAD/c.png) "
        "[d](https://d.org) [e](#e)"
    )
    assert absolute(text, None) == "a  [d](https://d.org) [e](#e)"


def test_page_about_labels_runs(capsys):
    names = {}
    for block in python_blocks("docs/labels.md"):
        exec(compile(block, "labels.md", "exec"), names)
    assert names["model"].status_ is wolfpack.Status.CONVERGED
    assert names["search"].best_score_ > 0.2
    assert len(capsys.readouterr().out.splitlines()) >= 10
    assert [model.alpha for model in names["path"]] == [1.0, 0.1, 0.01]


def test_import_is_light():
    code = f"import sys, wolfpack; print([m for m in {HEAVY} if m in sys.modules])"
    command = [sys.executable, "-c", code]
    output = subprocess.run(
        command, capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert output.stdout.strip() == "[]", output.stderr


def test_version_is_that_of_the_package():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{wolfpack.__version__}"\n' in text

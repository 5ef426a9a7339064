"""Files and values at the edge of what can be read: the right answer, or a sentence."""

import csv
import gzip
import os
import re
import resource
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from limits import HANG_SECONDS
from typer.testing import CliRunner

from wolfpack import SequenceVectorizer, chain_ssvm, multiclass_svm
from wolfpack.cli import app
from wolfpack.files import table
from wolfpack.files.numbers import SvmlightReader
from wolfpack.files.rows import TableReader
from wolfpack.files.table import open_text, read_table
from wolfpack.files.template import Template, read_template
from wolfpack.kernels import room


def command(*arguments, **options):
    """Run in a process of its own."""
    options = {"capture_output": True, "text": True} | options
    words = [sys.executable, "-m", "wolfpack", *map(str, arguments)]
    return subprocess.run(words, timeout=HANG_SECONDS, check=False, **options)


def refuses(sentence, *arguments):
    """One line on stderr, without a traceback, and exit code 1."""
    found = CliRunner().invoke(app, [*map(str, arguments)])
    assert found.exit_code == 1
    assert re.match(rf"wolfpack: .*{sentence}", found.stderr), found.stderr
    assert found.stderr.count("\n") == 1


# Tables.


@pytest.mark.parametrize("letters", [131_073, 400_000])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz"])
def test_a_cell_that_is_too_long(tmp_path, letters, name):
    path = tmp_path / name
    mark = "\t" if ".tsv" in name else ","
    text = mark.join("ab") + "\n" + mark.join("12") + f"\n1{mark}" + "1" * letters
    path.write_bytes(gzip.compress(text.encode()) if ".gz" in name else text.encode())
    sentence = f"line 3: .*131072.*{csv.field_size_limit()} letters; is a quotation"
    refuses(sentence, "changes", path)
    refuses(sentence, "fit", path, "--model", "multiclass")


def test_a_missing_quotation_mark(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a,b\n1,"2\n' + "3,4\n" * 60_000)
    refuses("is a quotation mark missing", "changes", path)


def test_cells_may_hold_ends_of_lines(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('size,kind\n1,"p\nq"\n2,"p\nq"\n3,r\u2028s\n4,r\u2028s\n')
    found = TableReader().learn(path)
    assert found.y.tolist() == ["p\nq", "p\nq", "r\u2028s", "r\u2028s"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_ends_of_lines_of_any_system(tmp_path, end):
    (tmp_path / "a.csv").write_bytes(end.join(["a,b", "1,2", "3,4", ""]).encode())
    assert read_table(tmp_path / "a.csv").values.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("name", ["a.csv", "a.conll", "a.svm", "a.csv.gz"])
def test_a_nul(tmp_path, name):
    path, text = tmp_path / name, b"a b\n1 2\n1 \x002\n"
    path.write_bytes(gzip.compress(text) if ".gz" in name else text)
    refuses("line 3: a NUL, which no text has", "fit", path)


def test_a_nul_in_a_template(tmp_path):
    path = tmp_path / "template"
    path.write_bytes(b"U00:%x[0,0]\nU01:\0%x[0,0]\n")
    with pytest.raises(ValueError, match=r"template, line 2: a NUL"):
        read_template(str(path), 2)
    lines = Template("U\0%x[0,0]{}\0/%x[0,1]").features([["a", "b"]])
    assert [*lines] == [("U\0a{}\0/b",)]


# Memory.


def with_room(monkeypatch, size):
    monkeypatch.setattr(room, "available", lambda: size)


def test_a_file_that_unpacks_to_more_than_memory(tmp_path, monkeypatch):
    text = "1.5,2.5\n" * 500_000
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    (tmp_path / "a.csv").write_text(text)
    assert path.stat().st_size < len(text) / 100
    assert len(open_text(path)) == len(text)
    with_room(monkeypatch, table.BYTES_A_LETTER * 2_000_000)
    for one in (path, tmp_path / "a.csv"):
        for verb in ("changes", "fit"):
            refuses(r"more than 2(\.\d+)? MB of text.* 32 MB are free", verb, one)
    with_room(monkeypatch, table.BYTES_A_LETTER * len(text))
    assert len(open_text(path)) == len(text)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_the_limit_of_a_process_counts():
    """`ulimit -v` is what a user, or a batch system, sets."""
    code = (
        "import resource; from wolfpack.kernels import room\n"
        "pages = int(open('/proc/self/statm').read().split()[0])\n"
        "most = pages * resource.getpagesize() + 3 * 10**8\n"
        "resource.setrlimit(resource.RLIMIT_AS, (most, most))\n"
        "print(room.available())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert 10**8 < int(done.stdout) <= 3 * 10**8
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


def test_groups_of_processes_have_limits(tmp_path, monkeypatch):
    """What is left is the least of the group and those around it."""
    for folder, most in ((tmp_path, "max"), (tmp_path / "a", "5000"), (tmp_path, "")):
        folder.mkdir(exist_ok=True)
        if most:
            (folder / "memory.max").write_text(f"{most}\n")
            (folder / "memory.current").write_text("3000\n")
            (folder / "memory.stat").write_text("anon 7\ninactive_file 400\n")
    monkeypatch.setattr(room, "GROUPS", ((str(tmp_path), *room.GROUPS[0][1:]),))
    real = room.Path.read_text
    monkeypatch.setattr(
        room.Path,
        "read_text",
        lambda path: "0::/a/b\n" if str(path) == "/proc/self/cgroup" else real(path),
    )
    assert [*room._of_groups()] == [5000 - 3000 + 400]


@pytest.mark.parametrize(
    "column", [2**31 - 2, 2**31 - 1, 2**31, 2**32, 2**63, 2**64, 10**40]
)
def test_a_column_beyond_all_memory(tmp_path, column):
    path = tmp_path / "a.svm"
    path.write_text(f"0 1:1\n1 3:1 {column}:1\n")
    refuses(r"a\.svm, line 2: .*(GB of memory|too large)", "fit", path)


def test_more_weights_than_memory(tmp_path, monkeypatch):
    path = tmp_path / "a.svm"
    path.write_text("0 1:1\n1 3:1 99999:1\n2 1:1\n")
    assert SvmlightReader().learn(path).X.shape == (3, 10**5)
    with_room(monkeypatch, 10**6)
    sentence = (
        r"100000 features x 3 labels would take 8 MB of memory, and 1 MB are free"
    )
    refuses(rf"line 2: its largest column is 99999, .*{sentence}", "fit", path)
    X, y = np.eye(3, 10**5, dtype=np.float32), np.arange(3)
    with pytest.raises(MemoryError, match=sentence):
        multiclass_svm(X, y, alpha=0.1)
    with pytest.raises(MemoryError, match="would take 8 MB of memory"):
        chain_ssvm([X], [y], alpha=0.1)


def test_an_array_that_promises_more_than_the_file_has(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.ones((30, 3)))
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"(30, 3), }          ", b"(30000000000, 3), } "))
    assert path.stat().st_size == len(whole)
    refuses("is no .npy file of numbers", "changes", path)


# Named features.


@pytest.mark.parametrize("value", [10**400, -(10**309), Fraction(10**400, 3)])
@pytest.mark.parametrize("n_features", [None, 16])
def test_a_number_that_no_float_holds(value, n_features):
    with pytest.raises(
        ValueError, match=r"feature 'x' .* of X\[1\] is a number beyond"
    ):
        SequenceVectorizer(n_features=n_features).fit_transform(
            [[{"x": 1}], [{"y": 2}, {"x": value}]]
        )


@pytest.mark.parametrize("word", ["\udc80", "a\ud800b", "\udfff\udfff"])
def test_half_a_letter_is_hashed(word):
    hashed = SequenceVectorizer(n_features=64)
    found = hashed.transform([[{"w": word}], [{"w": "the"}]])
    assert [row.sum() for row in found] == [1, 1]
    assert (hashed.transform([[{"w": word}]])[0] != found[0]).nnz == 0


def test_hashes_are_those_of_before():
    """They decide the columns of saved models."""
    words = ["the", "é", "漢字", "😀", ""]
    found = SequenceVectorizer(n_features=1000).transform([[{"w": k}] for k in words])
    assert [int(row.indices[0]) for row in found] == [604, 69, 706, 752, 193]


# Numba that does not compile.


def test_without_the_compiler():
    code = (
        "import numpy as np, wolfpack\n"
        "Y = np.arange(40.0).reshape(20, 2)\n"
        "makers = (lambda: wolfpack.GroupFusedLasso().fit(Y),\n"
        "    lambda: wolfpack.MulticlassSVM().fit(Y, Y[:, 0] > 9),\n"
        "    lambda: wolfpack.ChainSSVM().fit([Y], [np.arange(20) % 2]),\n"
        "    lambda: wolfpack.solve(wolfpack.group_fused_lasso(Y, 0.1)))\n"
        "for make in makers:\n"
        "    try:\n"
        "        make()\n"
        "    except RuntimeError as error:\n"
        "        print(error)\n"
    )
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    said = done.stdout.splitlines()
    assert len(said) == 4
    assert all(one.startswith("NUMBA_DISABLE_JIT is set, but") for one in said)
    found = command("fit", "dates", "--quiet", env=environment)
    assert found.returncode == 1
    assert found.stderr.startswith("wolfpack: NUMBA_DISABLE_JIT is set")
    assert found.stderr.count("\n") == 1


# Standard output.

COMMANDS = ["--help", "datasets", "cache", "changes a.csv", "changes a.csv --json"]


@pytest.fixture
def signal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "".join(f"{k % 3 + 9 * (k > 20)}\n" for k in range(40))
    (tmp_path / "a.csv").write_text(text)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", COMMANDS)
def test_an_answer_that_cannot_be_printed(signal, words, unbuffered):
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    outs = [("/dev/full", "w", "No space left on device")]
    outs += [(os.devnull, "r", "Bad file descriptor")]
    for name, mode, reason in outs:
        if not os.path.exists(name):
            continue
        with open(name, mode) as out:
            done = command(
                *words.split(), env=environment, capture_output=False,
                stdout=out, stderr=subprocess.PIPE,
            )  # fmt: skip
        assert done.returncode == 1
        expected = f"wolfpack: standard output cannot be written: {reason}.\n"
        assert done.stderr == expected


@pytest.mark.skipif(os.name != "posix", reason="closes a descriptor of a child")
@pytest.mark.parametrize("words", COMMANDS)
def test_a_closed_output_is_refused_before_the_work(signal, words):
    done = command(*words.split(), preexec_fn=lambda: os.close(1))
    assert done.returncode == 1
    assert done.stderr.startswith("wolfpack: standard output is closed, and the answer")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", COMMANDS)
def test_a_reader_that_leaves_is_no_error(signal, words, unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = command(
            *words.split(), env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            capture_output=False, stdout=writer, stderr=subprocess.PIPE,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")

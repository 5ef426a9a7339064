"""`wolfpack fit` and `predict` on files that people have."""

import csv
import gzip
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_digits, load_iris
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from wolfpack import MulticlassSVM, load_dates
from wolfpack.cli import app
from wolfpack.files.columns import read_sentences
from wolfpack.files.model_file import load_model
from wolfpack.files.template import Template, read_template

PLACES = ("Rome", "Bonn", "<Oslo>")
IRIS = load_iris()
NAMES = ["length", "width", "petal", "area"]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def report_of(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def sentences(seed, n=30):
    """Sentences in which a place is B-LOC, "City" after it I-LOC."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        rows = []
        for _ in range(rng.integers(2, 5)):
            rows.append([rng.choice(["we", "saw", "in", "a"]), "XX", "O"])
            if rng.random() < 0.5:
                rows.append([rng.choice(PLACES), "NP", "B-LOC"])
                if rng.random() < 0.5:
                    rows.append(["City", "NP", "I-LOC"])
        yield rows


def columns(rows, n_columns=3):
    blocks = ("\n".join(" ".join(row[:n_columns]) for row in part) for part in rows)
    return "\n\n".join(blocks) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def tagger(folder):
    """A model trained on columns, its report as JSON, and as a page."""
    train, test = folder / "train.txt", folder / "test.conll.gz"
    train.write_text(columns(sentences(0)))
    test.write_bytes(gzip.compress(columns(sentences(1)).encode()))
    model, page = folder / "tagger.npz", folder / "page.html"
    files = ("--test", test, "--save", model, "--report", page)
    return model, report_of(run("fit", train, *files, "--json")), page


def test_columns_are_learnt_and_labelled(tagger, folder):
    model, report, _ = tagger
    assert report["status"] == "CONVERGED"
    assert [report["test_score"], report["test_chunk_f1"]] == [1.0, 1.0]
    rows = [*sentences(2)]
    without, out = folder / "new.txt", folder / "out.txt"
    without.write_text(columns(rows, 2))
    result = run("predict", model, without, "--output", out)
    assert (result.exit_code, result.stderr) == (0, "")
    assert out.read_text() == columns(rows)  # the labels that had been left out
    result = run("predict", model, without)
    assert result.stdout.splitlines() == [
        " ".join(row[2] for row in part) for part in rows
    ]
    labelled = folder / "labelled.txt"
    labelled.write_text(columns(rows))
    result = run("predict", model, labelled, "--json")
    assert json.loads(result.stdout.splitlines()[0]) == [row[2] for row in rows[0]]
    assert result.stderr == "right: 1.0000 of all positions; chunk F1: 1.0000\n"


def test_a_label_that_training_never_saw_is_an_error_of_the_model(tagger, folder):
    rows = [*sentences(1, 2)]
    rows[1][0][2] = "B-ORG"
    test = folder / "odd.txt"
    test.write_text(columns(rows))
    result = run("fit", folder / "train.txt", "--test", test)
    line = len(rows[0]) + 2
    assert f"labels of {test} that training never saw, the first" in result.stdout
    assert f"in line {line}, count as errors: 'B-ORG'" in result.stdout
    n = sum(map(len, rows))
    assert f"{(n - 1) / n:.4f} in test" in result.stdout


class Tags(HTMLParser):
    """Checks that what is opened is closed, and collects the text."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.seen = [], [], set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read_page(path):
    page = Tags()
    page.feed(path.read_text())
    assert page.open == []
    assert "script" not in page.seen
    assert "http" not in path.read_text()
    return page, " ".join(" ".join(page.text).split())


def test_the_report_shows_the_model(tagger):
    _, report, path = tagger
    page, text = read_page(path)
    low, high = (f"{report[key]:.8f}" for key in ("dual", "primal"))
    assert f"The best objective lies between {low} and {high}" in text
    assert {"svg", "polyline", "table", "pre"} <= page.seen
    assert all(word in text for word in ("B-LOC", "(begin)", "chunk F1"))
    assert "=<" in text  # a word of the file, and not a tag of its own
    assert "oslo" not in page.seen
    assert "%lower[-2,0]" in text
    model = load_model(tagger[0])
    assert f"{model.transitions_[0, 1]:.2f}" in text


def test_templates_are_those_of_crf():
    # The example of the manual of CRF++, at the third token.
    rows = [["He", "PRP"], ["reckons", "VBZ"], ["the", "DT"], ["current", "JJ"]]
    lines = {
        "U0:%x[0,0]": "U0:the",
        "U1:%x[-1,0]": "U1:reckons",
        "U2:%x[-2,1]": "U2:PRP",
        "U3:%x[0,0]/%x[0,1]": "U3:the/DT",
        "U4:ABC%x[0,1]123": "U4:ABCDT123",
        "U5:%x[2,0]{}": "U5:_B+1{}",
        "U6:%prefix2[-2,0]%suffix3[-1,0]%shape[-2,0]": "U6:heonsXx",
    }
    text = "# of a token\n\n" + "\n".join(lines) + "\n\n# of labels\nB\n"
    assert [*Template(text).features(rows)][2] == tuple(lines.values())


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("U1:%x[0,0", "line 1: 'U1:%x[0,0' is no feature; it needs cells such as"),
        ("U1:%y[0,0]", "is no feature"),
        ("B1:%x[0,0]", "is a feature of a pair of labels"),
        ("U1:%x[0,7]", "asks for column 7, but the data have columns 0 to 1"),
        ("U1:%x[999,0]", "looks more than 100 rows far"),
        ("B", "has no feature"),
    ],
)
def test_templates_that_are_refused(tmp_path, line, sentence):
    path = tmp_path / "template"
    path.write_text(line)
    with pytest.raises(ValueError, match=re.escape(sentence)):
        read_template(str(path), 2)


def test_a_template_of_ones_own(tagger, folder):
    path = folder / "my.template"
    path.write_text("U1:%x[0,0]\nB\n")
    model = folder / "own.npz"
    options = ("--template", path, "--min-count", 1, "--save", model, "--max-epochs", 1)
    assert run("fit", folder / "train.txt", *options).exit_code in (0, 3)
    vocabulary = load_model(model).file_info_["input"]["vocabulary"]
    words = {row[0] for part in sentences(0) for row in part}
    assert set(vocabulary) == {f"U1:{word}" for word in words}


def test_comments_documents_and_odd_spaces(tmp_path):
    path = tmp_path / "a.conll"
    path.write_text("# text = x\n-DOCSTART-\tO\n\n\na\xa0b\tO\n\r\n\u2028\tO\n#\tX\n")
    found = read_sentences(path)
    assert found.rows == [[["a\xa0b", "O"]], [["\u2028", "O"], ["#", "X"]]]
    assert found.lines.tolist() == [5, 7, 8]


def write_iris(path, columns, y=True):
    cells = dict(zip(NAMES, IRIS.data.T, strict=True))
    cells["colour"] = np.where(np.arange(150) % 2, "red", "blue")
    cells["kind"] = IRIS.target_names[IRIS.target]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(cells[name] for name in columns), strict=True))


def test_csv_is_scaled_and_words_become_columns(tmp_path):
    path, model = tmp_path / "iris.csv", tmp_path / "model.npz"
    write_iris(path, ["kind", "colour", *NAMES])
    page = tmp_path / "page.html"
    options = ("--label", "kind", "--save", model, "--report", page, "--json")
    report = report_of(run("fit", path, "--test", path, *options))
    red = np.arange(150)[:, None] % 2
    X = np.hstack([1 - red, red, StandardScaler().fit_transform(IRIS.data)])
    expected = MulticlassSVM(random_state=0).fit(X, IRIS.target)
    assert report["primal"] == pytest.approx(expected.objective_, rel=1e-6)
    assert report["test_score"] == expected.score(X, IRIS.target)
    # Columns are found by their names; the label may be missing.
    other, out = tmp_path / "other.csv", tmp_path / "out.csv"
    write_iris(other, [*NAMES[::-1], "colour"])
    result = run("predict", model, other, "--output", out)
    assert (result.exit_code, result.stderr) == (0, "")
    with out.open() as file:
        head, *rows = csv.reader(file)
    assert head == [*NAMES[::-1], "colour", "predicted kind"]
    found = IRIS.target_names[expected.predict(X)].tolist()
    assert [row[-1] for row in rows] == found
    assert run("predict", model, other).stdout.splitlines() == found
    text = read_page(page)[1]
    assert "colour=red" in text
    assert "versicolor" in text
    assert "(begin)" not in text


def test_csv_without_names_and_with_numbers_of_rows(tmp_path):
    path, model = tmp_path / "plain.csv", tmp_path / "model.npz"
    rows = [f"{a},{b},{'x' if a > b else 'y'}" for a in range(4) for b in range(4)]
    path.write_text("\n".join(rows))
    report_of(run("fit", path, "--save", model, "--json"))
    path.write_text("3,1\n1,3\n")
    assert run("predict", model, path).stdout.split() == ["x", "y"]
    numbered = [f"{k},{row}" for k, row in enumerate(rows)]
    path.write_text("\n".join(["id,a,b,kind", *numbered]))
    result = run("fit", path)
    assert "16 examples, 2 features, 2 labels" in result.stdout
    assert "Its first column, 'id', names the rows: it is left out." in result.stdout
    (tmp_path / "table.txt").write_text("\n".join(rows))
    assert run("fit", tmp_path / "table.txt", "--model", "multiclass").exit_code == 0


def test_svmlight(tmp_path):
    X, y = load_digits(n_class=3, return_X_y=True)
    X = np.round(X[:60] / 16, 2)
    path, model = tmp_path / "digits.svm", tmp_path / "model.npz"
    dump_svmlight_file(X, y[:60], str(path), zero_based=False)
    out = tmp_path / "out.csv"
    report = report_of(run("fit", path, "--save", model, "--json"))
    expected = MulticlassSVM(random_state=0).fit(X, y[:60])
    assert report["primal"] == pytest.approx(expected.objective_, rel=1e-3)
    assert report["train_score"] == expected.score(X, y[:60])
    # A column that training never saw is left out, and missing ones are zero.
    path.write_text("0 3:1 4:0.5 99:1000\n1\n")
    result = run("predict", model, path, "--output", out)
    assert result.exit_code == 0, result.output
    few = np.zeros((2, 64))
    few[0, 2:4] = 1.0, 0.5
    fitted = load_model(model)
    found = fitted.predict(
        np.hstack([np.zeros((2, 1)), few])[:, : fitted.n_features_in_]
    )
    assert out.read_text().split() == ["predicted", *map(str, found)]


def test_arrays(tmp_path):
    data, model = tmp_path / "data.npz", tmp_path / "model.npz"
    np.savez(data, X=IRIS.data / 8, y=IRIS.target)
    report = report_of(run("fit", data, "--save", model, "--json"))
    result = run("predict", model, data, "--json")
    found = np.array([int(json.loads(line)) for line in result.stdout.splitlines()])
    assert (found == IRIS.target).mean() == report["train_score"]
    assert result.stderr == f"right: {report['train_score']:.4f} of all examples\n"
    train, _ = load_dates(n_train=40, n_test=1)
    offsets = np.arange(0, 321, 8)
    np.savez(
        data, X=np.concatenate(train.X), y=np.concatenate(train.y), offsets=offsets
    )
    result = run("predict", model, data)
    assert "has offsets, but the model was trained on a file with no" in result.stderr
    report = report_of(run("fit", data, "--save", model, "--tol", 0.05, "--json"))
    out = tmp_path / "out.csv"
    assert run("predict", model, data, "--output", out).exit_code == 0
    found = np.loadtxt(out, delimiter=",", skiprows=1, dtype=int)
    assert found[:9, :2].tolist() == [*([0, t] for t in range(8)), [1, 0]]
    assert (found[:, 2] == np.concatenate(train.y)).mean() == report["train_score"]


REGRESSION = "p,q\n" + "".join(f"{k},{k / 8}\n" for k in range(30))
TWO = "a X\nb Y\n\na X\n"


@pytest.mark.parametrize(
    ("name", "text", "options", "sentence"),
    [
        ("a.txt", "", [], "a.txt is empty: it needs a line a token"),
        ("a.txt", "a X\nb c Y\n", [], "line 2: 'b c Y' has 3 columns, but the lines"),
        ("a.txt", "a\n\nb\n", [], "line 1: one column, 'a'; two or more are needed"),
        ("a.txt", "a X\n\nb X\n", [], "one label only, 'X'; two or more are needed"),
        ("a.txt", "a X\nb Y\n", [], "say --model chain or --model multiclass"),
        ("a.txt", "a\tX\n\nb\t\n", [], "line 3: the last column, the label, is empty"),
        ("a.txt", TWO, ["--test", "nosuch.txt"], "nosuch.txt does not exist"),
        ("a.txt", TWO, ["--label", "x"], "--label is for a table; "),
        ("a.txt", TWO, ["--template", "nosuch"], "there is no file nosuch"),
        ("a.conll", TWO, ["--model", "multiclass"], "holds sequences"),
        ("a.xyz", TWO, [], "a file holds is told by its ending, one of .conll, .txt"),
        ("dates", TWO, [], "with another, say --model chain"),
        ("a.csv", "", [], "is empty: it needs an example a line"),
        ("a.csv", "p,q\n", [], "has a line of names and no example"),
        ("a.csv", "p,q\n1,a\n2\n", [], "line 3: 1 cells, but the first line has 2"),
        ("a.csv", "p,q\n1,a\nnan,b\n", [], "line 3, column 'p': 'nan' is no number"),
        ("a.csv", "p,q\n1,a\nx,b\n", [], "line 3, column 'p': 'x' is no number. Fill"),
        ("a.csv", "p,q\nx,a\n,b\n", [], "line 3, column 'p': the cell is empty"),
        ("a.csv", "p,q\n1,a\n2,\n", [], "line 3: the label, 'q', is empty"),
        ("a.csv", "p,q\n1,a\n2,a\n", [], "one label only, 'a'"),
        ("a.csv", REGRESSION, [], "30 different labels in 30 examples; classes are"),
        ("a.csv", "p,p\n1,a\n2,b\n", [], "two columns are called 'p'"),
        ("a.csv", "q\na\nb\n", [], "has no column besides the label, 'q'"),
        ("a.csv", "p,q\n1,a\n2,b\n", ["--label", "r"], "columns of"),
        ("a.csv", "p,q\n1,a\n2,b\n", ["--template", "window"], "for CoNLL columns; "),
        ("a.svm", "", [], "is empty: it needs an example a line"),
        ("a.svm", "1 1:2\n0 1;3\n", [], "line 2: '0 1;3' is not a class and pairs"),
        ("a.svm", "1 1:2\n0 1:nan\n", [], "line 2: a value is NaN or infinite"),
        ("a.svm", "1 1:2\n0.5 1:3\n", [], "line 2: the label 0.5 is no class"),
        ("a.svm", "1 1:2\n1 1:3\n", [], "one label only, '1'"),
        ("a.npz", "no zip", [], "is no .npz file"),
    ],
)
def test_files_that_are_refused(tmp_path, monkeypatch, name, text, options, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    result = run("fit", f"./{name}", *options)
    assert result.exit_code == 1
    assert sentence in result.stderr
    assert result.stderr.startswith("wolfpack: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"y": [0, 1]}, "lacks ['X']; it has ['y']"),
        ({"X": [[1.0], [2.0]]}, "has no labels, and training needs them"),
        ({"X": [[1.0], [np.nan]], "y": [0, 1]}, "X[1, 0] is nan, no number"),
        ({"X": [[1.0], [2.0]], "y": [0, 1, 1]}, "X has 2 positions and y has 3"),
        (
            {"X": [[1.0], [2.0]], "y": [0, 1], "offsets": [0, 3]},
            "must rise from 0 to 2",
        ),
    ],
)
def test_arrays_that_are_refused(tmp_path, arrays, sentence):
    np.savez(tmp_path / "a.npz", **arrays)
    result = run("fit", tmp_path / "a.npz")
    assert result.exit_code == 1
    assert sentence in result.stderr


def test_files_that_do_not_fit_the_model(tagger, folder, tmp_path):
    model = tagger[0]
    for name, text, sentence in (
        ("a.csv", "p,q\n1,a\n", "trained on CoNLL columns, so a file of it ends in"),
        ("a.txt", "a b c d\n", "4 columns, but the model was trained on 2 and a label"),
    ):
        (tmp_path / name).write_text(text)
        result = run("predict", model, tmp_path / name)
        assert result.exit_code == 1
        assert sentence in result.stderr
    (tmp_path / "b.csv").write_text("p,q,r\n1,2,a\n2,1,b\n")
    run("fit", tmp_path / "b.csv", "--save", tmp_path / "m.npz")
    (tmp_path / "a.csv").write_text("p,s\n1,2\n")
    result = run("predict", tmp_path / "m.npz", tmp_path / "a.csv")
    assert "has no column 'q'; the model was trained on p, q." in result.stderr
    (tmp_path / "t.csv").write_text("p,q,r\n1,2,c\n")
    result = run("fit", tmp_path / "b.csv", "--test", tmp_path / "t.csv")
    assert "the label 'c' does not occur in training, and neither" in result.stderr


def test_a_damaged_reader_is_refused(tagger, folder, tmp_path):
    with np.load(tagger[0]) as file:
        arrays = dict(file)
    described = json.loads(str(arrays["json"]))
    for key, value, sentence in (
        ("kind", "nosuch", "is damaged (its input: 'nosuch')"),
        ("n_columns", "two", "is damaged (its input: n_columns is 'two')"),
        ("vocabulary", ["a"], "is damaged (its input has other features)"),
        ("template", "U:%x[0,5]", "asks for columns that it does not have"),
    ):
        odd = json.loads(json.dumps(described))
        odd["about"]["input"][key] = value
        np.savez(tmp_path / "m.npz", **{**arrays, "json": np.array(json.dumps(odd))})
        result = run("predict", tmp_path / "m.npz", folder / "train.txt")
        assert result.exit_code == 1
        assert sentence in result.stderr


def test_names_come_before_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("fit", "dates", "--label", "x")
    assert "--label is for files of your own, and dates is a data set" in result.stderr
    assert "write ./dates." in result.stderr
    result = run("fit", "piecewise", "--report", "page.html")
    assert "--report is for labels; --plot draws a signal." in result.stderr
    result = run("fit", "dates", "--report", "nosuch/page.html")
    assert "there is no folder nosuch to write page.html into" in result.stderr
    result = run("fit", "dates", "--tol", 0.1, "--report", "page.html", "--json")
    low = f"{report_of(result)['dual']:.8f}"
    assert low in read_page(tmp_path / "page.html")[1]

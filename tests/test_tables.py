"""What the first line of a table is, and what a comma is: said where it is not sure."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from wolfpack.cli import app
from wolfpack.files.cells import find_mark
from wolfpack.files.head import find_head
from wolfpack.files.rows import TableReader
from wolfpack.files.table import read_table

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(30, 2)).round(3)
LABELS = ["pq"[int(a + b > 0)] for a, b in POINTS]


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def rows_of(mark=",", decimal="."):
    return [
        mark.join([*(f"{x:.3f}".replace(".", decimal) for x in point), label])
        for point, label in zip(POINTS, LABELS, strict=True)
    ]


def write(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    "names",
    [
        "2019,2020,label", "1,2,class", "2019,width,label", "0.1,0.9,label",
        "2019-01,2019-02,label", "2020,2019,0", "size,1e3,y",
    ],
)  # fmt: skip
def test_names_may_be_numbers(tmp_path, names):
    path = write(tmp_path / "a.csv", names, *rows_of())
    last = names.split(",")[-1]
    if last == "0":  # only the user can know
        found = TableReader(header=True).learn(path)
    else:
        found = TableReader().learn(path)
    assert (len(found.y), {*found.y}) == (30, {"p", "q"})
    result = run("fit", path, "--tol", 0.5, "--quiet", "--label", -1, "--header")
    assert "30 examples, 2 features, 2 labels" in result.stdout
    assert "Note" not in result.stdout


def test_how_the_first_line_was_read_is_said(tmp_path):
    path = write(tmp_path / "a.csv", "2019,2020,label", *rows_of())
    said = "Note: line 1, '2019,2020,label', is read as the names of the columns"
    result = run("fit", path, "--tol", 0.5, "--quiet")
    assert said in result.stdout
    assert "say --no-header" in result.stdout
    result = run("fit", path, "--tol", 0.5, "--quiet", "--json")
    (note,) = json.loads(result.stdout.splitlines()[-1])["notes"]
    assert note in run("fit", path, "--tol", 0.5, "--quiet").stdout
    result = run("fit", path, "--tol", 0.5, "--quiet", "--no-header")
    assert "31 examples, 2 features, 3 labels" in result.stdout


@pytest.mark.parametrize(
    "first", ["1.5,2.5,p", "2019,2020,q", "1,2,p", "-1,0.5,q", "2019-01-01,3,p"]
)
def test_an_example_is_no_header(tmp_path, first):
    lines = rows_of() if "-01-" not in first else ["2019-01-02,3,p", "2019-01-03,4,q"]
    path = write(tmp_path / "a.csv", first, *lines)
    found = find_head([1, 2], [line.split(",") for line in (first, *lines)], None, 2)
    assert found == (False, None)
    if "-01-" not in first:
        assert len(TableReader().learn(path).y) == 31


def test_words_that_occur_again_are_no_names(tmp_path):
    lines = ["sunny,hot,no", "rainy,cool,yes", "sunny,cool,yes", "rainy,hot,no"]
    path = write(tmp_path / "a.csv", *lines)
    reader = TableReader()
    assert reader.learn(path).y.tolist() == ["no", "yes", "yes", "no"]
    assert "is read as one of the rows" in reader.notes[0]
    test = write(tmp_path / "test.csv", "sunny,cool", "rainy,hot")
    assert reader.read(test).X.tolist() == [[0, 1, 1, 0], [1, 0, 0, 1]]
    path = write(tmp_path / "b.csv", "sky,air,play", *lines)
    assert len(TableReader().learn(path).y) == 4


def test_a_label_that_is_named_makes_a_header(tmp_path):
    path = write(tmp_path / "a.csv", "2019,2020,2021", *rows_of())
    assert len(TableReader(label="2021").learn(path).y) == 30


def test_the_model_knows_the_names_again(tmp_path):
    path = write(tmp_path / "a.csv", "2019,2020,label", *rows_of())
    train = TableReader()
    X = train.learn(path).X
    reader = TableReader.from_dict(json.loads(json.dumps(train.to_dict())))
    bare = [line.rsplit(",", 1)[0] for line in rows_of()]
    for names in ("2019,2020", "2020,2019"):
        test = write(tmp_path / "test.csv", names, *bare)
        found = reader.read(test)
        assert found.X.shape == (30, 2)
        assert (found.X == X).all() == (names == "2019,2020")
    test = write(tmp_path / "test.csv", *bare)
    with pytest.raises(ValueError, match="is no line of names, which the file of the"):
        reader.read(test)


SERIES = ["0.5,0.25", "0.75,0.5", "9.5,8.25", "9.75,8.5"]
NUMBERED = [f"{k},{row}" for k, row in enumerate(SERIES)]
NAMED = [f"r{row}" for row in NUMBERED]


@pytest.mark.parametrize(
    ("names", "rows", "shape", "has_note"),
    [
        ("a,b", SERIES, (4, 2), False),
        ("a,2", SERIES, (4, 2), True),
        (
            "time,2019,2020",
            [f"{k},{row}" for k, row in enumerate(SERIES)],
            (4, 2),
            True,
        ),
        (",0,1", NUMBERED, (4, 2), True),
        (",7,9", NAMED, (4, 2), True),
        (
            "land,2019,2020",
            [f"r{k},{row}" for k, row in enumerate(SERIES)],
            (4, 2),
            True,
        ),
        ("2019,2020", SERIES, (5, 2), True),
        ("0,1", SERIES, (5, 2), True),
        ("2,1", SERIES, (5, 2), False),
        ("r,0.5,1.5", NAMED, (5, 2), False),
        ("3,4", ["5,6", "7,8", "1,1"], (4, 2), False),
    ],
)
def test_the_first_line_of_a_signal(tmp_path, names, rows, shape, has_note):
    path = write(tmp_path / "a.csv", names, *rows)
    table = read_table(path)
    assert table.values.shape == shape
    assert bool(table.notes) is has_note
    for note in table.notes:
        assert ("--header" in note) is (shape[0] == 5)
        assert ("--no-header" in note) is (shape[0] == 4)
    if names == "2019,2020":
        assert read_table(path, header=True).names == ["2019", "2020"]
        assert "say --header" in run("changes", path).stdout
        report = json.loads(run("changes", path, "--header", "--json").stdout)
        assert report["columns"] == ["2019", "2020"]


@pytest.mark.parametrize("mark", [";", "\t", " "])
@pytest.mark.parametrize("head", [True, False])
def test_decimal_commas(tmp_path, mark, head):
    names = [mark.join(["a", "b", "label"])] if head else []
    comma = write(tmp_path / "comma.csv", *names, *rows_of(mark, ","))
    point = write(tmp_path / "point.csv", *names, *rows_of(mark, "."))
    readers = TableReader(), TableReader()
    found, expected = (r.learn(p) for r, p in zip(readers, (comma, point), strict=True))
    assert (found.X == expected.X).all()
    assert found.y.tolist() == expected.y.tolist()
    assert "has decimal commas" in readers[0].notes[0]
    assert "--decimal point" in readers[0].notes[0]
    assert readers[1].notes == []
    words = TableReader(decimal="point")
    assert words.learn(comma).X.shape[1] > 10
    again = TableReader.from_dict(json.loads(json.dumps(readers[0].to_dict())))
    assert (again.read(comma).X == again.read(point).X).all()
    result = run("fit", comma, "--tol", 0.5, "--quiet", "--model", "multiclass")
    assert "30 examples, 2 features, 2 labels" in result.stdout
    assert "has decimal commas, as in" in result.stdout


def test_decimal_commas_of_a_signal(tmp_path):
    path = write(tmp_path / "a.csv", "0,5", "1,25", "-0,75", "1,05")
    table = read_table(path)
    assert table.values.shape == (4, 2)  # columns of whole numbers, or are they?
    assert "say --decimal comma" in table.notes[0]
    table = read_table(path, decimal="comma")
    assert (table.values.ravel().tolist(), table.notes) == (
        [0.5, 1.25, -0.75, 1.05],
        (),
    )
    path = write(tmp_path / "b.csv", "x;y", "1.234,5;2", "7,25;3", "12.345.678,5;4")
    assert read_table(path).values[:, 0].tolist() == [1234.5, 7.25, 12345678.5]
    result = run("changes", tmp_path / "a.csv", "--decimal", "comma")
    assert "4 rows, 1 column" in result.stdout


@pytest.mark.parametrize("mark", ";,")
@pytest.mark.parametrize("word", ["1,234", "-12,000", "1,000,000"])
def test_thousands_are_not_guessed(tmp_path, word, mark):
    cell = f'"{word}"' if mark == "," else word
    rows = [
        f"{one}{mark}{label}"
        for one, label in zip([cell, 7, cell, 8], "pqpq", strict=True)
    ]
    path = write(tmp_path / "a.csv", f"x{mark}label", *rows)
    result = run("fit", path)
    assert result.exit_code == 1
    assert f"line 2: '{word}' is" in result.stderr.replace(", column 'x'", "")
    assert "--decimal comma" in result.stderr
    assert result.stderr.count("\n") == 1
    if word.count(",") == 1:
        assert "is a decimal comma, or separates thousands" in result.stderr
        found = TableReader(decimal="comma", standardize=False).learn(path)
        assert found.X[0, 0] == float(word.replace(",", "."))


@pytest.mark.parametrize("word", ['"1,234.5"', "5%", "$5", "3,50 €"])
def test_what_looks_like_a_number_is_no_word(tmp_path, word):
    mark = ";" if "€" in word else ","
    lines = [f"{word}{mark}{k}" for k in "ppqq"]
    path = write(tmp_path / "a.csv", f"x{mark}label", *lines)
    result = run("fit", path)
    assert result.exit_code == 1
    assert f"line 2, column 'x': '{word.strip(chr(34))}' looks like a" in result.stderr
    assert result.stderr.count("\n") == 1
    reader = TableReader(decimal="point")
    reader.learn(path)
    assert reader.names == [f"x={word.strip(chr(34))}"]


@pytest.mark.parametrize("missing", ["NA", "n/a", "?"])
@pytest.mark.parametrize("decimal", [None, "comma"])
def test_a_column_of_decimal_commas_is_no_words_where_one_is_missing(
    tmp_path, missing, decimal
):
    rows = [row.replace(";", f";{missing};" if k == 4 else ";1,5;", 1)
            for k, row in enumerate(rows_of(";", ","))]  # fmt: skip
    path = write(tmp_path / "a.csv", "a;gap;b;label", *rows)
    with pytest.raises(ValueError, match=r"line 2, column 'gap': '1,5' looks like a "):
        TableReader(decimal=decimal).learn(path)


def test_decimal_commas_between_quotes(tmp_path):
    rows = [f'"{a:.3f}","{b:.3f}",{k}'.replace(".", ",")
            for (a, b), k in zip(POINTS, LABELS, strict=True)]  # fmt: skip
    path = write(tmp_path / "a.csv", "a,b,label", *rows)
    for decimal in (None, "comma"):
        reader = TableReader(decimal=decimal, standardize=False)
        np.testing.assert_array_equal(reader.learn(path).X, POINTS)
        assert len(reader.notes) == (decimal is None)


@pytest.mark.parametrize(
    ("names", "is_told"),
    [
        ("2019,2020,2021", True),
        ("1,2,3", True),
        ("2020,2019,0", True),
        ("7,3,1", False),
    ],
)
def test_a_first_line_of_numbers_above_numbered_labels_is_told(
    tmp_path, names, is_told
):
    rows = [row.replace("p", "0").replace("q", "1") for row in rows_of()]
    reader = TableReader()
    assert len(reader.learn(write(tmp_path / "a.csv", names, *rows)).y) == 31
    assert any("say --header" in note for note in reader.notes) is is_told


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ("1 ,2 ,3", ","), ("1, 2, 3", ","), ("a,b", ","), ("a;b,c;d", ";"),
        ("1 2", " "), ("0,5 1,5 p", " "),
        ("0,5;1,5", ";"), ("0,5\t1", "\t"), ("0,5 -1,5", " "), ("New York,5", ","),
        ("New York 10,5", ","), ("value", " "), ("1;2;3", ";"),
    ],
)  # fmt: skip
def test_what_separates_cells(line, mark):
    assert find_mark(line) == mark

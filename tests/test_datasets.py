import datetime as dt
import doctest
import functools
import gzip
import http.server
import itertools
import re
import threading
import traceback

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits

from wolfpack import datasets
from wolfpack.datasets import files as _datafiles

FOLD_SIZES = [626, 704, 684, 698, 693, 651, 739, 717, 690, 675]


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No data set on this machine, and an empty cache."""
    monkeypatch.delenv("WOLFPACK_DATA", raising=False)
    monkeypatch.setattr(_datafiles, "user_cache", lambda: tmp_path / "cache")
    return tmp_path


@pytest.fixture(scope="module")
def letters():
    """Made-up letters in the public file's format, as many as the real ones."""
    rng = np.random.default_rng(0)
    ends = np.sort(rng.choice(np.arange(1, 52152), 6876, replace=False))
    offsets = np.concatenate([[0], ends, [52152]])
    labels = rng.integers(26, size=52152)
    pixels = rng.integers(2, size=(52152, 128), dtype=np.uint8)
    folds = rng.integers(10, size=6877)
    lines = []
    for word, (begin, end) in enumerate(itertools.pairwise(offsets)):
        for k in range(begin, end):
            following = k + 2 if k + 1 < end else -1
            head = [k + 1, chr(97 + labels[k]), following, word, k - begin, folds[word]]
            # Each line of the public file ends in a tab.
            lines.append("\t".join([*map(str, head), *map(str, pixels[k]), ""]))
    order = rng.permutation(52152)
    text = "\n".join(lines[k] for k in order) + "\n"
    return gzip.compress(text.encode(), 1), (pixels, labels, offsets, folds)


@pytest.fixture
def website(tmp_path, monkeypatch):
    """A local server to download from; gives the folder that it serves."""
    folder = tmp_path / "site"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Handler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/letter.data.gz"
        monkeypatch.setattr(_datafiles, "OCR_URL", url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield folder
        server.shutdown()


def test_examples_in_docstrings():
    assert doctest.testmod(datasets).failed == 0


# The OCR words


def test_ocr_has_the_published_contents(data_home):
    words = datasets.load_ocr(data_home=data_home)
    assert len(words.X) == len(words.y) == 6877
    assert sum(map(len, words.X)) == sum(map(len, words.y)) == 52152
    assert {x.shape[1] for x in words.X} == {128}
    assert {x.dtype for x in words.X} == {np.dtype(np.uint8)}
    assert_array_equal(np.unique(np.concatenate(words.X)), [0, 1])
    assert_array_equal(np.bincount(words.folds), FOLD_SIZES)
    assert "".join(words.label_names) == "abcdefghijklmnopqrstuvwxyz"
    assert "".join(words.label_names[k] for k in words.y[0]) == "ommanding"
    assert words.image_shape == (16, 8)


def test_ocr_folds_partition_the_words(data_home):
    small = datasets.load_ocr(folds=[0], data_home=data_home)
    large = datasets.load_ocr(folds=range(1, 10), data_home=data_home)
    assert len(small.X) == 626
    assert len(large.X) == 6251
    assert set(small.folds) == {0}
    assert set(large.folds) == set(range(1, 10))


@pytest.mark.parametrize("folds", [[], [10], [-1, 0]])
def test_ocr_refuses_unknown_folds(folds):
    with pytest.raises(ValueError, match=re.escape(f"0..9; got {folds}")):
        datasets.load_ocr(folds=folds)


def test_ocr_is_downloaded_once_and_kept(nowhere, website, letters):
    (website / "letter.data.gz").write_bytes(letters[0])
    first = datasets.load_ocr()
    (website / "letter.data.gz").unlink()
    second = datasets.load_ocr()
    assert [p.name for p in nowhere.glob("cache/ocr/*")] == ["letters.npz"]
    pixels, labels, offsets, folds = letters[1]
    for words in (first, second):
        assert_array_equal(np.concatenate(words.X), pixels)
        assert_array_equal(np.concatenate(words.y), labels)
        assert_array_equal(np.cumsum([0, *map(len, words.y)]), offsets)
        assert_array_equal(words.folds, folds)


def test_ocr_takes_the_public_file_put_by_hand(nowhere, letters):
    (nowhere / "ocr").mkdir()
    (nowhere / "ocr/letter.data.gz").write_bytes(letters[0])
    words = datasets.load_ocr(data_home=nowhere)
    assert_array_equal(np.concatenate(words.X), letters[1][0])


def test_ocr_unreachable_says_where_it_looked(nowhere, website):
    with pytest.raises(datasets.DatasetError) as caught:
        datasets.load_ocr(data_home=nowhere / "mine")
    for part in ("ocr/letters.npz", "mine", "cache", _datafiles.OCR_URL, "network"):
        assert part in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.count("Traceback") == 1  # not those of the libraries below


def test_ocr_damaged_download_is_not_kept(nowhere, website, letters):
    (website / "letter.data.gz").write_bytes(letters[0][:100_000])
    with pytest.raises(datasets.DatasetError, match="EOFError"):
        datasets.load_ocr()
    assert list(nowhere.glob("cache/ocr/*")) == []


def test_ocr_with_too_few_letters_is_refused(nowhere, letters):
    lines = gzip.decompress(letters[0]).splitlines(keepends=True)
    lines.sort(key=lambda line: int(line.split()[0]))
    (nowhere / "ocr").mkdir()
    (nowhere / "ocr/letter.data.gz").write_bytes(gzip.compress(b"".join(lines[:-1]), 1))
    with pytest.raises(datasets.DatasetError, match="52152 x 128 bits expected"):
        datasets.load_ocr(data_home=nowhere)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 no archive"])
def test_ocr_damaged_file_is_named(nowhere, content):
    path = nowhere / "ocr/letters.npz"
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(
        datasets.DatasetError, match=re.escape(f"{path} cannot be used")
    ):
        datasets.load_ocr(data_home=nowhere)


def test_data_home_comes_before_the_environment(nowhere, monkeypatch):
    for name in ("mine", "theirs"):
        (nowhere / name / "acgh").mkdir(parents=True)
        (nowhere / name / _datafiles.ACGH_FILE).touch()
    monkeypatch.setenv("WOLFPACK_DATA", str(nowhere / "theirs"))
    mine = _datafiles.find(_datafiles.ACGH_FILE, nowhere / "mine")
    assert mine == nowhere / "mine" / _datafiles.ACGH_FILE
    assert _datafiles.find(_datafiles.ACGH_FILE) == nowhere / "theirs" / (
        _datafiles.ACGH_FILE
    )


# Handwritten dates


def test_dates_are_calendar_dates_of_two_centuries():
    train, test = datasets.load_dates(n_train=5000, n_test=700)
    assert (len(train.X), len(test.X)) == (5000, 700)
    for y in train.y + test.y:
        text = "".join(map(str, y))
        date = dt.date(int(text[:4]), int(text[4:6]), int(text[6:]))
        assert 1900 <= date.year <= 2099


def test_dates_show_the_digits_they_are_labelled_with():
    images, target = load_digits(return_X_y=True)
    digit_of = {
        (image / 16).astype(np.float32).tobytes(): digit
        for image, digit in zip(images, target, strict=True)
    }
    for part in datasets.load_dates(n_train=300, n_test=100):
        assert part.X[0].shape == (8, 64)
        assert part.X[0].dtype == np.float32
        for x, y in zip(part.X, part.y, strict=True):
            assert [digit_of[row.tobytes()] for row in x] == list(y)


def test_dates_train_and_test_share_no_image_whatever_the_seed():
    train, _ = datasets.load_dates(n_train=4000, n_test=1, rng=1)
    _, test = datasets.load_dates(n_train=1, n_test=4000, rng=2)
    used = [{row.tobytes() for row in np.concatenate(p.X)} for p in (train, test)]
    assert not used[0] & used[1]
    # There are enough digits that every image is shown: 70 % and 30 % of 1797.
    assert len(used[0]) == 1258
    assert len(used[1]) == 539


def test_dates_follow_the_seed():
    one, again, other = (datasets.load_dates(20, 5, seed) for seed in (3, 3, 4))
    for part, same in zip(one, again, strict=True):
        assert_array_equal(part.X, same.X)
        assert_array_equal(part.y, same.y)
    assert not np.array_equal(one[0].y, other[0].y)


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0), (2.5, 1)])
def test_dates_refuse_bad_sizes(sizes):
    with pytest.raises(ValueError, match=r"n_(train|test) must be a whole number >= 1"):
        datasets.load_dates(*sizes)


# Text chunks


@pytest.fixture(scope="module")
def chunks(data_home):
    return {
        part: datasets.load_conll2000(part, data_home) for part in ("train", "test")
    }


def test_conll_has_the_published_contents(chunks):
    train, test = chunks["train"], chunks["test"]
    assert [len(train.X), sum(map(len, train.y))] == [8936, 211727]
    assert [len(test.X), sum(map(len, test.y))] == [2012, 47377]
    assert len(train.label_names) == 22
    assert test.label_names == [*train.label_names, "I-LST"]
    first = [train.label_names[k] for k in train.y[0][:5]]
    assert first == ["B-NP", "B-PP", "B-NP", "I-NP", "B-VP"]


def test_conll_features_are_sparse_binary_and_shared(chunks):
    p = chunks["train"].X[0].shape[1]
    assert p > 100_000
    for part in chunks.values():
        for x, y in zip(part.X, part.y, strict=True):
            assert x.shape == (len(y), p)
        x = part.X[1]
        x.check_format()
        assert x.has_canonical_format
        assert x.dtype == np.float32
        assert_array_equal(np.unique(np.concatenate([x.data for x in part.X])), [1])
    counts = np.bincount(np.concatenate([x.indices for x in chunks["train"].X]))
    assert counts.size == p
    assert counts.min() == 2


def test_conll_features_say_what_they_should(nowhere):
    (nowhere / "conll2000").mkdir()
    sentence = "The DT B-NP\nCats NNS I-NP\nsleep VBP B-VP\n"
    texts = {"train": f"{sentence}\n" * 2, "test": "the DT B-NP\nDogs NNS I-NP\n"}
    for part, text in texts.items():
        (nowhere / f"conll2000/{part}.txt.gz").write_bytes(gzip.compress(text.encode()))
    train = datasets.load_conll2000("train", nowhere)
    # All 18 templates at each token, all of them seen twice.
    assert [x.getnnz(axis=1).tolist() for x in train.X] == [[18] * 3] * 2
    assert_array_equal(train.X[0].toarray(), train.X[1].toarray())
    # 14 windows: at each offset as many values as there are tokens, less where the
    # boundary stands in for two; "Xx" is the shape of two words.
    assert train.X[0].shape[1] == 2 * (2 + 3 + 3 + 3 + 2 + 3 + 3) + 3 + 2 + 3 + 3

    test = datasets.load_conll2000("test", nowhere)
    assert test.label_names == train.label_names
    assert test.X[0].shape == (2, train.X[0].shape[1])
    common = test.X[0].multiply(train.X[0][:2]).toarray().sum(axis=1)
    # "the" before "Dogs" loses the word after it, the bigram with it, the tag two
    # after it (VBP), the word two after it, and its shape.
    assert common[0] == 18 - 5


def test_conll_refuses_another_part():
    with pytest.raises(ValueError, match="'train' or 'test'; got 'dev'"):
        datasets.load_conll2000("dev")


def test_conll_with_a_broken_line_is_refused(nowhere):
    (nowhere / "conll2000").mkdir()
    path = nowhere / "conll2000/train.txt.gz"
    path.write_bytes(gzip.compress(b"word NN B-NP\nhalf\n"))
    with pytest.raises(datasets.DatasetError, match="three columns"):
        datasets.load_conll2000("train", nowhere)


# Signals


def test_acgh_has_the_published_contents(data_home):
    Y = datasets.load_acgh(data_home)
    assert Y.shape == (2215, 43)
    assert Y.dtype == np.float64
    assert np.isfinite(Y).all()
    assert Y[0, 0] == -0.144415


@pytest.mark.parametrize("load", [datasets.load_acgh, datasets.load_conll2000])
def test_missing_files_say_what_to_do(nowhere, load):
    with pytest.raises(datasets.DatasetError) as caught:
        load(data_home=nowhere)
    message = str(caught.value)
    assert "was not found in data_home" in message
    assert str(nowhere) in message
    assert "WOLFPACK_DATA" in message


@pytest.mark.parametrize("seed", [0, 7])
def test_piecewise_is_the_documented_generator(seed):
    n, d, nseg, sigma = 60, 3, 5, 0.2
    r = np.random.default_rng(seed)
    cp = np.sort(r.choice(np.arange(1, n), nseg - 1, replace=False))
    lev = r.standard_normal((nseg, d))
    Y = lev[np.searchsorted(cp, np.arange(n), side="right")]
    Y = Y + sigma * r.standard_normal((n, d))
    noisy, clean, change_points = datasets.make_piecewise(n, d, nseg, sigma, seed)
    assert_array_equal(noisy, Y)
    assert_array_equal(change_points, cp)
    assert_array_equal(np.flatnonzero(np.diff(clean, axis=0).any(axis=1)) + 1, cp)


def test_piecewise_with_one_or_all_pieces():
    noisy, clean, change_points = datasets.make_piecewise(4, 2, n_segments=1, noise=0)
    assert change_points.size == 0
    assert_array_equal(noisy, clean)
    assert_array_equal(clean, np.tile(clean[0], (4, 1)))
    assert_array_equal(datasets.make_piecewise(4, 2, n_segments=4)[2], [1, 2, 3])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n must be a whole number >= 1; got 0"),
        ({"d": 1.5}, "d must be a whole number >= 1; got 1.5"),
        ({"n": 5, "n_segments": 6}, "n_segments must be a whole number from 1 to 5"),
        ({"noise": -1}, "noise must be a finite number >= 0; got -1"),
        ({"noise": np.nan}, "noise must be a finite number"),
    ],
)
def test_piecewise_refuses_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        datasets.make_piecewise(**arguments)


# Chains


def test_chains_have_sorted_ones_one_a_group():
    chains = datasets.make_chains(
        n=20, length=(3, 6), n_labels=4, n_features=11, n_active=3
    )
    assert len(chains.X) == len(chains.y) == 20
    assert {len(y) for y in chains.y} <= {*range(3, 7)}
    assert max(map(np.max, chains.y)) < 4 == len(chains.label_names)
    edges = np.array([0, 3, 7, 11])
    for x, y in zip(chains.X, chains.y, strict=True):
        assert x.shape == (len(y), 11)
        assert x.dtype == np.float32
        assert x.has_canonical_format
        assert_array_equal(x.data, 1)
        columns = x.indices.reshape(len(y), 3)
        assert (edges[:-1] <= columns).all()
        assert (columns < edges[1:]).all()


def test_chains_depend_on_the_seed_alone():
    one, same, other = (datasets.make_chains(n=5, rng=seed) for seed in (3, 3, 4))
    for x, z in zip(one.X, same.X, strict=True):
        assert_array_equal(x.toarray(), z.toarray())
    assert_array_equal(np.concatenate(one.y), np.concatenate(same.y))
    assert {*map(len, one.y)} != {*map(len, other.y)}


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_chains_features_tell_the_label_unless_all_are_noise(noise):
    chains = datasets.make_chains(n=50, n_labels=5, noise=noise)
    columns = np.concatenate([x.indices.reshape(-1, 10) for x in chains.X])
    labels = np.concatenate(chains.y)
    shares = [
        np.bincount(columns[labels == label, 0], minlength=20).max()
        / (labels == label).sum()
        for label in range(5)
    ]
    assert min(shares) == 1 if noise == 0 else max(shares) < 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "n must be a whole number >= 1; got 0"),
        ({"length": (0, 5)}, "length[0] must be a whole number >= 1; got 0"),
        ({"length": (5, 4)}, "length[1] must be a whole number >= 5; got 4"),
        ({"n_labels": 0}, "n_labels must be a whole number >= 1; got 0"),
        ({"n_active": 300}, "n_active must be a whole number from 1 to 200; got 300"),
        ({"noise": np.nan}, "noise must lie in [0, 1]; got nan"),
    ],
)
def test_chains_refuse_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        datasets.make_chains(**arguments)


def test_speech_stands_around_the_centres():
    speech = datasets.make_speech(
        n=60, length=(30, 60), n_labels=4, n_features=5, noise=0.5
    )
    same = datasets.make_speech(
        n=60, length=(30, 60), n_labels=4, n_features=5, noise=0.5
    )
    for x, y, z in zip(speech.X, speech.y, same.X, strict=True):
        assert x.shape == (len(y), 5)
        assert x.dtype == np.float32
        assert_array_equal(x, z)
    X, y = np.concatenate(speech.X), np.concatenate(speech.y)
    for label in range(4):
        own = X[y == label]
        assert own.std(axis=0) == pytest.approx(0.5, rel=0.2)


def test_speech_refuses_bad_noise():
    with pytest.raises(ValueError, match="noise must be finite and >= 0; got -1"):
        datasets.make_speech(noise=-1)


# The list


def test_available_says_where_or_how(nowhere):
    rows = {row["name"]: row for row in datasets.available()}
    assert "downloaded on first use" in rows["ocr"]["where"]
    assert "WOLFPACK_DATA" in rows["acgh"]["where"]
    assert list(nowhere.iterdir()) == []


def test_available_finds_the_files(data_home, monkeypatch):
    monkeypatch.setenv("WOLFPACK_DATA", str(data_home))
    rows = {row["name"]: row for row in datasets.available()}
    assert rows["acgh"]["where"] == str(data_home / _datafiles.ACGH_FILE)

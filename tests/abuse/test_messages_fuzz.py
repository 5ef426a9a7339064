"""Messages of all kinds against a server: refused, or taken without harm."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from played import exact_v
from test_service import begin, chain, lasso, solve_blocks

from wolfpack.engines.cluster.messages import (
    HEAD,
    NOWHERE,
    Chunk,
    Format,
    as_v,
    pack_words,
    read_reply,
    read_v,
)
from wolfpack.engines.cluster.server_actor import ServerActor
from wolfpack.update.inbox import is_too_late, note_delay
from wolfpack.update.plan import N_DELAYS, TALLY, Exit

bounded = settings(max_examples=60, deadline=None, derandomize=True)
MARGIN, UNTOUCHED = 4096, 77
PROBLEMS = {"lasso": lasso(), "chain": chain()}

EDGES = [-(2**63), -(2**62), -(2**32), -2, -1, 0, 1, 2, 2**31, 2**62, 2**63 - 1]
near_an_edge = st.builds(
    lambda edge, shift: int(np.clip(edge + shift, -(2**63), 2**63 - 1)),
    st.sampled_from(EDGES),
    st.integers(-300, 300),
)
words = st.one_of(near_an_edge, st.integers(-(2**63), 2**63 - 1))


def fenced_tally():
    """Return a tally of zeros, and the array around it, which no write may reach."""
    size = TALLY.itemsize // 8
    around = np.full(size + 2 * MARGIN, UNTOUCHED, np.int64)
    inside = around[MARGIN : MARGIN + size]
    inside[:] = 0
    return inside.view(TALLY).view(np.recarray)[0], around


def assert_untouched(around):
    assert (around[:MARGIN] == UNTOUCHED).all()
    assert (around[-MARGIN:] == UNTOUCHED).all()


class Target:
    """A server after a few updates, without Ray, and a fence around its tally."""

    def __init__(self, problem):
        self.problem, self.service = problem, begin(problem, 2)
        self.form, self.server = Format(problem), ServerActor()
        self.service.tally, self.around = fenced_tally()
        for i in range(8):
            self.service.take(solve_blocks(self.service, [i, i + 1]))
        self.server.service, self.server.format = self.service, self.form
        self.server.next_save = np.inf

    def message(self, *blocks):
        return self.form.pack(1, solve_blocks(self.service, blocks))

    def push(self, message):
        """Return whether a message was taken; raise only what a worker may hear."""
        try:
            reply = self.server.push(message)
        except ValueError:
            taken = False
        else:
            known, go, stop = read_reply(reply)
            assert known == (self.service.life, self.service.version)
            assert (go, stop) == (self.service.is_open, False)
            taken = True
        self.assert_sound()
        return taken

    def assert_sound(self):
        assert_untouched(self.around)
        tally, state = self.service.tally, self.service.state
        assert (tally.histogram >= 0).all()
        if self.service.is_open:  # each update has two blocks
            assert tally.histogram.sum() == 2 * state.n_updates
        exact = exact_v(self.problem, state)
        close = {"rtol": 0, "atol": 1e-5 * max(1.0, np.abs(exact).max())}
        np.testing.assert_allclose(state.shared, exact, **close)


@pytest.fixture(params=PROBLEMS, scope="module")
def aim(request):
    """Return a function that returns a server: the last one, unless that stopped."""
    targets = [Target(PROBLEMS[request.param])]

    def choose():
        if not targets[-1].service.is_open:
            targets.append(Target(PROBLEMS[request.param]))
        return targets[-1]

    return choose


@bounded
@given(data=st.binary(max_size=120))
def test_random_bytes(aim, data):
    target = aim()
    before = target.service.version
    target.push(data)
    target.push(pack_words(0, 0, 0, 1) + data)
    assert target.service.version - before <= 1


@bounded
@given(place=st.integers(0, HEAD - 1), word=words)
def test_any_word_in_a_head(aim, place, word):
    target = aim()
    message = target.message(3, 5, 6)
    changed = message[: 8 * place] + pack_words(word) + message[8 * (place + 1) :]
    taken = target.push(changed)
    assert not (taken and word < (NOWHERE[1] if place == 2 else 0))
    assert target.service.is_open
    assert target.push(message)


@bounded
@given(
    edits=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4),
    cut=st.integers(0, 40),
    more=st.binary(max_size=40),
)
def test_damaged_messages(aim, edits, cut, more):
    target = aim()
    message = bytearray(target.message(3, 5, 6))
    for at, byte in edits:
        message[at % len(message)] = byte
    target.push(bytes(message[: len(message) - cut]) + more)


@bounded
@given(data=st.one_of(st.binary(max_size=80), st.binary(min_size=56, max_size=56)))
def test_replies_that_are_none(data):
    like = np.zeros((3, 2), np.float32)
    try:
        known, go, stop = read_reply(data)
        v = read_v(data, like)
    except ValueError:
        return
    assert known >= NOWHERE
    assert {go, stop} <= {True, False}
    assert v is None or (v.shape, v.dtype) == (like.shape, like.dtype)


@pytest.mark.parametrize(
    "found", [None, np.zeros((2, 3)), np.zeros((3, 2), np.float32), b"v", [0.0] * 6]
)
def test_a_stored_v_that_is_none(found):
    with pytest.raises(ValueError, match=r"v must have shape \(3, 2\) and type float"):
        as_v(found, np.zeros((3, 2)))


@pytest.mark.parametrize("message", [None, "text", 5, [1, 2], b""])
def test_what_is_no_message(message):
    with pytest.raises(ValueError, match="a message of 0 bytes has no head"):
        Target(lasso()).server.push(message)


def test_versions_that_wrap_around():
    target = Target(lasso())
    k = target.service.version
    for j in range(k):  # k - version would be -2**63 + j
        bad = pack_words(0, target.service.life, -(2**63) + k - j, 1)
        with pytest.raises(ValueError, match=r"version -922\d+; it must be -1 or more"):
            target.form.unpack(bad + target.message(3)[8 * HEAD :])
    chunk = solve_blocks(target.service, [3, 4])
    for version in (-(2**63), -(2**80), -5, 2**63 - 1, 2**80):
        target.service.take(chunk._replace(version=version))
        target.assert_sound()
    assert target.service.ended == Exit.DONE
    assert target.service.tally.dropped > 0


@pytest.mark.parametrize("delay", [*EDGES, -(2**63) + 40, -17, 255, 256, 10**6])
def test_no_delay_is_counted_outside_the_histogram(delay):
    tally, around = fenced_tally()
    note_delay(tally, np.int64(delay))
    assert_untouched(around)
    assert tally.histogram.sum() == 1
    assert tally.histogram[min(max(delay, 0), N_DELAYS - 1)] == 1
    assert is_too_late(tally, np.int64(delay), np.int64(9)) == (2 * delay > 9)


def test_an_empty_chunk_is_no_update():
    target = Target(lasso())
    before = target.service.version
    empty = Chunk(np.zeros(0, np.int64), np.zeros((0, 3)), before, target.service.life)
    target.service.take(empty)
    assert target.service.version == before
    target.assert_sound()

"""Atomic operations under more threads than cores: nothing is lost, nothing is torn."""

import os
import re
import threading
from pathlib import Path

import numba
import numpy as np
import pytest

from wolfpack.kernels.atomics import (
    acquire,
    compare_exchange,
    fetch_add,
    load_acquire,
    relax,
    release,
    store_release,
)
from wolfpack.kernels.memory import (
    CACHE_LINE,
    HUGE_PAGES,
    OWN_PAGES,
    copy,
    widen,
    zeros,
)

N_THREADS = 6  # more than the two cores of a small machine
MANY = 300_000


def at_once(function, *args, n_threads=N_THREADS):
    """Call function(t, *args) in all threads, compiled before they start."""
    ready = threading.Barrier(n_threads)
    failed = []

    def work(t):
        ready.wait()
        try:
            function(t, *args)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(t,)) for t in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@numba.njit(nogil=True)
def hammer(t, array, index, value, times, seen):
    for _ in range(times):
        seen[t] += fetch_add(array, index, value)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float64, np.float32])
def test_no_addition_is_lost(dtype):
    array, seen = zeros(3, dtype), np.zeros(N_THREADS)
    hammer(0, array, 1, dtype(1), 0, seen)
    at_once(hammer, array, 1, dtype(1), MANY, seen)
    total = N_THREADS * MANY
    assert array.tolist() == [0, total, 0]  # and its neighbours are left alone
    # Each value 0, 1, ... was there before exactly one addition.
    assert seen.sum() == total * (total - 1) / 2


@numba.njit(nogil=True)
def hammer_fractions(t, array, times):
    for k in range(times):
        fetch_add(array, k % array.size, 0.25 if t % 2 == 0 else -0.125)


def test_fractions_add_up_exactly():
    array = zeros(5)
    hammer_fractions(0, array, 0)
    at_once(hammer_fractions, array, MANY)
    half = N_THREADS // 2
    np.testing.assert_array_equal(array, half * (0.25 - 0.125) * MANY / 5)


@numba.njit(nogil=True)
def win(t, owners, winners, wins):
    for i in range(owners.size):
        if compare_exchange(owners, i, 0, 1):
            winners[i] += t + 1
            wins[t] += 1


def test_an_exchange_has_one_winner():
    for dtype in (np.int8, np.int64):
        owners = zeros(200_000, dtype)
        winners, wins = np.zeros(owners.size, np.int64), np.zeros(N_THREADS, np.int64)
        win(0, owners[:0], winners, wins)
        at_once(win, owners, winners, wins)
        assert (owners == 1).all()
        assert wins.sum() == owners.size
        expected = np.bincount(winners, minlength=N_THREADS + 1)
        assert expected.tolist() == [0, *wins.tolist()]  # no other write is in there


def test_an_exchange_leaves_another_value_alone():
    @numba.njit
    def exchange(array, old, new):
        return compare_exchange(array, 0, old, new)

    array = np.array([7])
    assert not exchange(array, 3, 4)
    assert array[0] == 7
    assert exchange(array, 7, 4)
    assert array[0] == 4


@numba.njit(nogil=True)
def count_under_lock(t, words, counter, times):
    for _ in range(times):
        if acquire(words, 0, words, 8):
            counter[0] += 1  # plain: only the lock protects it
            counter[1] = counter[0]
            release(words, 0)


def test_a_lock_protects_a_plain_counter():
    words, counter = zeros(16, np.int64), np.zeros(2, np.int64)
    count_under_lock(0, words, counter, 0)
    at_once(count_under_lock, words, counter, 50_000)
    assert counter.tolist() == [N_THREADS * 50_000] * 2
    assert words[0] == 0  # given back


@numba.njit(nogil=True)
def try_to_acquire(words):
    return acquire(words, 0, words, 8)


def test_a_lock_is_given_up_once_it_is_all_over():
    words = zeros(16, np.int64)
    assert try_to_acquire(words)
    assert words[0] == 1
    answers = []
    thread = threading.Thread(target=lambda: answers.append(try_to_acquire(words)))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()  # it waits
    words[8] = 1
    thread.join()
    assert answers == [False]
    assert words[0] == 1  # it was not its to give back


@numba.njit(nogil=True)
def pass_on(t, flag, message, times, wrong):
    """Thread 0 writes a message and raises the flag; thread 1 reads and lowers it."""
    for k in range(times):
        spins = 0
        while load_acquire(flag, 0) != t:
            relax(spins)
            spins += 1
        for j in range(message.size):
            if t == 0:
                message[j] = k
            elif message[j] != k:
                wrong[0] += 1
        store_release(flag, 0, 1 - t)


def test_what_is_released_is_seen():
    flag, message, wrong = zeros(8, np.int64), zeros(40), np.zeros(1, np.int64)
    pass_on(0, flag, message, 0, wrong)
    at_once(pass_on, flag, message, 5000, wrong, n_threads=2)
    assert wrong[0] == 0


@pytest.mark.parametrize("shape", [0, 1, 7, (3, 5), (0, 4), (2, 3, 33), (50, 41)])
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.int64])
def test_memory_starts_at_a_cache_line(shape, dtype):
    arrays = [zeros(shape, dtype) for _ in range(5)]
    lines = []
    for array in arrays:
        assert array.shape == ((shape,) if isinstance(shape, int) else shape)
        assert array.dtype == dtype
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert not array.any()
        assert array.size == 0 or array.ctypes.data % CACHE_LINE == 0
        begin = array.ctypes.data
        lines += {place // CACHE_LINE for place in range(begin, begin + array.nbytes)}
    assert len(lines) == len(set(lines))  # no line belongs to two of them


def test_a_copy_is_its_own():
    original = np.arange(6.0).reshape(2, 3)
    other = copy(original, np.float32)
    assert other.dtype == np.float32
    assert other.ctypes.data % CACHE_LINE == 0
    other[0, 0] = 9
    assert original[0, 0] == 0
    np.testing.assert_array_equal(copy(original), original)


@pytest.mark.parametrize("size", [3, 2 * OWN_PAGES])
def test_a_wider_copy_is_the_same_numbers(size):
    numbers = np.arange(size, dtype=np.float32)
    for original in (numbers, 0 * numbers):
        wide = widen(original)
        assert wide.dtype == np.float64
        np.testing.assert_array_equal(wide, original)
        wide += 1.0  # it can be written to, and is its own memory
        assert not (original == wide).any()


def test_a_child_process_has_large_arrays_of_its_own():
    array = zeros(2 * OWN_PAGES)
    child = os.fork()
    if child == 0:
        array[:] = 1.0
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert not array.any()


def test_an_array_that_is_too_large_is_refused():
    with pytest.raises(MemoryError):
        zeros(2**58)


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(),
    reason="this system has no huge pages",
)
def test_a_large_array_asks_for_huge_pages():
    assert "hg" not in flags_of(zeros(OWN_PAGES, np.uint8))
    assert "hg" in flags_of(zeros(HUGE_PAGES, np.uint8))


def flags_of(array):
    """Return what Linux knows about the pages of an array."""
    is_inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *others = line.split()
        if re.fullmatch("[0-9a-f]+-[0-9a-f]+", first):
            low, high = (int(end, 16) for end in first.split("-"))
            is_inside = low <= array.ctypes.data < high
        elif is_inside and first == "VmFlags:":
            return others
    pytest.skip("this kernel does not say")

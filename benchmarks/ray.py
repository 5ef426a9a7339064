"""What a cluster costs: messages, stragglers, and a server that can be too busy.

    WOLFPACK_DATA=... python benchmarks/ray.py [--sections messages,...] [--fast]
        [--out FOLDER]

messages   messages and atoms per second to one server, how busy it is and how long it
           takes a message, bytes an atom: on the OCR words, where workers do little but
           send, and on a group fused lasso whose oracle is asleep for 1 ms
overhead   seconds a pass against `Threads(T, "server")` with as many workers
straggler  seconds a pass of 8 workers, without and with one that is 10 times slower;
           and where the server waits for all of them, as the synchronous algorithm does
knee       simulated, with 0.45 ms of the server a message: how many workers one server
           can serve, if their messages hold 20 or 100 ms of oracle calls

Oracles are asleep, so that 8 workers fit on 2 cores and what is measured is the way of
the messages. Prints each row as it is measured, and writes it to ray.csv; the machine's
facts are in ray_machine.json beside it. Takes about 4 minutes.
"""

import sys

sys.path.append(sys.path.pop(0))  # so that `import ray` does not find this file

import argparse
import statistics
import tempfile
from pathlib import Path

import _ray_cases as cases
import ray
from _book import Book
from _threads_cases import machine

import wolfpack
from wolfpack import Delayed, Ray, Threads
from wolfpack.delays import Workers
from wolfpack.engines.cluster.connect import connect
from wolfpack.engines.threads import count_cores

COLUMNS = {
    "section": "<9", "case": "<22", "workers": ">7d", "chunk": ">5d",
    "messages_per_second": ">19.0f", "atoms_per_second": ">16.0f", "server": ">6.3f",
    "server_ms": ">9.3f", "bytes_per_atom": ">14.1f", "delay": ">7.1f",
    "seconds_per_pass": ">16.4f", "threads": ">8.4f", "ratio": ">6.3f",
}  # fmt: skip
MESSAGE_SECONDS = 5e-4  # that a message is in flight
# That a message costs the server; the section `messages` finds 0.32 to 0.39 ms for
# the thread that takes them.
SERVER_SECONDS = 4.5e-4


def run_messages(book, fast) -> None:
    """Count messages."""
    data = wolfpack.load_ocr()
    ocr = wolfpack.chain_ssvm(data.X, data.y, alpha=0.01)
    nap = cases.asleep(1000, 1000)
    book.begin(
        "messages", "to one server", ("case", "workers", "chunk", "messages_per_second",
        "atoms_per_second", "server", "server_ms", "bytes_per_atom", "delay"),
    )  # fmt: skip
    for case, problem, T, chunk in (
        ("OCR, as many as can be", ocr, 2, 1),
        ("OCR", ocr, 2, "auto"),
        ("OCR", ocr, 4, "auto"),
        ("lasso, 1 ms", nap, 2, "auto"),
        ("lasso, 1 ms", nap, 8, "auto"),
    ):
        result, rate = cases.run_for(problem, Ray(None, T, chunk), 4 if fast else 10)
        traffic = result.traffic
        pushes = rate / traffic.chunk
        book.add(
            case=case, workers=T, chunk=traffic.chunk, messages_per_second=pushes,
            atoms_per_second=rate, server=traffic.server_utilisation,
            server_ms=1e3 * traffic.server_utilisation / pushes,
            bytes_per_atom=traffic.bytes_per_atom, delay=result.delay.mean,
        )  # fmt: skip


def run_overhead(book, fast) -> None:
    """Compare with threads."""
    T = count_cores()
    book.begin(
        "overhead", "seconds a pass, and over those of threads", ("case", "workers",
        "chunk", "seconds_per_pass", "threads", "ratio"),
    )  # fmt: skip
    for case, micros, n in (("oracle 1 ms", 1000, 1000), ("oracle 10 ms", 10_000, 200)):
        problem, spell = cases.asleep(n, micros), 5 if fast else 12
        threads = cases.run_for(problem, Threads(T, "server"), spell, batch_size=1)[1]
        result, rate = cases.run_for(problem, Ray(None, T), spell)
        book.add(
            case=case, workers=T, chunk=result.traffic.chunk, threads=n / threads,
            seconds_per_pass=n / rate, ratio=threads / rate,
        )  # fmt: skip


def run_straggler(book, fast) -> None:
    """Compare with all waiting for the slowest."""
    n, micros, T, chunk = 1000, 1000, 8, 20
    spell, rounds = (5, 20) if fast else (12, 60)
    book.begin(
        "straggler", "seconds a pass, 8 workers, oracle 1 ms", ("case", "workers",
        "chunk", "seconds_per_pass", "ratio"),
    )  # fmt: skip
    for name, measure in (
        ("asynchronous", lambda problem: n / cases.run_for(problem, Ray(None, T, chunk),
                                                           spell)[1]),
        ("synchronous", lambda problem: cases.seconds_per_pass_in_step(
            ray, problem, T, chunk, rounds)),
    ):  # fmt: skip
        alike = statistics.median(
            measure(cases.asleep(n, micros)) for _ in range(1 if fast else 3)
        )
        book.add(case=name, workers=T, chunk=chunk, seconds_per_pass=alike, ratio=1.0)
        slow = []
        for _ in range(1 if fast else 3):
            with tempfile.TemporaryDirectory() as folder:
                slow.append(measure(cases.with_straggler(n, micros, folder)))
        spent = statistics.median(slow)
        book.add(
            case=f"{name}, one slow", workers=T, chunk=chunk, seconds_per_pass=spent,
            ratio=spent / alike,
        )  # fmt: skip


def run_knee(book, fast) -> None:
    """Find where one server is too busy, by simulation: a message is a block here."""
    problem = wolfpack.group_fused_lasso(wolfpack.make_piecewise(1001, 10)[0], 0.5)
    book.begin(
        "knee", "simulated: messages per second", ("case", "workers",
        "messages_per_second", "server", "ratio"),
    )  # fmt: skip
    for work in (0.02, 0.1):
        for T in (8, 16, 32, 64, 128, 256, 512)[: 3 if fast else 7]:
            workers = Workers(
                T, oracle_seconds=work, message_seconds=MESSAGE_SECONDS,
                take_seconds=SERVER_SECONDS,
            )  # fmt: skip
            play = wolfpack.solve(
                problem, engine=Delayed(workers=workers), batch_size=1, tol=0,
                max_epochs=20, check_every=1e9, rng=0,
            )  # fmt: skip
            rate = play.n_oracle_calls / play.simulated.seconds
            book.add(
                case=f"{1e3 * work:.0f} ms of work each", workers=T,
                messages_per_second=rate, server=play.simulated.server_utilisation,
                ratio=rate * work / T,
            )  # fmt: skip


SECTIONS = {
    "messages": run_messages, "overhead": run_overhead, "straggler": run_straggler,
    "knee": run_knee,
}  # fmt: skip


def main() -> None:
    """Run the sections asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    here = Path(__file__).parent / "results"
    parser.add_argument("--sections", default=",".join(SECTIONS))
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--out", type=Path, default=here)
    asked = parser.parse_args()
    connect(ray, None, count_cores())
    facts = {**machine(), "ray": ray.__version__}
    book = Book(asked.out, "ray", COLUMNS, facts)
    for name in asked.sections.split(","):
        SECTIONS[name](book, asked.fast)
    ray.shutdown()


if __name__ == "__main__":
    main()

"""Steps per second of the serial engine against the feasibility prototype.

Both run plain BCFW (one block an update, line search, uniform sampling) on the full
OCR data at the same regularisation, in turns, in one process, so that the machine's
noise hits both alike. The ratio is what counts.

    python benchmarks/serial.py [--prototype PATH] [--rounds 7] [--seconds 1]

Without the prototype (proto.py and its letters.npz) only wolfpack is timed.
"""

import argparse
import importlib.util
import statistics
import sys
from pathlib import Path

import numpy as np

import wolfpack
from wolfpack.datasets import DatasetError, load_ocr

ALPHA = 0.01
HERE = Path(__file__).resolve().parent
DEFAULT = HERE.parent.parent / "shared" / "prototypes" / "proto.py"


def load_prototype(path: Path):
    """Import proto.py and compile its sequential engine."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location("proto", path)
    proto = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(proto)
    data = proto.Data(path.parent / "letters.npz", 0)
    proto.State0 = proto.State(data)
    proto.run_engine(data, "seq", 1, 0, ALPHA, 1, 1, warm=True)
    state = proto.State0.copy()
    proto.rebuild(data.tup, state.tup, ALPHA, np.zeros(proto.R * 32))
    proto.gap_eval(data.tup, state.tup, state.W, ALPHA)
    return lambda seconds: _rate_of(proto, data, seconds)


def _rate_of(proto, data, seconds: float) -> float:
    curve, errors = proto.run_engine(data, "seq", 1, seconds, ALPHA, 1, 1)
    assert not errors, errors
    return curve[-1][1] / curve[-1][0]


def wolfpack_rate(problem, seconds: float) -> float:
    """Return updates per second of solving, checks not counted."""
    result = wolfpack.solve(
        problem,
        accelerate=False,
        tol=0,
        max_epochs=np.inf,
        max_seconds=seconds,
        check_every=1e9,
        rng=0,
    )
    return result.n_updates / result.seconds


def main() -> None:
    """Time both in turns and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--prototype", type=Path, default=DEFAULT)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    try:
        words = load_ocr()
    except DatasetError as error:
        raise SystemExit(f"benchmarks/serial.py needs the OCR data: {error}") from None
    problem = wolfpack.chain_ssvm(words.X, words.y, ALPHA)
    wolfpack_rate(problem, 0.2)
    prototype = None
    if options.prototype.exists():
        prototype = load_prototype(options.prototype)
    print(f"OCR, {problem.n_blocks} words, alpha {ALPHA}; thousand steps per second")
    rates, ratios = [], []
    for k in range(options.rounds):
        rates.append(wolfpack_rate(problem, options.seconds) / 1e3)
        line = f"round {k}: wolfpack {rates[-1]:7.1f}"
        if prototype is not None:
            theirs = prototype(options.seconds) / 1e3
            ratios.append(rates[-1] / theirs)
            line += f"   prototype {theirs:7.1f}   ratio {ratios[-1]:5.2f}"
        print(line)
    print(f"median of {options.rounds} rounds: {statistics.median(rates):.1f}")
    if ratios:
        print(f"median ratio to the prototype: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()

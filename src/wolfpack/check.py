"""Try a problem on a few blocks before any compiled loop starts.

In compiled code a wrong index writes over foreign memory and a typing error is a page
of compiler output. So each function first runs alone, compiled with bounds checking,
and what it returns is compared with what the other functions say about the same atom.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core.errors import NumbaError

from wolfpack import _slots
from wolfpack._inputs import is_number
from wolfpack._trial import Fault, visit, with_bounds
from wolfpack.problem import OPTIONAL, REQUIRED, Problem, ProblemError


def check(problem: Problem) -> None:
    """Raise `ProblemError` if a function of `problem` misbehaves on its data."""
    _check_arrays(problem)
    given = {}
    for name in REQUIRED + OPTIONAL:
        function = getattr(problem, name)
        if function is None and name in REQUIRED:
            raise ProblemError(f"{name} is missing: a Problem needs {_list(REQUIRED)}.")
        if function is not None:
            _check_signature(name, function)
            given[name] = function
    if (problem.prepare is None) != (problem.spread is None):
        raise ProblemError("prepare and spread belong together: give both or none.")
    functions = with_bounds(given)
    few = sorted({0, problem.n_blocks // 2, problem.n_blocks - 1})
    blocks = [_Block(problem, functions, i) for i in few]
    for block in blocks:
        block.member(block.start, "start")
        block.image(block.start)
    v = _start(problem, functions).astype(problem.shared.dtype)
    for block in blocks:
        block.check(v)


def _start(problem: Problem, functions: dict[str, Callable]) -> np.ndarray:
    """Return v0 + A x of the start, after a look at every block of it.

    A start outside its set would make every bound wrong. `score` is left out: it may
    be as slow as an oracle.
    """
    blocks = problem.store.create(problem.start, problem.offsets, 1)
    names = [name for name in ("contains", "add") if name in functions]
    try:
        v = visit(problem, blocks, {name: functions[name] for name in names})
    except Fault as fault:
        if fault.error is None:
            start = _Block(problem, functions, fault.block).start
            raise ProblemError(_outside("start", fault.block, start)) from None
        what = " or ".join(names)
        raise _sentence(what, fault.block, fault.error) from fault.error
    except NumbaError as error:
        raise _sentence(" or ".join(names), 0, error) from error
    if not np.isfinite(v).all():
        raise ProblemError("add wrote NaN or infinity for the start of some block.")
    return v


def check_scale(problem: Problem) -> None:
    """Refuse a scale that no tolerance can be relative to."""
    if not (is_number(problem.scale) and 0 < problem.scale < np.inf):
        raise ProblemError(
            f"scale must be positive, a finite number, but is {problem.scale!r}."
        )


def _check_arrays(problem: Problem) -> None:
    shared, start, offsets = problem.shared, problem.start, problem.offsets
    for name, array in (("shared", shared), ("start", start)):
        if not isinstance(array, np.ndarray):
            given = type(array).__name__
            raise ProblemError(f"{name} must be a NumPy array, but is a {given}.")
        if not array.flags.c_contiguous:
            raise ProblemError(f"{name} must be C-contiguous: np.ascontiguousarray it.")
        if array.size == 0:
            raise ProblemError(f"{name} is empty: there is nothing to solve.")
        if not np.isfinite(array).all():
            raise ProblemError(f"{name} holds NaN or infinity; make it finite.")
    check_scale(problem)
    if shared.dtype not in (np.float32, np.float64):
        raise ProblemError(f"shared must be float32 or float64, but is {shared.dtype}.")
    if offsets is None:
        if start.ndim != 2 or start.dtype.kind != "f":
            raise ProblemError(
                "without offsets, start must be a float array (n blocks, m entries), "
                f"but is {start.dtype} of shape {start.shape}."
            )
        return
    if start.ndim != 1 or len(offsets) < 2 or offsets[-1] != len(start):
        raise ProblemError(
            f"with offsets, start must be one-dimensional with offsets[-1] entries; "
            f"offsets end at {offsets[-1]}, start has shape {start.shape}."
        )
    if (np.diff(offsets) < 1).any() or offsets[0] != 0:
        raise ProblemError("offsets must start at 0 and increase: no atom is empty.")


def _check_signature(name: str, function: Callable) -> None:
    needed = list(inspect.signature(getattr(_slots, name)).parameters)
    python = getattr(function, "py_func", function)
    try:
        inspect.signature(python).bind(*needed)
    except TypeError:
        given = inspect.signature(python)
        raise ProblemError(
            f"{name}{given} cannot be called as {name}({', '.join(needed)})."
        ) from None


class _Block:
    """The checks on one block."""

    def __init__(
        self, problem: Problem, functions: dict[str, Callable], i: int
    ) -> None:
        self.problem, self.functions, self.i = problem, functions, i
        self.precise = 1e-6 if problem.shared.dtype == np.float64 else 1e-3

    @property
    def start(self) -> np.ndarray:
        """The atom or vector that the block starts with, with room as in a run."""
        problem, i = self.problem, self.i
        point = np.zeros(problem.atom_size, problem.start.dtype)
        if problem.offsets is None:
            point[:] = problem.start[i]
        else:
            begin, end = problem.offsets[i : i + 2]
            point[: end - begin] = problem.start[begin:end]
        return point

    def call(self, name: str, *args: Any) -> Any:
        """Call a function; turn what goes wrong into a sentence."""
        try:
            return self.functions[name](*args)
        except Exception as error:
            raise _sentence(name, self.i, error) from error

    def number(self, name: str, *args: Any) -> float:
        """Call a function that must return a finite number."""
        result = self.call(name, *args)
        try:
            number = float(result)
        except (TypeError, ValueError):
            raise ProblemError(
                f"{name} on block {self.i} returned {result!r}; a number is needed."
            ) from None
        if not np.isfinite(number):
            raise ProblemError(
                f"{name} on block {self.i} returned {number}; it must be finite."
            )
        return number

    def check(self, v: np.ndarray) -> None:
        """Run the oracle at v, then hold the other functions against it."""
        problem, data, i, point = self.problem, self.problem.data, self.i, self.start
        atom, before = np.zeros_like(point), v.copy()
        least = self.number("oracle", data, v, i, atom, problem.work())
        if not np.isfinite(atom).all():
            raise ProblemError(
                f"oracle wrote NaN or infinity into the atom of block {i}."
            )
        self.member(atom, "oracle")
        if not np.array_equal(v, before):
            raise ProblemError("oracle wrote into shared; it may only read it.")
        score = self.number("score", data, v, i, atom)
        self.agree(least, score, "oracle returned {}, but score of its atom is {}")
        other = self.number("score", data, v, i, point)
        if least > other + self.precise * (abs(least) + abs(other)):
            raise ProblemError(
                f"oracle is no minimiser on block {i}: its atom scores {least:.6g}, "
                f"the start {other:.6g}, which is lower. Is a sign the wrong way?"
            )
        self.line(v, atom, point)
        if problem.curvature is not None or problem.prepare is not None:
            self.fused(v, atom, other - score)
        if problem.minimiser is not None:
            self.call("minimiser", data, v, i, point, problem.work())
            self.member(point, "minimiser")

    def line(self, v: np.ndarray, atom: np.ndarray, point: np.ndarray) -> None:
        """Hold `add` and `slope` against `score`, here and one step further.

        Where v is 0 at the start a wrong sign in `add` shows only after a step.
        """
        data, i, rows = self.problem.data, self.i, self.rows()
        out, linear = self.image(atom)
        move = (out - self.image(point)[0]).astype(v.dtype)
        direction = out.astype(v.dtype)
        for here in (v, v + move):
            score = self.number("score", data, here, i, atom)
            slope = self.number("slope", data, here, direction, rows, 0.0)
            self.agree(
                slope + linear, score, "slope and add give {}, but score gives {}"
            )
        if self.problem.quadratic:
            line = [
                self.number("slope", data, v, move, rows, t) for t in (0.0, 0.5, 1.0)
            ]
            if abs(line[0] - 2 * line[1] + line[2]) > self.precise * np.abs(line).sum():
                raise ProblemError(
                    "g is not quadratic: its slope is no straight line. Say "
                    "quadratic=False, and the line search takes a few more slopes."
                )
        if self.problem.value is not None:
            self.rise(v.astype(np.float64), move.astype(np.float64), rows)

    def fused(self, v: np.ndarray, atom: np.ndarray, gap: float) -> None:
        """Hold the fused step against the plain functions, on the store it runs on."""
        problem, data, i = self.problem, self.problem.data, self.i
        blocks = problem.store.create(problem.start, problem.offsets, 1)
        loops = problem.kernels()
        for name in ("prepare", "spread"):
            self.functions.setdefault(name, getattr(loops, name))
        work = problem.work()
        self.call("oracle", data, v, i, atom, work)  # what it leaves may be needed
        found = self.number("prepare", data, v, blocks, i, atom, work)
        self.agree(found, gap, "prepare returned {}, but the scores give {}")
        out = np.zeros_like(v)
        self.number("spread", data, blocks, i, atom, 1.0, out, work)
        move = self.image(atom)[0] - self.image(self.start)[0]
        if not np.allclose(out, move, rtol=1e-4, atol=1e-4 * np.abs(move).max()):
            raise ProblemError(f"spread and add disagree on block {i}.")
        if problem.curvature is not None and problem.quadratic:
            bend = self.number("curvature", data, blocks, i, atom, work)
            rows = self.rows()
            ends = [self.number("slope", data, v, out, rows, t) for t in (0.0, 1.0)]
            self.agree(bend, ends[1] - ends[0], "curvature is {}, but slopes give {}")

    def rise(self, v: np.ndarray, move: np.ndarray, rows: np.ndarray) -> None:
        """Hold `value` against `slope`: along a step, g rises by the integral."""
        data, places = self.problem.data, np.linspace(0.0, 1.0, 9)
        slopes = [self.number("slope", data, v, move, rows, t) for t in places]
        simpson = np.array([1, 4, 2, 4, 2, 4, 2, 4, 1]) @ slopes / 24
        low = self.number("value", data, v)
        high = self.number("value", data, v + move)
        noise = 1e-9 * (abs(low) + abs(high)) + 1e-3 * np.abs(slopes).max()
        if abs(high - low - simpson) > noise:
            raise ProblemError(
                f"On block {self.i} value rises by {high - low:.8g} along a step, but "
                f"its slopes say {simpson:.8g}; they must be equal."
            )

    def image(self, atom: np.ndarray) -> tuple[np.ndarray, float]:
        """Return A_i s and <c_i, s>, after a look at what `add` does."""
        problem, data, i = self.problem, self.problem.data, self.i
        out, double = np.zeros(problem.shared.shape), np.zeros(problem.shared.shape)
        linear = self.number("add", data, i, atom, 1.0, out)
        if not np.isfinite(out).all():
            raise ProblemError(f"add wrote NaN or infinity for block {i}.")
        twice = self.number("add", data, i, atom, 2.0, double)
        straight = np.allclose(double, 2 * out, rtol=1e-4, atol=1e-12)
        if not (straight and np.isclose(twice, 2 * linear, rtol=1e-4, atol=1e-12)):
            raise ProblemError(f"add on block {i} is not proportional to scale.")
        if len(self.rows()) < len(out):
            used = np.flatnonzero(out.reshape(len(out), -1).any(axis=1))
            if not np.isin(used, self.rows()).all():
                raise ProblemError(
                    f"touched leaves out rows that add wrote, block {i}."
                )
        return out, linear

    def rows(self) -> np.ndarray:
        """Return the rows of v that the block reaches, where the problem says.

        A fused step knows better than `add` which rows it touches: then all of them.
        """
        problem = self.problem
        if problem.touched is None or problem.prepare is not None:
            return np.arange(len(problem.shared))
        listed = np.zeros(problem.max_rows, np.int64)
        count = self.number("touched", problem.data, self.i, listed, problem.work())
        return listed[: int(count)]

    def member(self, atom: np.ndarray, name: str) -> None:
        """Refuse an atom outside M_i, where the problem can tell."""
        if self.problem.contains is None:
            return
        if not self.call("contains", self.problem.data, self.i, atom):
            raise ProblemError(_outside(name, self.i, atom))

    def agree(self, one: float, two: float, sentence: str) -> None:
        """Refuse two numbers that should be the same and are not."""
        if abs(one - two) > self.precise * (1e-12 + abs(one) + abs(two)) + 1e-9:
            text = sentence.format(f"{one:.8g}", f"{two:.8g}")
            raise ProblemError(f"On block {self.i} {text}; they must be equal.")


def _sentence(name: str, i: int, error: Exception) -> ProblemError:
    """Say what a function did wrong."""
    if isinstance(error, NumbaError):
        return ProblemError(f"{name} does not compile: {_reason(error)}")
    where = f"{name} on block {i}"
    if isinstance(error, IndexError):
        return ProblemError(
            f"{where} reads or writes outside an array ({error}); check its "
            "indices against the shapes of data, shared and atom."
        )
    return ProblemError(f"{where} raised {type(error).__name__}: {error}")


def _outside(name: str, i: int, point: np.ndarray) -> str:
    shown = np.array2string(point, threshold=6)
    return (
        f"{name} gave a point of block {i} that contains() puts outside the feasible "
        f"set: {shown}"
    )


def _reason(error: NumbaError) -> str:
    """Return the lines of a Numba error that speak of the user's code."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    noise = ("Failed in", "During:", "This error", "- ", "* ", "Overload", "Known")
    told = [line for line in lines if not line.startswith(noise) and line != "^"]
    return " ".join(told[:4])


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1]

"""The checks on one block: each function held against what the others say."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core.errors import NumbaError

from wolfpack.problem import Problem, ProblemError


class BlockCheck:
    """The checks on one block."""

    def __init__(
        self, problem: Problem, functions: dict[str, Callable], i: int
    ) -> None:
        self.problem, self.functions, self.i = problem, functions, i
        self.atom = self.start  # of the oracle, once it was called
        self.precise = 1e-6 if problem.shared.dtype == np.float64 else 1e-3

    @property
    def start(self) -> np.ndarray:
        """The atom or vector that the block starts with."""
        problem, i = self.problem, self.i
        point = problem.scratch_atom(i)
        if problem.offsets is None:
            point[:] = problem.start[i]
        else:
            point[:] = problem.start[problem.offsets[i] : problem.offsets[i + 1]]
        return point

    def call(self, name: str, *args: Any) -> Any:
        """Call a function; turn what goes wrong into a sentence."""
        try:
            return self.functions[name](*args)
        except Exception as error:
            raise sentence(name, self.i, error) from error

    def number(self, name: str, *args: Any) -> float:
        """Call a function that must return a finite number."""
        return self.finite(name, self.call(name, *args))

    def finite(self, name: str, result: Any) -> float:
        """Return what a function returned, which must be a finite number."""
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
        atom, before = problem.scratch_atom(i), v.copy()
        least = self.number("oracle", data, v, i, atom, problem.work())
        if not np.isfinite(atom).all():
            raise ProblemError(
                f"oracle wrote NaN or infinity into the atom of block {i}."
            )
        self.member(atom, "oracle")
        if not np.array_equal(v, before):
            raise ProblemError("oracle wrote into shared; it may only read it.")
        self.atom = atom
        score = self.number("score", data, v, i, atom)
        self.agree(least, score, "oracle returned {}, but score of its atom is {}")
        other = self.number("score", data, v, i, point)
        if least > other + self.precise * (abs(least) + abs(other)):
            raise ProblemError(
                f"oracle is no minimiser on block {i}: its atom scores {least:.6g}, "
                f"the start {other:.6g}, which is lower. Is a sign the wrong way?"
            )
        if problem.local and problem.touched is not None:
            self.stays_in_its_rows(v, atom, least)
        self.line(v, atom, point)
        if problem.offsets is None:
            self.difference(v, atom, point)
        if problem.minimiser is not None:
            gap = self.call("minimiser", data, v, i, point, problem.work(), 1.0)
            if problem.finds_gap:
                gap, size = self.finite("minimiser", gap), abs(other) + abs(score)
                said = "minimiser returns the gap {}, but it is {}"
                self.agree(gap, other - score, said, size)
            self.member(point, "minimiser")

    def line(self, v: np.ndarray, atom: np.ndarray, point: np.ndarray) -> None:
        """Hold `add` and `slope` against `score`, at v and one step further.

        Where v is 0 at the start, a wrong sign in `add` shows only after a step.
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

    def difference(self, v: np.ndarray, atom: np.ndarray, point: np.ndarray) -> None:
        """Hold `score` and `add` of s - x_(i) against those of s and of x_(i).

        The store of vectors calls them with differences, whose entries may be negative.
        """
        move, data = atom - point, self.problem.data
        there, here, score = (
            self.number("score", data, v, self.i, one) for one in (atom, point, move)
        )
        self.agree(
            there,
            score + here,
            "score of s is {}, but those of x and s - x sum to {}",
            size=abs(score) + abs(here),
        )
        images = [self.image(one) for one in (atom, point, move)]
        sums = [images[1][k] + images[2][k] for k in (0, 1)]
        size = 1e-4 * max(np.abs(image).max() for image, _ in images) + 1e-12
        fits = np.allclose(sums[0], images[0][0], rtol=1e-4, atol=size)
        if not (fits and np.isclose(sums[1], images[0][1], rtol=1e-4, atol=1e-9)):
            raise ProblemError(
                f"add on block {self.i} is not linear: what it adds for s - x_(i), "
                "whose entries may be negative, is not the difference of both."
            )

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
        """Return A_i s and <c_i, s>, after checks of `add`."""
        problem, data, i = self.problem, self.problem.data, self.i
        out = np.zeros(problem.shared.shape)
        linear = self.number("add", data, i, atom, 1.0, out)
        if not np.isfinite(out).all():
            raise ProblemError(f"add wrote NaN or infinity for block {i}.")
        size = float(np.abs(out).max())
        double = np.full(problem.shared.shape, size)
        twice = self.number("add", data, i, atom, 2.0, double)
        noise = 1e-12 + 1e-6 * size
        apart = np.abs(double - 2.0 * out)[out != 0.0]  # `size`, where add adds
        if size > noise and (apart < 0.5 * size).all():
            raise ProblemError(
                f"add on block {i} sets entries of out; it must add to what is there."
            )
        straight = np.allclose(double - size, 2 * out, rtol=1e-4, atol=noise)
        if not (straight and np.isclose(twice, 2 * linear, rtol=1e-4, atol=1e-12)):
            raise ProblemError(f"add on block {i} is not proportional to scale.")
        if len(self.rows()) < len(out):
            used = np.flatnonzero(out.reshape(len(out), -1).any(axis=1))
            if not np.isin(used, self.rows()).all():
                raise ProblemError(
                    f"touched leaves out rows that add wrote, block {i}."
                )
        return out, linear

    def stays_in_its_rows(self, v: np.ndarray, atom: np.ndarray, least: float) -> None:
        """Call the oracle again at a v that differs in the rows it must not read."""
        problem, data, i = self.problem, self.problem.data, self.i
        listed = self.touched()
        noise = np.random.default_rng(i).standard_normal(v.shape)
        other = (v + (1.0 + np.abs(v)) * noise).astype(v.dtype)
        other[listed] = v[listed]
        again = problem.scratch_atom(i)
        found = self.number("oracle", data, other, i, again, problem.work())
        if found != least or not np.array_equal(again, atom):
            raise ProblemError(
                f"local=True, but oracle on block {i} reads rows of shared that "
                "touched does not list; use local=False."
            )

    def rows(self) -> np.ndarray:
        """Return the rows of v that the block reaches, where the problem says.

        With a fused step, `touched` lists the rows of s - x_(i), not those of an atom;
        then all rows are returned.
        """
        problem = self.problem
        if problem.touched is None or problem.prepare is not None:
            return np.arange(len(problem.shared))
        return self.touched()

    def touched(self) -> np.ndarray:
        """Return the rows that a move from the start to the atom reaches."""
        problem, data, i = self.problem, self.problem.data, self.i
        blocks = problem.store.create(problem, 1)
        move = problem.kernels().towards(data, blocks, i, self.atom)
        listed = np.zeros(problem.max_rows, np.int64)
        count = self.number("touched", data, i, move, listed, problem.work())
        return listed[: int(count)]

    def member(self, atom: np.ndarray, name: str) -> None:
        """Refuse an atom outside M_i, where the problem can tell."""
        if self.problem.contains is None:
            return
        if not self.call("contains", self.problem.data, self.i, atom):
            raise ProblemError(outside(name, self.i, atom))

    def agree(self, one: float, two: float, sentence: str, size: float = 0.0) -> None:
        """Refuse two numbers that should be the same and are not.

        `size` is that of the terms that were summed: large terms leave rounding errors.
        """
        size += 1e-12 + abs(one) + abs(two)
        if abs(one - two) > self.precise * size + 1e-9:
            text = sentence.format(f"{one:.8g}", f"{two:.8g}")
            raise ProblemError(f"On block {self.i} {text}; they must be equal.")


def sentence(name: str, i: int, error: Exception) -> ProblemError:
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


def outside(name: str, i: int, point: np.ndarray) -> str:
    """Return the sentence about a point that `contains` refuses."""
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

"""The accelerated outer loop around block steps: Catalyst, of Lin, Mairal, Harchaoui.

Where g(v) = c/2 |v|^2, the dual of min f is P(w) = c/2 |w|^2 - c <w, v0> + H(w). An
outer step minimises P(w) + kappa/2 |w - z|^2 roughly, and then extrapolates z. Block
steps minimise that sum as they are. With s = c / (c + kappa), called the reach, and
u = v0 + A x, they ask the oracle at

    v = s u + (1 - s) z

where the curvature of a step is s times that at u, and a step moves v by s gamma A d.
An outer step takes w = v, and sets

    z <- w + beta (w - w_before),    beta = (1 - sqrt s) / (1 + sqrt s)

so v is shifted by (1 - s) (z - z_before). Plain steps are those with s = 1.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from wolfpack.kernels.memory import copy

FIRST_REACH = 0.2
# Arrays are gone through by CHUNK numbers, which fit into a cache, and by several
# threads from LONG numbers a thread on.
CHUNK, LONG = 2**14, 2**17

# What the outer loop knows. `inner` is the sum of the block gaps at the last outer
# step, `calls` are the oracle calls before it, `bias` is the gap over its estimate at
# the last check.
OUTER = np.dtype(
    [
        ("reach", np.float64),  # s
        ("inner", np.float64),
        ("bias", np.float64),
        ("steps", np.int64),
        ("calls", np.int64),
        ("rebuilt", np.int64),  # oracle calls before v was last computed from x
    ],
    align=True,
)


class Products(NamedTuple):
    """Inner products of v, u and v0, which give both bounds."""

    vv: float
    vv0: float
    uu: float
    apart: float  # |u - v|^2


class Outer(NamedTuple):
    """Where the outer loop stands. A method takes the threads that may help it."""

    anchor: np.ndarray  # z
    last: np.ndarray  # w of the last outer step
    numbers: Any  # a record OUTER

    @classmethod
    def begin(cls, shared: np.ndarray) -> "Outer":
        """Start with z = w = v."""
        numbers = np.zeros(1, OUTER).view(np.recarray)[0]
        numbers.reach, numbers.inner, numbers.bias = FIRST_REACH, math.inf, 1.0
        return cls(copy(shared), copy(shared), numbers)

    def copy(self) -> "Outer":
        """Return a copy that shares no memory."""
        return Outer(copy(self.anchor), copy(self.last), self.numbers.copy())

    @property
    def reach(self) -> float:
        """How far v follows x, s."""
        return float(self.numbers.reach)

    @property
    def beta(self) -> float:
        """How far an outer step extrapolates."""
        root = math.sqrt(self.reach)
        return (1.0 - root) / (1.0 + root)

    def apart(self, shared: np.ndarray, crew: Any = None) -> float:
        """Return |u - v|^2."""

        def square(v, z) -> float:
            return _dot(v - z, v - z)

        s = self.reach
        (total,) = _sum_over(crew, lambda v, z: [square(v, z)], shared, self.anchor)
        return ((1.0 - s) / s) ** 2 * total

    def step(
        self,
        shared: np.ndarray,
        reach: float,
        inner: float,
        calls: int,
        crew: Any = None,
    ) -> None:
        """Make an outer step, and change s to `reach`; x stays, and v follows."""
        s, beta = self.reach, self.beta

        def move(v, z, w) -> Iterable[float]:
            now = v.astype(np.float64)
            u = z + (now - z) / s
            z[:] = now + beta * (now - w)
            w[:] = now
            v[:] = z + reach * (u - z)
            return ()

        _sum_over(crew, move, shared, self.anchor, self.last)
        numbers = self.numbers
        numbers.reach, numbers.inner, numbers.calls = reach, inner, calls
        numbers.steps += 1

    def measure(
        self, shared: np.ndarray, origin: np.ndarray, crew: Any = None
    ) -> Products:
        """Return inner products of v, u and v0 = `origin`."""
        s = self.reach

        def products(v, z, v0) -> Iterable[float]:
            v, z = v.astype(np.float64), z.astype(np.float64)
            u = z + (v - z) / s
            return _dot(v, v), _dot(v, v0), _dot(u, u), _dot(u - v, u - v)

        return Products(*_sum_over(crew, products, shared, self.anchor, origin))

    def mix(self, image: np.ndarray, out: np.ndarray, crew: Any = None) -> float:
        """Write s u + (1 - s) z, where u = `image`; return the relative change."""
        s = self.reach

        def write(u, z, v) -> Iterable[float]:
            now = z + s * (u - z)
            change = now - v
            v[:] = now
            return _dot(change, change), _dot(now, now)

        change, size = _sum_over(crew, write, image, self.anchor, out)
        return math.sqrt(change / size) if size > 0.0 else 0.0


def _dot(one: np.ndarray, two: np.ndarray) -> float:
    """Return an inner product, in an order that does not depend on threads."""
    return float(np.einsum("i,i->", one, two, dtype=np.float64))


def _sum_over(crew: Any, task: Callable, *arrays: np.ndarray) -> np.ndarray:
    """Call `task` on chunks of the arrays; return the sums of what it returns."""
    flat = [array.reshape(-1) for array in arrays]
    size = flat[0].size
    count = 1 if crew is None else max(1, min(crew.size, size // LONG))

    def work(t: int) -> np.ndarray:
        first, end = t * size // count, (t + 1) * size // count
        chunks = [slice(k, min(k + CHUNK, end)) for k in range(first, end, CHUNK)]
        return np.sum([task(*(array[k] for array in flat)) for k in chunks], axis=0)

    if crew is None or count == 1:
        return work(0)
    return np.sum(crew.run(work, count), axis=0)

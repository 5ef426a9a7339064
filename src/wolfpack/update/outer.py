"""The accelerated outer loop around block steps: Catalyst, of Lin, Mairal, Harchaoui.

Where g(v) = c/2 |v|^2, the dual of min f is P(w) = c/2 |w|^2 - c <w, v0> + H(w). An
outer step minimises P(w) + kappa/2 |w - z|^2 roughly, and then extrapolates z. Ordinary
block steps minimise that sum. With s = c / (c + kappa), called the reach, and
u = v0 + A x, they ask the oracle at

    v = s u + (1 - s) z

where the curvature of a step is s times that at u, and a step moves v by s gamma A d.
An outer step takes w = v, and sets

    z <- w + beta (w - w_before),    beta = (1 - sqrt s) / (1 + sqrt s)

so v is shifted by (1 - s) (z - z_before). Plain steps are those with s = 1.
"""

import math
import sys
from typing import Any, NamedTuple

import numpy as np

from wolfpack.kernels.compile import entry
from wolfpack.kernels.memory import copy
from wolfpack.kernels.simd import fill, load_double, minus, multiply_add, total
from wolfpack.kernels.specialise import library

FIRST_REACH, COARSE_REACH = 0.2, 0.35
LEAST = 1e-4  # value of s
LONG = 2**16  # an array has at least this many numbers for each thread that helps
LANES = 8  # numbers that are summed side by side

# What the outer loop knows. `inner` is the sum of the block gaps at the last outer
# step, `calls` are the oracle calls before it,
# or before s was last changed without one, `bias` is the gap over its estimate at
# the last check.
OUTER = np.dtype(
    [
        ("reach", np.float64),  # s
        ("inner", np.float64),
        ("bias", np.float64),
        ("steps", np.int64),
        ("calls", np.int64),
        ("rebuilt", np.int64),  # oracle calls before v was last computed from x
        ("largest", np.float64),  # of the gaps that checks found
        ("least", np.float64),  # of those since
        ("since", np.int64),  # oracle calls before the check that found `least`
        ("looks", np.int64),  # checks after it
        ("begun", np.int64),  # oracle calls before the last restart
        ("restarts", np.int64),
        ("first", np.float64),  # f at the start
        ("most", np.float64),  # what s may be
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
    """Where the outer loop stands. `crew` are threads that may help a method."""

    anchor: np.ndarray  # z
    last: np.ndarray  # w of the last outer step
    numbers: Any  # a record OUTER

    @classmethod
    def begin(
        cls, shared: np.ndarray, is_coarse: bool = False, first: float = math.inf
    ) -> "Outer":
        """Start with z = w = v; for a coarse goal v follows x further at first.

        `first` is f there.
        """
        numbers = np.zeros(1, OUTER).view(np.recarray)[0]
        numbers.reach = COARSE_REACH if is_coarse else FIRST_REACH
        numbers.inner = numbers.least = math.inf
        numbers.bias = numbers.most = 1.0
        numbers.first = first
        return cls(copy(shared), copy(shared), numbers)

    def warm_up(self) -> None:
        """Compile or load all kernels, by calls on empty arrays."""
        v, exact = self.anchor[:0], np.zeros(0)
        _over(None, "distance", [v, v])
        _over(None, "extrapolate", [v, v, v], 1.0, 0.0, 1.0)
        _over(None, "products", [v, v, exact], 1.0)
        _over(None, "blend", [exact, v, v], 1.0)

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
        s = self.reach
        (total,) = _over(crew, "distance", [shared, self.anchor])
        return ((1.0 - s) / s) ** 2 * float(total)

    def step(
        self,
        shared: np.ndarray,
        reach: float,
        inner: float,
        calls: int,
        crew: Any = None,
        beta: float | None = None,
    ) -> None:
        """Make an outer step, and change s to `reach`; x stays, and v follows."""
        beta = self.beta if beta is None else beta
        arrays = [shared, self.anchor, self.last]
        _over(crew, "extrapolate", arrays, self.reach, beta, reach)
        numbers = self.numbers
        numbers.reach, numbers.inner, numbers.calls = reach, inner, calls
        numbers.steps += 1

    def turn(self, shared: np.ndarray, reach: float, calls: int) -> None:
        """Change s to `reach` without an outer step; x and z stay, and v follows."""
        shared -= self.anchor
        shared *= reach / self.reach
        shared += self.anchor
        self.numbers.reach, self.numbers.calls = reach, calls

    def measure(
        self, shared: np.ndarray, origin: np.ndarray, crew: Any = None
    ) -> Products:
        """Return inner products of v, u and v0 = `origin`, which is empty if 0."""
        found = _over(crew, "products", [shared, self.anchor, origin], self.reach)
        return Products(*(float(number) for number in found))

    def mix(self, image: np.ndarray, out: np.ndarray, crew: Any = None) -> float:
        """Write s u + (1 - s) z, where u = `image`; return the relative change."""
        change, size = _over(crew, "blend", [image, self.anchor, out], self.reach)
        return math.sqrt(change / size) if size > 0.0 else 0.0


def _over(crew: Any, name: str, arrays: list[np.ndarray], *numbers: float) -> Any:
    """Call a kernel on whole arrays, by several threads where they are long.

    Returns the sums of what the calls return.
    """
    kernel = getattr(library(sys.modules[__name__]), name)
    flat = [array.reshape(-1) for array in arrays]
    size = flat[0].size
    count = 1 if crew is None else max(1, min(crew.size, size // LONG))
    if crew is None or count == 1:
        return kernel(*flat, *numbers)

    def work(t: int) -> Any:
        part = slice(t * size // count, (t + 1) * size // count)
        return kernel(*(array[part] for array in flat), *numbers)

    return np.sum(crew.run(work, count), axis=0)


@entry
def distance(shared, anchor):
    """Return |v - z|^2."""
    whole = shared.size - shared.size % LANES
    squares = fill(0.0, LANES)
    for k in range(0, whole, LANES):
        apart = minus(load_double(shared, k, LANES), load_double(anchor, k, LANES))
        squares = multiply_add(apart, apart, squares)
    result = total(squares)
    for k in range(whole, shared.size):
        result += (shared[k] - np.float64(anchor[k])) ** 2
    return (result,)


@entry
def extrapolate(shared, anchor, last, s, beta, reach):
    """Extrapolate z from w = v, then set v for the same x and the next `reach`."""
    for k in range(shared.size):
        now, z = np.float64(shared[k]), np.float64(anchor[k])
        u = z + (now - z) / s
        z = now + beta * (now - last[k])
        last[k], anchor[k] = now, z
        shared[k] = z + reach * (u - z)
    return (0.0,)


@entry
def products(shared, anchor, origin, s):
    """Return <v, v>, <v, v0>, <u, u> and |u - v|^2."""
    whole = shared.size - shared.size % LANES
    nothing, scale = fill(0.0, LANES), fill(1.0 / s, LANES)
    vvs, vv0s, uus, aparts = nothing, nothing, nothing, nothing
    for k in range(0, whole, LANES):
        v, z = load_double(shared, k, LANES), load_double(anchor, k, LANES)
        u = multiply_add(minus(v, z), scale, z)
        vvs = multiply_add(v, v, vvs)
        uus = multiply_add(u, u, uus)
        aparts = multiply_add(minus(u, v), minus(u, v), aparts)
        if origin.size > 0:
            vv0s = multiply_add(v, load_double(origin, k, LANES), vv0s)
    vv, vv0, uu, apart = total(vvs), total(vv0s), total(uus), total(aparts)
    for k in range(whole, shared.size):
        a, b = np.float64(shared[k]), np.float64(anchor[k])
        vv += a * a
        uu += (b + (a - b) / s) ** 2
        apart += (b + (a - b) / s - a) ** 2
        if origin.size > 0:
            vv0 += a * origin[k]
    return vv, vv0, uu, apart


@entry
def blend(image, anchor, out, s):
    """Write z + s (u - z); return the squares of its change and of its size."""
    change, size = 0.0, 0.0
    for k in range(out.size):
        v = anchor[k] + s * (image[k] - anchor[k])
        change += (v - out[k]) ** 2
        size += v * v
        out[k] = v
    return change, size

"""Functions of every kind that Numba compiles, which return a constant C.

`change` sets C: by a new module, as a fresh process would have it, or within the one of
before, as a person does who runs a cell again.
"""

import sys
import types

HEAD = """
import enum, functools
from collections import namedtuple
from typing import NamedTuple
import numba
import numpy as np
from numba.extending import overload, register_jitable
"""

# What C is made into, and the function that reads it.
KINDS = {
    "global": "@numba.njit\ndef score(data, shared, i, atom): return C",
    "array": (
        "T = np.full(3, C)\n@numba.njit\ndef score(data, shared, i, atom): return T[1]"
    ),
    "slice of an array": (
        "T = np.full((4, 4), C)[::2, ::2]\n"
        "@numba.njit\ndef score(data, shared, i, atom): return T[1, 1]"
    ),
    "tuple": (
        "T = (1, (C, 2.0))\n"
        "@numba.njit\ndef score(data, shared, i, atom): return T[1][0]"
    ),
    "named tuple": (
        "T = namedtuple('T', 'c')(C)\n"
        "@numba.njit\ndef score(data, shared, i, atom): return T.c"
    ),
    "tuple of arrays": (
        "T = (np.full(2, C), np.zeros(2))\n"
        "@numba.njit\ndef score(data, shared, i, atom): return T[0][0]"
    ),
    "enum": (
        "class E(enum.Enum):\n    c = C\n"
        "@numba.njit\ndef score(data, shared, i, atom): return E.c.value"
    ),
    "int enum": (
        "class E(enum.IntEnum):\n    c = int(C)\n"
        "@numba.njit\ndef score(data, shared, i, atom): return E.c.value * 1.0"
    ),
    "structured scalar": (
        "T = np.array([(C, 1)], dtype=[('c', 'f8'), ('n', 'i8')])\n"
        "@numba.njit\ndef score(data, shared, i, atom): return T[0].c"
    ),
    "helper": (
        "@numba.njit\ndef helper(): return C\n"
        "@numba.njit\ndef score(data, shared, i, atom): return helper()"
    ),
    "helper of a helper": (
        "@numba.njit\ndef inner(): return C\n"
        "@numba.njit\ndef helper(): return inner()\n"
        "@numba.njit\ndef score(data, shared, i, atom): return helper()"
    ),
    "helper that is inlined": (
        "@numba.njit(inline='always')\ndef helper(): return C\n"
        "@numba.njit\ndef score(data, shared, i, atom): return helper()"
    ),
    "helper with a signature": (
        "@numba.njit('f8(f8)')\ndef helper(x): return x + C\n"
        "@numba.njit\ndef score(data, shared, i, atom): return helper(0.0)"
    ),
    "helper that calls itself": (
        "@numba.njit\ndef helper(n):\n"
        "    if n == 0:\n        return C\n    return helper(n - 1)\n"
        "@numba.njit\ndef score(data, shared, i, atom): return helper(3)"
    ),
    "helper of a module": (
        "import types\nmine = types.ModuleType('mine')\n"
        "@numba.njit\ndef helper(): return C\n"
        "mine.helper = helper\n"
        "@numba.njit\ndef score(data, shared, i, atom): return mine.helper()"
    ),
    "number of a module": (
        "import types\nmine = types.ModuleType('mine')\nmine.sub = mine2 = "
        "types.ModuleType('mine.sub')\nmine2.c = C\n"
        "@numba.njit\ndef score(data, shared, i, atom): return mine.sub.c"
    ),
    "closure": (
        "def make(c):\n    @numba.njit\n    def f(data, shared, i, atom): return c\n"
        "    return f\n"
        "score = make(C)"
    ),
    "closure over an array": (
        "def make(c):\n    @numba.njit\n"
        "    def f(data, shared, i, atom): return c[0]\n    return f\n"
        "score = make(np.full(2, C))"
    ),
    "closure over a helper": (
        "@numba.njit\ndef helper(): return C\n"
        "def make(h):\n    @numba.njit\n"
        "    def f(data, shared, i, atom): return h()\n    return f\n"
        "score = make(helper)"
    ),
    "default": (
        "@numba.njit\ndef helper(c=C): return c\n"
        "@numba.njit\ndef score(data, shared, i, atom): return helper()"
    ),
    "constant in the code": (
        "exec(f'@numba.njit\\ndef score(data, shared, i, atom): return {C}')"
    ),
    "inner function": (
        "@numba.njit\ndef score(data, shared, i, atom):\n"
        "    def inner(x): return x + C\n    return inner(0.0)"
    ),
    "try and except": (
        "@numba.njit\ndef score(data, shared, i, atom):\n"
        "    try:\n        if C > 0:\n            raise ValueError('no')\n"
        "    except Exception:\n        return C\n    return -1.0"
    ),
    "vectorize": (
        "@numba.vectorize\ndef f(a): return a + C\n"
        "@numba.njit\ndef score(data, shared, i, atom): return f(shared)[0]"
    ),
    "vectorize with a signature": (
        "@numba.vectorize(['f8(f8)'])\ndef f(a): return a + C\n"
        "@numba.njit\ndef score(data, shared, i, atom): return f(shared)[0]"
    ),
    "guvectorize": (
        "@numba.guvectorize(['void(f8[:], f8[:])'], '(n)->(n)')\n"
        "def f(a, out):\n    for j in range(a.size):\n        out[j] = a[j] + C\n"
        "@numba.njit\ndef score(data, shared, i, atom):\n"
        "    out = np.empty(3)\n    f(shared, out)\n    return out[0]"
    ),
    "overload": (
        "def f(a): return a\n"
        "@overload(f)\ndef ov(a):\n    def impl(a): return a + C\n    return impl\n"
        "@numba.njit\ndef score(data, shared, i, atom): return f(0.0)"
    ),
    "register_jitable": (
        "@register_jitable\ndef f(a): return a + C\n"
        "@numba.njit\ndef score(data, shared, i, atom): return f(0.0)"
    ),
    "stencil": (
        "@numba.stencil\ndef f(a): return a[0] + C\n"
        "@numba.njit\ndef score(data, shared, i, atom): return f(shared)[0]"
    ),
    "cfunc": (
        "@numba.cfunc('f8(f8)')\ndef f(a): return a + C\n"
        "@numba.njit\ndef score(data, shared, i, atom): return f(0.0)"
    ),
    "intrinsic": (
        "from numba.extending import intrinsic\nfrom numba import types\n"
        "@intrinsic\ndef f(context):\n"
        "    def make(ctx, builder, sig, args):\n"
        "        return ctx.get_constant(types.float64, C)\n"
        "    return types.float64(), make\n"
        "@numba.njit\ndef score(data, shared, i, atom): return f()"
    ),
    "jitclass": (
        "from numba.experimental import jitclass\n"
        "@jitclass([('a', numba.float64)])\nclass K:\n"
        "    def __init__(self): self.a = C\n"
        "@numba.njit\ndef score(data, shared, i, atom): return K().a"
    ),
    "lambda": (
        "f = numba.njit(lambda x: x + C)\n"
        "@numba.njit\ndef score(data, shared, i, atom): return f(0.0)"
    ),
    "generator": (
        "@numba.njit\ndef f(n):\n    for k in range(n):\n        yield k * C\n"
        "@numba.njit\ndef score(data, shared, i, atom):\n"
        "    total = 0.0\n    for value in f(2):\n        total += value\n"
        "    return total"
    ),
    "tuple of functions": (
        "@numba.njit\ndef f(x): return x + C\n"
        "@numba.njit\ndef g(x): return x - C\n"
        "T = (f, g)\n"
        "@numba.njit\ndef score(data, shared, i, atom): return T[0](0.0)"
    ),
    "typed list": (
        "from numba.typed import List\n"
        "@numba.njit\ndef score(data, shared, i, atom):\n"
        "    many = List()\n    many.append(C)\n    return many[0]"
    ),
    "own exception": (
        "class Own(Exception):\n    pass\n"
        "@numba.njit\ndef score(data, shared, i, atom):\n"
        "    if C < 0:\n        raise Own('below')\n    return C"
    ),
    "text": (
        "T = str(C)\n"
        "@numba.njit\ndef score(data, shared, i, atom):\n"
        "    return 2.0 if T == '2.0' else 7.0"
    ),
    "python again": (
        "def f(): return C\n"
        "@numba.njit\ndef score(data, shared, i, atom):\n"
        "    with numba.objmode(x='float64'):\n        x = f()\n    return x"
    ),
    "threads of Numba": (
        "@numba.njit(parallel=True)\ndef f(a):\n    total = 0.0\n"
        "    for k in numba.prange(4):\n        total += C / 4\n    return total\n"
        "@numba.njit\ndef score(data, shared, i, atom): return f(shared)"
    ),
    "types of locals": (
        "@numba.njit(locals={'c': numba.float64})\n"
        "def score(data, shared, i, atom):\n    c = C\n    return c"
    ),
    "constructor of its own": (
        "class T(namedtuple('T', 'c')):\n    __slots__ = ()\n"
        "    def __new__(cls, half): return super().__new__(cls, 2 * half)\n"
        "T1 = T(C / 2)\n"
        "@numba.njit\ndef score(data, shared, i, atom): return T1.c"
    ),
    "builtin": (
        "import builtins\nbuiltins.OWN = C\n"
        "@numba.njit\ndef score(data, shared, i, atom): return OWN"
    ),
    "number in NumPy": (
        "np.OWN = C\n@numba.njit\ndef score(data, shared, i, atom): return np.OWN"
    ),
    "module named as one of Python's": (
        "import types\nprofile = types.ModuleType('profile')\nprofile.c = C\n"
        "@numba.njit\ndef score(data, shared, i, atom): return profile.c"
    ),
    "module within itself": (
        "import types\nmine = types.ModuleType('mine')\nmine.sub = mine\n"
        "mine.c = C\n"
        "@numba.njit\ndef score(data, shared, i, atom): return mine.sub.sub.c"
    ),
    "tuple in math": (
        "import math\nmath.OWN = ('text', (C,))\n"
        "@numba.njit\ndef score(data, shared, i, atom): return math.OWN[1][0]"
    ),
    "array in SciPy": (
        "import scipy.constants\nscipy.constants.OWN = (np.full(2, C),)\n"
        "@numba.njit\n"
        "def score(data, shared, i, atom): return scipy.constants.OWN[0][0]"
    ),
    "enum in NumPy": (
        "class E(enum.Enum):\n    c = C\nnp.OWN_ENUM = E\n"
        "@numba.njit\ndef score(data, shared, i, atom): return np.OWN_ENUM.c.value"
    ),
    "number in np.random": (
        "np.random.DRAWN = C\n"
        "@numba.njit\ndef score(data, shared, i, atom): return np.random.DRAWN"
    ),
    "number of a module that is an argument": (
        "import math\nmath.ARGUMENT = C\n"
        "@numba.njit\ndef helper(m): return m.ARGUMENT\n"
        "@numba.njit\ndef score(data, shared, i, atom): return helper(math)"
    ),
    "function in NumPy": (
        "@numba.njit\ndef helper(): return C\nnp.own_function = helper\n"
        "@numba.njit\ndef score(data, shared, i, atom): return np.own_function()"
    ),
    "another gamma": (
        "import math\n"
        "@numba.njit\n@functools.wraps(math.cos)\ndef helper(x): return x + C\n"
        "math.gamma = helper\n"
        "@numba.njit\ndef score(data, shared, i, atom): return math.gamma(0.0)"
    ),
    "builtin function": (
        "import builtins\n@numba.njit\ndef helper(): return C\n"
        "builtins.own_helper = helper\n"
        "@numba.njit\ndef score(data, shared, i, atom): return own_helper()"
    ),
    "large array": (
        "T = np.full(200_000, C)\n"
        "@numba.njit\ndef score(data, shared, i, atom): return T[7]"
    ),
}
# Overloads of what is not the user's: they are seen by all functions that come later.
LAST = {
    "overload of SciPy": (
        "import scipy.special\n"
        "@overload(scipy.special.expit)\ndef ov(a):\n"
        "    def impl(a): return a + C\n    return impl\n"
        "@numba.njit\ndef score(data, shared, i, atom):\n"
        "    return scipy.special.expit(0.0)"
    ),
    "overload of NumPy": (
        "@overload(np.busday_count)\ndef ov(a):\n"
        "    def impl(a): return a + C\n    return impl\n"
        "@numba.njit\ndef score(data, shared, i, atom): return np.busday_count(0.0)"
    ),
    "method": (
        "from numba.extending import overload_method\nfrom numba import types\n"
        "@overload_method(types.Array, 'own')\ndef ov(a):\n"
        "    def impl(a): return a[0] + C\n    return impl\n"
        "@numba.njit\ndef score(data, shared, i, atom): return shared.own()"
    ),
}
# What Numba compiles when it is defined, and what has no content to hash.
OPAQUE = {
    *LAST,
    "helper that calls itself",
    "vectorize with a signature",
    "guvectorize",
    "overload",
    "register_jitable",
    "stencil",
    "cfunc",
    "intrinsic",
    "jitclass",
    "own exception",
    "function in NumPy",
    "another gamma",
    "python again",
    "large array",
}
# Of these a running session changes one thing and leaves `score` as it is.
EDITS = {
    "global": "C = {c}",
    "array": "T[:] = {c}",
    "slice of an array": "T[:] = {c}",
    "tuple": "T = (1, ({c}, 2.0))",
    "tuple of arrays": "T[0][:] = {c}",
    "helper": "C = {c}",
    "helper of a helper": "@numba.njit\ndef inner(): return {c}",
    "helper that is inlined": "C = {c}",
    "helper with a signature": "C = {c}",
    "helper that calls itself": "C = {c}",
    "helper of a module": "@numba.njit\ndef helper(): return {c}\nmine.helper = helper",
    "number of a module": "mine.sub.c = {c}",
    "inner function": "C = {c}",
    "types of locals": "C = {c}",
    "builtin": "builtins.OWN = {c}",
    "number in NumPy": "np.OWN = {c}",
    "number in np.random": "np.random.DRAWN = {c}",
    "tuple in math": "math.OWN = ('text', ({c},))",
    "array in SciPy": "scipy.constants.OWN[0][:] = {c}",
    "number of a module that is an argument": "math.ARGUMENT = {c}",
    "builtin function": "C = {c}",
    "module named as one of Python's": "profile.c = {c}",
    "module within itself": "mine.c = {c}",
    "try and except": "C = {c}",
    "vectorize": "C = {c}",
    "large array": "T[:] = {c}",
}


def change(kind, c, module=None):
    """Return a module whose `score` returns `c`; `module`: what is there already."""
    if module is not None and kind in EDITS:
        exec(EDITS[kind].format(c=c), vars(module))
        return module
    module = types.ModuleType("a_module_of_the_user")
    sys.modules[module.__name__] = module
    exec(HEAD + f"C = {c}\n" + (KINDS | LAST)[kind], vars(module))
    return module

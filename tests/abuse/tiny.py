"""One loop that calls one function of a problem: enough to compile in a moment.

As a program, `python tiny.py 2.0 7.0 ...` calls every kind of function in `kinds` with
each constant in turn, in one session, and prints what they returned.
"""

import json
import sys

import numpy as np

from wolfpack.kernels.compile import entry
from wolfpack.kernels.slots import score
from wolfpack.kernels.specialise import specialise


@entry
def call(data, point):
    """Call `score`."""
    return score(data, point, 0, point)


def ask(function):
    """Bind a function into the loop; return what the loop says, and the loop."""
    loops = specialise([sys.modules[__name__]], {"score": function})
    return float(loops.call((), np.zeros(3))), loops


if __name__ == "__main__":
    import kinds

    sys.modules["tiny"] = sys.modules["__main__"]
    rows = []
    for kind in [*kinds.KINDS, *(kinds.LAST if len(sys.argv) == 2 else ())]:
        module = None
        for text in sys.argv[1:]:
            module = kinds.change(kind, float(text), module)
            answer, loops = ask(module.score)
            hits = sum(loops.call.stats.cache_hits.values())
            rows.append([kind, float(text), answer, hits, list(loops.opaque)])
    sys.stdout.write(json.dumps(rows))

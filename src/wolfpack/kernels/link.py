"""What machine code from disk needs: the C functions that it calls, by name.

Numba prepares its whole compiler before it loads a function from disk, which takes
30 MB and a fifth of a second. Machine code needs no compiler, only the functions that
it calls. So their names are kept beside it, and the compiler is prepared only where one
of them is missing: LLVM ends the process at a name that it does not find.

Numba also keeps the code that LLVM compiled, so that other functions can inline it, and
reads it at every start. No compiled function calls a loop, so a stub of each name is
kept instead of the code; a call of a stub would end the process.
"""

import re
from typing import Any

from llvmlite import binding as llvm
from numba.core.runtime import nrt

_PLAIN = re.compile(r"[A-Za-z_$.][\w$.]*", re.ASCII)  # names that need no quotes


def needed_by(library: Any) -> list[str]:
    """Return the names that a compiled library uses and does not define."""
    module = library._final_module
    named = [*module.functions, *module.global_variables]
    names = {one.name for one in named if one.is_declaration}
    return sorted(name for name in names if not name.startswith("llvm."))


def reduce(compiled: Any) -> tuple:
    """Return the parts of a compiled function, with stubs for what can be inlined."""
    (name, kind, (code, _)), *parts = compiled._reduce()
    module = compiled.library._get_module_for_linking()
    functions, numbers = _defined(module.functions), _defined(module.global_variables)
    lines = ["declare void @llvm.trap()"]
    lines += [
        f"define void @{one}() {{ call void @llvm.trap() ret void }}"
        for one in functions
    ]
    lines += [f"@{one} = global i8 0" for one in numbers]
    names = llvm.parse_assembly("\n".join(lines)).as_bitcode()
    return (name, kind, (code, names)), *parts


def _defined(values: Any) -> list[str]:
    names = [one.name for one in values if not one.is_declaration]
    return [name for name in names if _PLAIN.fullmatch(name)]


def provide(names: list[str], target_context: Any) -> None:
    """Make sure that LLVM finds all names."""
    runtime: Any = nrt
    for name, address in runtime._nrt.c_helpers.items():
        llvm.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
    if not all(llvm.address_of_symbol(name) for name in names):
        target_context.refresh()

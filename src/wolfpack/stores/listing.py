"""The loop that lists the parts of many atoms."""

from wolfpack.kernels.borrow import borrow
from wolfpack.kernels.compile import entry
from wolfpack.kernels.slots import parts_of


@entry
def list_parts(data, atoms, begin, sizes, block, counts, parts):
    """Write the parts of each atom, of the block `block[b]`; return how many."""
    data, atoms = borrow(data), borrow(atoms)
    total = 0
    for b in range(len(begin)):
        atom = atoms[begin[b] : begin[b] + sizes[b]]
        counts[b] = parts_of(data, block[b], atom, parts[total:])
        total += counts[b]
    return total

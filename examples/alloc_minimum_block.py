"""A folk claim: "after half of 1000 tensors of 4 MiB were freed, a large one fits if smaller blocks are allowed".

stride-tool alloc-report examples/alloc_minimum_block.py --capacity 4010MiB --sweep

It does not: every second tensor stays, live blocks cannot move, and no setting makes one hole out of 500. Which tensors
are freed decides: see alloc_minimum_block_first.py.
"""

import stridetool as st

MIB = 1 << 20


def tensor(nbytes):
    return st.empty(nbytes, dtype=st.uint8, device="cuda")


tensors = [tensor(4 * MIB) for _ in range(1000)]
del tensors[::2]  # half of the memory is free now, in holes of 4 MiB
large = tensor(1000 * MIB)

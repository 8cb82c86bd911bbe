"""Out of memory while most of it is unallocated: small tensors carve up a large cached block that is asked for again.

stride-tool alloc-report examples/alloc_fragmentation.py --capacity 16GiB --sweep
"""

import stridetool as st

GIB, MIB = 1 << 30, 1 << 20


def scratch(nbytes):
    return st.empty(nbytes, dtype=st.uint8, device="cuda")


workspace = scratch(11 * GIB)  # the first step needs a large workspace,
del workspace  # gives it back: the allocator keeps it

features = [scratch(17 * MIB) for _ in range(22)]  # small tensors that stay are cut from its front

workspace = scratch(11 * GIB)  # the second step asks again: 374 MiB are allocated, and it does not fit

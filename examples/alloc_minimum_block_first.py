"""The same as alloc_minimum_block.py, but the first 500 tensors are freed instead of every second: now it fits.

stride-tool alloc-report examples/alloc_minimum_block_first.py --capacity 4010MiB

Whole segments become free, so the allocator gives them back and asks the device anew; no setting was needed.
"""

import stridetool as st

MIB = 1 << 20


def tensor(nbytes):
    return st.empty(nbytes, dtype=st.uint8, device="cuda")


tensors = [tensor(4 * MIB) for _ in range(1000)]
del tensors[:500]
large = tensor(1000 * MIB)

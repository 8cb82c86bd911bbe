"""Claim: "max_split_size_mb cures fragmentation".

$ stride-tool alloc-report examples/alloc_growing_batch.py --capacity 80GiB --sweep

Forty layers, and a batch that grows from 16 to 24: no cached block is ever large enough for the next step. A limit
on splitting changes nothing here, rounding sizes up saves two thirds, and expandable segments need hardly more than
what is live.
"""

import stridetool as st

MIB = 1 << 20


def tensor(mib):
    return st.empty(int(mib * MIB), dtype=st.uint8, device="cuda")


for batch in range(16, 25):
    kept = []
    for _ in range(40):
        kept.append(tensor(batch))
        kept.append(tensor(3.3 * batch))
    del kept

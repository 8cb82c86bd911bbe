"""Blocks that several streams use: their free waits for an event of each, polled at every allocation.

Its twin for sweeps is csrc/streams.h.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING

from stridetool.core.memory.blocks import PENDING, Block, PrivatePool
from stridetool.core.memory.settings import SIZE_MAX
from stridetool.core.memory.stats import Statistics, Tally
from stridetool.errors import TensorError

if TYPE_CHECKING:
    from stridetool.core.memory.heap import Heap


@lru_cache(maxsize=1024)
def polling_place(stream: int) -> int:
    """Where torch's hash table of queues keeps a stream, and so when it polls it.

    ska::flat_hash_map goes by the top bits of the hash times 2^64 / golden ratio; the hash of the k-th stream
    from torch's pool is its id, 32 (k - 1) + 3, under the device type in the top byte. Streams that share a slot
    of a small table may change places.
    """
    identity = 32 * (stream - 1) + 3 if stream else 0
    return (1 << 56 | identity) * 11400714819323198485 & SIZE_MAX


def wait(heap: Heap, block: Block) -> None:
    """Let a freed block wait for each stream that used it."""
    block.state = PENDING
    tally = block.segment.tally
    tally.pending += 1
    tally.pending_bytes += block.size
    used_by = heap.uses.pop(block)
    heap.waits[block] = len(used_by)
    for stream in used_by:
        event = heap.driver.record_event(stream)
        heap.queues.setdefault(stream, deque()).append((event, block))


def check_done(heap: Heap, block: Block) -> None:
    """A block that is not allocated may only come back when the last of its events is finished."""
    if block.state != PENDING or block in heap.waits:
        raise TensorError(f"invalid device pointer: {block.address:#x} was freed before")
    tally = block.segment.tally
    tally.pending -= 1
    tally.pending_bytes -= block.size


def process_events(heap: Heap) -> None:
    """Poll each stream up to its first event that is not finished."""
    query = heap.driver.query_event
    for stream in sorted(heap.queues, key=polling_place):
        queue = heap.queues[stream]
        while queue and query(queue[0][0]):
            _finish(heap, queue.popleft()[1])
        if not queue:
            del heap.queues[stream]


def synchronize(heap: Heap, owner: PrivatePool | None = None) -> None:
    """Wait for every event (of the blocks of `owner`, if given), so that the freed blocks are in their pools."""
    heap.statistics.num_sync_all_streams += 1
    for stream in sorted(heap.queues, key=polling_place):
        queue = heap.queues[stream]
        kept = deque(entry for entry in queue if owner is not None and entry[1].segment.pool.owner is not owner)
        for event, block in queue:
            if owner is None or block.segment.pool.owner is owner:
                heap.driver.synchronize_event(event)
                _finish(heap, block)
        if kept:
            heap.queues[stream] = kept
        else:
            del heap.queues[stream]


def _finish(heap: Heap, block: Block) -> None:
    left = heap.waits[block] - 1
    heap.waits[block] = left
    if left == 0:
        del heap.waits[block]
        heap.free(block)


def note_active_peaks(statistics: Statistics, tally: Tally) -> None:
    """Active blocks are more than allocated ones only while some wait: their peaks are followed only then."""
    sibling, peaks = tally.sibling, statistics.peaks
    active, active_bytes = tally.count + tally.pending, tally.bytes + tally.pending_bytes
    tally.active_peak = max(tally.active_peak, active)
    tally.active_bytes_peak = max(tally.active_bytes_peak, active_bytes)
    peaks.active = max(peaks.active, active + sibling.count + sibling.pending)
    peaks.active_bytes = max(peaks.active_bytes, active_bytes + sibling.bytes + sibling.pending_bytes)

"""The state of the caching allocator and its hot path: best fit, splitting, merging and the counters.

`malloc` and `free` are long because each event of a replay passes through them, and a call costs a tenth of an
event. Everything rarer is in `growth.py` (new memory, release, garbage collection), `expandable.py` (pages),
`streams.py` (events) and `private.py` (pools).

Its twin for sweeps is csrc/heap.h.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import NamedTuple

from stridetool.core.drivers.device import Driver
from stridetool.core.memory import growth, streams
from stridetool.core.memory.blocks import (
    ALLOCATED,
    FREE,
    MIN_BLOCK,
    NEVER,
    SMALL_SIZE,
    UNMAPPED,
    Block,
    BlockPool,
    Key,
    PrivatePool,
    Segment,
)
from stridetool.core.memory.rounding import round_size
from stridetool.core.memory.settings import SIZE_MAX, Settings
from stridetool.core.memory.stats import Counters, Statistics
from stridetool.errors import ArgumentValueError, UnavailableError

POLICIES = ("2.14", "2.11", "fixed")


class TraceEntry(NamedTuple):
    """One thing that happened, under torch's name for it. `address` is the free memory of the device for `oom`."""

    action: str
    address: int
    size: int
    stream: int
    pool_id: tuple[int, int]


class Heap:
    """Blocks, segments and pools over `driver`; one thread at a time."""

    def __init__(self, driver: Driver, settings: Settings, *, policy: str, fraction: float) -> None:
        if policy not in POLICIES:
            raise ArgumentValueError(f"unknown policy {policy!r}", hint=f"one of {', '.join(POLICIES)}")
        if settings.backend != "native":
            raise UnavailableError("cudaMallocAsync is not this allocator: the driver decides there")
        self.driver = driver
        self.settings = settings
        self.policy = policy
        self.statistics = Statistics()
        self.segments: dict[int, Segment] = {}  # address → segment
        self.private: dict[tuple[int, int], PrivatePool] = {}
        self.total_bytes = driver.mem_info()[1]
        self.allowed: int | None = None  # bytes that may be reserved
        self._marks = False
        self._configure()
        small, large = self.statistics.small, self.statistics.large
        self.small = BlockPool(True, small, self.rests[0])
        self.large = BlockPool(False, large, self.rests[1])
        self.active_pools: list[PrivatePool] = []
        self.pool_names: dict[object, int] = {}
        self.segments_made = 0
        self.uses: dict[Block, dict[int, None]] = {}  # streams that use a block beside its own
        self.queues: dict[int, deque[tuple[object, Block]]] = {}  # stream → events and the blocks that wait
        self.waits: dict[Block, int] = {}  # events that a freed block still waits for
        self.trace: deque[TraceEntry] | None = None
        self.set_fraction(fraction if fraction < 1.0 else settings.per_process_memory_fraction)

    def _configure(self) -> None:
        settings = self.settings
        divisions = settings.roundup_power2_divisions
        self.divisions = divisions if max(divisions) > 1 else None
        self._rounded: dict[int, int] = {}  # bytes → block size, a memo of bounded size
        self.max_split = settings.max_split_size
        self._special = settings.expandable_segments or self.max_split != SIZE_MAX
        self.counts_segments = self.policy != "2.11"
        self.repaired = self.policy == "fixed"
        self.rests = (MIN_BLOCK, MIN_BLOCK if settings.expandable_segments else SMALL_SIZE + MIN_BLOCK)

    def configure(self, settings: Settings) -> None:
        """Other settings from now on, as torch.cuda.memory._set_allocator_settings; memory held stays as it is."""
        self.settings = settings
        self._configure()
        self._special = self._special or any(segment.page for segment in self.segments.values())
        self._age_or_not()
        for small, large in ((self.small, self.large), *((own.small, own.large) for own in self.private.values())):
            if small.min_rest != NEVER:
                small.min_rest, large.min_rest = self.rests

    def set_fraction(self, fraction: float) -> None:
        """As set_per_process_memory_fraction: 1 lifts the limit. Raises ArgumentValueError outside [0, 1]."""
        if not 0.0 <= fraction <= 1.0:
            raise ArgumentValueError(f"invalid fraction {fraction}. Please set within [0, 1]")
        self.allowed = int(fraction * self.driver.mem_info()[1]) if fraction < 1.0 else None
        self._age_or_not()

    def _age_or_not(self) -> None:
        """Searches age free blocks while garbage can be collected; once that began, blocks are marked for ever."""
        self._ages = self.allowed is not None and self.settings.garbage_collection_threshold > 0.0
        self._marks = self._marks or self._ages

    def malloc(self, nbytes: int, stream: int = 0) -> Block:
        """A block of at least `nbytes` (> 0) bytes that serves `stream`. Raises OutOfMemoryError."""
        if self.queues:
            streams.process_events(self)
        size = (nbytes + 511) & -512 if self.divisions is None else self._round(nbytes)
        if self.active_pools:
            pool = self.active_pools[-1].small if size <= SMALL_SIZE else self.active_pools[-1].large
        else:
            pool = self.small if size <= SMALL_SIZE else self.large
        if self._ages:
            pool.searches += 1

        free = pool.free.get(stream)
        index = 0
        if free:
            index = bisect_left(free, (size,))  # a shorter key is below all of that size
            if self._special:
                index = self.choose(free, index, size)
        if not free or index == len(free):
            block = growth.grow(self, pool, stream, size)
            pool = block.segment.pool
            free = block.segment.free
            key = (block.size, block.segment.counter, block.address, block)
            index = bisect_left(free, key)
            free.insert(index, key)
        else:
            key = free[index]
            block = key[3]

        segment = block.segment
        tally = segment.tally
        sibling = tally.sibling
        peaks = tally.peaks
        rest = key[0] - size
        if rest >= pool.min_rest and (size < self.max_split or pool.min_rest == MIN_BLOCK):
            # The new block takes the front; the rest keeps the object, and often its place among the free ones.
            address = key[2]
            left = block.prev
            front = Block(address, size, ALLOCATED, segment, left, block)
            if left is not None:
                left.next = front
            block.prev = front
            block.address = address = address + size
            block.size = rest
            key = (rest, key[1], address, block)
            if index == 0 or free[index - 1] < key:
                free[index] = key
            else:
                del free[index]
                insort(free, key, 0, index)
            if self._marks:
                block.idle_since = pool.searches
            if segment.page == 0:
                if left is not None or block.next is not None:
                    tally.split_bytes -= size
                else:
                    tally.first_split(rest)
            block = front
        else:
            del free[index]
            block.state = ALLOCATED
            size = key[0]
            if segment.page == 0 and (block.prev is not None or block.next is not None):
                tally.split -= 1
                tally.split_bytes -= size
        block.requested = nbytes

        tally.count_rises += 1
        tally.count = now = tally.count + 1
        if now > tally.count_peak:
            tally.count_peak = now
        if now + sibling.count > peaks.count:
            peaks.count = now + sibling.count
        tally.bytes_rises += size
        tally.bytes = now = tally.bytes + size
        if now > tally.bytes_peak:
            tally.bytes_peak = now
        if now + sibling.bytes > peaks.bytes:
            peaks.bytes = now + sibling.bytes
        tally.requested_rises += nbytes
        tally.requested = now = tally.requested + nbytes
        if now > tally.requested_peak:
            tally.requested_peak = now
        if now + sibling.requested > peaks.requested:
            peaks.requested = now + sibling.requested

        if self._special and size >= self.max_split:
            self.statistics.oversize_allocations.up(1)
        if self.queues:
            streams.note_active_peaks(self.statistics, tally)
        if self.trace is not None:
            self.note("alloc", block.address, nbytes, segment)
        return block

    def free(self, block: Block) -> None:
        """Take `block` back. It returns to its pool now, or when the streams that use it are done.

        Free neighbours merge and the right-hand object remains. Raises TensorError when it was freed before.
        """
        segment = block.segment
        tally = segment.tally
        size = gained = block.size
        requested = block.requested
        if block.state == ALLOCATED:
            tally.count -= 1
            tally.bytes -= size
            if self._special and size >= self.max_split:
                self.statistics.oversize_allocations.down(1)
            if self.trace is not None:
                self.note("free_requested", block.address, requested, segment)
            if self.uses and block in self.uses:
                streams.wait(self, block)
                return
        else:
            streams.check_done(self, block)
        if self.trace is not None:
            self.note("free_completed", block.address, requested, segment)
        tally.requested -= requested
        free = segment.free
        pieces = 1
        left = block.prev
        if left is not None and left.state == FREE:
            del free[bisect_left(free, (left.size, segment.counter, left.address))]
            size += left.size
            block.address = left.address
            block.prev = left = left.prev
            if left is not None:
                left.next = block
            pieces = 0
        right = block.next
        if right is not None and right.state == FREE:
            del free[bisect_left(free, (right.size, segment.counter, right.address))]
            size += right.size
            right.address = block.address
            right.requested = requested
            right.prev = left
            if left is not None:
                left.next = right
            block.state = FREE  # the object is gone, but a second free of it must not pass
            block = right
            pieces -= 1
        block.size = size
        block.state = FREE
        insort(free, (size, segment.counter, block.address, block))
        if self._marks:
            block.idle_since = segment.pool.searches
        if segment.page == 0:
            if left is not None or block.next is not None:
                peaks = tally.peaks
                tally.split_bytes_rises += gained
                tally.split_bytes = now = tally.split_bytes + gained
                if now > tally.split_bytes_peak:
                    tally.split_bytes_peak = now
                if now + tally.sibling.split_bytes > peaks.split_bytes:
                    peaks.split_bytes = now + tally.sibling.split_bytes
                if pieces > 0:
                    tally.split_rises += 1
                    tally.split = now = tally.split + 1
                    if now > tally.split_peak:
                        tally.split_peak = now
                    if now + tally.sibling.split > peaks.split:
                        peaks.split = now + tally.sibling.split
                else:
                    tally.split += pieces
            elif pieces < 1:
                tally.split += pieces - 1
                tally.split_bytes -= size - gained

    def _round(self, nbytes: int) -> int:
        """The block size under roundup_power2_divisions; programs ask for the same sizes again and again."""
        size = self._rounded.get(nbytes)
        if size is None:
            assert self.divisions is not None
            size = round_size(nbytes, self.divisions)
            if len(self._rounded) < 1 << 16:
                self._rounded[nbytes] = size
        return size

    def choose(self, free: list[Key], index: int, size: int) -> int:
        """The index of the block to take, from the first one that is large enough on; len(free) for none."""
        end = len(free)
        if index == end:
            return end
        expandable = free[index][3].segment.page > 0
        if expandable and self.settings.expandable_segments:
            index = _least_room(free, index)
        elif expandable:
            while index < end and free[index][3].segment.page > 0:
                index += 1
            if index == end:
                return end
        if self.repaired and free[index][3].segment.page > 0:
            return index
        limit = self.max_split
        too_large = free[index][0] >= (limit if size < limit else size + self.settings.max_non_split_rounding)
        return end if too_large else index

    def add_segment(self, pool: BlockPool, stream: int, address: int, nbytes: int, *, page: int) -> Segment:
        """A segment of `nbytes` at `address`, numbered where the order of free blocks asks for it."""
        self.segments_made += 1
        counter = self.segments_made if self.counts_segments else 0
        segment = Segment(pool, stream, address, nbytes, counter, page)
        self.segments[address] = segment
        if pool.owner is not None:
            pool.owner.segments += 1
        return segment

    def drop_segment(self, segment: Segment) -> None:
        """Forget a segment that went back to the driver."""
        del self.segments[segment.address]
        if segment.pool.owner is not None:
            segment.pool.owner.segments -= 1

    def note_reserved(self, segment: Segment, change: int, action: str, address: int) -> None:
        """The driver gave (`change` > 0) or took back memory, at `address`."""
        statistics, is_small, owner = self.statistics, segment.pool.is_small, segment.pool.owner
        counters = [statistics.reserved]
        if owner is not None:
            counters.append(statistics.private.setdefault(owner.identity, Counters()))
        for each in counters:
            if change > 0:
                each.up(is_small, change)
            else:
                each.down(is_small, -change)
        statistics.num_device_alloc += change > 0
        statistics.num_device_free += change < 0
        if self.trace is not None:
            self.note(action, address, abs(change), segment)

    def note_failure(self, pool: BlockPool, stream: int, size: int) -> None:
        """Write torch's `oom` entry, in which the device's free memory stands for the address."""
        if self.trace is not None:
            self.trace.append(TraceEntry("oom", self.driver.mem_info()[0], size, stream, pool.identity))

    def note_snapshot(self) -> None:
        """Write torch's `snapshot` entry: the size is all active memory."""
        if self.trace is not None:
            self.trace.append(TraceEntry("snapshot", 0, self.statistics.active_bytes, 0, (0, 0)))

    def note(self, action: str, address: int, size: int, segment: Segment) -> None:
        """Write one entry of the trace, if one is kept."""
        if self.trace is not None:
            self.trace.append(TraceEntry(action, address, size, segment.stream, segment.pool.identity))


def _least_room(free: list[Key], index: int) -> int:
    """Of the expandable blocks from `index` on, the first that can expand less far than its successor."""
    least = NEVER
    for position in range(index, len(free)):
        block = free[position][3]
        right = block.next
        room = block.size
        if right is not None and right.state == UNMAPPED:
            room += right.size
        if room >= least:
            return position - 1
        if block.segment.page == 0:
            return position
        least = room
    return len(free) - 1

"""The one caching allocator: torch 2.14's algorithm over any driver, so that a GPU, a simulated device and every
what-if replay run the same code.

`malloc` and `free` are the hot path and therefore long: each event of a replay passes through them, and a call
costs a tenth of an event. Everything rarer is in `growth.py` (new memory, release, garbage collection),
`expandable.py` (pages), `snapshot.py` (what is shown) and `rounding.py`.

Faults of torch 2.14 that are reproduced, and repaired by `policy="fixed"`:

- after cached memory was released, the pools are not searched again, so that a request fails and the same
  request succeeds a moment later (pytorch#189504, #191302);
- the two rules of `max_split_size` also reject expandable blocks, so that both settings together leak reserved
  memory (pytorch#123548, #193400);
- the out-of-memory text counts free memory of private pools as allocated (met in vllm#41268).

`policy="2.11"` orders free blocks as releases up to 2.11 do: by size and address, not by age of the segment.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import Any, NamedTuple

from stridetool.core.drivers.device import Driver
from stridetool.core.memory import growth, private, snapshot, streams
from stridetool.core.memory.allocator import Stats
from stridetool.core.memory.blocks import (
    ALLOCATED,
    FREE,
    MIN_BLOCK,
    SMALL_SIZE,
    UNMAPPED,
    Block,
    BlockPool,
    Key,
    PrivatePool,
    Segment,
)
from stridetool.core.memory.returns import Returns
from stridetool.core.memory.rounding import round_size
from stridetool.core.memory.settings import DEFAULT, SIZE_MAX, Settings
from stridetool.core.memory.stats import Counters, Statistics
from stridetool.core.storage import DataPtr
from stridetool.errors import ArgumentValueError, UnavailableError

POLICIES = ("2.14", "2.11", "fixed")


class TraceEntry(NamedTuple):
    """One thing that happened, under torch's name for it. `address` is the free memory of the device for `oom`."""

    action: str
    address: int
    size: int
    stream: int
    pool_id: tuple[int, int]


class CachingAllocator:
    """Caches the memory of `driver` as torch's native CUDA allocator does under `settings`.

    `fraction` < 1 limits what is reserved to that part of the device, and overrides the settings' fraction.
    The raw methods (`malloc`, `free`, …) are for one thread at a time; `allocate` is safe from any thread.
    """

    def __init__(
        self, driver: Driver, settings: Settings = DEFAULT, *, policy: str = "2.14", fraction: float = 1.0
    ) -> None:
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
        self._live: dict[int, Block] = {}
        self._returns = Returns(self._free_address)
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

    def set_fraction(self, fraction: float) -> None:
        """As set_per_process_memory_fraction: 1 lifts the limit. Raises ArgumentValueError outside [0, 1]."""
        if not 0.0 <= fraction <= 1.0:
            raise ArgumentValueError(f"invalid fraction {fraction}. Please set within [0, 1]")
        self.allowed = int(fraction * self.driver.mem_info()[1]) if fraction < 1.0 else None
        self._ages = self.allowed is not None and self.settings.garbage_collection_threshold > 0.0

    # -- the hot path ------------------------------------------------------------------------------------------

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
            if self._ages:
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
        if self._ages:
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

    # -- best fit beyond the plain rule ------------------------------------------------------------------------

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

    # -- what is rarer -----------------------------------------------------------------------------------------

    def record_stream(self, block: Block, stream: int) -> None:
        """After its free, `block` waits for the work that `stream` has then been given."""
        if stream != block.segment.stream and block.state == ALLOCATED:
            self.uses.setdefault(block, {})[stream] = None

    def process_events(self) -> None:
        """Bring blocks back whose streams are done; every malloc begins so."""
        streams.process_events(self)

    def empty_cache(self) -> None:
        """Give back every segment, and every page, that holds no block."""
        growth.release_cached(self)

    def pool_create(self, pool: object, *, use_on_oom: bool = False, no_split: bool = False) -> None:
        """As torch.cuda.MemPool(): a private pool under the name `pool`."""
        private.create(self, pool, use_on_oom=use_on_oom, no_split=no_split)

    def pool_begin(self, pool: object) -> None:
        """Allocate from `pool` until `pool_end`. Raises InputError for a pool that does not exist."""
        private.begin(self, pool)

    def pool_end(self, pool: object) -> None:
        """End what `pool_begin` began."""
        private.end(self, pool)

    def pool_destroy(self, pool: object) -> None:
        """Nobody will allocate from `pool` any more: what is free in it goes back, the rest when it is free."""
        private.destroy(self, pool)

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
            identity = (0, 0) if pool.owner is None else pool.owner.identity
            self.trace.append(TraceEntry("oom", self.driver.mem_info()[0], size, stream, identity))

    def note_snapshot(self) -> None:
        """Write torch's `snapshot` entry: the size is all active memory."""
        if self.trace is not None:
            self.trace.append(TraceEntry("snapshot", 0, self.active_bytes, 0, (0, 0)))

    def note(self, action: str, address: int, size: int, segment: Segment) -> None:
        """Write one entry of the trace, if one is kept."""
        if self.trace is not None:
            owner = segment.pool.owner
            identity = (0, 0) if owner is None else owner.identity
            self.trace.append(TraceEntry(action, address, size, segment.stream, identity))

    def record_history(self, enabled: bool = True, *, max_entries: int | None = None) -> None:
        """Keep a trace of the last `max_entries` actions (None: of all) for `snapshot()`, or stop doing so."""
        self.trace = deque(maxlen=max_entries) if enabled else None

    # -- what can be asked -------------------------------------------------------------------------------------

    @property
    def allocated_bytes(self) -> int:
        """Bytes of blocks that are handed out."""
        return self.statistics.small.bytes + self.statistics.large.bytes

    @property
    def active_bytes(self) -> int:
        """Those, and the bytes of freed blocks that still wait for a stream."""
        return self.allocated_bytes + self.statistics.small.pending_bytes + self.statistics.large.pending_bytes

    @property
    def requested_bytes(self) -> int:
        """What was asked for, of the active blocks."""
        return self.statistics.small.requested + self.statistics.large.requested

    @property
    def reserved_bytes(self) -> int:
        """Bytes held from the driver."""
        return self.statistics.reserved.all.current

    @property
    def inactive_split_bytes(self) -> int:
        """Free bytes of segments that also hold other blocks; expandable ones do not count."""
        return self.statistics.small.split_bytes + self.statistics.large.split_bytes

    @property
    def segment_count(self) -> int:
        """Segments held from the driver; expandable ones do not count."""
        return self.statistics.segment.all.current

    def reset_peak(self) -> None:
        """As torch.cuda.reset_peak_memory_stats."""
        self.statistics.reset_peaks()

    def memory_stats(self) -> dict[str, int]:
        """The flat keys of `torch.cuda.memory_stats()`."""
        return self.statistics.flat(self.max_split)

    def stats(self) -> Stats:
        """The bytes held now and at most."""
        statistics = self.statistics
        return Stats(
            allocated_bytes=self.allocated_bytes,
            peak_allocated_bytes=statistics.peaks.bytes,
            reserved_bytes=self.reserved_bytes,
            peak_reserved_bytes=statistics.reserved.all.peak,
            active_bytes=self.active_bytes,
            requested_bytes=self.requested_bytes,
            allocations=statistics.small.count + statistics.large.count,
        )

    def snapshot(self) -> dict[str, Any]:
        """All memory in the form of `torch.cuda.memory._snapshot()`: pickled, torch's viewer opens it."""
        return snapshot.snapshot(self)

    # -- the Allocator protocol --------------------------------------------------------------------------------

    def allocate(self, nbytes: int, *, stream: int = 0) -> DataPtr:
        """`nbytes` bytes for `stream` (a null address for 0). Raises OutOfMemoryError with torch's text."""
        if nbytes == 0:
            return DataPtr(0, 0, self.driver.device)
        with self._returns:
            block = self.malloc(nbytes, stream)
            self._live[block.address] = block
        return DataPtr(block.address, nbytes, self.driver.device, self._returns)

    def use_on_stream(self, pointer: DataPtr, stream: int) -> None:
        """As Tensor.record_stream: the memory of `pointer` is also used by `stream`."""
        if pointer.address:
            with self._returns:
                self.record_stream(self._live[pointer.address], stream)

    def _free_address(self, address: int) -> None:
        self.free(self._live.pop(address))


def _least_room(free: list[Key], index: int) -> int:
    """Of the expandable blocks from `index` on, the first that has less room behind it than its successor."""
    room = _room(free[index][3])
    while free[index][3].segment.page > 0 and index + 1 < len(free):
        following = _room(free[index + 1][3])
        if following >= room:
            break
        index, room = index + 1, following
    return index


def _room(block: Block) -> int:
    """The size that `block` can expand to."""
    right = block.next
    return block.size + (right.size if right is not None and right.state == UNMAPPED else 0)

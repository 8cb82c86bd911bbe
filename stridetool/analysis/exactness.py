"""Replays a recording next to itself: which of the recorded addresses does the allocator predict?

The device is the recording's: it gives what was given then and refuses everything else. Where the prediction is
wrong the allocator is led back to what was recorded, so that one miss is one miss. What the start of a partial
recording leaves open and a later address reveals (a block that was larger than asked for, the age of a segment)
is corrected, and for sizes the replay begins again with what is known now.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stridetool.analysis.conditions import UNLIMITED
from stridetool.analysis.recorded_device import Given, PoolFinder, RecordedDriver, UnexpectedError, device_bytes
from stridetool.analysis.rewind import Start, largest_rest, rewind, sized
from stridetool.core.memory import restore
from stridetool.core.memory.blocks import FREE, SMALL_BUFFER, Block
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.recorded import DEFAULT_POOL, DeviceRecording, History, PoolId, Range
from stridetool.core.memory.rounding import block_size, segment_size
from stridetool.core.memory.settings import Settings
from stridetool.errors import InputError, OutOfMemoryError

_MAX_PASSES = 6

# Sees an entry's index, the allocator after it, and what the device gave that the allocator has yet to take.
OnEntry = Callable[[int, CachingAllocator, Sequence[Given]], None]
Watch = Callable[[], OnEntry]


@dataclass(slots=True)
class Check:
    """What a pass found. `allocator` stands at the end of the recording; `known` are its live blocks."""

    allocator: CachingAllocator
    known: dict[int, Block]
    predicted: int = 0
    total: int = 0
    first_miss: int | None = None
    widened: dict[int, int] = field(default_factory=dict)  # address at the start → size learned
    reordered: int = 0
    lost: int = 0  # entries that the model could not follow
    total_bytes: int = UNLIMITED  # of the device
    watcher: OnEntry | None = None  # that saw this pass


def check(
    recording: DeviceRecording,
    settings: Settings,
    policy: str,
    *,
    start: Start | None = None,
    until: int | None = None,
    watch: Watch | None = None,
) -> tuple[Check, Start]:
    """Replay the recorded requests (up to entry `until`) and count the addresses that come out as recorded.

    `watch` makes a watcher for each pass, and that of the pass that counts is kept.
    """
    start = start or rewind(recording)
    sizes = sized(start, settings)
    total = device_bytes(recording, start)
    result = _learned(recording, settings, policy, start, sizes, until, total, watch)
    if total != UNLIMITED and (result.lost or result.first_miss is not None):
        other = _learned(recording, settings, policy, start, sizes, until, UNLIMITED, watch)
        if other.predicted > result.predicted:
            result = other
    return result, start


def again(
    recording: DeviceRecording,
    settings: Settings,
    policy: str,
    *,
    start: Start,
    found: Check,
    until: int | None = None,
    on_entry: OnEntry | None = None,
) -> Check:
    """One pass more (up to entry `until`), with what `found`, the check of the whole recording, has learned."""
    sizes = {**sized(start, settings), **found.widened}
    result = _Pass(recording, settings, policy, start, sizes, until, found.total_bytes).run(on_entry)
    result.widened = found.widened
    return result


def _learned(
    recording: DeviceRecording,
    settings: Settings,
    policy: str,
    start: Start,
    sizes: dict[int, int],
    until: int | None,
    total: int,
    watch: Watch | None,
) -> Check:
    """Passes until no later address tells of a block that was larger; `widened` are all that were."""
    learned: dict[int, int] = {}
    for _ in range(_MAX_PASSES):
        watcher = watch() if watch is not None else None
        result = _Pass(recording, settings, policy, start, {**sizes, **learned}, until, total).run(watcher)
        if not result.widened:
            break
        learned |= result.widened
    result.widened = learned
    return result


class _Pass:
    """One replay of the recorded entries."""

    def __init__(
        self,
        recording: DeviceRecording,
        settings: Settings,
        policy: str,
        start: Start,
        sizes: dict[int, int],
        until: int | None,
        total: int,
    ) -> None:
        self.history: History = recording.history
        self.end = len(self.history) if until is None else min(until + 1, len(self.history))
        self.page = settings.large_segment_size
        self.driver = RecordedDriver(total)
        self.heap = CachingAllocator(self.driver, settings, policy=policy, fraction=1.0)
        self.heap.set_fraction(1.0)
        self.start = start
        self.places = sorted(start.blocks)
        self.sizes = sizes
        self.pools = PoolFinder(recording, start)
        self.waiting: dict[int, Block] = {}  # address → block that was freed, and that something still uses
        self.misses = 0
        self.released = False  # the device took memory back since the last request
        self.frees_on_request = "free_completed" not in self.history.actions
        allocations = self.history.actions[: self.end].count("alloc")
        self.result = Check(self.heap, {}, total=allocations, total_bytes=total)

    def run(self, on_entry: OnEntry | None = None) -> Check:
        self._install()
        history = self.history
        handlers = {
            "alloc": self._alloc,
            "free_requested": self._free_requested,
            "free_completed": self._free_completed,
            "segment_alloc": self._expect,
            "segment_map": self._expect,
            "segment_free": self._give_back,
            "segment_unmap": self._give_back,
            "oom": self._fail,
        }
        rows = zip(history.actions[: self.end], history.addresses, history.sizes, history.streams, strict=False)
        for index, (action, address, size, stream) in enumerate(rows):
            handler = handlers.get(action)
            if handler is not None:
                handler(index, address, size, stream)
            if on_entry is not None:
                on_entry(index, self.heap, self.driver.expected)
        self._flush()
        self.result.predicted = self.result.total - self.misses
        self.result.watcher = on_entry
        return self.result

    def _install(self) -> None:
        blocks = self.start.blocks
        live = {address: (size, min(blocks[address].requested, size)) for address, size in self.sizes.items()}
        ranges, reserved = self.start.segments.values(), self.start.reserved
        self.result.known = restore.install(self.heap, ranges, live, page=self.page, reserved=reserved)
        self.driver.is_asked = True
        self.result.lost += len(blocks) - len(self.result.known)
        for address, block in blocks.items():
            if block.is_pending and address in self.result.known:
                self._let_wait(address)

    def _expect(self, index: int, address: int, size: int, stream: int) -> None:
        pool_id = self.history.pool_ids[index] or self.pools.of(address)
        self.driver.expected.append(Given(self.history.actions[index], address, size, stream, pool_id))

    def _flush(self) -> None:
        """Take over what the device gave, and the allocator did not ask for."""
        self.driver.is_asked = False
        while self.driver.expected:
            given = self.driver.expected.popleft()
            small = given.size == SMALL_BUFFER
            each = Range(given.address, given.size, given.stream, small, given.pool_id, given.action == "segment_map")
            try:
                restore.grant(self.heap, each, page=self.page)
            except (InputError, OutOfMemoryError):
                self.result.lost += 1
        self.driver.is_asked = True

    def _fail(self, index: int, address: int, size: int, stream: int) -> None:
        self._flush()

    def _give_back(self, index: int, address: int, size: int, stream: int) -> None:
        self._flush()
        self.released = True
        if not restore.give_back(self.heap, address):
            self.result.lost += 1

    def _alloc(self, index: int, address: int, nbytes: int, stream: int) -> None:
        pool_id = self.history.pool_ids[index] or self.pools.of(address)
        grown = self._first_growth(nbytes) if self.released else None
        block = self._predict(nbytes, stream, pool_id) if grown is None else None
        self.released = False
        if grown == address:
            # Torch does not search again after it released memory: the new segment it is, though a block would fit.
            block = self._follow(address, nbytes, None)
        elif block is None or block.address != address or self.driver.expected:
            self.misses += 1
            if self.result.first_miss is None:
                self.result.first_miss = index
            block = self._follow(address, nbytes, block)
        if block is None:
            self.result.lost += 1
        else:
            self.result.known[address] = block

    def _first_growth(self, nbytes: int) -> int | None:
        """The address of the new segment of just the size that this request makes, if that is what comes next."""
        if not self.driver.expected or self.driver.expected[0].action != "segment_alloc":
            return None
        given = self.driver.expected[0]
        needed = segment_size(block_size(nbytes, self.heap.divisions), self.page)
        return given.address if given.size == needed else None

    def _predict(self, nbytes: int, stream: int, pool_id: PoolId) -> Block | None:
        """The allocator's own choice for this request."""
        if pool_id != DEFAULT_POOL:
            restore.pool_of(self.heap, pool_id, True)
            self.heap.active_pools.append(self.heap.private[pool_id])
        try:
            return self.heap.malloc(nbytes or 1, stream)
        except (UnexpectedError, OutOfMemoryError):
            return None
        finally:
            self.heap.active_pools.clear()

    def _follow(self, address: int, nbytes: int, wrong: Block | None) -> Block | None:
        """Undo the wrong choice and do what was recorded."""
        if wrong is not None:
            self._learn_order(wrong, address)
            self.heap.free(wrong)
        self._flush()
        self._learn_size(address)
        return restore.place(self.heap, address, max(nbytes, 1))

    def _learn_size(self, address: int) -> None:
        """A block begins a little behind the start of free memory: the block before it was larger than it asked."""
        segment = restore.segment_at(self.heap, address)
        free = None if segment is None else restore.block_at(segment, address)
        if segment is None or free is None or free.state != FREE or segment.page or segment.pool.is_small:
            return
        before, slack = free.prev, address - free.address
        if before is None or before.address not in self.start.blocks:
            return
        if not 0 < slack <= largest_rest(before.size, self.heap.settings):
            return
        behind = bisect_right(self.places, before.address)
        if behind < len(self.places) and self.places[behind] < address:
            return  # free memory that was another block's at the start
        is_open = self.start.blocks[before.address].size is None
        if is_open and self.result.known.get(before.address) is before and restore.widen(before, slack):
            self.result.widened[before.address] = before.size

    def _learn_order(self, wrong: Block, address: int) -> None:
        """Of two free blocks of one size torch took the other: its segment is the older one."""
        segment = restore.segment_at(self.heap, address)
        if segment is None or segment is wrong.segment or segment.pool is not wrong.segment.pool:
            return
        if self.heap.counts_segments and segment.counter > wrong.segment.counter:
            restore.exchange_ages(segment, wrong.segment)
            self.result.reordered += 1

    def _free_requested(self, index: int, address: int, size: int, stream: int) -> None:
        if address not in self.result.known or address in self.waiting:
            self.result.lost += 1
        elif self.frees_on_request:
            self.heap.free(self.result.known.pop(address))
        else:
            self._let_wait(address)

    def _let_wait(self, address: int) -> None:
        self.waiting[address] = block = self.result.known[address]
        restore.hold(self.heap, block)

    def _free_completed(self, index: int, address: int, size: int, stream: int) -> None:
        block = self.result.known.pop(address, None)
        held = self.waiting.pop(address, None)
        if held is not None:
            restore.let_go(self.heap, held)
        elif block is not None:  # no request was recorded
            self.heap.free(block)

"""Pinned host memory, as torch's CachingHostAllocator: power-of-two buckets, nothing split, nothing merged.

That wastes up to half of each block, and a setting bounds it: above `pinned_max_round_threshold_mb` sizes are not
rounded, above `pinned_max_cached_size_mb` freed blocks are not kept.
"""

from __future__ import annotations

from typing import Any

from stridetool.core.drivers.device import Driver
from stridetool.core.memory.allocator import Stats
from stridetool.core.memory.cpu import whole_segment
from stridetool.core.memory.returns import Returns
from stridetool.core.memory.settings import DEFAULT, Settings
from stridetool.core.storage import DataPtr
from stridetool.errors import ArgumentValueError, OutOfMemoryError

PAGE = 4096  # bytes; what blocks of the reserve segment are rounded to


def bucket_of(size: int) -> int:
    """ceil(log2(size))."""
    return (size - 1).bit_length()


class _Host:
    """One block. `reserve` says that it is a part of the reserve segment, which is never given back alone."""

    __slots__ = ("address", "events", "requested", "reserve", "size", "streams")

    def __init__(self, address: int, size: int, *, reserve: bool) -> None:
        self.address = address
        self.size = size
        self.reserve = reserve
        self.requested = 0
        self.streams: set[int] = set()
        self.events: list[object] = []


class PinnedAllocator:
    """Page-locked memory of `driver`; the events that reuse waits for are those of `events` (default: `driver`)."""

    def __init__(self, driver: Driver, settings: Settings = DEFAULT, *, events: Driver | None = None) -> None:
        self.driver = driver
        self.settings = settings
        self._events = events or driver
        self._free: dict[int, list[_Host]] = {}  # bucket → blocks, the latest last
        self._waiting: list[_Host] = []
        self._live: dict[int, _Host] = {}
        self._reserve: tuple[int, int] | None = None  # (next address, end)
        self._allocated = self._requested = self._reserved = 0
        self._peaks = (0, 0)  # allocated, reserved
        self._returns = Returns(self._take_back)

    def allocate(self, nbytes: int, *, stream: int = 0) -> DataPtr:
        """A block of the bucket of `nbytes`, or a new one. Raises OutOfMemoryError."""
        if nbytes == 0:
            return DataPtr(0, 0, self.driver.device)
        with self._returns:
            self._process_events()
            size = self._round(nbytes)
            block = self._reuse(size) or self._new(size)
            block.requested = nbytes
            self._live[block.address] = block
            self._allocated += block.size
            self._requested += nbytes
            self._peaks = max(self._peaks[0], self._allocated), max(self._peaks[1], self._reserved)
        return DataPtr(block.address, nbytes, self.driver.device, self._returns)

    def _round(self, nbytes: int) -> int:
        return 1 << bucket_of(nbytes) if nbytes <= self.settings.pinned_max_round_threshold else nbytes

    def _reuse(self, size: int) -> _Host | None:
        """The latest block of the bucket that is large enough."""
        blocks = self._free.get(bucket_of(size), [])
        for index in range(len(blocks) - 1, -1, -1):
            if blocks[index].size >= size:
                return blocks.pop(index)
        return None

    def _new(self, size: int) -> _Host:
        """From the reserve segment while that lasts, else from the driver."""
        return self._from_reserve(size) or self._from_driver(size)

    def _from_reserve(self, size: int) -> _Host | None:
        if not self.settings.pinned_reserve_segment_size:
            return None
        if self._reserve is None:
            nbytes = self.settings.pinned_reserve_segment_size
            address = self.driver.malloc(nbytes)
            self._reserve = address, address + nbytes
            self._reserved += nbytes
        address, end = self._reserve
        size = -(-size // PAGE) * PAGE
        if address + size > end:
            return None
        self._reserve = address + size, end
        return _Host(address, size, reserve=True)

    def _from_driver(self, size: int) -> _Host:
        try:
            address = self.driver.malloc(size)
        except OutOfMemoryError:
            self._release_all()
            address = self.driver.malloc(size)
        self._reserved += size
        return _Host(address, size, reserve=False)

    def record_event(self, pointer: DataPtr, stream: int) -> None:
        """`stream` copies to or from this memory: it is not reused before that is done.

        Raises ArgumentValueError for memory that is not from here.
        """
        with self._returns:
            block = self._live.get(pointer.address)
            if block is None:
                raise ArgumentValueError(f"{pointer.address:#x} is no pinned memory of this allocator")
            block.streams.add(stream)

    def _take_back(self, address: int) -> None:
        block = self._live.pop(address)
        self._allocated -= block.size
        self._requested -= block.requested
        block.events = [self._events.record_event(stream) for stream in sorted(block.streams)]
        block.streams.clear()
        if block.events:
            self._waiting.append(block)
        else:
            self._retire(block)

    def _process_events(self) -> None:
        waiting, self._waiting = self._waiting, []
        for block in waiting:
            block.events = [event for event in block.events if not self._events.query_event(event)]
            if block.events:
                self._waiting.append(block)
            else:
                self._retire(block)

    def _retire(self, block: _Host) -> None:
        if block.reserve or block.size <= self.settings.pinned_max_cached_size:
            self._free.setdefault(bucket_of(block.size), []).append(block)
        else:
            self._give_back(block)

    def _give_back(self, block: _Host) -> None:
        self.driver.free(block.address)
        self._reserved -= block.size

    def _release_all(self) -> None:
        for block in self._waiting:
            for event in block.events:
                self._events.synchronize_event(event)
        self._process_events()
        for bucket, blocks in self._free.items():
            for block in blocks:
                if not block.reserve:
                    self._give_back(block)
            self._free[bucket] = [block for block in blocks if block.reserve]

    def empty_cache(self) -> None:
        """Wait for what is in flight, then give all free blocks back; the reserve segment stays."""
        with self._returns:
            self._release_all()

    def stats(self) -> Stats:
        """Active bytes include blocks that wait for a stream."""
        waiting = sum(block.size for block in self._waiting)
        return Stats(
            allocated_bytes=self._allocated,
            peak_allocated_bytes=self._peaks[0],
            reserved_bytes=self._reserved,
            peak_reserved_bytes=self._peaks[1],
            active_bytes=self._allocated + waiting,
            requested_bytes=self._requested,
            allocations=len(self._live),
        )

    def snapshot(self) -> dict[str, Any]:
        """Every block as a host segment of its own."""
        rows = [whole_segment(block.address, block.size, block.requested) for block in self._live.values()]
        idle = [*self._waiting, *(block for blocks in self._free.values() for block in blocks)]
        rows += [whole_segment(block.address, block.size, 0, live=False) for block in idle]
        return {"segments": [], "host_segments": sorted(rows, key=lambda row: int(row["address"]))}

"""The device of a recording: what it gave, in its order, and whose memory an address was."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from stridetool.analysis.conditions import UNLIMITED
from stridetool.analysis.rewind import Start
from stridetool.core.drivers.sim import MAX_PAGES, SimDriver
from stridetool.core.memory.blocks import SMALL_BUFFER
from stridetool.core.memory.recorded import DEFAULT_POOL, MAX_BYTES, DeviceRecording, History, PoolId, Range
from stridetool.errors import InputError

# What entries may map in all: a large device filled hundreds of times, and then with some entries each time.
_FREE_PAGES = 1 << 20
_PAGES_PER_ENTRY = 64


class UnexpectedError(Exception):
    """The allocator asks the device for what the recording does not have here."""


class Given(NamedTuple):
    """Memory that the device gave: an entry of the recording."""

    action: str
    address: int
    size: int
    stream: int
    pool_id: PoolId


class RecordedDriver(SimDriver):
    """Gives the segments and pages that were recorded, in their order, and nothing else."""

    def __init__(self, total_bytes: int) -> None:
        super().__init__(UNLIMITED, stream_events="manual")
        self.total_bytes = total_bytes
        self.expected: deque[Given] = deque()
        self.reserved: dict[int, int] = {}  # start of a range → end of what was ever mapped in it
        self.is_asked = False  # whether the allocator itself is asking now, and not the recording

    def mem_info(self) -> tuple[int, int]:
        """The total decides how long reserved ranges are; nothing fails for want of it."""
        return self.total_bytes, self.total_bytes

    def _next(self, action: str) -> Given:
        if not self.expected or self.expected[0].action != action:
            raise UnexpectedError
        return self.expected[0]

    def malloc(self, nbytes: int) -> int:
        given = self._next("segment_alloc")
        if given.size != nbytes:
            raise UnexpectedError
        self.expected.popleft()
        self.adopt(given.address, nbytes)
        return given.address

    def reserve(self, nbytes: int) -> int:
        address = self._next("segment_map").address
        start = self.start_before(address)
        if start is not None and address <= self.reserved.get(start, start):
            raise UnexpectedError
        self.adopt(address, nbytes, is_virtual=True)
        return address

    def _note_end(self, address: int, nbytes: int) -> None:
        start = self.start_before(address)
        if start in self.reserved:
            self.reserved[start] = max(self.reserved[start], address + nbytes)

    def unreserve(self, address: int, nbytes: int) -> None:
        self.reserved.pop(address, None)
        super().unreserve(address, nbytes)

    def adopt(self, address: int, nbytes: int, *, is_virtual: bool = False) -> None:
        if is_virtual:
            self.reserved[address] = address
        super().adopt(address, nbytes, is_virtual=is_virtual)

    def create(self, nbytes: int) -> int:
        if self.is_asked:
            self._next("segment_map")
        return super().create(nbytes)

    def map(self, address: int, nbytes: int, handle: int) -> None:
        if not self.is_asked:
            self._note_end(address, nbytes)
            return
        given = self._next("segment_map")
        if address != given.address or given.size < nbytes:
            raise UnexpectedError
        self._note_end(address, nbytes)
        self.expected.popleft()
        if given.size > nbytes:
            self.expected.appendleft(given._replace(address=address + nbytes, size=given.size - nbytes))


def refuse_bombs(devices: Iterable[tuple[DeviceRecording, Start]], page: int) -> None:
    """Refuse a few entries about more memory than any machine has, or about more pages than can be followed.

    `page` is the size of the pages of large expandable segments. Raises InputError.
    """
    held = installed = mapped = entries = 0
    for recording, start in devices:
        ranges, history = list(start.segments.values()), recording.history
        step = _page_of(ranges, page)
        held += sum(each.size for each in ranges)
        installed += sum(
            each.size // (SMALL_BUFFER if each.is_small else step) for each in ranges if each.is_expandable
        )
        sizes = [size for action, size in zip(history.actions, history.sizes, strict=True) if action == "segment_map"]
        mapped += sum(1 if size == SMALL_BUFFER else size // step for size in sizes)
        entries += len(history)
    if held >= MAX_BYTES:
        raise InputError("it begins with more memory than any machine has")
    if installed > MAX_PAGES:
        raise InputError(f"its expandable segments begin with {installed:,} pages, and no machine has so many")
    if mapped > _FREE_PAGES + entries * _PAGES_PER_ENTRY:
        raise InputError(f"its {entries:,} entries map {mapped:,} pages, more than a program does with so few")


def _page_of(ranges: Iterable[Range], page: int) -> int:
    """The size of large pages, unless the size of a range shows that they were smaller."""
    large = (each.size for each in ranges if each.is_expandable and not each.is_small)
    return SMALL_BUFFER if any(size % page for size in large) else page


def device_bytes(recording: DeviceRecording, start: Start) -> int:
    """The size of the device, from the distance of two reserved ranges, which are 9/8 of it, or from a failure.

    It matters to expandable segments alone: how much room there is behind a block is part of their best fit.
    """
    gaps = [after - before for before, after in pairwise(sorted(start.reserved.values()))]
    held = sum(segment.size for segment in recording.segments)
    plausible = [gap * 8 // 9 for gap in gaps if gap > held]
    if plausible:
        return min(plausible)
    return max(_usable_at_failures(recording.history, held), default=UNLIMITED)


def _usable_at_failures(history: History, held: int) -> Iterator[int]:
    """Held plus free bytes at each failure; `held` are those at the end."""
    for action, address, size in zip(
        reversed(history.actions), reversed(history.addresses), reversed(history.sizes), strict=True
    ):
        if action == "oom":
            yield held + address
        elif action in ("segment_map", "segment_alloc"):
            held -= size
        elif action in ("segment_unmap", "segment_free"):
            held += size


class PoolFinder:
    """The pool of an address where an entry is too old to tell: from the segments at the end and the start."""

    def __init__(self, recording: DeviceRecording, start: Start) -> None:
        self._ranges = sorted(
            [(each.address, each.size, each.pool_id) for each in recording.segments]
            + [(each.address, each.size, each.pool_id) for each in start.segments.values()]
        )

    def of(self, address: int) -> PoolId:
        """The pool of the segment in which `address` lies."""
        index = bisect_right(self._ranges, (address, 1 << 70)) - 1
        if index < 0 or address >= self._ranges[index][0] + self._ranges[index][1]:
            return DEFAULT_POOL
        return self._ranges[index][2]

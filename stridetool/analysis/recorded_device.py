"""The device of a recording: what it gave, in its order, and whose memory an address was."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

from stridetool.analysis.conditions import UNLIMITED
from stridetool.analysis.rewind import Start
from stridetool.core.drivers.sim import SimDriver
from stridetool.core.memory.recorded import DEFAULT_POOL, DeviceRecording, PoolId


class UnexpectedError(Exception):
    """The allocator asks the device for what the recording does not have here."""


class RecordedDriver(SimDriver):
    """Gives the segments and pages that were recorded, in their order, and nothing else."""

    def __init__(self) -> None:
        super().__init__(UNLIMITED, stream_events="manual")
        self.expected: deque[tuple[str, int, int]] = deque()  # (action, address, bytes)
        self.asked = False  # whether the allocator itself is asking now, and not the recording

    def _next(self, action: str) -> tuple[str, int, int]:
        if not self.expected or self.expected[0][0] != action:
            raise UnexpectedError
        return self.expected[0]

    def malloc(self, nbytes: int) -> int:
        _, address, size = self._next("segment_alloc")
        if size != nbytes:
            raise UnexpectedError
        self.expected.popleft()
        self.adopt(address, size)
        return address

    def reserve(self, nbytes: int) -> int:
        address = self._next("segment_map")[1]
        self.adopt(address, nbytes, is_virtual=True)
        return address

    def create(self, nbytes: int) -> int:
        if self.asked:
            self._next("segment_map")
        return super().create(nbytes)

    def map(self, address: int, nbytes: int, handle: int) -> None:
        if not self.asked:
            return
        _, start, left = self._next("segment_map")
        if address != start or left < nbytes:
            raise UnexpectedError
        self.expected.popleft()
        if left > nbytes:
            self.expected.appendleft(("segment_map", start + nbytes, left - nbytes))


class PoolFinder:
    """The pool and stream of an address where an entry does not tell: from the segments at the end and the start."""

    def __init__(self, recording: DeviceRecording, start: Start) -> None:
        self._ranges = sorted(
            [(s.address, s.size, s.pool_id, s.stream) for s in recording.segments]
            + [(s.address, s.size, s.pool_id, s.stream) for s in start.segments.values()]
        )
        self._streams: dict[int, int] = {}
        history = recording.history
        for index, action in enumerate(history.actions):
            if action in ("segment_alloc", "segment_map"):
                self._streams[history.addresses[index]] = history.streams[index]
        self._pools = {
            history.addresses[index]: pool
            for index, (action, pool) in enumerate(zip(history.actions, history.pool_ids, strict=True))
            if pool is not None and action in ("segment_alloc", "segment_map")
        }

    def note_stream(self, address: int, stream: int) -> None:
        """An allocation at `address` was for `stream`."""
        self._streams.setdefault(address, stream)

    def of(self, address: int) -> PoolId:
        """The pool of the segment in which `address` lies."""
        if address in self._pools:
            return self._pools[address]
        found = self._find(address)
        return DEFAULT_POOL if found is None else found[2]

    def stream_of(self, address: int) -> int:
        """The stream of that segment."""
        if address in self._streams:
            return self._streams[address]
        found = self._find(address)
        return 0 if found is None else found[3]

    def _find(self, address: int) -> tuple[int, int, PoolId, int] | None:
        index = bisect_right(self._ranges, (address, 1 << 70)) - 1
        found = self._ranges[index] if index >= 0 else None
        return found if found is not None and address < found[0] + found[1] else None

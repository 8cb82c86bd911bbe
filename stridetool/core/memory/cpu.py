"""CPU allocators: direct, as torch's (no cache at all), and caching, which keeps freed memory."""

from __future__ import annotations

from typing import Any

from stridetool.core.drivers.device import Driver
from stridetool.core.drivers.host import ALIGNMENT
from stridetool.core.memory.allocator import Stats
from stridetool.core.memory.recorded import ALLOCATED, INACTIVE
from stridetool.core.memory.returns import Returns
from stridetool.core.storage import DataPtr
from stridetool.errors import OutOfMemoryError


class DirectAllocator:
    """Every allocation is one `malloc` of the driver, every release one `free`. Zero bytes are a null address."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._live: dict[int, int] = {}  # address → bytes
        self._allocated = 0
        self._peak = 0
        self._returns = Returns(self._free)

    def allocate(self, nbytes: int, *, stream: int = 0) -> DataPtr:
        """Raises OutOfMemoryError when the driver has no room."""
        if nbytes == 0:
            return DataPtr(0, 0, self.driver.device)
        with self._returns:
            address = self.driver.malloc(nbytes)
            self._live[address] = nbytes
            self._allocated += nbytes
            self._peak = max(self._peak, self._allocated)
        return DataPtr(address, nbytes, self.driver.device, self._returns)

    def _free(self, address: int) -> None:
        self._allocated -= self._live.pop(address)
        self.driver.free(address)

    def empty_cache(self) -> None:
        """Nothing is cached."""

    def stats(self) -> Stats:
        """Allocated, reserved, active and requested bytes are the same here."""
        now, peak = self._allocated, self._peak
        return Stats(now, peak, now, peak, now, now, len(self._live))

    def snapshot(self) -> dict[str, Any]:
        """Each allocation is a segment of one block."""
        return {"segments": [whole_segment(address, size, size) for address, size in sorted(self._live.items())]}


class CpuCachingAllocator:
    """Keeps freed memory in one free list per size (in steps of 64 bytes) and hands the latest out first.

    As torch's mobile CPUCachingAllocator: nothing is split or merged, and when the driver has no room the whole
    cache is given back and the request tried once more.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._free: dict[int, list[int]] = {}  # bytes → addresses
        self._live: dict[int, tuple[int, int]] = {}  # address → (bytes, requested bytes)
        self._allocated = self._requested = self._cached = 0
        self._peaks = (0, 0)  # allocated, reserved
        self._returns = Returns(self._take_back)

    def allocate(self, nbytes: int, *, stream: int = 0) -> DataPtr:
        """A cached or a new range. Raises OutOfMemoryError."""
        if nbytes == 0:
            return DataPtr(0, 0, self.driver.device)
        size = -(-nbytes // ALIGNMENT) * ALIGNMENT
        with self._returns:
            address = self._obtain(size)
            self._live[address] = size, nbytes
            self._allocated += size
            self._requested += nbytes
            reserved = self._allocated + self._cached
            self._peaks = max(self._peaks[0], self._allocated), max(self._peaks[1], reserved)
        return DataPtr(address, nbytes, self.driver.device, self._returns)

    def _obtain(self, size: int) -> int:
        if self._free.get(size):
            self._cached -= size
            return self._free[size].pop()
        try:
            return self.driver.malloc(size)
        except OutOfMemoryError:
            self._release_all()
            return self.driver.malloc(size)

    def _take_back(self, address: int) -> None:
        size, requested = self._live.pop(address)
        self._allocated -= size
        self._requested -= requested
        self._cached += size
        self._free.setdefault(size, []).append(address)

    def _release_all(self) -> None:
        for addresses in self._free.values():
            for address in addresses:
                self.driver.free(address)
        self._free.clear()
        self._cached = 0

    def empty_cache(self) -> None:
        """Give everything that nobody uses back to the driver."""
        with self._returns:
            self._release_all()

    def stats(self) -> Stats:
        """Reserved bytes are those in use and those cached."""
        return Stats(
            allocated_bytes=self._allocated,
            peak_allocated_bytes=self._peaks[0],
            reserved_bytes=self._allocated + self._cached,
            peak_reserved_bytes=self._peaks[1],
            active_bytes=self._allocated,
            requested_bytes=self._requested,
            allocations=len(self._live),
        )

    def snapshot(self) -> dict[str, Any]:
        """Each range, in use or cached, is a segment of one block."""
        rows = [whole_segment(address, size, requested) for address, (size, requested) in self._live.items()]
        for size, addresses in self._free.items():
            rows += [whole_segment(address, size, 0, live=False) for address in addresses]
        return {"segments": sorted(rows, key=lambda row: int(row["address"]))}


def whole_segment(address: int, size: int, requested: int, *, live: bool = True, stream: int = 0) -> dict[str, Any]:
    """A segment that is one block, in the form of torch's snapshots; device -1 is the host, as there."""
    used = size if live else 0
    state = ALLOCATED if live else INACTIVE
    block = {"address": address, "size": size, "requested_size": requested, "state": state, "frames": []}
    return {
        "device": -1,
        "address": address,
        "total_size": size,
        "allocated_size": used,
        "active_size": used,
        "requested_size": requested if live else 0,
        "stream": stream,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [block],
    }

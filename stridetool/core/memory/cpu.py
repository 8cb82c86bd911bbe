"""CPU allocators: direct, as torch's (no cache at all), and caching, which keeps freed memory."""

from __future__ import annotations

from typing import Any

from stridetool.core.drivers.device import Driver
from stridetool.core.memory.allocator import Stats
from stridetool.core.storage import DataPtr


class DirectAllocator:
    """Every allocation is one `malloc` of the driver, every release one `free`. Zero bytes are a null address."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._live: dict[int, int] = {}  # address → bytes
        self._allocated = 0
        self._peak = 0

    def allocate(self, nbytes: int, *, stream: int = 0) -> DataPtr:
        """Raises OutOfMemoryError when the driver has no room."""
        if nbytes == 0:
            return DataPtr(0, 0, self.driver.device)
        address = self.driver.malloc(nbytes)
        self._live[address] = nbytes
        self._allocated += nbytes
        self._peak = max(self._peak, self._allocated)
        return DataPtr(address, nbytes, self.driver.device, self._free)

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
        return {"segments": [direct_segment(address, size) for address, size in sorted(self._live.items())]}


def direct_segment(address: int, nbytes: int, *, live: bool = True, stream: int = 0) -> dict[str, Any]:
    """A segment that is one block, in the form of torch's snapshots."""
    used = nbytes if live else 0
    state = "active_allocated" if live else "inactive"
    block = {"address": address, "size": nbytes, "requested_size": nbytes, "state": state, "frames": []}
    return {
        "device": -1,
        "address": address,
        "total_size": nbytes,
        "allocated_size": used,
        "active_size": used,
        "requested_size": used,
        "stream": stream,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [block],
    }

"""The seam above the drivers: what every allocator answers, and the plain values that it answers with."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from stridetool.core.drivers.device import Driver
from stridetool.core.storage import DataPtr


class Stats(NamedTuple):
    """What an allocator holds now and held at most, in bytes; `allocations` is a count of live blocks."""

    allocated_bytes: int = 0
    peak_allocated_bytes: int = 0
    reserved_bytes: int = 0
    peak_reserved_bytes: int = 0
    active_bytes: int = 0
    requested_bytes: int = 0
    allocations: int = 0


class Allocator(Protocol):
    """Hands out memory of one device. Memory comes back only through the deleter of its DataPtr."""

    @property
    def driver(self) -> Driver:
        """The device below."""
        ...

    def allocate(self, nbytes: int, *, stream: int = 0) -> DataPtr:
        """`nbytes` bytes (a null pointer for 0). Raises OutOfMemoryError."""
        ...

    def empty_cache(self) -> None:
        """Give cached memory back to the driver."""
        ...

    def stats(self) -> Stats:
        """The bytes held now and at most."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """All memory held, in the form of `torch.cuda.memory._snapshot()`."""
        ...

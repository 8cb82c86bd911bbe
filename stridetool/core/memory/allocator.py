"""The seam above the drivers: what every allocator answers, and the plain values that it answers with."""

from __future__ import annotations

from typing import Protocol

from stridetool.core.storage import DataPtr


class Allocator(Protocol):
    """Hands out memory of one device. Memory comes back only through the deleter of its DataPtr."""

    def allocate(self, nbytes: int, *, stream: int = 0) -> DataPtr:
        """`nbytes` bytes (a null pointer for 0). Raises OutOfMemoryError."""
        ...

    def empty_cache(self) -> None:
        """Give cached memory back to the driver."""
        ...

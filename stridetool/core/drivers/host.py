"""Host memory: 64-byte-aligned like torch's CPU allocator, held by NumPy arrays so that it needs no libc."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from stridetool.core.drivers.device import CPU
from stridetool.errors import OutOfMemoryError, UnavailableError

ALIGNMENT = 64  # bytes; c10's gAlignment


class _Range:
    """What NumPy needs to see foreign memory as an array, without copying it."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, nbytes: int) -> None:
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (nbytes,),
            "typestr": "|u1",
            "version": 3,
        }


def view(address: int, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """`nbytes` bytes of this process's memory from `address` as a writable uint8 array; keeps nothing alive."""
    return np.asarray(_Range(address, nbytes)) if nbytes else np.empty(0, np.uint8)


class HostDriver:
    """The memory of this process. Events are finished at once: host work has no streams."""

    device = CPU

    def __init__(self) -> None:
        self._owners: dict[int, np.ndarray[Any, np.dtype[np.uint8]]] = {}

    def malloc(self, nbytes: int) -> int:
        """64-byte-aligned memory, contents undefined. Raises OutOfMemoryError with torch's text."""
        try:
            owner = np.empty(nbytes + ALIGNMENT - 1, np.uint8)
        except (MemoryError, ValueError) as error:
            raise OutOfMemoryError(
                f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {nbytes} bytes. "
                "Error code 12 (Cannot allocate memory)"
            ) from error
        address = -(-owner.ctypes.data // ALIGNMENT) * ALIGNMENT
        self._owners[address] = owner
        return address

    def free(self, address: int) -> None:
        """Give back what `malloc` returned."""
        del self._owners[address]

    def mem_info(self) -> tuple[int, int]:
        """(free, total) bytes of physical memory; where the system does not tell what is free, all of it."""
        if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
            raise UnavailableError("this system does not tell how much memory it has")
        page = os.sysconf("SC_PAGE_SIZE")
        total = page * os.sysconf("SC_PHYS_PAGES")
        free = page * os.sysconf("SC_AVPHYS_PAGES") if "SC_AVPHYS_PAGES" in os.sysconf_names else total
        return free, total

    def buffer(self, address: int, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """A writable uint8 array over `nbytes` bytes from `address`, valid as long as that memory is."""
        return view(address, nbytes)

    def zero(self, address: int, nbytes: int) -> None:
        """Make bytes 0."""
        self.buffer(address, nbytes)[:] = 0

    def synchronize(self) -> None:
        """Nothing runs in the background."""

    def record_event(self, stream: int) -> object:
        """An event that is finished."""
        return None

    def query_event(self, event: object) -> bool:
        """Always finished."""
        return True

    def synchronize_event(self, event: object) -> None:
        """Nothing to wait for."""

    def reserve(self, nbytes: int) -> int:
        """Raises UnavailableError: host memory is not mapped page by page here."""
        raise UnavailableError("host memory has no expandable segments", hint="leave expandable_segments off")

    def unreserve(self, address: int, nbytes: int) -> None:
        """Raises UnavailableError, as `reserve` does."""
        self.reserve(nbytes)

    def create(self, nbytes: int) -> int:
        """Raises UnavailableError, as `reserve` does."""
        return self.reserve(nbytes)

    def map(self, address: int, nbytes: int, handle: int) -> None:
        """Raises UnavailableError, as `reserve` does."""
        self.reserve(nbytes)

    def unmap(self, address: int, nbytes: int, handle: int) -> None:
        """Raises UnavailableError, as `reserve` does."""
        self.reserve(nbytes)

    def release(self, handle: int) -> None:
        """Raises UnavailableError, as `reserve` does."""
        self.reserve(0)

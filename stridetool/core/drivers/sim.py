"""A GPU that is not there: capacity, addresses and events, so that allocators run without hardware.

The rules are those of the stand-in device under which torch 2.14.1 was recorded: `cudaMalloc` addresses from
0x700000000000 in steps of 2 MiB, virtual ranges from 0x600000000000, and an allocation succeeds when
`used + round_up(size, 2 MiB) <= capacity`. Data exists only for memory that somebody reads or writes.
"""

from __future__ import annotations

import mmap
import sys
from bisect import bisect_right, insort
from typing import Any

import numpy as np

from stridetool.core.drivers.device import Device
from stridetool.errors import ArgumentValueError, OutOfMemoryError, UsageError

MALLOC_BASE = 0x7000_0000_0000
VIRTUAL_BASE = 0x6000_0000_0000
GRANULARITY = 2 << 20  # bytes; the granularity of cuMemCreate, and what cudaMalloc rounds large requests to
DEFAULT_CAPACITY = 80 << 30  # bytes
MAX_PAGES = 1 << 18  # that may be mapped at a time: 512 GiB of the smallest, and a bound on what a trace can cost
_APART = 1 << 52  # bytes between the two kinds of addresses, once a recording's own are in use

# GiB as drivers report them to torch: the "total capacity" of public out-of-memory messages, two decimals.
# It is less than the label on the box, and differs by some 0.1 GiB between drivers and ECC settings.
PRESETS = {
    "a100-40g": 39.49,
    "a100-80g": 79.25,
    "a10g": 22.06,
    "b200": 178.35,
    "h100-80g": 79.21,
    "h200": 139.80,
    "l4": 22.04,
    "rtx3090": 23.69,
    "rtx4090": 23.64,
    "t4": 14.74,
    "v100-16g": 15.77,
}
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


class _Backing:
    """Zeros whose pages cost memory only once they are written, so that 80 GiB devices fit on a laptop."""

    __slots__ = ("array", "pages")

    def __init__(self, nbytes: int) -> None:
        self.pages: mmap.mmap | None = None
        self.array: np.ndarray[Any, np.dtype[np.uint8]]
        if _NO_RESERVE:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
            self.pages = mmap.mmap(-1, nbytes, flags=flags)
            self.array = np.frombuffer(self.pages, np.uint8)
        else:
            self.array = np.zeros(nbytes, np.uint8)

    def zero(self, first: int, end: int) -> None:
        """Whole pages go back to the system, which gives zeros when they are asked for again."""
        low, high = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE, end // mmap.PAGESIZE * mmap.PAGESIZE
        if self.pages is None or sys.platform != "linux" or high <= low:
            low = high = end
        else:
            self.pages.madvise(mmap.MADV_DONTNEED, low, high - low)
        self.array[first:low] = 0
        self.array[high:end] = 0


def _lazy_zeros(nbytes: int) -> _Backing:
    try:
        return _Backing(nbytes)
    except (MemoryError, OSError, ValueError) as error:
        raise OutOfMemoryError(f"the host cannot back {nbytes} bytes of a simulated device") from error


class SimEvent:
    """A point in a stream's work: the `serial`-th event of the device."""

    __slots__ = ("done", "queries_left", "serial", "stream")

    def __init__(self, stream: int, serial: int, queries_left: int, done: bool) -> None:
        self.stream = stream
        self.serial = serial
        self.queries_left = queries_left
        self.done = done


class SimDriver:
    """A device of `capacity` bytes.

    `address_policy`: `bump` never reuses an address; `firstfit` takes the lowest free range that fits.
    `stream_events`: `auto` finishes events at once; `manual` at `complete(stream)` or `synchronize()`; a
    number N at the (N+1)-th query of that event.
    """

    def __init__(
        self,
        capacity: int = DEFAULT_CAPACITY,
        *,
        address_policy: str = "bump",
        stream_events: str | int = "auto",
        granularity: int = GRANULARITY,
        name: str = "simulated GPU",
        device: Device = Device("cuda", 0),  # noqa: B008  an immutable value
    ) -> None:
        if address_policy not in ("bump", "firstfit"):
            raise ArgumentValueError(f"unknown address policy {address_policy!r}", hint="bump or firstfit")
        self.device = device
        self.name = name
        self.capacity = capacity
        self.used = 0  # bytes, in whole granules
        self.granularity = granularity
        self._first_fit = address_policy == "firstfit"
        self._auto = stream_events == "auto"
        self._queries = stream_events if isinstance(stream_events, int) else -1
        self._serial = 0  # of the latest event
        self._finished: dict[int | None, int] = {}  # stream (None: every one) → its events up to here are done
        self._next_malloc = MALLOC_BASE
        self._next_virtual = VIRTUAL_BASE
        self._next_handle = 1
        self._gaps: list[tuple[int, int]] = []  # (address, bytes) that firstfit may use again, ascending
        self._starts: list[int] = []  # addresses of live ranges (mallocs and reservations), ascending
        self._sizes: dict[int, int] = {}  # address → bytes as asked for
        self._handles: dict[int, int] = {}  # handle → bytes
        self._data: dict[int, _Backing] = {}

    @classmethod
    def preset(cls, name: str, *, address_policy: str = "bump", stream_events: str | int = "auto") -> SimDriver:
        """The device of this name in PRESETS. Raises UsageError for any other name."""
        if name not in PRESETS:
            raise UsageError(f"unknown device {name!r}", hint=f"one of {', '.join(PRESETS)}, or a capacity")
        capacity = int(PRESETS[name] * (1 << 30))
        return cls(capacity, address_policy=address_policy, stream_events=stream_events, name=name)

    def set_capacity(self, nbytes: int) -> None:
        """Other processes took or gave back memory: from now on the device is this large."""
        self.capacity = nbytes

    @property
    def frontier(self) -> tuple[int, int]:
        """The addresses behind everything that was allocated or reserved so far."""
        return self._next_malloc, self._next_virtual

    @property
    def mapped_pages(self) -> int:
        """Handles of physical memory that are held."""
        return len(self._handles)

    def _round(self, nbytes: int) -> int:
        return -(-nbytes // self.granularity) * self.granularity

    def _take(self, nbytes: int) -> None:
        if self.used + self._round(nbytes) > self.capacity:
            raise OutOfMemoryError(f"CUDA error: out of memory ({nbytes} bytes on {self.name})")
        self.used += self._round(nbytes)

    def _place(self, size: int) -> int:
        """The lowest range of `size` bytes that nothing lies in; what is left of a gap stays one."""
        for index, (start, room) in enumerate(self._gaps):
            if room >= size:
                self._gaps[index : index + 1] = [(start + size, room - size)] if room > size else []
                return start
        return self._next_malloc

    def _leave_gap(self, start: int, size: int) -> None:
        """A gap from `start` on, one with the gaps that it touches, or with the free end of the address space."""
        index = bisect_right(self._gaps, (start, 0))
        if index < len(self._gaps) and self._gaps[index][0] == start + size:
            size += self._gaps.pop(index)[1]
        if index and sum(self._gaps[index - 1]) == start:
            index -= 1
            start, room = self._gaps.pop(index)
            size += room
        if start + size == self._next_malloc:
            self._next_malloc = start
        else:
            self._gaps.insert(index, (start, size))

    def malloc(self, nbytes: int) -> int:
        """An address for `nbytes` bytes. Raises OutOfMemoryError when the device is full."""
        self._take(nbytes)
        size = self._round(nbytes)
        address = self._place(size) if self._first_fit else self._next_malloc
        self._next_malloc = max(self._next_malloc, address + size)
        insort(self._starts, address)
        self._sizes[address] = nbytes
        return address

    def adopt(self, address: int, nbytes: int, *, is_virtual: bool = False) -> None:
        """Take memory (or a virtual range) at an address of a recording as handed out; new ones lie beyond it."""
        if not is_virtual:
            self._take(nbytes)
        insort(self._starts, address)
        self._sizes[address] = nbytes
        beyond = self._round(address + nbytes)
        self._next_malloc = max(self._next_malloc, beyond)
        self._next_virtual = max(self._next_virtual, beyond + _APART)

    def free(self, address: int) -> None:
        """Give back what `malloc` returned."""
        size = self._round(self._sizes[address])
        self.used -= size
        self._forget(address)
        if self._first_fit:
            self._leave_gap(address, size)

    def _forget(self, address: int) -> None:
        del self._sizes[address]
        del self._starts[bisect_right(self._starts, address) - 1]
        self._data.pop(address, None)

    def start_before(self, address: int) -> int | None:
        """Where the last live range begins that does not begin behind `address`."""
        index = bisect_right(self._starts, address)
        return self._starts[index - 1] if index else None

    def start_behind(self, address: int) -> int | None:
        """Where the next live range begins behind `address`."""
        index = bisect_right(self._starts, address)
        return self._starts[index] if index < len(self._starts) else None

    def mem_info(self) -> tuple[int, int]:
        """(free, total) bytes."""
        return max(self.capacity - self.used, 0), self.capacity

    def buffer(self, address: int, nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """A writable uint8 array of the device's data, made (as zeros) when first asked for."""
        if not nbytes:
            return np.empty(0, np.uint8)
        start = self._range_of(address, nbytes)
        if start not in self._data:
            self._data[start] = _lazy_zeros(self._sizes[start])
        return self._data[start].array[address - start : address - start + nbytes]

    def zero(self, address: int, nbytes: int) -> None:
        """Make bytes 0: what nobody wrote to is that already, and what was written costs the host no more."""
        if nbytes:
            start = self._range_of(address, nbytes)
            if start in self._data:
                self._data[start].zero(address - start, address - start + nbytes)

    def _range_of(self, address: int, nbytes: int) -> int:
        start = self.start_before(address)
        if start is None or address + nbytes > start + self._sizes[start]:
            raise ArgumentValueError(f"no live memory of {self.name} at {address:#x} ({nbytes} bytes)")
        return start

    def synchronize(self) -> None:
        """Finish all work."""
        self.complete()

    def record_event(self, stream: int) -> object:
        """An event behind all work of `stream`."""
        self._serial += 1
        return SimEvent(stream, self._serial, self._queries, self._auto)

    def query_event(self, event: object) -> bool:
        """Whether `event` is finished; each query counts where events finish by number of queries."""
        assert isinstance(event, SimEvent)
        if not event.done:
            finished = max(self._finished.get(None, 0), self._finished.get(event.stream, 0))
            event.done = event.serial <= finished or event.queries_left == 0
            event.queries_left -= 1
        return event.done

    def synchronize_event(self, event: object) -> None:
        """Finish `event`."""
        assert isinstance(event, SimEvent)
        event.done = True

    def complete(self, stream: int | None = None) -> None:
        """All work recorded so far on `stream` (None: on every stream) is finished."""
        self._finished[stream] = self._serial

    def reserve(self, nbytes: int) -> int:
        """A virtual range; no capacity is used."""
        address, self._next_virtual = self._next_virtual, self._next_virtual + self._round(nbytes)
        insort(self._starts, address)
        self._sizes[address] = nbytes
        return address

    def unreserve(self, address: int, nbytes: int) -> None:
        """Give back a virtual range."""
        self._forget(address)

    def create(self, nbytes: int) -> int:
        """A handle of physical memory. Raises OutOfMemoryError when the device is full."""
        if len(self._handles) >= MAX_PAGES:
            raise UsageError(
                f"a simulated device maps at most {MAX_PAGES:,} pages", hint="give it the capacity of a real one"
            )
        self._take(nbytes)
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._handles[handle] = nbytes
        return handle

    def map(self, address: int, nbytes: int, handle: int) -> None:
        """Put physical memory behind a part of a virtual range (the data of a range is made as a whole)."""

    def unmap(self, address: int, nbytes: int, handle: int) -> None:
        """Take it away again; mapped anew, it still holds what was written there."""
        self.release(handle)

    def release(self, handle: int) -> None:
        """Give a handle back."""
        self.used -= self._round(self._handles.pop(handle))

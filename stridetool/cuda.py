"""`stridetool.cuda`: torch.cuda's names for memory and streams, over the real device or the simulated one.

Whatever allocator serves `cuda` answers; without a GPU that is the caching allocator over the simulator.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stridetool.core.drivers.device import Device, Driver
from stridetool.core.memory.allocator import Allocator
from stridetool.core.memory.registry import allocator_for, is_simulated
from stridetool.core.options import as_device
from stridetool.core.storage import current
from stridetool.errors import ArgumentTypeError, ArgumentValueError
from stridetool.errors import OutOfMemoryError as OutOfMemoryError
from stridetool.units import format_bytes


def _device(device: Device | str | int | None) -> Device:
    chosen = as_device("cuda" if device is None else device)
    if chosen.type != "cuda":
        raise ArgumentValueError(f"Expected a cuda device, but got: {chosen}")
    return Device("cuda", current_device() if chosen.index is None else chosen.index)


def _allocator(device: Device | str | int | None) -> Allocator:
    return allocator_for(_device(device))


def _driver(device: Device | str | int | None) -> Driver:
    return _allocator(device).driver


def is_available() -> bool:
    """Whether there is a GPU; the simulated device is none."""
    return not is_simulated(Device("cuda", 0))


def device_count() -> int:
    """How many GPUs there are; the simulated device is none."""
    if not is_available():
        return 0
    import cupy

    return int(cupy.cuda.runtime.getDeviceCount())


def current_device() -> int:
    """The index that `cuda` alone means."""
    return 0


def get_device_name(device: Device | str | int | None = None) -> str:
    """The name of the device."""
    return str(getattr(_driver(device), "name", "CUDA device"))


# Memory


def memory_allocated(device: Device | str | int | None = None) -> int:
    """Bytes that tensors hold now."""
    return _allocator(device).stats().allocated_bytes


def max_memory_allocated(device: Device | str | int | None = None) -> int:
    """The most bytes that tensors held."""
    return _allocator(device).stats().peak_allocated_bytes


def memory_reserved(device: Device | str | int | None = None) -> int:
    """Bytes that the allocator holds from the device now."""
    return _allocator(device).stats().reserved_bytes


def max_memory_reserved(device: Device | str | int | None = None) -> int:
    """The most bytes that the allocator held from the device."""
    return _allocator(device).stats().peak_reserved_bytes


def memory_stats(device: Device | str | int | None = None) -> dict[str, int]:
    """Every counter under torch's flat names; few of them when the allocator does not cache."""
    allocator = _allocator(device)
    if hasattr(allocator, "memory_stats"):
        stats: dict[str, int] = allocator.memory_stats()
        return stats
    plain = allocator.stats()
    return {
        "active_bytes.all.current": plain.active_bytes,
        "allocated_bytes.all.current": plain.allocated_bytes,
        "allocated_bytes.all.peak": plain.peak_allocated_bytes,
        "allocation.all.current": plain.allocations,
        "requested_bytes.all.current": plain.requested_bytes,
        "reserved_bytes.all.current": plain.reserved_bytes,
        "reserved_bytes.all.peak": plain.peak_reserved_bytes,
    }


def reset_peak_memory_stats(device: Device | str | int | None = None) -> None:
    """The peaks are what is held now."""
    allocator = _allocator(device)
    if hasattr(allocator, "reset_peak"):
        allocator.reset_peak()


def memory_summary(device: Device | str | int | None = None, abbreviated: bool = False) -> str:
    """A few lines of text about what is held."""
    stats = _allocator(device).stats()
    rows: dict[str, tuple[int, int | None]] = {
        "allocated": (stats.allocated_bytes, stats.peak_allocated_bytes),
        "reserved": (stats.reserved_bytes, stats.peak_reserved_bytes),
    }
    if not abbreviated:
        rows |= {"active": (stats.active_bytes, None), "requested": (stats.requested_bytes, None)}
    real = "simulated" if is_simulated(_device(device)) else "real"
    lines = [f"memory of {_device(device)} ({real})"]
    for name, (now, peak) in rows.items():
        tail = "" if peak is None else f", {format_bytes(peak)} at most"
        lines.append(f"  {name:10} {format_bytes(now):>12}{tail}")
    return "\n".join(lines)


def memory_snapshot(device: Device | str | int | None = None) -> list[dict[str, Any]]:
    """The segments and their blocks, in the form of torch's."""
    segments: list[dict[str, Any]] = _allocator(device).snapshot()["segments"]
    return segments


def empty_cache() -> None:
    """Give cached memory back to the device."""
    _allocator(None).empty_cache()


def mem_get_info(device: Device | str | int | None = None) -> tuple[int, int]:
    """(free, total) bytes of the device."""
    return _driver(device).mem_info()


def set_per_process_memory_fraction(fraction: float, device: Device | str | int | None = None) -> None:
    """Refuse to hold more than this part of the device. Raises ArgumentValueError outside 0 … 1."""
    if not isinstance(fraction, int | float):
        raise ArgumentTypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ArgumentValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    allocator: Any = _allocator(device)
    allocator.set_fraction(fraction)


# Streams

_handles = itertools.count(1)


def _real_stream() -> Any:
    import cupy

    return cupy.cuda.Stream(non_blocking=True)


class Stream:
    """An order of work of its own; `handle` is what the allocator knows it by (0: the default stream)."""

    __slots__ = ("_owner", "device", "handle")

    def __init__(self, device: Device | str | int | None = None, *, handle: int | None = None) -> None:
        self.device = _device(device)
        self._owner = None if handle is not None or is_simulated(self.device) else _real_stream()
        self.handle = handle if handle is not None else self._owner.ptr if self._owner else next(_handles)

    @property
    def cuda_stream(self) -> int:
        """The handle."""
        return self.handle

    def synchronize(self) -> None:
        """Wait for the device."""
        synchronize(self.device)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device, self.handle) == (other.device, other.handle)

    def __hash__(self) -> int:
        return hash((self.device, self.handle))

    def __repr__(self) -> str:
        return f"<stridetool.cuda.Stream device={self.device} cuda_stream={self.handle:#x}>"


def current_stream(device: Device | str | int | None = None) -> Stream:
    """The stream on which tensors are made now."""
    return Stream(device, handle=current.stream)


def default_stream(device: Device | str | int | None = None) -> Stream:
    """Stream 0."""
    return Stream(device, handle=0)


@contextmanager
def stream(chosen: Stream | None) -> Iterator[None]:
    """Make tensors on another stream while the block runs."""
    before = current.stream
    current.stream = before if chosen is None else chosen.handle
    try:
        yield
    finally:
        current.stream = before


def synchronize(device: Device | str | int | None = None) -> None:
    """Wait until the device is idle."""
    _driver(device).synchronize()

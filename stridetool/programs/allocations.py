"""Records what a layout script allocates on each device, with the line that asked, while the script runs.

The script gets the real allocators: the caching one over a simulated GPU of the wanted capacity and settings (or
over the real device), and the CPU's own. They are wrapped in a recorder, so that its trace can be replayed.
"""

from __future__ import annotations

import os.path
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from stridetool.core.drivers.device import CPU, Device, Driver, driver_for, set_driver
from stridetool.core.memory.adaptors import RecordingAllocator
from stridetool.core.memory.allocator import Allocator
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.events import Event
from stridetool.core.memory.registry import allocator_for, set_allocator
from stridetool.core.memory.settings import Settings
from stridetool.core.storage import DataPtr

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CUDA = Device("cuda", 0)


class SiteRecorder(RecordingAllocator):
    """`sites[i]` is the line of the script behind event i; "" for a free, which no line need ask for."""

    def __init__(self, upstream: Allocator) -> None:
        super().__init__(upstream)
        self.sites: list[str] = []

    def allocate(self, nbytes: int, *, stream: int = 0) -> DataPtr:
        """As upstream, in the trace and with its place."""
        self.sites += [""] * (len(self.events) - len(self.sites)) + [_caller()]
        return super().allocate(nbytes, stream=stream)


@dataclass(frozen=True, slots=True)
class DeviceTrace:
    """What one device was asked for."""

    device: str
    is_simulated: bool
    events: tuple[Event, ...]
    sites: tuple[str, ...]


class Recorders:
    """The recorders of all devices, while a script runs."""

    def __init__(self) -> None:
        self.by_device: dict[Device, SiteRecorder] = {}

    def traces(self) -> list[DeviceTrace]:
        """What was recorded; devices that nobody asked for anything are left out."""
        return [
            DeviceTrace(
                str(device),
                device.type == "cuda" and _is_simulated(recorder.driver),
                tuple(recorder.events),
                tuple(recorder.sites),
            )
            for device, recorder in self.by_device.items()
            if recorder.events
        ]


@contextmanager
def recorded_allocations(
    driver: Driver | None, settings: Settings, policy: str, fraction: float
) -> Iterator[Recorders]:
    """Record until the end of the block. `driver` is the CUDA device; None: the one that is there."""
    recorders = Recorders()
    cuda: Allocator
    replaced = driver_for(CUDA)
    if driver is not None:
        set_driver(driver)  # the bytes behind its addresses are its own
        cuda = CachingAllocator(driver, settings, policy=policy, fraction=fraction)
    else:
        cuda = allocator_for(CUDA)
    for device, allocator in ((CUDA, cuda), (CPU, allocator_for(CPU))):
        recorders.by_device[device] = SiteRecorder(allocator)
        set_allocator(device, recorders.by_device[device])
    try:
        yield recorders
    finally:
        for device in recorders.by_device:
            set_allocator(device, None)
        set_driver(replaced)


def _is_simulated(driver: Driver) -> bool:
    from stridetool.core.drivers.sim import SimDriver

    return isinstance(driver, SimDriver)


def _caller() -> str:
    """`FILE:LINE function` of the innermost frame that is not ours."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    if frame is None:
        return ""
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno} {frame.f_code.co_name}"

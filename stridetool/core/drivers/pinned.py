"""Page-locked host memory of a real GPU: the host driver, but for where the memory comes from."""

from __future__ import annotations

from stridetool.core.drivers.cuda import CudaDriver
from stridetool.core.drivers.host import HostDriver


class PinnedDriver(HostDriver):
    """cudaHostAlloc through `device`. Events are those of the device, whose copies the memory waits for."""

    def __init__(self, device: CudaDriver) -> None:
        super().__init__()
        self._device = device

    def malloc(self, nbytes: int) -> int:
        """Page-locked, and so aligned to pages. Raises OutOfMemoryError."""
        return self._device.host_malloc(nbytes)

    def free(self, address: int) -> None:
        """cudaFreeHost."""
        self._device.host_free(address)

    def record_event(self, stream: int) -> object:
        """An event of the device."""
        return self._device.record_event(stream)

    def query_event(self, event: object) -> bool:
        """Whether the device is done with it."""
        return self._device.query_event(event)

    def synchronize_event(self, event: object) -> None:
        """Wait for the device."""
        self._device.synchronize_event(event)

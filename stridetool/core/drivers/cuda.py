"""A real GPU through CuPy's runtime: the only file of the core that imports CuPy (lazily: that costs a second)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any

from stridetool.core.drivers.device import Device
from stridetool.errors import OutOfMemoryError, TensorError, UnavailableError


def is_available() -> bool:
    """True when CuPy is installed and sees a device."""
    if importlib.util.find_spec("cupy") is None:
        return False
    import cupy

    return bool(cupy.cuda.is_available())


def _cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise UnavailableError("CuPy is not installed", hint="pip install 'stride-tool[cuda12]'") from error
    return cupy


def _virtual_memory() -> ModuleType:
    """`cuda.bindings.driver`, which reaches cuMemCreate and its kin (CuPy's runtime does not)."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise UnavailableError(
            "expandable segments need the CUDA driver's virtual memory calls",
            hint="pip install cuda-bindings",
        ) from error
    module: ModuleType = driver
    return module


class CudaDriver:
    """Device `index`. `cupy` and `virtual`: the two libraries, or a recorded stand-in for them."""

    def __init__(self, index: int = 0, *, cupy: Any = None, virtual: Any = None) -> None:
        self.device = Device("cuda", index)
        self._cupy = cupy if cupy is not None else _cupy()
        self._runtime = self._cupy.cuda.runtime
        self._virtual_module = virtual

    def _here(self) -> Any:
        return self._cupy.cuda.Device(self.device.index)

    def _allocate(self, call: Callable[[], int], nbytes: int) -> int:
        try:
            with self._here():
                return int(call())
        except self._runtime.CUDARuntimeError as error:
            if error.status != self._runtime.errorMemoryAllocation:
                raise
            raise OutOfMemoryError(f"CUDA error: out of memory ({nbytes} bytes on {self.device})") from error

    def malloc(self, nbytes: int) -> int:
        """cudaMalloc. Raises OutOfMemoryError."""
        return self._allocate(lambda: self._runtime.malloc(nbytes), nbytes)

    def free(self, address: int) -> None:
        """cudaFree."""
        with self._here():
            self._runtime.free(address)

    def host_malloc(self, nbytes: int) -> int:
        """cudaHostAlloc: page-locked memory of the host. Raises OutOfMemoryError."""
        return self._allocate(lambda: self._runtime.hostAlloc(nbytes, 0), nbytes)

    def host_free(self, address: int) -> None:
        """cudaFreeHost."""
        self._runtime.freeHost(address)

    def mem_info(self) -> tuple[int, int]:
        """(free, total) bytes, cudaMemGetInfo."""
        with self._here():
            free, total = self._runtime.memGetInfo()
        return int(free), int(total)

    def buffer(self, address: int, nbytes: int) -> Any:
        """A CuPy uint8 array over device memory that somebody else keeps alive."""
        memory = self._cupy.cuda.UnownedMemory(address, nbytes, None, self.device.index)
        pointer = self._cupy.cuda.MemoryPointer(memory, 0)
        return self._cupy.ndarray((nbytes,), self._cupy.uint8, pointer)

    def zero(self, address: int, nbytes: int) -> None:
        """Make bytes 0."""
        self.buffer(address, nbytes)[:] = 0

    def synchronize(self) -> None:
        """cudaDeviceSynchronize."""
        with self._here():
            self._runtime.deviceSynchronize()

    def record_event(self, stream: int) -> object:
        """An event without timing, recorded on the stream with this handle."""
        with self._here():
            event = self._cupy.cuda.Event(disable_timing=True)
            self._runtime.eventRecord(event.ptr, stream)
        return event

    def query_event(self, event: Any) -> bool:
        """cudaEventQuery."""
        return bool(event.done)

    def synchronize_event(self, event: Any) -> None:
        """cudaEventSynchronize."""
        event.synchronize()

    def _call(self, name: str, *arguments: object) -> Any:
        """A call of the driver API: its result, or the error that its status means.

        It needs a current context, which the runtime makes when the device is chosen.
        """
        if self._virtual_module is None:
            self._virtual_module = _virtual_memory()
        with self._here():
            status, *results = getattr(self._virtual_module, name)(*arguments)
        if status == self._virtual_module.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            raise OutOfMemoryError(f"CUDA error: out of memory ({name} on {self.device})")
        if int(status) != 0:
            raise TensorError(f"CUDA error: {name} failed with status {int(status)}")
        return results[0] if results else None

    def _properties(self) -> Any:
        """Pinned device memory of this device."""
        driver = self._virtual_module
        properties = driver.CUmemAllocationProp()
        properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = self.device.index
        return properties

    def reserve(self, nbytes: int) -> int:
        """cuMemAddressReserve."""
        return int(self._call("cuMemAddressReserve", nbytes, 0, 0, 0))

    def unreserve(self, address: int, nbytes: int) -> None:
        """cuMemAddressFree."""
        self._call("cuMemAddressFree", address, nbytes)

    def create(self, nbytes: int) -> int:
        """cuMemCreate. Raises OutOfMemoryError."""
        if self._virtual_module is None:
            self._virtual_module = _virtual_memory()
        return int(self._call("cuMemCreate", nbytes, self._properties(), 0))

    def map(self, address: int, nbytes: int, handle: int) -> None:
        """cuMemMap, and the access to it."""
        self._call("cuMemMap", address, nbytes, 0, handle, 0)
        access = self._virtual_module.CUmemAccessDesc()
        access.location.type = self._virtual_module.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = self.device.index
        access.flags = self._virtual_module.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        self._call("cuMemSetAccess", address, nbytes, [access], 1)

    def unmap(self, address: int, nbytes: int, handle: int) -> None:
        """cuMemUnmap and cuMemRelease."""
        self._call("cuMemUnmap", address, nbytes)
        self.release(handle)

    def release(self, handle: int) -> None:
        """cuMemRelease."""
        self._call("cuMemRelease", handle)

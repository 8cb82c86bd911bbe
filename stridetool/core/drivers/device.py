"""The seam below the allocators: a device, the calls that it answers, and who answers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from stridetool.errors import TensorError


class Device(NamedTuple):
    """`cpu`, `cuda:0`, `meta`: a type and, where several may exist, an index."""

    type: str
    index: int | None = None  # type: ignore[assignment]  # torch's name; tuple.index is not needed

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    @classmethod
    def parse(cls, text: str) -> Device:
        """`"cuda:1"` → Device("cuda", 1). Raises TensorError on anything else, in torch's words."""
        kind, colon, index = text.partition(":")
        if not kind or not kind.isalpha() or (colon and not index.isdecimal()):
            raise TensorError(f"Invalid device string: '{text}'")
        return cls(kind, int(index) if colon else None)


CPU = Device("cpu")


class Driver(Protocol):
    """One device: addresses in, addresses out. `host`, `sim` and `cuda` implement it, each in a small file.

    Sizes are bytes, addresses and stream handles integers; 0 is the null pointer (never handed out) and the
    default stream. Events are opaque. The last five calls are virtual memory (`cuMemAddressReserve` and its
    kin): a driver without it raises UnavailableError there.
    """

    device: Device

    def malloc(self, nbytes: int) -> int:
        """The address of `nbytes` (> 0) bytes. Raises OutOfMemoryError."""
        ...

    def free(self, address: int) -> None:
        """Give back what `malloc` returned."""
        ...

    def mem_info(self) -> tuple[int, int]:
        """(free, total) bytes of the device."""
        ...

    def buffer(self, address: int, nbytes: int) -> Any:
        """A writable 1-d uint8 array over memory that was handed out: NumPy's, or CuPy's on cuda."""
        ...

    def zero(self, address: int, nbytes: int) -> None:
        """Make bytes of memory that was handed out 0."""
        ...

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        ...

    def record_event(self, stream: int) -> object:
        """An event behind all work that `stream` has been given so far."""
        ...

    def query_event(self, event: object) -> bool:
        """True when everything before `event` is finished."""
        ...

    def synchronize_event(self, event: object) -> None:
        """Wait for `event`."""
        ...

    def reserve(self, nbytes: int) -> int:
        """The address of a virtual range without memory behind it."""
        ...

    def unreserve(self, address: int, nbytes: int) -> None:
        """Give back a virtual range in which nothing is mapped."""
        ...

    def create(self, nbytes: int) -> int:
        """A handle of `nbytes` of physical memory. Raises OutOfMemoryError."""
        ...

    def map(self, address: int, nbytes: int, handle: int) -> None:
        """Put the memory of `handle` behind a part of a reserved range."""
        ...

    def unmap(self, address: int, nbytes: int, handle: int) -> None:
        """Take it away again and give the handle back."""
        ...

    def release(self, handle: int) -> None:
        """Give back a handle that was never mapped."""
        ...


_drivers: dict[Device, Driver] = {}


def indexed(device: Device) -> Device:
    """`cuda` is `cuda:0`; `cpu` and `cpu:0` are the same device."""
    return CPU if device.type == "cpu" else Device(device.type, device.index or 0)


def _host(device: Device) -> Driver:
    from stridetool.core.drivers.host import HostDriver

    return HostDriver()


def _cuda(device: Device) -> Driver:
    """The real device when CuPy sees one, else the simulated one."""
    from stridetool.core.drivers import cuda, sim

    if cuda.is_available():
        return cuda.CudaDriver(device.index or 0)
    if device.index:
        raise TensorError(f"CUDA error: invalid device ordinal ({device}: one device is simulated)")
    return sim.SimDriver(device=device)


_MAKERS: dict[str, Callable[[Device], Driver]] = {"cpu": _host, "cuda": _cuda}


def driver_for(device: Device) -> Driver:
    """The driver of `device`, made when it is first asked for. Raises TensorError for an unknown type."""
    device = indexed(device)
    if device not in _drivers:
        if device.type not in _MAKERS:
            raise TensorError(f"no driver for device type '{device.type}'")
        _drivers[device] = _MAKERS[device.type](device)
    return _drivers[device]


def set_driver(driver: Driver) -> None:
    """Let `driver` answer for its device from now on (a simulated GPU of another size, a recorder)."""
    _drivers[indexed(driver.device)] = driver

"""Memory with an owner: DataPtr (an address and how it is given back) and Storage (what tensors share)."""

from __future__ import annotations

from collections.abc import Callable

from stridetool.core.drivers.device import Device


class DataPtr:
    """An address that is given back exactly once: by `release()`, or when the last reference goes.

    `address` is 0 when `nbytes` is 0. `deleter(address)` runs at most once; None means that the memory
    belongs to someone else, and `owner` (any object) is then kept alive as long as this pointer.
    """

    __slots__ = ("_deleter", "address", "device", "nbytes", "owner")

    def __init__(
        self,
        address: int,
        nbytes: int,
        device: Device,
        deleter: Callable[[int], None] | None = None,
        owner: object = None,
    ) -> None:
        self.address = address
        self.nbytes = nbytes
        self.device = device
        self._deleter = deleter
        self.owner = owner

    def release(self) -> None:
        """Give the memory back now; the address is 0 afterwards."""
        deleter, self._deleter = self._deleter, None
        address, self.address = self.address, 0
        self.owner = None
        if deleter is not None:
            deleter(address)

    def __del__(self) -> None:
        if self._deleter is not None:
            self.release()

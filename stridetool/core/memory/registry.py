"""Which allocator serves a device: made when first asked for, replaceable (by an adaptor, a limit)."""

from __future__ import annotations

from stridetool.core.drivers.device import CPU, Device, Driver, driver_for
from stridetool.core.memory.allocator import Allocator
from stridetool.core.memory.cpu import DirectAllocator

_allocators: dict[Device, Allocator] = {}


def _key(device: Device) -> Device:
    return CPU if device.type == "cpu" else Device(device.type, device.index or 0)


def _make(driver: Driver) -> Allocator:
    return DirectAllocator(driver)


def allocator_for(device: Device) -> Allocator:
    """The allocator of `device`. Raises TensorError for a device that no driver answers for."""
    key = _key(device)
    if key not in _allocators:
        _allocators[key] = _make(driver_for(key))
    return _allocators[key]


def set_allocator(device: Device, allocator: Allocator | None) -> None:
    """Let `allocator` serve `device` from now on; None: the default one. Live memory stays valid."""
    if allocator is None:
        _allocators.pop(_key(device), None)
    else:
        _allocators[_key(device)] = allocator

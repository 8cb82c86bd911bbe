"""Which allocator serves a device: made when first asked for, replaceable (by an adaptor, a limit)."""

from __future__ import annotations

import os
from collections.abc import Mapping

from stridetool.core.drivers.device import Device, Driver, driver_for, indexed
from stridetool.core.memory.allocator import Allocator
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.cpu import CpuCachingAllocator, DirectAllocator
from stridetool.core.memory.settings import Settings

NO_CACHING = "STRIDE_TOOL_NO_MEMORY_CACHING"

_allocators: dict[Device, Allocator] = {}


def settings_from(environment: Mapping[str, str]) -> Settings:
    """As torch 2.14: PYTORCH_CUDA_ALLOC_CONF wins whole over PYTORCH_ALLOC_CONF. Raises UsageError."""
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        if name in environment:
            return Settings.parse(environment[name])
    return Settings()


def caching_for(driver: Driver) -> Allocator:
    """The caching allocator for `driver`; the direct one when STRIDE_TOOL_NO_MEMORY_CACHING=1."""
    if os.environ.get(NO_CACHING) == "1":
        return DirectAllocator(driver)
    if driver.device.type == "cpu":
        return CpuCachingAllocator(driver)
    return CachingAllocator(driver, settings_from(os.environ))


def _make(driver: Driver) -> Allocator:
    """Torch's choice: the host is not cached, a GPU is."""
    return DirectAllocator(driver) if driver.device.type == "cpu" else caching_for(driver)


def allocator_for(device: Device) -> Allocator:
    """The allocator of `device`. Raises TensorError for a device that no driver answers for."""
    key = indexed(device)
    if key not in _allocators:
        _allocators[key] = _make(driver_for(key))
    return _allocators[key]


def set_allocator(device: Device, allocator: Allocator | None) -> None:
    """Let `allocator` serve `device` from now on; None: the default one. Live memory stays valid."""
    if allocator is None:
        _allocators.pop(indexed(device), None)
    else:
        _allocators[indexed(device)] = allocator


def is_simulated(device: Device) -> bool:
    """Whether the simulator serves `device`: nobody may be handed its addresses, which lead nowhere."""
    if device.type != "cuda":
        return False
    from stridetool.core.drivers.sim import SimDriver

    return isinstance(allocator_for(device).driver, SimDriver)

"""Whether a device is real: memory of a simulated one must not be handed to anybody who would follow its addresses."""

from __future__ import annotations

from stridetool.core.drivers.device import Device
from stridetool.core.memory.registry import allocator_for


def is_simulated(device: Device) -> bool:
    """True when the driver that serves `device` is the simulator."""
    if device.type != "cuda":
        return False
    from stridetool.core.drivers.sim import SimDriver

    return isinstance(allocator_for(device).driver, SimDriver)

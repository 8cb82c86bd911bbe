"""Under which conditions a trace is replayed, as values."""

from __future__ import annotations

from dataclasses import dataclass

from stridetool.core.memory.settings import DEFAULT, Settings

UNLIMITED = 1 << 50  # bytes of a device that never runs out


@dataclass(frozen=True, slots=True)
class Conditions:
    """`capacity` None: as much as the trace needs. `policy` is an order of free blocks, see the allocator."""

    settings: Settings = DEFAULT
    capacity: int | None = None
    fraction: float = 1.0
    policy: str = "2.14"
    address_policy: str = "bump"
    stream_events: str | int = "auto"
    device_name: str = "simulated GPU"

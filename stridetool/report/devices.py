"""The report of `devices`: what tensors can live on here."""

from __future__ import annotations

import msgspec

from stridetool.report.envelope import Fact


class DeviceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One device. `simulated` says that it has addresses and a capacity, but no hardware."""

    device: str
    name: str
    total_bytes: int | None
    free_bytes: int | None
    simulated: bool
    facts: dict[str, Fact] = {}


class PresetRow(msgspec.Struct, frozen=True):
    """A GPU that can be simulated by name."""

    name: str
    total_bytes: int


class DevicesReport(msgspec.Struct, frozen=True, kw_only=True):
    """The host, then the GPUs or the one that is simulated; `presets` can be simulated instead."""

    devices: tuple[DeviceRow, ...]
    presets: tuple[PresetRow, ...] = ()

"""The report of `devices` as blocks."""

from __future__ import annotations

from collections.abc import Iterator

from stridetool.render.blocks import Block, Column, Heading, Span, Table, line
from stridetool.render.findings import finding_blocks
from stridetool.report.devices import DeviceRow, DevicesReport, PresetRow
from stridetool.report.envelope import Envelope, Fact
from stridetool.units import format_bytes


def devices_blocks(document: Envelope[DevicesReport]) -> Iterator[Block]:
    """The devices, the facts of each, and what can be simulated."""
    report = document.report
    columns = (Column("device"), Column("name"), Column("memory", "right"), Column("free", "right"), Column(""))
    yield Table(columns, [_cells(row) for row in report.devices])
    for row in report.devices:
        if row.facts:
            yield Heading(row.device)
            yield Table((Column("fact"), Column("value")), [[name, _value(name, v)] for name, v in row.facts.items()])
    if report.presets:
        yield Heading("can be simulated")
        yield line("alloc-report --device NAME with ", ", ".join(map(_preset, report.presets)))
    yield from finding_blocks(document.findings)


def _cells(row: DeviceRow) -> list[str | Span]:
    return [
        (row.device, "name"),
        row.name,
        _bytes(row.total_bytes),
        _bytes(row.free_bytes),
        ("simulated", "warn") if row.simulated else ("", ""),
    ]


def _preset(preset: PresetRow) -> str:
    return f"{preset.name} ({format_bytes(preset.total_bytes)})"


def _bytes(nbytes: int | None) -> str:
    return "unknown" if nbytes is None else format_bytes(nbytes)


def _value(name: str, value: Fact) -> str:
    return format_bytes(value) if name.endswith("_bytes") and isinstance(value, int) else str(value)

"""Other settings in text: a table from the best on, their costs, and the one line to paste."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stridetool.render.blocks import Block, Column, Heading, Table, line
from stridetool.report.alloc import DeviceReport, WhatIf
from stridetool.units import format_bytes

_VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"
_ROWS = 40


def what_if_blocks(report: DeviceReport) -> Iterator[Block]:
    """Nothing where nothing was tried."""
    rows = report.what_if
    if not rows:
        return
    yield Heading("what if")
    starts = len({row.start for row in rows}) > 1
    titles = ("peak reserved", "peak allocated", "OOMs", "retries", "device calls", "smallest capacity")
    columns = [Column("settings"), *(Column(title, "right") for title in titles), Column("above the floor", "right")]
    if starts:
        columns.insert(1, Column("start"))
    yield Table(tuple(columns), [_cells(row, report, starts) for row in rows[:_ROWS]])
    if starts:
        yield line(("cold: live memory is placed afresh; warm: it begins where it was", "muted"))
    for settings, cost in _costs(rows):
        yield line((f"{settings}: ", "name"), (cost, "muted"))
    yield from _advice(report)


def _cells(row: WhatIf, report: DeviceReport, starts: bool) -> tuple[str | tuple[str, str], ...]:
    name = row.settings or "(defaults)"
    as_it_is = row.settings == report.settings
    capacity = row.smallest_capacity_bytes
    above = row.peak_reserved_bytes / report.floor_bytes - 1 if report.floor_bytes else 0.0
    cells: tuple[str | tuple[str, str], ...] = (
        (name + (" ← as it is" if as_it_is else ""), "name" if as_it_is else ""),
        format_bytes(row.peak_reserved_bytes),
        format_bytes(row.peak_allocated_bytes),
        (str(row.ooms), "bad" if row.ooms else "good"),
        f"{row.retries:,}",
        f"{row.device_calls:,}",
        "–" if capacity is None else format_bytes(capacity),
        f"{above:+.0%}" if row.fits else "–",
    )
    return (cells[0], row.start, *cells[1:]) if starts else cells


def _costs(rows: Sequence[WhatIf]) -> list[tuple[str, str]]:
    """Each cost once, with the first settings that have it."""
    first: dict[str, str] = {}
    for row in rows:
        for cost in row.cost:
            first.setdefault(cost, row.settings)
    return [(settings, cost) for cost, settings in first.items()]


def _advice(report: DeviceReport) -> Iterator[Block]:
    if report.recommended is not None:
        yield line(("recommended: ", "good"), report.recommended.why)
        yield line((f"  export {_VARIABLE}={report.recommended.settings}", "name"))
        return
    fits = any(row.fits for row in report.what_if)
    if not fits and report.device.total_bytes is not None:
        capacities = [r.smallest_capacity_bytes for r in report.what_if if r.smallest_capacity_bytes is not None]
        enough = f"; {format_bytes(min(capacities))} would be enough" if capacities else ""
        yield line((f"none of the {len(report.what_if)} tries avoids running out of memory{enough}", "bad"))
    else:
        yield line(("recommended: ", "good"), "keep the settings as they are")

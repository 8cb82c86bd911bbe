"""The report of `alloc-report` as blocks: can anything help, how exact is this, what is there, who is to blame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from stridetool.render.alloc_pictures import segment_lines, timeline_lines
from stridetool.render.alloc_verdict import verdict_blocks
from stridetool.render.blocks import Block, Column, Heading, Line, Picture, Table, line
from stridetool.render.findings import finding_blocks
from stridetool.render.fitting import GAP, RankedColumn, fitting
from stridetool.render.message_text import message_blocks
from stridetool.render.what_if_text import what_if_blocks
from stridetool.report.alloc import AllocReport, DeviceReport, DevicesReport, Leak, MessageReport, Outcome, Steps
from stridetool.report.envelope import Envelope
from stridetool.units import format_bytes


def alloc_blocks(document: Envelope[AllocReport], width: int) -> Iterator[Block]:
    """The whole report; pictures are at most `width` columns wide."""
    report = document.report
    if isinstance(report, MessageReport):
        yield from message_blocks(report)
    elif isinstance(report, DevicesReport):
        yield from _devices_blocks(report, width)
    else:
        yield from _device_blocks(report, width)
    yield from finding_blocks(document.findings)


def _device_blocks(report: DeviceReport, width: int) -> Iterator[Block]:
    yield _summary(report)
    yield from verdict_blocks(report)
    yield from _exactness(report)
    yield from _glance(report)
    if len(report.timeline.index) > 1:
        yield Heading("timeline (█ allocated, ░ reserved)")
        yield Picture(list(timeline_lines(report.timeline, width)))
    if report.segments:
        yield Heading("segments (█ allocated, ▒ awaited, ░ free)")
        yield Picture(list(segment_lines(report.segments, width)))
    yield from _free_memory(report)
    yield from _blame(report)
    yield from what_if_blocks(report, width)


def _summary(report: DeviceReport) -> Line:
    device = report.device
    total = f" of {format_bytes(device.total_bytes)}" if device.total_bytes is not None else ""
    kind = ", simulated" if device.simulated and "simulated" not in device.name else ""
    parts = [f"{report.source.kind} on {device.name}{total}{kind}"]
    if report.outcome is not None:
        done = report.outcome
        parts.append(f"{done.events:,} events, {done.allocations:,} allocations")
        as_recorded = "" if report.given_bytes is None else "recorded: "
        parts.append(as_recorded + (f"{len(done.ooms):,} out of memory" if done.ooms else "never out of memory"))
        if done.retries:
            parts.append("1 retry" if done.retries == 1 else f"{done.retries:,} retries")
    if report.at is not None:
        parts.append(f"state after event {report.at:,}")
    settings = report.settings or "default settings"
    return line((report.source.name, "name"), f": {'; '.join(parts)}; {settings}")


def _exactness(report: DeviceReport) -> Iterator[Block]:
    exact = report.exactness
    if exact is None:
        return
    if exact.total:
        style = "good" if exact.predicted == exact.total else "warn"
        miss = "" if exact.first_miss is None else f"; first miss at event {exact.first_miss:,}"
        yield line(
            (f"{exact.predicted:,} of {exact.total:,} addresses predicted", style), f"{miss} (torch {exact.policy})"
        )
    for assumed in exact.assumed:
        yield line(("  assumed: ", "muted"), assumed)


def _glance(report: DeviceReport) -> Iterator[Block]:
    n = report.fragmentation
    peak = report.outcome
    rows: list[tuple[str, int, str]] = [
        ("allocated", n.allocated_bytes, "blocks handed out"),
        ("requested", n.requested_bytes, "asked for, of active blocks"),
        ("reserved", n.reserved_bytes, "held from the device"),
        ("internal", n.internal_bytes, "active beyond what was asked for"),
        ("external", n.external_bytes, "free: reserved - allocated - awaited"),
        ("  releasable", n.releasable_bytes, "wholly free: empty_cache returns it"),
        ("  pinned", n.pinned_free_bytes, "beside live blocks: cannot go back"),
        ("largest free block", n.largest_free_bytes, "a larger request needs new memory"),
    ]
    if n.pending_free_bytes:
        rows.insert(2, ("awaited", n.pending_free_bytes, "freed, a stream may still use it"))
    if peak is not None:
        rows.append(("peak allocated", peak.peak_allocated_bytes, _peak_note(peak.peak_at, report.at)))
        rows.append(("peak reserved", peak.peak_reserved_bytes, ""))
    rows.append(("floor", report.floor_bytes, _floor_note(report)))
    if report.packing_bytes is not None:
        rows.append(("packing", report.packing_bytes, "one placement in one arena, found in short time"))
    yield Heading("memory")
    share = max(n.reserved_bytes, 1)
    columns = (Column(""), Column("bytes", "right"), Column("of reserved", "right"), Column(""))
    yield Table(columns, [(name, format_bytes(b), f"{b / share:.1%}", (note, "muted")) for name, b, note in rows])


def _peak_note(peak_at: int | None, at: int | None) -> str:
    """Which event it is, and how to see who held memory then."""
    if peak_at is None:
        return ""
    return f"event {peak_at:,}" if peak_at == at else f"event {peak_at:,}; --at peak shows who held it"


def _floor_note(report: DeviceReport) -> str:
    """A floor above what was ever allocated can only come from requests that failed."""
    done = report.outcome
    if done is not None and done.ooms and report.floor_bytes > done.peak_allocated_bytes:
        return "to serve what failed too, at least"
    return "peak asked for: no way to hold less"


def _free_memory(report: DeviceReport) -> Iterator[Block]:
    if not report.free_memory:
        return
    yield Heading("free memory, by who may use it")
    columns = (Column("pool"), Column("stream", "right"), Column("free", "right"), Column("blocks", "right"),
               Column("largest", "right"))  # fmt: skip
    yield Table(
        columns,
        [
            (f.pool, str(f.stream), format_bytes(f.free_bytes), f"{f.blocks:,}", format_bytes(f.largest_bytes))
            for f in report.free_memory
        ],
    )


def _blame(report: DeviceReport) -> Iterator[Block]:
    if report.pins:
        yield Heading("live blocks that pin free memory")
        columns = (Column("pins", "right"), Column("block", "right"), Column("address"), Column("asked for at"))
        yield Table(
            columns,
            [(format_bytes(p.pinned_bytes), format_bytes(p.size), p.address, (p.site, "name")) for p in report.pins],
        )
    if report.sites:
        yield Heading("live memory by place")
        places = (Column("live", "right"), Column("blocks", "right"), Column("asked for at"))
        yield Table(places, [(format_bytes(s.nbytes), f"{s.blocks:,}", (s.site, "name")) for s in report.sites])
    if report.leaks:
        yield from _growth(report.leaks, report.steps)


def _growth(leaks: Sequence[Leak], steps: Steps | None) -> Iterator[Block]:
    if steps is not None:
        annotation = steps.annotation
        end = "live memory is at a low" if annotation is None else f"an annotation {annotation!r} begins"
        yield Heading(f"grows from step to step ({len(steps.ends)} of {steps.seen:,} ends of steps, each where {end})")
    columns = (Column("a step", "right"), Column("first", "right"), Column("last", "right"), Column("asked for at"))
    yield Table(
        columns,
        [
            (*map(format_bytes, (leak.step_bytes, leak.at_steps[0], leak.at_steps[-1])), (leak.site, "name"))
            for leak in leaks
        ],
    )


_Placed = tuple[DeviceReport, bool]  # whether it is an outlier


def _outcome(each: DeviceReport, say: Callable[[Outcome], str]) -> str:
    return "–" if each.outcome is None else say(each.outcome)


_COLUMNS: tuple[RankedColumn[_Placed], ...] = (
    RankedColumn(4, "allocated", lambda row: format_bytes(row[0].fragmentation.allocated_bytes)),
    RankedColumn(0, "reserved", lambda row: format_bytes(row[0].fragmentation.reserved_bytes)),
    RankedColumn(5, "free", lambda row: format_bytes(row[0].fragmentation.external_bytes)),
    RankedColumn(7, "pinned", lambda row: format_bytes(row[0].fragmentation.pinned_free_bytes)),
    RankedColumn(8, "largest free", lambda row: format_bytes(row[0].fragmentation.largest_free_bytes)),
    RankedColumn(3, "peak reserved", lambda row: _outcome(row[0], lambda done: format_bytes(done.peak_reserved_bytes))),
    RankedColumn(2, "OOMs", lambda row: _outcome(row[0], lambda done: f"{len(done.ooms):,}")),
    RankedColumn(6, "predicted", lambda row: _predicted(row[0])),
    RankedColumn(1, "", lambda row: ("outlier", "warn") if row[1] else ""),
)


def _predicted(each: DeviceReport) -> str:
    return "–" if each.exactness is None else f"{each.exactness.predicted:,}/{each.exactness.total:,}"


def _devices_blocks(report: DevicesReport, width: int) -> Iterator[Block]:
    """The messages, a row a device, then what failed and what was tried of each. One alone is shown in full."""
    for message in report.messages:
        yield Heading(message.source.name)
        yield from message_blocks(message)
    if len(report.devices) == 1:
        yield from _device_blocks(report.devices[0], width)
    elif report.devices:
        yield line((f"{len(report.devices)} devices", "name"))
        yield _devices_table(report, width)
        for each in report.devices:
            if each.certificate is not None or each.what_if:
                yield Heading(f"{each.source.name} {each.device.name}")
                yield from verdict_blocks(each)
                yield from what_if_blocks(each, width)


def _devices_table(report: DevicesReport, width: int) -> Table:
    rows = [(each, index in report.outliers) for index, each in enumerate(report.devices)]
    names = [(each.source.name, each.device.name) for each in report.devices]
    room = width - GAP - max(len(path) for path, _ in names) - max(len(device) for _, device in names)
    chosen = fitting(_COLUMNS, rows, room)
    columns = (Column("source"), Column("device"), *(ranked.column for ranked in chosen))
    cells = [
        ((p, "name"), d, *(ranked.cell(row) for ranked in chosen)) for (p, d), row in zip(names, rows, strict=True)
    ]
    return Table(columns, cells)

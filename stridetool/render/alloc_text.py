"""The report of `alloc-report` as blocks: can anything help, how exact is this, what is there, who is to blame."""

from __future__ import annotations

from collections.abc import Iterator

from stridetool.render.alloc_pictures import segment_lines, timeline_lines
from stridetool.render.blocks import Block, Column, Heading, Line, Picture, Table, line
from stridetool.render.findings import finding_blocks
from stridetool.render.what_if_text import what_if_blocks
from stridetool.report.alloc import AllocReport, DeviceReport, DevicesReport, MessageReport
from stridetool.report.envelope import Envelope
from stridetool.units import format_bytes


def alloc_blocks(document: Envelope[AllocReport], width: int) -> Iterator[Block]:
    """The whole report; pictures are at most `width` columns wide."""
    report = document.report
    if isinstance(report, MessageReport):
        yield from _message_blocks(report)
    elif isinstance(report, DevicesReport):
        yield from _devices_blocks(report)
    else:
        yield from _device_blocks(report, width)
    yield from finding_blocks(document.findings)


def _device_blocks(report: DeviceReport, width: int) -> Iterator[Block]:
    yield _summary(report)
    yield from _certificate(report)
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
    yield from what_if_blocks(report)


def _summary(report: DeviceReport) -> Line:
    device = report.device
    total = f" of {format_bytes(device.total_bytes)}" if device.total_bytes is not None else ""
    kind = ", simulated" if device.simulated else ""
    parts = [f"{report.source.kind} on {device.name}{total}{kind}"]
    if report.outcome is not None:
        done = report.outcome
        parts.append(f"{done.events:,} events, {done.allocations:,} allocations")
        parts.append(f"{len(done.ooms):,} out of memory" if done.ooms else "never out of memory")
    if report.at is not None:
        parts.append(f"state after event {report.at:,}")
    settings = report.settings or "default settings"
    return line((report.source.path or report.source.kind, "name"), f": {'; '.join(parts)}; {settings}")


def _certificate(report: DeviceReport) -> Iterator[Block]:
    proof = report.certificate
    if proof is None:
        return
    numbers = (
        f"{format_bytes(proof.live_bytes)} asked for and live, {format_bytes(proof.request_bytes)} more asked for"
        f"{'' if proof.at is None else f' at event {proof.at:,}'}, {format_bytes(proof.usable_bytes)} to be had"
    )
    if proof.no_setting_helps:
        yield line(("No setting helps: ", "bad"), numbers)
    else:
        yield line(("A setting could help: ", "good"), numbers)


def _exactness(report: DeviceReport) -> Iterator[Block]:
    exact = report.exactness
    if exact is None:
        return
    if exact.total:
        style = "good" if exact.predicted == exact.total else "warn"
        miss = "" if exact.first_miss is None else f"; first miss at event {exact.first_miss:,}"
        yield line((f"{exact.predicted:,} of {exact.total:,} addresses predicted", style), f"{miss} ({exact.policy})")
    for assumed in exact.assumed:
        yield line(("  assumed: ", "muted"), assumed)


def _glance(report: DeviceReport) -> Iterator[Block]:
    n = report.fragmentation
    peak = report.outcome
    rows: list[tuple[str, int, str]] = [
        ("allocated", n.allocated_bytes, "blocks handed out"),
        ("requested", n.requested_bytes, "what the program asked for, of active blocks"),
        ("reserved", n.reserved_bytes, "held from the device"),
        ("internal", n.internal_bytes, "active blocks beyond what was asked for"),
        ("external", n.external_bytes, "free blocks: reserved - allocated - awaited"),
        ("  releasable", n.releasable_bytes, "whole segments or pages: empty_cache gives them back"),
        ("  pinned", n.pinned_free_bytes, "beside live blocks: cannot go back"),
        ("largest free block", n.largest_free_bytes, "a larger request needs new memory"),
    ]
    if n.pending_free_bytes:
        rows.insert(2, ("awaited", n.pending_free_bytes, "freed, but a stream may still use them"))
    if peak is not None:
        rows.append(("peak allocated", peak.peak_allocated_bytes, ""))
        rows.append(("peak reserved", peak.peak_reserved_bytes, ""))
    rows.append(("floor", report.floor_bytes, "peak of live requested bytes: no allocator reserves less"))
    if report.packing_bytes is not None:
        rows.append(("offline packing", report.packing_bytes, "a placement that knows the future"))
    yield Heading("memory")
    share = max(n.reserved_bytes, 1)
    columns = (Column(""), Column("bytes", "right"), Column("of reserved", "right"), Column(""))
    yield Table(columns, [(name, format_bytes(b), f"{b / share:.1%}", (note, "muted")) for name, b, note in rows])


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
        yield Heading("grows from step to step")
        columns = (Column("grown", "right"), Column("first", "right"), Column("last", "right"), Column("asked for at"))
        yield Table(
            columns,
            [
                (*map(format_bytes, (leak.grown_bytes, leak.at_steps[0], leak.at_steps[-1])), (leak.site, "name"))
                for leak in report.leaks
            ],
        )


def _devices_blocks(report: DevicesReport) -> Iterator[Block]:
    yield line((f"{len(report.devices)} devices", "name"))
    titles = ("allocated", "reserved", "free", "pinned", "largest free", "peak reserved", "OOMs", "predicted")
    columns = (Column("source"), Column("device"), *(Column(title, "right") for title in titles), Column(""))
    rows = []
    for index, each in enumerate(report.devices):
        n, done, exact = each.fragmentation, each.outcome, each.exactness
        rows.append(
            (
                (each.source.path or each.source.kind, "name"),
                each.device.name,
                *(format_bytes(b) for b in (n.allocated_bytes, n.reserved_bytes, n.external_bytes)),
                *(format_bytes(b) for b in (n.pinned_free_bytes, n.largest_free_bytes)),
                format_bytes(done.peak_reserved_bytes) if done is not None else "–",
                str(len(done.ooms)) if done is not None else "–",
                f"{exact.predicted:,}/{exact.total:,}" if exact is not None else "–",
                ("outlier", "warn") if index in report.outliers else "",
            )
        )
    yield Table(columns, rows)
    for each in report.devices:
        yield from _certificate(each)
        if each.what_if:
            yield Heading(f"{each.source.path or each.source.kind} {each.device.name}")
            yield from what_if_blocks(each)


def _message_blocks(report: MessageReport) -> Iterator[Block]:
    yield line((report.verdict[0].upper() + report.verdict[1:], "bad"))
    yield Heading(f"what the message says (torch {report.era}, GPU {report.device})")
    rows = (
        ("tried to allocate", report.wanted_bytes),
        ("capacity", report.total_bytes),
        ("free", report.free_bytes),
        ("allocated", report.allocated_bytes),
        ("reserved", report.reserved_bytes),
        ("reserved, unallocated", report.unallocated_bytes),
        ("in private pools", report.private_pool_bytes or None),
        ("outside this allocator", report.foreign_bytes),
    )
    yield Table((Column(""), Column("bytes", "right")), [(name, format_bytes(b)) for name, b in rows if b is not None])

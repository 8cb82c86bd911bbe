"""The host's allocator as a report: it caches nothing, so its fragmentation is the alignment of each allocation."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stridetool.analysis.fragmentation import fragmentation, sites
from stridetool.analysis.held import segment_rows, stats_of
from stridetool.analysis.leaks import growth
from stridetool.analysis.moments import Moment, event_of
from stridetool.analysis.packing import floor_bytes
from stridetool.analysis.replay import compile_events
from stridetool.analysis.timeline import Sampler
from stridetool.analysis.trace_report import changes_of
from stridetool.core.memory.events import Event
from stridetool.core.memory.recorded import ALLOCATED, DEFAULT_POOL, HeldBlock, HeldSegment
from stridetool.report.alloc import DeviceFacts, DeviceReport, Outcome
from stridetool.report.inspect import Source

ALIGNMENT = 64  # bytes, as torch's DefaultCPUAllocator


def direct_report(
    source: Source, events: Sequence[Event], names: Sequence[str], *, at: Moment | None = None, top: int = 10
) -> DeviceReport:
    """Every live allocation is a segment of one block; addresses stand for the order of allocation. Up to the moment
    `at` if there is that (else `report.at` is None)."""
    report = _report(source, events, names, top)
    whole = report.outcome
    assert whole is not None
    event = None if at is None else event_of(at, len(events), lambda: whole)
    return report if event is None else replace(_report(source, events[: event + 1], names, top), at=event)


def _report(source: Source, events: Sequence[Event], names: Sequence[str], top: int) -> DeviceReport:
    program = compile_events(events)
    live: dict[object, tuple[int, int]] = {}  # id → (bytes asked for, event)
    sampler = Sampler(len(events))
    held = peak = calls = 0
    peak_at: int | None = None
    for index, event in enumerate(events):
        if event.op == "alloc" and event.nbytes:
            live[event.id] = event.nbytes, index
            held, calls = held + _aligned(event.nbytes), calls + 1
        elif event.op == "free" and event.id in live:
            held, calls = held - _aligned(live.pop(event.id)[0]), calls + 1
        if held > peak:
            peak, peak_at = held, index
        sampler.add(index, held, held)
    segments, called = [], dict[int, str]()
    address = ALIGNMENT
    for nbytes, index in live.values():
        size = _aligned(nbytes)
        block = HeldBlock(address, size, nbytes, ALLOCATED)
        segments.append(HeldSegment(address, size, 0, False, DEFAULT_POOL, False, (block,)))
        called[address] = names[index] if index < len(names) else ""
        address += size
    grown = growth(changes_of(program, names), top=top)
    allocations = sum(1 for event in events if event.op == "alloc")
    return DeviceReport(
        source=source,
        device=DeviceFacts("cpu", None, False),
        settings="",
        stats=stats_of(segments),
        fragmentation=fragmentation(segments),
        segments=segment_rows(segments),
        timeline=sampler.timeline(),
        floor_bytes=floor_bytes(program),
        outcome=Outcome(
            events=len(events),
            allocations=allocations,
            device_calls=calls,
            peak_allocated_bytes=peak,
            peak_reserved_bytes=peak,
            peak_at=peak_at,
        ),
        sites=sites(segments, called, top=top),
        leaks=grown.leaks,
        steps=grown.steps,
        has_history=allocations > 0,
    )


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT

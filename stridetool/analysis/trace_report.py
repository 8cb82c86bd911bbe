"""From an allocation trace to a report: one replay that is watched, and the tries of other settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from stridetool.analysis.certificate import Failure, certificate
from stridetool.analysis.conditions import Conditions
from stridetool.analysis.fragmentation import fragmentation, free_memory, pins, sites
from stridetool.analysis.held import held_segments, segment_rows
from stridetool.analysis.leaks import Changes, growth
from stridetool.analysis.moments import Moment, event_of
from stridetool.analysis.packing import floor_bytes
from stridetool.analysis.replay import ALLOC, FREE, HUGE, NULL, Program, ReplayResult, compile_events, replay
from stridetool.analysis.timeline import Sampler
from stridetool.core.collections_off import without_collections
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.events import Event
from stridetool.core.memory.recorded import INACTIVE, HeldSegment
from stridetool.report.alloc import DeviceFacts, DeviceReport, EventLine, Outcome
from stridetool.report.inspect import Source
from stridetool.units import format_bytes

Emit = Callable[[EventLine], None]
_ALLOCATIONS = (ALLOC, NULL, HUGE)


class Replayed(NamedTuple):
    """A report, and what the tries of other settings start from."""

    report: DeviceReport
    program: Program
    result: ReplayResult


class Watcher:
    """Sees every event of a replay: the timeline, failures, what addresses are called, lines for `--events`."""

    def __init__(self, events: int, emit: Emit | None = None, names: Sequence[str] = ()) -> None:
        self.sampler = Sampler(events)
        self.asked_at: dict[int, int] = {}  # address → event that was handed it last
        self.failures: list[Failure] = []
        self.peak_allocated = 0
        self.peak_at: int | None = None
        self._emit = emit
        self._names = names
        self._sizes: dict[object, int] = {}  # what the ids of lines stand for

    def __call__(self, index: int, event: Event, address: int | None, oom: bool, allocator: CachingAllocator) -> None:
        if address is not None:
            self.asked_at[address] = index
        elif oom:
            usable = allocator.driver.mem_info()[1]
            usable = usable if allocator.allowed is None else min(usable, allocator.allowed)
            self.failures.append(Failure(index, allocator.requested_bytes, event.nbytes, usable))
        if address is not None or index >= self.sampler.end:
            statistics = allocator.statistics
            self.sampler.add(index, statistics.allocated_bytes, statistics.reserved.all.current)
        if event.op == "reset_peak" or allocator.allocated_bytes > self.peak_allocated:
            self.peak_allocated, self.peak_at = allocator.allocated_bytes, index
        if self._emit is not None:
            self._emit(self._line(index, event, address, oom, allocator))

    def _line(self, index: int, event: Event, address: int | None, oom: bool, allocator: CachingAllocator) -> EventLine:
        """One event and the state after it."""
        return EventLine(
            index,
            event.op,
            event.id,
            None if address is None else hex(address),
            oom,
            allocator.reserved_bytes,
            allocator.allocated_bytes,
            allocator.active_bytes,
            allocator.requested_bytes,
            allocator.segment_count,
            allocator.inactive_split_bytes,
            self._size(event),
            _name(index, self._names) or None,
        )

    def _size(self, event: Event) -> int | None:
        """The bytes that an event is about."""
        if event.op == "alloc":
            self._sizes[event.id] = event.nbytes
        elif event.op == "free":
            return self._sizes.pop(event.id)
        elif event.op == "record_stream":
            return self._sizes[event.id]
        return event.nbytes if event.op in ("alloc", "set_capacity") else None


@without_collections()
def trace_report(
    source: Source,
    events: Sequence[Event],
    conditions: Conditions,
    *,
    at: Moment | None = None,
    top: int = 10,
    emit: Emit | None = None,
    names: Sequence[str] = (),
) -> Replayed:
    """The report of a trace, replayed from an empty allocator up to `at` if it has that (else `report.at` is None).

    `names[i]` is the place that asked for event i, where a recording has it. Raises InputError for a trace that
    makes no sense.
    """
    event = None if at is None else event_of(at, len(events), lambda: _watched(events, conditions)[3])
    upto = events if event is None else events[: event + 1]
    program, result, watcher, done = _watched(upto, conditions, emit, names)
    segments = held_segments(result.allocator)
    called = {
        block.address: _called(watcher.asked_at[block.address], program, names)
        for segment in segments
        for block in segment.blocks
        if block.state != INACTIVE
    }
    page, grown = conditions.settings.large_segment_size, growth(changes_of(program, names), top=top)
    report = DeviceReport(
        source=source,
        device=DeviceFacts(conditions.device_name, conditions.capacity, True),
        settings=conditions.settings.text or str(conditions.settings),
        stats=result.stats,
        fragmentation=fragmentation(segments, page),
        segments=segment_rows(segments),
        timeline=watcher.sampler.timeline(),
        certificate=certificate(watcher.failures),
        floor_bytes=floor_bytes(program),
        outcome=done,
        free_memory=free_memory(segments),
        pins=pins(segments, called, page=page, top=top),
        sites=sites(segments, _places(segments, watcher.asked_at, names), top=top),
        leaks=grown.leaks,
        steps=grown.steps,
        at=event,
        has_history=any(each.op == "alloc" for each in events),
    )
    return Replayed(report, program, result)


def _watched(
    events: Sequence[Event], conditions: Conditions, emit: Emit | None = None, names: Sequence[str] = ()
) -> tuple[Program, ReplayResult, Watcher, Outcome]:
    program = compile_events(events)
    watcher = Watcher(len(program.rows), emit, names)
    result = replay(program, conditions, on_event=watcher)
    return program, result, watcher, outcome(program, result, watcher.peak_at)


def _called(index: int, program: Program, names: Sequence[str]) -> str:
    """The place that asked for the allocation of event `index`, or the event."""
    return _name(index, names) or f"event {index} (id {program.events[index].id!r})"[:80]


def _places(segments: Sequence[HeldSegment], asked_at: Mapping[int, int], names: Sequence[str]) -> dict[int, str]:
    """Who asked for each live block; where no place is known, sizes tell allocations apart."""
    return {
        block.address: _name(asked_at[block.address], names) or _of_size(block.requested)
        for segment in segments
        for block in segment.blocks
        if block.state != INACTIVE
    }


def _name(index: int, names: Sequence[str]) -> str:
    return names[index] if index < len(names) else ""


def _of_size(nbytes: int) -> str:
    return f"requests of {format_bytes(nbytes)}"


def changes_of(program: Program, names: Sequence[str]) -> Changes:
    """Allocations and frees by place; where no place is known, sizes tell allocations apart."""
    changes = Changes()
    sites, sizes, called = [""] * program.slots, [0] * program.slots, dict[int, str]()
    for index, (code, slot, nbytes, _) in enumerate(program.rows):
        if code == FREE:
            changes.add(index, sites[slot], -sizes[slot])
        elif code in _ALLOCATIONS:
            site = _name(index, names)
            if not site:
                site = called.get(nbytes) or called.setdefault(nbytes, _of_size(nbytes))
            sites[slot], sizes[slot] = site, nbytes
            changes.add(index, site, nbytes)
    return changes


def outcome(program: Program, result: ReplayResult, peak_at: int | None) -> Outcome:
    """What happened during a replay."""
    last = max(result.ooms, default=0)
    return Outcome(
        events=result.events,
        allocations=sum(1 for row in program.rows if row[0] in _ALLOCATIONS),
        ooms=result.ooms,
        retries=result.retries,
        device_calls=result.device_calls,
        peak_allocated_bytes=result.peak_allocated_bytes,
        peak_reserved_bytes=result.peak_reserved_bytes,
        peak_at=peak_at,
        ends_at_failure=bool(result.ooms) and all(row[0] not in _ALLOCATIONS for row in program.rows[last + 1 :]),
    )

"""Histories as films: recordings as they are, traces as the allocator's own history of their replay."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from stridetool.analysis.replay import replay
from stridetool.analysis.retries import recorded_retries
from stridetool.analysis.rewind import Start, rewind
from stridetool.analysis.stacks import Places
from stridetool.analysis.timeline import Sampler
from stridetool.analysis.what_if import Case, parsed
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.events import Event
from stridetool.core.memory.recorded import DeviceRecording
from stridetool.core.memory.settings import Settings
from stridetool.report.alloc import DeviceReport
from stridetool.report.film import ACTIONS, ALLOC, OTHER, Course, Film, FilmBlock, FilmSegment, Kind

MAX_COURSES = 6
_CODES = {action: code for code, action in enumerate(ACTIONS)}
_ROUND = 512


class _Entry(NamedTuple):
    """One entry; `given` is the size of the block where it is known, else 0."""

    action: str
    address: int
    size: int
    stream: int
    given: int
    site: str


class _Film:
    """Collects entries into columns."""

    def __init__(self) -> None:
        self.sites: dict[str, int] = {}
        self.kinds: dict[tuple[int, int, int, int], int] = {}
        self.actions = bytearray()
        self.addresses, self.sizes, self.streams, self.column = array("Q"), array("q"), array("q"), array("q")

    def kind(self, requested: int, given: int, stream: int, name: str) -> int:
        """The number of a kind of allocation."""
        number = self.sites.setdefault(name, len(self.sites))
        size = given if given >= requested > 0 else -(-requested // _ROUND) * _ROUND
        return self.kinds.setdefault((requested, size, stream, number), len(self.kinds))

    def add(self, entry: _Entry) -> None:
        """The next entry."""
        code = _CODES.get(entry.action, OTHER)
        self.actions.append(code)
        self.addresses.append(entry.address)
        self.sizes.append(entry.size)
        self.streams.append(entry.stream)
        is_alloc = code == ALLOC
        self.column.append(self.kind(entry.size, entry.given, entry.stream, entry.site) if is_alloc else -1)

    def film(
        self,
        report: DeviceReport,
        segments: Iterable[FilmSegment] = (),
        blocks: Iterable[FilmBlock] = (),
        times_us: Sequence[int] = (),
        retries: Sequence[int] = (),
    ) -> Film:
        """What was collected."""
        return Film(
            name=report.device.name,
            capacity_bytes=report.device.total_bytes,
            sites=tuple(self.sites),
            kind_table=tuple(Kind(*key) for key in self.kinds),
            segments=tuple(segments),
            blocks=tuple(blocks),
            actions=bytes(self.actions),
            addresses=self.addresses,
            sizes=self.sizes,
            streams=self.streams,
            kinds=self.column,
            times_us=array("q", times_us if any(times_us) else ()),
            retries=tuple(retries),
        )


class _Mark(NamedTuple):
    """How far the allocator was after an event of a replay; `asked` is who it handed memory to, if it did."""

    entries: int = 0
    allocated_bytes: int = 0
    retries: int = 0
    asked: str = ""


def film_of_recording(
    device: DeviceRecording, report: DeviceReport, settings: Settings, allocated: Sequence[int] = ()
) -> Film:
    """The recorded entries; `allocated[i]` is what was handed out after entry i, where a replay knows it."""
    made, history, start = _Film(), device.history, rewind(device)
    stream_of, place = _streams(start), Places().whole
    blocks = [
        FilmBlock(b.address, made.kind(b.requested, b.size or 0, stream_of(b.address), place(b.frames)), b.is_pending)
        for b in start.blocks.values()
    ]
    exact = len(allocated) == len(history)
    for index, action in enumerate(history.actions):
        is_alloc = action == "alloc"
        given = allocated[index] - allocated[index - 1] if exact and is_alloc and index else 0
        name = place(history.frames[index]) if is_alloc else ""
        made.add(_Entry(action, history.addresses[index], history.sizes[index], history.streams[index], given, name))
    segments = [FilmSegment(s.address, s.size, s.stream, s.is_small, s.is_expandable) for s in start.segments.values()]
    return made.film(report, segments, blocks, history.times_us, recorded_retries(history, settings) or ())


def film_of_case(case: Case, report: DeviceReport, names: Sequence[str] = ()) -> Film:
    """The allocator's own history of a replay; `names[i]` is the place that asked for event i of the program."""
    marks = [_Mark()]

    def watch(index: int, event: Event, address: int | None, oom: bool, allocator: CachingAllocator) -> None:
        asked = (names[index] if index < len(names) else "") or f"event {index}, id {event.id!r}"[:80]
        retries, asked = allocator.statistics.num_alloc_retries, asked if address is not None else ""
        marks.append(_Mark(len(allocator.trace or ()), allocator.allocated_bytes, retries, asked))

    result = replay(case.program, case.conditions, on_event=watch, history=True)
    made, entries = _Film(), list(result.allocator.trace or ())
    for before, after in pairwise(marks):
        given = after.allocated_bytes - before.allocated_bytes
        for entry in entries[before.entries : after.entries]:
            made.add(_Entry(entry.action, entry.address, entry.size, entry.stream, given, after.asked))
    # The last entry of a request is its allocation or its failure.
    retries = [after.entries - 1 for before, after in pairwise(marks) if after.retries > before.retries]
    return made.film(report, retries=retries)


def courses(case: Case, report: DeviceReport) -> tuple[Course, ...]:
    """The course under the settings of each row of `what_if`, from a cold start, and of the floor first."""
    wanted = list(dict.fromkeys(row.settings for row in report.what_if if row.start != "warm"))[:MAX_COURSES]
    if not wanted:
        return ()
    return (floor_course(case), *(_course(case, settings) for settings in parsed(wanted)))


def floor_course(case: Case) -> Course:
    """The live requested bytes: what no allocator can do without."""
    sampler, live, sizes = Sampler(len(case.program.events)), 0, dict[object, int]()
    for index, event in enumerate(case.program.events):
        if event.op == "alloc":
            sizes[event.id] = event.nbytes
            live += event.nbytes
        elif event.op == "free":
            live -= sizes.pop(event.id, 0)
        sampler.add(index, live, live)
    return _points("floor", sampler, len(case.program.events))


def _course(case: Case, settings: Settings) -> Course:
    sampler = Sampler(len(case.program.rows))

    def watch(index: int, event: Event, address: int | None, oom: bool, allocator: CachingAllocator) -> None:
        sampler.add(index, allocator.allocated_bytes, allocator.reserved_bytes)

    result = replay(case.program, replace(case.conditions, settings=settings), on_event=watch)
    return _points(settings.text or str(settings), sampler, len(case.program.rows), result.ooms)


def _points(label: str, sampler: Sampler, events: int, ooms: Sequence[int] = ()) -> Course:
    line = sampler.timeline()
    return Course(
        label=label,
        events=events,
        index=line.index,
        allocated_bytes=line.allocated_bytes,
        reserved_bytes=line.reserved_bytes,
        ooms=tuple(ooms),
    )


def _streams(start: Start) -> Callable[[int], int]:
    """The stream of the segment that an address lies in, 0 where there is none."""
    starts = sorted(start.segments)

    def stream(address: int) -> int:
        at = bisect_right(starts, address) - 1
        return start.segments[starts[at]].stream if at >= 0 else 0

    return stream

"""From a recording of a real allocator to reports, one for each device: its memory, its history, how exact we are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from stridetool.analysis.certificate import Failure, certificate
from stridetool.analysis.conditions import Conditions
from stridetool.analysis.exactness import Check, again, check
from stridetool.analysis.fragmentation import fragmentation, free_memory, pins, sites
from stridetool.analysis.held import held_segments, segment_rows, stats_of
from stridetool.analysis.leaks import Changes, annotated_steps, growth
from stridetool.analysis.moments import Moment, event_of
from stridetool.analysis.packing import floor_bytes
from stridetool.analysis.recorded_device import Given, refuse_bombs
from stridetool.analysis.replay import Program, compile_events
from stridetool.analysis.requests import Requests, requests_of
from stridetool.analysis.retries import recorded_retries
from stridetool.analysis.rewind import Start, rewind, sized
from stridetool.analysis.stacks import Places
from stridetool.analysis.timeline import Sampler
from stridetool.analysis.what_if import WarmStart
from stridetool.core.collections_off import without_collections
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.recorded import DeviceRecording, Frames, HeldSegment, Recording, frame_text
from stridetool.core.memory.settings import Settings
from stridetool.report.alloc import DeviceFacts, DeviceReport, EventLine, Exactness, Outcome
from stridetool.report.inspect import Source

Emit = Callable[[EventLine], None]
_FALLS = frozenset(("free_requested", "free_completed", "segment_free", "segment_unmap"))


class Recorded(NamedTuple):
    """A report, and what the tries of other settings start from. `usable_bytes` None: the recording does not show."""

    report: DeviceReport
    program: Program
    warm: WarmStart | None
    usable_bytes: int | None
    is_windows: bool


class _Watcher:
    """Sees the replay of every entry."""

    def __init__(self, device: DeviceRecording, emit: Emit | None) -> None:
        self.history = device.history
        self.sampler = Sampler(len(self.history))
        self.failures: list[Failure] = []
        self.peak_allocated = self.peak_reserved = 0
        self.peak_at: int | None = None
        self._emit = emit
        self._places = Places()

    def __call__(self, index: int, heap: CachingAllocator, given: Sequence[Given]) -> None:
        action = self.history.actions[index]
        if action in _FALLS and index < self.sampler.end and self._emit is None:
            return
        allocated, reserved = heap.allocated_bytes, heap.reserved_bytes + sum(each.size for each in given)
        if allocated > self.peak_allocated:
            self.peak_allocated, self.peak_at = allocated, index
        self.peak_reserved = max(self.peak_reserved, reserved)
        self.sampler.add(index, allocated, reserved)
        if action == "oom":
            usable = reserved + self.history.addresses[index]
            self.failures.append(Failure(index, heap.requested_bytes, self.history.sizes[index], usable))
        if self._emit is not None:
            self._emit(self._line(index, action, heap, given))

    def _line(self, index: int, action: str, heap: CachingAllocator, given: Sequence[Given]) -> EventLine:
        frames = self.history.frames[index]
        return EventLine(
            index,
            action,
            None,
            None if action == "oom" else hex(self.history.addresses[index]),
            action == "oom",
            heap.reserved_bytes + sum(each.size for each in given),
            heap.allocated_bytes,
            heap.active_bytes,
            heap.requested_bytes,
            heap.segment_count + sum(each.action == "segment_alloc" for each in given),
            heap.inactive_split_bytes,
            self.history.sizes[index],
            self._places(frames) if len(frames) else None,
        )


@without_collections()
def recording_reports(
    source: Source,
    recording: Recording,
    conditions: Conditions,
    assumed: Sequence[str],
    *,
    policies: Sequence[str] = ("2.14", "2.11"),
    at: Moment | None = None,
    top: int = 10,
    emit: Emit | None = None,
) -> list[Recorded]:
    """One report per device, up to the moment `at` where its history has that (else `report.at` is None). Of
    `policies`, the one that predicts more addresses is taken, the first if equal.

    Raises InputError for a recording that contradicts itself, or that would take a simulated device too much.
    """
    starts = [rewind(device) for device in recording.devices]
    refuse_bombs(zip(recording.devices, starts, strict=True), conditions.settings.large_segment_size)
    return [
        _device_report(source, recording, device, start, conditions, assumed, policies, at, top, emit)
        for device, start in zip(recording.devices, starts, strict=True)
    ]


def _device_report(
    source: Source,
    recording: Recording,
    device: DeviceRecording,
    start: Start,
    conditions: Conditions,
    assumed: Sequence[str],
    policies: Sequence[str],
    at: Moment | None,
    top: int,
    emit: Emit | None,
) -> Recorded:
    settings, page, is_windows = conditions.settings, conditions.settings.large_segment_size, _is_windows(device)
    has_history = "alloc" in device.history.actions
    policy, result, watcher = _best(device, settings, policies, start)
    usable = watcher.failures[-1].usable_bytes if watcher.failures else None
    whole = partial(_outcome, device, settings, watcher)
    event = None if at is None else event_of(at, len(device.history), whole)
    if event is not None or emit is not None:
        watcher = _Watcher(device, emit)
        result = again(device, settings, policy, start=start, found=result, until=event, on_entry=watcher)
    steps = recording.steps
    if event is not None:
        device = _up_to(event, device, start, held_segments(result.allocator))
        steps = tuple(step for step in steps if step[0] <= device.history.times_us[event])
    segments, requests = device.segments, requests_of(device, start)
    program = compile_events(requests.events)
    grown = growth(_changes(device, start), annotated_steps(device.history.times_us, steps), top=top)
    report = DeviceReport(
        source=source,
        device=DeviceFacts(f"cuda:{device.device}", conditions.capacity or usable, False),
        settings=settings.text or str(settings),
        stats=stats_of(segments),
        fragmentation=fragmentation(segments, page),
        segments=segment_rows(segments),
        timeline=watcher.sampler.timeline(),
        exactness=_exactness(result, start, requests, policy, assumed) if len(device.history) else None,
        certificate=certificate(watcher.failures, conditions.capacity),
        floor_bytes=floor_bytes(program),
        outcome=_outcome(device, settings, watcher) if len(device.history) else None,
        free_memory=free_memory(segments),
        pins=pins(segments, {}, page=page, top=top),
        sites=sites(segments, {}, top=top),
        leaks=grown.leaks,
        steps=grown.steps,
        at=event,
        has_history=has_history,
    )
    return Recorded(report, program, _warm(start, result, requests, conditions), usable, is_windows)


def _best(
    device: DeviceRecording, settings: Settings, policies: Sequence[str], start: Start
) -> tuple[str, Check, _Watcher]:
    """The policy that predicts most addresses; none is looked for behind one that predicts all."""
    best: tuple[str, Check, _Watcher] | None = None
    for policy in policies:
        found, _ = check(device, settings, policy, start=start, watch=lambda: _Watcher(device, None))
        assert isinstance(found.watcher, _Watcher)
        if best is None or found.predicted > best[1].predicted:
            best = policy, found, found.watcher
        if found.predicted == found.total:
            break
    assert best is not None
    return best


def _exactness(result: Check, start: Start, requests: Requests, policy: str, assumed: Sequence[str]) -> Exactness:
    notes = [*assumed, *requests.assumed]
    if result.widened:
        notes.append(f"{len(result.widened):,} blocks of the start were larger than asked for, as later addresses show")
    if result.reordered:
        notes.append(f"the order of segments at the start is unknown: corrected {result.reordered:,} times")
    elif start.segments:
        notes.append("segments of the start are taken to be as old as their addresses are low")
    for problem, count in start.problems.items():
        notes.append(f"{count:,} entries are {problem}")
    if result.lost:
        notes.append(f"{result.lost:,} entries could not be followed")
    return Exactness(
        predicted=result.predicted,
        total=result.total,
        first_miss=result.first_miss,
        assumed=tuple(notes),
        policy=policy,
    )


def _outcome(device: DeviceRecording, settings: Settings, watcher: _Watcher) -> Outcome:
    actions = device.history.actions
    growth = ("segment_alloc", "segment_map", "segment_free", "segment_unmap")
    retries = recorded_retries(device.history, settings)
    return Outcome(
        events=len(actions),
        allocations=actions.count("alloc"),
        ooms=tuple(index for index, action in enumerate(actions) if action == "oom"),
        retries=None if retries is None else len(retries),
        device_calls=sum(actions.count(action) for action in growth),
        peak_allocated_bytes=watcher.peak_allocated,
        peak_reserved_bytes=watcher.peak_reserved,
        peak_at=watcher.peak_at,
        ends_at_failure=bool(watcher.failures) and "alloc" not in actions[watcher.failures[-1].at :],
    )


def _warm(start: Start, result: Check, requests: Requests, conditions: Conditions) -> WarmStart | None:
    """The recorded layout at the start, if anything was there."""
    if start.is_complete:
        return None
    sizes = {**sized(start, conditions.settings), **result.widened}
    if set(requests.addresses) - set(sizes):
        return None
    live = {address: (size, min(start.blocks[address].requested, size)) for address, size in sizes.items()}
    ranges, page = tuple(start.segments.values()), conditions.settings.large_segment_size
    return WarmStart(ranges, live, requests.addresses, requests.preset, page, start.reserved)


def _up_to(event: int, device: DeviceRecording, start: Start, held: tuple[HeldSegment, ...]) -> DeviceRecording:
    """The recording as it would be, had it ended after an event: `held` are the segments of the replay then."""
    history = device.history.first(event + 1)
    frames: dict[int, Frames] = {address: block.frames for address, block in start.blocks.items()}
    entries = zip(history.actions, history.addresses, history.frames, strict=True)
    frames |= {address: stack for action, address, stack in entries if action == "alloc"}
    segments = tuple(
        s._replace(blocks=tuple(b._replace(frames=frames.get(b.address, ())) for b in s.blocks)) for s in held
    )
    return device._replace(segments=segments, history=history)


def _changes(device: DeviceRecording, start: Start) -> Changes:
    """Allocations and frees by place, of those that have a stack."""
    history, places, changes = device.history, Places(), Changes()
    live: dict[int, tuple[str, int]] = {}
    for address, block in start.blocks.items():
        if len(block.frames):
            live[address] = places(block.frames), block.requested
            changes.add(-1, *live[address])
    entries = zip(history.actions, history.addresses, history.sizes, history.frames, strict=True)
    for index, (action, address, nbytes, frames) in enumerate(entries):
        if action == "alloc":
            live.pop(address, None)
            if len(frames):
                live[address] = places(frames), nbytes
                changes.add(index, *live[address])
        elif action == "free_completed" and address in live:
            name, nbytes = live.pop(address)
            changes.add(index, name, -nbytes)
    return changes


def _is_windows(device: DeviceRecording) -> bool:
    """Whether the stack frames have paths of Windows."""
    stacks = (frames for frames in reversed(device.history.frames) if len(frames))
    files = (frame_text(frame, "filename") for frame in next(stacks, ()))
    return any(file[1:3] in (":\\", ":/") for file in files)

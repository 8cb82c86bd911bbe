"""What a program asked of its allocator, without where it was put: the part of a recording that other settings keep.

Frees take effect where they were completed, by whatever stream they waited for. A request that failed in the middle
of a recording was caught by its program: it is asked again and freed at once. The last one is kept: it is the one
that ended the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stridetool.analysis.recorded_device import PoolFinder
from stridetool.analysis.rewind import Start
from stridetool.core.memory.events import Event
from stridetool.core.memory.recorded import DEFAULT_POOL, DeviceRecording, Frames, History, PoolId, frame_text

_UNSIGNED = (1 << 64) - 1
_WAIT = 1 << 40  # streams that stand for "whatever this free waits for"


@dataclass(frozen=True, slots=True)
class Requests:
    """The first `preset` events allocate what was live already; `addresses` are the recorded places of these."""

    events: tuple[Event, ...]
    preset: int
    addresses: tuple[int, ...]
    assumed: tuple[str, ...]


def requests_of(recording: DeviceRecording, start: Start) -> Requests:
    """The events that a replay under other settings runs."""
    writer = _Writer(recording, start)
    writer.write()
    return Requests(tuple(writer.events), writer.preset, tuple(writer.addresses), tuple(writer.assumed))


class _Writer:
    def __init__(self, recording: DeviceRecording, start: Start) -> None:
        self.recording = recording
        self.history: History = recording.history
        self.start = start
        self.events: list[Event] = []
        self.addresses: list[int] = []
        self.preset = 0
        self.assumed: list[str] = []
        self.live: dict[int, int] = {}  # address → id
        self.waiting: dict[int, int] = {}  # address → stream that its free waits for
        self.ids = 0
        self.finder = PoolFinder(recording, start)
        self.stop = 0  # behind the run of entries about memory of the device that was looked at last
        self.growth = -1  # the last entry of such runs that obtained memory
        self.pools = {s.pool_id for s in recording.segments} | {s.pool_id for s in start.segments.values()}
        self.pools |= {pool for pool in self.history.pool_ids if pool is not None}
        self.final_failure = max((i for i, a in enumerate(self.history.actions) if a == "oom"), default=-1)

    def write(self) -> None:
        for pool in sorted(self.pools - {DEFAULT_POOL}):
            self.events.append(Event("pool_create", pool))
        self._write_start()
        actions = self.history.actions
        completes = "free_completed" in actions
        stacks = any(len(frames) for frames in self.history.frames)
        for index, action in enumerate(actions):
            if action == "alloc":
                self._alloc(index, self.history.addresses[index])
            elif action == "free_requested":
                self._free(index, completes)
            elif action == "free_completed":
                self._completed(index)
            elif action == "oom":
                self._alloc(index, None)
            elif action in ("segment_free", "segment_unmap") and self._is_empty_cache(index, stacks):
                self.events.append(Event("empty_cache"))
        if not stacks and any(event.op == "empty_cache" for event in self.events):
            self.assumed.append("memory that went back with no failed request behind it was given back by empty_cache")
        if "oom" in actions[: self.final_failure]:
            self.assumed.append("requests that failed before the last one are tried again and freed at once")

    def _write_start(self) -> None:
        blocks = sorted(self.start.blocks)
        spots = sorted(self.start.segments.values())
        position = 0
        for address in blocks:
            while position + 1 < len(spots) and spots[position + 1].address <= address:
                position += 1
            spot = spots[position] if spots else None
            pool, stream = (spot.pool_id, spot.stream) if spot is not None else (DEFAULT_POOL, 0)
            self._request(self.start.blocks[address].requested, stream, pool, address)
            self.addresses.append(address)
        self.preset = len(self.events)
        for address in blocks:
            if self.start.blocks[address].is_pending:
                self._wait(address)
        if blocks:
            self.assumed.append(f"{len(blocks):,} blocks were live before the recording begins")

    def _request(self, nbytes: int, stream: int, pool: PoolId, address: int | None) -> None:
        if pool != DEFAULT_POOL:
            self.events.append(Event("pool_begin", pool))
        self.ids += 1
        self.events.append(Event("alloc", self.ids, max(nbytes, 1), stream & _UNSIGNED))
        if pool != DEFAULT_POOL:
            self.events.append(Event("pool_end", pool))
        if address is None:
            return
        self.live[address] = self.ids

    def _alloc(self, index: int, address: int | None) -> None:
        history = self.history
        pool = history.pool_ids[index] or (DEFAULT_POOL if address is None else self.finder.of(address))
        if address in self.live:  # the free of what was there before is not recorded
            self.events.append(Event("free", self.live.pop(address)))
        self._request(history.sizes[index], history.streams[index], pool, address)
        if address is None and index != self.final_failure:
            self.events.append(Event("free", self.ids))

    def _free(self, index: int, completes: bool) -> None:
        history, address = self.history, self.history.addresses[index]
        following = index + 1
        at_once = following < len(history) and (
            history.actions[following] == "free_completed" and history.addresses[following] == address
        )
        if address not in self.live:
            return
        if at_once or not completes:
            self.events.append(Event("free", self.live.pop(address)))
        else:
            self._wait(address)

    def _wait(self, address: int) -> None:
        identity = self.live.pop(address)
        self.waiting[address] = _WAIT + identity
        self.events.append(Event("record_stream", identity, stream=_WAIT + identity))
        self.events.append(Event("free", identity))

    def _completed(self, index: int) -> None:
        address = self.history.addresses[index]
        if address in self.waiting:
            self.events.append(Event("event_complete", stream=self.waiting.pop(address)))
        elif address in self.live:
            self.events.append(Event("free", self.live.pop(address)))

    def _is_empty_cache(self, index: int, stacks: bool) -> bool:
        """Whether the program gave memory back itself here (once for a run of segments)."""
        previous = self.history.actions[index - 1] if index else ""
        if previous in ("segment_free", "segment_unmap"):
            return False
        if stacks and len(self.history.frames[index]):
            return any("empty_cache" in name for name in _names(self.history.frames[index]))
        return not self._leads_to_a_request(index)

    def _leads_to_a_request(self, index: int) -> bool:
        """Whether what follows is the growth for a request, or its failure: then the allocator gave memory back."""
        actions = self.history.actions
        if index >= self.stop:  # the first of a run of such entries: they are looked at once
            self.stop = index
            while self.stop < len(actions) and actions[self.stop] in _AROUND:
                if actions[self.stop] in ("segment_alloc", "segment_map"):
                    self.growth = self.stop
                self.stop += 1
        following = actions[self.stop] if self.stop < len(actions) else ""
        return following == "oom" or (self.growth >= index and following == "alloc")


_AROUND = {"segment_free", "segment_unmap", "segment_alloc", "segment_map", "free_completed"}


def _names(frames: Frames) -> Iterator[str]:
    for frame in frames:
        yield frame_text(frame, "name")

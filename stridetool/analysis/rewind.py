"""The memory at the start of a recording: its end, walked backwards through the recorded entries.

A ring buffer forgets, so most recordings begin in the middle. What is live at the end, less what was allocated
since, plus what was freed since, was live at the start. Sizes are known for blocks that are still there; of the
others only what was asked for is, and in a large segment such a block may have been given more than it needed,
because a rest of at most 1 MiB is not split off, nor any of a block of max_split_size or more. A gap behind a block
that may be such a rest is therefore part of it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from stridetool.core.memory.blocks import SMALL_BUFFER, SMALL_SIZE
from stridetool.core.memory.recorded import (
    DEFAULT_POOL,
    INACTIVE,
    PENDING,
    DeviceRecording,
    Frames,
    HeldSegment,
    History,
    Kind,
    PoolId,
    Range,
)
from stridetool.core.memory.rounding import block_size
from stridetool.core.memory.settings import Settings


class StartBlock(NamedTuple):
    """A block that is live at the start. `size` None: not recorded, to be taken from the request."""

    address: int
    requested: int
    size: int | None
    is_pending: bool
    frames: Frames


@dataclass(slots=True)
class Start:
    """The state before the first entry. `problems` counts entries that the end of the recording contradicts.

    `reserved` says where the reserved range of the expandable segments of a kind begins: at the lowest address that
    is ever mapped. What lies below the memory that is mapped at the start may be mapped later.
    """

    segments: dict[int, Range] = field(default_factory=dict)
    reserved: dict[Kind, int] = field(default_factory=dict)
    blocks: dict[int, StartBlock] = field(default_factory=dict)
    problems: Counter[str] = field(default_factory=Counter)
    first_problem: int | None = None
    is_complete: bool = False  # the recording begins with an empty allocator


def rewind(recording: DeviceRecording) -> Start:
    """Walk the entries backwards from the recorded end."""
    start = Start()
    history = recording.history
    ranges = _Ranges(recording.segments, _Evidence(recording))
    live: dict[int, tuple[int, int | None, Frames]] = {}  # address → requested, size, frames
    pending: set[int] = set()
    for block in (block for segment in recording.segments for block in segment.blocks if block.state != INACTIVE):
        live[block.address] = block.requested, block.size, block.frames
        if block.state == PENDING:
            pending.add(block.address)
    requests = "free_requested" in history.actions
    entries = zip(reversed(history.actions), reversed(history.addresses), reversed(history.sizes), strict=True)
    for behind, (action, address, size) in enumerate(entries, 1):
        problem = None
        if action == "alloc":
            if live.pop(address, None) is None:
                problem = "an allocation of memory that is not live"
            pending.discard(address)
        elif action == "free_completed":
            if address in live:
                problem = "a free of memory that is live afterwards"
            else:
                live[address] = size, None, ()
                if requests:
                    pending.add(address)
        elif action == "free_requested":
            if address not in live:
                problem = "a free of memory that is gone"
            pending.discard(address)
        elif action in _CHANGES_OF_MEMORY:
            problem = _undo(history, len(history) - behind, ranges)
        if problem:
            start.problems[problem] += 1
            start.first_problem = len(history) - behind
    start.blocks = {
        address: StartBlock(address, *block[:2], address in pending, block[2]) for address, block in live.items()
    }
    start.segments = ranges.segments()
    start.reserved = _lowest_mapped(recording, start.segments.values())
    start.is_complete = not start.segments and not start.blocks
    return start


_CHANGES_OF_MEMORY = frozenset(("segment_alloc", "segment_map", "segment_free", "segment_unmap"))


def _undo(history: History, index: int, ranges: _Ranges) -> str | None:
    """Take back what the device gave or took; what is wrong with the entry, if anything."""
    action, address, size = history.actions[index], history.addresses[index], history.sizes[index]
    if action in ("segment_alloc", "segment_map"):
        return None if ranges.remove(address, size) else "a segment that is not there afterwards"
    pool = history.pool_ids[index]
    ranges.add(address, size, history.streams[index], pool or DEFAULT_POOL, action == "segment_unmap")
    return None


def _lowest_mapped(recording: DeviceRecording, ranges: Iterable[Range]) -> dict[Kind, int]:
    """The lowest address of each kind that is mapped at the start, at the end, or by an entry."""
    history = recording.history
    entries = zip(history.actions, history.pool_ids, history.streams, history.sizes, history.addresses, strict=True)
    places = [
        (Kind(pool or DEFAULT_POOL, size == SMALL_BUFFER, stream), address)
        for action, pool, stream, size, address in entries
        if action == "segment_map"
    ]
    for held in (recording.segments, ranges):
        places += [(Kind(s.pool_id, s.is_small, s.stream), s.address) for s in held if s.is_expandable]
    lowest: dict[Kind, int] = {}
    for kind, address in places:
        lowest[kind] = min(lowest.get(kind, address), address)
    return lowest


class _Evidence:
    """Whether expandable memory is of small or large blocks: what was mapped or allocated there at other times.

    Small pages are mapped one at a time, as no small request needs two; large ones are larger than that.
    """

    def __init__(self, recording: DeviceRecording) -> None:
        history = recording.history
        kinds = {
            address: size == SMALL_BUFFER if action == "segment_map" else size <= SMALL_SIZE
            for action, address, size in zip(history.actions, history.addresses, history.sizes, strict=True)
            if action in ("segment_map", "alloc")
        }
        kinds |= {block.address: s.is_small for s in recording.segments if s.is_expandable for block in s.blocks}
        self._kinds = kinds
        self._addresses = sorted(kinds)

    def is_small(self, address: int, size: int) -> bool:
        """What the first thing known within the range was; without any, a single page is small."""
        index = bisect_left(self._addresses, address)
        if index < len(self._addresses) and self._addresses[index] < address + size:
            return self._kinds[self._addresses[index]]
        return size == SMALL_BUFFER


class _Ranges:
    """The segments and mapped ranges of a device, as they come and go backwards."""

    def __init__(self, segments: Iterable[HeldSegment], evidence: _Evidence) -> None:
        self._evidence = evidence
        self._at: dict[int, Range] = {
            s.address: Range(s.address, s.size, s.stream, s.is_small, s.pool_id, s.is_expandable) for s in segments
        }
        self._starts = sorted(self._at)

    def segments(self) -> dict[int, Range]:
        return {address: self._at[address] for address in self._starts}

    def _containing(self, address: int) -> Range | None:
        index = bisect_right(self._starts, address) - 1
        return self._at[self._starts[index]] if index >= 0 else None

    def remove(self, address: int, size: int) -> bool:
        """Cut the range out; what is left of a mapped range on either side stays."""
        whole = self._containing(address)
        if whole is None or address + size > whole.address + whole.size:
            return False
        if not whole.is_expandable and (whole.address, whole.size) != (address, size):
            return False
        self._drop(whole.address)
        if address > whole.address:
            self._put(whole._replace(size=address - whole.address))
        behind = whole.address + whole.size - address - size
        if behind:
            self._put(whole._replace(address=address + size, size=behind))
        return True

    def add(self, address: int, size: int, stream: int, pool_id: PoolId, expandable: bool) -> None:
        """A range that was given back later; mapped neighbours of the same pool become one with it."""
        small = self._evidence.is_small(address, size) if expandable else size == SMALL_BUFFER
        if expandable:
            for neighbour in (self._containing(address - 1), self._at.get(address + size)):
                if neighbour is None or neighbour[2:] != (stream, small, pool_id, True):
                    continue
                if neighbour.address + neighbour.size == address or neighbour.address == address + size:
                    self._drop(neighbour.address)
                    address = min(address, neighbour.address)
                    size += neighbour.size
        self._put(Range(address, size, stream, small, pool_id, expandable))

    def _put(self, segment: Range) -> None:
        if segment.address not in self._at:
            insort(self._starts, segment.address)
        self._at[segment.address] = segment

    def _drop(self, address: int) -> None:
        del self._at[address]
        del self._starts[bisect_right(self._starts, address) - 1]


def largest_rest(size: int, settings: Settings) -> int:
    """Bytes that a block of `size` may be larger than it needs in a large segment, as they are not split off."""
    return settings.max_non_split_rounding if size >= settings.max_split_size else SMALL_SIZE


def sized(start: Start, settings: Settings) -> dict[int, int]:
    """Address → size of every live block at the start: recorded, or rounded with the gap of an unsplit rest."""
    divisions = settings.roundup_power2_divisions if max(settings.roundup_power2_divisions) > 1 else None
    sizes: dict[int, int] = {}
    blocks = sorted(start.blocks)
    segments = list(start.segments.values())
    starts = [segment.address for segment in segments]
    for position, address in enumerate(blocks):
        index = bisect_right(starts, address) - 1
        block = start.blocks[address]
        if index < 0 or address >= segments[index].address + segments[index].size:
            continue
        segment = segments[index]
        end = segment.address + segment.size
        if position + 1 < len(blocks):
            end = min(end, blocks[position + 1])
        size = block.size
        if size is None:
            size = block_size(block.requested, divisions)
            if (
                not segment.is_small
                and not segment.is_expandable
                and end - address - size <= largest_rest(size, settings)
            ):
                size = end - address
        sizes[address] = min(size, end - address)
    return sizes

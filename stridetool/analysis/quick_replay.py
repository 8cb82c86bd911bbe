"""What a sweep asks of a replay: five numbers, hundreds of times for one trace.

They come from the compiled replay where there is one, and from `replay` where there is none or where it declines;
both follow the same rules, and the tests hold both to the same recordings.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from stridetool.analysis.conditions import UNLIMITED, Conditions
from stridetool.analysis.replay import ALLOC, OTHER, RECORD_STREAM, Program, Warm, replay, simulated, warm_up
from stridetool.core.compiled import extension
from stridetool.core.drivers.sim import SimDriver
from stridetool.core.memory.blocks import Segment
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.events import Event
from stridetool.core.memory.private import given_identity
from stridetool.core.memory.streams import polling_place

_NO_LIMIT = (1 << 63) - 1
_BEYOND = 1 << 60  # bytes: no device has as much, so that more means the same
NEVER = bytearray(1)  # the `stop` of a replay that nobody ends
_QUERIES = {"auto": -2, "manual": -1}

_replay = extension("stridetool.core.memory._replay")
_CODES = {op: code for code, op in enumerate(_replay.OPS)} if _replay else {}
EVENTS_PER_SECOND = 5_000_000 if _replay else 300_000  # replayed, on a slow machine


class ReplayOutcome(NamedTuple):
    """The outcome of one try. `ooms` are the indices of allocations that failed.

    `work` is what it cost the host, about in events.
    """

    ooms: tuple[int, ...]
    peak_reserved_bytes: int
    peak_allocated_bytes: int
    retries: int
    device_calls: int
    work: int


class EncodedTrace(NamedTuple):
    """A trace without names: `rows` are (code, slot, nbytes, stream) as int64.

    A stream is its place in `streams`, by value; `ranks` is the place of each when events are polled. A pool is its
    place in `pools`, and stands where a slot does.
    """

    rows: array[int]
    ranks: array[int]
    streams: Mapping[int, int]
    pools: Mapping[object, int]


def encode(program: Program, streams: Iterable[int] = ()) -> EncodedTrace | None:
    """The trace in the form of the compiled replay, None where there is none or it has no numbers for it.

    `streams` are more that memory may be held for.
    """
    if _replay is None or any(e.nbytes >= _BEYOND for e in program.events if e.op == "set_capacity"):
        return None
    used = {stream for code, _, _, stream in program.rows if code in (ALLOC, RECORD_STREAM)}.union(streams)
    used |= {e.stream for e in program.events if e.op == "event_complete" and e.stream is not None}
    place = {stream: index for index, stream in enumerate(sorted(used))}
    pools: dict[object, int] = {}
    rows, events = array("q"), program.events
    for index, (code, slot, nbytes, stream) in enumerate(program.rows):
        if code == OTHER:
            rows.extend(_other_row(events[index], place, pools))
        else:
            rows.extend((code, slot, nbytes, place.get(stream, 0)))
    ranks = {stream: rank for rank, stream in enumerate(sorted(place, key=polling_place))}
    return EncodedTrace(rows, array("q", (ranks[stream] for stream in place)), place, pools)


def _other_row(event: Event, streams: Mapping[int, int], pools: dict[object, int]) -> tuple[int, int, int, int]:
    code = _CODES[event.op]
    if event.op == "event_complete":
        return (code, 1, 0, 0) if event.stream is None else (code, 0, 0, streams[event.stream])
    if event.op == "set_fraction":
        return code, 0, *struct.unpack("<q", struct.pack("<d", abs(event.fraction))), 0
    if event.op.startswith("pool"):
        return code, pools.setdefault(given_identity(event.id) or event.id, len(pools)), 0, 0
    return code, 0, event.nbytes if event.op == "set_capacity" else 0, 0


def quick_replay(
    program: Program,
    encoded: EncodedTrace | None,
    conditions: Conditions,
    *,
    warm: Warm | None = None,
    stop_at_oom: bool = False,
    stop: bytearray = NEVER,
) -> ReplayOutcome:
    """The outcome of `program` under `conditions`; without `encoded`, its own form, by `replay` itself.

    Another thread ends the compiled replay by setting stop[0]. Raises KeyboardInterrupt then, and InputError and
    OutOfMemoryError as `replay` and `warm_up` do.
    """
    if encoded is not None:
        found = compiled_replay(program, encoded, conditions, warm=warm, stop_at_oom=stop_at_oom, stop=stop)
        if found is not None:
            return found
    result = replay(program, conditions, warm=warm, stop_at_oom=stop_at_oom)
    return ReplayOutcome(
        result.ooms,
        result.peak_reserved_bytes,
        result.peak_allocated_bytes,
        result.retries,
        result.device_calls,
        result.ooms[-1] if stop_at_oom and result.ooms else result.events,
    )


def compiled_replay(
    program: Program,
    encoded: EncodedTrace,
    conditions: Conditions,
    *,
    warm: Warm | None = None,
    stop_at_oom: bool = False,
    stop: bytearray = NEVER,
    addresses: array[int] | None = None,
) -> ReplayOutcome | None:
    """The outcome by the compiled replay, None where it leaves the trace to `replay`.

    `addresses`, an int64 for each row, receives what each allocation got, and -1 where one failed.
    """
    settings, events, fraction = conditions.settings, conditions.stream_events, conditions.fraction
    capacity = conditions.capacity or UNLIMITED
    if capacity >= _BEYOND:
        return None
    try:
        state = array("q") if warm is None else array("q", _state_of(program, encoded, conditions, warm))
    except OverflowError:  # recorded addresses may be anything
        return None
    found = _replay.run(
        encoded.rows,
        encoded.ranks,
        program.slots,
        len(encoded.pools),
        capacity=capacity,
        fraction=fraction if fraction < 1.0 else settings.per_process_memory_fraction,
        queries=events if isinstance(events, int) else _QUERIES[events],
        first_fit=conditions.address_policy == "firstfit",
        stops=stop_at_oom,
        counts_segments=conditions.policy != "2.11",
        repaired=conditions.policy == "fixed",
        max_split=min(settings.max_split_size, _NO_LIMIT),
        large_segment=min(settings.large_segment_size, _BEYOND),
        non_split_rounding=min(settings.max_non_split_rounding, _BEYOND),
        gc_threshold=settings.garbage_collection_threshold,
        expandable=settings.expandable_segments,
        throws=settings.throw_on_cudamalloc_oom,
        divisions=tuple(min(pieces, _BEYOND) for pieces in settings.roundup_power2_divisions),
        first=0 if warm is None else warm.rows,
        state=state,
        stop=stop,
        addresses=addresses,
    )
    return None if found is None else ReplayOutcome(*found)


def _state_of(program: Program, encoded: EncodedTrace, conditions: Conditions, warm: Warm) -> Iterator[int]:
    """The memory that is held at the beginning, in the order in which csrc/state.h loads it."""
    driver, allocator = simulated(conditions)
    blocks = warm_up(program, allocator, driver, warm)
    yield from _counters(allocator, driver)
    yield len(allocator.private)
    for identity, owner in allocator.private.items():
        yield from (encoded.pools[identity], owner.use_count)
    yield from (allocator.segments_made, len(allocator.segments))
    slots = {block: slot for slot, block in enumerate(blocks) if block is not None}
    for segment in allocator.segments.values():
        chain = segment.blocks()
        yield from (*_facts(segment, encoded), len(chain))
        for block in chain:
            yield from (block.address, block.size, block.state, slots.get(block, -1))


def _counters(allocator: CachingAllocator, driver: SimDriver) -> tuple[int, ...]:
    statistics = allocator.statistics
    return (
        allocator.allocated_bytes,
        statistics.peaks.bytes,
        allocator.reserved_bytes,
        statistics.reserved.all.peak,
        statistics.num_alloc_retries,
        statistics.num_device_alloc + statistics.num_device_free,
        driver.used,
        *driver.frontier,
        driver.mapped_pages,
    )


def _facts(segment: Segment, encoded: EncodedTrace) -> tuple[int, ...]:
    pool = segment.pool
    number = -1 if pool.owner is None else encoded.pools[pool.owner.identity]
    stream = encoded.streams[segment.stream]
    return (number, pool.is_small, stream, segment.address, segment.size, segment.counter, segment.page)

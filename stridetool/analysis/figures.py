"""What a sweep asks of a replay: a few figures, hundreds of times for one trace.

They come from the compiled replay where there is one, and from `replay` where there is none or where it declines;
both follow the same rules, and the tests hold both to the same recordings.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from stridetool.analysis.conditions import UNLIMITED, Conditions
from stridetool.analysis.replay import ALLOC, OTHER, RECORD_STREAM, Program, Warm, replay, warm_up
from stridetool.core.drivers.sim import SimDriver
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.events import Event
from stridetool.core.memory.private import given_identity
from stridetool.core.memory.streams import polling_place

_CODES = {
    op: OTHER + index
    for index, op in enumerate(
        (
            "empty_cache",
            "event_complete",
            "sync",
            "set_capacity",
            "set_fraction",
            "reset_peak",
            "pool_create",
            "pool_begin",
            "pool_end",
            "pool_destroy",
        )
    )
}
_NO_LIMIT = (1 << 63) - 1
_BEYOND = 1 << 60  # bytes: no device has as much, so that more means the same
_QUERIES = {"auto": -2, "manual": -1}


def _extension() -> Any:
    try:
        from stridetool.core.memory import _replay
    except ImportError:  # installed without a compiler
        return None
    return _replay


_replay = _extension()
IS_COMPILED = _replay is not None


class Figures(NamedTuple):
    """The outcome of one try. `ooms` are the indices of allocations that failed."""

    ooms: tuple[int, ...]
    peak_reserved_bytes: int
    peak_allocated_bytes: int
    retries: int
    device_calls: int


class Numbers(NamedTuple):
    """A trace without names: `rows` are (code, slot, nbytes, stream) as int64.

    A stream is its place in `streams`: those that allocate first, by value; `ranks` is the place of each when events
    are polled. A pool is its place in `pools`, and stands where a slot does.
    """

    rows: array[int]
    ranks: array[int]
    allocating_streams: int
    streams: Mapping[int, int]
    pools: Mapping[object, int]


def numbers_of(program: Program, streams: Iterable[int] = ()) -> Numbers:
    """The trace in the form of the compiled replay; `streams` are more that memory may be held for."""
    allocating = {stream for code, _, _, stream in program.rows if code == ALLOC}.union(streams) or {0}
    others = {stream for code, _, _, stream in program.rows if code == RECORD_STREAM}
    others |= {e.stream for e in program.events if e.op == "event_complete" and e.stream is not None}
    place = {stream: index for index, stream in enumerate([*sorted(allocating), *sorted(others - allocating)])}
    pools: dict[object, int] = {}
    rows, events = array("q"), program.events
    for index, (code, slot, nbytes, stream) in enumerate(program.rows):
        if code == OTHER:
            rows.extend(_other_row(events[index], place, pools))
        else:
            rows.extend((code, slot, nbytes, place.get(stream, 0)))
    ranks = {stream: rank for rank, stream in enumerate(sorted(place, key=polling_place))}
    return Numbers(rows, array("q", (ranks[stream] for stream in place)), len(allocating), place, pools)


def _other_row(event: Event, streams: Mapping[int, int], pools: dict[object, int]) -> tuple[int, int, int, int]:
    code = _CODES[event.op]
    if event.op == "event_complete":
        return (code, 1, 0, 0) if event.stream is None else (code, 0, 0, streams[event.stream])
    if event.op == "set_fraction":
        return code, 0, *struct.unpack("<q", struct.pack("<d", abs(event.fraction))), 0
    if event.op.startswith("pool"):
        return code, pools.setdefault(given_identity(event.id) or event.id, len(pools)), 0, 0
    return code, 0, event.nbytes if event.op == "set_capacity" else 0, 0


def figures(
    program: Program,
    numbers: Numbers | None,
    conditions: Conditions,
    *,
    warm: Warm | None = None,
    stop_at_oom: bool = False,
    addresses: array[int] | None = None,
) -> Figures:
    """Of `program` under `conditions`; `numbers` are its own, or None: by `replay` itself.

    `addresses`, an int64 for each row, receives what the compiled replay gave each allocation, and -1 where one failed.
    Raises InputError and OutOfMemoryError as `replay` and `warm_up` do.
    """
    if numbers is not None and _replay is not None and (conditions.capacity or 0) <= _BEYOND:
        found = _compiled(program, numbers, conditions, warm, stop_at_oom, addresses)
        if found is not None:
            return Figures(*found)
    result = replay(
        program,
        settings=conditions.settings,
        capacity=conditions.capacity or UNLIMITED,
        fraction=conditions.fraction,
        policy=conditions.policy,
        address_policy=conditions.address_policy,
        stream_events=conditions.stream_events,
        warm=warm,
        stop_at_oom=stop_at_oom,
    )
    return Figures(
        result.ooms, result.peak_reserved_bytes, result.peak_allocated_bytes, result.retries, result.device_calls
    )


def _compiled(
    program: Program,
    numbers: Numbers,
    conditions: Conditions,
    warm: Warm | None,
    stops: bool,
    addresses: array[int] | None,
) -> tuple[tuple[int, ...], int, int, int, int] | None:
    settings, events = conditions.settings, conditions.stream_events
    fraction = conditions.fraction
    found: tuple[tuple[int, ...], int, int, int, int] | None = _replay.run(
        numbers.rows,
        numbers.ranks,
        program.slots,
        numbers.allocating_streams,
        len(numbers.pools),
        capacity=conditions.capacity or UNLIMITED,
        fraction=fraction if fraction < 1.0 else settings.per_process_memory_fraction,
        queries=events if isinstance(events, int) else _QUERIES[events],
        first_fit=conditions.address_policy == "firstfit",
        stops=stops,
        counts_segments=conditions.policy != "2.11",
        repaired=conditions.policy == "fixed",
        max_split=min(settings.max_split_size, _NO_LIMIT),
        large_segment=min(settings.large_segment_size, _BEYOND),
        non_split_rounding=min(settings.max_non_split_rounding, _BEYOND),
        gc_threshold=settings.garbage_collection_threshold,
        expandable=settings.expandable_segments,
        throws=settings.throw_on_cudamalloc_oom,
        divisions=settings.roundup_power2_divisions,
        first=0 if warm is None else warm.rows,
        state=array("q") if warm is None else _state_of(program, numbers, conditions, warm),
        addresses=addresses,
    )
    return found


def _state_of(program: Program, numbers: Numbers, conditions: Conditions, warm: Warm) -> array[int]:
    """The memory that is held at the beginning, in the order in which `load` in csrc/_replay.c reads it."""
    driver = SimDriver(conditions.capacity or UNLIMITED, address_policy=conditions.address_policy)
    allocator = CachingAllocator(driver, conditions.settings, policy=conditions.policy, fraction=conditions.fraction)
    blocks = warm_up(program, allocator, driver, warm)
    statistics = allocator.statistics
    state = array(
        "q",
        (
            allocator.allocated_bytes,
            statistics.peaks.bytes,
            allocator.reserved_bytes,
            statistics.reserved.all.peak,
            statistics.num_alloc_retries,
            statistics.num_device_alloc + statistics.num_device_free,
            driver.used,
            *driver.frontier,
            driver.mapped_pages,
            len(allocator.private),
        ),
    )
    for identity, owner in allocator.private.items():
        state.extend((numbers.pools[identity], owner.use_count))
    state.extend((allocator.segments_made, len(allocator.segments)))
    slots = {block: slot for slot, block in enumerate(blocks) if block is not None}
    for segment in allocator.segments.values():
        pool, chain = segment.pool, segment.blocks()
        number = -1 if pool.owner is None else numbers.pools[pool.owner.identity]
        state.extend((number, pool.is_small, numbers.streams[segment.stream], segment.address, segment.size))
        state.extend((segment.counter, segment.page, len(chain)))
        for block in chain:
            state.extend((block.address, block.size, block.state, slots.get(block, -1)))
    return state

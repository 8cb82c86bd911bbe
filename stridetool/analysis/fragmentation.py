"""Where free memory is and why it cannot be used: in blocks that are too large, in pieces, behind live blocks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from stridetool.analysis.stacks import NOWHERE, Places
from stridetool.core.memory.blocks import SMALL_BUFFER
from stridetool.core.memory.recorded import ALLOCATED, DEFAULT_POOL, INACTIVE, PENDING, HeldSegment
from stridetool.errors import InputError
from stridetool.report.alloc import Fragmentation, FreeMemory, Pin, Site


def fragmentation(segments: Iterable[HeldSegment], page: int = 20 << 20) -> Fragmentation:
    """The numbers of one moment; `page` is the page size of large expandable segments, in bytes.

    Raises InputError when they do not add up: then the segments contradict each other.
    """
    segments = tuple(segments)
    blocks = [block for segment in segments for block in segment.blocks]
    by_state = {state: sum(b.size for b in blocks if b.state == state) for state in (ALLOCATED, PENDING, INACTIVE)}
    requested = sum(b.requested for b in blocks if b.state != INACTIVE)
    internal = sum(b.size - b.requested for b in blocks if b.state != INACTIVE)
    reserved = sum(segment.size for segment in segments)
    releasable = sum(releasable_bytes(segment, page) for segment in segments)
    numbers = Fragmentation(
        reserved_bytes=reserved,
        allocated_bytes=by_state[ALLOCATED],
        pending_free_bytes=by_state[PENDING],
        active_bytes=by_state[ALLOCATED] + by_state[PENDING],
        requested_bytes=requested,
        internal_bytes=internal,
        external_bytes=by_state[INACTIVE],
        largest_free_bytes=max((b.size for b in blocks if b.state == INACTIVE), default=0),
        releasable_bytes=releasable,
        pinned_free_bytes=by_state[INACTIVE] - releasable,
    )
    _check(numbers)
    return numbers


def _check(numbers: Fragmentation) -> None:
    if numbers.requested_bytes + numbers.internal_bytes != numbers.active_bytes:
        raise InputError("the segments contradict each other: requested + internal is not active")
    parts = numbers.allocated_bytes + numbers.pending_free_bytes + numbers.external_bytes
    if parts != numbers.reserved_bytes:
        raise InputError("the segments contradict each other: allocated + pending + external is not reserved")


def releasable_bytes(segment: HeldSegment, page: int) -> int:
    """Bytes that empty_cache gives back: all or nothing, or the whole pages inside free blocks.

    Pages begin at the start of the reserved range, which for a mapped range is a multiple of pages before it.
    """
    if not segment.is_expandable:
        return segment.size if all(b.state == INACTIVE for b in segment.blocks) else 0
    page = SMALL_BUFFER if segment.is_small else page
    free = (b for b in segment.blocks if b.state == INACTIVE)
    return sum(_whole_pages(b.address - segment.address, b.size, page) for b in free)


def _whole_pages(offset: int, size: int, page: int) -> int:
    first, end = -(-offset // page), (offset + size) // page
    return max(0, end - first) * page


def free_memory(segments: Iterable[HeldSegment]) -> tuple[FreeMemory, ...]:
    """Free blocks by pool and stream, most bytes first: a request can only use those of its own."""
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for segment in segments:
        name = pool_name(segment)
        found[name, segment.stream] += [b.size for b in segment.blocks if b.state == INACTIVE]
    rows = (
        FreeMemory(pool=pool, stream=stream, free_bytes=sum(sizes), blocks=len(sizes), largest_bytes=max(sizes))
        for (pool, stream), sizes in found.items()
        if sizes
    )
    return tuple(sorted(rows, key=lambda row: -row.free_bytes))


def pool_name(segment: HeldSegment) -> str:
    """`large`, `small`, or with the id of a private pool: `large of pool (0, 1)`."""
    kind = "small" if segment.is_small else "large"
    return kind if segment.pool_id == DEFAULT_POOL else f"{kind} of pool {segment.pool_id}"


def pins(
    segments: Iterable[HeldSegment], names: Mapping[int, str], *, page: int = 20 << 20, top: int = 10
) -> tuple[Pin, ...]:
    """The live blocks that keep most free memory from going back, each for the few bytes that it needs itself.

    Several blocks of a segment share what it pins; a block's share is larger the fewer there are.
    """
    places = Places()
    rows = [pin for segment in segments for pin in _pins_of(segment, names, page, places)]
    rows.sort(key=lambda pin: (-pin.pinned_bytes, pin.size))
    return tuple(rows[:top])


def _pins_of(segment: HeldSegment, names: Mapping[int, str], page: int, places: Places) -> Iterator[Pin]:
    live = [b for b in segment.blocks if b.state != INACTIVE]
    free = sum(b.size for b in segment.blocks if b.state == INACTIVE)
    pinned = free - releasable_bytes(segment, page)
    if not live or not pinned:
        return
    for block in sorted(live, key=lambda b: b.size)[:3]:
        yield Pin(
            address=hex(block.address),
            size=block.size,
            requested_size=block.requested,
            pinned_bytes=pinned // len(live),
            segment=hex(segment.address),
            site=places(block.frames) if block.frames else names.get(block.address, NOWHERE),
        )


def sites(segments: Iterable[HeldSegment], names: Mapping[int, str], *, top: int = 10) -> tuple[Site, ...]:
    """Live bytes by the place that asked for them, most first. One row per place; without stacks, none."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    places = Places()
    for segment in segments:
        for block in segment.blocks:
            if block.state != INACTIVE:
                key = places(block.frames) if block.frames else names.get(block.address, NOWHERE)
                found[key][0] += 1
                found[key][1] += block.requested
    rows = (Site(site=name, blocks=count, nbytes=nbytes) for name, (count, nbytes) in found.items())
    return tuple(sorted(rows, key=lambda row: -row.nbytes)[:top])


def largest(rows: Sequence[FreeMemory], pool: str, stream: int) -> int:
    """The largest free block that a request of this pool and stream finds, in bytes."""
    return max((row.largest_bytes for row in rows if row.pool == pool and row.stream == stream), default=0)

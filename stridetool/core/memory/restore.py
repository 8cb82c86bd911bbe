"""Puts an allocator into the state that a recording describes, and keeps it there where its own choice differs.

A replay of a real recording begins with the memory that was held then (`install`), and follows the recorded
addresses afterwards: `place` hands out a given address, `grant` and `give_back` are what the device did.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from stridetool.core.drivers.sim import SimDriver
from stridetool.core.memory import expandable, growth, private
from stridetool.core.memory.blocks import (
    ALLOCATED,
    FREE,
    MIN_BLOCK,
    SMALL_BUFFER,
    UNMAPPED,
    Block,
    BlockPool,
    Segment,
    put_before,
)
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.recorded import DEFAULT_POOL, Kind, PoolId, Range
from stridetool.core.memory.rounding import block_size
from stridetool.errors import InputError, OutOfMemoryError


def pool_of(heap: CachingAllocator, pool_id: PoolId, is_small: bool) -> BlockPool:
    """The pool of this id, which is created (and counts as in use) when it is not there."""
    if pool_id == DEFAULT_POOL:
        return heap.small if is_small else heap.large
    if pool_id not in heap.private:
        private.create(heap, pool_id, use_on_oom=False, no_split=False)
    owner = heap.private[pool_id]
    return owner.small if is_small else owner.large


def install(
    heap: CachingAllocator,
    ranges: Iterable[Range],
    live: Mapping[int, tuple[int, int]],
    *,
    page: int,
    reserved: Mapping[Kind, int] = MappingProxyType({}),
) -> dict[int, Block]:
    """Memory held and the blocks live in it, address → (size, requested): the blocks, by address.

    `page` is the size of the pages of large expandable segments, `reserved` where the reserved ranges of a kind
    begin, if that is known; else they begin with their mapped memory. Segments are numbered by address, for want of a
    better order. Raises OutOfMemoryError when the device is smaller than what is held.
    """
    blocks: dict[int, Block] = {}
    ordered = sorted(ranges)
    addresses = sorted(live)
    position = 0
    for group in _segments(ordered, page):
        first = group[0]
        pool = pool_of(heap, first.pool_id, first.is_small)
        if first.is_expandable:
            whole = all(each.size % page == 0 for each in group)
            step = page if whole and not first.is_small else SMALL_BUFFER
            begin = _begin(first, reserved, ordered, step)
            segment = _reserve_at(heap, pool, begin, group[-1], step, _room_behind(group[-1], ordered))
            for each in group:
                _map_at(heap, segment, each.address, each.size)
        else:
            segment = adopt(heap, pool, first.stream, first.address, first.size)
        for each in group:
            while position < len(addresses) and addresses[position] < each.address:
                position += 1
            while position < len(addresses) and addresses[position] < each.address + each.size:
                address = addresses[position]
                blocks[address] = _occupy(heap, segment, address, *live[address])
                position += 1
    heap.configure(heap.settings)
    return blocks


def _segments(ranges: list[Range], page: int) -> Iterator[list[Range]]:
    """Mapped ranges of one pool and stream are parts of one segment, if their distances are whole pages."""
    open_groups: dict[Kind, list[Range]] = {}
    groups: list[list[Range]] = []
    for each in ranges:
        key = Kind(each.pool_id, each.is_small, each.stream)
        step = SMALL_BUFFER if each.is_small else page
        group = open_groups.get(key) if each.is_expandable else None
        if group is not None and (each.address - group[0].address) % step == 0 and groups[-1] is group:
            group.append(each)
            continue
        groups.append([each])
        if each.is_expandable:
            open_groups[key] = groups[-1]
    return iter(groups)


def _begin(first: Range, reserved: Mapping[Kind, int], ranges: list[Range], page: int) -> Range:
    """The first mapped range from where the address space before it begins, if nothing else is there."""
    begin = reserved.get(Kind(first.pool_id, first.is_small, first.stream), first.address)
    before = bisect_left(ranges, first) - 1
    end = ranges[before].address + ranges[before].size if before >= 0 else 0
    return first._replace(address=begin) if end <= begin and (first.address - begin) % page == 0 else first


def _room_behind(last: Range, ranges: list[Range]) -> int:
    """Addresses up to the next range of another segment, or plenty."""
    following = bisect_right(ranges, last)
    return ranges[following].address - last.address if following < len(ranges) else last.size + (1 << 48)


def _reserve_at(heap: CachingAllocator, pool: BlockPool, first: Range, last: Range, page: int, room: int) -> Segment:
    assert isinstance(heap.driver, SimDriver)
    total = heap.total_bytes + heap.total_bytes // 8
    size = min(-(-total // page) * page, last.address - first.address + room // page * page)
    size = max(size, last.address + last.size - first.address)
    heap.driver.adopt(first.address, size, is_virtual=True)
    segment = heap.add_segment(pool, first.stream, first.address, size, page=page)
    pool.put_unmapped(segment.tail)
    return segment


def _map_at(heap: CachingAllocator, segment: Segment, address: int, size: int) -> None:
    """Map a range of an expandable segment, which must be unmapped. Raises InputError when it is not."""
    block = block_at(segment, address)
    if block is None or block.state != UNMAPPED or address + size > block.address + block.size:
        raise InputError(f"{address:#x} is mapped twice")
    if size % segment.page or (address - segment.address) % segment.page:
        raise InputError(f"the range at {address:#x} is not in whole pages")
    if address > block.address:
        segment.pool.take_unmapped(block)
        segment.pool.put_unmapped(put_before(block, block.address, address - block.address, UNMAPPED))
        block.size -= address - block.address
        block.address = address
        segment.pool.put_unmapped(block)
    if expandable.map_front(heap, block, size) is None:
        raise OutOfMemoryError("the device is smaller than the recorded memory")


def adopt(heap: CachingAllocator, pool: BlockPool, stream: int, address: int, size: int) -> Segment:
    """A segment of cudaMalloc at a recorded address, all of it free."""
    assert isinstance(heap.driver, SimDriver)
    heap.driver.adopt(address, size)
    block = growth.new_segment(heap, pool, stream, address, size)
    pool.put(block)
    return block.segment


def _occupy(heap: CachingAllocator, segment: Segment, address: int, size: int, requested: int) -> Block:
    """Cut a live block of exactly `size` bytes out of free memory."""
    block = block_at(segment, address)
    if block is None or block.state != FREE or address + size > block.address + block.size:
        raise InputError(f"the block at {address:#x} does not lie in free memory")
    pool = segment.pool
    was_split = block.prev is not None or block.next is not None
    pool.take(block)
    before, behind = address - block.address, block.address + block.size - address - size
    if before:
        pool.put(put_before(block, block.address, before, FREE))
    taken = block
    if behind:
        taken = put_before(block, address, size, ALLOCATED)
        block.address, block.size = address + size, behind
        pool.put(block)
    else:
        block.address, block.size = address, size
        block.state = ALLOCATED
    taken.requested = requested
    _count(heap, segment, taken, was_split, bool(before) + bool(behind), before + behind)
    return taken


def _count(heap: CachingAllocator, segment: Segment, block: Block, was_split: bool, pieces: int, rest: int) -> None:
    """The counters that an allocation of `block` moves; `pieces` of `rest` bytes remained of the free block."""
    tally, peaks = segment.tally, segment.tally.peaks
    tally.count += 1
    tally.count_rises += 1
    tally.bytes += block.size
    tally.bytes_rises += block.size
    tally.requested += block.requested
    tally.requested_rises += block.requested
    if segment.page == 0:
        tally.split += pieces - was_split
        tally.split_bytes += rest - (block.size + rest if was_split else 0)
    if heap.max_split <= block.size:
        heap.statistics.oversize_allocations.up(1)
    tally.reset_peaks()
    sibling = tally.sibling
    peaks.count = max(peaks.count, tally.count + sibling.count)
    peaks.bytes = max(peaks.bytes, tally.bytes + sibling.bytes)
    peaks.requested = max(peaks.requested, tally.requested + sibling.requested)


def block_at(segment: Segment, address: int) -> Block | None:
    """The block of this segment in which `address` lies."""
    block: Block | None = segment.tail
    while block is not None and block.address > address:
        block = block.prev
    return block if block is not None and address < block.address + block.size else None


def segment_at(heap: CachingAllocator, address: int) -> Segment | None:
    """The segment in which `address` lies."""
    assert isinstance(heap.driver, SimDriver)
    start = heap.driver.start_before(address)
    while start is not None and start not in heap.segments:  # a range that was reserved for a wrong prediction
        start = heap.driver.start_before(start - 1)
    segment = None if start is None else heap.segments[start]
    return segment if segment is not None and address < segment.address + segment.size else None


def place(heap: CachingAllocator, address: int, nbytes: int) -> Block | None:
    """What `malloc(nbytes)` would do if it had chosen the free memory at `address`; None when none is there."""
    segment = segment_at(heap, address)
    block = None if segment is None else block_at(segment, address)
    if segment is None or block is None or block.state != FREE:
        return None
    size = block_size(nbytes, heap.divisions)
    room = block.address + block.size - address
    if room < size:
        return None
    rest = room - size
    splits = rest >= segment.pool.min_rest and (size < heap.max_split or segment.pool.min_rest == MIN_BLOCK)
    return _occupy(heap, segment, address, size if splits else room, nbytes)


def widen(block: Block, nbytes: int) -> bool:
    """Let a live block have `nbytes` more of the free block behind it: it was larger than the recording tells."""
    free = block.next
    if free is None or free.state != FREE or free.size <= nbytes:
        return False
    pool, tally = block.segment.pool, block.segment.tally
    pool.take(free)
    free.address += nbytes
    free.size -= nbytes
    block.size += nbytes
    pool.put(free)
    tally.bytes += nbytes
    if block.segment.page == 0:
        tally.split_bytes -= nbytes
    return True


def hold(heap: CachingAllocator, block: Block) -> None:
    """Free a block that something unknown still uses: it waits for `let_go`, and nothing is polled for it."""
    heap.uses[block] = {}
    heap.free(block)


def let_go(heap: CachingAllocator, block: Block) -> None:
    """What `block` was held for is done."""
    del heap.waits[block]
    heap.free(block)


def grant(heap: CachingAllocator, each: Range, *, page: int) -> None:
    """What the device gave: a segment, or pages of one. Raises InputError where something is already."""
    pool = pool_of(heap, each.pool_id, each.is_small)
    segment = segment_at(heap, each.address)
    if segment is not None and not (each.is_expandable and segment.page):
        raise InputError(f"a second segment at {each.address:#x}")
    if not each.is_expandable:
        adopt(heap, pool, each.stream, each.address, each.size)
        return
    if segment is None:
        step = SMALL_BUFFER if each.is_small else page
        assert isinstance(heap.driver, SimDriver)
        behind = heap.driver.start_behind(each.address) or each.address + (1 << 48)
        segment = _reserve_at(heap, pool, each, each, step, behind - each.address)
        heap.configure(heap.settings)
    _map_at(heap, segment, each.address, each.size)


def give_back(heap: CachingAllocator, address: int) -> bool:
    """Give a free segment, or the free pages around `address`, back to the device; False when they are in use."""
    segment = segment_at(heap, address)
    block = None if segment is None else block_at(segment, address)
    if segment is None or block is None or block.state != FREE:
        return False
    if segment.page:
        expandable.unmap(heap, block)
        return True
    if block.prev is not None or block.next is not None:
        return False
    growth.release_segment(heap, block)
    return True


def exchange_ages(first: Segment, second: Segment) -> None:
    """Let two segments of one pool have each other's place in the order of their free blocks."""
    for segment, counter in ((first, second.counter), (second, first.counter)):
        free = [block for block in segment.blocks() if block.state == FREE]
        for block in free:
            segment.pool.take(block)
        segment.counter = counter
        for block in free:
            segment.pool.put(block)

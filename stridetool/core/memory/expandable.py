"""Expandable segments: a reserved range of addresses whose pages are mapped when needed and unmapped when free.

A range is 9/8 of the device, for one pool and stream; pages are 2 MiB (small) or large_segment_size.

Its twin for sweeps is csrc/expandable.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stridetool.core.memory.blocks import (
    FREE,
    SMALL_BUFFER,
    UNMAPPED,
    Block,
    BlockPool,
    Segment,
    absorb_left,
    put_before,
)
from stridetool.errors import OutOfMemoryError

if TYPE_CHECKING:
    from stridetool.core.memory.heap import Heap


def obtain(heap: Heap, pool: BlockPool, stream: int, size: int) -> Block | None:
    """A FREE block of at least `size` bytes out of every list; None when the device has no room for a page.

    Pages that were mapped before the failing one stay mapped, as in torch.
    """
    block: Block | None = _find(pool, stream, size) or _reserve(heap, pool, stream)
    assert block is not None
    if block.state == UNMAPPED:
        block = map_front(heap, block, min(block.size, size))
    while block is not None and block.size < size:
        following = block.next
        if following is None:  # a device that grew may ask for more than the range was reserved for
            return None
        block = map_front(heap, following, min(size - block.size, following.size))
    if block is not None:
        pool.take(block)
    return block


def _find(pool: BlockPool, stream: int, size: int) -> Block | None:
    """The lowest unmapped range, or the free block left of it, from which `size` bytes are free or unmapped."""
    for _, block in pool.unmapped.get(stream, ()):
        left = block.prev
        start = left if left is not None and left.state == FREE else block
        if _has_room(start, size):
            return start
    return None


def _has_room(start: Block, size: int) -> bool:
    room, block = 0, start
    while room < size:
        room += block.size
        if block.next is None or block.next.state not in (FREE, UNMAPPED):
            break
        block = block.next
    return room >= size


def _reserve(heap: Heap, pool: BlockPool, stream: int) -> Block:
    """A new range without memory, 9/8 of the device in whole pages."""
    page = SMALL_BUFFER if pool.is_small else heap.settings.large_segment_size
    total = heap.total_bytes + heap.total_bytes // 8
    nbytes = -(-total // page) * page
    address = heap.driver.reserve(nbytes)
    segment = heap.add_segment(pool, stream, address, nbytes, page=page)
    pool.put_unmapped(segment.tail)
    return segment.tail


def map_front(heap: Heap, block: Block, nbytes: int) -> Block | None:
    """Map the first `nbytes`, in whole pages, of an unmapped block: the free block that they are part of then."""
    segment = block.segment
    pool = segment.pool
    address = block.address
    mapped = -(-nbytes // segment.page) * segment.page
    if not _map_pages(heap, segment, address, mapped):
        return None
    pool.take_unmapped(block)
    if mapped < block.size:
        front = put_before(block, address, mapped, FREE)
        front.requested, block.requested = block.requested, 0
        block.address += mapped
        block.size -= mapped
        pool.put_unmapped(block)
        block = front
    block.state = FREE
    block = _merge(pool, block)
    pool.put(block)
    heap.note_reserved(segment, mapped, "segment_map", address)
    return block


def _map_pages(heap: Heap, segment: Segment, address: int, nbytes: int) -> bool:
    """All pages or none: the handles made before a failure are given back."""
    driver, page = heap.driver, segment.page
    handles: list[int] = []
    try:
        while len(handles) < nbytes // page:
            handles.append(driver.create(page))
    except OutOfMemoryError:
        for handle in handles:
            driver.release(handle)
        return False
    first = (address - segment.address) // page
    for index, handle in enumerate(handles, first):
        driver.map(segment.address + index * page, page, handle)
        segment.handles[index] = handle
    return True


def _merge(pool: BlockPool, block: Block) -> Block:
    """`block`, which stands in no list, with its neighbours of the same state; the right-hand object remains."""
    take = pool.take if block.state == FREE else pool.take_unmapped
    left, right = block.prev, block.next
    if left is not None and left.state == block.state:
        take(left)
        absorb_left(block)
    if right is not None and right.state == block.state:
        take(right)
        absorb_left(right)
        right.requested = block.requested
        return right
    return block


def unmap(heap: Heap, block: Block) -> None:
    """Unmap the whole pages inside a free block; a segment that is left without any goes back altogether."""
    segment = block.segment
    pool, page = segment.pool, segment.page
    first = -(-(block.address - segment.address) // page)
    end = (block.address + block.size - segment.address) // page
    if first >= end:
        return
    pool.take(block)
    address, nbytes = segment.address + first * page, (end - first) * page
    heap.driver.synchronize()
    for index in range(first, end):
        heap.driver.unmap(segment.address + index * page, page, segment.handles.pop(index))
    gone = _cut_out(pool, block, address, nbytes)
    gone.state = UNMAPPED
    gone = _merge(pool, gone)
    heap.note_reserved(segment, -nbytes, "segment_unmap", address)
    if gone.prev is None and gone.next is None:
        _unreserve(heap, segment)
    else:
        pool.put_unmapped(gone)


def _unreserve(heap: Heap, segment: Segment) -> None:
    heap.driver.unreserve(segment.address, segment.size)
    heap.drop_segment(segment)


def drop_unmapped(heap: Heap, pool: BlockPool) -> None:
    """Give back ranges in which no page could ever be mapped; a pool that ends has no other use for them."""
    for ranges in pool.unmapped.values():
        for _, block in ranges:
            if block.prev is None and block.next is None:
                _unreserve(heap, block.segment)
    pool.unmapped.clear()


def _cut_out(pool: BlockPool, block: Block, address: int, nbytes: int) -> Block:
    """The block of just this range; what lies before and behind it in `block` becomes free blocks of its own."""
    behind = block.address + block.size - address - nbytes
    before = address - block.address
    if behind:
        middle = put_before(block, block.address, before + nbytes, FREE)
        middle.requested, block.requested = block.requested, 0
        block.address, block.size = address + nbytes, behind
        pool.put(block)
        block = middle
    if before:
        pool.put(put_before(block, block.address, before, FREE))
        block.address, block.size = address, nbytes
    return block

"""New memory, and what is given back for it: torch's order of attempts when no cached block fits."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from stridetool.core.memory import expandable, private, streams
from stridetool.core.memory.blocks import FREE, Block, BlockPool, Key, PrivatePool
from stridetool.core.memory.messages import more_than_an_exbibyte, out_of_memory, rejected
from stridetool.core.memory.rounding import segment_size
from stridetool.core.memory.settings import SIZE_MAX
from stridetool.errors import OutOfMemoryError

if TYPE_CHECKING:
    from stridetool.core.memory.caching import CachingAllocator


def grow(allocator: CachingAllocator, pool: BlockPool, stream: int, size: int) -> Block:
    """A FREE block of at least `size` bytes that stands in no list. Raises OutOfMemoryError with torch's text."""
    if size >= 1 << 60:
        raise more_than_an_exbibyte()
    if allocator.allowed is not None and allocator.settings.garbage_collection_threshold > 0.0:
        collect_garbage(allocator)
    block = _obtain(allocator, pool, stream, size)
    if block is None:
        block = private.fall_back(allocator, pool, stream, size)
    if block is None and _release_available(allocator, pool, stream, size):
        block = _search_again(allocator, pool, stream, size) or _obtain(allocator, pool, stream, size)
    if block is None:
        release_cached(allocator)
        block = _search_again(allocator, pool, stream, size)
    if block is None:
        allocator.statistics.num_alloc_retries += 1
        block = _obtain(allocator, pool, stream, size)
    if block is None:
        raise _give_up(allocator, pool, stream, size)
    return block


def _give_up(allocator: CachingAllocator, pool: BlockPool, stream: int, size: int) -> OutOfMemoryError:
    allocator.statistics.num_ooms += 1
    allocator.note_failure(pool, stream, size)
    return out_of_memory(allocator, segment_size(size, allocator.settings.large_segment_size))


def _search_again(allocator: CachingAllocator, pool: BlockPool, stream: int, size: int) -> Block | None:
    """The repair of pytorch#189504: what was released may have merged or unlocked a block that fits."""
    return take_free(allocator, pool, stream, size) if allocator.repaired else None


def take_free(allocator: CachingAllocator, pool: BlockPool, stream: int, size: int) -> Block | None:
    """The best free block of the pool, taken out of it."""
    free = pool.free_of(stream)
    index = allocator.choose(free, bisect_left(free, (size,)), size)
    return None if index == len(free) else free.pop(index)[3]


def _obtain(allocator: CachingAllocator, pool: BlockPool, stream: int, size: int) -> Block | None:
    """A block from the driver; None when the limit or the device forbids it."""
    nbytes = segment_size(size, allocator.settings.large_segment_size)
    settings = allocator.settings
    limit = allocator.allowed
    if limit is None and settings.throw_on_cudamalloc_oom:
        limit = allocator.total_bytes
    if limit is not None and allocator.reserved_bytes + nbytes > limit:
        if settings.throw_on_cudamalloc_oom:
            allocator.statistics.num_oom_rejections += 1
            raise rejected(nbytes)
        return None
    if settings.expandable_segments:
        return expandable.obtain(allocator, pool, stream, size)
    try:
        address = allocator.driver.malloc(nbytes)
    except OutOfMemoryError:
        return None
    return _new_segment(allocator, pool, stream, address, nbytes)


def _new_segment(allocator: CachingAllocator, pool: BlockPool, stream: int, address: int, nbytes: int) -> Block:
    segment = allocator.add_segment(pool, stream, address, nbytes, page=0)
    statistics = allocator.statistics
    statistics.segment.up(pool.is_small, 1)
    if nbytes >= allocator.max_split:
        statistics.oversize_segments.up(1)
    allocator.note_reserved(segment, nbytes, "segment_alloc", address)
    segment.tail.state = FREE
    return segment.tail


def release_segment(allocator: CachingAllocator, block: Block) -> None:
    """cudaFree of the segment that `block`, a free one, is the whole of."""
    segment = block.segment
    segment.pool.take(block)
    allocator.driver.free(segment.address)
    allocator.drop_segment(segment)
    allocator.statistics.segment.down(segment.pool.is_small, 1)
    if block.size >= allocator.max_split:
        allocator.statistics.oversize_segments.down(1)
    allocator.note_reserved(segment, -block.size, "segment_free", segment.address)


def _whole(block: Block) -> bool:
    return block.prev is None and block.next is None


def release_pool(allocator: CachingAllocator, pool: BlockPool) -> None:
    """Every whole segment and every free page of `pool` goes back."""
    blocks = pool.free_blocks()
    for block in blocks:
        if block.segment.page == 0 and _whole(block):
            release_segment(allocator, block)
    for block in blocks:
        if block.segment.page:
            expandable.unmap(allocator, block)


def release_cached(allocator: CachingAllocator) -> None:
    """What empty_cache and the last attempt of an allocation do: wait for all streams, then release all pools."""
    streams.synchronize(allocator)
    release_pool(allocator, allocator.large)
    release_pool(allocator, allocator.small)
    for owner in list(allocator.private.values()):
        if owner.use_count == 0:
            _release_owner(allocator, owner)


def release_private(allocator: CachingAllocator, owner: PrivatePool) -> None:
    """empty_cache for one pool that nobody uses."""
    streams.synchronize(allocator, owner)
    _release_owner(allocator, owner)


def _release_owner(allocator: CachingAllocator, owner: PrivatePool) -> None:
    release_pool(allocator, owner.small)
    release_pool(allocator, owner.large)
    if owner.segments == 0:
        del allocator.private[owner.identity]


def _release_available(allocator: CachingAllocator, pool: BlockPool, stream: int, size: int) -> bool:
    """With a max_split_size: release one block that is large enough, or the largest oversize ones of the stream."""
    limit = allocator.max_split
    if limit == SIZE_MAX:
        return False
    need = max(size, limit)
    free = pool.free_of(stream)
    index = bisect_left(free, (need,))
    if index < len(free) and not free[index][3].segment.page:
        release_segment(allocator, free[index][3])
        return True
    return _release_largest(allocator, free[:index], need) >= need


def _release_largest(allocator: CachingAllocator, free: list[Key], need: int) -> int:
    """Release oversize blocks from the largest down until `need` bytes are reached; the bytes released."""
    released = 0
    for size, _, _, block in reversed(free):
        if released >= need or size < allocator.max_split:
            break
        if not block.segment.page:
            release_segment(allocator, block)
            released += size
    return released


def collect_garbage(allocator: CachingAllocator) -> None:
    """Release whole blocks of the large default pool that are of average age or older, until below the threshold.

    Age is the number of searches of the pool since the block became free.
    """
    assert allocator.allowed is not None
    excess = allocator.reserved_bytes - int(allocator.settings.garbage_collection_threshold * allocator.allowed)
    if excess <= 0:
        return
    searches = allocator.large.searches
    idle = [block for block in allocator.large.free_blocks() if _whole(block)]
    total_age = sum(searches - block.idle_since for block in idle)
    while excess > 0 and idle:
        average = total_age / len(idle)
        old = [b for b in idle if not b.segment.page and searches - b.idle_since >= average]
        if not old:
            return
        for block in old:
            excess -= block.size
            total_age -= searches - block.idle_since
            release_segment(allocator, block)
        gone = set(old)
        idle = [block for block in idle if block not in gone]

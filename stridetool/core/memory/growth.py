"""New memory, and what is given back for it: torch's order of attempts when no cached block fits.

Its twin for sweeps is csrc/growth.h.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from stridetool.core.memory import expandable, private, streams
from stridetool.core.memory.blocks import FREE, Block, BlockPool, Key, PrivatePool
from stridetool.core.memory.messages import out_of_memory, rejected
from stridetool.core.memory.rounding import segment_size
from stridetool.core.memory.settings import SIZE_MAX
from stridetool.errors import OutOfMemoryError

if TYPE_CHECKING:
    from stridetool.core.memory.heap import Heap


def grow(heap: Heap, pool: BlockPool, stream: int, size: int) -> Block:
    """A FREE block of at least `size` bytes that stands in no list. Raises OutOfMemoryError with torch's text."""
    if heap.allowed is not None and heap.settings.garbage_collection_threshold > 0.0:
        collect_garbage(heap)
    block = _obtain(heap, pool, stream, size)
    if block is None:
        block = private.fall_back(heap, pool, stream, size)
    if block is None and _release_available(heap, pool, stream, size):
        block = _search_again(heap, pool, stream, size) or _obtain(heap, pool, stream, size)
    if block is None:
        release_cached(heap)
        block = _search_again(heap, pool, stream, size)
    if block is None:
        heap.statistics.num_alloc_retries += 1
        block = _obtain(heap, pool, stream, size)
    if block is None:
        raise _give_up(heap, pool, stream, size)
    return block


def _give_up(heap: Heap, pool: BlockPool, stream: int, size: int) -> OutOfMemoryError:
    heap.statistics.num_ooms += 1
    heap.note_failure(pool, stream, size)
    return out_of_memory(heap, segment_size(size, heap.settings.large_segment_size))


def _search_again(heap: Heap, pool: BlockPool, stream: int, size: int) -> Block | None:
    """The repair of pytorch#189504: what was released may have merged or unlocked a block that fits."""
    return take_free(heap, pool, stream, size) if heap.repaired else None


def take_free(heap: Heap, pool: BlockPool, stream: int, size: int) -> Block | None:
    """The best free block of the pool, taken out of it."""
    free = pool.free_of(stream)
    index = heap.choose(free, bisect_left(free, (size,)), size)
    return None if index == len(free) else free.pop(index)[3]


def _obtain(heap: Heap, pool: BlockPool, stream: int, size: int) -> Block | None:
    """A block from the driver; None when the limit or the device forbids it."""
    nbytes = segment_size(size, heap.settings.large_segment_size)
    settings = heap.settings
    limit = heap.allowed
    if limit is None and settings.throw_on_cudamalloc_oom:
        limit = heap.total_bytes
    if limit is not None and heap.statistics.reserved.all.current + nbytes > limit:
        if settings.throw_on_cudamalloc_oom:
            heap.statistics.num_oom_rejections += 1
            raise rejected(nbytes)
        return None
    if settings.expandable_segments:
        return expandable.obtain(heap, pool, stream, size)
    try:
        address = heap.driver.malloc(nbytes)
    except OutOfMemoryError:
        return None
    return new_segment(heap, pool, stream, address, nbytes)


def new_segment(heap: Heap, pool: BlockPool, stream: int, address: int, nbytes: int) -> Block:
    segment = heap.add_segment(pool, stream, address, nbytes, page=0)
    statistics = heap.statistics
    statistics.segment.up(pool.is_small, 1)
    if nbytes >= heap.max_split:
        statistics.oversize_segments.up(1)
    heap.note_reserved(segment, nbytes, "segment_alloc", address)
    segment.tail.state = FREE
    return segment.tail


def release_segment(heap: Heap, block: Block) -> None:
    """cudaFree of the segment that `block`, a free one, is the whole of."""
    segment = block.segment
    segment.pool.take(block)
    heap.driver.free(segment.address)
    heap.drop_segment(segment)
    heap.statistics.segment.down(segment.pool.is_small, 1)
    if block.size >= heap.max_split:
        heap.statistics.oversize_segments.down(1)
    heap.note_reserved(segment, -block.size, "segment_free", segment.address)


def _whole(block: Block) -> bool:
    return block.prev is None and block.next is None


def _is_releasable(block: Block) -> bool:
    return block.segment.page == 0 and _whole(block)


def release_pool(heap: Heap, pool: BlockPool) -> None:
    """Every whole segment and every free page of `pool` goes back."""
    if not pool.may_release:
        return
    blocks = pool.free_blocks()
    for block in blocks:
        if _is_releasable(block):
            release_segment(heap, block)
    for block in blocks:
        if block.segment.page:
            expandable.unmap(heap, block)
    pool.released_at = pool.tally.returned


def release_cached(heap: Heap) -> None:
    """What empty_cache and the last attempt of an allocation do: wait for all streams, then release all pools."""
    streams.synchronize(heap)
    release_pool(heap, heap.large)
    release_pool(heap, heap.small)
    for owner in list(heap.private.values()):
        if owner.use_count == 0:
            _release_owner(heap, owner)


def release_private(heap: Heap, owner: PrivatePool) -> None:
    """empty_cache for one pool that nobody uses."""
    streams.synchronize(heap, owner)
    _release_owner(heap, owner)


def _release_owner(heap: Heap, owner: PrivatePool) -> None:
    release_pool(heap, owner.small)
    release_pool(heap, owner.large)
    if owner.segments == owner.empty_segments():
        for pool in (owner.small, owner.large):
            expandable.drop_unmapped(heap, pool)
        del heap.private[owner.identity]


def _release_available(heap: Heap, pool: BlockPool, stream: int, size: int) -> bool:
    """With a max_split_size: release one block that is large enough, or the largest oversize ones of the stream.

    Torch takes for granted that these are whole; a segment that is in use elsewhere stays here.
    """
    limit = heap.max_split
    if limit == SIZE_MAX:
        return False
    need = max(size, limit)
    free = pool.free_of(stream)
    index = bisect_left(free, (need,))
    if index < len(free) and _is_releasable(free[index][3]):
        release_segment(heap, free[index][3])
        return True
    return _release_largest(heap, free[:index], need) >= need


def _release_largest(heap: Heap, free: list[Key], need: int) -> int:
    """Release oversize blocks from the largest down until `need` bytes are reached; the bytes released."""
    released = 0
    for size, _, _, block in reversed(free):
        if released >= need or size < heap.max_split:
            break
        if _is_releasable(block):
            release_segment(heap, block)
            released += size
    return released


def collect_garbage(heap: Heap) -> None:
    """Release whole blocks of the large default pool that are of average age or older, until below the threshold.

    Age is the number of searches of the pool since the block became free.
    """
    assert heap.allowed is not None
    excess = heap.statistics.reserved.all.current - int(heap.settings.garbage_collection_threshold * heap.allowed)
    if excess <= 0 or not heap.large.may_release:
        return
    searches = heap.large.searches
    idle = [block for block in heap.large.free_blocks() if _whole(block)]
    total_age = sum(searches - block.idle_since for block in idle)
    while excess > 0 and idle:
        average = total_age / len(idle)
        old = [b for b in idle if not b.segment.page and searches - b.idle_since >= average]
        if not old:
            return
        for block in old:
            excess -= block.size
            total_age -= searches - block.idle_since
            release_segment(heap, block)
        gone = set(old)
        idle = [block for block in idle if block not in gone]

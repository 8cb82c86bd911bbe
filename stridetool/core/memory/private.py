"""Private pools: what torch.cuda.MemPool and graph captures allocate from.

A pool is in use from its creation to its destruction, and once more from each begin to its end. Only a pool that
nobody uses gives memory back; a live one keeps its free blocks even when a request in it fails, as in torch.

Its twin for sweeps is csrc/private.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stridetool.core.memory import growth
from stridetool.core.memory.blocks import NEVER, Block, BlockPool, PrivatePool
from stridetool.errors import InputError

if TYPE_CHECKING:
    from stridetool.core.memory.heap import Heap

NAMED = 1 << 32  # the first id of a pool with a name, beyond the numbers that torch gives


def given_identity(pool: object) -> tuple[int, int] | None:
    """The pair of ids that a pair or a number stands for; None for any other name."""
    if isinstance(pool, (tuple, list)) and len(pool) == 2:
        return int(pool[0]), int(pool[1])
    return (0, pool) if isinstance(pool, int) else None


def identity_of(heap: Heap, pool: object) -> tuple[int, int]:
    """Torch's pair of ids: (0, n) for a pool of a user, (n, 0) for one of a graph capture.

    A pair or a number stands for itself; other names are (NAMED, n) in the order of their creation.
    """
    return given_identity(pool) or (NAMED, heap.pool_names.setdefault(pool, len(heap.pool_names)))


def create(heap: Heap, pool: object, *, use_on_oom: bool, no_split: bool) -> None:
    """A pool in use, or one more user of it."""
    identity = identity_of(heap, pool)
    if identity not in heap.private:
        statistics = heap.statistics
        rests = (NEVER, NEVER) if no_split else heap.rests
        heap.private[identity] = PrivatePool(identity, (statistics.small, statistics.large), rests)
    heap.private[identity].use_count += 1
    heap.private[identity].use_on_oom |= use_on_oom


def _existing(heap: Heap, pool: object) -> PrivatePool:
    identity = identity_of(heap, pool)
    if identity not in heap.private:
        raise InputError(f"memory pool {pool!r} does not exist", hint="create it first, and destroy it once")
    return heap.private[identity]


def begin(heap: Heap, pool: object) -> None:
    """Allocations come from this pool until its end; the last one begun is the one."""
    private = _existing(heap, pool)
    private.use_count += 1
    heap.active_pools.append(private)


def end(heap: Heap, pool: object) -> None:
    """Raises InputError when it was not begun."""
    private = _existing(heap, pool)
    for position in range(len(heap.active_pools) - 1, -1, -1):
        if heap.active_pools[position] is private:
            del heap.active_pools[position]
            private.use_count -= 1
            return
    raise InputError(f"memory pool {pool!r} ends without having begun")


def destroy(heap: Heap, pool: object) -> None:
    """One user less; then, as ~MemPool does, the cache of this pool is emptied."""
    private = _existing(heap, pool)
    if private.use_count == 0:
        raise InputError(f"memory pool {pool!r} is destroyed twice")
    private.use_count -= 1
    if private.use_count == 0:
        growth.release_private(heap, private)


def fall_back(heap: Heap, pool: BlockPool, stream: int, size: int) -> Block | None:
    """A free block of a pool that was made to help out (`use_on_oom`); never for a request in a private pool."""
    if pool.owner is not None:
        return None
    for private in heap.private.values():
        if private.use_on_oom:
            block = growth.take_free(heap, private.small if pool.is_small else private.large, stream, size)
            if block is not None:
                return block
    return None

"""What the caching allocator is made of: blocks in a chain, segments, and the pools that keep free blocks in order.

Free blocks stand in sorted lists, one for each pool and stream, as keys `(size, counter, address, block)`: the
first key that is not below `(size,)` is the best fit. `counter` numbers the segments (torch 2.13 and later; it
is 0 for all under the older rule, which goes by address).
"""

from __future__ import annotations

from bisect import bisect_left, insort

from stridetool.core.memory.stats import Tally

# States of a block. Neighbours merge when both are FREE or both are UNMAPPED.
FREE, ALLOCATED, PENDING, UNMAPPED = 0, 1, 2, 3

MIN_BLOCK = 512  # bytes, kMinBlockSize
SMALL_SIZE = 1 << 20  # bytes, kSmallSize: the largest block of a small pool
SMALL_BUFFER = 2 << 20  # bytes, kSmallBuffer: a small segment, and a page of a small expandable one
MIN_LARGE_ALLOC = 10 << 20  # bytes, kMinLargeAlloc: from here on a segment is as large as its block
ROUND_LARGE = 2 << 20  # bytes, kRoundLarge
NEVER = 1 << 70  # a rest that no block has

Key = tuple[int, int, int, "Block"]


class Block:
    """A range of a segment. `requested` is what was asked for, and stale while the block is free."""

    __slots__ = ("address", "idle_since", "next", "prev", "requested", "segment", "size", "state")

    def __init__(
        self, address: int, size: int, state: int, segment: Segment, prev: Block | None, following: Block | None
    ) -> None:
        self.address = address
        self.size = size
        self.state = state
        self.segment = segment
        self.prev = prev
        self.next = following
        self.requested = 0
        self.idle_since = 0  # the pool's count of searches when the block became free


class Segment:
    """Memory that came from the driver in one piece, or a reserved range whose pages come and go.

    `tail` is its last block: merging keeps the right-hand block, so it stays the same object.
    `free` is the list of its pool and stream. `page` is 0 for a segment that is not expandable.
    """

    __slots__ = (
        "address",
        "counter",
        "free",
        "handles",
        "page",
        "pool",
        "size",
        "stream",
        "tail",
        "tally",
    )

    def __init__(self, pool: BlockPool, stream: int, address: int, size: int, counter: int, page: int) -> None:
        self.pool = pool
        self.stream = stream
        self.address = address
        self.size = size
        self.counter = counter
        self.page = page
        self.free = pool.free_of(stream)
        self.tally = pool.tally
        self.handles: dict[int, int] = {}  # page index → handle of the driver
        self.tail = Block(address, size, UNMAPPED if page else ALLOCATED, self, None, None)

    def blocks(self) -> list[Block]:
        """All blocks by address."""
        chain: list[Block] = []
        block: Block | None = self.tail
        while block is not None:
            chain.append(block)
            block = block.prev
        chain.reverse()
        return chain


class BlockPool:
    """Small or large blocks of the default pool or of a private one.

    A block is split when at least `min_rest` bytes remain; `searches` ages the blocks for garbage collection.
    `released_at` is how many blocks had come back when all that could was last given back to the device.
    """

    __slots__ = ("free", "is_small", "min_rest", "owner", "released_at", "searches", "tally", "unmapped")

    def __init__(self, is_small: bool, tally: Tally, min_rest: int, owner: PrivatePool | None = None) -> None:
        self.is_small = is_small
        self.tally = tally
        self.min_rest = min_rest
        self.owner = owner
        self.searches = 0
        self.released_at = -1
        self.free: dict[int, list[Key]] = {}
        self.unmapped: dict[int, list[tuple[int, Block]]] = {}

    @property
    def identity(self) -> tuple[int, int]:
        """Torch's pair of ids; (0, 0) for the default pool."""
        return (0, 0) if self.owner is None else self.owner.identity

    def free_of(self, stream: int) -> list[Key]:
        """The free blocks of `stream`, smallest first."""
        return self.free.setdefault(stream, [])

    @property
    def may_release(self) -> bool:
        """Whether a block became free since all that could be given back was: those that remain are in use in part."""
        return self.released_at != self.tally.returned

    def put(self, block: Block) -> None:
        """Make a FREE block findable."""
        self.released_at = -1
        block.idle_since = self.searches
        segment = block.segment
        insort(segment.free, (block.size, segment.counter, block.address, block))

    def take(self, block: Block) -> None:
        """Make it unfindable again; its size and address must be those of `put`."""
        segment = block.segment
        del segment.free[bisect_left(segment.free, (block.size, segment.counter, block.address))]

    def put_unmapped(self, block: Block) -> None:
        """Remember address space without memory."""
        insort(self.unmapped.setdefault(block.segment.stream, []), (block.address, block))

    def take_unmapped(self, block: Block) -> None:
        """Forget it."""
        ranges = self.unmapped[block.segment.stream]
        del ranges[bisect_left(ranges, (block.address,))]

    def free_blocks(self) -> list[Block]:
        """Every free block in torch's order: stream (unsigned), size, counter, address."""
        return [key[3] for stream in sorted(self.free) for key in self.free[stream]]


class PrivatePool:
    """What a MemPool or a graph capture allocates from; its memory goes back only when nobody uses it."""

    __slots__ = ("identity", "large", "segments", "small", "use_count", "use_on_oom")

    def __init__(self, identity: tuple[int, int], tallies: tuple[Tally, Tally], rests: tuple[int, int]) -> None:
        self.identity = identity
        self.use_count = 0
        self.segments = 0  # cudaMalloc_count: pieces of memory that are still held
        self.use_on_oom = False
        self.small = BlockPool(True, tallies[0], rests[0], self)
        self.large = BlockPool(False, tallies[1], rests[1], self)

    def empty_segments(self) -> int:
        """Reserved ranges in which nothing is mapped."""
        return sum(
            block.prev is None and block.next is None
            for pool in (self.small, self.large)
            for ranges in pool.unmapped.values()
            for _, block in ranges
        )


def absorb_left(block: Block) -> None:
    """`block` swallows its left neighbour, which must be out of every list."""
    left = block.prev
    assert left is not None
    block.address = left.address
    block.size += left.size
    block.prev = left.prev
    if left.prev is not None:
        left.prev.next = block


def put_before(block: Block, address: int, size: int, state: int) -> Block:
    """A new block of `size` bytes between `block` and its left neighbour."""
    new = Block(address, size, state, block.segment, block.prev, block)
    if block.prev is not None:
        block.prev.next = new
    block.prev = new
    return new

"""What the page and the trace viewer need beyond the report: a history entry by entry, and other settings' courses.

These are no part of the JSON. Columns are arrays, so that a million entries stay small.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import msgspec

ACTIONS = (
    "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom",
    "other",
)  # fmt: skip
ALLOC, FREE_REQUESTED, FREE_COMPLETED, SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP, OOM, OTHER = range(9)


class Kind(msgspec.Struct, frozen=True):
    """Allocations that have this in common: bytes asked for and given, stream, and where (an index of `sites`)."""

    requested: int
    size: int
    stream: int
    site: int


class FilmSegment(msgspec.Struct, frozen=True):
    """Memory that the device had given before the first entry."""

    address: int
    size: int
    stream: int
    is_small: bool
    is_expandable: bool


class FilmBlock(msgspec.Struct, frozen=True):
    """A block that was live before the first entry; `kind` is an index of `kinds`."""

    address: int
    kind: int
    is_pending: bool


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """How one replay went, in up to a thousand points over the events of the trace."""

    label: str
    events: int
    index: tuple[int, ...]
    allocated_bytes: tuple[int, ...]
    reserved_bytes: tuple[int, ...]
    ooms: tuple[int, ...] = ()


class Film(msgspec.Struct, frozen=True, kw_only=True):
    """A history entry by entry.

    Per entry: `actions` (an index of ACTIONS), `addresses`, `sizes` (of a segment, or what failed), and `kinds` (an
    index of `kind_table` for an allocation, else -1). `retries` are the entries (allocations and failures) of requests
    for which the cache was emptied; none where that is not known. `times_us` is empty where no clock was recorded.
    """

    name: str
    capacity_bytes: int | None
    sites: tuple[str, ...]
    kind_table: tuple[Kind, ...]
    segments: tuple[FilmSegment, ...]
    blocks: tuple[FilmBlock, ...]
    actions: bytes
    addresses: array[int]
    sizes: array[int]
    streams: array[int]
    kinds: array[int]
    times_us: array[int]
    retries: tuple[int, ...]

    def addresses_in_use(self) -> Iterator[int]:
        """Addresses of memory: of blocks and segments, but not what an `oom` entry holds in their place."""
        yield from (block.address for block in self.blocks)
        yield from (at for at, action in zip(self.addresses, self.actions, strict=True) if action < OOM)

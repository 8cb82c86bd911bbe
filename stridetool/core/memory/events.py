"""One event of an allocation trace, in the words of the trace format: what readers make and a replay takes."""

from __future__ import annotations

from typing import Any, NamedTuple


class Event(NamedTuple):
    """`op` is `alloc`, `free`, `record_stream`, `empty_cache`, `event_complete`, `sync`, `set_capacity`,
    `set_fraction`, `reset_peak`, `pool_create`, `pool_begin`, `pool_end` or `pool_destroy`.

    `id` names the allocation, or the pool. `nbytes` is the size of an `alloc` or the new capacity. `stream` None
    is every stream (`event_complete`). `fraction` belongs to `set_fraction`.
    """

    op: str
    id: Any = None
    nbytes: int = 0
    stream: int | None = 0
    fraction: float = 1.0

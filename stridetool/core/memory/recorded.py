"""What a recording of a real allocator holds: memory at one moment, and what happened before it.

Readers make these values and the analysis takes them. Stack frames stay the lists that the file shares between
its entries, and are never copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

PoolId = tuple[int, int]
DEFAULT_POOL: PoolId = (0, 0)
Frames = Sequence[Mapping[str, Any]]  # {name, filename, line}, innermost first

MAX_BYTES = 1 << 50  # that a recording may hold: a pebibyte, more than any machine has

ALLOCATED, PENDING, INACTIVE = "active_allocated", "active_pending_free", "inactive"


def frame_text(frame: object, key: str) -> str:
    """A field of a stack frame; "?" where it is no text and no number, as a file may hold anything there."""
    value = frame.get(key) if isinstance(frame, Mapping) else None
    return value if type(value) is str else str(value) if type(value) is int else "?"


class HeldBlock(NamedTuple):
    """A range of a segment. `requested` is 0 for an inactive block, whose recorded value is stale."""

    address: int
    size: int
    requested: int
    state: str
    frames: Frames = ()


class HeldSegment(NamedTuple):
    """Memory that came from the device: one piece, or a contiguous mapped range of an expandable segment."""

    address: int
    size: int
    stream: int
    is_small: bool
    pool_id: PoolId
    is_expandable: bool
    blocks: tuple[HeldBlock, ...]
    frames: Frames = ()


class Range(NamedTuple):
    """Memory that is held: one piece of cudaMalloc, or a contiguous mapped range."""

    address: int
    size: int
    stream: int
    is_small: bool
    pool_id: PoolId
    is_expandable: bool


class Kind(NamedTuple):
    """What memory is for: free memory of one kind serves no request of another."""

    pool_id: PoolId
    is_small: bool
    stream: int


class History(NamedTuple):
    """The recorded entries, oldest first, as columns. `addresses` holds the device's free bytes for `oom`.

    `pool_ids` holds None where the recording is too old to say.
    """

    actions: list[str]
    addresses: list[int]
    sizes: list[int]
    streams: list[int]
    pool_ids: list[PoolId | None]
    times_us: list[int]
    frames: list[Frames]

    def __len__(self) -> int:
        return len(self.actions)

    def first(self, count: int) -> History:
        """The first `count` entries."""
        return History(
            self.actions[:count],
            self.addresses[:count],
            self.sizes[:count],
            self.streams[:count],
            self.pool_ids[:count],
            self.times_us[:count],
            self.frames[:count],
        )


class DeviceRecording(NamedTuple):
    """One device of one process."""

    device: int
    segments: tuple[HeldSegment, ...]
    history: History


class Remark(NamedTuple):
    """Something about a recording that its reader should know; `where` names the field or the entry."""

    code: str
    message: str
    where: str | None = None


class Recording(NamedTuple):
    """One file. `settings` are the recorded `allocator_settings` (none in old files); `age` names the releases of
    torch that write such files; `steps` are (time in µs, name) of annotations that began."""

    devices: tuple[DeviceRecording, ...]
    settings: Mapping[str, Any]
    age: str
    steps: tuple[tuple[int, str], ...] = ()
    pinned: tuple[HeldSegment, ...] = ()
    remarks: tuple[Remark, ...] = ()


def no_history() -> History:
    """A history without entries."""
    return History([], [], [], [], [], [], [])

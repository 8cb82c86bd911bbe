"""How large a block and a segment become: torch's round_size and get_allocation_size."""

from __future__ import annotations

from stridetool.core.memory.blocks import (
    MIN_BLOCK,
    MIN_LARGE_ALLOC,
    ROUND_LARGE,
    SMALL_BUFFER,
    SMALL_SIZE,
)


def round_size(nbytes: int, divisions: tuple[int, ...]) -> int:
    """The block size for `nbytes` (> 0) under `roundup_power2_divisions`, one entry per power of two of a MiB."""
    if nbytes < MIN_BLOCK:
        return MIN_BLOCK
    pieces = divisions[min(max(nbytes.bit_length() - 21, 0), len(divisions) - 1)]
    if pieces > 1 and nbytes > MIN_BLOCK * pieces:
        floor = 1 << (nbytes.bit_length() - 1)
        if nbytes == floor:
            return nbytes
        step = floor // pieces
        return -(-nbytes // step) * step if step else floor << 1
    return -(-nbytes // MIN_BLOCK) * MIN_BLOCK


def block_size(nbytes: int, divisions: tuple[int, ...] | None) -> int:
    """The block size for `nbytes` (0 counts as 1); `divisions` None: whole steps of 512 bytes, torch's default."""
    needed = max(nbytes, 1)
    return round_size(needed, divisions) if divisions else -(-needed // MIN_BLOCK) * MIN_BLOCK


def segment_size(size: int, large_segment_size: int) -> int:
    """The bytes to ask the driver for, given a block size."""
    if size <= SMALL_SIZE:
        return SMALL_BUFFER
    if size < MIN_LARGE_ALLOC:
        return large_segment_size
    return -(-size // ROUND_LARGE) * ROUND_LARGE

"""The memory that an allocator holds, as the values that recordings of real allocators are made of, and as rows."""

from __future__ import annotations

from collections.abc import Iterable

from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.recorded import ALLOCATED, INACTIVE, HeldBlock, HeldSegment
from stridetool.core.memory.snapshot import segments as snapshot_segments
from stridetool.report.alloc import BlockRow, SegmentRow


def held_segments(allocator: CachingAllocator) -> tuple[HeldSegment, ...]:
    """The segments of an allocator of ours, by address."""
    return tuple(
        HeldSegment(
            row["address"],
            row["total_size"],
            row["stream"],
            row["segment_type"] == "small",
            row["segment_pool_id"],
            row["is_expandable"],
            tuple(
                HeldBlock(b["address"], b["size"], 0 if b["state"] == INACTIVE else b["requested_size"], b["state"])
                for b in row["blocks"]
            ),
        )
        for row in snapshot_segments(allocator)
    )


def segment_rows(segments: Iterable[HeldSegment]) -> tuple[SegmentRow, ...]:
    """The same as rows of the report."""
    return tuple(
        SegmentRow(
            address=hex(segment.address),
            total_size=segment.size,
            stream=segment.stream,
            segment_type="small" if segment.is_small else "large",
            pool_id=segment.pool_id,
            is_expandable=segment.is_expandable,
            blocks=tuple(BlockRow(hex(b.address), b.size, b.requested, b.state) for b in segment.blocks),
        )
        for segment in segments
    )


def stats_of(segments: Iterable[HeldSegment]) -> dict[str, int]:
    """What `memory_stats()` would say now, of the counters that the segments alone decide."""
    stats: dict[str, int] = {}

    def count(name: str, segment: HeldSegment, amount: int) -> None:
        for kind in ("all", "small_pool" if segment.is_small else "large_pool"):
            key = f"{name}.{kind}.current"
            stats[key] = stats.get(key, 0) + amount

    for name in ("active", "active_bytes", "allocated_bytes", "allocation", "inactive_split", "inactive_split_bytes",
                 "requested_bytes", "reserved_bytes", "segment"):  # fmt: skip
        for kind in ("all", "large_pool", "small_pool"):
            stats[f"{name}.{kind}.current"] = 0
    for segment in segments:
        count("reserved_bytes", segment, segment.size)
        if not segment.is_expandable:
            count("segment", segment, 1)
        for block in segment.blocks:
            if block.state == ALLOCATED:
                count("allocated_bytes", segment, block.size)
                count("allocation", segment, 1)
            if block.state != INACTIVE:
                count("active_bytes", segment, block.size)
                count("active", segment, 1)
                count("requested_bytes", segment, block.requested)
            elif len(segment.blocks) > 1 and not segment.is_expandable:
                count("inactive_split_bytes", segment, block.size)
                count("inactive_split", segment, 1)
    return stats

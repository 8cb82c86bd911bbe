"""Which bytes of a storage a tensor reaches: as intervals, with work bounded by their number, never by the elements."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from math import prod

from stridetool.core.layout import Layout

Interval = tuple[int, int]  # [first byte, one past the last)

MAX_INTERVALS = 100_000


def byte_intervals(layout: Layout, unit: int, itemsize: int, limit: int = MAX_INTERVALS) -> list[Interval] | None:
    """The bytes that `layout` reaches, sorted and disjoint; None when that takes more than `limit` intervals.

    `unit` is the bytes of one step of a stride (the item size, unless strides are no whole elements).
    """
    if layout.numel == 0:
        return []
    start, block, loops = _blocks(layout, unit, itemsize)
    if prod(size for size, _ in loops) > limit:
        return None
    return union((first, first + block) for first in _starts(start, loops))


def repeated_intervals(layout: Layout, unit: int, itemsize: int, limit: int = MAX_INTERVALS) -> list[Interval] | None:
    """The bytes that more than one index of `layout` reaches, sorted and disjoint; None as in `byte_intervals`.

    Blocks of one length, sorted by their start: whatever two of them share, two neighbours share.
    """
    if any(n > 1 and s == 0 for n, s in zip(layout.sizes, layout.strides, strict=True)):
        return byte_intervals(layout, unit, itemsize, limit)
    if layout.has_internal_overlap() is False:
        return []
    start, block, loops = _blocks(layout, unit, itemsize, touching=False)
    if prod(size for size, _ in loops) > limit:
        return None
    starts = sorted(_starts(start, loops))
    return union((second, first + block) for first, second in itertools.pairwise(starts) if second < first + block)


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Sorted, disjoint intervals that cover the same bytes; neighbours that touch become one."""
    merged: list[Interval] = []
    for first, end in sorted(intervals):
        if merged and first <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        elif end > first:
            merged.append((first, end))
    return merged


def total(intervals: Iterable[Interval]) -> int:
    """The bytes in disjoint intervals."""
    return sum(end - first for first, end in intervals)


def reached_bytes(parts: Sequence[list[Interval] | None]) -> int | None:
    """Bytes that any of `parts` reaches, each counted once; None when one of them is not decided."""
    if any(part is None for part in parts):
        return None
    return total(union(itertools.chain.from_iterable(part for part in parts if part)))


def _starts(start: int, loops: Sequence[tuple[int, int]]) -> Iterator[int]:
    """The first byte of each block."""
    steps = [range(0, size * stride, stride) for size, stride in loops]
    return (start + sum(offsets) for offsets in itertools.product(*steps))


def _blocks(
    layout: Layout, unit: int, itemsize: int, *, touching: bool = True
) -> tuple[int, int, list[tuple[int, int]]]:
    """(first byte, bytes of one solid block, [(count, byte stride)] of the loops over it), outermost first.

    With `touching`, a block also swallows steps that fall back into it; without, only such as end where it ends.
    """
    start, block = layout.offset * unit, itemsize
    loops: list[tuple[int, int]] = []
    dims = [(abs(s) * unit, n, s < 0) for n, s in zip(layout.sizes, layout.strides, strict=True) if n > 1 and s]
    for stride, size, backwards in sorted(dims):
        if backwards:
            start -= (size - 1) * stride
        if not loops and (stride == block or (touching and stride < block)):
            block += (size - 1) * stride
        else:
            loops.append((size, stride))
    return start, block, loops[::-1]

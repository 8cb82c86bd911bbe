"""Two limits that no allocator beats or that hindsight reaches: the floor, and a placement that knows the future."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stridetool.analysis.replay import ALLOC, FREE, Program

_STEPS = 2_000_000  # comparisons; then the rest is placed as it comes
_BUCKETS = 256


def floor_bytes(program: Program) -> int:
    """The peak of live requested bytes: no allocator reserves less.

    Requests that no device could hold beside the others are part of it: the trace asked for them.
    """
    live = peak = 0
    sizes = [0] * program.slots
    for code, slot, nbytes, _ in program.rows:
        if code == ALLOC:
            sizes[slot] = nbytes
            live += nbytes
            peak = max(peak, live)
        elif code == FREE:
            live -= sizes[slot]
            sizes[slot] = 0
    return peak


class Lifetime(NamedTuple):
    """`size` bytes from event `start` up to, but without, event `end`."""

    size: int
    start: int
    end: int


def lifetimes(program: Program) -> list[Lifetime]:
    """Of every allocation, in steps of 512 B as the allocator's own."""
    open_at: dict[int, tuple[int, int]] = {}
    found = []
    for index, (code, slot, nbytes, _) in enumerate(program.rows):
        if code == ALLOC:
            open_at[slot] = (-(-nbytes // 512) * 512, index)
        elif code == FREE and slot in open_at:
            size, start = open_at.pop(slot)
            found.append(Lifetime(size, start, index))
    found += [Lifetime(size, start, len(program.rows)) for size, start in open_at.values()]
    return found


def packing_bytes(program: Program) -> int:
    """The height of a placement made by size, largest first, each at the lowest place that is free all its life.

    After a bounded number of steps what is left (the smallest) goes to a part of its own, in order of time.
    """
    blocks = sorted(lifetimes(program), key=lambda block: (-block.size, block.start))
    width = max(1, -(-len(program.rows) // _BUCKETS))
    buckets: list[list[tuple[int, int, int, int]]] = [[] for _ in range(_BUCKETS + 1)]
    top, steps = 0, 0
    for number, block in enumerate(blocks):
        if steps > _STEPS:
            return top + _in_order(blocks[number:])
        covered = range(block.start // width, min((block.end - 1) // width, _BUCKETS) + 1)
        seen = {entry for bucket in covered for entry in buckets[bucket]}
        steps += sum(len(buckets[bucket]) for bucket in covered)
        base = _lowest(sorted(e for e in seen if e[2] < block.end and e[3] > block.start), block.size)
        top = max(top, base + block.size)
        entry = (base, base + block.size, block.start, block.end)
        for bucket in covered:
            buckets[bucket].append(entry)
    return top


def _lowest(taken: Sequence[tuple[int, int, int, int]], size: int) -> int:
    base = 0
    for low, high, _, _ in taken:
        if low - base >= size:
            break
        base = max(base, high)
    return base


def _in_order(blocks: Iterable[Lifetime]) -> int:
    """The height of first fit by time for what is left, with equal sizes sharing places that became free."""
    changes = sorted(
        [(block.start, 1, block.size) for block in blocks] + [(block.end, 0, block.size) for block in blocks]
    )
    spare: dict[int, int] = {}
    top = 0
    for _, is_start, size in changes:
        if not is_start:
            spare[size] = spare.get(size, 0) + 1
        elif spare.get(size, 0):
            spare[size] -= 1
        else:
            top += size
    return top

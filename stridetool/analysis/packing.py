"""Two limits: the floor, which no allocator beats, and the best placement in one arena that is found in short time."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import NamedTuple

from stridetool.analysis.replay import ALLOC, FREE, Program
from stridetool.core.memory.blocks import MIN_BLOCK

_STEPS = 2_000_000  # comparisons of a placement by size; more are not worth the time
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


def _block_size(nbytes: int) -> int:
    return -(-nbytes // MIN_BLOCK) * MIN_BLOCK


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
            open_at[slot] = (_block_size(nbytes), index)
        elif code == FREE and slot in open_at:
            size, start = open_at.pop(slot)
            found.append(Lifetime(size, start, index))
    found += [Lifetime(size, start, len(program.rows)) for size, start in open_at.values()]
    return found


def packing_bytes(program: Program) -> int:
    """The height of the lower of two placements in one arena: in the order of time, and by size.

    The first takes time in proportion to the events. The second knows the future and is lower for most short
    traces, but is given up where it needs too many comparisons.
    """
    in_time, by_size = _in_time(program), _by_size(program)
    return in_time if by_size is None else min(in_time, by_size)


def _in_time(program: Program) -> int:
    """The height when each allocation takes the smallest free gap that is large enough, and the lowest of these."""
    arena = _Arena()
    places: list[tuple[int, int]] = [(0, 0)] * program.slots
    for code, slot, nbytes, _ in program.rows:
        if code == ALLOC:
            size = _block_size(nbytes)
            places[slot] = arena.take(size), size
        elif code == FREE and places[slot][1]:
            arena.give_back(*places[slot])
            places[slot] = (0, 0)
    return arena.top


class _Arena:
    """Addresses from 0 to `top`, and the gaps among them."""

    def __init__(self) -> None:
        self.top = 0
        self._gaps: list[tuple[int, int]] = []  # (size, start), sorted
        self._sizes: dict[int, int] = {}  # start of a gap → its size
        self._starts: dict[int, int] = {}  # end of a gap → its start

    def take(self, size: int) -> int:
        """The start of a range of `size` bytes that is now in use."""
        index = bisect_left(self._gaps, (size,))
        if index == len(self._gaps):
            start = self._starts.pop(self.top, self.top)  # the last gap is too small alone, but may begin it
            if start < self.top:
                self._forget(start, self._sizes.pop(start))
            self.top = start + size
            return start
        found, start = self._gaps.pop(index)
        del self._sizes[start], self._starts[start + found]
        if found > size:
            self._remember(start + size, found - size)
        return start

    def give_back(self, start: int, size: int) -> None:
        """The range is a gap again, as one with the gaps beside it."""
        end = start + size
        if start in self._starts:
            size += start - (left := self._starts.pop(start))
            self._forget(left, self._sizes.pop(left))
            start = left
        if end in self._sizes:
            right = self._sizes.pop(end)
            self._forget(end, right)
            size += right
        self._remember(start, size)

    def _remember(self, start: int, size: int) -> None:
        self._sizes[start] = size
        self._starts[start + size] = start
        insort(self._gaps, (size, start))

    def _forget(self, start: int, size: int) -> None:
        del self._gaps[bisect_left(self._gaps, (size, start))]


def _by_size(program: Program) -> int | None:
    """The height when the largest come first, each at the lowest place that is free all its life; None: too many."""
    blocks = lifetimes(program)
    if len(blocks) ** 2 > 2 * _BUCKETS * _STEPS:  # even the shortest lives are compared with those beside them
        return None
    blocks.sort(key=lambda block: (-block.size, block.start))
    width = max(1, -(-len(program.rows) // _BUCKETS))
    buckets: list[list[tuple[int, int, int, int]]] = [[] for _ in range(_BUCKETS + 1)]
    top, steps = 0, 0
    for block in blocks:
        covered = range(block.start // width, min((block.end - 1) // width, _BUCKETS) + 1)
        steps += sum(len(buckets[bucket]) for bucket in covered)
        if steps > _STEPS:
            return None
        seen = {entry for bucket in covered for entry in buckets[bucket]}
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

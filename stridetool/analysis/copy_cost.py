"""Why a strided copy is slow, from its two layouts: which lines it touches, and how often a plain loop fetches them.

The model of a cache is the usual one for loop nests: a loop finds the lines of its inner loops again when all of them
fit, where a power-of-two step uses only a part of the sets. It explains orders of magnitude, not per cents.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, gcd, prod

import msgspec

from stridetool.core.layout import Layout
from stridetool.core.plan import CopyPlan, Dim, plan_bytes
from stridetool.report.bench import CacheTraffic

FAST_RUN_BYTES = 256
"""Runs of at least this are copied about as fast as one long run."""

_FEW_BYTES = 1024


class Cache(msgspec.Struct, frozen=True):
    """One data cache."""

    level: int
    nbytes: int
    line_bytes: int = 64
    ways: int = 8

    @property
    def sets(self) -> int:
        return max(1, self.nbytes // (self.line_bytes * max(self.ways, 1)))


class Machine(msgspec.Struct, frozen=True):
    """What the explanation reckons with. The default is an ordinary processor; a GPU runs `warp` threads in step."""

    caches: tuple[Cache, ...] = (Cache(1, 32 << 10), Cache(2, 1 << 20, ways=16), Cache(3, 32 << 20, ways=16))
    page_bytes: int = 4096
    warp: int = 1

    @property
    def line_bytes(self) -> int:
        return self.caches[0].line_bytes

    @property
    def inner(self) -> tuple[Cache, ...]:
        """The caches that belong to one core: all but the last of three."""
        return tuple(cache for cache in self.caches if cache.level <= 2)


class Walk(msgspec.Struct, frozen=True):
    """A copy as its loops see it: the plan, and what the source side of it touches."""

    plan: CopyPlan
    useful_bytes: int
    touched_line_bytes: int
    loop_traffic: tuple[CacheTraffic, ...]
    inner_pages: int

    @property
    def run_bytes(self) -> int:
        """Bytes that are contiguous on both sides."""
        if self.plan.kind in ("run", "empty"):
            return self.plan.nbytes
        return self.plan.width * (self.plan.dims[0].size if self.plan.kind == "rows" else 1)

    @property
    def inner_step(self) -> int:
        """Bytes from one source element to the next along the innermost dimension of the destination."""
        return self.plan.dims[0].src_stride if self.plan.dims else self.plan.width

    @property
    def attainable_fraction(self) -> float:
        """Of the peak, with every touched line read once."""
        moved = self.amplification * self.useful_bytes + self.plan.nbytes
        return 2 * self.plan.nbytes / moved if moved else 1.0

    @property
    def amplification(self) -> float:
        """Bytes of touched lines for each useful byte; 1 for so few lines that they do not matter."""
        if self.touched_line_bytes - self.useful_bytes < _FEW_BYTES:
            return 1.0
        return self.touched_line_bytes / self.useful_bytes

    @property
    def refetch(self) -> float:
        """Bytes that a plain loop brings into the core's last own cache for each byte of touched lines."""
        if not self.touched_line_bytes or not self.loop_traffic:
            return 1.0
        return self.loop_traffic[-1].line_bytes_fetched / self.touched_line_bytes

    @property
    def is_fast(self) -> bool:
        """Nothing about the layout is in the way of a good copy."""
        return self.run_bytes >= min(FAST_RUN_BYTES, self.plan.nbytes) and self.amplification < 1.5


def walk(src: Layout, dst_strides: Sequence[int], itemsize: int, unit: int, machine: Machine) -> Walk:
    """The walk of a copy from `src` (in steps of `unit` bytes) to a destination of `dst_strides` elements."""
    plan = plan_bytes(src.sizes, [s * itemsize for s in dst_strides], [s * unit for s in src.strides], itemsize)
    line = machine.line_bytes
    return Walk(
        plan=plan,
        useful_bytes=_useful(src, itemsize, unit),
        touched_line_bytes=ceil(touched_lines(plan.dims, plan.width, line)) * line if plan.nbytes else 0,
        loop_traffic=tuple(
            CacheTraffic(cache.level, cache.nbytes, ceil(loop_lines(plan, cache)) * line if plan.nbytes else 0)
            for cache in machine.inner
        ),
        inner_pages=_pages(plan, machine.page_bytes),
    )


def touched_lines(dims: Sequence[Dim], width: int, line: int) -> float:
    """Distinct lines of the source that the loops `dims` over elements of `width` bytes touch (about)."""
    count, span, block_step = _solid(dims, width, line)
    reach = width + sum((dim.size - 1) * abs(dim.src_stride) for dim in dims)
    return min(count * _lines_of(span, block_step, line), _lines_of(reach, line, line))


def loop_lines(plan: CopyPlan, cache: Cache) -> float:
    """Lines that loops in the order of the destination bring into `cache`."""
    fetched = 1.0
    for depth, dim in enumerate(plan.dims):
        inner = plan.dims[:depth]
        if touched_lines(inner, plan.width, cache.line_bytes) <= _capacity(inner, plan.width, cache):
            fetched = touched_lines(plan.dims[: depth + 1], plan.width, cache.line_bytes)
        else:
            fetched *= dim.size
    return fetched


def sets_used(dims: Sequence[Dim], width: int, cache: Cache) -> int:
    """Sets of `cache` that the loops `dims` can use: few when all steps are multiples of a large power of two."""
    _, span, _ = _solid(dims, width, cache.line_bytes)
    steps = [abs(dim.src_stride) for dim in dims if abs(dim.src_stride) > max(span, cache.line_bytes)]
    if not steps:
        return cache.sets
    common = gcd(*steps)
    if common % cache.line_bytes:
        return cache.sets
    apart = gcd(cache.sets, common // cache.line_bytes)
    return min(cache.sets, cache.sets // apart * min(apart, ceil(span / cache.line_bytes)))


def _capacity(dims: Sequence[Dim], width: int, cache: Cache) -> int:
    return sets_used(dims, width, cache) * cache.ways


def _solid(dims: Sequence[Dim], width: int, line: int) -> tuple[int, int, int]:
    """(number of solid blocks, bytes from first to last in one, the step between blocks): steps below a line join."""
    count, span, step = 1, width, line
    for stride, size in sorted((abs(dim.src_stride), dim.size) for dim in dims if dim.src_stride):
        if count == 1 and stride <= max(span, line):
            span += (size - 1) * stride
        else:
            count, step = count * size, gcd(step, stride)
    return count, span, step


def _lines_of(span: int, step: int, line: int) -> float:
    """Lines that a block of `span` bytes lies in, averaged over the starts that multiples of `step` give."""
    starts = range(0, line, gcd(step, line))
    return sum((start + span - 1) // line + 1 for start in starts) / len(starts)


def _useful(src: Layout, itemsize: int, unit: int) -> int:
    if unit == itemsize:
        distinct = src.distinct_elements()
        if distinct is not None:
            return distinct * itemsize
    low, high = src.reach()
    return min(prod(src.sizes) * itemsize, max(0, (high - 1 - low) * unit + itemsize))


def _pages(plan: CopyPlan, page: int) -> int:
    if not plan.dims:
        return ceil(plan.nbytes / page)
    inner = plan.dims[0]
    return min(inner.size, 1 + inner.size * abs(inner.src_stride) // page)

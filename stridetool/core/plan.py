"""The copy plan: how to walk two layouts so that a strided copy runs near the speed of the memory.

    sizes and strides ──▶ normalise ──▶ classify ──▶ tile ──▶ CopyPlan
                          drop, flip,   run, rows,   box of dimensions, and the
                          sort, join,   splat, ...   order of the boxes
                          widen

A plan is pure integers, explains itself, and every kernel works from it: NumPy, CUDA, and the C extension, which
makes the same plan itself because a small copy must not cost a microsecond (`kernels/csrc/plan.h`, the same rules
step for step). Strides are in bytes here; dimension 0 is the innermost one of the destination.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import msgspec

from stridetool.core.layout import Layout
from stridetool.core.shapes import Ints

DST_RUN_BYTES = 512
"""A tile's runs in the destination: full lines, so that each is written once."""
SRC_RUN_BYTES = 1024
"""A tile's runs in the source: long enough for DRAM pages and for the hardware prefetcher."""
TILE_BYTES = 128 << 10
"""What a packed tile may take of the inner caches."""
SMALL_TILE_BYTES = 16 << 10
"""Tiles below this grow outwards, so that the loop around them costs nothing."""
STREAM_BYTES = 3 << 20
"""Beyond this many bytes stores go around the caches."""
STREAM_RUN_BYTES = 128
"""... where the destination comes in runs of at least this."""

_WIDTHS = (1, 2, 4, 8, 16)


class Dim(NamedTuple):
    """One dimension of a copy; strides in bytes."""

    size: int
    dst_stride: int
    src_stride: int


class CopyPlan(msgspec.Struct, frozen=True):
    """How a copy is walked. Strides and shifts are in bytes, dimension 0 is the destination's innermost."""

    kind: str
    """empty, run, rows, splat, transpose, strided or generic."""
    width: int
    """Bytes that one move of the innermost loop carries: the item, widened or (for an odd size) split."""
    nbytes: int
    """Bytes written."""
    dst_shift: int
    """From the destination's given address to the first element visited; not 0 where a dimension was flipped."""
    src_shift: int
    dims: tuple[Dim, ...]
    tile: Ints
    """Extent of a tile along each dimension."""
    order: Ints
    """Dimensions in the order of the loops over tiles, innermost first: the order of the source."""
    across: int
    """The second dimension that a kernel walks in a tile; 0 where there is none."""
    chain: int
    """Runs of a tile in the destination cover the dimensions 0..chain."""
    streams: bool
    """Whether stores go around the caches."""

    @property
    def tile_bytes(self) -> int:
        return self.width * prod(self.tile)

    def tiles(self) -> Iterator[tuple[Ints, Ints]]:
        """(first index, extent) of each tile along each dimension, in the order of the walk."""
        counts = [range(0, self.dims[i].size, self.tile[i]) for i in reversed(self.order)]
        for starts in product(*counts) if self.nbytes else ():
            first = [0] * len(self.dims)
            for i, start in zip(reversed(self.order), starts, strict=True):
                first[i] = start
            yield tuple(first), tuple(min(t, d.size - f) for t, d, f in zip(self.tile, self.dims, first, strict=True))

    def moves(self) -> Iterator[tuple[int, int]]:
        """(destination, source) in bytes from the given addresses, one per element of `width` bytes."""
        for first, extent in self.tiles():
            for index in product(*(range(f, f + e) for f, e in zip(first, extent, strict=True))):
                yield (
                    self.dst_shift + sum(i * d.dst_stride for i, d in zip(index, self.dims, strict=True)),
                    self.src_shift + sum(i * d.src_stride for i, d in zip(index, self.dims, strict=True)),
                )

    def explain(self) -> list[str]:
        """The plan in words, one line a decision."""
        if self.kind in ("empty", "run"):
            return [_KINDS[self.kind].format(plan=self)]
        across = "" if self.across == 0 else f", dimension {self.across} with it"
        lines = [
            _KINDS[self.kind].format(plan=self, source=abs(self.dims[0].src_stride)),
            "dimensions, innermost of the destination first (size, destination step, source step in bytes): "
            + ", ".join(f"({d.size}, {d.dst_stride}, {d.src_stride})" for d in self.dims),
            f"tile {' × '.join(map(str, self.tile))} ({self.tile_bytes} B): dimension 0 innermost{across}; "
            f"tiles in the order of the source: {', '.join(map(str, self.order))}",
        ]
        if self.streams:
            lines.append(f"{self.nbytes} B do not stay in the caches: tiles are packed and streamed around them")
        return lines


_KINDS = {
    "empty": "empty: no elements, nothing to copy",
    "run": "run: both sides are one run of {plan.nbytes} B in the same order",
    "rows": "rows: both sides keep the innermost dimension, runs of {plan.dims[0].size} × {plan.width} B",
    "splat": "splat: the source stands still along the innermost dimension, each {plan.width} B element is repeated",
    "transpose": "transpose: the source is contiguous along dimension {plan.across}, the destination along "
    "dimension 0; {plan.width} B elements are turned in registers",
    "strided": "strided: the source steps {source} B for each {plan.width} B element and is contiguous nowhere",
    "generic": "generic: the destination itself has gaps between its elements of {plan.width} B",
}


def plan_copy(dst: Layout, src: Layout, itemsize: int) -> CopyPlan:
    """The plan for a copy between two layouts of the same sizes; offsets are left to the addresses."""
    dst_strides = tuple(s * itemsize for s in dst.strides)
    return plan_bytes(dst.sizes, dst_strides, tuple(s * itemsize for s in src.strides), itemsize)


def plan_bytes(sizes: Sequence[int], dst_strides: Sequence[int], src_strides: Sequence[int], itemsize: int) -> CopyPlan:
    """The same from strides in bytes. The destination must not overlap itself."""
    nbytes = itemsize * prod(sizes)
    width = min(16, itemsize & -itemsize) if itemsize else 1
    if nbytes == 0:
        return CopyPlan("empty", width, 0, 0, 0, (), (), (), 0, 0, False)
    # An item of an odd size is a row of the widest part that divides it.
    outer = [Dim(*dim) for dim in zip(sizes, dst_strides, src_strides, strict=True)]
    flipped = [_flip(dim) for dim in [Dim(itemsize // width, width, width), *reversed(outer)]]
    dims = _joined(sorted((dim for dim, _, _ in flipped if dim.size > 1), key=lambda dim: dim.dst_stride))
    dims, width = _widened(dims, width)
    kind, across = _classify(dims, width)
    # A splat has hardly a source: it keeps the order of the destination.
    order = tuple(sorted(range(len(dims)), key=lambda i: 0 if kind == "splat" else abs(dims[i].src_stride)))
    tile = _tile(dims, order if kind != "splat" else (), width)
    return CopyPlan(
        kind=kind,
        width=width,
        nbytes=nbytes,
        dst_shift=sum(shift for _, shift, _ in flipped),
        src_shift=sum(shift for _, _, shift in flipped),
        dims=tuple(dims),
        tile=tile,
        order=order,
        across=across or _longest_other(tile),
        chain=_chain(dims, tile),
        streams=nbytes >= STREAM_BYTES and _whole_run(dims, width) >= STREAM_RUN_BYTES,
    )


def _flip(dim: Dim) -> tuple[Dim, int, int]:
    """The dimension walked upwards in the destination, and how far both starts move."""
    if dim.dst_stride >= 0 or dim.size == 1:
        return dim, 0, 0
    back = dim.size - 1
    return Dim(dim.size, -dim.dst_stride, -dim.src_stride), back * dim.dst_stride, back * dim.src_stride


def _joined(dims: list[Dim]) -> list[Dim]:
    """Neighbours that are one longer dimension on both sides become it."""
    joined: list[Dim] = []
    for dim in dims:
        last = joined[-1] if joined else None
        if last and dim[1:] == (last.dst_stride * last.size, last.src_stride * last.size):
            joined[-1] = last._replace(size=last.size * dim.size)
        else:
            joined.append(dim)
    return joined


def _widened(dims: list[Dim], width: int) -> tuple[list[Dim], int]:
    """An innermost run that fits in a register is one wider element."""
    while dims and dims[0][1:] == (width, width) and dims[0].size * width in _WIDTHS:
        width *= dims[0].size
        dims = dims[1:]
    return dims, width


def _classify(dims: list[Dim], width: int) -> tuple[str, int]:
    if not dims:
        return "run", 0
    if dims[0].dst_stride != width:
        return "generic", 0
    if dims[0].src_stride == width:
        return ("rows" if len(dims) > 1 else "run"), 0
    if dims[0].src_stride == 0:
        return "splat", 0
    across = next((i for i, dim in enumerate(dims) if i and abs(dim.src_stride) == width), 0)
    return ("transpose" if across else "strided"), across


def _tile(dims: list[Dim], source_order: Ints, width: int) -> Ints:
    """Both sides as long as wished, or else halved until the tile fits; a small tile grows outwards."""
    dst_run, src_run = DST_RUN_BYTES, SRC_RUN_BYTES
    while True:
        tile = [1] * len(dims)
        _extend_destination(tile, dims, width, dst_run)
        _extend_source(tile, dims, source_order, width, src_run)
        if width * prod(tile) <= TILE_BYTES or src_run <= 64:
            break
        src_run, dst_run = (src_run // 2, dst_run) if src_run > dst_run else (src_run, dst_run // 2)
    for i, dim in enumerate(dims):
        room = SMALL_TILE_BYTES // (width * prod(tile))
        if room < 2:
            break
        tile[i] = min(dim.size, tile[i] * room)
        if tile[i] < dim.size:
            break
    return tuple(tile)


def _extend_destination(tile: list[int], dims: list[Dim], width: int, target: int) -> None:
    run = width
    for i, dim in enumerate(dims):
        if run >= target or (i and dim.dst_stride != dims[i - 1].dst_stride * dims[i - 1].size):
            break
        tile[i] = max(tile[i], min(dim.size, -(-target // run)))
        run *= tile[i]
        if tile[i] < dim.size:
            break


def _extend_source(tile: list[int], dims: list[Dim], order: Ints, width: int, target: int) -> None:
    span = width
    for i in order:
        step = abs(dims[i].src_stride)
        if step == 0:
            continue
        if span >= target:
            break
        tile[i] = max(tile[i], min(dims[i].size, max(1, target // step)))
        span += (tile[i] - 1) * step
        if tile[i] < dims[i].size:
            break


def _longest_other(tile: Ints) -> int:
    return max(range(1, len(tile)), key=lambda i: tile[i], default=0)


def _chain(dims: list[Dim], tile: Ints) -> int:
    last = 0
    while (
        last + 1 < len(dims)
        and tile[last] == dims[last].size
        and dims[last + 1].dst_stride == dims[last].dst_stride * dims[last].size
    ):
        last += 1
    return last


def _whole_run(dims: list[Dim], width: int) -> int:
    """Bytes of the longest run that the destination has when walked from its innermost dimension."""
    run = width
    for dim in dims:
        if dim.dst_stride != run:
            break
        run *= dim.size
    return run

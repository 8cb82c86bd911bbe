"""The grid of offsets of the last two dimensions, the outer ones as labelled slices.

A number's colour is its place in memory (which step of the largest stride it lies in), not its row: the rows of a
contiguous tensor are stripes across, those of its transpose stripes down.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stridetool.render.blocks import Span
from stridetool.report.inspect import TensorRow

MAX_ROWS, MAX_COLUMNS, MAX_SLICES = 8, 16, 4
_COLORS = 8


@dataclass(frozen=True, slots=True)
class Slice:
    """Offsets at one index of the outer dimensions: the first rows and columns of how many there are."""

    outer: tuple[int, ...]
    cells: tuple[tuple[int, ...], ...]
    rows: int
    columns: int

    @property
    def title(self) -> str:
        """`[0, :, :]`"""
        return f"[{', '.join((*map(str, self.outer), ':', ':'))}]"


def slices(
    sizes: Sequence[int],
    strides: Sequence[int],
    offset: int,
    *,
    max_rows: int = MAX_ROWS,
    max_columns: int = MAX_COLUMNS,
    max_slices: int = MAX_SLICES,
) -> Iterator[Slice]:
    """The first slices in logical order; a vector is one row, a scalar one cell."""
    rows, columns = (1, 1, *sizes)[-2:]
    row_stride, column_stride = (0, 0, *strides)[-2:]
    if 0 in sizes:
        return
    for outer in itertools.islice(_indices(sizes[:-2]), max_slices):
        start = offset + sum(i * s for i, s in zip(outer, strides[:-2], strict=True))
        cells = tuple(
            tuple(start + i * row_stride + j * column_stride for j in range(min(columns, max_columns)))
            for i in range(min(rows, max_rows))
        )
        yield Slice(outer, cells, rows, columns)


def grid(tensor: TensorRow, width: int = 100) -> Iterator[tuple[Span, ...]]:
    """Offsets (in steps of the stride unit) of the first slices, side by side where `width` columns have room."""
    digits = len(str(max(abs(tensor.storage_offset), *_ends(tensor), 9))) + 1
    room = max(1, min(MAX_COLUMNS, (width - 8) // (digits + 1)))
    found = list(slices(tensor.sizes, tensor.strides, tensor.storage_offset, max_columns=room))
    if not found or not tensor.sizes:
        return
    yield (("offsets of ", "muted"), (tensor.name, "name"), _count_of_slices(tensor, len(found)))
    unit = memory_unit(tensor.strides, tensor.sizes)
    drawn = [list(_drawn(part, digits, unit, titled=len(tensor.sizes) > 2)) for part in found]
    across = max(1, (width + 2) // (_width(drawn[0]) + 2))
    for first in range(0, len(drawn), across):
        for line in zip(*drawn[first : first + across], strict=True):
            yield tuple(span for part in line for span in (*part, ("  ", "")))


def memory_unit(strides: Sequence[int], sizes: Sequence[int]) -> int:
    """The largest step in memory: what one colour stands for."""
    return max((abs(s) for s, n in zip(strides, sizes, strict=True) if n > 1), default=1) or 1


def hue(offset: int, unit: int) -> int:
    """The number of the colour of an offset."""
    return offset // unit % _COLORS


def _indices(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Indices in logical order; an odometer, since itertools.product would store each dimension first."""
    index = [0] * len(sizes)
    while True:
        yield tuple(index)
        for dim in range(len(sizes) - 1, -1, -1):
            index[dim] += 1
            if index[dim] < sizes[dim]:
                break
            index[dim] = 0
        else:
            return


def _ends(tensor: TensorRow) -> Iterator[int]:
    """The smallest and the largest offset of what is drawn."""
    shown = [min(n, MAX_COLUMNS) - 1 for n in tensor.sizes]
    reach = [k * s for k, s in zip(shown, tensor.strides, strict=True)]
    yield tensor.storage_offset + sum(r for r in reach if r > 0)
    yield tensor.storage_offset + sum(r for r in reach if r < 0)


def _count_of_slices(tensor: TensorRow, shown: int) -> Span:
    outer = 1
    for size in tensor.sizes[:-2]:
        outer *= size
    return (f", {shown} of {outer:,} slices" if outer > shown else "", "muted")


def _drawn(part: Slice, digits: int, unit: int, *, titled: bool) -> Iterator[tuple[Span, ...]]:
    """The lines of one slice, all of one width."""
    shown = len(part.cells[0])
    more = " …" if part.columns > shown else "  "
    full = 7 + shown * (digits + 1) + len(more)
    if titled:
        yield ((part.title[:full].ljust(full), "muted"),)
    yield (("       " + "".join(f"{j:>{digits}} " for j in range(shown)) + more, "muted"),)
    for i, cells in enumerate(part.cells):
        numbers = ((f"{cell:>{digits}} ", f"lane{hue(cell, unit)}") for cell in cells)
        yield ((f"{i:>5}  ", "muted"), *numbers, (more, "muted"))
    if part.rows > len(part.cells):
        yield ((f"    …  {part.rows - len(part.cells):,} more rows"[:full].ljust(full), "muted"),)


def _width(lines: Sequence[tuple[Span, ...]]) -> int:
    return sum(len(text) for text, _ in lines[0])

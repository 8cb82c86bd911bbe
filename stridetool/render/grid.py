"""The grid of offsets of the last two dimensions, and the walk through memory in logical order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from stridetool.render.blocks import Span
from stridetool.report.inspect import TensorRow

MAX_ROWS, MAX_COLUMNS, MAX_STEPS = 8, 12, 12


def grid(tensor: TensorRow) -> Iterator[tuple[Span, ...]]:
    """Offsets (in steps of the stride unit) of the last two dimensions, at index 0 of the outer ones."""
    if tensor.numel == 0 or not tensor.sizes:
        return
    rows, columns = (1, *tensor.sizes)[-2:]
    row_stride, column_stride = (0, *tensor.strides)[-2:]
    shown = min(columns, MAX_COLUMNS)
    lines = [
        [tensor.storage_offset + i * row_stride + j * column_stride for j in range(shown)]
        for i in range(min(rows, MAX_ROWS))
    ]
    width = max(len(str(cell)) for cell in (*lines[0], *lines[-1], shown))
    outer = "".join("0, " for _ in tensor.sizes[:-2])
    yield ((f"offsets of {tensor.name}[{outer}{':, :' if len(tensor.sizes) > 1 else ':'}]", "muted"),)
    yield (("      " + " ".join(str(j).rjust(width) for j in range(shown)), "muted"),)
    for i, cells in enumerate(lines):
        more = " …" if columns > shown else ""
        yield ((f"{i:4}  ", "muted"), (" ".join(str(cell).rjust(width) for cell in cells) + more, f"lane{i % 8}"))
    if rows > len(lines):
        yield ((f"   …  {rows - len(lines):,} more rows", "muted"),)


def walk(tensor: TensorRow) -> tuple[Span, ...]:
    """The first offsets in logical order, with the jump between each two."""
    offsets = _first_offsets(tensor, MAX_STEPS)
    parts: list[Span] = [("walk  ", "muted"), (str(offsets[0]) if offsets else "(no elements)", "")]
    for previous, offset in itertools.pairwise(offsets):
        parts += [(f" {offset - previous:+d} ", "muted" if offset == previous + 1 else "warn"), (str(offset), "")]
    return (*parts, (" …", "muted")) if tensor.numel > len(offsets) else tuple(parts)


def _first_offsets(tensor: TensorRow, count: int) -> list[int]:
    offsets = []
    for number in range(min(count, tensor.numel)):
        offset, rest = tensor.storage_offset, number
        for size, stride in zip(reversed(tensor.sizes), reversed(tensor.strides), strict=True):
            offset, rest = offset + rest % size * stride, rest // size
        offsets.append(offset)
    return offsets

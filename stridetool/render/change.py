"""One operation as before → after: two grids of offsets side by side, and the stamp of what it moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from stridetool.render.blocks import Span
from stridetool.render.grid import Slice, hue, memory_unit, slices
from stridetool.report.inspect import InspectReport, LayoutRow, OperationRow
from stridetool.units import format_bytes

MAX_CHANGES = 3
_ROWS, _COLUMNS = 5, 6


def worth_a_change(report: InspectReport, limit: int = MAX_CHANGES) -> list[OperationRow]:
    """The first operations whose picture says something: of small tensors whose order in memory changes."""
    shown: dict[tuple[object, ...], OperationRow] = {}
    for operation in report.operations:
        if operation.input_layouts and operation.output_layouts and (operation.strides_changed or operation.copied):
            before, after = operation.input_layouts[0], operation.output_layouts[0]
            told = operation.copied or not (_in_order(before) and _in_order(after))
            if told and _drawable(before) and _drawable(after):
                shown.setdefault((operation.op, before, after), operation)
        if len(shown) == limit:
            break
    return list(shown.values())


def stamp(operation: OperationRow) -> Span:
    """`no bytes moved`, or `96 B copied`."""
    if operation.copied:
        return (f"{format_bytes(operation.copied_bytes)} copied", "warn")
    return ("no bytes moved", "good")


def change(operation: OperationRow, width: int = 100) -> Iterator[tuple[Span, ...]]:
    """The grids side by side (below each other where `width` is too small), offsets each in its own storage."""
    before, after = (
        list(_small(row, sharing)) for row, sharing in (
            (operation.input_layouts[0], False), (operation.output_layouts[0], operation.copied)
        )
    )  # fmt: skip
    left = max(map(_length, before))
    if left + 5 + max(map(_length, after)) <= width:
        middle = len(before) // 2
        for number, (a, b) in enumerate(zip_longest(before, after, fillvalue=())):
            arrow = "  →  " if number == middle else "     "
            yield (*a, (" " * (left - _length(a)) + arrow, "muted"), *b)
    else:
        yield from before
        yield (("  ↓", "muted"),)
        yield from after


def _drawable(layout: LayoutRow) -> bool:
    return bool(layout.sizes) and 0 not in layout.sizes and len(layout.sizes) <= 4


def _in_order(layout: LayoutRow) -> bool:
    """Whether the elements lie in memory as they are counted; between two of those nothing is to be seen."""
    step = 1
    for size, stride in zip(reversed(layout.sizes), reversed(layout.strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def _small(layout: LayoutRow, own_storage: bool) -> Iterator[tuple[Span, ...]]:
    """The first slice of a layout in a few rows and columns."""
    part: Slice = next(
        slices(layout.sizes, layout.strides, layout.storage_offset, max_rows=_ROWS, max_columns=_COLUMNS, max_slices=1)
    )
    unit = memory_unit(layout.strides, layout.sizes)
    digits = max(len(str(cell)) for row in part.cells for cell in row) + 1
    more = " …" if part.columns > len(part.cells[0]) else ""
    title = f"  {part.title} " if part.outer else "  "
    for number, row in enumerate(part.cells):
        lead = title if number == 0 else " " * len(title)
        yield ((lead, "muted"), *((f"{cell:>{digits}}", f"lane{hue(cell, unit)}") for cell in row), (more, "muted"))
    if part.rows > len(part.cells):
        yield ((" " * len(title) + " " * (digits - 1) + "…", "muted"),)
    if own_storage:
        yield (("  in a storage of its own", "muted"),)


def _length(spans: Sequence[Span]) -> int:
    return sum(len(text) for text, _ in spans)

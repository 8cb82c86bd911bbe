"""Operations as pictures: before → after with the stamp of what was moved, and the brackets of a view that failed."""

from __future__ import annotations

from collections.abc import Iterator

from stridetool.render.change import stamp
from stridetool.render.drawing.shapes import MARGIN, WIDTH, Drawing, label, path, rect, stroke
from stridetool.render.grid import hue, memory_unit, slices
from stridetool.render.layout import sizes_text, strides_text
from stridetool.render.operations import call_text
from stridetool.report.inspect import LayoutRow, OperationRow, ViewFailure
from stridetool.units import format_bytes

_ROW, _ROWS, _COLUMNS = 20, 6, 9


def change_drawing(operation: OperationRow) -> Drawing:
    """Two grids of offsets, each in its own storage, an arrow between and the stamp above it."""
    before, after = operation.input_layouts[0], operation.output_layouts[0]
    left, left_height, left_width = _grid(before, before, MARGIN)
    x = MARGIN + left_width + 150
    right, right_height, _ = _grid(after, after if operation.copied else before, x)
    height = max(left_height, right_height)
    middle = 34 + (height - 34) / 2
    start, end = MARGIN + left_width + 12, x - 14
    text, style = stamp(operation)
    arrow = [
        path(f"M{start:.0f} {middle:.0f}H{end:.0f}m-8 -5l8 5l-8 5", "arrow"),
        label((start + end) / 2, middle - 8, text, f"s mid {style}"),
    ]
    if operation.copied and operation.kernel:
        arrow.append(label((start + end) / 2, middle + 16, f"by {operation.kernel}", "x m mid"))
    where = operation.place or "–"
    return Drawing(f"{where}  {call_text(operation)}", height + 4, [*left, *arrow, *right], "change")


def failure_drawing(operation: OperationRow, why: ViewFailure) -> Drawing:
    """Sizes in brackets that merge, the broken boundary with both numbers, and the ways out."""
    layout = operation.input_layouts[0]
    body = list(_brackets(layout, why))
    y = 118.0
    if why.set_by:
        body.append(label(MARGIN, y, f"the strides were set by {why.set_by}", "s m"))
        y += 20
    for remedy in why.remedies:
        for number, part in enumerate(_wrapped(remedy, 118)):
            body.append(label(MARGIN + (0 if number == 0 else 18), y, f"{'→ ' if number == 0 else ''}{part}", "s"))
            y += 17
    where = operation.place or "–"
    title = f"{where}  {operation.op} to {sizes_text(why.shape)} is impossible without a copy"
    return Drawing(title, y, body, "failure")


def _grid(layout: LayoutRow, source: LayoutRow, x: float) -> tuple[list[str], float, float]:
    """The first slice of a layout in the colours of `source`'s memory; (shapes, height, width)."""
    bounds = {"max_rows": _ROWS, "max_columns": _COLUMNS, "max_slices": 1}
    part = next(slices(layout.sizes, layout.strides, layout.storage_offset, **bounds))
    digits = max(len(str(offset)) for row in part.cells for offset in row)
    cell = max(26.0, digits * 7.3 + 8)
    unit = memory_unit(source.strides, source.sizes)
    facts, strides = f"{sizes_text(layout.sizes)}", f"{strides_text(layout.strides)}+{layout.storage_offset}"
    body = [label(x, 12, facts, "s b"), label(x, 27, strides, "s m")]
    for i, row in enumerate(part.cells):
        for j, offset in enumerate(row):
            left, top = x + j * cell, 34 + i * _ROW
            body.append(rect(left, top, cell - 2, _ROW - 2, f"l{hue(offset, unit)} t", f"offset {offset}"))
            body.append(label(left + (cell - 2) / 2, top + 13, str(offset), "s mid"))
    bottom = 34 + len(part.cells) * _ROW
    if part.columns > len(part.cells[0]):
        body.append(label(x + len(part.cells[0]) * cell + 2, 47, "…", "m"))
    if part.rows > len(part.cells) or part.outer:
        rest = f"… {part.rows - len(part.cells):,} more rows" if part.rows > len(part.cells) else ""
        body.append(label(x, bottom + 12, f"{part.title if part.outer else ''} {rest}".strip(), "x m"))
        bottom += 16
    width = max(cell * len(part.cells[0]) + 12, 7.3 * max(len(facts), len(strides)))
    return body, bottom, width


def _brackets(layout: LayoutRow, why: ViewFailure) -> Iterator[str]:
    broken, _ = why.boundary
    for y, title in ((16, "dimension"), (42, "size"), (66, "stride")):
        yield label(MARGIN, y, title, "s m")
    x: float = MARGIN + 90
    for run in why.runs:
        start = x
        for dim in run:
            size, stride = str(layout.sizes[dim]), str(layout.strides[dim])
            width = max(len(size), len(stride), 2) * 7.3 + 22
            middle = x + width / 2
            yield label(middle, 16, str(dim), "s m mid")
            yield label(middle, 42, size, "b mid")
            yield label(middle, 66, stride, "mid bad" if dim == broken else "mid")
            if dim == broken:
                yield path(f"M{middle:.0f} 72v14h14", "arrow")
                needed = f"merging needs {why.stride_needed:,}, it is {why.stride_found:,}"
                yield label(middle + 20, 91, needed, "bad s")
            x += width
        yield path(f"M{start + 5:.0f} 26h-4v22h4M{x - 5:.0f} 26h4v22h-4", "run")
        if run[-1] == broken:
            yield path(f"M{x + 6:.0f} 31l12 12m0 -12l-12 12", "broken", "the boundary that does not merge")
        x += 24
    yield stroke(MARGIN, 101, WIDTH - MARGIN, 101, "base")
    yield label(WIDTH - MARGIN, 16, f"reshape copies {format_bytes(why.reshape_copied_bytes)}", "s warn end")


def _wrapped(text: str, width: int) -> Iterator[str]:
    line = ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > width:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield line

"""The order of the elements in memory: grids of offsets in memory colours, the walk, and how many jumps are which."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from math import prod

from stridetool.render.drawing.shapes import COLORS, MARGIN, WIDTH, Drawing, label, path, rect
from stridetool.render.drawing.strips import facts_text
from stridetool.render.grid import Slice, hue, memory_unit, slices
from stridetool.render.walk import MAX_JUMPS, first_offsets, jump_texts
from stridetool.report.inspect import AccessRow, TensorRow

MAX_ROWS, MAX_COLUMNS, MAX_SLICES = 8, 16, 6
_ROW, _HEAD = 20, 18
_STEPS, _WALK = 32, 96


def order_drawing(tensor: TensorRow, access: AccessRow | None) -> Drawing:
    """The grids of one tensor, and beside them (below, where they are wide) its walk and its jumps."""
    grids = list(_placed(_parts(tensor)))
    bottom = max((y + _HEAD * 2 + _ROW * len(part.cells) + 22 for part, _, y in grids), default=0.0)
    right = max((x + _slice_width(_parts(tensor)) for _, x, _ in grids), default=MARGIN)
    beside = right < WIDTH / 2
    left, top = (right, 0.0) if beside else (MARGIN, bottom)
    body = [*_grids(tensor), *_walk(tensor, left, top)]
    jumps = list(_jumps(access, left, top + _WALK)) if access is not None else []
    end = top + _WALK + 18 * (len(jumps) // 2)
    data = {"data_tensor": tensor.name, "tabindex": 0} if tensor.numel else {}
    return Drawing(f"{tensor.name}: {facts_text(tensor)}", max(bottom, end) + 4, [*body, *jumps], "order", data)


def element_text(tensor: TensorRow, index: Sequence[int], offset: int) -> str:
    """`x[1, 2] → offset 8 → byte 32 → address 0x… → 8.0`: as far as it is known."""
    byte = offset * tensor.stride_unit_bytes
    parts = [f"{tensor.name}[{', '.join(map(str, index))}]", f"offset {offset:,}", f"byte {byte:,}"]
    if tensor.data_ptr and int(tensor.data_ptr, 16):
        first = tensor.storage_offset * tensor.stride_unit_bytes
        parts.append(f"address {int(tensor.data_ptr, 16) + byte - first:#x}")
    position = 0
    for i, size in zip(index, tensor.sizes, strict=True):
        position = position * size + i
    if position < len(tensor.values):
        parts.append(f"value {tensor.values[position]}")
    return " → ".join(parts)


def _parts(tensor: TensorRow) -> list[Slice]:
    return list(
        slices(
            tensor.sizes, tensor.strides, tensor.storage_offset,
            max_rows=MAX_ROWS, max_columns=MAX_COLUMNS, max_slices=MAX_SLICES,
        )
    )  # fmt: skip


def _cell_width(parts: Sequence[Slice]) -> float:
    digits = max((len(str(cell)) for part in parts for row in part.cells for cell in row), default=1)
    return max(26.0, digits * 7.3 + 8)


def _slice_width(parts: Sequence[Slice]) -> float:
    return 68 + _cell_width(parts) * len(parts[0].cells[0])


def _placed(parts: Sequence[Slice]) -> Iterator[tuple[Slice, float, float]]:
    """Slices from left to right, in as many lines as the width asks for."""
    if not parts:
        return
    width = _slice_width(parts)
    height = _HEAD * 2 + _ROW * len(parts[0].cells) + 22
    across = max(1, int((WIDTH - 2 * MARGIN + 34) // width))
    for number, part in enumerate(parts):
        yield part, MARGIN + number % across * width, number // across * height


def _grids(tensor: TensorRow) -> Iterator[str]:
    parts = _parts(tensor)
    unit, cell = memory_unit(tensor.strides, tensor.sizes), _cell_width(parts)
    total = prod(tensor.sizes[:-2])
    for part, x, y in _placed(parts):
        yield '<g class="grid">'
        last = part is parts[-1] and total > len(parts)
        more = f"   … {total - len(parts):,} more slices" if last else ""
        title = part.title if part.outer else "[:, :]" if len(tensor.sizes) > 1 else "[:]"
        yield label(x, y + 12, title + more, "s m")
        for j in range(len(part.cells[0])):
            yield label(x + 34 + (j + 0.5) * cell, y + 30, str(j), "x m mid")
        if part.columns > len(part.cells[0]):
            yield label(x + 36 + len(part.cells[0]) * cell, y + 30, "…", "s m")
        for i, offsets in enumerate(part.cells):
            top = y + _HEAD * 2 + i * _ROW
            yield label(x + 28, top + 14, str(i), "x m end")
            for j, offset in enumerate(offsets):
                index = (*part.outer, i, j)[-len(tensor.sizes) :] if tensor.sizes else ()
                yield _cell(tensor, index, offset, x + 34 + j * cell, top, cell, unit)
        if part.rows > len(part.cells):
            below = y + _HEAD * 2 + len(part.cells) * _ROW + 13
            yield label(x + 34, below, f"… {part.rows - len(part.cells):,} more rows", "s m")
        yield "</g>\n"


def _cell(tensor: TensorRow, index: Sequence[int], offset: int, x: float, y: float, width: float, unit: int) -> str:
    byte = offset * tensor.stride_unit_bytes
    box = rect(
        x, y, width - 2, _ROW - 2, f"l{hue(offset, unit)} t cell", element_text(tensor, index, offset),
        data_byte=byte, data_storage=tensor.storage or "", data_nbytes=tensor.itemsize,
    )  # fmt: skip
    return box + label(x + (width - 2) / 2, y + 13, str(offset), "s mid n")


def _walk(tensor: TensorRow, x: float, y: float) -> Iterator[str]:
    """Offsets against steps: a straight line up is a walk in order, a saw is one that jumps back."""
    offsets = first_offsets(tensor, _STEPS)
    low, high = min(offsets, default=0), max(offsets, default=0)
    digits = 7.3 * len(str(max(abs(low), abs(high))))
    left, height = x + max(40.0, digits + 8), 62
    step = (WIDTH - MARGIN - 12 - left) / max(len(offsets) - 1, _STEPS // 2)

    def place(k: int, offset: int) -> tuple[float, float]:
        return left + k * step, y + 14 + height - (offset - low) / max(high - low, 1) * height

    yield label(x, y + 8, "walk", "s m")
    yield label(left - 6, y + 22, str(high), "x m end") + label(left - 6, y + 14 + height, str(low), "x m end")
    points = [place(k, offset) for k, offset in enumerate(offsets)]
    yield path("M" + "L".join(f"{px:.1f} {py:.1f}" for px, py in points), "arrow") if len(points) > 1 else ""
    for (px, py), offset in zip(points, offsets, strict=True):
        yield rect(px - 2.5, py - 2.5, 5, 5, f"l{hue(offset, memory_unit(tensor.strides, tensor.sizes)) % COLORS}")
    for (a, b), (p, q) in zip(itertools.pairwise(offsets), itertools.pairwise(points), strict=True):
        if b - a != 1 and step >= 17:
            aside = 16 if b < a else 3
            yield label((p[0] + q[0]) / 2 + aside, (p[1] + q[1]) / 2 - 3, f"{b - a:+d}", "x warn mid")


def _jumps(access: AccessRow, x: float, y: float) -> Iterator[str]:
    """A bar for each kind of step."""
    total = sum(jump.count for jump in access.jumps)
    counts = [*(jump.count for jump in access.jumps[:MAX_JUMPS]), sum(j.count for j in access.jumps[MAX_JUMPS:])]
    texts = jump_texts(access.jumps)
    room = max((len(text) for text in texts), default=0) * 7.3 + 12
    for number, (text, count) in enumerate(zip(texts, counts, strict=False)):
        top = y + number * 18
        yield label(x, top + 11, text, "s")
        yield rect(x + room, top + 1, max(2.0, count / total * (WIDTH - MARGIN - x - room)), 12, "bar", text)

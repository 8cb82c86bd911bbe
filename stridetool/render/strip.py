"""The strip of a storage in the terminal: one byte ruler, cache-line marks, and a lane per tensor.

Everything can be read without colour: a full cell is `█`, a cell reached in part shows its share as a bar
from `▁` to `▇`, a cell that is not reached is `·`, and the last lane counts the tensors that share a cell.
In ASCII: `#`, `1` to `9` tenths, `.`.
"""

from __future__ import annotations

from collections.abc import Iterator

from stridetool.render.blocks import Span
from stridetool.report.inspect import Picture

CACHE_LINE = 64
_BARS = "▁▂▃▄▅▆▇"
_LANES = 8


def strip(picture: Picture, label_width: int, *, ascii_only: bool = False) -> Iterator[tuple[Span, ...]]:
    """The lines of one storage: ruler, a lane per tensor, and who shares (when anyone does)."""
    yield _ruler(picture, label_width)
    for number, (name, lane) in enumerate(zip(picture.tensors, picture.lanes, strict=True)):
        cells = "".join(glyph(share, ascii_only) for share in lane)
        yield (_label(name, label_width), (cells, f"lane{number % _LANES}"))
    if max(picture.shared, default=0) > 1:
        counts = "".join(" " if n < 2 else str(n) if n < 10 else "+" for n in picture.shared)
        yield (_label("shared by", label_width, "muted"), (counts, "warn"))


def glyph(share: float, ascii_only: bool = False) -> str:
    """The sign of a cell of which `share` (0 to 1) is reached."""
    if share <= 0:
        return "." if ascii_only else "·"
    if share >= 1:
        return "#" if ascii_only else "█"
    return str(max(1, round(share * 9))) if ascii_only else _BARS[min(int(share * len(_BARS)), len(_BARS) - 1)]


def _label(text: str, width: int, style: str = "name") -> Span:
    short = text if len(text) <= width else text[: width - 1] + "…"
    return (short.ljust(width) + "  ", style)


def _ruler(picture: Picture, label_width: int) -> tuple[Span, ...]:
    """Byte positions above the cells: a mark at each cache line where they are 8 cells or more, else each 8 cells."""
    width, count = picture.bytes_per_cell, len(picture.shared)
    step = max(CACHE_LINE // width, 8)
    marks = ""
    for cell in range(0, count, step):
        mark = f"|{cell * width}"
        if len(marks) <= cell:
            marks = marks.ljust(cell) + mark
    unit = f"{width} B/cell" if width > 1 else "1 B/cell"
    return (_label(unit, label_width, "muted"), (marks, "muted"))

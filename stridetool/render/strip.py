"""The strip of a storage in the terminal: one byte ruler with cache-line and page marks, and a lane per tensor.

Everything can be read without colour: `█` is a cell that is reached as a whole, `▁` to `▇` show the share of one
that is reached in part, `·` is not reached, `╳` is reached by more than one index of the same tensor, and the last
lane counts the tensors that share a cell. `╿` on the ruler begins a page, `╷` a cache line (or every few of them).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stridetool.render.blocks import Span
from stridetool.report.inspect import InspectReport, Picture

CACHE_LINE, PAGE = 64, 4096
MAX_LANES = 12
_BARS = "▁▂▃▄▅▆▇"
_COLORS = 8
_MARK_CELLS = 8  # a mark needs room for its number


def strip(picture: Picture, label_width: int, origin: int = 0, *, records: bool = False) -> Iterator[tuple[Span, ...]]:
    """The lines of one storage: ruler, a lane per tensor, and how many share a cell (when several share one).

    With `records` it is a whole file, and the last lane counts the records that begin in a cell. `origin` is where
    byte 0 lies: its address, or its offset in the file; cache lines and pages count from there.
    """
    yield _ruler(picture, label_width, origin)
    for number, (name, cells) in enumerate(zip(picture.tensors[:MAX_LANES], glyph_lanes(picture), strict=False)):
        yield (_label(name, label_width), *lane_spans(cells, f"lane{number % _COLORS}"))
    if len(picture.tensors) > MAX_LANES:
        yield (_label(f"… {len(picture.tensors) - MAX_LANES:,} more", label_width, "muted"),)
    least = 1 if records else 2
    if max(picture.shared, default=0) >= least:
        counts = "".join(" " if n < least else str(n) if n < 10 else "+" for n in picture.shared)
        yield (_label("records" if records else "shared by", label_width, "muted"), (counts, "warn"))


def glyph_lanes(picture: Picture) -> Iterator[str]:
    """The cells of each lane as signs."""
    for number, lane in enumerate(picture.lanes):
        repeated = picture.repeated[number] if number < len(picture.repeated) else ()
        if repeated:
            yield "".join("╳" if again else glyph(share) for share, again in zip(lane, repeated, strict=True))
        else:
            yield "".join(map(glyph, lane))


def glyph(share: float) -> str:
    """The sign of a cell of which `share` (0 to 1) is reached."""
    if share <= 0:
        return "·"
    return "█" if share >= 1 else _BARS[min(int(share * 8), 7) - 1 if share >= 0.125 else 0]


def lane_spans(cells: str, style: str) -> Iterator[Span]:
    """A lane in its colour, with what is not reached muted and what is reached twice marked."""
    start = 0
    for end in range(1, len(cells) + 1):
        if end == len(cells) or _kind(cells[end], style) != _kind(cells[start], style):
            yield (cells[start:end], _kind(cells[start], style))
            start = end


def legend(pictures: Iterable[Picture]) -> tuple[Span, ...] | None:
    """What the signs mean, only those that are drawn; None where whole cells are all there is."""
    signs = set("".join(cells for picture in pictures for cells in glyph_lanes(picture)))
    parts = [text for sign, text in (("█", "█ reached"), ("·", "· skipped")) if sign in signs]
    if signs & set(_BARS):
        parts.insert(1, "▄ in part")
    if "╳" in signs:
        parts.append("╳ reached more than once by one tensor")
    return (("  ".join(parts), "muted"),) if len(parts) > 1 else None


def origin_of(report: InspectReport, storage: str) -> int:
    """Where byte 0 of a storage lies: its address, or its offset in a file; 0 where neither is known."""
    for row in report.storages:
        if row.id == storage and row.file_offset is not None:
            return row.file_offset
    for tensor in report.tensors:
        if tensor.storage == storage and tensor.data_ptr and int(tensor.data_ptr, 16):
            return int(tensor.data_ptr, 16) - tensor.storage_offset * tensor.stride_unit_bytes
    return 0


def mark_step(bytes_per_cell: int, room_cells: int = _MARK_CELLS) -> int:
    """Bytes between two marks of a ruler: a cache line, or the power of two above it that leaves room for numbers."""
    return max(CACHE_LINE, bytes_per_cell * room_cells)


def short_bytes(nbytes: int) -> str:
    """A position on a ruler: `192`, `64K`, `3M`; in full where it is no whole number of a unit."""
    for unit, size in (("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if nbytes >= size and nbytes % size == 0:
            return f"{nbytes // size}{unit}"
    return str(nbytes)


def unit_text(nbytes: int) -> str:
    """A power of two of bytes: `4 B`, `64 KiB`."""
    text = short_bytes(nbytes)
    return f"{text} B" if text.isdigit() else f"{text[:-1]} {text[-1]}iB"


def _kind(sign: str, style: str) -> str:
    return "muted" if sign == "·" else "bad" if sign == "╳" else style


def _label(text: str, width: int, style: str = "name") -> Span:
    short = text if len(text) <= width else text[: width - 1] + "…"
    return (short.ljust(width) + "  ", style)


def _ruler(picture: Picture, label_width: int, origin: int) -> tuple[Span, ...]:
    """The marks at addresses that are multiples of the step, with their distance from the first byte."""
    width, count = picture.bytes_per_cell, len(picture.shared)
    step = mark_step(width)
    origin = 0 if width >= PAGE else origin  # a cell holds whole pages: round numbers are worth more
    line = f"{'╿' if origin % PAGE == 0 else '╷' if origin % CACHE_LINE == 0 else '╵'}0"
    for byte in range(-origin % step or step, count * width, step):
        cell = byte // width
        if cell > len(line):
            line = line.ljust(cell) + ("╿" if (origin + byte) % PAGE == 0 else "╷") + short_bytes(byte)
    return (_label(f"{unit_text(width)}/cell", label_width, "muted"), (line, "muted"))

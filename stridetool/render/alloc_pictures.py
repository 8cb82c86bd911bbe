"""Pictures of an allocator in the terminal: the course of its memory, and the map of its segments.

Readable without colour: `█` allocated, `░` reserved and free, `▒` freed but awaited by a stream, `·` nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stridetool.render.blocks import Span
from stridetool.report.alloc import SegmentRow, Timeline
from stridetool.units import format_bytes

HEIGHT = 10
MAX_SEGMENTS = 16
_LABEL = 10
_SIGNS = {"active_allocated": ("█", "lane0"), "active_pending_free": ("▒", "warn"), "inactive": ("░", "muted")}


def timeline_lines(timeline: Timeline, width: int) -> Iterator[tuple[Span, ...]]:
    """A column of events each: allocated below, reserved above it; the scale is at the left, events at the bottom."""
    columns = _columns(timeline, max(16, width - _LABEL - 2))
    top = max((reserved for _, reserved in columns), default=0)
    if not top:
        return
    for row in range(HEIGHT, 0, -1):
        level = top * (row - 0.5) / HEIGHT
        cells = tuple(_cell(allocated, reserved, level) for allocated, reserved in columns)
        label = format_bytes(top * row // HEIGHT) if row in (HEIGHT, HEIGHT // 2) else ""
        yield ((label.rjust(_LABEL) + " ┤", "muted"), *_runs(cells))
    last = f"event {timeline.index[-1]:,}"
    yield (("0".rjust(_LABEL) + " └", "muted"), ("─" * (len(columns) - len(last) - 1) + " " + last, "muted"))


def _cell(allocated: int, reserved: int, level: float) -> Span:
    if allocated >= level:
        return ("█", "lane0")
    return ("░", "muted") if reserved >= level else (" ", "")


def _columns(timeline: Timeline, width: int) -> list[tuple[int, int]]:
    """The highest (allocated, reserved) of as many equal parts."""
    count = len(timeline.index)
    width = min(width, count)
    parts = [range(count * i // width, count * (i + 1) // width) for i in range(width)]
    return [
        (max(timeline.allocated_bytes[i] for i in part), max(timeline.reserved_bytes[i] for i in part))
        for part in parts
    ]


def segment_lines(segments: Sequence[SegmentRow], width: int) -> Iterator[tuple[Span, ...]]:
    """The largest segments, all at one scale, each with its address, size, pool and stream."""
    shown = sorted(segments, key=lambda segment: -segment.total_size)[:MAX_SEGMENTS]
    if not shown:
        return
    labels = [_segment_label(segment) for segment in shown]
    room = max(16, width - max(map(len, labels)) - 2)
    scale = shown[0].total_size / room
    for segment, label in zip(shown, labels, strict=True):
        yield ((label.ljust(max(map(len, labels))) + "  ", "muted"), *_runs(_segment_cells(segment, scale)))
    if len(segments) > len(shown):
        rest = sum(segment.total_size for segment in segments) - sum(segment.total_size for segment in shown)
        yield ((f"… {len(segments) - len(shown):,} smaller segments of {format_bytes(rest)} in all", "muted"),)


def _segment_label(segment: SegmentRow) -> str:
    kind = f"{segment.segment_type}{' expandable' if segment.is_expandable else ''}"
    pool = "" if tuple(segment.pool_id) == (0, 0) else f" pool {tuple(segment.pool_id)}"
    stream = "" if segment.stream == 0 else f" stream {segment.stream}"
    return f"{segment.address} {format_bytes(segment.total_size):>9} {kind}{pool}{stream}"


def _segment_cells(segment: SegmentRow, scale: float) -> Sequence[Span]:
    """A cell is drawn as what fills most of it."""
    count = max(1, round(segment.total_size / scale))
    weights: list[dict[str, float]] = [{} for _ in range(count)]
    per_cell = segment.total_size / count
    position = 0
    for block in segment.blocks:
        first, last = int(position / per_cell), min(int((position + block.size - 1) / per_cell), count - 1)
        for cell in range(first, last + 1):
            low, high = max(position, cell * per_cell), min(position + block.size, (cell + 1) * per_cell)
            weights[cell][block.state] = weights[cell].get(block.state, 0.0) + high - low
        position += block.size
    return [_SIGNS[max(weight, key=weight.__getitem__)] if weight else ("·", "muted") for weight in weights]


def _runs(cells: Sequence[Span]) -> tuple[Span, ...]:
    """Neighbours of one style as one span."""
    runs: list[Span] = []
    for text, style in cells:
        if runs and runs[-1][1] == style:
            runs[-1] = (runs[-1][0] + text, style)
        else:
            runs.append((text, style))
    return tuple(runs)

"""An allocator as drawings: its course over the events, its segments at one moment, its course under other settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from stridetool.render.drawing.shapes import COLORS, MARGIN, WIDTH, Drawing, cut, label, path, rect, stroke
from stridetool.report.alloc import DeviceReport, SegmentRow
from stridetool.report.film import Course
from stridetool.units import format_bytes

MAX_SEGMENTS = 80
_LEFT, _RIGHT = 90, 24
_ROW, _BAR = 20, 14
_LIVE, _PENDING, _FREE = "active_allocated", "active_pending_free", "inactive"


def device_drawings(report: DeviceReport, courses: Sequence[Course] = ()) -> Iterator[Drawing]:
    """Timeline, segments, and what-if side by side."""
    line = report.timeline
    if len(line.index) > 1:
        ooms = report.outcome.ooms if report.outcome else ()
        events = max(line.index[-1] + 1, *(ooms or (0,)))
        course = Course(
            label="", events=events, index=line.index, allocated_bytes=line.allocated_bytes,
            reserved_bytes=line.reserved_bytes, ooms=ooms,
        )  # fmt: skip
        yield _timeline(report, course)
    if courses:
        yield _side_by_side(report, courses)
    if report.segments:
        yield segments_drawing(report.segments)


def segments_drawing(segments: Sequence[SegmentRow]) -> Drawing:
    """A bar a segment, the largest first; widths go with the square root of sizes, so that small ones are seen."""
    shown = sorted(segments, key=lambda segment: (-segment.total_size, int(segment.address, 16)))[:MAX_SEGMENTS]
    scale = (WIDTH - MARGIN - 260) / max(segment.total_size for segment in shown) ** 0.5
    body = list(_segment_legend())
    streams = {stream: number for number, stream in enumerate(sorted({segment.stream for segment in segments}))}
    for number, segment in enumerate(shown):
        body += _segment(segment, 26 + number * _ROW, scale, streams[segment.stream])
    rest = len(segments) - len(shown)
    height = 26 + len(shown) * _ROW
    if rest:
        body.append(label(MARGIN, height + 12, f"… {rest:,} smaller segments", "s m"))
        height += 18
    total = format_bytes(sum(segment.total_size for segment in segments))
    return Drawing(f"{len(segments):,} segments, {total} reserved", height, body, "segments")


def _timeline(report: DeviceReport, course: Course) -> Drawing:
    top = max((*course.reserved_bytes, report.device.total_bytes or 0, 1))
    if report.device.total_bytes and report.device.total_bytes > 3 * max((*course.reserved_bytes, 1)):
        top = max((*course.reserved_bytes, 1))  # a far capacity would press everything to the ground
    body = list(_axes(MARGIN + _LEFT, 18, WIDTH - MARGIN - _LEFT - _RIGHT, 200, top, course.events))
    body += _plot(course, MARGIN + _LEFT, 18, WIDTH - MARGIN - _LEFT - _RIGHT, 200, top)
    body += _levels(report, MARGIN + _LEFT, 18, WIDTH - MARGIN - _LEFT - _RIGHT, 200, top)
    body += _course_legend()
    return Drawing(f"{report.device.name}: {report.settings or 'default settings'}", 256, body, "timeline")


def _course_legend() -> Iterator[str]:
    x: float = MARGIN + _LEFT
    for style, text in (("l4 t", "reserved"), ("arrow", "allocated"), ("roof", "capacity"), ("line", "floor")):
        if style == "l4 t":
            yield rect(x, 1, 14, 10, style)
        else:
            yield stroke(x, 6, x + 14, 6, style)
        yield label(x + 19, 10, text, "s m")
        x += 100
    yield path(f"M{x:.0f} 1h10l-5 9z", "usedbad")
    yield label(x + 16, 10, "out of memory", "s m")


def _axes(x: float, y: float, width: float, height: float, top: int, events: int) -> Iterator[str]:
    for quarter in range(5):
        level = y + height - height * quarter / 4
        yield stroke(x, level, x + width, level, "base")
        yield label(x - 6, level + 4, format_bytes(top * quarter // 4), "x m end")
    for quarter in range(5):
        yield label(x + width * quarter / 4, y + height + 14, f"{events * quarter // 4:,}", "x m mid")


def _plot(course: Course, x: float, y: float, width: float, height: float, top: int) -> Iterator[str]:
    """The reserved bytes as an area of steps, the allocated ones as a line, each failure as a mark."""

    def place(index: int) -> float:
        return x + width * index / max(course.events, 1)

    def level(nbytes: int) -> float:
        return y + height - height * min(nbytes, top) / top

    reserved = _by_pixel(course.index, course.reserved_bytes, place)
    steps = "".join(f"H{at}V{level(nbytes):.1f}" for at, nbytes in reserved)
    yield path(f"M{x:.1f} {y + height:.1f}{steps}H{x + width:.1f}V{y + height:.1f}z", "l4 t")
    points = (f"{at} {level(nbytes):.1f}" for at, nbytes in _by_pixel(course.index, course.allocated_bytes, place))
    yield path("M" + "L".join(points), "arrow")
    marks = dict.fromkeys(round(place(index), 1) for index in course.ooms)
    for at in list(marks)[:200]:
        yield path(f"M{at - 5:.1f} {y - 2:.1f}h10l-5 9z", "usedbad", "out of memory")


def _by_pixel(index: Sequence[int], nbytes: Sequence[int], place: Callable[[int], float]) -> list[tuple[int, int]]:
    """The most of what falls on a pixel, from left to right."""
    most: dict[int, int] = {}
    for i, n in zip(index, nbytes, strict=True):
        at = round(place(i))
        most[at] = max(most.get(at, 0), n)
    return list(most.items())


def _levels(report: DeviceReport, x: float, y: float, width: float, height: float, top: int) -> Iterator[str]:
    """Capacity and floor as lines across, where they are within the picture."""
    for nbytes, style, name in ((report.device.total_bytes, "roof", "capacity"), (report.floor_bytes, "line", "floor")):
        if nbytes and nbytes <= top:
            level = y + height - height * nbytes / top
            at, side = (x + width, "end") if name == "capacity" else (x + 4, "")
            yield stroke(x, level, x + width, level, style)
            below = name == "floor"  # the capacity is seldom far above it
            yield label(at, level + (12 if below else -4), f"{name} {format_bytes(nbytes)}", f"x m halo {side}".strip())


def _side_by_side(report: DeviceReport, courses: Sequence[Course]) -> Drawing:
    """The same timeline under each setting, all on one scale, the floor dashed in each."""
    floor, rest = courses[0], courses[1:]
    top = max(max((*course.reserved_bytes, 1)) for course in courses)
    rows = {row.settings: row for row in report.what_if if row.start != "warm"}
    body: list[str] = []
    width, height = (WIDTH - 2 * MARGIN - 2 * 84 - 20) / 2, 90
    for number, course in enumerate(rest):
        x, y = MARGIN + 76 + number % 2 * (width + 104), number // 2 * 160 + 30
        row = rows.get(course.label)
        body.append(label(x - 70, y - 14, cut(course.label or "default settings", width + 80), "s b"))
        body += _axes(x, y, width, height, top, course.events)
        body += _plot(course, x, y, width, height, top)
        body.append(_floor_line(floor, x, y, width, height, top))
        if row is not None:
            fails = f", {row.ooms} fail" if row.ooms else ""
            words = f"peak {format_bytes(row.peak_reserved_bytes)} reserved{fails}, {row.device_calls:,} device calls"
            body.append(label(x - 70, y + height + 32, words, f"s {'bad' if row.ooms else 'm'}"))
    lines = -(-len(rest) // 2)
    title = f"what if: the same requests under other settings (floor {format_bytes(report.floor_bytes)}, dashed)"
    return Drawing(title, lines * 160 + 4, body, "what-if")


def _floor_line(floor: Course, x: float, y: float, width: float, height: float, top: int) -> str:
    line = _by_pixel(floor.index, floor.allocated_bytes, lambda i: x + width * i / max(floor.events, 1))
    points = (f"{at} {y + height - height * nbytes / top:.1f}" for at, nbytes in line)
    return path("M" + "L".join(points), "arrow floor")


def _segment_legend() -> Iterator[str]:
    x: float = MARGIN
    for style, text in (("l0", "live (a hue a stream)"), ("twice", "freed, a stream still uses it"), ("edge", "free")):
        yield rect(x, 1, 14, 10, "l0" if style == "twice" else style)
        if style == "twice":
            yield rect(x, 1, 14, 10, style)
        yield label(x + 20, 10, text, "s m")
        x += 60 + 7 * len(text)


def stream_text(stream: int) -> str:
    """Torch names a stream by its handle, an address but for the default one."""
    return str(stream) if stream < 10_000 else hex(stream)


def _segment(segment: SegmentRow, y: float, scale: float, hue: int) -> Iterator[str]:
    """One bar; small neighbours of one state are one shape."""
    left, width = MARGIN + 230, max(4.0, segment.total_size**0.5 * scale)
    kind = "expandable" if segment.is_expandable else segment.segment_type
    facts = f"{format_bytes(segment.total_size)} {kind}, stream {stream_text(segment.stream)}"
    yield label(MARGIN, y + 11, cut(facts, 224), "x")
    yield rect(left, y, width, _BAR, "edge", f"{segment.address}: {facts}")
    px = width / max(segment.total_size, 1)
    at = 0.0
    start, state, held = 0.0, "", [0, 0]
    for block in segment.blocks:
        size = block.size * px
        if block.state != state or size >= 3:
            yield from _piece(left + start, y, at - start, state, hue, held)
            start, state, held = at, block.state, [0, 0]
        held[0] += 1
        held[1] += block.size
        at += size
    yield from _piece(left + start, y, at - start, state, hue, held)


def _piece(x: float, y: float, width: float, state: str, hue: int, held: Sequence[int]) -> Iterator[str]:
    if width < 0.3 or not state or state == _FREE:
        return
    words = f"{held[0]} block{'' if held[0] == 1 else 's'}, {format_bytes(held[1])}, {state.replace('_', ' ')}"
    gap = 0.6 if width > 4 else 0
    yield rect(x, y, width - gap, _BAR, f"l{hue % COLORS}", words)
    if state != _LIVE:
        yield rect(x, y, width - gap, _BAR, "twice", words)

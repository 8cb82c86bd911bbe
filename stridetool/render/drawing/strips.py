"""A storage as a strip with a lane per tensor on one byte ruler.

Shapes say the state of a cell, colours only whose it is: filled (reached), a bar (reached in part, as high as the
share), a dot (skipped, between the first and the last byte reached), crossed (reached by more than one index of the
tensor). The last lane counts who shares. Dashed marks begin cache lines, solid ones pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stridetool.render.drawing.shapes import COLORS, MARGIN, WIDTH, Drawing, attributes, cut, label, path, rect, stroke
from stridetool.render.layout import sizes_text, strides_text
from stridetool.render.strip import PAGE, mark_step, short_bytes, unit_text
from stridetool.report.inspect import Picture, TensorRow

LEFT = 170
MAX_LANES = 16
_ROOM = WIDTH - LEFT - MARGIN
_CELL_MIN, _CELL_MAX, _BAR, _LANE = 4.0, 30.0, 16, 38
_MARK_PX = 56  # a mark needs room for its number


def strip_drawing(
    picture: Picture, tensors: dict[str, TensorRow], origin: int, title: str, *, records: bool = False
) -> Drawing:
    """The drawing of one storage. `tensors` by name give the facts below each lane, where there are any.

    With `records` it is a whole file, and the last lane counts the records that begin in a cell.
    """
    count = len(picture.shared)
    cell = min(_CELL_MAX, max(_CELL_MIN, _ROOM / max(count, 1)))
    lanes = list(zip(picture.tensors, picture.lanes, strict=True))[:MAX_LANES]
    body: list[str] = []
    y = 34.0 + _numbers_height(picture, tensors, cell)
    marks_end = y + _LANE * len(lanes) - 18
    body += _marks(picture, origin, cell, marks_end)
    body += _numbers(picture, tensors, cell)
    for number, (name, lane) in enumerate(lanes):
        again = picture.repeated[number] if number < len(picture.repeated) else ()
        body += _lane(name, lane, again, picture, cell, y, number, tensors.get(name))
        y += _LANE
    if len(picture.tensors) > MAX_LANES:
        body.append(label(MARGIN, y, f"… {len(picture.tensors) - MAX_LANES:,} more lanes", "m"))
        y += 20
    if max(picture.shared, default=0) > (not records):
        body += _counts(picture, cell, y, records)
        y += 26
    data = {
        "data_storage": picture.storage,
        "data_origin": origin,
        "data_left": LEFT,
        "data_cell": picture.bytes_per_cell,
        "data_px": f"{cell:.4f}",
    }
    return Drawing(title, y, body, "strip", data)


def legend(pictures: Sequence[Picture]) -> Drawing:
    """The shapes and what they mean; of these only the crossed one is left out where nothing is reached twice."""
    entries = ["reached", "in part", "skipped", *(["reached more than once"] if any(map(_repeats, pictures)) else [])]
    body: list[str] = []
    x: float = MARGIN
    for entry in entries:
        body += _sign(entry, x)
        body.append(label(x + 24, 13, entry, "s m"))
        x += 40 + len(entry) * 7
    for style, entry in (("line", "cache line, 64 B"), ("pg", "page, 4 KiB")):
        body += [stroke(x + 8, 0, x + 8, 16, style), label(x + 18, 13, entry, "s m")]
        x += 36 + len(entry) * 7
    return Drawing("", 18, body, "legend")


def facts_text(tensor: TensorRow) -> str:
    """`float32 [4, 6] (6, 1)+0`"""
    unit = "" if tensor.stride_unit_bytes == tensor.itemsize else " B"
    return f"{tensor.dtype} {sizes_text(tensor.sizes)} {strides_text(tensor.strides)}{unit}+{tensor.storage_offset}"


def _repeats(picture: Picture) -> bool:
    return any(map(any, picture.repeated))


def _sign(entry: str, x: float) -> Iterator[str]:
    if entry == "skipped":
        yield rect(x + 7, 7, 3, 3, "dot")
        return
    yield rect(x, 0, 16, 16, "edge")
    yield rect(x, 9, 16, 7, "l0") if entry == "in part" else rect(x, 0, 16, 16, "l0")
    if entry == "reached more than once":
        yield rect(x, 0, 16, 16, "twice")


def _marks(picture: Picture, origin: int, cell: float, end: float) -> Iterator[str]:
    """Cache-line and page marks over all lanes, at addresses that are multiples of the step."""
    width, count = picture.bytes_per_cell, len(picture.shared)
    step = mark_step(width, 1 << (-(-_MARK_PX // int(cell)) - 1).bit_length())
    if width >= PAGE:
        origin = 0  # a cell holds whole pages: round numbers are worth more
    yield label(LEFT, 12, "0", "s m")
    first = -origin % step
    for byte in range(0 if first == 0 else first, count * width, step):
        x = LEFT + byte / width * cell
        page = width < PAGE and (origin + byte) % PAGE == 0
        yield stroke(x, 16, x, end, "pg" if page else "line")
        if 24 <= x - LEFT <= _ROOM - 34:
            yield label(x, 12, short_bytes(byte), "s m")
    yield label(MARGIN, 12, f"{unit_text(width)} a cell", "s m")


def _element_size(picture: Picture, tensors: dict[str, TensorRow], cell: float) -> int:
    """The item size where each cell is one element and has room for its number, else 0."""
    sizes = {tensors[name].itemsize for name in picture.tensors if name in tensors}
    fits = cell >= 8 + 6.2 * len(str(len(picture.shared)))
    return picture.bytes_per_cell if sizes == {picture.bytes_per_cell} and fits else 0


def _numbers_height(picture: Picture, tensors: dict[str, TensorRow], cell: float) -> float:
    return 14.0 if _element_size(picture, tensors, cell) else 0.0


def _numbers(picture: Picture, tensors: dict[str, TensorRow], cell: float) -> Iterator[str]:
    """The element offsets above the cells."""
    if _element_size(picture, tensors, cell):
        yield label(MARGIN, 30, "offset", "s m")
        for j in range(len(picture.shared)):
            yield label(LEFT + (j + 0.5) * cell, 30, str(j), "x m mid")


def _lane(
    name: str,
    lane: Sequence[float],
    again: Sequence[float],
    picture: Picture,
    cell: float,
    y: float,
    number: int,
    tensor: TensorRow | None,
) -> Iterator[str]:
    """The name, the cells (neighbours of one state as one shape), and the facts below."""
    top = y - _BAR + 4
    data = _lane_data(tensor) if tensor is not None else ""
    yield f'<g class="lane"{data}>'
    yield label(MARGIN, y, cut(name, LEFT - MARGIN - 8), "b")
    yield stroke(LEFT, top + _BAR + 1, LEFT + len(lane) * cell, top + _BAR + 1, "base")
    reached = [j for j, share in enumerate(lane) if share > 0]
    inside = range(reached[0], reached[-1]) if reached else range(0)
    for start, end in _groups(lane, again):
        x, width, share = LEFT + start * cell, (end - start) * cell, lane[start]
        where = f"{name}: bytes {start * picture.bytes_per_cell:,} to {end * picture.bytes_per_cell:,}"
        if share > 0:
            height = max(2.0, _BAR * share)
            twice = bool(again and again[start])
            what = "reached" if share >= 1 else f"{share:.0%} reached"
            if share < 1 and cell >= 16:
                yield rect(x, top, width, _BAR, "edge")
            title = f"{where}, {what}{', by more than one index' if twice else ''}"
            yield rect(x, top + _BAR - height, width, height, f"l{number % COLORS}", title)
            if twice:
                yield rect(x, top + _BAR - height, width, height, "twice", title)
        elif start in inside:
            yield _dots(start, end, cell, top + _BAR / 2)
    if cell >= 8:
        yield path("".join(f"M{LEFT + j * cell:.1f} {top:.0f}v{_BAR}" for j in range(len(lane) + 1)), "gap")
    if tensor is not None:
        yield label(LEFT + 4, top + _BAR + 13, cut(facts_text(tensor), _ROOM), "x m")
    yield "</g>\n"


def _lane_data(tensor: TensorRow) -> str:
    """What a script needs to go from a byte back to an index."""
    values = {
        "name": tensor.name,
        "sizes": ",".join(map(str, tensor.sizes)),
        "strides": ",".join(map(str, tensor.strides)),
        "offset": tensor.storage_offset,
        "unit": tensor.stride_unit_bytes,
        "itemsize": tensor.itemsize,
    }
    return attributes({f"data-{key}": value for key, value in values.items()})


def _groups(lane: Sequence[float], again: Sequence[float]) -> Iterator[tuple[int, int]]:
    start = 0
    for j in range(1, len(lane) + 1):
        if j == len(lane) or lane[j] != lane[start] or bool(again and again[j]) != bool(again and again[start]):
            yield start, j
            start = j


def _dots(start: int, end: int, cell: float, y: float) -> str:
    """A dot in each skipped cell, as one path."""
    size = min(3.0, cell / 2)
    half = size / 2
    square = f"h{size:.1f}v{size:.1f}h-{size:.1f}z"
    lefts = (LEFT + (j + 0.5) * cell - half for j in range(start, end))
    return path("".join(f"M{left:.1f} {y - half:.1f}{square}" for left in lefts), "dot")


def _counts(picture: Picture, cell: float, y: float, records: bool) -> Iterator[str]:
    """How many share each cell: a number where there is room, and a bar as high as the share of the largest count."""
    yield label(MARGIN, y, "records" if records else "shared by", "m")
    does = "begin here" if records else "share these bytes"
    most = max(picture.shared)
    start = 0
    for j in range(1, len(picture.shared) + 1):
        if j < len(picture.shared) and picture.shared[j] == picture.shared[start]:
            continue
        k, width = picture.shared[start], (j - start) * cell
        if k > (not records):
            height = max(2.0, 14 * k / most)
            yield rect(LEFT + start * cell, y + 3 - height, width, height, "l7 t", f"{k} {does}")
            if width >= len(str(k)) * 7:
                yield label(LEFT + (start + j) / 2 * cell, y, str(k), "s mid")
        start = j

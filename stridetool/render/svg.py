"""A report as one self-contained SVG: strips with lanes, and grids of offsets. No script, no font, no network."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from stridetool.render.blocks import printable
from stridetool.render.layout import sizes_text, strides_text
from stridetool.report.envelope import Envelope
from stridetool.report.inspect import InspectReport, Picture, TensorRow
from stridetool.units import format_bytes

_CELL, _LANE, _LABEL, _MARGIN = 10, 18, 190, 16
_MAX_STRIPS = 40
# Okabe and Ito's palette: told apart by colour-blind readers; lanes also differ by their names.
_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999")
_STYLE = (
    "text{font:12px ui-monospace,monospace;fill:#222}.m{fill:#777}.b{font-weight:bold}"
    ".e{fill:none;stroke:#bbb}.t{stroke:#bbb}.bg{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.m{fill:#999}.e,.t{stroke:#555}.bg{fill:#111}}"
)


def inspect_svg(document: Envelope[InspectReport]) -> Iterator[str]:
    """The SVG in chunks, its height known first."""
    report = document.report
    tensors = {(tensor.storage, tensor.name): tensor for tensor in report.tensors}
    body: list[str] = []
    y = _MARGIN + 14
    for picture in report.pictures[:_MAX_STRIPS]:
        body += _strip(picture, tensors, y)
        y += _LANE * (len(picture.tensors) + 3)
    if not body:
        body.append(_text(_MARGIN, y, "no tensor with memory", "m"))
        y += _LANE
    cells = max((len(picture.shared) for picture in report.pictures[:_MAX_STRIPS]), default=0)
    width = 2 * _MARGIN + _LABEL + max(cells * _CELL, 200) + 330
    yield f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" viewBox="0 0 {width} {y}">\n'
    yield f'<style>{_STYLE}</style>\n<rect class="bg" width="{width}" height="{y}"/>\n'
    yield from body
    yield "</svg>\n"


def _strip(picture: Picture, tensors: dict[tuple[str | None, str], TensorRow], y: int) -> Iterator[str]:
    left = _MARGIN + _LABEL
    nbytes = format_bytes(len(picture.shared) * picture.bytes_per_cell)
    yield _text(_MARGIN, y, f"{picture.storage}  {nbytes}, {picture.bytes_per_cell} B a cell", "b")
    for cell in range(0, len(picture.shared), max(64 // picture.bytes_per_cell, 8)):
        x = left + cell * _CELL
        yield _text(x + 2, y, str(cell * picture.bytes_per_cell), "m")
        yield f'<line class="t" x1="{x}" x2="{x}" y1="{y - 10}" y2="{y + _LANE * len(picture.tensors) + 6}"/>\n'
    for number, (name, lane) in enumerate(zip(picture.tensors, picture.lanes, strict=True)):
        top = y + _LANE * (number + 1)
        yield _text(_MARGIN, top, name)
        yield from _lane(lane, left, top - 12, _COLORS[number % len(_COLORS)])
        tensor = tensors.get((picture.storage, name))
        if tensor is not None:
            facts = f"{tensor.dtype} {sizes_text(tensor.sizes)} {strides_text(tensor.strides)}+{tensor.storage_offset}"
            yield _text(left + len(lane) * _CELL + 10, top, facts, "m")


def _lane(lane: tuple[float, ...], left: int, top: int, color: str) -> Iterator[str]:
    """Neighbouring cells of one share are one rectangle; a cell reached in part is as high as its share."""
    start = 0
    for cell in range(1, len(lane) + 1):
        if cell < len(lane) and lane[cell] == lane[start]:
            continue
        x, width, share = left + start * _CELL, (cell - start) * _CELL, lane[start]
        yield f'<rect class="e" x="{x}" y="{top}" width="{width}" height="14"/>'
        if share > 0:
            height = max(2.0, 14 * share)
            yield f'<rect x="{x}" y="{top + 14 - height:.1f}" width="{width}" height="{height:.1f}" fill="{color}"/>'
        yield "\n"
        start = cell


def _text(x: int, y: int, text: str, style: str = "") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text x="{x}" y="{y}"{kind}>{escape(printable(text))}</text>\n'

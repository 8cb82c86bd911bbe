"""A drawing and the few shapes that it is made of: here, and only here, text and attributes are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from stridetool.render.blocks import printable
from stridetool.render.page import asset

WIDTH = 960
MARGIN = 16
CHARACTER = 7.3  # px of a monospace character at 12 px
COLORS = 8  # classes l0 … l7: Okabe and Ito's palette, told apart by colour-blind readers


@dataclass(frozen=True, slots=True)
class Drawing:
    """Shapes in a box of `WIDTH` x `height`, under a title."""

    title: str
    height: float
    body: Sequence[str]
    kind: str = ""
    data: Mapping[str, object] = field(default_factory=dict)


def number(value: float) -> str:
    """A coordinate: at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def attributes(values: Mapping[str, object]) -> str:
    """` name="value"` of each, escaped; `data_byte` becomes `data-byte`."""
    return "".join(f' {name.replace("_", "-")}="{escape(printable(str(value)))}"' for name, value in values.items())


def rect(x: float, y: float, width: float, height: float, style: str = "", title: str = "", **more: object) -> str:
    """A rectangle; `title` is shown when the pointer rests on it, with or without script."""
    inside = f"<title>{escape(printable(title))}</title>" if title else ""
    kind = f' class="{style}"' if style else ""
    box = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
    return f"<rect{kind} {box}{attributes(more)}" + (f">{inside}</rect>" if inside else "/>")


def label(x: float, y: float, text: str, style: str = "", **more: object) -> str:
    """A line of text, its base line at `y`; `end` and `mid` in `style` anchor it elsewhere than at its start."""
    kind = f' class="{style}"' if style else ""
    return f'<text x="{number(x)}" y="{number(y)}"{kind}{attributes(more)}>{escape(printable(text))}</text>'


def stroke(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    """A straight line."""
    ends = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
    return f'<line class="{style}" {ends}/>'


def path(points: str, style: str, title: str = "") -> str:
    """A path from its `d` (numbers and commands of ours)."""
    inside = f"<title>{escape(printable(title))}</title>" if title else ""
    return f'<path class="{style}" d="{points}"' + (f">{inside}</path>" if inside else "/>")


def cut(text: str, width: float) -> str:
    """`text` shortened to what `width` px hold."""
    room = max(1, int(width / CHARACTER))
    return text if len(text) <= room else text[: room - 1] + "…"


def document(drawings: Iterable[Drawing], title: str) -> Iterator[str]:
    """One SVG with the drawings below each other."""
    parts: list[str] = []
    y: float = MARGIN
    for drawing in drawings:
        parts.append(f'<g transform="translate(0 {number(y)})">{label(MARGIN, 14, drawing.title, "h")}')
        parts.append(f'<g transform="translate(0 24)">{"".join(drawing.body)}</g></g>\n')
        y += drawing.height + 24 + MARGIN
    size = f'width="{WIDTH}" height="{number(y)}" viewBox="0 0 {WIDTH} {number(y)}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n'
    yield f"<title>{escape(printable(title))}</title>\n<style>{asset('picture.css')}</style>\n{_PATTERN}\n"
    yield f'<rect class="bg" width="{WIDTH}" height="{number(y)}"/>\n'
    yield from parts
    yield "</svg>\n"


def figure(drawing: Drawing) -> str:
    """The drawing in a page: its own SVG under a caption."""
    box = f'viewBox="0 0 {WIDTH} {number(drawing.height)}" width="{WIDTH}" height="{number(drawing.height)}"'
    return (
        f'<figure class="{drawing.kind}"{attributes(drawing.data)}><figcaption>{escape(printable(drawing.title))}'
        f'</figcaption><svg role="img" aria-label="{escape(printable(drawing.title))}" {box}>'
        f"{''.join(drawing.body)}</svg></figure>\n"
    )


def pattern_source() -> str:
    """The hatch of what is reached more than once, for a page that holds drawings."""
    return f'<svg width="0" height="0" aria-hidden="true" style="position:absolute">{_PATTERN}</svg>\n'


_PATTERN = (
    '<defs><pattern id="again" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<path class="again" d="M0 0l6 6M6 0l-6 6"/></pattern></defs>'
)

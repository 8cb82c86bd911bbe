"""The neutral document between a report and its text: headings, lines, tables and pictures, without a width.

What a report says is decided once, when it becomes blocks; the writers (`plain.py`, `terminal.py`,
`html.py`) only lay blocks out. Styles are words about meaning, never colours: `""`, `name`, `number`,
`good`, `warn`, `bad`, `muted`, and `lane0` … `lane7` for things told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Span = tuple[str, str]  # (text, style)


@dataclass(frozen=True, slots=True)
class Heading:
    """A section title."""

    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text in spans."""

    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title and to which side its cells lean."""

    title: str
    align: Literal["left", "right"] = "left"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows may be an iterator: a writer then streams them. A cell is text, or text with a style."""

    columns: tuple[Column, ...]
    rows: Iterable[Sequence[str | Span]]


@dataclass(frozen=True, slots=True)
class Picture:
    """Lines of fixed-width cells that must not be wrapped, escaped or coloured otherwise than said."""

    lines: Iterable[tuple[Span, ...]]


Block = Heading | Line | Table | Picture


_SIGNS = str.maketrans(
    {
        "→": ">", "↓": "v", "…": "~",
        "█": "#", "·": ".", "╳": "!", "╿": "P", "╷": "|", "╵": "'", "─": "-", "│": "|", "▸": ">", "✗": "x", "×": "x",
        **{bar: str(eighths) for eighths, bar in enumerate("▁▂▃▄▅▆▇", 1)},
    }
)  # fmt: skip
_WORDS = str.maketrans({"→": "->", "…": "...", "–": "-", "≤": "<=", "≥": ">=", "±": "+-"})


def ascii_blocks(blocks: Iterable[Block]) -> Iterator[Block]:
    """The same blocks in ASCII alone: bars become digits (eighths), full cells `#`, other signs escapes."""
    for block in blocks:
        if isinstance(block, Heading):
            yield Heading(_ascii(block.text))
        elif isinstance(block, Line):
            yield Line(tuple((_ascii(text), style) for text, style in block.spans))
        elif isinstance(block, Table):
            columns = tuple(Column(_ascii(column.title), column.align) for column in block.columns)
            yield Table(columns, (tuple(map(_ascii_cell, row)) for row in block.rows))
        else:
            yield Picture([tuple((_sign(text), style) for text, style in spans) for spans in block.lines])


def line(*parts: str | Span) -> Line:
    """A line from texts and (text, style) spans."""
    return Line(tuple(part if isinstance(part, tuple) else (part, "") for part in parts))


def _ascii(text: str) -> str:
    return _sign(text.translate(_WORDS))


def _sign(text: str) -> str:
    """A sign for a sign, so that pictures keep their columns."""
    return printable(text).translate(_SIGNS).encode("ascii", "backslashreplace").decode("ascii")


def _ascii_cell(cell: str | Span) -> str | Span:
    return (_ascii(cell[0]), cell[1]) if isinstance(cell, tuple) else _ascii(cell)


def printable(text: str) -> str:
    """`text` with control, escape, bidirectional and unprintable characters written as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)

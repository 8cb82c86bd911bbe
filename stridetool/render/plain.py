"""Blocks to plain text at full width: for pipes, files and long tables. Rows are streamed, memory stays flat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from stridetool.render.blocks import Block, Column, Heading, Line, Picture, Span, Table, printable

_MEASURED_ROWS = 500  # a table's column widths come from its first rows; later cells may be wider

_ANSI = {
    "name": "1",
    "number": "36",
    "good": "32",
    "warn": "33",
    "bad": "31",
    "muted": "2",
    "heading": "1",
    **{f"lane{i}": str(code) for i, code in enumerate((34, 33, 36, 35, 32, 94, 95, 96))},
}


def write_plain(blocks: Iterable[Block], *, color: bool = False) -> Iterator[str]:
    """Lines of text, each with its newline. With `color`, styles become ANSI sequences."""
    first = True
    for block in blocks:
        if isinstance(block, Heading):
            yield ("" if first else "\n") + _styled((block.text, "heading"), color) + "\n"
        elif isinstance(block, Line):
            yield "".join(_styled(span, color) for span in block.spans).rstrip() + "\n"
        elif isinstance(block, Table):
            yield from _table(block, color)
        else:
            yield from _picture(block, color)
        first = False


def _picture(picture: Picture, color: bool) -> Iterator[str]:
    for spans in picture.lines:
        yield "".join(_styled(span, color) for span in spans).rstrip() + "\n"


def _table(table: Table, color: bool) -> Iterator[str]:
    rows = (tuple(_span(cell) for cell in row) for row in table.rows)
    head = list(islice(rows, _MEASURED_ROWS))
    titles = tuple((column.title, "muted") for column in table.columns)
    widths = [max(len(row[i][0]) for row in (titles, *head)) for i in range(len(table.columns))]
    for row in chain((titles,), head, rows):
        yield _row(row, table.columns, widths, color)


def _row(row: Sequence[Span], columns: Sequence[Column], widths: Sequence[int], color: bool) -> str:
    cells = []
    for (text, style), column, width in zip(row, columns, widths, strict=True):
        pad = " " * (width - len(text))
        styled = _styled((text, style), color)
        cells.append(pad + styled if column.align == "right" else styled + pad)
    return "  ".join(cells).rstrip() + "\n"


def _span(cell: str | Span) -> Span:
    text, style = cell if isinstance(cell, tuple) else (cell, "")
    return printable(text), style


def _styled(span: Span, color: bool) -> str:
    text, style = printable(span[0]), span[1]
    code = _ANSI.get(style) if color else None
    return text if code is None or not text else f"\x1b[{code}m{text}\x1b[0m"

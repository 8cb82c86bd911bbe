"""Blocks through Rich: for a terminal, where tables should fit the width and long cells may fold.

Rich costs about 0.7 ms a row, so tables beyond `MAX_ROWS` rows go the plain way. Markup, emoji and highlighting
are off and data is always `Text`: Rich would eat `x[b, t]` and turn `x[0:100:2]` into a sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from stridetool.render.blocks import Block, Heading, Line, Span, Table, printable
from stridetool.render.plain import write_plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

MAX_ROWS = 200

_STYLES = {
    "name": "bold",
    "number": "cyan",
    "good": "green",
    "warn": "yellow",
    "bad": "red",
    "muted": "dim",
    **{f"lane{i}": c for i, c in enumerate(("blue", "yellow", "cyan", "magenta", "green", "bright_blue"))},
    "lane6": "bright_magenta",
    "lane7": "bright_cyan",
}


def write_terminal(blocks: Iterable[Block], width: int, *, color: bool) -> Iterator[str]:
    """Text for a terminal of `width` columns, a block at a time."""
    console = _console(width, color)
    for number, block in enumerate(blocks):
        if isinstance(block, Heading):
            yield "\n" * (number > 0) + _printed(console, _text(((block.text, "name"),)))
        elif isinstance(block, Line):
            yield _printed(console, _text(block.spans))
        elif isinstance(block, Table):
            yield from _table(console, block, color)
        else:
            yield from write_plain([block], color=color)


def _console(width: int, color: bool) -> Console:
    """The one place that makes a console, so that its settings cannot differ."""
    from rich.console import Console

    return Console(
        width=width,
        markup=False,
        emoji=False,
        highlight=False,
        force_terminal=color,
        no_color=not color,
        color_system="standard" if color else None,
        soft_wrap=False,
    )


def _printed(console: Console, content: object) -> str:
    with console.capture() as captured:
        console.print(content)
    return captured.get()


def _text(spans: Iterable[Span]) -> Text:
    from rich.text import Text

    text = Text()
    for part, style in spans:
        text.append(printable(part), _STYLES.get(style, ""))
    return text


def _table(console: Console, block: Table, color: bool) -> Iterator[str]:
    from rich.table import Table as RichTable

    rows = iter(block.rows)
    head = list(islice(rows, MAX_ROWS + 1))
    if len(head) > MAX_ROWS:
        yield from write_plain([Table(block.columns, chain(head, rows))], color=color)
        return
    table = RichTable(box=None, pad_edge=False, header_style="dim")
    for column in block.columns:
        table.add_column(_text(((column.title, ""),)), justify=column.align, overflow="fold")
    for row in head:
        table.add_row(*(_text((cell if isinstance(cell, tuple) else (cell, ""),)) for cell in row))
    yield _printed(console, table)

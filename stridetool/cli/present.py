"""Blocks to the text, the page or the terminal that the options ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TextIO

from stridetool.cli.output import Output, terminal_width
from stridetool.render.blocks import Block, ascii_blocks
from stridetool.render.plain import write_plain


def text_of(title: str, blocks: Iterable[Block], where: Output) -> Iterator[str]:
    """HTML where it was asked for; else text: through Rich on a terminal, plain and at full width elsewhere."""
    if where.format == "html":
        from stridetool.render.html import write_html

        return write_html(title, blocks)
    if where.path is None and not _can_draw(where.stdout):
        blocks = ascii_blocks(blocks)
    if where.path is None and where.stdout.isatty():
        from stridetool.render.terminal import write_terminal

        return write_terminal(blocks, terminal_width(), color=where.color)
    return write_plain(blocks, color=where.color)


def _can_draw(stream: TextIO) -> bool:
    """Whether the encoding of the terminal has the signs of our pictures."""
    try:
        "█▁╷→…".encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True

"""A report as one self-contained HTML page: the same blocks as the text, with drawings, and a script only where given.

A content policy in the page forbids every request and `eval`, whatever is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from stridetool.render.blocks import Block, Heading, Line, Span, Table, printable
from stridetool.render.page import asset

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def write_html(title: str, blocks: Iterable[Block], figures: Iterable[str] = (), script: str = "") -> Iterator[str]:
    """The page in chunks; `figures` (markup of ours) stand on top, `script` (code of ours) at the end."""
    yield f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_escaped(title)}</title>\n'
    yield f'<meta HTTP-EQUIV="Content-Security-Policy" content="{_POLICY}">\n'
    yield '<meta name="viewport" content="width=device-width">\n'
    yield f"<style>{asset('picture.css')}{asset('page.css')}</style></head>\n<body>\n<h1>{_escaped(title)}</h1>\n"
    yield from figures
    for block in blocks:
        if isinstance(block, Heading):
            yield f"<h2>{_escaped(block.text)}</h2>\n"
        elif isinstance(block, Line):
            yield f"<pre>{_spans(block.spans)}</pre>\n"
        elif isinstance(block, Table):
            yield from _table(block)
        else:
            yield '<pre class="picture">' + "\n".join(_spans(spans) for spans in block.lines) + "</pre>\n"
    if script:
        yield f"<script>{script}</script>\n"
    yield "</body></html>\n"


def _table(table: Table) -> Iterator[str]:
    kinds = [f' class="{column.align}"' if column.align == "right" else "" for column in table.columns]
    titles = (f"<th{kind}>{_escaped(c.title)}</th>" for c, kind in zip(table.columns, kinds, strict=True))
    yield f"<table><tr>{''.join(titles)}</tr>\n"
    for row in table.rows:
        cells = (cell if isinstance(cell, tuple) else (cell, "") for cell in row)
        yield "<tr>" + "".join(f"<td{k}>{_span(cell)}</td>" for cell, k in zip(cells, kinds, strict=True)) + "</tr>\n"
    yield "</table>\n"


def _spans(spans: Iterable[Span]) -> str:
    return "".join(map(_span, spans))


def _span(span: Span) -> str:
    text = _escaped(span[0])
    return f'<span class="{span[1]}">{text}</span>' if span[1] else text


def _escaped(text: str) -> str:
    return escape(printable(text))

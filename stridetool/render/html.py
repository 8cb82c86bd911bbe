"""A report as one self-contained HTML page: the same blocks as the text, with the picture in it. No script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from stridetool.render.blocks import Block, Heading, Line, Span, Table, printable

_STYLE = """
:root{color-scheme:light dark}
body{font:14px/1.5 ui-monospace,monospace;margin:2em;max-width:120em}
table{border-collapse:collapse}th{text-align:left;font-weight:normal;opacity:.6}
td,th{padding:.1em 1.2em .1em 0;white-space:pre}td.right,th.right{text-align:right}
pre{margin:.4em 0;line-height:1.25}h2{font-size:1.1em;margin:1.4em 0 .3em}
.name{font-weight:bold}.good{color:#009e73}.warn{color:#b8860b}.bad{color:#d55e00;font-weight:bold}.muted{opacity:.6}
.lane0{color:#0072b2}.lane1{color:#e69f00}.lane2{color:#009e73}.lane3{color:#cc79a7}
.lane4{color:#56b4e9}.lane5{color:#d55e00}.lane6{color:#8a6d00}.lane7{color:#777}
"""


def write_html(title: str, blocks: Iterable[Block], picture: Iterable[str] = ()) -> Iterator[str]:
    """The page in chunks; `picture` is an SVG that stands on top."""
    yield f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{_escaped(title)}</title>\n'
    yield f"<style>{_STYLE}</style>\n<body>\n"
    yield from picture
    for block in blocks:
        if isinstance(block, Heading):
            yield f"<h2>{_escaped(block.text)}</h2>\n"
        elif isinstance(block, Line):
            yield f"<pre>{_spans(block.spans)}</pre>\n"
        elif isinstance(block, Table):
            yield from _table(block)
        else:
            yield "<pre>" + "\n".join(_spans(spans) for spans in block.lines) + "</pre>\n"
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

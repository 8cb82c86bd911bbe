"""The report of `inspect` as a page: drawings that answer to the pointer and the keys, then the usual text."""

from __future__ import annotations

from collections.abc import Iterator

from stridetool.render.drawing.shapes import figure, pattern_source
from stridetool.render.html import write_html
from stridetool.render.inspect_text import inspect_blocks
from stridetool.render.page import asset
from stridetool.render.svg import inspect_drawings
from stridetool.report.envelope import Envelope
from stridetool.report.inspect import InspectReport

_HINT = "Point at a cell, or focus a grid (Tab) and use the arrow keys: index → offset → byte → address → value."


def inspect_page(document: Envelope[InspectReport]) -> Iterator[str]:
    """The page in chunks."""
    source = document.report.source
    title = f"stride-tool inspect {(source.path if source else None) or ''}".strip()
    yield from write_html(title, inspect_blocks(document, pictures=False), _figures(document), asset("inspect.js"))


def _figures(document: Envelope[InspectReport]) -> Iterator[str]:
    yield pattern_source()
    yield f'<p class="hint">{_HINT}</p>\n'
    for drawing in inspect_drawings(document.report):
        yield figure(drawing)
    yield '<div id="where" role="status" aria-live="polite"></div>\n'

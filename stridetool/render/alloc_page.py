"""The report of `alloc-report` as SVG and as a page: its history to zoom into and to click on, then the usual text.

Without script the page still has the timeline, the segments, the what-ifs and all tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from stridetool.render.alloc_text import alloc_blocks
from stridetool.render.blocks import printable
from stridetool.render.drawing.heap import device_drawings
from stridetool.render.drawing.shapes import Drawing, document, figure, pattern_source
from stridetool.render.film_data import film_text
from stridetool.render.html import write_html
from stridetool.render.page import asset
from stridetool.report.alloc import AllocReport, DeviceReport
from stridetool.report.envelope import Envelope
from stridetool.report.film import Course, Film

_WIDTH = 120
_KEYS = (
    "Wheel or + and - zoom, drag or PageUp and PageDown move, a click or the arrow keys choose a moment, "
    "o the next failure."
)
_MAP = (
    "A bar is a segment, its length the square root of its size. Filled: live, a hue a stream; crossed: freed, but a "
    "stream still uses it; empty: free. Point at a block, or use the arrow keys."
)


class Shown(NamedTuple):
    """One device: its report, its history, and its course under other settings (the floor first)."""

    report: DeviceReport
    film: Film | None = None
    courses: Sequence[Course] = ()


def alloc_svg(shown: Sequence[Shown]) -> Iterator[str]:
    """Timeline, what-ifs and segments of all devices as one SVG."""
    return document(_drawings(shown), "stride-tool alloc-report")


def alloc_page(report: Envelope[AllocReport], shown: Sequence[Shown]) -> Iterator[str]:
    """The page in chunks."""
    films = any(one.film is not None and len(one.film.actions) for one in shown)
    script = asset("film.js") + asset("alloc.js") if films else ""
    return write_html("stride-tool alloc-report", alloc_blocks(report, _WIDTH), _figures(shown), script)


def _drawings(shown: Sequence[Shown]) -> Iterator[Drawing]:
    for one in shown:
        yield from device_drawings(one.report, one.courses)


def _figures(shown: Sequence[Shown]) -> Iterator[str]:
    yield pattern_source()
    yield "<noscript><style>.film{display:none}</style></noscript>\n"
    for one in shown:
        if one.film is not None and len(one.film.actions):
            yield from _film(one.film, one.report)
        for drawing in device_drawings(one.report, one.courses):
            yield figure(drawing)


def _film(film: Film, report: DeviceReport) -> Iterator[str]:
    """The place that the script draws in; hidden from those who have none."""
    name = escape(printable(f"{report.source.name}, {film.name}"))
    buttons = (("in", "zoom in"), ("out", "zoom out"), ("all", "all"), ("before", "← entry"), ("after", "entry →"))
    failures = '<button data-do="oom">next failure</button>' if 7 in film.actions else ""
    yield f'<section class="film"><h2>{name}</h2><div class="row">'
    yield "".join(f'<button data-do="{key}">{text}</button>' for key, text in buttons) + failures
    yield '<label>after entry <input class="moment" type="number" min="0"></label></div>\n'
    yield f'<p class="hint">{_KEYS}</p><p class="hint">'
    signs = (
        ("reserved",) * 2,
        ("allocated",) * 2,
        ("requested",) * 2,
        ("oom", "out of memory"),
        ("retry", "cache emptied"),
    )
    yield "".join(f'<i class="k {kind}"></i>{text}' for kind, text in signs) + "</p>\n"
    yield f'<canvas class="course" tabindex="0" role="img" aria-label="memory over the entries of {name}"></canvas>\n'
    yield '<p class="said" role="status" aria-live="polite"></p><h3 class="moment-title"></h3>\n'
    yield f'<p class="hint">{_MAP}</p><div class="mapbox" tabindex="0"><canvas class="map" role="img" '
    yield 'aria-label="segments and blocks at the chosen moment"></canvas></div>\n'
    yield '<pre class="stack" aria-live="polite">point at a block: its address, sizes, stream and stack</pre>\n'
    yield '<div class="row tables"><table class="sites"></table><table class="pins"></table></div>\n'
    yield f'<script type="application/octet-stream">{film_text(film)}</script></section>\n'

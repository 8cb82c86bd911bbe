"""The reports of `bench` and `compare` as SVG and as a page: bars under the roof line, before and after. No script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stridetool.render.bench_text import bench_blocks
from stridetool.render.compare_text import compare_blocks
from stridetool.render.drawing.bench import bench_drawings, compare_drawings
from stridetool.render.drawing.shapes import Drawing, document, figure
from stridetool.render.html import write_html
from stridetool.report.bench import BenchReport
from stridetool.report.compare import CompareReport
from stridetool.report.envelope import Envelope


def bench_svg(report: Envelope[BenchReport]) -> Iterator[str]:
    """The bars of all cases as one SVG."""
    return document(bench_drawings(report.report), "stride-tool bench")


def bench_page(report: Envelope[BenchReport]) -> Iterator[str]:
    """The bars, then the text of the report."""
    return write_html("stride-tool bench", bench_blocks(report), _figures(bench_drawings(report.report)))


def compare_svg(report: Envelope[CompareReport]) -> Iterator[str]:
    """Before and after of all kernels as one SVG."""
    return document(compare_drawings(report.report), "stride-tool compare")


def compare_page(report: Envelope[CompareReport]) -> Iterator[str]:
    """Before and after, then the text of the report."""
    return write_html("stride-tool compare", compare_blocks(report), _figures(compare_drawings(report.report)))


def _figures(drawings: Iterable[Drawing]) -> Iterator[str]:
    return map(figure, drawings)

"""Why a view is impossible, as a picture: dimensions in brackets that merge, the boundary that breaks, two numbers.

dimension     0       1   2
size        [ 2 ] ╳ [ 3 · 4 ]
stride        1       8   2
needs        24 = 3·8
"""

from __future__ import annotations

from collections.abc import Iterator

from stridetool.render.blocks import Span
from stridetool.report.inspect import LayoutRow, ViewFailure


def run_brackets(layout: LayoutRow, why: ViewFailure) -> Iterator[tuple[Span, ...]]:
    """Four lines: the numbers of the dimensions, sizes in brackets, strides, and what the boundary needs."""
    broken, _ = why.boundary
    widths = [
        max(len(str(value)) for value in (dim, size, stride, *((why.stride_needed,) if dim == broken else ())))
        for dim, (size, stride) in enumerate(zip(layout.sizes, layout.strides, strict=True))
    ]
    lines: list[list[Span]] = [[(f"  {title:<11}", "muted")] for title in ("dimension", "size", "stride", "needs")]
    for number, run in enumerate(why.runs):
        for dim in run:
            before = "" if dim != run[0] else "[ " if number == 0 else (" ╳ [ " if dim - 1 == broken else "   [ ")
            before = before or " · "
            _column(lines, before, layout, dim, widths[dim], why)
        lines[1].append((" ]", ""))
        for line in (lines[0], lines[2], lines[3]):
            line.append(("  ", ""))
    yield from map(tuple, lines)


def _column(lines: list[list[Span]], before: str, layout: LayoutRow, dim: int, width: int, why: ViewFailure) -> None:
    """One dimension in each of the four lines, in columns of `width`."""
    blank = " " * len(before)
    here = dim == why.boundary[0]
    lines[0].append((f"{blank}{dim:>{width}}", "muted"))
    lines[1].append((before, "bad" if "╳" in before else ""))
    lines[1].append((f"{layout.sizes[dim]:>{width}}", ""))
    lines[2].append((f"{blank}{layout.strides[dim]:>{width}}", "bad" if here else ""))
    lines[3].append((f"{blank}{why.stride_needed if here else '':>{width}}", "good"))

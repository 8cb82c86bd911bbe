"""Copies as bars: bandwidth with its spread under the roof line of the machine, and two runs as before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stridetool.render.bench_text import OURS
from stridetool.render.drawing.shapes import MARGIN, WIDTH, Drawing, cut, label, path, rect, stroke
from stridetool.render.layout import sizes_text, strides_text
from stridetool.report.bench import BenchReport, CaseRow, KernelRow
from stridetool.report.compare import CompareReport, KernelChange
from stridetool.units import format_bytes, format_rate, format_seconds

MAX_CASES, MAX_CHANGES = 60, 200
_LEFT, _ROW = 190, 24
_ROOM = WIDTH - _LEFT - 190  # to the right of the bars stand their numbers


def bench_drawings(report: BenchReport) -> Iterator[Drawing]:
    """A drawing for each case, all on one scale."""
    cases = report.cases[:MAX_CASES]
    fastest = max((_rates(case, kernel)[1] for case in cases for kernel in case.kernels), default=0.0)
    roofs = [report.peak.bytes_per_second, *(case.peak_bytes_per_second for case in cases), fastest]
    scale = _ROOM / (max(roofs) * 1.02 or 1)
    for case in cases:
        yield _case(case, scale)


def compare_drawings(report: CompareReport) -> Iterator[Drawing]:
    """Before and after of each kernel, a drawing for each case: what changed most comes first."""
    cases: dict[str, list[KernelChange]] = {}
    for row in sorted(report.kernels, key=lambda row: (not row.beyond_threshold, -abs(row.ratio - 1)))[:MAX_CHANGES]:
        cases.setdefault(row.case, []).append(row)
    for case, rows in cases.items():
        yield _changes(case, rows)


def _case(case: CaseRow, scale: float) -> Drawing:
    unit = "" if case.stride_unit_bytes == case.itemsize else " B"
    layout = f"{case.dtype} {sizes_text(case.sizes)} {strides_text(case.strides)}{unit}"
    facts = cut(f"{layout}, {format_bytes(case.bytes_moved)} moved", WIDTH - 2 * MARGIN)
    body = [label(MARGIN, 12, facts, "s m")]
    top = 34.0
    bottom = top + _ROW * len(case.kernels)
    roof = _LEFT + case.peak_bytes_per_second * scale
    for number, kernel in enumerate(case.kernels):
        body += _bar(case, kernel, top + _ROW * number, scale)
    body.append(stroke(roof, top - 6, roof, bottom, "roof"))
    body.append(label(roof, top - 8, f"roof: contiguous copy, {format_rate(case.peak_bytes_per_second)}", "x bad end"))
    body.append(label(MARGIN, bottom + 12, cut(case.verdict, WIDTH - 2 * MARGIN), "s m"))
    return Drawing(case.case, bottom + 18, body, "bench")


def _rates(case: CaseRow, kernel: KernelRow) -> tuple[float, float]:
    """Bytes per second at the slow and at the fast end of the interval."""
    fast, slow = kernel.interval_seconds
    return case.bytes_moved / slow if slow else 0.0, case.bytes_moved / fast if fast else 0.0


def _bar(case: CaseRow, kernel: KernelRow, y: float, scale: float) -> Iterator[str]:
    """The bar of one kernel, its 95 % interval, and each sample as a dash below it."""
    ours = kernel.kernel.startswith(OURS)
    low, high = (_LEFT + rate * scale for rate in _rates(case, kernel))
    end = _LEFT + kernel.bytes_per_second * scale
    text = f"{format_rate(kernel.bytes_per_second)}, {kernel.fraction_of_peak:.0%}"
    median = f"median of {len(kernel.samples)} samples {format_seconds(kernel.median_seconds)}"
    words = f"{kernel.kernel}: {text} of the peak, {median}"
    yield label(MARGIN, y + 13, cut(kernel.kernel, _LEFT - MARGIN - 8), "b" if ours else "")
    yield rect(_LEFT, y + 2, max(1.0, end - _LEFT), 14, "bar" if ours else "l7", words)
    middle = y + 9
    ends = f"M{low:.1f} {middle - 4:.1f}v8M{high:.1f} {middle - 4:.1f}v8"
    yield path(f"{ends}M{low:.1f} {middle:.1f}H{high:.1f}", "spread", words)
    dots = (_LEFT + case.bytes_moved / seconds * scale for seconds in kernel.samples if seconds > 0)
    yield path("".join(f"M{min(x, WIDTH - 180):.1f} {y + 18:.0f}v3" for x in dots), "edge")
    yield label(max(end, high) + 8, y + 13, text, "s halo")


def _changes(case: str, rows: Sequence[KernelChange]) -> Drawing:
    longest = max(max(row.old_seconds, row.new_seconds) for row in rows) or 1.0
    body: list[str] = [label(_LEFT + 14, 10, "before", "x m"), label(_LEFT + 84, 10, "after", "x m")]
    body += [rect(_LEFT, 2, 10, 8, "l7"), rect(_LEFT + 70, 2, 10, 8, "bar")]
    for number, row in enumerate(rows):
        body += _change(row, 20 + number * 40, (_ROOM - 60) / longest)
    return Drawing(case, 20 + 40 * len(rows), body, "compare")


def _change(row: KernelChange, y: float, scale: float) -> Iterator[str]:
    """Two bars of seconds, and the ratio with its interval."""
    styles = {"slower": "usedbad", "faster": "l2", "same": "bar"}
    words = {"slower": "bad", "faster": "good", "same": "m"}
    low, high = row.ratio_interval
    yield label(MARGIN, y + 18, cut(row.kernel, _LEFT - MARGIN - 8), "b")
    for top, seconds, style in ((y, row.old_seconds, "l7"), (y + 15, row.new_seconds, styles[row.change])):
        yield rect(_LEFT, top, max(1.0, seconds * scale), 13, style, f"{row.kernel}: {format_seconds(seconds)}")
        yield label(_LEFT + seconds * scale + 6, top + 11, format_seconds(seconds), "x")
    mark = " beyond the threshold" if row.beyond_threshold else ""
    yield label(WIDTH - MARGIN, y + 11, f"{row.ratio:.2f}x ({low:.2f}-{high:.2f})", f"s end {words[row.change]}")
    yield label(WIDTH - MARGIN, y + 26, row.change + mark, f"x end {words[row.change]}")

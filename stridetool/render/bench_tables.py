"""The report of `bench` for other programs: NDJSON as cases finish, CSV and Markdown with a line a kernel."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

import msgspec

from stridetool.report.bench import BenchReport, CaseRow, KernelRow, PeakRow
from stridetool.report.documents import encoded
from stridetool.report.envelope import Envelope, Fact, Finding

_COLUMNS = (
    "case", "dtype", "sizes", "strides", "bytes_moved", "kernel", "median_seconds", "low_seconds", "high_seconds",
    "bytes_per_second", "fraction_of_peak", "ratio_to_fastest", "ratio_low", "ratio_high", "samples", "dropped_samples",
    "plan",
)  # fmt: skip


def bench_csv(document: Envelope[BenchReport]) -> Iterator[str]:
    """A header line, then a line for each kernel of each case; numbers in full."""
    yield _csv_line(_COLUMNS)
    for case, kernel in _pairs(document.report.cases):
        yield _csv_line(map(str, _values(case, kernel)))


def bench_markdown(document: Envelope[BenchReport]) -> Iterator[str]:
    """A table for an issue or a pull request."""
    titles = ("case", "kernel", "time (µs)", "GB/s", "of peak", "× fastest", "95 % interval", "samples")
    yield f"| {' | '.join(titles)} |\n|---|---|{'---:|' * (len(titles) - 2)}\n"
    for case, kernel in _pairs(document.report.cases):
        low, high = kernel.ratio_interval
        cells = (
            case.case, kernel.kernel, f"{kernel.median_seconds * 1e6:.4g}", f"{kernel.bytes_per_second / 1e9:.3g}",
            f"{kernel.fraction_of_peak:.3f}", f"{kernel.ratio_to_fastest:.2f}", f"{low:.2f}–{high:.2f}",
            str(len(kernel.samples)),
        )  # fmt: skip
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def ndjson_head(device: str, peak: PeakRow, environment: dict[str, Fact]) -> str:
    """The first line: what the run is about."""
    return _line({"type": "bench", "device": device, "peak": peak, "environment": environment})


def ndjson_case(row: CaseRow, findings: Iterable[Finding]) -> str:
    """A case that is done."""
    return _line({"type": "case", **msgspec.structs.asdict(row), "findings": tuple(findings)})


def ndjson_end(findings: Iterable[Finding]) -> str:
    """The last line: the run is complete, and this is what to mind."""
    return _line({"type": "end", "findings": tuple(findings)})


def _line(value: dict[str, object]) -> str:
    return encoded(value).decode() + "\n"


def _pairs(cases: Iterable[CaseRow]) -> Iterator[tuple[CaseRow, KernelRow]]:
    return ((case, kernel) for case in cases for kernel in case.kernels)


def _values(case: CaseRow, kernel: KernelRow) -> tuple[object, ...]:
    return (
        case.case, case.dtype, "x".join(map(str, case.sizes)), " ".join(map(str, case.strides)), case.bytes_moved,
        kernel.kernel, kernel.median_seconds, *kernel.interval_seconds, kernel.bytes_per_second,
        kernel.fraction_of_peak, kernel.ratio_to_fastest, *kernel.ratio_interval, len(kernel.samples),
        kernel.dropped_samples, case.why.plan,
    )  # fmt: skip


def _csv_line(cells: Iterable[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()

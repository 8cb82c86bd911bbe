"""The report of `bench` as blocks: an overview of many cases, every kernel of a few, and why each takes its time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stridetool.render.blocks import Block, Column, Heading, Line, Span, Table, line
from stridetool.render.findings import finding_blocks
from stridetool.render.layout import sizes_text, strides_text
from stridetool.report.bench import BenchReport, CaseRow, CopyCost, KernelRow
from stridetool.report.envelope import Envelope
from stridetool.units import format_bytes, format_rate, format_seconds

OURS = "stride-tool"
DETAILED_CASES = 5
"""Up to so many cases are told in full."""


def bench_blocks(document: Envelope[BenchReport]) -> Iterator[Block]:
    """The whole report."""
    report = document.report
    yield _summary(document)
    if len(report.cases) > 1:
        yield Heading("fraction of the peak")
        yield overview(report.cases)
    if len(report.cases) <= DETAILED_CASES:
        for case in report.cases:
            yield from _case(case)
    else:
        yield line("")
        yield line(("name a case to see its samples, the reasons and what would make it faster", "muted"))
    yield from finding_blocks(document.findings)


def _summary(document: Envelope[BenchReport]) -> Line:
    report, facts = document.report, document.environment
    threads = f"{report.threads} thread{'' if report.threads == 1 else 's'}"
    mode = f"{report.mode}{', result freshly allocated' if report.fresh else ''}"
    device = str(facts.get("gpu" if report.device.startswith("cuda") else "cpu", report.device))
    return line(
        (device, "name"),
        f", {threads}, {mode}; peak ",
        (format_rate(report.peak.bytes_per_second), "number"),
        f" read + written ({format_bytes(report.peak.nbytes)} copied by {report.peak.kernel})",
    )


def overview(cases: Sequence[CaseRow]) -> Table:
    """One row a case, one column a kernel."""
    names = sorted({kernel.kernel for case in cases for kernel in case.kernels}, key=lambda name: (name != OURS, name))
    columns = [Column("case"), Column("moved", "right"), Column("peak", "right")]
    columns += [Column(name, "right") for name in names]
    return Table((*columns, Column("why")), [_overview_row(case, names) for case in cases])


def _overview_row(case: CaseRow, names: Sequence[str]) -> list[str | Span]:
    by_name = {kernel.kernel: kernel for kernel in case.kernels}
    cells: list[str | Span] = [
        (case.case, "name"),
        format_bytes(case.bytes_moved),
        format_rate(case.peak_bytes_per_second),
    ]
    cells += [_fraction(by_name[name]) if name in by_name else ("–", "muted") for name in names]
    return [*cells, short_reason(case.why)]


def _fraction(kernel: KernelRow) -> Span:
    fraction = kernel.fraction_of_peak
    return f"{fraction:.1%}" if fraction < 0.1 else f"{fraction:.0%}", _style(fraction)


def _style(fraction: float) -> str:
    return "good" if fraction >= 0.5 else "warn" if fraction >= 0.2 else "bad"


def short_reason(why: CopyCost) -> str:
    """The plan and what is remarkable about it, in a few words."""
    parts = [_short_plan(why)]
    worst = max((t.line_bytes_fetched for t in why.loop_traffic), default=0)
    if worst > 1.3 * why.touched_line_bytes and why.useful_bytes:
        parts.append(f"a plain loop fetches {worst / why.useful_bytes:.2g}×")
    elif why.useful_bytes and why.touched_line_bytes >= 1.5 * why.useful_bytes:
        parts.append(f"lines are {why.touched_line_bytes / why.useful_bytes:.2g}× the data")
    return ", ".join(parts)


def _short_plan(why: CopyCost) -> str:
    if why.plan == "rows":
        return f"rows of {format_bytes(why.run_bytes)}"
    if why.plan in ("transpose", "strided", "generic"):
        return f"{why.plan}, step {format_bytes(why.inner_stride_bytes)}"
    return why.plan


def _case(case: CaseRow) -> Iterator[Block]:
    yield Heading(case.case)
    yield line(
        f"{sizes_text(case.sizes)} strides {strides_text(case.strides)} {case.dtype} → contiguous: "
        f"{format_bytes(case.bytes_moved)} read + written; a contiguous copy of as much runs at ",
        (format_rate(case.peak_bytes_per_second), "number"),
        f" ({case.peak_kernel})",
    )
    if case.verdict:
        yield line(("verdict  ", "muted"), (case.verdict, "name"))
    yield _kernel_table(case.kernels)
    for skipped in case.skipped:
        yield line((f"{skipped.kernel} did not run: {skipped.reason}", "muted"))
    yield from _why(case.why)


def _kernel_table(kernels: Sequence[KernelRow]) -> Table:
    titles = ("kernel", "time", "95 % interval", "rate", "of peak", "vs fastest", "95 % interval", "samples", "dropped")
    columns = [Column(title, "left" if title == "kernel" else "right") for title in titles]
    faults = any(kernel.page_faults_per_call for kernel in kernels)
    if faults:
        columns.append(Column("page faults", "right"))
    return Table(tuple(columns), [_kernel_cells(kernel, faults) for kernel in kernels])


def _kernel_cells(kernel: KernelRow, faults: bool) -> list[str | Span]:
    cells: list[str | Span] = [
        (kernel.kernel, "name"),
        (format_seconds(kernel.median_seconds), "number"),
        "–".join(map(format_seconds, kernel.interval_seconds)),
        format_rate(kernel.bytes_per_second),
        _fraction(kernel),
        f"{kernel.ratio_to_fastest:.2f}×",
        "–".join(f"{bound:.2f}" for bound in kernel.ratio_interval),
        str(len(kernel.samples)),
        str(kernel.dropped_samples),
    ]
    return [*cells, f"{kernel.page_faults_per_call or 0:.0f}"] if faults else cells


def _why(why: CopyCost) -> Iterator[Block]:
    for label, text in (
        *_labelled("why", why.reasons),
        *_labelled("faster", tuple(change.text for change in why.changes)),
        *_labelled("plan", why.plan_text),
    ):
        yield line((f"{label:9}", "muted"), (text, "muted" if label == "plan" else ""))


def _labelled(label: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    for number, text in enumerate(texts):
        yield label if number == 0 else "", text

"""The report of `compare` as blocks: what changed for the worse first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stridetool.render.blocks import Block, Column, Heading, Span, Table, line
from stridetool.render.findings import finding_blocks
from stridetool.report.compare import CompareReport, KernelChange, NumberChange, TensorChange
from stridetool.report.envelope import Envelope
from stridetool.units import format_bytes, format_seconds

_STYLES = {"slower": "bad", "faster": "good", "same": "muted"}


def compare_blocks(document: Envelope[CompareReport]) -> Iterator[Block]:
    """The whole report."""
    report = document.report
    yield line((report.old, "name"), " → ", (report.new, "name"), f" ({report.compared})")
    if report.compared == "bench":
        yield _counts(report)
        if report.kernels:
            yield Heading("kernels, new over old: above 1 is slower")
            yield _kernel_table(report.kernels)
    elif report.compared == "alloc-report":
        yield Heading("numbers")
        yield _number_table(report.numbers)
    else:
        yield line(f"{len(report.tensors)} differences" if report.tensors else "no tensor differs")
        if report.tensors:
            yield Heading("tensors")
            yield _tensor_table(report.tensors)
    yield from finding_blocks(document.findings)


def _counts(report: CompareReport) -> Block:
    counts = {change: sum(row.change == change for row in report.kernels) for change in ("slower", "faster", "same")}
    beyond = sum(row.beyond_threshold for row in report.kernels)
    text = ", ".join(f"{number} {change}" for change, number in counts.items())
    return line(
        f"{text}; ", (f"{beyond} slower by more than {100 * report.threshold:.3g}%", "bad" if beyond else "good")
    )


def _kernel_table(rows: Sequence[KernelChange]) -> Table:
    titles = ("case", "kernel", "old", "new", "time", "95 % interval", "in peaks", "95 % interval", "")
    columns = tuple(Column(t, "left" if t in ("case", "kernel", "") else "right") for t in titles)
    ordered = sorted(rows, key=lambda row: (not row.beyond_threshold, row.change == "same", -row.ratio))
    return Table(columns, [_kernel_cells(row) for row in ordered])


def _kernel_cells(row: KernelChange) -> list[str | Span]:
    return [
        (row.case, "name"),
        row.kernel,
        format_seconds(row.old_seconds),
        format_seconds(row.new_seconds),
        f"{row.ratio:.2f}×",
        "–".join(f"{bound:.2f}" for bound in row.ratio_interval),
        f"{row.peak_ratio:.2f}×",
        "–".join(f"{bound:.2f}" for bound in row.peak_ratio_interval),
        (row.change + (" beyond the threshold" if row.beyond_threshold else ""), _STYLES[row.change]),
    ]


def _number_table(rows: Sequence[NumberChange]) -> Table:
    columns = (Column("number"), Column("old", "right"), Column("new", "right"), Column("change", "right"), Column(""))
    return Table(columns, [_number_cells(row) for row in rows])


def _number_cells(row: NumberChange) -> list[str | Span]:
    change = "" if row.relative is None or row.old == row.new else f"{row.relative:+.1%}"
    mark = ("beyond the threshold", "bad") if row.beyond_threshold else ("", "")
    return [(row.name, "name"), _number(row, row.old), _number(row, row.new), change, mark]


def _number(row: NumberChange, value: int | float) -> str:
    return format_bytes(int(value)) if row.name.endswith("_bytes") else str(value)


def _tensor_table(rows: Sequence[TensorChange]) -> Table:
    columns = (Column("tensor"), Column("what"), Column("old"), Column("new"))
    return Table(columns, [[(row.tensor, "name"), row.what, row.old or "–", row.new or "–"] for row in rows])

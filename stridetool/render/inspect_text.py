"""The report of `inspect` as blocks: what is there, where it lives, what happened, and what to mind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stridetool.render.blocks import Block, Column, Heading, Line, Picture, Span, Table, line
from stridetool.render.consumers import consumer_blocks
from stridetool.render.findings import finding_blocks
from stridetool.render.grid import grid, walk
from stridetool.render.layout import layout_text, sizes_text, strides_text
from stridetool.render.operations import operation_blocks
from stridetool.render.strip import strip
from stridetool.report.envelope import Envelope
from stridetool.report.inspect import InspectReport, StorageRow, TensorRow
from stridetool.units import format_bytes

MAX_GRIDS = 3
MAX_STRIPS = 8
_LABEL = 12


def inspect_blocks(document: Envelope[InspectReport], *, ascii_only: bool = False) -> Iterator[Block]:
    """The whole report. Long tables stream; pictures are drawn for the first storages and tensors only."""
    report = document.report
    yield _summary(report)
    if report.tensors:
        yield Heading("tensors")
        yield _tensor_table(report.tensors, len(report.sources) > 1)
    if report.storages:
        yield Heading("memory")
        yield from _memory(report, ascii_only)
    for tensor in _worth_a_grid(report.tensors):
        yield Picture([(("", ""),), *grid(tensor), walk(tensor)])
    yield from consumer_blocks(report.tensors)
    yield from operation_blocks(report)
    yield from finding_blocks(document.findings)


def _summary(report: InspectReport) -> Line:
    what = report.source.path or report.source.kind if report.source else "nothing"
    if len(report.sources) > 1:
        what = f"{len(report.sources)} sources"
    parts = [_count(len(report.tensors), "tensor"), _count(len(report.storages), "storage")]
    parts[-1] += f" of {format_bytes(sum(s.nbytes for s in report.storages))}"
    operations = len(report.operations) + report.operations_dropped
    if operations:
        parts.append(_count(operations, "operation"))
        parts.append(f"{format_bytes(report.copied_bytes)} copied" if report.copied_bytes else "nothing copied")
    return line((what, "name"), ": " + ", ".join(parts))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _tensor_table(tensors: Sequence[TensorRow], with_source: bool) -> Table:
    titles = ("name", "dtype", "sizes", "strides", "offset", "bytes", "storage", "layout")
    columns = [Column(t, "right" if t in ("offset", "bytes") else "left") for t in titles]
    if with_source:
        columns.append(Column("source"))
    return Table(tuple(columns), (_tensor_cells(tensor, with_source) for tensor in tensors))


def _tensor_cells(tensor: TensorRow, with_source: bool) -> tuple[str | Span, ...]:
    dtype = tensor.dtype if tensor.device == "cpu" else f"{tensor.dtype} {tensor.device}"
    unit = "" if tensor.stride_unit_bytes == tensor.itemsize else " B"
    cells: tuple[str | Span, ...] = (
        (tensor.name, "name"),
        dtype,
        sizes_text(tensor.sizes),
        strides_text(tensor.strides) + unit,
        f"{tensor.storage_offset}{unit}",
        format_bytes(tensor.nbytes),
        tensor.storage or "–",
        layout_text(tensor),
    )
    return (*cells, tensor.source or "") if with_source else cells


def _memory(report: InspectReport, ascii_only: bool) -> Iterator[Block]:
    pictures = {picture.storage: picture for picture in report.pictures}
    for storage in report.storages[:MAX_STRIPS]:
        yield _storage_line(storage)
        if storage.id in pictures:
            width = min(max(map(len, storage.tensors), default=_LABEL), 24)
            yield Picture(list(strip(pictures[storage.id], max(width, _LABEL), ascii_only=ascii_only)))
    if len(report.storages) > MAX_STRIPS:
        yield line((f"… {len(report.storages) - MAX_STRIPS:,} more storages (--tensor GLOB chooses)", "muted"))


def _storage_line(storage: StorageRow) -> Line:
    parts: list[str | Span] = [(storage.id, "name"), f"  {format_bytes(storage.nbytes)} on {storage.device}"]
    if storage.held_by:
        return line(*parts, ", named by no variable, held by ", (", ".join(storage.held_by), "warn"))
    if storage.reached_bytes is None:
        return line(*parts, ", reach not decided")
    if storage.reached_bytes < storage.nbytes:
        share = storage.reached_bytes / storage.nbytes
        return line(*parts, (f", {format_bytes(storage.reached_bytes)} reached ({share:.1%})", "warn"))
    return line(*parts, (", all reached", "good"))


def _worth_a_grid(tensors: Sequence[TensorRow]) -> list[TensorRow]:
    """Those whose order in memory is not the logical one; a single tensor always."""
    if len(tensors) == 1:
        return [t for t in tensors if t.numel and t.sizes]
    return [t for t in tensors if t.numel and t.sizes and not t.is_contiguous][:MAX_GRIDS]

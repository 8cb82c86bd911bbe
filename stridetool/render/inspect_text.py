"""The report of `inspect` as blocks: what is there, where it lives, what happened, and what to mind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stridetool.render.access import access_blocks
from stridetool.render.blocks import Block, Column, Heading, Line, Picture, Span, Table, line
from stridetool.render.change import change, stamp, worth_a_change
from stridetool.render.consumers import consumer_blocks
from stridetool.render.file_accounts import file_blocks
from stridetool.render.findings import finding_blocks
from stridetool.render.grid import grid
from stridetool.render.layout import layout_text, sizes_text, strides_text
from stridetool.render.operations import call_text, operation_blocks
from stridetool.render.strip import legend, origin_of, strip
from stridetool.render.walk import walk
from stridetool.report.envelope import Envelope
from stridetool.report.inspect import InspectReport, StorageRow, TensorRow
from stridetool.units import format_bytes, format_share

MAX_GRIDS = 3
MAX_STRIPS = 8
MAX_FILES = 4
_LABEL = 12  # columns of `512 KiB/cell`


def inspect_blocks(
    document: Envelope[InspectReport], *, width: int = 100, pictures: bool = True, details: bool = False
) -> Iterator[Block]:
    """The whole report. Long tables stream; pictures are drawn for the first storages and tensors only.

    Pictures fit into `width` columns; without `pictures` (a page that has better ones) there are none. `details`
    adds how threads would touch the tensors, who takes them as they are, and what each operation did to the order;
    a report on a single tensor has them always.
    """
    report = document.report
    details = details or len(report.tensors) == 1
    yield _summary(report)
    if report.tensors:
        yield Heading("tensors")
        yield _tensor_table(report.tensors, len(report.sources) > 1)
    if pictures:
        yield from _files(report)
    if report.storages:
        yield Heading("memory")
        yield from _memory(report, width, pictures)
    yield from file_blocks(report.files)
    if pictures and details:
        yield from _order_in_memory(report, width)
        yield from access_blocks(report, worth_a_grid(report.tensors), width)
    if details or not pictures:
        yield from consumer_blocks(report.tensors)
    yield from operation_blocks(report)
    if pictures and details:
        yield from _changes(report, width)
    yield from finding_blocks(document.findings)
    if report.tensors and not details and pictures:
        yield from _order_in_memory(report, width)
        takers = ", and who takes it as it is" if any(tensor.consumers for tensor in report.tensors) else ""
        more = f"--tensor NAME: its offsets, how threads would touch it{takers}"
        yield Picture([(("", ""),), ((more, "muted"),)])


def _order_in_memory(report: InspectReport, width: int) -> Iterator[Block]:
    access = {(row.tensor, row.storage): row for row in report.access}
    for tensor in worth_a_grid(report.tensors):
        lines = [*grid(tensor, width), *walk(tensor, access.get((tensor.name, tensor.storage)), width)]
        yield Picture([(("", ""),), *lines])


def _changes(report: InspectReport, width: int) -> Iterator[Block]:
    for operation in worth_a_change(report):
        where = operation.place or "–"
        yield line((where, "muted"), "  ", (call_text(operation), "name"), ": ", stamp(operation))
        yield Picture(list(change(operation, width)))


def _summary(report: InspectReport) -> Line:
    what = report.source.name if report.source else "nothing"
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


def _files(report: InspectReport) -> Iterator[Block]:
    for picture in report.file_pictures[:MAX_FILES]:
        yield Heading(f"{picture.storage}, byte for byte")
        yield Picture(list(strip(picture, _LABEL, records=True)))


def _memory(report: InspectReport, width: int, with_pictures: bool) -> Iterator[Block]:
    pictures = {picture.storage: picture for picture in report.pictures} if with_pictures else {}
    label = min(max((len(name) for s in report.storages[:MAX_STRIPS] for name in s.tensors), default=0), 24, width // 4)
    for storage in report.storages[:MAX_STRIPS]:
        yield storage_line(storage)
        if storage.id in pictures:
            origin = origin_of(report, storage.id)
            yield Picture(list(strip(pictures[storage.id], max(label, _LABEL), origin)))
    signs = legend(pictures[storage.id] for storage in report.storages[:MAX_STRIPS] if storage.id in pictures)
    if signs is not None:
        yield line(*signs)
    if len(report.storages) > MAX_STRIPS:
        yield line((f"… {len(report.storages) - MAX_STRIPS:,} more storages (--tensor GLOB chooses)", "muted"))


def storage_line(storage: StorageRow) -> Line:
    """How large a storage is, and how much of it is reached or by whom it is held."""
    parts: list[str | Span] = [(storage.id, "name"), f"  {format_bytes(storage.nbytes)} on {storage.device}"]
    if storage.held_by:
        return line(*parts, ", named by no variable, held by ", (", ".join(storage.held_by), "warn"))
    if storage.reached_bytes is None:
        return line(*parts, ", reach not decided")
    if storage.reached_bytes < storage.nbytes:
        share = format_share(storage.reached_bytes, storage.nbytes)
        return line(*parts, (f", {format_bytes(storage.reached_bytes)} reached ({share})", "warn"))
    return line(*parts, (", all reached", "good"))


def worth_a_grid(tensors: Sequence[TensorRow], limit: int = MAX_GRIDS) -> list[TensorRow]:
    """Those whose order in memory is not the logical one; a single tensor always."""
    if len(tensors) == 1:
        return [t for t in tensors if t.numel and t.sizes]
    return [t for t in tensors if t.numel and t.sizes and not t.is_contiguous][:limit]

"""A report of `inspect` as drawings (strips, orders in memory, failed views, operations, access), and as one SVG."""

from __future__ import annotations

from collections.abc import Iterator

from stridetool.render.change import worth_a_change
from stridetool.render.drawing.access import access_drawing, tile_drawing
from stridetool.render.drawing.changes import change_drawing, failure_drawing
from stridetool.render.drawing.grids import order_drawing
from stridetool.render.drawing.shapes import Drawing, document
from stridetool.render.drawing.strips import legend, strip_drawing
from stridetool.render.inspect_text import storage_line, worth_a_grid
from stridetool.render.strip import origin_of
from stridetool.report.envelope import Envelope
from stridetool.report.inspect import InspectReport, StorageRow

MAX_STRIPS, MAX_ORDERS, MAX_FAILURES, MAX_CHANGES = 40, 8, 6, 6


def inspect_svg(report: Envelope[InspectReport]) -> Iterator[str]:
    """The SVG in chunks."""
    source = report.report.source
    yield from document(inspect_drawings(report.report), (source.path if source else None) or "stride-tool inspect")


def inspect_drawings(report: InspectReport) -> Iterator[Drawing]:
    """Everything that is drawn of a report, in reading order."""
    yield from _files(report)
    yield from _strips(report)
    access = {(row.tensor, row.storage): row for row in report.access}
    chosen = worth_a_grid(report.tensors, MAX_ORDERS)
    for tensor in chosen:
        yield order_drawing(tensor, access.get((tensor.name, tensor.storage)))
    failed = [op for op in report.operations if op.error is not None and op.error.why is not None and op.input_layouts]
    for operation in failed[:MAX_FAILURES]:
        if operation.error is not None and operation.error.why is not None:
            yield failure_drawing(operation, operation.error.why)
    for operation in worth_a_change(report, MAX_CHANGES):
        yield change_drawing(operation)
    rows = [access[key] for tensor in chosen if (key := (tensor.name, tensor.storage)) in access]
    for row in rows:
        if row.dims:
            yield access_drawing(row)
    itemsizes = {tensor.itemsize for tensor in chosen}
    tiles = [tile for tile in report.tiles if tile.itemsize in itemsizes]
    if tiles and rows:
        yield tile_drawing(tiles)


def _strips(report: InspectReport) -> Iterator[Drawing]:
    pictures = {picture.storage: picture for picture in report.pictures}
    shown = [storage for storage in report.storages if storage.id in pictures][:MAX_STRIPS]
    if not shown:
        yield Drawing("no tensor with memory", 0, ())
        return
    yield legend([pictures[storage.id] for storage in shown])
    for storage in shown:
        tensors = {tensor.name: tensor for tensor in report.tensors if tensor.storage == storage.id}
        yield strip_drawing(pictures[storage.id], tensors, origin_of(report, storage.id), _title(storage))


def _title(storage: StorageRow) -> str:
    return "".join(text for text, _ in storage_line(storage).spans).replace("  ", ": ", 1)


def _files(report: InspectReport) -> Iterator[Drawing]:
    """Each file as one strip: what kind of bytes lie where, and where records begin."""
    for picture in report.file_pictures:
        yield strip_drawing(picture, {}, 0, f"{picture.storage}, byte for byte", records=True)

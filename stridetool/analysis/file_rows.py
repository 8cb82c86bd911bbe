"""Tensors and storages of files → rows of a report, with work bounded for ten thousand of them and for hostile ones.

What a layout is follows from its sizes and strides alone, and checkpoints repeat them from layer to layer: each
pair is looked at once. Layouts that take real work to decide have a budget; past it the answer is "not decided".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

import msgspec

from stridetool.analysis.reach import MAX_INTERVALS, Interval, byte_intervals, total, union
from stridetool.core.layout import Layout
from stridetool.core.tensor_file import FileStorage, FileTensor, TensorFile
from stridetool.report.inspect import StorageRow, TensorRow

PAGE_BYTES = 4096
_FORMATS = ("contiguous_format", "channels_last", "channels_last_3d")
_HARD_LAYOUTS = 50
_ALL_INTERVALS = 5 * MAX_INTERVALS


class Geometry(msgspec.Struct, frozen=True):
    """What follows from sizes and strides: the flags, and how many different elements are reached."""

    formats: tuple[str, ...]
    suggested: str
    dense: bool
    overlap: bool | None
    distinct: int | None


class Geometries:
    """Layouts looked at so far, and how much work is left for hard ones."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], Geometry] = {}
        self._hard_left = _HARD_LAYOUTS
        self._intervals_left = _ALL_INTERVALS

    def of(self, layout: Layout) -> Geometry:
        """The facts of `layout`, looked at once for the same sizes and strides."""
        key = (layout.sizes, layout.strides)
        if key not in self._known:
            self._known[key] = self._looked_at(layout)
        return self._known[key]

    def intervals(self, tensor: FileTensor) -> list[Interval] | None:
        """The bytes that a tensor reaches in its storage; None past the budget."""
        layout = tensor.layout
        if not tensor.itemsize or self.of(layout).dense:
            start = layout.offset * tensor.itemsize
            return [(start, start + tensor.nbytes)] if tensor.nbytes else []
        found = byte_intervals(layout, tensor.itemsize, tensor.itemsize, min(self._intervals_left, MAX_INTERVALS))
        self._intervals_left -= len(found) if found else 0
        return found

    def _looked_at(self, layout: Layout) -> Geometry:
        formats = tuple(name for name in _FORMATS[: 1 + (layout.ndim in (4, 5))] if layout.is_contiguous(name))
        if layout.ndim == 5 and layout.is_contiguous(_FORMATS[2]):
            formats += (_FORMATS[2],)
        suggested = layout.suggested_memory_format() if layout.ndim in (4, 5) else _FORMATS[0]
        dense = bool(formats) or layout.is_non_overlapping_and_dense()
        if dense:
            return Geometry(formats, suggested, True, False, layout.numel)
        if self._hard_left <= 0:
            return Geometry(formats, suggested, False, None, None)
        self._hard_left -= 1
        distinct = layout.distinct_elements()
        overlap = distinct < layout.numel if distinct is not None else layout.has_internal_overlap()
        return Geometry(formats, suggested, False, overlap, distinct)


def file_rows(
    file: TensorFile, first_storage: int, geometries: Geometries
) -> tuple[list[TensorRow], list[StorageRow], list[list[list[Interval]]]]:
    """Tensor rows, storage rows (numbered from `first_storage`), and for each storage the bytes of its tensors.

    Where the bytes of a tensor are not decided, the whole range from its first to its last stands for them.
    """
    ids = {storage.key: f"s{first_storage + n}" for n, storage in enumerate(file.storages)}
    storages = {storage.key: storage for storage in file.storages}
    members: dict[str, list[FileTensor]] = {key: [] for key in ids}
    for tensor in file.tensors:
        if tensor.storage is not None:
            members[tensor.storage].append(tensor)
    tensors = [
        tensor_row(tensor, storages.get(tensor.storage or ""), ids.get(tensor.storage or ""), file.path, geometries)
        for tensor in file.tensors
    ]
    rows, lanes = [], []
    for storage in file.storages:
        row, lane = _storage_row(storage, ids[storage.key], members[storage.key], file.path, geometries)
        rows.append(row)
        lanes.append(lane)
    return tensors, rows, lanes


def tensor_row(
    tensor: FileTensor, storage: FileStorage | None, storage_id: str | None, source: str, geometries: Geometries
) -> TensorRow:
    """The row of one tensor of a file."""
    layout, itemsize = tensor.layout, tensor.itemsize
    geometry = geometries.of(layout)
    numel = layout.numel
    place = None
    if storage is not None and storage.file_offset is not None:
        place = storage.file_offset + layout.offset * itemsize
    reached = tensor.nbytes if not itemsize else geometry.distinct * itemsize if geometry.distinct is not None else None
    return TensorRow(
        name=tensor.name,
        source=source,
        dtype=tensor.dtype,
        device=tensor.device,
        sizes=layout.sizes,
        strides=layout.strides,
        stride_unit_bytes=itemsize,
        storage_offset=layout.offset,
        itemsize=itemsize,
        numel=numel,
        nbytes=tensor.nbytes,
        storage=storage_id,
        is_contiguous=_FORMATS[0] in geometry.formats,
        memory_formats=geometry.formats,
        suggested_memory_format=geometry.suggested,
        is_non_overlapping_and_dense=geometry.dense,
        has_internal_overlap=geometry.overlap,
        data_ptr=None,
        reached_bytes=reached,
        library="file",
        flags=tensor.flags,
        file_offset=place,
        file_alignment=gcd(place, PAGE_BYTES) if place is not None and numel else None,
    )


def _storage_row(
    storage: FileStorage, id_: str, tensors: Sequence[FileTensor], source: str, geometries: Geometries
) -> tuple[StorageRow, list[list[Interval]]]:
    reaches = [geometries.intervals(tensor) for tensor in tensors]
    lanes = [r if r is not None else _span(t) for r, t in zip(reaches, tensors, strict=True)]
    at_most = total(union(_all(lanes)))
    at_least = at_most
    if any(reach is None for reach in reaches):
        sure = total(union(_all([reach for reach in reaches if reach is not None])))
        counts = [(geometries.of(t.layout).distinct or 1) * t.itemsize for t in tensors if t.layout.numel]
        at_least = max(sure, *counts)
    if len(tensors) == 1 and (distinct := geometries.of(tensors[0].layout).distinct) and tensors[0].itemsize:
        at_least = at_most = distinct * tensors[0].itemsize
    decided = at_least == at_most
    row = StorageRow(
        id=id_,
        nbytes=storage.nbytes,
        device=storage.device,
        tensors=tuple(tensor.name for tensor in tensors),
        reached_bytes=at_most if decided else None,
        file_offset=storage.file_offset,
        source=source,
        member=storage.member,
        stored_bytes=storage.stored_bytes,
        compressed=storage.compressed,
        reached_at_least=None if decided else at_least,
        reached_at_most=None if decided else at_most,
    )
    return row, lanes


def _all(lanes: Iterable[list[Interval]]) -> list[Interval]:
    return [interval for lane in lanes for interval in lane]


def _span(tensor: FileTensor) -> list[Interval]:
    low, high = tensor.layout.reach()
    return [(low * tensor.itemsize, high * tensor.itemsize)] if high > low else []

"""Arrays → the rows of a report: tensors, the storages that they share, and the picture of each storage."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stridetool.analysis.pictures import CELLS, picture
from stridetool.analysis.reach import Interval, byte_intervals, reached_bytes
from stridetool.analysis.rows import tensor_row
from stridetool.analysis.sharing import Region, regions
from stridetool.core.facts import ArrayFacts
from stridetool.report.inspect import Picture, StorageRow, TensorRow


class HiddenStorage(msgspec.Struct, frozen=True):
    """A storage that is alive though no variable names a tensor of it, and who holds it."""

    nbytes: int
    device: str
    held_by: tuple[str, ...]


class Tables(msgspec.Struct, frozen=True):
    """The rows of a report on arrays; `pictures` follow `storages`, one for each with memory."""

    tensors: tuple[TensorRow, ...]
    storages: tuple[StorageRow, ...]
    pictures: tuple[Picture, ...]


def tables(
    arrays: Sequence[ArrayFacts],
    sources: Sequence[str | None],
    hidden: Sequence[HiddenStorage] = (),
    cells: int = CELLS,
) -> Tables:
    """Rows for `arrays`, each from the source of the same index; storages in order of appearance, then `hidden`."""
    found = regions(arrays)
    storage_of = {index: f"s{n}" for n, region in enumerate(found) for index in region.members}
    rows = tuple(
        tensor_row(facts, storage_of[i], source) for i, (facts, source) in enumerate(zip(arrays, sources, strict=True))
    )
    reaches = [byte_intervals(facts.layout, facts.unit, facts.itemsize) for facts in arrays]
    storages = [_storage(f"s{n}", region, arrays, reaches) for n, region in enumerate(found)]
    storages += [_hidden(f"s{len(found) + n}", storage) for n, storage in enumerate(hidden)]
    pictures = (_picture(f"s{n}", region, arrays, reaches, cells) for n, region in enumerate(found) if region.nbytes)
    return Tables(rows, tuple(storages), tuple(pictures))


def _storage(
    name: str, region: Region, arrays: Sequence[ArrayFacts], reaches: Sequence[list[Interval] | None]
) -> StorageRow:
    parts = [_placed(region, arrays[i], reaches[i]) for i in region.members]
    reached = reached_bytes(parts)
    if reached is None and len(region.members) == 1:
        only = arrays[region.members[0]]
        reached = only.layout.numel * only.itemsize if only.layout.has_internal_overlap() is False else None
    return StorageRow(
        id=name,
        nbytes=region.nbytes,
        device=region.device,
        tensors=tuple(arrays[i].name for i in region.members),
        reached_bytes=reached,
    )


def _hidden(name: str, storage: HiddenStorage) -> StorageRow:
    return StorageRow(
        id=name, nbytes=storage.nbytes, device=storage.device, tensors=(), reached_bytes=0, held_by=storage.held_by
    )


def _placed(region: Region, facts: ArrayFacts, reach: list[Interval] | None) -> list[Interval] | None:
    """The intervals of a member in bytes from the start of its region."""
    if reach is None:
        return None
    shift = region.byte_offset(facts)
    return [(first + shift, end + shift) for first, end in reach]


def _picture(
    name: str,
    region: Region,
    arrays: Sequence[ArrayFacts],
    reaches: Sequence[list[Interval] | None],
    cells: int,
) -> Picture:
    lanes = [_placed(region, arrays[i], reaches[i] or _span(arrays[i])) or [] for i in region.members]
    return picture(name, region.nbytes, [arrays[i].name for i in region.members], lanes, cells)


def _span(facts: ArrayFacts) -> list[Interval]:
    """Everything from the first to the last byte: what is drawn where single bytes are too many to list."""
    low, high = facts.layout.reach()
    return [(low * facts.unit, (high - 1) * facts.unit + facts.itemsize)] if high > low else []

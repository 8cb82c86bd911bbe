"""Arrays → the rows of a report: tensors, the storages that they share, and the picture of each storage."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import msgspec

from stridetool.analysis.pictures import CELLS, picture
from stridetool.analysis.reach import Interval, byte_intervals, reached_bytes, repeated_intervals
from stridetool.analysis.rows import tensor_row
from stridetool.analysis.sharing import Region, regions
from stridetool.core.facts import ArrayFacts, HiddenStorage
from stridetool.report.inspect import Picture, StorageRow, TensorRow


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
    first_storage: int = 0,
) -> Tables:
    """Rows for `arrays`, each from the source of the same index.

    Storages are numbered from `first_storage` on in order of appearance, `hidden` ones last. Pictures have at
    most `cells` cells.
    """
    found = regions(arrays)
    names = [f"s{first_storage + n}" for n in range(len(found) + len(hidden))]
    storage_of = {index: name for name, region in zip(names, found, strict=False) for index in region.members}
    rows = tuple(
        tensor_row(facts, storage_of[i], source) for i, (facts, source) in enumerate(zip(arrays, sources, strict=True))
    )
    reaches = [byte_intervals(facts.layout, facts.unit, facts.itemsize) for facts in arrays]
    visible = list(zip(names, found, strict=False))
    storages = [_storage(name, region, arrays, reaches) for name, region in visible]
    storages += [_hidden(name, storage) for name, storage in zip(names[len(found) :], hidden, strict=True)]
    pictures = (_picture(name, region, arrays, reaches, cells) for name, region in visible if region.nbytes)
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
    members = [arrays[i] for i in region.members]
    lanes = [_placed(region, arrays[i], reaches[i] or _span(arrays[i])) or [] for i in region.members]
    repeats = [_placed(region, one, repeated_intervals(one.layout, one.unit, one.itemsize)) or [] for one in members]
    smallest = gcd(*(one.itemsize for one in members))
    return picture(
        name, region.nbytes, [one.name for one in members], lanes, cells, repeats=repeats, smallest_cell=smallest
    )


def _span(facts: ArrayFacts) -> list[Interval]:
    """Everything from the first to the last byte: what is drawn where single bytes are too many to list."""
    low, high = facts.layout.reach()
    return [(low * facts.unit, (high - 1) * facts.unit + facts.itemsize)] if high > low else []

"""The strip of a storage with a lane per tensor, as numbers: work bounded by cells and intervals, not elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from stridetool.analysis.reach import Interval
from stridetool.report.files import FileAccount
from stridetool.report.inspect import InspectReport, Picture

CELLS = 64
MAX_FILES = 16


def picture(
    storage: str,
    nbytes: int,
    tensors: Sequence[str],
    reaches: Sequence[Sequence[Interval]],
    cells: int = CELLS,
    *,
    repeats: Sequence[Sequence[Interval]] = (),
    smallest_cell: int = 1,
) -> Picture:
    """At most `cells` cells of a power of two of bytes; per lane the share of each cell that is reached.

    `repeats` are the bytes that more than one index of a tensor reaches; `smallest_cell` keeps an element in one
    cell where there is room for all of them.
    """
    width = max(cell_bytes(nbytes, cells), smallest_cell & -smallest_cell)
    count = -(-nbytes // width)
    lanes = [_shares(reach, width, count, nbytes) for reach in reaches]
    shared = tuple(sum(lane[j] > 0 for lane in lanes) for j in range(count))
    repeated = tuple(tuple(_shares(reach, width, count, nbytes)) if reach else () for reach in repeats)
    return Picture(storage, width, tuple(tensors), tuple(map(tuple, lanes)), shared, repeated)


def with_file_pictures(report: InspectReport, cells: int = CELLS) -> InspectReport:
    """`report` with a picture of each of its first files that has regions."""
    shown = [account for account in report.files if account.regions][:MAX_FILES]
    pictures = (file_picture(account, _records(report, account), cells) for account in shown)
    return msgspec.structs.replace(report, file_pictures=tuple(pictures))


def file_picture(account: FileAccount, records: Iterable[int], cells: int = CELLS) -> Picture:
    """A file as one strip: a lane for each kind of bytes; `shared` counts the `records` that begin in a cell.

    Of regions that the account dropped nothing is known but that they are no others: they are a lane of their own.
    """
    lanes: dict[str, list[Interval]] = {}
    for region in account.regions:
        lanes.setdefault(region.kind, []).append((region.offset, region.offset + region.nbytes))
    if account.regions_dropped:
        lanes["other"] = list(_between([lane for kept in lanes.values() for lane in kept], account.nbytes))
    drawn = picture(account.path, account.nbytes, tuple(lanes), tuple(lanes.values()), cells)
    counts = [0] * len(drawn.shared)
    for start in records:
        if 0 <= start < account.nbytes:
            counts[start // drawn.bytes_per_cell] += 1
    return msgspec.structs.replace(drawn, shared=tuple(counts))


def _records(report: InspectReport, account: FileAccount) -> set[int]:
    """Where the storages of one file begin in it."""
    alone = len(report.files) == 1
    return {s.file_offset for s in report.storages if s.file_offset is not None and (alone or s.source == account.path)}


def _between(kept: Sequence[Interval], nbytes: int) -> Iterator[Interval]:
    """What of [0, nbytes) lies in none of `kept`."""
    covered = 0
    for first, end in sorted(kept):
        if first > covered:
            yield covered, first
        covered = max(covered, end)
    if covered < nbytes:
        yield covered, nbytes


def cell_bytes(nbytes: int, cells: int) -> int:
    """The smallest power of two of bytes so that `nbytes` need at most `cells` cells."""
    return 1 << max(0, (-(-nbytes // max(cells, 1)) - 1).bit_length())


def _shares(reach: Sequence[Interval], width: int, count: int, nbytes: int) -> list[float]:
    """The reached share of each cell; whole cells inside an interval are filled in one step."""
    filled = [0] * count
    for first, end in reach:
        first, end = max(first, 0), min(end, nbytes)
        if first >= end:
            continue
        low, high = first // width, (end - 1) // width
        if low == high:
            filled[low] += end - first
            continue
        filled[low] += (low + 1) * width - first
        filled[high] += end - high * width
        for cell in range(low + 1, high):
            filled[cell] = width
    return [round(n / min(width, nbytes - j * width), 4) for j, n in enumerate(filled)]

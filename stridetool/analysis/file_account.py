"""A file byte for byte: which range is header, padding, data, foreign, gap or trailing; and totals over its tensors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from stridetool.core import tensor_file
from stridetool.core.tensor_file import TensorFile
from stridetool.report.files import FileAccount, Region, Total
from stridetool.report.inspect import TensorRow

ALIGNMENTS = (16, 64, 4096)
MAX_REGIONS = 1000
MAX_GROUPS = 24
_MAX_DEPTH = 8
_NOTEWORTHY = ("gap", "foreign", "trailing", "overlap")


def account(file: TensorFile, tensors: Sequence[TensorRow]) -> FileAccount:
    """The account of one file, whose tensors have the given rows."""
    regions = file_regions(file.regions, file.size)
    kept = regions if len(regions) <= MAX_REGIONS else [r for r in regions if r.kind in _NOTEWORTHY][:MAX_REGIONS]
    placed = [tensor.file_alignment for tensor in tensors if tensor.file_alignment is not None]
    return FileAccount(
        path=file.path,
        kind=file.kind,
        nbytes=file.size,
        bytes_by_kind=_by_kind(regions),
        regions=tuple(kept),
        regions_dropped=len(regions) - len(kept),
        placed_tensors=len(placed),
        aligned={str(to): sum(at % to == 0 for at in placed) for to in ALIGNMENTS},
        by_dtype=totals(tensors, lambda tensor: tensor.dtype),
        by_prefix=by_prefix(tensors),
    )


def file_regions(claimed: Iterable[tensor_file.Region], size: int) -> list[Region]:
    """Disjoint ranges that cover [0, size): what is claimed, gaps between, and trailing bytes.

    Bytes that two regions claim are an `overlap`.
    """
    found: list[Region] = []
    covered = 0
    for region in sorted(claimed, key=lambda region: (region.start, region.end)):
        start, end = min(region.start, size), min(region.end, size)
        if start >= end:
            continue
        if start > covered:
            _add(found, Region("gap", covered, start - covered))
        if start < covered:
            _add(found, Region("overlap", start, min(end, covered) - start, region.name))
        if end > max(start, covered):
            start = max(start, covered)
            _add(found, Region(region.kind, start, end - start, region.name))
        covered = max(covered, end)
    if covered < size:
        found.append(Region("trailing", covered, size - covered))
    return found


def totals(tensors: Iterable[TensorRow], key: Callable[[TensorRow], str]) -> tuple[Total, ...]:
    """Counts and logical bytes by `key`, the largest first."""
    counts, nbytes = defaultdict[str, int](int), defaultdict[str, int](int)
    for tensor in tensors:
        name = key(tensor)
        counts[name] += 1
        nbytes[name] += tensor.nbytes
    ordered = sorted(counts, key=lambda name: (-nbytes[name], name))
    return tuple(Total(name, counts[name], nbytes[name]) for name in ordered)


def _prefix(depth: int, tensor: TensorRow) -> str:
    return ".".join(tensor.name.split(".", depth)[:depth])


def by_prefix(tensors: Sequence[TensorRow]) -> tuple[Total, ...]:
    """Totals by the longest prefixes of the names (up to a dot) that make no more than `MAX_GROUPS` groups."""
    best: tuple[Total, ...] = ()
    for depth in range(1, _MAX_DEPTH + 1):
        groups = totals(tensors, partial(_prefix, depth))
        if best and len(groups) > MAX_GROUPS:
            return best
        if len(groups) == len(best):
            continue
        best = groups
    if len(best) <= MAX_GROUPS:
        return best
    shown, rest = best[: MAX_GROUPS - 1], best[MAX_GROUPS - 1 :]
    return (*shown, Total(f"{len(rest):,} others", sum(t.tensors for t in rest), sum(t.nbytes for t in rest)))


def _add(regions: list[Region], new: Region) -> None:
    """Append, joining neighbours of one kind; data keeps its names only where it stands alone."""
    last = regions[-1] if regions else None
    if last is not None and last.kind == new.kind and last.offset + last.nbytes == new.offset:
        name = last.name if last.name == new.name else None
        regions[-1] = Region(last.kind, last.offset, last.nbytes + new.nbytes, name)
    else:
        regions.append(new)


def _by_kind(regions: Iterable[Region]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for region in regions:
        if region.kind != "overlap":
            sums[region.kind] = sums.get(region.kind, 0) + region.nbytes
    return sums

"""Files byte for byte: what the bytes are for, how the tensors are aligned, and totals by dtype and by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stridetool.render.blocks import Block, Column, Heading, Line, Table, line
from stridetool.report.files import FileAccount, Region, Total
from stridetool.units import format_bytes

MAX_FILES = 8  # with all their details; of more only the totals
MAX_REGIONS = 16
_ORDER = ("header", "data", "padding", "foreign", "gap", "trailing")
_ODD = ("foreign", "gap", "trailing", "overlap")


def file_blocks(files: Sequence[FileAccount]) -> Iterator[Block]:
    """A table of the files, then what is odd in each and the totals over all tensors; nothing without files."""
    if not files:
        return
    yield Heading("files" if len(files) > 1 else "file")
    yield _account_table(files)
    for file in files[:MAX_FILES]:
        yield from _regions(file, len(files) > 1)
    yield from _totals("by dtype", [total for file in files for total in file.by_dtype])
    if len(files) == 1:
        yield from _totals("by name", files[0].by_prefix)


def _account_table(files: Sequence[FileAccount]) -> Table:
    """A row a file, named where there are several; a column for each kind of bytes that one of them has."""
    names = ("file",) if len(files) > 1 else ()
    kinds = [kind for kind in _ORDER if any(kind in file.bytes_by_kind for file in files)]
    titles = (*names, "kind", "bytes", *kinds, "aligned to 16", "64", "4096")
    columns = tuple(Column(title, "left" if title in ("file", "kind") else "right") for title in titles)
    return Table(columns, ((file.path,) * len(names) + _cells(file, kinds) for file in files))


def _cells(file: FileAccount, kinds: Sequence[str]) -> tuple[str, ...]:
    sums = (format_bytes(file.bytes_by_kind[kind]) if kind in file.bytes_by_kind else "" for kind in kinds)
    placed = file.placed_tensors
    aligned = (f"{count:,} of {placed:,}" if placed else "" for count in file.aligned.values())
    return (file.kind, format_bytes(file.nbytes), *sums, *aligned)


def _regions(file: FileAccount, with_path: bool) -> Iterator[Line]:
    odd = [region for region in file.regions if region.kind in _ODD]
    for region in odd[:MAX_REGIONS]:
        place = f"{file.path} " if with_path else ""
        yield line(f"{place}[{region.offset:,}, {region.offset + region.nbytes:,})  ", (_what(region), "warn"))
    if len(odd) > MAX_REGIONS:
        yield line((f"… {len(odd) - MAX_REGIONS:,} more", "muted"))


def _what(region: Region) -> str:
    name = f" {region.name}" if region.name else ""
    return f"{region.kind}{name}, {format_bytes(region.nbytes)}"


def _totals(title: str, totals: Sequence[Total]) -> Iterator[Block]:
    """The sums of totals with the same key; not worth a table where there is only one."""
    sums: dict[str, tuple[int, int]] = {}
    for total in totals:
        tensors, nbytes = sums.get(total.key, (0, 0))
        sums[total.key] = (tensors + total.tensors, nbytes + total.nbytes)
    if len(sums) < 2:
        return
    yield Heading(title)
    columns = (Column(title.removeprefix("by ")), Column("tensors", "right"), Column("bytes", "right"))
    ordered = sorted(sums.items(), key=lambda entry: -entry[1][1])
    yield Table(columns, ((key, f"{tensors:,}", format_bytes(nbytes)) for key, (tensors, nbytes) in ordered))

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
    columns = ("file", "kind", "bytes", *_ORDER, "aligned to 16", "64", "4096")
    yield Table(tuple(Column(c, "left" if c in ("file", "kind") else "right") for c in columns), map(_cells, files))
    for file in files[:MAX_FILES]:
        yield from _regions(file, len(files) > 1)
    yield from _totals("by dtype", [total for file in files for total in file.by_dtype])
    if len(files) == 1:
        yield from _totals("by name", files[0].by_prefix)


def _cells(file: FileAccount) -> tuple[str, ...]:
    kinds = (format_bytes(file.bytes_by_kind[kind]) if kind in file.bytes_by_kind else "" for kind in _ORDER)
    placed = file.placed_tensors
    aligned = (f"{count:,} of {placed:,}" if placed else "" for count in file.aligned.values())
    return (file.path, file.kind, format_bytes(file.nbytes), *kinds, *aligned)


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

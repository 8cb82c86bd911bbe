"""How a warp and a register touch memory along each dimension: numbers, and a sign for each sector that is touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stridetool.render.blocks import Block, Heading, Picture, Span, line
from stridetool.render.strip import glyph
from stridetool.report.inspect import AccessRow, DimAccess, InspectReport, TensorRow, TileRow

MAX_TENSORS, SECTOR = 3, 32
_TITLES = ("dim", "step B", "sectors", "GPU lines", "load B", "register", "CPU lines")


def access_blocks(report: InspectReport, tensors: Sequence[TensorRow], width: int = 100) -> Iterator[Block]:
    """The patterns of `tensors`, and the tiles of their item sizes."""
    chosen = {(tensor.name, tensor.storage) for tensor in tensors[:MAX_TENSORS]}
    rows = [row for row in report.access if (row.tensor, row.storage) in chosen and row.dims]
    if not rows:
        return
    yield Heading("access along each dimension")
    for row in rows:
        yield Picture(list(_pattern(row, width)))
    itemsizes = {tensor.itemsize for tensor in tensors[:MAX_TENSORS]}
    yield Picture([spans for tile in report.tiles if tile.itemsize in itemsizes for spans in _tile(tile, width)])
    yield line(
        ("a sign is a sector of 32 B, its height the bytes used; lines: GPU 128 B, CPU 64 B; register 32 B", "muted")
    )


def sectors_text(dim: DimAccess) -> str:
    """`4 of 4` where a request needs no more than its bytes, `32 for 4` where it does."""
    return f"{dim.sectors}" if dim.sectors == dim.least_sectors else f"{dim.sectors} for {dim.least_sectors}"


def tile_title(tile: TileRow) -> str:
    """`32x32 tile of 4 B, rows padded by 1`"""
    padding = f"rows padded by {tile.padding_elems}" if tile.padding_elems else "no padding"
    return f"{tile.rows}x{tile.columns} tile of {tile.itemsize} B in shared memory, {padding}"


def tile_text(tile: TileRow) -> str:
    """`a column takes 32 passes (least: 1)`"""
    passes = f"{tile.column_wavefronts} pass{'' if tile.column_wavefronts == 1 else 'es'}"
    return f"a column takes {passes} (least: {tile.least_wavefronts})"


def _pattern(row: AccessRow, width: int) -> Iterator[tuple[Span, ...]]:
    table = [
        (
            str(dim.dim), f"{dim.step_bytes:+,d}", sectors_text(dim), str(dim.cache_lines), str(dim.vector_bytes),
            f"{dim.register_load} x{dim.register_lanes}", str(dim.register_cache_lines),
        )
        for dim in row.dims
    ]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(_TITLES, *table, strict=True)]
    rule = ": 32 threads, neighbouring indices"
    yield ((row.tensor[: max(8, width - len(rule))], "name"), (rule[: width - 8], "muted"))
    if sum(widths) + 2 * len(widths) > width:
        yield from _narrow(row, table, width)
        return
    yield (("".join(f"  {title:>{w}}" for title, w in zip(_TITLES, widths, strict=True)), "muted"),)
    for dim, cells in zip(row.dims, table, strict=True):
        text = "".join(f"  {cell:>{w}}" for cell, w in zip(cells, widths, strict=True))
        style = "good" if dim.sectors == dim.least_sectors else "warn"
        signs = _signs(dim)
        if len(text) + 2 + len(signs) <= width:
            yield ((text + "  ", ""), (signs, style))
        else:
            yield ((text, ""),)
            yield (("    ", ""), (signs[: width - 4], style))


def _narrow(row: AccessRow, table: Sequence[Sequence[str]], width: int) -> Iterator[tuple[Span, ...]]:
    """A line a number where there is no room for columns."""
    for dim, cells in zip(row.dims, table, strict=True):
        yield ((f"  dim {cells[0]}: {cells[1]} B a step", ""),)
        yield ((f"    sectors {cells[2]}, GPU lines {cells[3]}", ""),)
        yield ((f"    load {cells[4]} B, {cells[5]}, CPU lines {cells[6]}", ""),)
        yield (("    ", ""), (_signs(dim)[: width - 4], "good" if dim.sectors == dim.least_sectors else "warn"))


def _signs(dim: DimAccess) -> str:
    return "".join(glyph(used / SECTOR) for used in dim.sector_bytes_used)


def _tile(tile: TileRow, width: int) -> Iterator[tuple[Span, ...]]:
    """The tile in words, and the words that a column wants of each bank."""
    good = tile.column_wavefronts == tile.least_wavefronts
    words = "".join("·" if n == 0 else str(n) if n < 10 else "+" for n in tile.column_words_per_bank)
    text = f"{tile_title(tile)}: {tile_text(tile)}"
    if len(text) + 9 + len(words) <= width:
        yield ((text, ""), ("  banks ", "muted"), (words, "good" if good else "warn"))
        return
    title, _, padding = tile_title(tile).rpartition(", ")
    for part in (text,) if len(text) <= width else (title, f"  {padding}", f"  {tile_text(tile)}"):
        yield ((part, ""),)
    yield (("  banks ", "muted"), (words[: width - 8], "good" if good else "warn"))

"""How a warp and a register touch memory along each dimension, and the banks of a shared-memory tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stridetool.render.access import SECTOR, sectors_text, tile_text, tile_title
from stridetool.render.drawing.shapes import MARGIN, WIDTH, Drawing, label, rect
from stridetool.report.inspect import AccessRow, DimAccess, TileRow

_TITLES = ("dim", "step", "sectors", "lines", "load", "register", "lines")
_ENDS = (40, 110, 180, 240, 300, 410, 460)  # px: each column ends there
_LEFT = MARGIN + 480
_SECTOR = 13.0


def access_drawing(row: AccessRow) -> Drawing:
    """A line a dimension: the numbers, and the sectors that one request of a warp touches, filled as far as used."""
    body = [label(MARGIN + x, 12, title, "s m end") for x, title in zip(_ENDS, _TITLES, strict=True)]
    body.append(label(_LEFT, 12, "32-byte sectors of one request, filled as far as their bytes are used", "s m"))
    y = 34.0
    for dim in row.dims:
        cells = (
            str(dim.dim), f"{dim.step_bytes:+,d} B", sectors_text(dim), str(dim.cache_lines), f"{dim.vector_bytes} B",
            f"{dim.register_load} x{dim.register_lanes}", str(dim.register_cache_lines),
        )  # fmt: skip
        for x, text in zip(_ENDS, cells, strict=True):
            body.append(label(MARGIN + x, y, text, "s end warn" if " for " in text else "s end"))
        body += _sectors(dim, y)
        y += 24 * (1 + (len(dim.sector_bytes_used) - 1) // _across())
    title = f"{row.tensor}: 32 threads, or the lanes of a register, take neighbouring indices"
    return Drawing(title, y - 12, body, "access")


def tile_drawing(tiles: Sequence[TileRow]) -> Drawing:
    """For each tile, the words that a warp wants of each of the 32 banks when it reads a column."""
    body: list[str] = []
    y = 0.0
    for tile in tiles:
        good = tile.column_wavefronts == tile.least_wavefronts
        body.append(label(MARGIN, y + 12, tile_title(tile), "s"))
        body.append(label(_LEFT, y + 12, tile_text(tile), f"s {'good' if good else 'warn'}"))
        body += _banks(tile, y + 26, good)
        y += 96
    rule = "a bar is a bank of 4 bytes, its height the different words that a column of 32 elements wants of it"
    body.append(label(MARGIN, y + 10, rule, "x m"))
    return Drawing("shared memory: a tile read down a column", y + 16, body, "tiles")


def _across() -> int:
    return int((WIDTH - MARGIN - _LEFT) // _SECTOR)


def _sectors(dim: DimAccess, y: float) -> Iterator[str]:
    style = "used" if dim.sectors == dim.least_sectors else "usedbad"
    for number, used in enumerate(dim.sector_bytes_used):
        x = _LEFT + number % _across() * _SECTOR
        top = y - 12 + number // _across() * 20
        yield rect(x, top, _SECTOR - 2, 16, "sector", f"sector {number}: {used} of {SECTOR} bytes used")
        yield rect(x, top + 16 - 16 * used / SECTOR, _SECTOR - 2, 16 * used / SECTOR, style)


def _banks(tile: TileRow, y: float, good: bool) -> Iterator[str]:
    most = max(32, max(tile.column_words_per_bank))
    for bank, words in enumerate(tile.column_words_per_bank):
        x = MARGIN + bank * 28
        height = max(40 * words / most, 2 if words else 0)
        yield rect(x, y + 40, 24, 1, "dot")
        yield rect(x, y + 40 - height, 24, height, "used" if good else "usedbad", f"bank {bank}: {words} words")
        yield label(x + 12, y + 53, str(bank), "x m mid")
        if words:
            yield label(x + 12, y + 37 - height, str(words), "x mid")

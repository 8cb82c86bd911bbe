"""What a report on a file adds: every byte accounted for, and totals over its tensors."""

from __future__ import annotations

import msgspec


class Region(msgspec.Struct, frozen=True):
    """A range of a file: header, padding, data, gap, foreign member, trailing bytes."""

    kind: str
    offset: int
    nbytes: int
    name: str | None = None


class Total(msgspec.Struct, frozen=True):
    """Tensors that have something in common (a dtype, a name prefix): how many and how large (logical bytes)."""

    key: str
    tensors: int
    nbytes: int


class FileAccount(msgspec.Struct, frozen=True, kw_only=True):
    """One file, byte for byte.

    `bytes_by_kind` adds up to `nbytes`. `regions` are in order, neighbours of one kind joined; of a file with very
    many only gaps, foreign members and trailing bytes are kept, and `regions_dropped` counts the others. `aligned`
    counts the tensors whose place in the file is a multiple of 16, 64 and 4096 bytes.
    """

    path: str
    kind: str
    nbytes: int
    bytes_by_kind: dict[str, int] = {}
    regions: tuple[Region, ...] = ()
    regions_dropped: int = 0
    placed_tensors: int = 0
    aligned: dict[str, int] = {}
    by_dtype: tuple[Total, ...] = ()
    by_prefix: tuple[Total, ...] = ()

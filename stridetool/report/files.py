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
    """One file, byte for byte."""

    path: str
    kind: str
    nbytes: int
    regions: tuple[Region, ...] = ()
    by_dtype: tuple[Total, ...] = ()
    by_prefix: tuple[Total, ...] = ()

"""Tensor files as values: tensors, the storages behind them, and what each byte of the file is for."""

from __future__ import annotations

from typing import Literal

import msgspec

from stridetool.core.layout import Layout

Severity = Literal["info", "warning", "error"]
RegionKind = Literal["header", "padding", "data", "foreign", "unread"]


class Note(msgspec.Struct, frozen=True):
    """Something about the file that its reader should know: a code, a sentence, the place and what to do."""

    code: str
    severity: Severity
    message: str
    where: str | None = None
    hint: str | None = None


class Region(msgspec.Struct, frozen=True, gc=False):
    """The bytes [start, end) of a file that have a known purpose. What no region covers is a gap or trailing."""

    start: int
    end: int
    kind: RegionKind
    name: str | None = None


class FileStorage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One run of bytes that tensors view. `nbytes` is what it claims, `stored_bytes` what the file holds for it.

    `file_offset` is None where the bytes are in no file (a meta tensor) or only compressed in it.
    """

    key: str
    nbytes: int
    stored_bytes: int
    file_offset: int | None
    device: str = "cpu"
    member: str | None = None
    compressed: bool = False


class FileTensor(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor. `layout` is in elements; `itemsize` is in bytes, and 0 where elements share bytes or blocks."""

    name: str
    dtype: str
    itemsize: int
    nbytes: int
    layout: Layout
    storage: str | None
    device: str = "cpu"
    flags: tuple[str, ...] = ()


class TensorFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file. `kind` is `npy`, `npz`, `safetensors`, `torch zip`, `torch legacy`, `torchscript`, `gguf`, …"""

    kind: str
    path: str
    size: int
    tensors: tuple[FileTensor, ...]
    storages: tuple[FileStorage, ...]
    regions: tuple[Region, ...] = ()
    notes: tuple[Note, ...] = ()

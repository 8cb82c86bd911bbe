"""The report of `inspect`: tensors, the storages that they share, and the operations that made them."""

from __future__ import annotations

import msgspec

from stridetool.report.files import FileAccount


class Source(msgspec.Struct, frozen=True):
    """Where tensors came from: `script`, `expression`, `npy`, `safetensors`, … and its path."""

    kind: str
    path: str | None = None


class Consumer(msgspec.Struct, frozen=True):
    """Whether a tensor can be handed to someone as it is, and why not."""

    consumer: str
    accepts: bool
    reason: str


class TensorRow(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor or array. `nbytes` is logical: elements times item size, however many are stored.

    Strides and `storage_offset` count steps of `stride_unit_bytes`: elements, so the item size, but for
    arrays whose byte strides are no whole elements, where it is 1.
    """

    name: str
    source: str | None = None
    dtype: str
    device: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    stride_unit_bytes: int
    storage_offset: int
    itemsize: int
    numel: int
    nbytes: int
    storage: str | None
    is_contiguous: bool
    memory_formats: tuple[str, ...]
    suggested_memory_format: str = "contiguous_format"
    is_non_overlapping_and_dense: bool
    has_internal_overlap: bool | None
    data_ptr: str | None
    reached_bytes: int | None = None
    library: str = "stridetool"
    flags: tuple[str, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    file_offset: int | None = None


class StorageRow(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes with one owner. `reached_bytes` counts each byte that some tensor reaches once (None: not decided)."""

    id: str
    nbytes: int
    device: str
    tensors: tuple[str, ...]
    reached_bytes: int | None
    file_offset: int | None = None
    source: str | None = None
    held_by: tuple[str, ...] = ()


class LayoutRow(msgspec.Struct, frozen=True):
    """Sizes, strides and offset of one end of an operation, in elements."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    storage_offset: int
    dtype: str


class ViewFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a view is impossible, and what would make it possible.

    `runs` are the groups of dimensions that merge into one; the boundary is between two neighbouring
    dimensions, where merging needs `stride_needed` and the tensor has `stride_found` (in elements).
    """

    shape: tuple[int, ...]
    runs: tuple[tuple[int, ...], ...]
    boundary: tuple[int, int]
    stride_needed: int
    stride_found: int
    set_by: str | None
    reshape_copied_bytes: int
    remedies: tuple[str, ...]


class OperationError(msgspec.Struct, frozen=True):
    """What an operation raised: the class, torch's words, our hint, and the anatomy of a failed view."""

    type: str
    message: str
    hint: str | None = None
    why: ViewFailure | None = None


class OperationRow(msgspec.Struct, frozen=True, kw_only=True):
    """One operation of a script, in order. Names are variables where there are any, else `%7`.

    `kind` is `view`, `copy`, `new`, `self` (the very input), `in-place` or `none` (no tensor came out);
    `arguments` are those that are no tensors, as Python writes them.
    """

    op: str
    kind: str
    file: str | None
    line: int | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    input_layouts: tuple[LayoutRow, ...] = ()
    output_layouts: tuple[LayoutRow, ...] = ()
    copied: bool
    copied_bytes: int
    strides_changed: bool
    offset_changed: bool
    shares_storage: bool
    kernel: str | None = None
    error: OperationError | None = None


class Picture(msgspec.Struct, frozen=True):
    """What a picture needs of one storage: per tensor, cell states along the byte ruler.

    `lanes[i]` has one entry per cell of `bytes_per_cell` bytes: the share of the cell's bytes that the
    tensor reaches, from 0 to 1; `shared[j]` counts the tensors that reach into cell j.
    """

    storage: str
    bytes_per_cell: int
    tensors: tuple[str, ...]
    lanes: tuple[tuple[float, ...], ...]
    shared: tuple[int, ...]


class InspectReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `inspect` found. `operations_dropped` were run but not kept (`--top` decides)."""

    source: Source | None
    sources: tuple[Source, ...]
    tensors: tuple[TensorRow, ...]
    storages: tuple[StorageRow, ...]
    operations: tuple[OperationRow, ...] = ()
    operations_dropped: int = 0
    copied_bytes: int = 0
    pictures: tuple[Picture, ...] = ()
    files: tuple[FileAccount, ...] = ()

"""The report of `inspect`: tensors, the storages that they share, and the operations that made them."""

from __future__ import annotations

import os.path

import msgspec

from stridetool.report.files import FileAccount


class Source(msgspec.Struct, frozen=True):
    """Where tensors came from: `script`, `expression`, `npy`, `safetensors`, … and its path."""

    kind: str
    path: str | None = None

    @property
    def name(self) -> str:
        """The path, or what it is where it has none."""
        return self.path or self.kind


class Consumer(msgspec.Struct, frozen=True):
    """Whether a tensor can be handed to someone as it is, and why not."""

    consumer: str
    accepts: bool
    reason: str


class TensorRow(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor or array. `nbytes` is logical: elements times item size, however many are stored.

    Strides and `storage_offset` count steps of `stride_unit_bytes`: elements, so the item size, but for
    arrays whose byte strides are no whole elements, where it is 1. An `itemsize` of 0 means elements that share
    bytes or blocks. `file_alignment` is the largest power of two, up to a page, that divides the place in the file.
    `values` are the first elements in logical order, as text (none where the memory was not read).
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
    file_alignment: int | None = None
    values: tuple[str, ...] = ()


class StorageRow(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes with one owner. `reached_bytes` counts each byte that some tensor reaches once (None: not decided).

    Of a storage in a file, `stored_bytes` are those that the file holds for it (compressed ones are as many as
    they claim to become), and `reached_at_least` and `reached_at_most` bound what is not decided.
    """

    id: str
    nbytes: int
    device: str
    tensors: tuple[str, ...]
    reached_bytes: int | None
    file_offset: int | None = None
    source: str | None = None
    held_by: tuple[str, ...] = ()
    member: str | None = None
    stored_bytes: int | None = None
    compressed: bool = False
    reached_at_least: int | None = None
    reached_at_most: int | None = None


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

    @property
    def place(self) -> str | None:
        """`FILE:LINE`, with the file's name alone."""
        return f"{os.path.basename(self.file)}:{self.line}" if self.file else None


class Picture(msgspec.Struct, frozen=True):
    """What a picture needs of one storage: per tensor, cell states along the byte ruler.

    `lanes[i]` has one entry per cell of `bytes_per_cell` bytes: the share of the cell's bytes that the
    tensor reaches, from 0 to 1; `shared[j]` counts the tensors that reach into cell j. `repeated[i]` is the share
    that more than one index of the tensor reaches, and empty where none does (or where it is not decided).
    """

    storage: str
    bytes_per_cell: int
    tensors: tuple[str, ...]
    lanes: tuple[tuple[float, ...], ...]
    shared: tuple[int, ...]
    repeated: tuple[tuple[float, ...], ...] = ()


class Jump(msgspec.Struct, frozen=True):
    """A step between neighbours in logical order, in steps of the stride unit, and how often it is taken."""

    elements: int
    count: int


class DimAccess(msgspec.Struct, frozen=True, kw_only=True):
    """What memory does when neighbouring threads or register lanes take neighbouring indices of `dim`.

    On a GPU: `threads` of a warp touch `sectors` of 32 bytes, where `least_sectors` would hold the same bytes;
    `sector_bytes_used` says how much of each; `vector_bytes` is the widest load that is aligned at every index. On the
    host: a 32-byte register of `register_lanes` elements is filled by one vector load, a reversed one, a broadcast
    or a gather, and touches `register_cache_lines` of 64 bytes.
    """

    dim: int
    step_bytes: int
    threads: int
    sectors: int
    least_sectors: int
    sector_bytes_used: tuple[int, ...]
    cache_lines: int
    vector_bytes: int
    register_lanes: int
    register_load: str
    register_cache_lines: int


class AccessRow(msgspec.Struct, frozen=True, kw_only=True):
    """How one tensor is walked: the steps of the logical order, most frequent first, and each dimension's pattern."""

    tensor: str
    storage: str | None
    jumps: tuple[Jump, ...]
    dims: tuple[DimAccess, ...]


class TileRow(msgspec.Struct, frozen=True, kw_only=True):
    """A tile in shared memory, read by a warp along a row and down a column.

    Wavefronts are passes of the 32 banks; conflicts are those beyond `least_wavefronts`. Each row is followed by
    `padding_elems` unused elements; `column_words_per_bank` counts the different words that a column wants of each.
    """

    itemsize: int
    rows: int
    columns: int
    padding_elems: int
    row_wavefronts: int
    column_wavefronts: int
    least_wavefronts: int
    column_words_per_bank: tuple[int, ...]


class InspectReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `inspect` found. `operations_dropped` were run but not kept (`--top` decides).

    `file_pictures` show each file as a whole: a lane for each kind of bytes, `shared` counting the records.
    """

    source: Source | None
    sources: tuple[Source, ...]
    tensors: tuple[TensorRow, ...]
    storages: tuple[StorageRow, ...]
    operations: tuple[OperationRow, ...] = ()
    operations_dropped: int = 0
    copied_bytes: int = 0
    simulated: bool = False
    pictures: tuple[Picture, ...] = ()
    file_pictures: tuple[Picture, ...] = ()
    access: tuple[AccessRow, ...] = ()
    tiles: tuple[TileRow, ...] = ()
    files: tuple[FileAccount, ...] = ()

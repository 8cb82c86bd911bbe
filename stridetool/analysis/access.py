"""How memory is touched when neighbouring threads, or lanes of a register, take neighbouring indices of a dimension.

The rules, all from NVIDIA's CUDA C++ Programming Guide and Best Practices Guide (devices of compute capability 6.0
and later):

- a warp is 32 threads; its global accesses coalesce into as many 32-byte transactions (sectors) as are needed to
  serve all of them (Best Practices, "Coalesced Access to Global Memory"); a cache line is four sectors, 128 bytes;
- a thread loads 1, 2, 4, 8 or 16 bytes with one instruction if the address is a multiple of that size
  (Programming Guide, "Size and Alignment Requirement");
- shared memory has 32 banks, successive 32-bit words lie in successive banks, and each bank serves one word a
  cycle; threads that want the same word share it (Programming Guide, "Shared Memory"). So a request needs as many
  passes (wavefronts) as the busiest bank has different words.

On the host a register holds 32 bytes (AVX2) and a cache line 64.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import gcd, prod

import msgspec

from stridetool.report.inspect import AccessRow, DimAccess, InspectReport, Jump, TensorRow, TileRow

WARP, SECTOR, GPU_LINE, WIDEST_LOAD = 32, 32, 128, 16
REGISTER, HOST_LINE = 32, 64
BANKS, BANK_BYTES, TILE = 32, 4, 32

MAX_TENSORS = 256  # described in one report; more would bury what the reader looks for


def with_access(report: InspectReport) -> InspectReport:
    """`report` with the access patterns of its first tensors, and a tile for each item size among them."""
    rows = tuple(access(tensor) for tensor in report.tensors[:MAX_TENSORS] if _has_machine_words(tensor))
    itemsizes = sorted({tensor.itemsize for tensor in report.tensors[:MAX_TENSORS] if _has_machine_words(tensor)})
    return msgspec.structs.replace(report, access=rows, tiles=tuple(row for size in itemsizes for row in tiles(size)))


def access(tensor: TensorRow) -> AccessRow:
    """The pattern along each dimension of more than one element, and the steps of the logical order."""
    dims = tuple(_along(tensor, dim) for dim, size in enumerate(tensor.sizes) if size > 1)
    return AccessRow(tensor=tensor.name, storage=tensor.storage, jumps=tuple(jumps(tensor)), dims=dims)


def jumps(tensor: TensorRow) -> Iterator[Jump]:
    """Each different step between neighbours in logical order with its count, the most frequent first.

    Closed form: dimension d advances `(n[d] - 1) * n[0] * … * n[d-1]` times, and then all inner ones run back.
    """
    counts: dict[int, int] = {}
    back = 0
    for dim in range(len(tensor.sizes) - 1, -1, -1):
        size, stride = tensor.sizes[dim], tensor.strides[dim]
        times = (size - 1) * prod(tensor.sizes[:dim])
        if times > 0:
            counts[stride - back] = counts.get(stride - back, 0) + times
        back += (size - 1) * stride
    ordered = sorted(counts.items(), key=lambda item: -item[1]) if tensor.numel else []
    return (Jump(elements, count) for elements, count in ordered)


def tiles(itemsize: int) -> tuple[TileRow, ...]:
    """A 32 x 32 tile in shared memory as it is and, if that has conflicts, with the least padding that has fewest."""
    plain = _tile(itemsize, 0)
    if plain.column_wavefronts == plain.least_wavefronts:
        return (plain,)
    best = min((_tile(itemsize, padding) for padding in range(1, BANKS + 1)), key=lambda tile: tile.column_wavefronts)
    return (plain, best)


def touched(first: int, step: int, count: int, itemsize: int, granule: int) -> tuple[int, ...]:
    """Bytes used of each block of `granule` bytes that `count` items touch, in the order of addresses.

    Items of `itemsize` bytes begin at `first`, `first + step`, …; a byte that several use counts once.
    """
    used: dict[int, int] = {}  # block → a bit for each of its bytes
    for start in range(first, first + step * count, step) if step else (first,):
        for byte in range(start, start + itemsize):
            used[byte // granule] = used.get(byte // granule, 0) | 1 << byte % granule
    return tuple(used[block].bit_count() for block in sorted(used))


_touched = lru_cache(maxsize=4096)(touched)  # the tensors of a model repeat a few patterns


def _has_machine_words(tensor: TensorRow) -> bool:
    return 0 < tensor.itemsize <= WIDEST_LOAD and tensor.numel > 0


def _along(tensor: TensorRow, dim: int) -> DimAccess:
    origin, step, size = _origin(tensor), tensor.strides[dim] * tensor.stride_unit_bytes, tensor.sizes[dim]
    itemsize, threads = tensor.itemsize, min(WARP, size)
    sectors = _touched(origin % GPU_LINE, step, threads, itemsize, SECTOR)
    lines = _touched(origin % GPU_LINE, step, threads, itemsize, GPU_LINE)
    lanes = min(max(1, REGISTER // itemsize), size)
    return DimAccess(
        dim=dim,
        step_bytes=step,
        threads=threads,
        sectors=len(sectors),
        least_sectors=-(-sum(sectors) // SECTOR),
        sector_bytes_used=sectors,
        cache_lines=len(lines),
        vector_bytes=_widest_load(tensor, dim, origin),
        register_lanes=lanes,
        register_load=_register_load(step, itemsize),
        register_cache_lines=len(_touched(origin % HOST_LINE, step, lanes, itemsize, HOST_LINE)),
    )


def _origin(tensor: TensorRow) -> int:
    """The address of the first element; without one, its place in a storage that is taken to begin aligned."""
    address = int(tensor.data_ptr, 16) if tensor.data_ptr else 0
    return address or tensor.storage_offset * tensor.stride_unit_bytes


def _widest_load(tensor: TensorRow, dim: int, origin: int) -> int:
    """The largest load, in bytes, that every thread can do at its own place: aligned there, and all of it wanted."""
    step = tensor.strides[dim] * tensor.stride_unit_bytes
    together = step == tensor.itemsize
    whole = tensor.sizes[dim] * tensor.itemsize if together else tensor.itemsize
    others = [
        stride * tensor.stride_unit_bytes
        for d, (size, stride) in enumerate(zip(tensor.sizes, tensor.strides, strict=True))
        if size > 1 and not (d == dim and together)
    ]
    common = gcd(WIDEST_LOAD, whole, origin, *others)
    return common & -common


def _register_load(step: int, itemsize: int) -> str:
    known = {itemsize: "vector", -itemsize: "reversed", 0: "broadcast"}
    return known.get(step, "gather")


def _tile(itemsize: int, padding: int) -> TileRow:
    pitch = (TILE + padding) * itemsize
    column = _words_per_bank(pitch, itemsize)
    row = _words_per_bank(itemsize, itemsize)
    return TileRow(
        itemsize=itemsize,
        rows=TILE,
        columns=TILE,
        padding_elems=padding,
        row_wavefronts=max(row),
        column_wavefronts=max(column),
        least_wavefronts=max(1, WARP * itemsize // (BANKS * BANK_BYTES)),
        column_words_per_bank=column,
    )


def _words_per_bank(step: int, itemsize: int) -> tuple[int, ...]:
    """Different 32-bit words that a warp wants of each bank when its threads lie `step` bytes apart."""
    words = {byte // BANK_BYTES for thread in range(WARP) for byte in range(thread * step, thread * step + itemsize)}
    counts = [0] * BANKS
    for word in words:
        counts[word % BANKS] += 1
    return tuple(counts)

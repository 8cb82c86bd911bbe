"""From a copy plan to the launch of a CUDA kernel: which kernels can serve, and grid, block and walk of each.

Pure integers: no GPU and no CuPy. `copy.cu` holds the kernels, `cuda.py` launches them, and the tests launch them on
the host.
"""

from __future__ import annotations

from math import gcd, prod

import msgspec

from stridetool.core.plan import CopyPlan, Dim
from stridetool.errors import UnsupportedError

BLOCK_THREADS = 256
MAX_DIMS = 66
_MAX_ROW_BLOCKS = 1 << 16
_VECTOR_TILE = {1: (128, 128), 2: (128, 64), 4: (64, 64), 8: (32, 32), 16: (32, 32)}
"""Elements of a vectorised tile along destination and source, by width; `Shape` in copy.cu."""


class Launch(msgspec.Struct, frozen=True):
    """One kernel call. The walk's dimensions are in the order in which the kernel expects them."""

    kernel: str
    width: int
    grid: tuple[int, int]
    block: tuple[int, int]
    dst: int
    src: int
    total: int
    dims: tuple[Dim, ...]

    @property
    def entry(self) -> str:
        """The name of the entry point in copy.cu."""
        return f"{self.kernel}_{self.width}"

    def walk(self) -> list[int]:
        """The kernel's `Walk` as integers: nd, total, sizes, destination strides, source strides."""
        columns = [[dim[i] for dim in self.dims] + [0] * (MAX_DIMS - len(self.dims)) for i in range(3)]
        return [len(self.dims), self.total, *columns[0], *columns[1], *columns[2]]


def launches(plan: CopyPlan, dst: int, src: int) -> dict[str, Launch]:
    """Every kernel that can run this plan between two addresses, best first; empty when there is nothing to copy."""
    if plan.kind == "empty":
        return {}
    if len(plan.dims) > MAX_DIMS - 2:
        raise UnsupportedError(f"cannot copy {len(plan.dims)} dimensions on CUDA: at most {MAX_DIMS - 2}")
    dst, src = dst + plan.dst_shift, src + plan.src_shift
    dims, width = _aligned(plan, dst, src)
    found = [
        *_tiles(dims, width, dst, src),
        *_runs(dims, width, dst, src),
        _gather("gather_coalesced", dims, width, dst, src),
        _gather("gather_naive", tuple(sorted(dims, key=lambda d: abs(d.src_stride))), width, dst, src),
    ]
    return {launch.kernel: launch for launch in found}


def _alignment(dims: tuple[Dim, ...], *addresses: int) -> int:
    """The largest power of two, at most 16, that divides all addresses and strides."""
    return gcd(16, *addresses, *(stride for dim in dims for stride in dim[1:]))


def _aligned(plan: CopyPlan, dst: int, src: int) -> tuple[tuple[Dim, ...], int]:
    """Dimensions and width such that every access is aligned, which CUDA demands: too wide an element is split."""
    width = min(plan.width, _alignment(plan.dims, dst, src))
    split = () if width == plan.width else (Dim(plan.width // width, width, width),)
    dims = split + plan.dims or (Dim(1, width, width),)
    return dims, width


def _gather(kernel: str, dims: tuple[Dim, ...], width: int, dst: int, src: int) -> Launch:
    total = prod(dim.size for dim in dims)
    each = BLOCK_THREADS * (4 if kernel == "gather_coalesced" else 1)
    return Launch(kernel, width, (-(-total // each), 1), (BLOCK_THREADS, 1), dst, src, total, dims)


def _tiles(dims: tuple[Dim, ...], width: int, dst: int, src: int) -> list[Launch]:
    """Through shared memory, where one side is contiguous along dimension 0 and the other along another one."""
    across = next((i for i, dim in enumerate(dims) if i and abs(dim.src_stride) == width), 0)
    if not across or dims[0].dst_stride != width or dims[0].src_stride in (0, width):
        return []
    other = dims[across]
    if other.src_stride < 0:  # walk the source upwards
        back = other.size - 1
        dst, src = dst + back * other.dst_stride, src + back * other.src_stride
        other = Dim(other.size, -other.dst_stride, -other.src_stride)
    rest = tuple(dim for i, dim in enumerate(dims) if i not in (0, across))
    ordered = (dims[0], other, *rest)
    padded = _tile("tile_padded", (32, 32), ordered, width, dst, src)
    # All strides but the two of one element are where 16-byte accesses start.
    steps = (Dim(1, other.dst_stride, dims[0].src_stride), *rest)
    if _alignment(steps, dst, src) < 16:
        return [padded]
    vector = _tile("tile_vector", _VECTOR_TILE[width], ordered, width, dst, src)
    short = min(dims[0].size, other.size) * width < 64  # most of a large tile would be empty
    return [padded, vector] if short else [vector, padded]


def _tile(kernel: str, tile: tuple[int, int], dims: tuple[Dim, ...], width: int, dst: int, src: int) -> Launch:
    blocks = prod(-(-dim.size // side) for dim, side in zip(dims, tile, strict=False)) * prod(d.size for d in dims[2:])
    return Launch(kernel, width, (blocks, 1), (BLOCK_THREADS, 1), dst, src, blocks, dims)


def _runs(dims: tuple[Dim, ...], width: int, dst: int, src: int) -> list[Launch]:
    """Threads along dimension 0, where it is contiguous on both sides or the source stands still."""
    first, rest = dims[0], dims[1:]
    if first.dst_stride != width or first.src_stride not in (0, width):
        return []
    kernel = "splat" if first.src_stride == 0 else "rows"
    if kernel == "rows":
        nbytes = first.size * width
        width = gcd(_alignment(rest, dst, src), nbytes)
        first = Dim(nbytes // width, width, width)
    units = first.size if kernel == "rows" else -(-first.size * width // 16)
    along = min(BLOCK_THREADS, 1 << max(0, units - 1).bit_length())
    rows = prod(dim.size for dim in rest)
    height = BLOCK_THREADS // along
    blocks = min(-(-rows // height), _MAX_ROW_BLOCKS)
    columns = min(-(-units // (along * 4)), max(1, _MAX_ROW_BLOCKS // blocks))
    return [Launch(kernel, width, (blocks, max(1, columns)), (along, height), dst, src, rows, (first, *rest))]

"""The kernel without a compiler: NumPy over the tiles of the plan.

NumPy walks a strided copy one dimension at a time, which loses the caches as soon as source and destination disagree
about the order. Tiles bring those back for transposes; NumPy's own loop is as good for every other kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stridetool.core.plan import CopyPlan, plan_bytes

_TYPES = {1: "|u1", 2: "<u2", 4: "<u4", 8: "<u8", 16: "<c16"}
_WORTH_TILES_BYTES = 1 << 20


class _Memory:
    """Bytes at an address under a shape, as `__array_interface__`; the caller keeps them alive."""

    def __init__(self, address: int, sizes: Sequence[int], strides: Sequence[int], width: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": tuple(sizes),
            "strides": tuple(strides),
            "typestr": _TYPES[width],
        }


def copy_raw(
    dst: int,
    src: int,
    itemsize: int,
    sizes: Sequence[int],
    dst_strides: Sequence[int],
    src_strides: Sequence[int],
    threads: int,
) -> None:
    """Copy over raw addresses, strides in bytes; shared memory is handled as if through a copy. One thread."""
    plan = plan_bytes(sizes, dst_strides, src_strides, itemsize)
    if plan.kind == "empty":
        return
    # NumPy wants the innermost dimension last.
    outer = [d.size for d in reversed(plan.dims)]
    to = [d.dst_stride for d in reversed(plan.dims)]
    by = [d.src_stride for d in reversed(plan.dims)]
    target: Any = np.asarray(_Memory(dst + plan.dst_shift, outer, to, plan.width))
    source: Any = np.asarray(_Memory(src + plan.src_shift, outer, by, plan.width))
    if np.may_share_memory(target, source):
        source = source.copy()
    if plan.kind == "transpose" and plan.nbytes >= _WORTH_TILES_BYTES:
        _copy_tiles(plan, target, source)
    else:
        np.copyto(target, source)


def _copy_tiles(plan: CopyPlan, target: Any, source: Any) -> None:
    for first, extent in plan.tiles():
        box = tuple(slice(f, f + e) for f, e in zip(reversed(first), reversed(extent), strict=True))
        target[box] = source[box]

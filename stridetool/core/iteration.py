"""Operands of an elementwise operator together: the sizes that both expand to, and the order in which torch's
TensorIterator walks, which decides the strides of the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from stridetool.core.drivers.device import Device
from stridetool.core.formats import dense_strides
from stridetool.core.layout import Layout
from stridetool.core.shapes import Ints, contiguous_strides
from stridetool.core.tensor import Tensor
from stridetool.errors import TensorError


def broadcast_sizes(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """Sizes that both expand to. Raises TensorError in torch's words."""
    ndim = max(len(a), len(b))
    padded_a, padded_b = (1,) * (ndim - len(a)) + tuple(a), (1,) * (ndim - len(b)) + tuple(b)
    out = []
    for d in range(ndim - 1, -1, -1):
        x, y = padded_a[d], padded_b[d]
        if x != y and 1 not in (x, y):
            raise TensorError(
                f"The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {d}"
            )
        out.append(y if x == 1 else x)
    return tuple(reversed(out))


def common_device(tensors: Sequence[Tensor]) -> Device:
    """The device of all; numbers on the host go with any. Raises TensorError for two devices, in torch's words."""
    chosen = max(tensors, key=lambda x: bool(x._layout.sizes) or not x.is_cpu).device
    for x in tensors:
        if x.device != chosen and not (x.is_cpu and not x._layout.sizes):
            raise TensorError(
                f"Expected all tensors to be on the same device, but found at least two devices, {chosen} and "
                f"{x.device}!",
                hint="move one with .to(device)",
            )
    return chosen


def iteration_strides(sizes: Sequence[int], operands: Sequence[Layout]) -> Ints:
    """Strides of the result of operands that are expanded to `sizes`.

    Operands that all lie alike without holes hand their strides on; else the dimensions are sorted by stride, the
    first operand that can tell two of them apart deciding, and the result is dense in that order.
    """
    fast = _common_strides(sizes, operands)
    return dense_strides(sizes, lambda a, b: _is_outside(a, b, sizes, operands)) if fast is None else fast


def _common_strides(sizes: Sequence[int], operands: Sequence[Layout]) -> Ints | None:
    if any(layout.sizes != tuple(sizes) for layout in operands):
        return None
    if all(layout.is_contiguous() for layout in operands):
        return contiguous_strides(sizes)
    for memory_format in ("channels_last", "channels_last_3d"):
        if all(layout.is_contiguous(memory_format) for layout in operands):
            return Layout.contiguous(sizes, memory_format).strides
    first = operands[0]
    if first.is_non_overlapping_and_dense() and all(layout.strides == first.strides for layout in operands):
        return first.strides
    return None


def _is_outside(a: int, b: int, sizes: Sequence[int], operands: Sequence[Layout]) -> int:
    """1 when dimension `a` belongs outside `b`, -1 when inside, 0 when no operand can tell."""
    for layout in operands:
        x, y = layout.strides[a], layout.strides[b]
        if x == 0 or y == 0:
            continue
        if x != y:
            return 1 if x > y else -1
        if sizes[a] > sizes[b]:
            return 1
    return 0

"""Memory formats: which orders in memory a pair of sizes and strides is in, and which order a copy of it gets.

torch keeps two notions apart, and so does this file. The *flag* (`is_contiguous`) says that the elements fill their
range in that order. The *suggestion* (`suggested_format`) is what `cat`, convolutions and `to(memory_format=)` go by:
it looks at the order of the strides alone. They differ for tensors with sizes of 1 and for slices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stridetool.core.shapes import Ints, channels_last_order

_FORMAT_OF_RANK = {4: "channels_last", 5: "channels_last_3d"}
_RANK_OF_FORMAT = {name: rank for rank, name in _FORMAT_OF_RANK.items()}


def is_contiguous(sizes: Ints, strides: Ints) -> bool:
    """C order without a hole; sizes of 1 may have any stride, and a tensor without elements is contiguous."""
    step = 1
    for d in range(len(sizes) - 1, -1, -1):
        size = sizes[d]
        if size != 1:
            if strides[d] != step:
                return 0 in sizes
            step *= size
    return True


def is_channels_last(sizes: Ints, strides: Ints, memory_format: str) -> bool:
    """The flag of one of the two channels-last formats; always False for a rank that the format does not have.

    Unlike C order it asks the same of a tensor without elements.
    """
    if _RANK_OF_FORMAT.get(memory_format) != len(sizes):
        return False
    step = 1
    for d in channels_last_order(len(sizes), memory_format):
        if sizes[d] != 1:
            if strides[d] != step:
                return False
            step *= sizes[d]
    return True


def suggested_format(sizes: Ints, strides: Ints) -> str:
    """`contiguous_format`, `channels_last` or `channels_last_3d`: what operators treat the tensor as."""
    memory_format = _FORMAT_OF_RANK.get(len(sizes))
    if memory_format is None or strides[1] == 0:
        return "contiguous_format"
    least = 0
    for d in channels_last_order(len(sizes), memory_format):
        ambiguous = d == 0 and least == strides[1]  # [N, 1, 1, 1] and [N, C, 1, 1] stay contiguous
        if sizes[d] == 0 or strides[d] < least or ambiguous:
            return "contiguous_format"
        least = strides[d] * sizes[d]
    return memory_format


def is_non_overlapping_and_dense(sizes: Ints, strides: Ints) -> bool:
    """Every place from the first to the last element holds exactly one element, in whatever order."""
    if is_contiguous(sizes, strides):
        return True
    memory_format = _FORMAT_OF_RANK.get(len(sizes))
    if memory_format and is_channels_last(sizes, strides, memory_format):
        return True
    step = 1
    for stride, size in sorted((stride, size) for size, stride in zip(sizes, strides, strict=True) if size != 1):
        if stride != step:
            return False
        step *= size
    return True


def preserve_format_strides(sizes: Ints, strides: Ints) -> Ints:
    """Strides of `empty_like`, `clone` and unary operators: the same if dense, else dense in the same order.

    torch's rule: from the last dimension to the first, insertion by stride; a pair with a stride of 0 is not moved,
    and of two equal strides the larger size goes outside.
    """
    if is_non_overlapping_and_dense(sizes, strides):
        return strides
    return dense_strides(sizes, lambda a, b: _is_outside(a, b, sizes, strides))


def dense_strides(sizes: Sequence[int], is_outside: Callable[[int, int], int]) -> Ints:
    """Strides without holes, in the order that torch's insertion sort gives, from the last dimension to the first.

    `is_outside(a, b)` is 1 when dimension a belongs outside b, -1 when inside, 0 when it cannot tell: the pair then
    stays, and the one outside it is compared.
    """
    order = list(range(len(sizes) - 1, -1, -1))
    for i in range(1, len(order)):
        inner = i
        for outer in range(i - 1, -1, -1):
            swap = is_outside(order[outer], order[inner])
            if swap > 0:
                order[outer], order[inner] = order[inner], order[outer]
                inner = outer
            elif swap < 0:
                break
    strides, step = [0] * len(sizes), 1
    for d in order:
        strides[d] = step
        step *= sizes[d] or 1
    return tuple(strides)


def _is_outside(a: int, b: int, sizes: Ints, strides: Ints) -> int:
    """1 when dimension `a` belongs outside `b`, -1 when it belongs inside, 0 when the strides cannot tell."""
    if strides[a] == 0 or strides[b] == 0:
        return 0
    if strides[a] != strides[b]:
        return 1 if strides[a] > strides[b] else -1
    return 1 if sizes[a] > sizes[b] else 0

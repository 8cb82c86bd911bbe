"""The walk through memory in logical order: the first offsets with the jumps between them, and how many are which."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from stridetool.render.blocks import Span
from stridetool.render.fold import fold
from stridetool.report.inspect import AccessRow, Jump, TensorRow

MAX_STEPS, MAX_JUMPS = 24, 4
_BAR = 24


def walk(tensor: TensorRow, access: AccessRow | None, width: int = 100) -> Iterator[tuple[Span, ...]]:
    """The offsets in a line or two, then a bar for each kind of jump."""
    offsets = first_offsets(tensor, MAX_STEPS)
    parts: list[Span] = [("walk  ", "muted"), (str(offsets[0]) if offsets else "(no elements)", "")]
    for previous, offset in itertools.pairwise(offsets):
        parts.append((f" {offset - previous:+d}", "muted" if offset == previous + 1 else "warn"))
        parts.append((f" {offset}", ""))
    if tensor.numel > len(offsets):
        parts.append((" …", "muted"))
    yield from itertools.islice(fold(parts, width, indent=6), 2)
    if access is not None and len(access.jumps) > 0:
        yield from _histogram(access.jumps, width)


def jump_texts(jumps: Sequence[Jump]) -> list[str]:
    """`5 of 6 steps = +1`, the most frequent first, the rare ones together."""
    total = sum(jump.count for jump in jumps)
    texts = [f"{jump.count:,} of {total:,} steps = {jump.elements:+,d}" for jump in jumps[:MAX_JUMPS]]
    rest = sum(jump.count for jump in jumps[MAX_JUMPS:])
    return [*texts, f"{rest:,} of {total:,} steps = others"] if rest else texts


def first_offsets(tensor: TensorRow, count: int) -> list[int]:
    """Offsets of the first `count` elements in logical order, in steps of the stride unit."""
    offsets = []
    for number in range(min(count, tensor.numel)):
        offset, rest = tensor.storage_offset, number
        for size, stride in zip(reversed(tensor.sizes), reversed(tensor.strides), strict=True):
            offset, rest = offset + rest % size * stride, rest // size
        offsets.append(offset)
    return offsets


def _histogram(jumps: Sequence[Jump], width: int) -> Iterator[tuple[Span, ...]]:
    total = sum(jump.count for jump in jumps)
    texts = jump_texts(jumps)
    longest = max(map(len, texts))
    room = min(_BAR, width - longest - 8)
    counts = [*(jump.count for jump in jumps[:MAX_JUMPS]), sum(jump.count for jump in jumps[MAX_JUMPS:])]
    for text, count in zip(texts, counts, strict=False):
        bar = "█" * max(1, round(count / total * room)) if room > 3 else ""
        yield (("      ", ""), (text.ljust(longest) + "  ", ""), (bar, "number"))

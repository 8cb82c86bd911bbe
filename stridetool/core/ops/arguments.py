"""Arguments as torch's Python binding takes them: sizes as separate integers, or as one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from stridetool.errors import ArgumentTypeError


def ints(name: str, values: Sequence[Any]) -> tuple[int, ...]:
    """`(2, 3)`, `([2, 3],)` or `((2, 3),)` as a tuple of integers. Raises ArgumentTypeError for anything else."""
    if len(values) == 1 and isinstance(values[0], (list, tuple)):
        values = values[0]
    try:
        return tuple(map(index, values))
    except TypeError:
        at, bad = next((i, v) for i, v in enumerate(values) if not hasattr(v, "__index__"))
        kind = type(bad).__name__
        detail = f"but found element of type {kind} at pos {at}" if len(values) > 1 else f"not {kind}"
        raise ArgumentTypeError(f"{name}(): argument 'size' (position 1) must be tuple of ints, {detail}") from None

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
        raise ArgumentTypeError(
            f"{name}(): argument 'size' must be tuple of ints, but found element of type {type(bad).__name__} at "
            f"pos {at}"
        ) from None

"""The first values of an array, for whoever wants to see which number lies where: bounded, whatever the size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

MAX_VALUES = 256
_MAX_TEXT = 32


def first_values(array: Any, sizes: Sequence[int], limit: int = MAX_VALUES) -> tuple[str, ...]:
    """At most `limit` elements of `array` in logical order, as text; reads little more than those."""
    if 0 in sizes:
        return ()
    part = array
    for dim in range(len(sizes)):
        inner = prod(sizes[dim + 1 :])
        if inner < limit:
            part = part[: -(-limit // inner)]
            break
        part = part[0]
    return tuple(_text(value) for value, _ in zip(_flat(part.tolist()), range(limit), strict=False))


def _flat(values: Any) -> Iterator[Any]:
    if isinstance(values, list):
        for value in values:
            yield from _flat(value)
    else:
        yield values


def _text(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, (float, complex)) else repr(value)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"

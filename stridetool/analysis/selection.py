"""`--tensor GLOB` and `--tensor 'x[0:2, :]'`: which arrays, and which part of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import msgspec

from stridetool.core.facts import ArrayFacts
from stridetool.core.layout import Layout
from stridetool.errors import StrideToolError, UsageError

_PART = re.compile(r"(.+)\[([\d:,\s-]*)\]")


def select(arrays: Sequence[ArrayFacts], patterns: Sequence[str]) -> list[ArrayFacts]:
    """The arrays that any pattern names, in their order, cut to the part that it asks for.

    Raises UsageError for a pattern that names nothing, and for a part that does not fit.
    """
    chosen: dict[int, ArrayFacts] = {}
    for pattern in patterns:
        found = list(_matches(arrays, pattern))
        if not found:
            names = ", ".join(facts.name for facts in arrays[:10]) or "none"
            raise UsageError(f"cannot find a tensor {pattern!r}", hint=f"there are: {names}")
        chosen.update(found)
    return [chosen[i] for i in sorted(chosen)]


def _matches(arrays: Sequence[ArrayFacts], pattern: str) -> Iterator[tuple[int, ArrayFacts]]:
    whole = [(i, facts) for i, facts in enumerate(arrays) if facts.name == pattern or fnmatchcase(facts.name, pattern)]
    part = _PART.fullmatch(pattern)
    if whole or part is None:
        yield from whole
        return
    for i, facts in enumerate(arrays):
        if fnmatchcase(facts.name, part[1]):
            name, layout = f"{facts.name}[{part[2]}]", _cut(facts, part[2])
            yield i, msgspec.structs.replace(facts, name=name, layout=layout, values=())


def _cut(facts: ArrayFacts, items: str) -> Layout:
    """The layout of a part: integers drop a dimension, slices keep it."""
    layout, dim = facts.layout, 0
    try:
        for item in filter(None, (text.strip() for text in items.split(","))):
            if ":" in item:
                start, stop, step = (*(int(part) if part.strip() else None for part in item.split(":")), None, None)[:3]
                layout = layout.slice(dim, start, stop, step or 1)
                dim += 1
            else:
                layout = layout.select(dim, int(item))
    except (StrideToolError, ValueError) as error:
        raise UsageError(f"cannot take {facts.name}[{items}]: {str(error).splitlines()[0]}") from error
    return layout

"""Spans folded to a width, without cutting one in two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stridetool.render.blocks import Span


def fold(spans: Sequence[Span], width: int, indent: int = 0) -> Iterator[tuple[Span, ...]]:
    """Lines of at most `width` columns (a span that is longer stands alone), all but the first indented."""
    line: list[Span] = []
    used = 0
    for text, style in spans:
        if line and used + len(text) > width:
            yield tuple(line)
            text = text.lstrip()
            line, used = [(" " * indent, "")], indent
        line.append((text, style))
        used += len(text)
    yield tuple(line)

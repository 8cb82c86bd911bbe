"""The report of `alloc-report` as blocks."""

from __future__ import annotations
from stridetool.render.blocks import line


def alloc_blocks(document, width):
    yield line("todo")

"""What is drawn of an out-of-memory message: the verdict, the setting to paste, and the numbers that it rests on."""

from __future__ import annotations

from collections.abc import Iterator

from stridetool.render.alloc_verdict import export_line
from stridetool.render.blocks import Block, Column, Heading, Table, line
from stridetool.report.alloc import MessageReport
from stridetool.units import format_bytes


def message_blocks(report: MessageReport) -> Iterator[Block]:
    """The whole report of one message."""
    yield line((report.verdict[0].upper() + report.verdict[1:], "bad"))
    if report.recommended is not None:
        yield export_line(report.recommended)
    yield Heading(f"what the message says (torch {report.era}, GPU {report.device})")
    rows = (
        ("tried to allocate", report.wanted_bytes),
        ("capacity", report.total_bytes),
        ("free", report.free_bytes),
        ("allocated", report.allocated_bytes),
        ("reserved", report.reserved_bytes),
        ("reserved, unallocated", report.unallocated_bytes),
        ("in private pools", report.private_pool_bytes or None),
        ("outside this allocator", report.foreign_bytes),
    )
    yield Table((Column(""), Column("bytes", "right")), [(name, format_bytes(b)) for name, b in rows if b is not None])

"""The operations of a script in order: what went in and out, what was copied, and why a view was impossible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from stridetool.render.blocks import Block, Column, Heading, Picture, Span, Table, line
from stridetool.render.layout import sizes_text, strides_text
from stridetool.render.runs import run_brackets
from stridetool.report.inspect import InspectReport, LayoutRow, OperationRow, ViewFailure
from stridetool.units import format_bytes


def operation_blocks(report: InspectReport) -> Iterator[Block]:
    """A table of the operations, and below it the anatomy of each failure."""
    if not report.operations:
        return
    yield Heading("operations")
    titles = ("where", "operation", "out", "what", "sizes", "strides", "offset")
    yield Table(tuple(map(Column, titles)), (_cells(operation) for operation in report.operations))
    if report.operations_dropped:
        yield line((f"… {report.operations_dropped:,} more were run and not kept (--top N keeps more)", "muted"))
    for operation in report.operations:
        if operation.error is not None:
            yield from _failure(operation)


def _cells(operation: OperationRow) -> Sequence[str | Span]:
    before = operation.input_layouts[0] if operation.input_layouts else None
    after = operation.output_layouts[0] if operation.output_layouts else None
    return (
        operation.place or "–",
        call_text(operation),
        (", ".join(operation.outputs[:3]) + (" …" if len(operation.outputs) > 3 else ""), "name"),
        _what(operation),
        _change(before, after, lambda row: sizes_text(row.sizes)),
        _change(before, after, lambda row: strides_text(row.strides)),
        _change(before, after, lambda row: str(row.storage_offset)),
    )


def call_text(operation: OperationRow) -> str:
    """`narrow(x, 0, 0, 2)`, and `x[0, 1:3]` for an index."""
    if operation.op in ("__getitem__", "__setitem__") and operation.inputs:
        value = " = …" if operation.op == "__setitem__" else ""
        index = ", ".join((*operation.inputs[1:2], *operation.arguments[:1]))
        items = index[1:-1] if index.startswith("(") and index.endswith(")") else index
        return f"{operation.inputs[0]}[{items}]{value}"
    return f"{operation.op}({', '.join((*operation.inputs, *operation.arguments))})"


def _what(operation: OperationRow) -> Span:
    if operation.error is not None:
        return (operation.error.type, "bad")
    if operation.copied:
        by = f" ({operation.kernel})" if operation.kernel else ""
        return (f"copy {format_bytes(operation.copied_bytes)}{by}", "warn")
    return ("" if operation.kind == "none" else operation.kind, "good" if operation.kind == "view" else "muted")


def _change(before: LayoutRow | None, after: LayoutRow | None, write: Callable[[LayoutRow], str]) -> str:
    """`old → new`, or just the one there is when nothing changed."""
    texts = [write(row) for row in (before, after) if row is not None]
    return " → ".join(dict.fromkeys(texts))


def _failure(operation: OperationRow) -> Iterator[Block]:
    error = operation.error
    if error is None:
        return
    yield line(("✗ ", "bad"), (operation.place or "–", "name"), f" {operation.op}: {error.message}")
    if error.why is not None:
        yield from _anatomy(error.why, operation.input_layouts[0] if operation.input_layouts else None)
    elif error.hint:
        yield line(("  hint: ", "muted"), error.hint)


def _anatomy(why: ViewFailure, layout: LayoutRow | None) -> Iterator[Block]:
    """The runs in brackets with the broken boundary, the two numbers, and the ways out with their price."""
    left, right = why.boundary
    if layout is not None:
        yield Picture(list(run_brackets(layout, why)))
    yield line(
        ("  broken between ", "muted"),
        f"dimensions {left} and {right}: merging needs stride[{left}] = {why.stride_needed}, it is ",
        (str(why.stride_found), "bad"),
        f", set by {why.set_by}" if why.set_by else "",
    )
    for remedy in why.remedies:
        yield line(("  → ", "good"), remedy)

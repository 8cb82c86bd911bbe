"""Can a tensor go to NumPy, DLPack, OpenCV, …? A matrix of answers, and the reasons where there are few tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stridetool.render.blocks import Block, Column, Heading, Table, line
from stridetool.report.inspect import Consumer, TensorRow

MAX_TENSORS, MAX_EXPLAINED = 12, 4


def consumer_blocks(tensors: Sequence[TensorRow]) -> Iterator[Block]:
    """A row a tensor, a column a consumer; nothing for long lists, whose answers stand in the JSON."""
    asked = [tensor for tensor in tensors if tensor.consumers]
    if not asked or len(asked) > MAX_TENSORS:
        return
    yield Heading("can go to")
    columns = (Column("name"), *(Column(answer.consumer) for answer in asked[0].consumers))
    yield Table(columns, [(_name(tensor), *map(_answer, tensor.consumers)) for tensor in asked])
    if len(asked) > MAX_EXPLAINED:
        return
    for tensor in asked:
        for answer in tensor.consumers:
            if not answer.accepts:
                yield line(("  no: ", "muted"), (tensor.name, "name"), f" to {answer.consumer}: {answer.reason}")


def _name(tensor: TensorRow) -> tuple[str, str]:
    return (tensor.name, "name")


def _answer(answer: Consumer) -> tuple[str, str]:
    return ("yes", "good") if answer.accepts else ("no", "warn")

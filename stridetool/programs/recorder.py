"""Keeps the records of a script in bounded memory, and remembers which operation gave a tensor its layout."""

from __future__ import annotations

import os.path
from collections import OrderedDict
from typing import NamedTuple

from stridetool.core.trace import Record, TensorFacts

KEPT_OPERATIONS = 10_000
_REMEMBERED_TENSORS = 50_000


class Origin(NamedTuple):
    """The operation that made a tensor, and the tensor that it was made from (None for a fresh one)."""

    record: Record
    parent: TensorFacts | None


class Recorder:
    """A sink for the Trace key. Keeps the first `limit` records and every failure; counts all of them."""

    def __init__(self, limit: int = KEPT_OPERATIONS) -> None:
        self.limit = limit
        self.records: list[Record] = []
        self.set_by: dict[int, str] = {}
        self.total = 0
        self.copied_bytes = 0
        self._origins: OrderedDict[int, Origin] = OrderedDict()

    def __call__(self, record: Record) -> None:
        self.total += 1
        if record.copies:
            self.copied_bytes += record.copied_bytes
        if len(self.records) < self.limit or record.error is not None:
            if record.error is not None and record.inputs:
                self.set_by[len(self.records)] = self._set_by(record.inputs[0])
            self.records.append(record)
        parent = record.inputs[0] if record.inputs else None
        for facts in record.outputs:
            self._origins[facts.tensor] = Origin(record, parent)
        while len(self._origins) > _REMEMBERED_TENSORS:
            self._origins.popitem(last=False)

    def _set_by(self, facts: TensorFacts) -> str:
        """`t at FILE:LINE`: the last operation behind `facts` that broke its dimensions into more runs."""
        serial, seen = facts.tensor, 0
        while (origin := self._origins.get(serial)) is not None and origin.parent is not None and seen < 1000:
            before, after = origin.parent.layout, facts.layout
            if len(after.runs().runs) > len(before.runs().runs):
                return f"{origin.record.op} at {os.path.basename(origin.record.file)}:{origin.record.line}"
            if origin.parent.tensor == serial:
                break
            serial, facts, seen = origin.parent.tensor, origin.parent, seen + 1
        return ""

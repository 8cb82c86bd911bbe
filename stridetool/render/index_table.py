"""The table of elements as text and as NDJSON, a row at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from stridetool.render.blocks import printable
from stridetool.report.documents import encoded


class Row(Protocol):
    """One element; the structs of the analysis have these fields."""

    @property
    def tensor(self) -> str: ...
    @property
    def index(self) -> tuple[int, ...]: ...
    @property
    def offset(self) -> int: ...
    @property
    def byte(self) -> int: ...
    @property
    def address(self) -> str | None: ...


def table_text(rows: Iterable[Row]) -> Iterator[str]:
    """A line a row, with a heading. Columns keep their width, since the rows are not known in advance."""
    yield f"{'element':24} {'offset':>12} {'byte':>14}  address\n"
    for row in rows:
        element = f"{printable(row.tensor)}[{', '.join(map(str, row.index))}]"
        yield f"{element:24} {row.offset:>12} {row.byte:>14}  {row.address or '–'}\n"


def table_json(rows: Iterable[Row]) -> Iterator[str]:
    """A JSON object a line."""
    for row in rows:
        yield encoded(row).decode() + "\n"

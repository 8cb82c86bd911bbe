"""Columns that make room for each other: where the width is short, the figures that matter most stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from stridetool.render.blocks import Column, Span

GAP = 2  # spaces between two cells

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class RankedColumn(Generic[Row]):
    """A right-aligned column. Those of rank 0 are always there; of the others, low ranks go before high ones."""

    rank: int
    title: str
    cell: Callable[[Row], str | Span]

    @property
    def column(self) -> Column:
        return Column(self.title, "right")

    def says_something(self, rows: Sequence[Row]) -> bool:
        """Whether any row has more than a dash here."""
        return any(_text(self.cell(row)) not in ("", "–") for row in rows)

    def width(self, rows: Sequence[Row]) -> int:
        """With the gap before it."""
        return GAP + max(len(self.title), *(len(_text(self.cell(row))) for row in rows))


def fitting(columns: Sequence[RankedColumn[Row]], rows: Sequence[Row], room: int) -> list[RankedColumn[Row]]:
    """In their order: those that say something and find place within `room` columns."""
    chosen: set[RankedColumn[Row]] = set()
    for column in sorted(columns, key=lambda column: column.rank):
        width = column.width(rows)
        if column.says_something(rows) and (width <= room or not column.rank):
            chosen.add(column)
            room -= width
    return [column for column in columns if column in chosen]


def _text(cell: str | Span) -> str:
    return cell if isinstance(cell, str) else cell[0]

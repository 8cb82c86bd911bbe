"""Other settings in text: a table that fits the width, from the best on, and what each of them costs."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stridetool.render.alloc_verdict import advice
from stridetool.render.blocks import Block, Column, Heading, Span, Table, line
from stridetool.render.fitting import RankedColumn, fitting
from stridetool.report.alloc import DeviceReport, WhatIf
from stridetool.units import format_bytes

_ROWS = 40
_FEW = 8  # tries, up to which each has its row even where it changes nothing
_AS_IT_IS = " ← as it is"
_LEGEND = {
    "fits in": "the smallest capacity under which nothing fails",
    "over floor": "peak reserved beyond the floor",
}
_WARM = (
    "warm: reserved, with the memory that was live when the recording begins where it lay in the job; all other "
    "numbers are with it placed afresh, closer together, which may be less than the job held"
)


class _Try(NamedTuple):
    """One choice of settings. `warm`: from the recorded start, where that differs."""

    row: WhatIf
    warm: WhatIf | None
    over_floor: float | None
    notes: str


def _ooms(one: _Try) -> Span:
    """How many requests fail, from the recorded start as well where that differs."""
    if one.warm is None or one.warm.ooms == one.row.ooms:
        return (str(one.row.ooms), "bad" if one.row.ooms else "good")
    return (f"{one.row.ooms}, warm {one.warm.ooms}", "bad")


def _or_dash(nbytes: int | None) -> str:
    return "–" if nbytes is None else format_bytes(nbytes)


_COLUMNS: tuple[RankedColumn[_Try], ...] = (
    RankedColumn(0, "reserved", lambda t: format_bytes(t.row.peak_reserved_bytes)),
    RankedColumn(3, "warm", lambda t: "" if t.warm is None else format_bytes(t.warm.peak_reserved_bytes)),
    RankedColumn(8, "allocated", lambda t: format_bytes(t.row.peak_allocated_bytes)),
    RankedColumn(1, "OOMs", _ooms),
    RankedColumn(6, "retries", lambda t: f"{t.row.retries:,}"),
    RankedColumn(7, "device calls", lambda t: f"{t.row.device_calls:,}"),
    RankedColumn(2, "fits in", lambda t: _or_dash(t.row.smallest_capacity_bytes)),
    RankedColumn(5, "over floor", lambda t: "–" if t.over_floor is None else f"{t.over_floor:+.0%}"),
    RankedColumn(4, "notes", lambda t: t.notes),
)


def what_if_blocks(report: DeviceReport, width: int) -> Iterator[Block]:
    """Nothing where nothing was tried. The table is at most `width` columns wide, if one setting's name is not."""
    if not report.what_if and not report.untried:
        return
    span = "of the whole history" if report.at is None else f"up to event {report.at:,}"
    yield Heading(f"what if (peaks {span})")
    if report.what_if:
        yield from _compared(report, width)
    for each in report.untried:
        yield from _small(f"not tried: {each.settings or '(defaults)'}: {each.reason}", width)
    yield from advice(report)


def _compared(report: DeviceReport, width: int) -> Iterator[Block]:
    notes = list(dict.fromkeys(cost for row in report.what_if for cost in row.cost))
    tries = _tries(report, notes)
    shown, same = _told_apart(tries, report)
    yield from _table(shown[:_ROWS], report, width)
    if len(shown) > _ROWS:
        yield line((f"… {len(shown) - _ROWS:,} more, all in --json", "muted"))
    if same:
        yield from _small(f"no different from the settings as they are: {', '.join(same)}", width)
    for number, note in enumerate(notes, 1):
        yield from _small(f"{number} {note}", width)


def _tries(report: DeviceReport, notes: Sequence[str]) -> list[_Try]:
    """In the order of the report, the warm start beside the cold one."""
    warm = {row.settings: row for row in report.what_if if row.start == "warm"}
    return [
        _Try(row, warm.get(row.settings), _over_floor(row, report), " ".join(_numbers(row, notes)))
        for row in report.what_if
        if row.start != "warm"
    ]


def _over_floor(row: WhatIf, report: DeviceReport) -> float | None:
    return row.peak_reserved_bytes / report.floor_bytes - 1 if row.fits and report.floor_bytes else None


def _numbers(row: WhatIf, notes: Sequence[str]) -> Iterator[str]:
    return (str(number) for number, note in enumerate(notes, 1) if note in row.cost)


def _told_apart(tries: Sequence[_Try], report: DeviceReport) -> tuple[list[_Try], list[str]]:
    """The tries to show, and the settings of those that come out as the settings of the report do."""
    as_it_is = next((one for one in tries if one.row.settings == report.settings), None)
    if as_it_is is None or len(tries) <= _FEW:
        return list(tries), []
    known = _results(as_it_is)
    shown = [one for one in tries if one is as_it_is or _results(one) != known]
    return shown, [one.row.settings or "(defaults)" for one in tries if one not in shown]


def _results(one: _Try) -> list[tuple[object, ...]]:
    rows = [one.row] if one.warm is None else [one.row, one.warm]
    return [
        (r.peak_reserved_bytes, r.peak_allocated_bytes, r.ooms, r.retries, r.device_calls, r.smallest_capacity_bytes)
        for r in rows
    ]


def _table(tries: Sequence[_Try], report: DeviceReport, width: int) -> Iterator[Block]:
    names = [_pieces(one.row.settings, report) for one in tries]
    room = width - max(len(piece) for pieces in names for piece in pieces)
    columns = fitting(_COLUMNS, tries, room)
    taken = sum(column.width(tries) for column in columns)
    rows: list[tuple[str | Span, ...]] = []
    for one, pieces in zip(tries, names, strict=True):
        style = "name" if one.row.settings == report.settings else ""
        first, *rest = _filled(pieces, width - taken)
        rows.append(((first, style), *(column.cell(one) for column in columns)))
        rows += [((part, style), *("" for _ in columns)) for part in rest]
    yield Table((Column("settings"), *(ranked.column for ranked in columns)), rows)
    legend = [f"{c.title}: {_LEGEND[c.title]}" for c in columns if c.title in _LEGEND]
    yield from _small("; ".join(legend), width)
    if any(one.warm is not None for one in tries):
        yield from _small(_WARM, width)


def _small(text: str, width: int) -> Iterator[Block]:
    """Small print; settings in it stay whole."""
    for part in textwrap.wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False):
        yield line((part, "muted"))


def _pieces(settings: str, report: DeviceReport) -> list[str]:
    """Where a name may be broken: behind commas, and before the mark of the settings as they are."""
    marked = (settings or "(defaults)") + (_AS_IT_IS if settings == report.settings else "")
    return re.split(r"(?<=,)|(?= ←)", marked)


def _filled(pieces: Sequence[str], width: int) -> list[str]:
    lines = [""]
    for piece in pieces:
        if lines[-1] and len(lines[-1]) + len(piece) > width:
            lines.append(piece.lstrip())
        else:
            lines[-1] += piece
    return lines

"""Allocation traces as JSON lines: one object a line, `{"op": "alloc", "id": 7, "size": 4096, "stream": 1}`.

README describes the format. Lines are decoded against a type, so that a field of the wrong kind is refused with its
line and name; fields that no event has are told, as one of them may be a slip of the pen. What the
events mean together (a free without its allocation, say) is checked when they are compiled for a replay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from stridetool.core.collections_off import without_collections
from stridetool.core.memory.events import Event
from stridetool.errors import InputError

Id = str | int | float | bool | None

# Each op, and the fields that it cannot do without.
OPS = {
    "alloc": ("id", "size"),
    "free": ("id",),
    "record_stream": ("id", "stream"),
    "empty_cache": (),
    "event_complete": (),
    "sync": (),
    "set_capacity": ("bytes",),
    "set_fraction": ("fraction",),
    "reset_peak": (),
    "pool_create": ("pool",),
    "pool_begin": ("pool",),
    "pool_end": ("pool",),
    "pool_destroy": ("pool",),
}
_MISSING = msgspec.UNSET


class UnknownField(NamedTuple):
    """A field that no event has, and the first line that has it."""

    name: str
    line: int


class _Line(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    op: str
    id: Id | msgspec.UnsetType = _MISSING
    size: int | msgspec.UnsetType = _MISSING
    stream: int | msgspec.UnsetType | None = _MISSING
    bytes: int | msgspec.UnsetType = _MISSING
    fraction: float | msgspec.UnsetType = _MISSING
    pool: Id | msgspec.UnsetType = _MISSING


class _LooseLine(_Line, gc=False, forbid_unknown_fields=False):
    """The same with fields that no event has: slower to find, so that it is tried second."""


_DECODER = msgspec.json.Decoder(_Line)
_LOOSE_DECODER = msgspec.json.Decoder(_LooseLine)
FIELDS = _Line.__struct_fields__
_MAX_UNKNOWN = 8  # names that are told
_MAX_NAME = 80  # characters of each


def read_trace(data: bytes) -> tuple[list[Event], tuple[UnknownField, ...]]:
    """The events of a trace, and the first fields that no event has.

    Raises InputError that names the line and the field.
    """
    with without_collections():
        lines, unknown = _lines(data)
        return [_event(number, line) for number, line in enumerate(lines)], unknown


def _lines(data: bytes) -> tuple[Sequence[_Line], tuple[UnknownField, ...]]:
    try:
        return _DECODER.decode_lines(data), ()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return _LOOSE_DECODER.decode_lines(data), _unknown(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _first_error(data) from None


def _unknown(data: bytes) -> tuple[UnknownField, ...]:
    found = dict[str, int]()
    for number, text in enumerate(data.split(b"\n"), 1):
        if text.strip() and len(found) < _MAX_UNKNOWN:
            for name in msgspec.json.decode(text, type=dict[str, msgspec.Raw]).keys() - set(FIELDS):
                found.setdefault(name[:_MAX_NAME], number)
    return tuple(UnknownField(*item) for item in list(found.items())[:_MAX_UNKNOWN])


def _first_error(data: bytes) -> InputError:
    for number, text in enumerate(data.splitlines(), 1):
        if text.strip():
            try:
                _LOOSE_DECODER.decode(text)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                return InputError(f"line {number} is no event: {error}")
    return InputError("the lines are no events")


def _event(number: int, line: _Line) -> Event:
    op = line.op
    if op == "alloc" or op == "free":
        if line.id is _MISSING or (op == "alloc" and line.size is _MISSING):
            raise _lacks(number, line)
        size = 0 if line.size is _MISSING else line.size
        return Event(op, line.id, size, 0 if line.stream is _MISSING else line.stream)
    needed = OPS.get(op)
    if needed is None:
        raise InputError(f"event {number}: unknown op {op!r}", hint=f"there are: {', '.join(OPS)}")
    if any(getattr(line, name) is _MISSING for name in needed):
        raise _lacks(number, line)
    nbytes = line.bytes if op == "set_capacity" and line.bytes is not _MISSING else 0
    fraction = line.fraction if op == "set_fraction" and line.fraction is not _MISSING else 1.0
    if not math.isfinite(fraction):
        raise InputError(f"event {number} (set_fraction): fraction is no number")
    return Event(
        op,
        line.pool if "pool" in needed else line.id,
        nbytes,
        (None if op == "event_complete" else 0) if line.stream is _MISSING else line.stream,
        fraction,
    )


def _lacks(number: int, line: _Line) -> InputError:
    missing = [name for name in OPS[line.op] if getattr(line, name) is _MISSING]
    return InputError(f"event {number} ({line.op}): {' and '.join(missing)} missing")

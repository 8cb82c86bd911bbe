"""Allocation traces as JSON lines: one object a line, `{"op": "alloc", "id": 7, "size": 4096, "stream": 1}`.

Lines are decoded against a type, so that a field of the wrong kind is refused with its line and name. What the
events mean together (a free without its allocation, say) is checked when they are compiled for a replay.
"""

from __future__ import annotations

import math

import msgspec

from stridetool.core.collections_off import without_collections
from stridetool.core.memory.events import Event
from stridetool.errors import InputError

Id = str | int | float | bool | None

_FIELDS = {
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


class _Line(msgspec.Struct, gc=False):
    op: str
    id: Id | msgspec.UnsetType = _MISSING
    size: int | msgspec.UnsetType = _MISSING
    stream: int | msgspec.UnsetType | None = _MISSING
    bytes: int | msgspec.UnsetType = _MISSING
    fraction: float | msgspec.UnsetType = _MISSING
    pool: Id | msgspec.UnsetType = _MISSING


_DECODER = msgspec.json.Decoder(_Line)


def read_trace(data: bytes) -> list[Event]:
    """The events of a trace. Raises InputError that names the line and the field."""
    with without_collections():
        try:
            lines = _DECODER.decode_lines(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise _first_error(data) from None
        return [_event(number, line) for number, line in enumerate(lines)]


def _first_error(data: bytes) -> InputError:
    for number, text in enumerate(data.splitlines(), 1):
        if text.strip():
            try:
                _DECODER.decode(text)
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
    needed = _FIELDS.get(op)
    if needed is None:
        raise InputError(f"event {number}: unknown op {op!r}", hint=f"there are: {', '.join(_FIELDS)}")
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
    missing = [name for name in _FIELDS[line.op] if getattr(line, name) is _MISSING]
    return InputError(f"event {number} ({line.op}): {' and '.join(missing)} missing")

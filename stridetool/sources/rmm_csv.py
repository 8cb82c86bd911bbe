"""The log of RMM's logging adaptor: CSV with the columns Thread, Time, Action, Pointer, Size and Stream."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from operator import itemgetter

from stridetool.core.collections_off import without_collections
from stridetool.core.memory.events import Event
from stridetool.errors import InputError

_COLUMNS = ("Action", "Pointer", "Size", "Stream")
_DEFAULT_STREAMS = ("0", "0x0", "0x1", "0x2", "(nil)")


def read_rmm(data: bytes) -> list[Event]:
    """The events of a log; streams are numbered in the order of their appearance, the default ones are 0.

    Failed allocations are allocations that the replay may find room for. Raises InputError naming the line.
    """
    try:
        with without_collections():
            return list(_events(data.decode("utf-8")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"this is no CSV: {error}") from error


def _events(text: str) -> Iterator[Event]:
    rows = csv.reader(io.StringIO(text), strict=True)
    header = next(rows, [])
    if not set(_COLUMNS) <= set(header):
        raise InputError(f"the log lacks one of the columns {', '.join(_COLUMNS)}")
    places = [header.index(name) for name in _COLUMNS]
    fields, needed = itemgetter(*places), max(places) + 1
    streams = dict.fromkeys(_DEFAULT_STREAMS, 0)
    for row in rows:
        if not row:
            continue
        if len(row) < needed:
            raise InputError(f"line {rows.line_num}: it ends before its column {header[len(row)]}")
        action, pointer, size, stream = fields(row)
        if action not in ("allocate", "free", "allocate failure"):
            raise InputError(f"line {rows.line_num}: unknown action {action!r}")
        if not size.strip().isdecimal() or len(size) > 20:
            raise InputError(f"line {rows.line_num}: {size!r} is no size")
        nbytes = int(size)
        number = streams.setdefault(stream.strip().lower(), len(streams) - len(_DEFAULT_STREAMS) + 1)
        if nbytes == 0:  # RMM logs the free of nothing, too
            continue
        if action == "free":
            yield Event("free", pointer)
        elif action == "allocate":
            yield Event("alloc", pointer, nbytes, number)
        else:
            identity = f"failed in line {rows.line_num}"
            yield from (Event("alloc", identity, nbytes, number), Event("free", identity))

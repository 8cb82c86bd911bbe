"""The log of RMM's logging adaptor: CSV with the columns Thread, Time, Action, Pointer, Size and Stream."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from stridetool.core.memory.events import Event
from stridetool.errors import InputError

_COLUMNS = ("Action", "Pointer", "Size", "Stream")


def read_rmm(data: bytes) -> list[Event]:
    """The events of a log; streams are numbered in the order of their appearance, the default ones are 0.

    Failed allocations are allocations that the replay may find room for. Raises InputError naming the line.
    """
    try:
        rows = csv.DictReader(io.StringIO(data.decode("utf-8")), strict=True)
        if not set(_COLUMNS) <= set(rows.fieldnames or ()):
            raise InputError(f"the log lacks one of the columns {', '.join(_COLUMNS)}")
        return list(_events(rows))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"this is no CSV: {error}") from error


def _events(rows: csv.DictReader[str]) -> Iterator[Event]:
    streams = {"0": 0, "0x0": 0, "0x1": 0, "0x2": 0, "(nil)": 0}
    for row in rows:
        action, pointer = row["Action"], row["Pointer"]
        if action not in ("allocate", "free", "allocate failure"):
            raise InputError(f"line {rows.line_num}: unknown action {action!r}")
        size, stream = row["Size"], row["Stream"]
        if not size or not size.strip().isdecimal() or len(size) > 20 or stream is None:
            raise InputError(f"line {rows.line_num}: {size!r} is no size")
        number = streams.setdefault(stream.strip().lower(), len(set(streams.values())))
        if action == "free":
            if int(size):  # RMM logs the free of nothing, too
                yield Event("free", pointer)
            continue
        identity = pointer if action == "allocate" else f"failed in line {rows.line_num}"
        if int(size):
            yield Event("alloc", identity, int(size), number)
        if action == "allocate failure":
            yield Event("free", identity)

"""What `alloc-report` reads, told apart by content: snapshots of torch, traces, RMM's log, a pasted message."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from stridetool.core.memory.events import Event
from stridetool.core.memory.oom_message import OomMessage
from stridetool.core.memory.recorded import Recording
from stridetool.errors import InputError
from stridetool.sources.alloc_trace import UnknownField, read_trace
from stridetool.sources.file_bytes import read_whole
from stridetool.sources.oom_message import MARK, MAX_TEXT, parse_message

_GZIP = b"\x1f\x8b"
_FREE_BYTES = 64 << 20
_MAX_RATIO = 200  # frames repeat much, but a bomb reaches 1,000
MAX_BYTES = 16 << 30


class Trace(NamedTuple):
    """Events of a trace. `kind` is `trace` or `rmm`; `unknown` are the fields that no event of a trace has."""

    kind: str
    events: Sequence[Event]
    unknown: tuple[UnknownField, ...] = ()


Allocations = Recording | Trace | OomMessage


def read_allocations(path: Path, name: str | None = None) -> tuple[str, Allocations]:
    """(kind, content) of a file; errors call it `name` where that is not its path.

    Raises InputError for what is none of these, damaged or hostile.
    """
    name = name or str(path)
    try:
        with path.open("rb") as file:
            data = read_whole(file, MAX_BYTES)
    except IsADirectoryError as error:
        hint = f"give the files in it: {name.rstrip('/')}/*"
        raise InputError(f"cannot read {name}: it is a folder", hint=hint) from error
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from error
    if data is None:
        raise InputError(f"cannot read {name}: it is larger than {MAX_BYTES >> 30} GiB")
    try:
        return _read(_unpacked(data))
    except InputError as error:
        raise InputError(f"cannot read {name}: {error.message}", hint=error.hint) from error


def is_allocations(head: bytes) -> bool:
    """Whether a file that begins so is data and no script."""
    start = head.lstrip()[:1]
    return head.startswith((_GZIP, b"\x80", b"Thread,Time")) or start in (b"{", b"[", b"<")


def _unpacked(data: bytes) -> bytes:
    """The data itself, or what a gzip member inflates to."""
    if not data.startswith(_GZIP):
        return data
    limit = min(MAX_BYTES, _FREE_BYTES + _MAX_RATIO * len(data))
    parts, room = list[bytes](), limit
    try:
        while data.startswith(_GZIP) and room > 0:
            stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
            parts.append(stream.decompress(data, room))
            room -= len(parts[-1])
            if not stream.eof and room > 0:
                raise InputError("the gzip data ends too early")
            data = stream.unused_data
    except zlib.error as error:
        raise InputError(f"the gzip data is damaged: {error}") from error
    if room <= 0:
        raise InputError(f"it inflates to more than {limit:,} bytes: refused as a bomb")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _read(data: bytes) -> tuple[str, Allocations]:
    head = data[:4096].lstrip()
    if not head:
        raise InputError("it is empty", hint="a snapshot of torch, a trace of JSON lines, or a message")
    if data[:1] == b"\x80":
        from stridetool.sources.torch_snapshot import read_pickle

        return "snapshot", read_pickle(data)
    if head.startswith(b"<"):
        from stridetool.sources.torch_snapshot import read_page

        return "snapshot page", read_page(data)
    if head.startswith(b"Thread,Time"):
        from stridetool.sources.rmm_csv import read_rmm

        return "rmm", Trace("rmm", read_rmm(data))
    if head.startswith(b"{") and b'"op"' in head.split(b"\n", 1)[0]:
        return "trace", Trace("trace", *read_trace(data))
    if head.startswith((b"{", b"[")) and (b'"segments"' in data or b'"blocks"' in data):
        from stridetool.sources.torch_snapshot import read_json

        return "snapshot JSON", read_json(data)
    if head.startswith(b"{"):
        return "trace", Trace("trace", *read_trace(data))
    text = data[-MAX_TEXT:].decode("utf-8", "replace")
    if MARK in text.lower():
        return "message", parse_message(text)
    raise InputError(
        "it is no memory snapshot, no allocation trace and no out-of-memory message",
        hint="torch.cuda.memory._dump_snapshot(FILE) writes a snapshot; traces are JSON lines",
    )

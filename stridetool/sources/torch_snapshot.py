"""Memory snapshots of torch, of every age, to a `Recording`: pickles, the pages of torch's viewer, JSON.

A snapshot is a dict (`torch.cuda.memory._snapshot()`), or the bare list of segments that `memory_snapshot()`
returns. Fields came over the years: without addresses a block begins where the one before ends (1.13), the
requested size is in a `history` (1.13 to 2.0), pools are named from 2.12 on. What contradicts itself is left out
with a remark where the rest can stand without it; everything else that makes no sense is an InputError with the
name of the field.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from stridetool.core.collections_off import without_collections
from stridetool.core.memory.recorded import (
    ALLOCATED,
    DEFAULT_POOL,
    INACTIVE,
    MAX_BYTES,
    PENDING,
    DeviceRecording,
    HeldBlock,
    HeldSegment,
    History,
    Recording,
    Remark,
    no_history,
)
from stridetool.errors import InputError
from stridetool.sources import snapshot_fields as fields
from stridetool.sources.snapshot_pickle import load_plain

_STATES = {ALLOCATED: ALLOCATED, PENDING: PENDING, "active_awaiting_free": PENDING, INACTIVE: INACTIVE}
_ACTIONS = {
    *("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap"),
    *("oom", "snapshot", "annotate"),
}
_PAGE = re.compile(rb'"base64":\s*"([A-Za-z0-9+/=]+)"')
_MAX_DEVICES = 128  # a number of a device is a signed byte in torch
_MIN_ENTRY_BYTES = 5  # a dict that a file refers to again takes 2 bytes, but one of its own takes more


def read_pickle(data: bytes) -> Recording:
    """The snapshot pickled at the start of `data`. Raises InputError; nothing in it is run."""
    with without_collections():
        return _recording(load_plain(data), len(data))


def read_page(data: bytes) -> Recording:
    """The snapshot inside a page that torch's viewer wrote (`_memory_viz.py trace_plot -o page.html`)."""
    found = _PAGE.search(data)
    if found is None:
        raise InputError("the page holds no snapshot")
    return read_pickle(base64.b64decode(found[1]))


def read_json(data: bytes) -> Recording:
    """A snapshot that was exported as JSON."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(f"invalid JSON: {error}") from error
    return _recording(value, len(data))


def _recording(value: Any, nbytes: int) -> Recording:
    top: Mapping[str, Any] = {"segments": value} if isinstance(value, list) else value
    if not isinstance(top, Mapping) or "segments" not in top:
        raise InputError("this is no memory snapshot: it has no `segments`")
    reader = _Reader(nbytes)
    segments = reader.segments(fields.entries(top, "segments"), "segments")
    traces = fields.entries(top, "device_traces")
    if len(traces) > _MAX_DEVICES:
        raise InputError(f"`device_traces` is of {len(traces):,} devices")
    histories = [reader.history(trace, f"device_traces[{i}]") for i, trace in enumerate(traces)]
    numbers = sorted({device for device, _ in segments} | {i for i, history in enumerate(histories) if len(history)})
    devices = [
        DeviceRecording(
            number,
            tuple(segment for device, segment in segments if device == number),
            histories[number] if 0 <= number < len(histories) else no_history(),
        )
        for number in numbers or [0]
    ]
    settings = top.get("allocator_settings") or {}
    if not isinstance(settings, Mapping):
        raise InputError("`allocator_settings` is no dict")
    return Recording(
        tuple(devices),
        settings,
        _age(top, traces),
        tuple(_steps(fields.entries(top, "external_annotations"))),
        tuple(segment for _, segment in reader.segments(fields.entries(top, "host_segments"), "host_segments")),
        tuple(reader.remarks),
    )


class _Reader:
    """Turns entries into values and counts them: a file may not refer to one entry more often than it is long."""

    def __init__(self, nbytes: int) -> None:
        self.left = nbytes // _MIN_ENTRY_BYTES + 16
        self.remarks: list[Remark] = []

    def _spend(self, entries: int, where: str) -> None:
        self.left -= entries
        if self.left < 0:
            raise InputError(f"{where}: more entries than the file has room for")

    def segments(self, rows: Sequence[Any], where: str) -> list[tuple[int, HeldSegment]]:
        """(device, segment) by address; one that contradicts itself or another is left out with a remark."""
        self._spend(len(rows), where)
        found = []
        for index, row in enumerate(rows):
            place = f"{where}[{index}]"
            if not isinstance(row, Mapping):
                raise InputError(f"{place} is no dict")
            device = fields.integer(row, "device", place, default=0, least=-1, end=_MAX_DEVICES)
            segment = self._segment(row, place)
            problem = _contradiction(segment)
            if problem:
                self.remarks.append(Remark("contradictory-segment", f"left out: {problem}", place))
            else:
                found.append((device, segment))
        if sum(segment.size for _, segment in found) >= MAX_BYTES:
            raise InputError(f"{where} are more memory together than any machine has")
        return list(self._apart(sorted(found, key=lambda pair: (pair[0], pair[1].address)), where))

    def _apart(self, found: list[tuple[int, HeldSegment]], where: str) -> Iterator[tuple[int, HeldSegment]]:
        device, end = None, 0
        for number, segment in found:
            if number == device and segment.address < end:
                message = f"left out: the segment at {segment.address:#x} overlaps the one before it"
                self.remarks.append(Remark("contradictory-segment", message, where))
                continue
            device, end = number, segment.address + segment.size
            yield number, segment

    def _segment(self, row: Mapping[str, Any], place: str) -> HeldSegment:
        address = fields.integer(row, "address", place)
        rows = fields.entries(row, "blocks", place)
        self._spend(len(rows), place)
        blocks, end = [], address
        for index, block in enumerate(rows):
            blocks.append(_block(block, end, f"{place}.blocks[{index}]"))
            end = blocks[-1].address + blocks[-1].size
        kind = row.get("segment_type", "large")
        if kind not in ("small", "large"):
            raise InputError(f"{place}.segment_type is {fields.shown(kind)}, not small or large")
        return HeldSegment(
            address,
            fields.integer(row, "total_size", place, end=MAX_BYTES),
            fields.integer(row, "stream", place, default=0, least=-(1 << 63)),
            kind == "small",
            fields.pool_id(row.get("segment_pool_id", DEFAULT_POOL), f"{place}.segment_pool_id"),
            bool(row.get("is_expandable", False)),
            tuple(blocks),
            _frames(row, place),
        )

    def history(self, rows: Any, where: str) -> History:
        """The entries of one device as columns."""
        if not isinstance(rows, list):
            raise InputError(f"{where} is no list")
        self._spend(len(rows), where)
        if not set(map(type, rows)) <= {dict}:
            index = next(i for i, row in enumerate(rows) if type(row) is not dict)
            raise InputError(f"{where}[{index}] is no dict")
        actions = fields.column(rows, "action", None)
        if "user_defined" in actions:  # annotations of 2.3 and 2.4
            rows = [row for row in rows if row.get("action") != "user_defined"]
            actions = fields.column(rows, "action", None)
        known = set(map(type, actions)) <= {str} and _ACTIONS.issuperset(actions)
        if not known:
            index = next(i for i, action in enumerate(actions) if type(action) is not str or action not in _ACTIONS)
            raise InputError(f"{where}[{index}].action is {fields.shown(actions[index])}, which torch does not write")
        return History(
            actions,
            fields.numbers(fields.addresses(rows), where, "addr"),
            _sizes(rows, actions, where),
            fields.numbers(fields.column(rows, "stream", 0), where, "stream", least=-(1 << 63)),
            fields.pools(fields.column(rows, "pool_id", None), where),
            fields.numbers(fields.column(rows, "time_us", 0), where, "time_us"),
            fields.stacks(rows, where),
        )


def _sizes(rows: list[dict[str, Any]], actions: list[str], where: str) -> list[int]:
    """Those of memory are of memory that some device has; what a failed request asked for may be any number."""
    sizes = fields.numbers(fields.column(rows, "size", None), where, "size")
    if max(sizes, default=0) >= MAX_BYTES:
        for index, (action, size) in enumerate(zip(actions, sizes, strict=True)):
            if size >= MAX_BYTES and action != "oom":
                raise InputError(f"{where}[{index}].size is {size}, and no device has that much memory")
    return sizes


def _block(row: Any, expected: int, place: str) -> HeldBlock:
    if not isinstance(row, Mapping):
        raise InputError(f"{place} is no dict")
    size = fields.integer(row, "size", place)
    state = row.get("state")
    if type(state) is not str or state not in _STATES:
        raise InputError(f"{place}.state is {fields.shown(state)}, which torch does not write")
    state = _STATES[state]
    address = fields.integer(row, "address", place, default=expected)
    requested = 0
    if state != INACTIVE:
        requested = fields.integer(row, "requested_size", place, default=_old_request(row, size))
    return HeldBlock(address, size, requested, state, _frames(row, place))


def _old_request(row: Mapping[str, Any], size: int) -> int:
    """1.13 to 2.0: what was asked for stands in the block's history."""
    past = row.get("history")
    if isinstance(past, list) and past and isinstance(past[0], Mapping):
        real = past[0].get("real_size")
        if type(real) is int and 0 <= real <= size:
            return real
    return size


def _frames(row: Mapping[str, Any], place: str) -> Sequence[Mapping[str, Any]]:
    frames = row.get("frames")
    past = row.get("history")
    if frames is None and isinstance(past, list) and past and isinstance(past[0], Mapping):
        frames = past[0].get("frames")
    if frames is not None and not isinstance(frames, list):
        raise InputError(f"{place}.frames is no list")
    return frames or ()


def _contradiction(segment: HeldSegment) -> str | None:
    """Why the blocks cannot be those of this segment, if so."""
    end = segment.address
    for index, block in enumerate(segment.blocks):
        if block.address != end:
            return f"block {index} begins at {block.address:#x}, and the one before it ends at {end:#x}"
        if block.requested > block.size:
            return f"block {index} of {block.size:,} bytes was asked for as {block.requested:,}"
        if block.size == 0:
            return f"block {index} is of no bytes"
        end += block.size
    if end != segment.address + segment.size:
        return f"its blocks are {end - segment.address:,} bytes, and the segment is {segment.size:,}"
    return None


def _steps(rows: list[Any]) -> Iterator[tuple[int, str]]:
    """Annotations that began, in order."""
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InputError(f"external_annotations[{index}] is no dict")
        if row.get("stage") == "START" and type(row.get("time_us")) is int:
            name = row.get("name")
            yield row["time_us"], name if type(name) is str else fields.shown(name)


_AGES = (
    ("host_segments", "2.14 or later"),
    ("pool_id", "2.12 or 2.13"),
    ("user_metadata", "2.10 or 2.11"),
    ("compile_context", "2.8 or 2.9"),
    ("external_annotations", "2.5 to 2.7"),
    ("allocator_settings", "2.3 or 2.4"),
    ("time_us", "2.2"),
    ("device_traces", "2.0 or 2.1"),
)


def _age(top: Mapping[str, Any], traces: list[Any]) -> str:
    """Which releases of torch write the keys that are there."""
    entry: Mapping[str, Any] = next((trace[0] for trace in traces if trace), {})
    return next((age for key, age in _AGES if key in top or key in entry), "1.13 or a bare list of segments")

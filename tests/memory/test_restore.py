"""An allocator that begins in the middle goes on exactly as the one that came there step by step."""

import pickle

import pytest
import recorded

from stridetool.analysis.exactness import check
from stridetool.analysis.rewind import rewind
from stridetool.core.drivers.sim import SimDriver
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.recorded import INACTIVE, HeldBlock, HeldSegment, History, Kind
from stridetool.core.memory.restore import Range, install
from stridetool.core.memory.settings import Settings
from stridetool.errors import OutOfMemoryError
from stridetool.sources.torch_snapshot import read_pickle

CAPACITY = 40 << 30


def held(snapshot):
    """The segments of a snapshot as recorded values, oldest (= lowest, under bump addresses) first."""
    out = []
    for row in snapshot["segments"]:
        blocks = tuple(
            HeldBlock(b["address"], b["size"], 0 if b["state"] == INACTIVE else b["requested_size"], b["state"])
            for b in row["blocks"]
        )
        small = row["segment_type"] == "small"
        place = (row["address"], row["total_size"], row["stream"], small, row["segment_pool_id"])
        out.append(HeldSegment(*place, row["is_expandable"], blocks))
    return out


def drive(allocator, events, live):
    """Addresses of the allocations among `events`; live: id → block."""
    addresses = []
    for event in events:
        if event.op == "alloc":
            try:
                live[event.id] = allocator.malloc(event.nbytes, event.stream)
                addresses.append(live[event.id].address)
            except OutOfMemoryError:
                addresses.append(None)
        elif event.op == "free" and event.id in live:
            allocator.free(live.pop(event.id))
        elif event.op == "empty_cache":
            allocator.empty_cache()
    return addresses


@pytest.mark.parametrize("text", ["", "expandable_segments:True", "max_split_size_mb:128"])
@pytest.mark.parametrize("name", ["mixed_1", "gpt_varlen", "phases_1"])
def test_goes_on_alike(name, text):
    events = [event for event in recorded.trace(f"traces/{name}") if event.op in ("alloc", "free", "empty_cache")]
    half = len(events) // 2
    settings = Settings.parse(text)
    first = CachingAllocator(SimDriver(CAPACITY), settings)
    live = {}
    drive(first, events[:half], live)

    driver = SimDriver(CAPACITY)
    second = CachingAllocator(driver, settings)
    rows = held(first.snapshot())
    ranges = [Range(r.address, r.size, r.stream, r.is_small, r.pool_id, r.is_expandable) for r in rows]
    live_blocks = {b.address: (b.size, b.requested) for r in rows for b in r.blocks if b.state != INACTIVE}
    reserved = dict[Kind, int]()
    for segment in first.segments.values():
        kind = Kind(segment.pool.identity, segment.pool.is_small, segment.stream)
        reserved[kind] = min(segment.address, reserved.get(kind, segment.address))
    blocks = install(second, ranges, live_blocks, page=settings.large_segment_size, reserved=reserved)
    assert second.snapshot()["segments"] == [
        {
            **row,
            "blocks": [{**b, "requested_size": b["requested_size"] * (b["state"] != INACTIVE)} for b in row["blocks"]],
        }
        for row in first.snapshot()["segments"]
    ]
    currents = {key: value for key, value in first.memory_stats().items() if key.endswith(".current")}
    assert currents == {key: second.memory_stats()[key] for key in currents}
    adopted = {identity: blocks[block.address] for identity, block in live.items()}
    assert first.driver.used == driver.used

    one, two = drive(first, events[half:], live), drive(second, events[half:], adopted)
    assert one == two
    assert first.reserved_bytes == second.reserved_bytes


def cut(name, text, capacity, share):
    """(settings, recording) of a trace whose entries before `share` of them a ring buffer has forgotten."""
    allocator = CachingAllocator(SimDriver(capacity), Settings.parse(text))
    allocator.record_history()
    drive(allocator, recorded.trace(f"traces/{name}"), {})
    device = read_pickle(pickle.dumps(allocator.snapshot())).devices[0]
    first = int(len(device.history) * share)
    return allocator.settings, device._replace(history=History(*(column[first:] for column in device.history)))


def test_a_reserved_range_begins_below_what_is_mapped_of_it():
    """The lowest pages of a range may be unmapped at the start and mapped again later."""
    settings, device = cut("streams_1", "expandable_segments:True", 6 << 30, 0.5)
    start = rewind(device)
    mapped = {(s.pool_id, s.is_small, s.stream): s.address for s in reversed(start.segments.values())}
    assert any(start.reserved[kind] < address for kind, address in mapped.items())
    found, _ = check(device, settings, "2.14", start=start)
    assert (found.predicted, found.lost) == (found.total, 0)


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("name", ["mixed_1", "large_1", "oversize_1", "phases_1"])
@pytest.mark.parametrize("text", ["max_split_size_mb:32", "max_split_size_mb:100,max_non_split_rounding_mb:200"])
def test_blocks_that_were_not_split_are_known_by_the_gap_behind_them(text, name, share):
    settings, device = cut(name, text, 6 << 30, share)
    found, _ = check(device, settings, "2.14")
    assert found.predicted >= 0.99 * found.total

"""An allocator that begins in the middle goes on exactly as the one that came there step by step."""

import pytest
import recorded

from stridetool.core.drivers.sim import SimDriver
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.recorded import INACTIVE, HeldBlock, HeldSegment
from stridetool.core.memory.restore import Range, install
from stridetool.core.memory.settings import Settings
from stridetool.errors import OutOfMemoryError

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
    blocks = install(second, ranges, live_blocks, page=settings.large_segment_size)
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
    if not text.startswith("expandable"):  # new virtual ranges lie elsewhere when the old ones are unknown
        assert one == two
    assert first.reserved_bytes == second.reserved_bytes

"""Patterns written into real host memory: no block is ever handed out twice, none overlaps another."""

import gc
import threading

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from stridetool.core.drivers.host import ALIGNMENT, HostDriver
from stridetool.core.drivers.sim import SimDriver
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.cpu import CpuCachingAllocator, DirectAllocator
from stridetool.core.memory.pinned import PinnedAllocator
from stridetool.core.memory.settings import Settings
from stridetool.errors import OutOfMemoryError

MIB = 1 << 20
MAKERS = {
    "direct": lambda: DirectAllocator(HostDriver()),
    "cpu caching": lambda: CpuCachingAllocator(HostDriver()),
    "pinned": lambda: PinnedAllocator(HostDriver()),
    "pinned reserve": lambda: PinnedAllocator(HostDriver(), Settings.parse("pinned_reserve_segment_size_mb:1")),
    "caching": lambda: CachingAllocator(HostDriver()),
    "caching split": lambda: CachingAllocator(HostDriver(), Settings.parse("max_split_size_mb:20")),
    "caching 2.11": lambda: CachingAllocator(HostDriver(), policy="2.11"),
    "pages": lambda: CachingAllocator(SimDriver(200 * MIB), Settings.parse("expandable_segments:True")),
    "firstfit": lambda: CachingAllocator(SimDriver(200 * MIB, address_policy="firstfit")),
}
requests = st.one_of(st.integers(0, 3000), st.integers(1, 3 * MIB), st.sampled_from([512, MIB, MIB + 1, 20 * MIB]))
programs = st.lists(st.tuples(st.sampled_from("aaaaffffc"), requests, st.integers(0, 99)), max_size=40)


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=20, deadline=None)
@given(program=programs)
def test_patterns_survive(name, program):
    allocator = MAKERS[name]()
    live = []
    for step, (op, nbytes, choice) in enumerate(program):
        if op == "a":
            try:
                pointer = allocator.allocate(nbytes)
            except OutOfMemoryError:
                continue
            assert bool(pointer.address) == (nbytes > 0)
            assert pointer.address % ALIGNMENT == 0
            allocator.driver.buffer(pointer.address, nbytes)[:] = step % 251
            live.append((pointer, step % 251))
        elif op == "f" and live:
            pointer, pattern = live.pop(choice % len(live))
            assert (allocator.driver.buffer(pointer.address, pointer.nbytes) == pattern).all()
            pointer.release()
        elif op == "c":
            allocator.empty_cache()
    for pointer, pattern in live:
        assert (allocator.driver.buffer(pointer.address, pointer.nbytes) == pattern).all()
    held = sum(pointer.nbytes for pointer, _ in live)
    stats = allocator.stats()
    assert held == stats.requested_bytes <= stats.allocated_bytes <= stats.reserved_bytes
    assert stats.allocations == sum(pointer.nbytes > 0 for pointer, _ in live)
    rows = allocator.snapshot()
    rows = rows["segments"] or rows.get("host_segments", [])
    assert sum(row["requested_size"] for row in rows) == held


@pytest.mark.parametrize("name", ["cpu caching", "caching", "pinned"])
def test_threads(name):
    allocator = MAKERS[name]()
    failures = []

    def work(seed):
        for step in range(150):
            nbytes = (seed * 7919 + step * 104729) % 5000 + 1
            pointer = allocator.allocate(nbytes)
            buffer = allocator.driver.buffer(pointer.address, nbytes)
            buffer[:] = seed
            if not (buffer == seed).all():
                failures.append((seed, step))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert allocator.stats().allocated_bytes == 0


@pytest.mark.parametrize("name", MAKERS)
def test_release_amid_an_allocation(name):
    """A garbage collection inside the allocator's own code gives memory back at the worst moment."""
    allocator = MAKERS[name]()
    malloc = allocator.driver.malloc

    def interrupted(nbytes):
        gc.collect()
        return malloc(nbytes)

    allocator.driver.malloc = interrupted
    for size in (100, MIB, 2 * MIB, 30 * MIB):
        ring = [allocator.allocate(size)]
        ring.append(ring)
        del ring
        allocator.allocate(size + 1).release()
    gc.collect()
    assert allocator.stats().allocated_bytes == 0

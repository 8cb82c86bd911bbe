"""CPU and pinned allocators, pool and adaptors: what each promises."""

import pytest

from stridetool.analysis.conditions import Conditions
from stridetool.analysis.replay import replay
from stridetool.core.drivers.device import CPU, Device, driver_for, set_driver
from stridetool.core.drivers.host import HostDriver
from stridetool.core.drivers.sim import SimDriver
from stridetool.core.memory.adaptors import FailingAllocator, LimitingAllocator, RecordingAllocator
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.cpu import CpuCachingAllocator, DirectAllocator
from stridetool.core.memory.events import Event
from stridetool.core.memory.pinned import PinnedAllocator
from stridetool.core.memory.pool import StoragePool
from stridetool.core.memory.registry import allocator_for, caching_for, set_allocator
from stridetool.core.memory.settings import Settings
from stridetool.errors import (
    ArgumentValueError,
    OutOfMemoryError,
    TensorError,
)

MIB = 1 << 20


def test_cpu_cache_reuses_and_empties():
    allocator = CpuCachingAllocator(HostDriver())
    first = allocator.allocate(1000)
    address = first.address
    first.release()
    assert allocator.stats().reserved_bytes == 1024
    assert allocator.allocate(1001).address == address
    allocator.empty_cache()
    assert allocator.stats() == (0, 1024, 0, 1024, 0, 0, 0)


def test_cpu_cache_is_given_back_when_memory_is_short():
    allocator = CpuCachingAllocator(SimDriver(10 * MIB))
    allocator.allocate(8 * MIB).release()
    assert allocator.allocate(9 * MIB).nbytes == 9 * MIB
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(11 * MIB)


def test_caching_can_be_turned_off(monkeypatch):
    assert isinstance(caching_for(HostDriver()), CpuCachingAllocator)
    assert isinstance(caching_for(SimDriver()), CachingAllocator)
    monkeypatch.setenv("STRIDE_TOOL_NO_MEMORY_CACHING", "1")
    assert isinstance(caching_for(HostDriver()), DirectAllocator)
    assert isinstance(caching_for(SimDriver()), DirectAllocator)


def test_registry():
    assert isinstance(allocator_for(CPU), DirectAllocator)
    assert allocator_for(CPU) is allocator_for(Device("cpu", 0))
    mine = CpuCachingAllocator(HostDriver())
    set_allocator(CPU, mine)
    assert allocator_for(CPU) is mine
    set_allocator(CPU, None)
    assert allocator_for(CPU) is not mine
    with pytest.raises(TensorError):
        allocator_for(Device("tpu"))


def test_another_driver():
    old = driver_for(Device("cuda"))
    try:
        mine = SimDriver(1 << 20)
        set_driver(mine)
        assert driver_for(Device("cuda", 0)) is mine
    finally:
        set_driver(old)


def test_host_text_is_torchs():
    torch = pytest.importorskip("torch")
    with pytest.raises(OutOfMemoryError) as caught:
        HostDriver().malloc(1 << 60)
    with pytest.raises(RuntimeError) as torchs:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert str(torchs.value).endswith(caught.value.message)


def test_pinned_rounds_to_powers_of_two():
    allocator = PinnedAllocator(HostDriver())
    pointer = allocator.allocate(5000)
    assert allocator.stats()[:3] == (8192, 8192, 8192)
    address = pointer.address
    pointer.release()
    assert allocator.allocate(8000).address == address  # the same bucket
    assert allocator.allocate(4000).address != address


def test_pinned_thresholds():
    text = "pinned_max_round_threshold_mb:1,pinned_max_cached_size_mb:2"
    allocator = PinnedAllocator(HostDriver(), Settings.parse(text))
    kept, large = allocator.allocate(MIB + 5), allocator.allocate(3 * MIB)
    assert allocator.stats().allocated_bytes == 4 * MIB + 5
    kept.release()
    large.release()
    assert allocator.stats().reserved_bytes == MIB + 5  # what is above the cached size went back at once


def test_pinned_reuse_waits_for_streams():
    device = SimDriver(stream_events="manual")
    allocator = PinnedAllocator(HostDriver(), events=device)
    pointer = allocator.allocate(100)
    address = pointer.address
    allocator.record_event(pointer, 3)
    pointer.release()
    other = allocator.allocate(100)
    assert other.address != address
    assert allocator.stats().active_bytes == 256
    device.complete(3)
    assert allocator.allocate(100).address == address


def test_pinned_reserve_segment():
    allocator = PinnedAllocator(HostDriver(), Settings.parse("pinned_reserve_segment_size_mb:1"))
    first, second = allocator.allocate(100), allocator.allocate(100)
    assert second.address - first.address == 4096
    assert allocator.stats().reserved_bytes == MIB
    large = allocator.allocate(MIB)
    assert allocator.stats().reserved_bytes == 2 * MIB
    for pointer in (first, large):
        pointer.release()
    allocator.empty_cache()
    assert allocator.stats().reserved_bytes == MIB


def test_storage_pool():
    pool = StoragePool(max_kept_bytes=1000)
    storage = pool.lend(600)
    address = storage.data_ptr()
    pool.take_back(storage)
    assert (storage.data_ptr(), storage.nbytes(), pool.kept_bytes) == (0, 0, 600)
    with pytest.raises(ArgumentValueError):
        pool.take_back(storage)
    with pool.lent(600) as again, pool.lent(600) as other:
        assert again.data_ptr() == address != other.data_ptr()
    assert pool.kept_bytes == 600  # the second did not fit under the limit
    pool.empty_cache()
    assert pool.kept_bytes == 0
    with pytest.raises(ArgumentValueError):
        pool.take_back(again)


def test_recorded_trace_replays():
    allocator = RecordingAllocator(CachingAllocator(SimDriver(400 * MIB)))
    first = allocator.allocate(3 * MIB)
    second = allocator.allocate(5 * MIB, stream=1)
    first.release()
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(500 * MIB)
    allocator.empty_cache()
    assert allocator.events == [
        Event("alloc", 0, 3 * MIB, 0),
        Event("alloc", 1, 5 * MIB, 1),
        Event("free", 0),
        Event("alloc", 2, 500 * MIB, 0),
        Event("free", 2),
        Event("empty_cache"),
    ]
    result = replay(allocator.events, Conditions(capacity=400 * MIB))
    assert result.stats == allocator.upstream.memory_stats()
    assert second.address


def test_limit():
    allocator = LimitingAllocator(DirectAllocator(HostDriver()), 1000)
    pointer = allocator.allocate(900)
    with pytest.raises(OutOfMemoryError, match="limit of 1000 bytes"):
        allocator.allocate(101)
    pointer.release()
    assert allocator.allocate(1000).nbytes == 1000


def test_failures():
    allocator = FailingAllocator(DirectAllocator(HostDriver()), every=3, larger_than=100)
    outcomes = []
    for nbytes in (1, 101, 1, 1, 1, 1):
        try:
            allocator.allocate(nbytes)
            outcomes.append(True)
        except OutOfMemoryError:
            outcomes.append(False)
    assert outcomes == [True, False, False, True, True, False]
    with pytest.raises(ArgumentValueError):
        FailingAllocator(allocator, every=0)


# -- texts and faults of the caching allocator ---------------------------------------------------------------------

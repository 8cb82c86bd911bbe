"""Drivers: the host, the simulated device, and CuPy's runtime through a stand-in that keeps a record of each call."""

import types

import numpy as np
import pytest

from stridetool.core.drivers import cuda
from stridetool.core.drivers.cuda import CudaDriver
from stridetool.core.drivers.device import CPU, Device, driver_for
from stridetool.core.drivers.host import ALIGNMENT, HostDriver
from stridetool.core.drivers.pinned import PinnedDriver
from stridetool.core.drivers.sim import MALLOC_BASE, PRESETS, VIRTUAL_BASE, SimDriver
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.pinned import PinnedAllocator
from stridetool.core.memory.settings import Settings
from stridetool.errors import ArgumentValueError, OutOfMemoryError, TensorError, UnavailableError, UsageError

MIB = 1 << 20


def test_host_memory():
    driver = HostDriver()
    address = driver.malloc(100)
    assert address % ALIGNMENT == 0
    driver.buffer(address, 100)[:] = np.arange(100)
    assert driver.buffer(address + 10, 3).tolist() == [10, 11, 12]
    driver.free(address)
    assert driver.buffer(0, 0).size == 0
    free, total = driver.mem_info()
    assert 0 < free <= total
    driver.synchronize()
    assert driver.query_event(driver.record_event(0))
    driver.synchronize_event(None)
    for call in (driver.reserve, driver.create, driver.release):
        with pytest.raises(UnavailableError):
            call(100)
    for method in (driver.map, driver.unmap):
        with pytest.raises(UnavailableError):
            method(0, 100, 1)
    with pytest.raises(UnavailableError):
        driver.unreserve(0, 100)


def test_sim_addresses():
    bump, first_fit = SimDriver(10 * MIB), SimDriver(10 * MIB, address_policy="firstfit")
    for driver in (bump, first_fit):
        assert [driver.malloc(1), driver.malloc(3 * MIB)] == [MALLOC_BASE, MALLOC_BASE + 2 * MIB]
        driver.free(MALLOC_BASE)
        assert driver.mem_info() == (6 * MIB, 10 * MIB)
    assert bump.malloc(1) == MALLOC_BASE + 6 * MIB
    assert first_fit.malloc(1) == MALLOC_BASE
    assert first_fit.malloc(1) == MALLOC_BASE + 6 * MIB
    with pytest.raises(OutOfMemoryError):
        first_fit.malloc(2 * MIB + 1)


def test_sim_capacity_changes():
    driver = SimDriver(4 * MIB)
    driver.malloc(4 * MIB)
    driver.set_capacity(2 * MIB)
    assert driver.mem_info() == (0, 2 * MIB)
    driver.set_capacity(8 * MIB)
    driver.malloc(4 * MIB)


def test_sim_data_is_lazy():
    driver = SimDriver(1 << 45)
    address = driver.malloc(1 << 43)  # more than any host has
    driver.buffer(address + (1 << 42), 4)[:] = 7
    assert driver.buffer(address + (1 << 42) - 1, 3).tolist() == [0, 7, 7]
    with pytest.raises(ArgumentValueError):
        driver.buffer(address + (1 << 43) - 1, 2)
    with pytest.raises(ArgumentValueError):
        driver.buffer(1, 1)


@pytest.mark.parametrize("first", [0, 1, 4096, 5000])
@pytest.mark.parametrize("nbytes", [0, 1, 4095, 4096, 20_000])
def test_sim_zeros_just_these_bytes(first, nbytes):
    driver = SimDriver(10 * MIB)
    address = driver.malloc(MIB)
    driver.zero(address + first, nbytes)  # nothing was written: nothing to do
    data = driver.buffer(address, MIB)
    data[:] = 7
    driver.zero(address + first, nbytes)
    assert not data[first : first + nbytes].any()
    assert (data[:first] == 7).all()
    assert (data[first + nbytes :] == 7).all()
    with pytest.raises(ArgumentValueError, match="no live memory"):
        driver.zero(address + MIB - 1, 2)


def test_sim_virtual_memory():
    driver = SimDriver(4 * MIB)
    base = driver.reserve(100 * MIB)
    assert base == VIRTUAL_BASE
    handle = driver.create(2 * MIB)
    driver.map(base, 2 * MIB, handle)
    spare = driver.create(2 * MIB)
    with pytest.raises(OutOfMemoryError):
        driver.create(1)
    driver.release(spare)
    driver.unmap(base, 2 * MIB, handle)
    assert driver.used == 0
    driver.unreserve(base, 100 * MIB)
    assert driver.reserve(1) == VIRTUAL_BASE + 100 * MIB


def test_sim_events():
    auto, manual, counted = SimDriver(), SimDriver(stream_events="manual"), SimDriver(stream_events=2)
    assert auto.query_event(auto.record_event(1))
    one, two = manual.record_event(1), manual.record_event(2)
    manual.complete(2)
    assert (manual.query_event(one), manual.query_event(two)) == (False, True)
    manual.synchronize()
    assert manual.query_event(one)
    event = counted.record_event(0)
    assert [counted.query_event(event) for _ in range(4)] == [False, False, True, True]
    event = counted.record_event(0)
    counted.synchronize_event(event)
    assert counted.query_event(event)


def test_presets():
    for name, size in PRESETS.items():
        driver = SimDriver.preset(name)
        assert driver.name == name
        assert abs(driver.mem_info()[1] - size * 2**30) < 1
    with pytest.raises(UsageError, match="unknown device"):
        SimDriver.preset("abacus")
    with pytest.raises(ArgumentValueError):
        SimDriver(address_policy="random")


def test_devices():
    assert driver_for(CPU) is driver_for(Device("cpu", 0))
    with pytest.raises(TensorError):
        driver_for(Device("tpu"))
    if not cuda.is_available():
        with pytest.raises(TensorError, match="invalid device ordinal"):
            driver_for(Device("cuda", 1))


# -- cuda ------------------------------------------------------------------------------------------------------------


class StandIn:
    """CuPy's names as far as the driver uses them: each call is recorded, memory is counted."""

    def __init__(self, capacity):
        self.calls, self.sizes, self.next = [], {}, 1 << 20
        self.capacity = capacity
        self.uint8 = np.uint8
        outer = self

        class CUDARuntimeError(RuntimeError):
            def __init__(self, status):
                super().__init__(status)
                self.status = status

        class Event:
            ptr = 77

            def __init__(self, disable_timing):
                assert disable_timing
                self.done = False

            def synchronize(self):
                outer.calls.append(("eventSynchronize",))
                self.done = True

        class OnDevice:
            def __init__(self, index):
                self.index = index

            def __enter__(self):
                outer.calls.append(("setDevice", self.index))

            def __exit__(self, *error):
                pass

        def allocate(name, nbytes):
            outer.calls.append((name, nbytes))
            if sum(outer.sizes.values()) + nbytes > outer.capacity:
                raise CUDARuntimeError(2 if nbytes < 1 << 40 else 1)
            address, outer.next = outer.next, outer.next + nbytes
            outer.sizes[address] = nbytes
            return address

        def give_back(name, address):
            outer.calls.append((name, address))
            del outer.sizes[address]

        runtime = types.SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError,
            errorMemoryAllocation=2,
            malloc=lambda nbytes: allocate("malloc", nbytes),
            free=lambda address: give_back("free", address),
            hostAlloc=lambda nbytes, flags: allocate("hostAlloc", nbytes),
            freeHost=lambda address: give_back("freeHost", address),
            memGetInfo=lambda: (outer.capacity - sum(outer.sizes.values()), outer.capacity),
            deviceSynchronize=lambda: outer.calls.append(("deviceSynchronize",)),
            eventRecord=lambda event, stream: outer.calls.append(("eventRecord", event, stream)),
        )
        self.cuda = types.SimpleNamespace(
            runtime=runtime,
            Device=OnDevice,
            Event=Event,
            UnownedMemory=lambda *arguments: ("unowned", *arguments),
            MemoryPointer=lambda memory, offset: ("pointer", memory, offset),
        )

    def ndarray(self, shape, dtype, pointer):
        return shape, dtype, pointer


class VirtualStandIn:
    """cuda.bindings.driver in the same manner: functions return (status, results…)."""

    CUresult = types.SimpleNamespace(CUDA_ERROR_OUT_OF_MEMORY=2)
    CUmemAllocationType = types.SimpleNamespace(CU_MEM_ALLOCATION_TYPE_PINNED=1)
    CUmemLocationType = types.SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE=1)
    CUmemAccess_flags = types.SimpleNamespace(CU_MEM_ACCESS_FLAGS_PROT_READWRITE=3)

    def __init__(self, handles):
        self.calls, self.left, self.made = [], handles, 0

    @staticmethod
    def CUmemAllocationProp():  # noqa: N802  the library's name
        return types.SimpleNamespace(location=types.SimpleNamespace())

    CUmemAccessDesc = CUmemAllocationProp

    def cuMemCreate(self, nbytes, properties, flags):  # noqa: N802
        assert properties.location.id == 3
        if not self.left:
            return 2, None
        self.left, self.made = self.left - 1, self.made + 1
        self.calls.append(("cuMemCreate", nbytes))
        return 0, self.made

    def cuMemRelease(self, handle):  # noqa: N802
        self.left += 1
        self.calls.append(("cuMemRelease", handle))
        return (0,)

    def cuMemAddressReserve(self, nbytes, alignment, address, flags):  # noqa: N802
        return 0, 1 << 40

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append((name, *arguments[:2]))
            return (0,)

        return call


def test_cuda_memory():
    stand_in = StandIn(10 * MIB)
    driver = CudaDriver(3, cupy=stand_in)
    address = driver.malloc(8 * MIB)
    assert driver.mem_info() == (2 * MIB, 10 * MIB)
    with pytest.raises(OutOfMemoryError, match="cuda:3"):
        driver.malloc(4 * MIB)
    with pytest.raises(stand_in.cuda.runtime.CUDARuntimeError):
        driver.malloc(1 << 41)  # another error than "out of memory" stays what it is
    assert driver.buffer(address, 5) == ((5,), np.uint8, ("pointer", ("unowned", address, 5, None, 3), 0))
    driver.free(address)
    assert ("setDevice", 3) in stand_in.calls
    assert stand_in.sizes == {}


def test_cuda_events_through_the_allocator():
    stand_in = StandIn(100 * MIB)
    allocator = CachingAllocator(CudaDriver(3, cupy=stand_in))
    block = allocator.malloc(100)
    allocator.record_stream(block, 5)
    allocator.free(block)
    assert ("eventRecord", 77, 5) in stand_in.calls
    assert allocator.malloc(100) is not block
    allocator.empty_cache()
    assert ("eventSynchronize",) in stand_in.calls
    allocator.driver.synchronize()
    assert stand_in.calls[-1] == ("deviceSynchronize",)
    assert allocator.active_bytes == 512


def test_cuda_expandable_segments():
    virtual = VirtualStandIn(handles=3)
    allocator = CachingAllocator(
        CudaDriver(3, cupy=StandIn(100 * MIB), virtual=virtual), Settings.parse("expandable_segments:True")
    )
    block = allocator.malloc(50 * MIB)
    assert block.address == 1 << 40
    assert allocator.reserved_bytes == 60 * MIB
    with pytest.raises(OutOfMemoryError):
        allocator.malloc(50 * MIB)
    allocator.free(block)
    allocator.empty_cache()
    names = [call[0] for call in virtual.calls]
    assert names.count("cuMemMap") == names.count("cuMemSetAccess") == names.count("cuMemUnmap") == 3
    assert names.count("cuMemRelease") == names.count("cuMemCreate")
    assert virtual.calls[-1][:2] == ("cuMemAddressFree", 1 << 40)


def test_cuda_status_of_the_driver():
    virtual = VirtualStandIn(handles=1)
    virtual.cuMemAddressReserve = lambda *arguments: (999, None)
    with pytest.raises(TensorError, match="cuMemAddressReserve failed with status 999"):
        CudaDriver(0, cupy=StandIn(MIB), virtual=virtual).reserve(5)


def test_cuda_pinned_memory():
    stand_in = StandIn(100 * MIB)
    device = CudaDriver(0, cupy=stand_in)
    allocator = PinnedAllocator(PinnedDriver(device))
    pointer = allocator.allocate(5000)
    allocator.record_event(pointer, 9)
    pointer.release()
    assert ("hostAlloc", 8192) in stand_in.calls
    assert ("eventRecord", 77, 9) in stand_in.calls
    allocator.empty_cache()
    assert stand_in.calls[-1][0] == "freeHost"
    assert stand_in.sizes == {}


def test_without_cupy():
    if cuda.importlib.util.find_spec("cupy") is None:
        assert not cuda.is_available()
        with pytest.raises(UnavailableError, match="CuPy is not installed"):
            CudaDriver(0)


# -- a real GPU ------------------------------------------------------------------------------------------------------


@pytest.fixture
def gpu():
    if not cuda.is_available():
        pytest.skip("no CUDA device")
    return CudaDriver(0)


@pytest.mark.gpu
def test_gpu_memory(gpu):
    free, total = gpu.mem_info()
    assert 0 < free <= total
    allocator = CachingAllocator(gpu)
    one, two = allocator.allocate(3 * MIB), allocator.allocate(5000)
    gpu.buffer(one.address, one.nbytes)[:] = 1
    gpu.buffer(two.address, two.nbytes)[:] = 2
    assert int(gpu.buffer(one.address, one.nbytes).min()) == 1
    assert int(gpu.buffer(two.address, two.nbytes).max()) == 2
    with pytest.raises(OutOfMemoryError, match=r"CUDA out of memory\. Tried to allocate"):
        allocator.malloc(2 * total)
    for pointer in (one, two):
        pointer.release()
    allocator.empty_cache()
    assert allocator.reserved_bytes == 0


@pytest.mark.gpu
def test_gpu_events(gpu):
    event = gpu.record_event(0)
    gpu.synchronize_event(event)
    assert gpu.query_event(event)
    gpu.synchronize()


@pytest.mark.gpu
def test_gpu_expandable_segments(gpu):
    pytest.importorskip("cuda.bindings.driver")
    allocator = CachingAllocator(gpu, Settings.parse("expandable_segments:True"))
    pointer = allocator.allocate(50 * MIB)
    gpu.buffer(pointer.address, pointer.nbytes)[:] = 3
    assert int(gpu.buffer(pointer.address, pointer.nbytes).sum()) == 150 * MIB
    pointer.release()
    gpu.synchronize()
    allocator.empty_cache()
    assert allocator.reserved_bytes == 0


@pytest.mark.gpu
def test_gpu_pinned(gpu):
    driver = PinnedDriver(gpu)
    address = driver.malloc(4096)
    driver.buffer(address, 4096)[:] = 5
    assert driver.buffer(address, 4096).sum() == 5 * 4096
    driver.free(address)

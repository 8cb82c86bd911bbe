"""`stridetool.cuda` over the simulated device: values, counters, streams, and running out of memory."""

import pytest

import stridetool as st
from stridetool import cuda
from stridetool.core.drivers.device import Device, driver_for, set_driver
from stridetool.core.drivers.sim import SimDriver
from stridetool.core.memory.caching import CachingAllocator
from stridetool.core.memory.registry import set_allocator

GPU = Device("cuda", 0)


@pytest.fixture(autouse=True)
def device():
    """A simulated GPU of 64 MiB with an allocator of its own."""
    before = driver_for(GPU)
    if not isinstance(before, SimDriver):
        pytest.skip("there is a real GPU")
    driver = SimDriver(64 << 20, device=GPU)
    set_driver(driver)
    set_allocator(GPU, CachingAllocator(driver))
    yield driver
    set_driver(before)
    set_allocator(GPU, None)


def test_values_live_on_the_device():
    x = st.arange(6.0, device="cuda").view(2, 3)
    assert str(x.device) == "cuda:0"
    assert x.t().contiguous().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert (x + x).sum().item() == 30
    assert x.cpu().numpy().tolist() == x.tolist()
    assert x.cuda() is x
    assert st.equal(x.cpu().to("cuda:0"), x)


def test_zeros_over_what_was_there():
    """Of a part, of a view that is not dense, of a transposed one, and negative zero, which is not all bits 0."""
    x = st.full((6, 8), 7.0, device="cuda")
    x[1:3].zero_()
    x[:, 2].zero_()
    x[4:].t().fill_(0)
    assert x.cpu().tolist() == [
        [0.0 if row in (1, 2, 4, 5) or column == 2 else 7.0 for column in range(8)] for row in range(6)
    ]
    assert str(st.full((1,), -0.0, device="cuda").cpu().tolist()) == "[-0.0]"
    del x
    assert st.zeros(6, 8, device="cuda").cpu().tolist() == [[0.0] * 8] * 6


def test_counters_follow_tensors():
    x = st.empty(1000, device="cuda")
    assert (cuda.memory_allocated(), cuda.memory_reserved()) == (4096, 2 << 20)
    assert cuda.memory_stats()["requested_bytes.all.current"] == 4000
    (segment,) = cuda.memory_snapshot()
    assert segment["blocks"][0]["requested_size"] == 4000
    del x
    assert (cuda.memory_allocated(), cuda.max_memory_allocated()) == (0, 4096)
    cuda.reset_peak_memory_stats()
    cuda.empty_cache()
    assert (cuda.max_memory_allocated(), cuda.memory_reserved()) == (0, 0)
    assert "simulated" in cuda.memory_summary()
    assert cuda.mem_get_info() == (64 << 20, 64 << 20)


def test_out_of_memory_is_torchs_error():
    with pytest.raises(cuda.OutOfMemoryError, match=r"CUDA out of memory. Tried to allocate 128.00 MiB"):
        st.empty(32 << 20, device="cuda")
    cuda.set_per_process_memory_fraction(0.25)
    with pytest.raises(RuntimeError, match="out of memory"):
        st.empty(8 << 20, device="cuda")


def test_memory_belongs_to_the_stream_it_was_made_on():
    side = cuda.Stream()
    with cuda.stream(side):
        assert cuda.current_stream() == side
        x = st.empty(1000, device="cuda")
    y = st.empty(1000, device="cuda")
    assert cuda.current_stream() == cuda.default_stream() != side
    assert sorted(segment["stream"] for segment in cuda.memory_snapshot()) == [0, side.cuda_stream]
    del x, y
    cuda.synchronize()


def test_the_simulated_device_does_not_pass_for_a_gpu():
    assert not cuda.is_available()
    assert cuda.device_count() == 0


def test_operands_on_two_devices_are_refused():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        st.ones(2, device="cuda") + st.ones(2)
    assert (st.ones(2, device="cuda") * st.tensor(3.0)).tolist() == [3, 3]

"""Storages: who owns memory, when it is freed, and what resizing does to all who share it."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import stridetool as st
from stridetool.core.drivers.device import CPU
from stridetool.core.memory.cpu import DirectAllocator
from stridetool.core.memory.registry import allocator_for, set_allocator
from stridetool.errors import DimensionError, TensorError


@pytest.fixture
def allocator():
    """An allocator of the host that nobody else uses."""
    st.zeros(1)
    fresh = DirectAllocator(allocator_for(CPU).driver)
    set_allocator(CPU, fresh)
    gc.disable()
    yield fresh
    gc.enable()
    set_allocator(CPU, None)


def test_memory_goes_with_the_last_tensor_without_a_collection(allocator):
    x = st.zeros(1000)
    views = [x.t() if x.dim() == 2 else x[1:], x.view(10, 100), x.detach(), x.view(st.int32)]
    del x
    assert allocator.stats().allocated_bytes == 4000
    views.clear()
    assert allocator.stats().allocated_bytes == 0


HOLDERS = {
    "storage": lambda x: x.untyped_storage(),
    "numpy": lambda x: x.numpy()[::2],
    "dlpack": lambda x: np.from_dlpack(x),
    "iterator": lambda x: iter(x),
    "graph": lambda x: (x * x).grad_fn,
}


@pytest.mark.parametrize("through", HOLDERS)
def test_memory_stays_as_long_as_something_looks_at_it(allocator, through):
    x = st.zeros(1000, requires_grad=through == "graph")
    holder = HOLDERS[through](x)
    del x
    assert allocator.stats().allocated_bytes >= 4000
    del holder
    assert allocator.stats().allocated_bytes == 0


def test_a_graph_keeps_its_inputs_and_is_freed_at_once(allocator):
    x = st.ones(100, requires_grad=True)
    y = (x * 2).view(10, 10).t()
    y = y * y
    node = weakref.ref(y.grad_fn)
    assert allocator.stats().allocated_bytes > 2 * 400
    del x, y
    assert node() is None
    assert allocator.stats().allocated_bytes == 0


def test_an_in_place_write_on_a_view_makes_no_cycle(allocator):
    x = st.ones(100, requires_grad=True)
    y = x * 1
    y[0] = 5
    z = y[3:5]
    z += 1
    del x, y, z
    assert allocator.stats().allocated_bytes == 0


def test_untyped_storage_is_one_object():
    x = st.arange(6)
    assert x.untyped_storage() is x.untyped_storage() is x.view(2, 3).t().untyped_storage()


def test_no_bytes_is_a_null_pointer():
    for x in (st.empty(0), st.empty(2, 0, 3), st.arange(6)[6:]):
        assert x.data_ptr() == 0
    assert st.empty(0).untyped_storage().data_ptr() == 0


def test_host_memory_is_aligned_to_cache_lines():
    for count in (1, 3, 1000, 100_000):
        assert st.empty(count, dtype=st.int8).data_ptr() % 64 == 0


def test_growth_is_seen_by_everyone_who_shares():
    x = st.arange(6)
    y = x.view(2, 3)
    x.resize_(100)
    assert y.untyped_storage().nbytes() == 800
    assert y.tolist() == [[0, 1, 2], [3, 4, 5]]
    x.resize_(2)
    assert y.untyped_storage().nbytes() == 800, "a storage never shrinks by resize_"


def test_what_numpy_saw_is_kept_while_a_storage_grows():
    x = st.arange(6)
    seen = x.untyped_storage().numpy()
    before = seen.tobytes()
    x.resize_(1000)
    assert seen.tobytes() == before


def test_memory_of_another_library_is_not_resizable():
    x = st.from_numpy(np.arange(4))
    with pytest.raises(TensorError, match="Trying to resize storage that is not resizable"):
        x.resize_(5)
    assert x.tolist() == [0, 1, 2, 3]


def test_memory_of_a_read_only_array_is_not_written():
    array = np.arange(4)
    array.flags.writeable = False
    x = st.from_numpy(array)
    for write in (lambda: x.fill_(1), lambda: x.copy_(x.clone()), lambda: x.__setitem__(0, 1), lambda: x.add_(1)):
        with pytest.raises(TensorError, match="read-only"):
            write()
    assert array.tolist() == [0, 1, 2, 3]


def test_bytes_and_elements_of_a_storage():
    x = st.tensor([1, 258], dtype=st.int16)
    storage = x.untyped_storage()
    assert storage.tolist() == [1, 0, 2, 1]
    assert bytes(storage) == b"\x01\x00\x02\x01"
    assert (len(storage), storage.nbytes(), storage.size(), storage[-1], storage[1:3]) == (4, 4, 4, 1, [0, 2])
    assert x.storage().tolist() == [1, 258]
    assert (x.storage().size(), x.storage().nbytes()) == (2, 4)
    storage[0] = 5
    assert x.tolist() == [5, 258]
    with pytest.raises(DimensionError):
        storage[4]
    assert np.asarray(storage).tolist() == [5, 0, 2, 1]


def test_every_element_of_a_smaller_storage_is_refused():
    x = st.arange(3)
    x.untyped_storage().resize_(8)
    assert x[0].item() == 0
    with pytest.raises(TensorError, match="out of bounds for storage of size 8"):
        x.tolist()


def test_a_meta_tensor_has_sizes_and_no_memory():
    x = st.empty(1 << 20, 1 << 20, device="meta")
    assert (x.t().stride(), x.data_ptr(), x.untyped_storage().nbytes()) == ((1, 1 << 20), 0, 4 << 40)
    assert x.t().contiguous().stride() == (1 << 20, 1)


def test_deep_copies_keep_the_whole_storage_and_what_shares_it():
    x = st.arange(10)
    a, b = copy.deepcopy([x[2:4], x.view(2, 5).t()])
    assert (a.tolist(), a.storage_offset(), a.untyped_storage().nbytes()) == ([2, 3], 2, 80)
    assert a.untyped_storage() is b.untyped_storage() is not x.untyped_storage()
    assert b.stride() == (1, 5)
    with pytest.raises(TensorError, match="graph leaves"):
        copy.deepcopy(st.ones(1, requires_grad=True) * 2)


def test_a_shallow_copy_shares_and_a_pickle_does_not():
    x = st.arange(6.0).view(2, 3).t()
    assert copy.copy(x).untyped_storage() is x.untyped_storage()
    back = pickle.loads(pickle.dumps(x))
    assert (back.tolist(), back.stride()) == (x.tolist(), (1, 3))
    meta = pickle.loads(pickle.dumps(st.empty(1 << 40, device="meta")))
    assert meta.untyped_storage().nbytes() == 4 << 40

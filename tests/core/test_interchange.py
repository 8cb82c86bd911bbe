"""Arrays of other libraries, both ways and without a copy: NumPy, DLPack, the CUDA interface."""

import ctypes
import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import stridetool as st
from stridetool.errors import InterchangeError, TensorError


@given(some.lists(some.integers(0, 4), max_size=4), some.randoms(use_true_random=False))
def test_any_strided_array_and_back(sizes, random):
    array = np.arange(int(np.prod(sizes))).astype(random.choice(["i8", "f4", "c8", "u2", "?"])).reshape(sizes)
    array = array.transpose(random.sample(range(array.ndim), array.ndim))
    array = array[(*(slice(random.randint(0, 1), None, random.randint(1, 2)) for _ in sizes), ...)]
    for taken in (st.from_numpy(array), st.from_dlpack(array)):
        assert taken.shape == array.shape
        assert taken.tolist() == array.tolist()
        for back in (taken.numpy(), np.asarray(taken), np.from_dlpack(taken)):
            assert back.tolist() == array.tolist()
            assert back.dtype == array.dtype
            if array.size:
                assert back.ctypes.data == array.ctypes.data
                assert back.strides == array.strides


def test_a_write_is_seen_on_both_sides():
    array = np.zeros(3)
    x = st.from_dlpack(array)
    x[1] = 5
    array[2] = 7
    assert array.tolist() == x.tolist() == [0, 5, 7]


def test_two_tensors_over_one_array_have_storages_of_their_own():
    array = np.zeros(3)
    x, y = st.from_numpy(array), st.from_numpy(array)
    assert x.untyped_storage() is not y.untyped_storage()
    assert x.data_ptr() == y.data_ptr() == array.ctypes.data


def test_dlpack_refuses_what_the_other_side_would_read_wrongly():
    with pytest.raises(BufferError, match="negative strides"):
        st.from_dlpack(np.arange(3)[::-1])
    refused = [
        st.ones(2, requires_grad=True),
        st.ones(2, dtype=st.complex64).conj(),
        st.ones(2, dtype=st.complex64).conj().imag,
        st.ones(2, device="meta"),
        st.ones(2, device="cuda"),
    ]
    for x in refused:
        with pytest.raises(BufferError):
            x.__dlpack__()


def test_a_capsule_is_good_once():
    capsule = st.arange(3).__dlpack__()
    assert st.from_dlpack(capsule).tolist() == [0, 1, 2]
    with pytest.raises(TensorError, match="only once"):
        st.from_dlpack(capsule)


def test_an_unused_capsule_gives_its_memory_back():
    x = st.zeros(1000)
    storage = weakref.ref(x.untyped_storage())
    from stridetool.core.dlpack import _exports

    before = len(_exports)
    capsule = x.__dlpack__(max_version=(1, 0))
    assert len(_exports) == before + 1
    del capsule
    assert len(_exports) == before
    del x
    gc.collect()
    assert storage() is None


def test_a_producer_from_before_dlpack_1_without_strides():
    """NULL strides mean C order, and byte_offset counts."""
    from stridetool.core.dlpack import _CPU, _capsule_new, _DLTensor, _Managed

    memory = (ctypes.c_float * 8)(*range(8))
    shape = (ctypes.c_int64 * 2)(2, 3)
    managed = _Managed()
    managed.dl_tensor = _DLTensor(
        ctypes.addressof(memory), _CPU, 0, 2, 2, 32, 1, ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64)), None, 8
    )

    class Producer:
        def __dlpack__(self):
            return _capsule_new(ctypes.addressof(managed), b"dltensor", None)

    x = st.from_dlpack(Producer())
    assert (x.tolist(), x.stride()) == ([[2, 3, 4], [5, 6, 7]], (3, 1))


def test_unknown_types_and_devices_in_a_capsule():
    from stridetool.core.dlpack import _capsule_new, _DLTensor, _Managed

    shape = (ctypes.c_int64 * 1)(2)
    pointer = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    for device, code, bits, lanes in [(1, 2, 128, 1), (1, 2, 32, 4), (7, 2, 32, 1), (2, 2, 32, 1), (1, 99, 8, 1)]:
        managed = _Managed()
        managed.dl_tensor = _DLTensor(1, device, 0, 1, code, bits, lanes, pointer, None, 0)
        with pytest.raises(InterchangeError):
            st.from_dlpack(_capsule_new(ctypes.addressof(managed), b"dltensor", None))


def test_read_only_memory_stays_so():
    array = np.arange(3)
    array.flags.writeable = False
    for x in (st.from_numpy(array), st.from_dlpack(array)):
        with pytest.raises(TensorError, match="read-only"):
            x[0] = 1
        assert not np.asarray(x).flags.writeable


def test_types_without_a_numpy_counterpart_travel_by_dlpack():
    torch = pytest.importorskip("torch")
    for name in ("bfloat16", "float8_e5m2", "float8_e4m3fn"):
        x = st.arange(8.0).to(getattr(st, name)).view(2, 4).t()
        y = torch.from_dlpack(x)
        assert (str(y.dtype), y.stride(), y.float().tolist()) == (f"torch.{name}", (1, 4), x.float().tolist())
        back = st.from_dlpack(y)
        assert (back.dtype, back.data_ptr(), back.tolist()) == (x.dtype, x.data_ptr(), x.tolist())


def test_torch_tensors_share_memory_both_ways():
    torch = pytest.importorskip("torch")
    y = torch.arange(6.0).view(2, 3).t()
    x = st.from_dlpack(y)
    assert (x.stride(), x.data_ptr()) == (y.stride(), y.data_ptr())
    x.add_(1)
    assert y.tolist() == x.tolist()


def test_interfaces_are_there_only_where_they_can_be_followed():
    x = st.ones(2, 3).t()
    assert x.__array_interface__["strides"] == (4, 12)
    assert not hasattr(x, "__cuda_array_interface__")
    on_cuda = st.ones(2, device="cuda")
    assert not hasattr(on_cuda, "__array_interface__")
    assert not hasattr(on_cuda, "__cuda_array_interface__"), "a simulated address is no address"
    assert not hasattr(st.ones(2, dtype=st.bfloat16), "__array_interface__")

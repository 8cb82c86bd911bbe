"""copy_into against NumPy, with every kernel that runs here, and its errors."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from fractions import Fraction

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from random_views import random_pair

from stridetool import kernels
from stridetool.core.layout import Layout
from stridetool.errors import ArgumentTypeError, ArgumentValueError, UnavailableError
from stridetool.kernels import available_kernels, copy_into, copy_raw, kernel_name, use_kernel


@pytest.fixture(params=available_kernels())
def kernel(request):
    before = kernel_name()
    use_kernel(request.param)
    yield request.param
    use_kernel(before)


@pytest.mark.parametrize("batch", range(4))
def test_random_views(kernel, batch):
    share = 6000 if kernel != "numpy-tiled" else 2500
    for number in range(batch, share, 4):
        rng = random.Random(f"{kernel}/{number}")
        pair = random_pair(rng, int(30_000 ** rng.uniform(0.3, 1)))
        copy_into(pair.dst, pair.src)
        assert np.array_equal(pair.bytes, pair.expected), (number, pair.dst.shape, pair.src.strides, pair.dst.strides)


@pytest.mark.parametrize("threads", [1, 3])
def test_random_views_that_are_streamed_and_shared_by_threads(kernel, threads):
    for number in range(20):
        rng = random.Random(f"{threads}/{number}")
        pair = random_pair(rng, 5 << 20)
        copy_into(pair.dst, pair.src, threads=threads)
        assert np.array_equal(pair.bytes, pair.expected), (number, pair.dst.shape, pair.src.strides, pair.dst.strides)


LARGE = {
    "transpose": lambda a: a.reshape(1024, -1).T,
    "reversed transpose": lambda a: a.reshape(1024, -1)[::-1].T,
    "channels last": lambda a: a.reshape(4, -1, 60, 64).transpose(0, 2, 3, 1),
    "three channels": lambda a: a[: a.size // 3 * 3].reshape(-1, 3).T,
    "three planes": lambda a: a[: a.size // 3 * 3].reshape(3, -1).T,
    "rows": lambda a: a.reshape(64, -1, 128).transpose(1, 0, 2),
    "every second": lambda a: as_strided(a, (a.size,), (0,))[::1] if a.size < 4 else np.repeat(a, 2)[::2],
    "reversed": lambda a: a[::-1],
    "columns repeated": lambda a: np.broadcast_to(a[:1000, None], (1000, a.size // 1000)),
    "rows repeated": lambda a: np.broadcast_to(a[None, :4096], (a.size // 4096, 4096)),
    "windows": lambda a: sliding_window_view(a[: a.size // 16], 16),
    "short windows": lambda a: sliding_window_view(a[: a.size // 5], 5),
}


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "c16"])
@pytest.mark.parametrize("name", LARGE)
def test_kinds_beyond_the_caches(kernel, name, dtype):
    itemsize = np.dtype(dtype).itemsize
    flat = np.random.default_rng(1).integers(0, 256, 3840 * 1024 // itemsize // 7680 * 7680 * itemsize, dtype=np.uint8)
    src = LARGE[name](flat.view(f"V{itemsize}"))
    dst = np.empty(src.shape, src.dtype)
    copy_into(dst, src)
    assert dst.tobytes() == src.tobytes()


def test_memory_that_both_share_is_copied_as_if_through_a_copy(kernel):
    for seed in range(300):
        rng = random.Random(seed)
        base = np.arange(400, dtype=np.int32)
        shape = (rng.randint(1, 9), rng.randint(1, 9))
        views = [
            as_strided(base[rng.randint(0, 40) :], shape, rng.choice([(4, 40), (40, 4), (36, 4), (76, 8)]))
            for _ in range(2)
        ]
        before = views[1].copy()
        expected = base.copy()
        as_strided(expected[(views[0].ctypes.data - base.ctypes.data) // 4 :], shape, views[0].strides)[...] = before
        if (
            len(
                {
                    (views[0].ctypes.data + i * views[0].strides[0] + j * views[0].strides[1])
                    for i, j in np.ndindex(shape)
                }
            )
            < views[0].size
        ):
            continue
        copy_into(*views)
        assert np.array_equal(base, expected)


def test_a_copy_onto_itself_changes_nothing(kernel):
    a = np.arange(1 << 18, dtype=np.float32).reshape(512, 512)
    before = a.copy()
    copy_into(a, a)
    copy_into(a.T, a.T)
    assert np.array_equal(a, before)
    copy_into(a, a.T)
    assert np.array_equal(a, before.T)


def test_every_array_interface(kernel):
    class Interface:
        def __init__(self, array):
            self.array = array
            self.__array_interface__ = array.__array_interface__

    a = np.arange(12.0).reshape(3, 4)
    for wrap in (np.asarray, memoryview, Interface):
        out = np.zeros((3, 4))
        copy_into(wrap(out), wrap(a))
        assert np.array_equal(out, a)
    raw = bytearray(4)
    copy_into(raw, b"\x01\x02\x03\x04")
    assert raw == b"\x01\x02\x03\x04"
    dates = np.array(["2024-01-01", "2024-01-02"], "M8[D]")
    out = np.empty_like(dates)
    copy_into(out, dates[::-1])
    assert np.array_equal(out, dates[::-1])


def test_torch_tensors_both_ways(kernel):
    torch = pytest.importorskip("torch")
    source = torch.arange(24.0).reshape(2, 3, 4)
    out = np.empty((4, 3, 2), np.float32)
    copy_into(out, source.permute(2, 1, 0))
    assert np.array_equal(out, source.permute(2, 1, 0).numpy())
    target = torch.zeros(4, 3, 2)
    copy_into(target, out)
    assert torch.equal(target, source.permute(2, 1, 0))
    with pytest.raises(ArgumentTypeError, match="DLPack"):
        copy_into(target.bfloat16(), target.bfloat16())


def test_layouts_over_raw_addresses(kernel):
    a = np.arange(60, dtype=np.int16)
    out = np.zeros(12, np.int16)
    src, dst = Layout((3, 4), (1, 15), 5), Layout.contiguous((3, 4))
    copy_raw(out.ctypes.data, dst, a.ctypes.data, src, 2)
    assert np.array_equal(out.reshape(3, 4), as_strided(a[5:], (3, 4), (2, 30)))


def test_many_python_threads_at_once(kernel):
    a = np.random.default_rng(0).random((700, 900))
    outs = [np.empty((900, 700)) for _ in range(4)]
    workers = [threading.Thread(target=copy_into, args=(out, a.T), kwargs={"threads": 2}) for out in outs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(np.array_equal(out, a.T) for out in outs)


@pytest.mark.parametrize(
    ("dst", "src", "error", "message"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2)), ArgumentValueError, "its shape is (2, 3), that of src (3, 2)"),
        (np.zeros(3), np.zeros((3, 1)), ArgumentValueError, "shape"),
        (np.zeros(3, "f4"), np.zeros(3, "f8"), ArgumentValueError, "dtype is float32, that of src float64"),
        (np.zeros(3, "f4"), np.zeros(3, "i4"), ArgumentValueError, "dtype"),
        (np.zeros(3, "<f4"), np.zeros(3, ">f4"), ArgumentValueError, "byte order"),
        (np.zeros(3, object), np.zeros(3, object), ArgumentTypeError, "Python objects"),
        (b"abc", b"abc", ArgumentValueError, "read-only"),
        (np.broadcast_to(np.zeros(1), (3,)), np.zeros(3), ArgumentValueError, "read-only"),
        (as_strided(np.zeros(9), (3, 4), (16, 8)), np.zeros((3, 4)), ArgumentValueError, "overlaps itself"),
        (as_strided(np.zeros(9), (9,), (0,)), np.zeros(9), ArgumentValueError, "overlaps itself"),
        (
            as_strided(np.zeros(9, "u1")[1:].view("u2"), (3,), (1,)),
            np.zeros(3, "u2"),
            ArgumentValueError,
            "overlaps itself",
        ),
        (np.zeros(3), [0.0, 0.0, 0.0], ArgumentTypeError, "list is not an array"),
        (None, np.zeros(3), ArgumentTypeError, "NoneType is not an array"),
        (np.zeros(3), Fraction(1, 2), ArgumentTypeError, "Fraction is not an array"),
    ],
)
def test_bad_pairs(kernel, dst, src, error, message):
    before = bytes(dst) if isinstance(dst, np.ndarray) and not dst.dtype.hasobject and dst.flags.c_contiguous else None
    with pytest.raises(error) as caught:
        copy_into(dst, src)
    assert message in str(caught.value)
    assert before is None or bytes(dst) == before


def test_a_destination_that_interleaves_without_overlap_is_written(kernel):
    memory = np.zeros(8, np.int64)
    src = np.arange(6).reshape(2, 3)
    dst = as_strided(memory, (2, 3), (24, 16))  # 0 2 4 and 3 5 7: strides that do not nest
    copy_into(dst, src)
    assert memory.tolist() == [0, 0, 1, 3, 2, 4, 0, 5]


def test_sizes_that_overflow(kernel):
    class Huge:
        __array_interface__ = {  # noqa: RUF012  read once, never changed
            **np.zeros(1).__array_interface__,
            "shape": (1 << 40, 1 << 40),
            "strides": (0, 0),
        }

    with pytest.raises(ArgumentValueError, match="too big"):
        copy_into(np.zeros((2, 2)), Huge())
    a = np.zeros(4)
    for layout in (Layout((1 << 62, 4), (1, 1)), Layout((3, 1 << 61), (1 << 60, 1))):
        with pytest.raises(ArgumentValueError, match="cannot copy"):
            copy_raw(a.ctypes.data, layout, a.ctypes.data, layout, 8)


@pytest.mark.parametrize("threads", [0, -1])
def test_threads_must_be_positive(kernel, threads):
    with pytest.raises(ArgumentValueError, match="threads"):
        copy_into(np.zeros(3), np.zeros(3), threads=threads)


def test_wrong_arguments(kernel):
    with pytest.raises(TypeError):
        copy_into(np.zeros(3))
    with pytest.raises(TypeError):
        copy_into(np.zeros(3), np.zeros(3), 2)
    with pytest.raises(TypeError):
        copy_into(np.zeros(3), np.zeros(3), theads=2)
    with pytest.raises(TypeError):
        copy_into(np.zeros(3), np.zeros(3), threads="2")


def test_unknown_kernel():
    with pytest.raises(UnavailableError, match="cannot run here"):
        use_kernel("c-quantum")


def test_the_import_loads_no_numpy_and_the_environment_chooses():
    code = (
        "import sys, stridetool.kernels as k; assert 'numpy' not in sys.modules and 'cupy' not in sys.modules; "
        "a = bytearray(3); k.copy_into(a, b'abc'); print(k.kernel_name(), a.decode())"
    )
    for name in available_kernels():
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"STRIDETOOL_KERNEL": name, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == f"{name} abc\n"
    assert kernels.kernel_name() in available_kernels()


def test_tensors_are_copied_by_the_kernel_in_use(kernel):
    import stridetool as st
    from stridetool.core.dispatch import OPERATORS

    x = st.arange(24).reshape(2, 3, 4)
    assert x.permute(2, 1, 0).contiguous().tolist() == np.arange(24).reshape(2, 3, 4).transpose(2, 1, 0).tolist()
    out = st.empty(4, 3, 2, dtype=st.int64)
    assert OPERATORS["copy_into"].call(out, x.permute(2, 1, 0)) == kernel
    assert out.tolist() == x.permute(2, 1, 0).tolist()
    meeting = st.zeros(6, dtype=st.int64).as_strided((2, 3), (1, 1))
    assert OPERATORS["copy_into"].call(meeting, x[0, :2, :3]) == "numpy"

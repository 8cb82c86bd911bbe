"""The CUDA kernels without a GPU: compiled by NVRTC for four architectures, and executed on the host against NumPy."""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from random_views import random_pair

from stridetool.core.plan import plan_bytes
from stridetool.errors import UnavailableError
from stridetool.kernels import cuda, cuda_resources
from stridetool.kernels.cuda_launch import Launch, launches

SHIM = Path(__file__).with_name("cuda_shim.cpp")
KERNELS = ("gather_naive", "gather_coalesced", "tile_padded", "tile_vector", "rows", "splat")
WIDTHS = (1, 2, 4, 8, 16)


def build(folder: Path, *flags: str) -> ctypes.CDLL:
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("executing CUDA source on the host needs a C++ compiler and ucontext")
    library = folder / "shim.so"
    options = ["-O1", "-std=c++17", "-fno-strict-aliasing", "-Wno-unknown-pragmas", "-shared", "-fPIC"]
    subprocess.run([compiler, *options, *flags, f'-DSOURCE="{cuda.SOURCE}"', str(SHIM), "-o", library], check=True)
    return ctypes.CDLL(str(library))


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    return build(tmp_path_factory.mktemp("shim"))


def run(host: ctypes.CDLL, launch: Launch, seed: int) -> None:
    pair = ctypes.c_uint * 2
    walk = launch.walk()
    failed = host.launch(
        launch.entry.encode(),
        pair(*launch.grid),
        pair(*launch.block),
        ctypes.c_void_p(launch.dst),
        ctypes.c_void_p(launch.src),
        (ctypes.c_longlong * len(walk))(*walk),
        ctypes.c_uint(seed),
    )
    assert not failed, launch.entry


def launches_of(dst: np.ndarray, src: np.ndarray) -> dict[str, Launch]:
    plan = plan_bytes(dst.shape, dst.strides, src.strides, dst.itemsize)
    return launches(plan, dst.ctypes.data, src.ctypes.data)


def aligned(nbytes: int) -> np.ndarray:
    """Random bytes that start where a device allocation would."""
    raw = np.random.default_rng(nbytes).integers(0, 256, nbytes + 256, dtype=np.uint8)
    start = -raw.ctypes.data % 256
    return raw[start : start + nbytes]


VIEWS = {
    "transpose": lambda a: a.reshape(96, -1).T,
    "ragged transpose": lambda a: a[: a.size // 83 * 83].reshape(83, -1).T,
    "ragged transpose of whole vectors": lambda a: a[: 80 * 208].reshape(80, 208)[:, :176].T,
    "reversed transpose": lambda a: a.reshape(96, -1)[::-1, ::-1].T,
    "channels last": lambda a: a.reshape(2, 48, -1, 16).transpose(0, 2, 3, 1),
    "channels first": lambda a: a.reshape(2, -1, 16, 48).transpose(0, 3, 1, 2),
    "three channels": lambda a: a[: a.size // 3 * 3].reshape(-1, 3).T,
    "three planes": lambda a: a[: a.size // 3 * 3].reshape(3, -1).T,
    "all reversed": lambda a: a.reshape(8, 12, -1, 16).transpose(3, 2, 1, 0),
    "contiguous": lambda a: a,
    "rows": lambda a: a.reshape(16, -1, 32).transpose(1, 0, 2),
    "ragged rows": lambda a: a.reshape(32, -1)[:, 3:-2],
    "every third": lambda a: a[::3],
    "reversed": lambda a: a[::-1],
    "rows repeated": lambda a: np.broadcast_to(a[None, :515], (7, 515)),
    "columns repeated": lambda a: np.broadcast_to(a[:29, None], (29, 515)),
    "one value": lambda a: as_strided(a, (2500,), (0,)),
    "windows": lambda a: sliding_window_view(a[:1000], 5),
    "one element": lambda a: a[5:6],
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", VIEWS)
def test_each_kernel_that_can_serve_copies_what_numpy_copies(host, name, width):
    src = VIEWS[name](aligned(96 * 192 * width).view(f"V{width}"))
    memory = aligned(src.nbytes + 64)
    dst = memory[32 : 32 + src.nbytes].view(src.dtype).reshape(src.shape)
    for seed, launch in enumerate(launches_of(dst, src).values()):
        memory[:] = 0xAB
        run(host, launch, seed)
        assert dst.tobytes() == src.tobytes(), launch.entry
        assert (memory[:32] == 0xAB).all(), launch.entry
        assert (memory[32 + src.nbytes :] == 0xAB).all(), launch.entry


def test_random_views(host):
    ran = set()
    for number in range(400):
        rng = random.Random(number)
        pair = random_pair(rng, 3000)
        for name, launch in launches_of(pair.dst, pair.src).items():
            pair.bytes[:] = 0xAB
            run(host, launch, number)
            assert np.array_equal(pair.bytes, pair.expected), (number, launch.entry)
            ran.add(name)
    assert ran >= {*KERNELS} - {"tile_vector"}  # which needs aligned views; the test above has them


def test_a_transpose_is_vectorised_at_each_width_and_an_unaligned_one_is_not():
    for width in WIDTHS:
        a = aligned(256 * 256 * width).view(f"V{width}").reshape(256, 256)
        dst = aligned(a.nbytes).view(a.dtype).reshape(a.shape)
        assert next(iter(launches_of(dst, a.T))) == "tile_vector"
    odd = aligned(255 * 255 * 4).view("V4").reshape(255, 255)
    dst = aligned(odd.nbytes).view("V4").reshape(255, 255)
    assert next(iter(launches_of(dst, odd.T))) == "tile_padded"


@pytest.mark.parametrize("kernel", ["tile_padded", "tile_vector"])
def test_a_missing_barrier_is_caught(tmp_path, kernel):
    host = build(tmp_path, "-DNO_BARRIER")
    src = aligned(128 * 128 * 4).view("V4").reshape(128, 128).T
    dst = aligned(src.nbytes)[:].view("V4").reshape(128, 128)
    run(host, launches_of(dst, src)[kernel], 0)
    assert dst.tobytes() != src.tobytes()


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100"])
def test_no_kernel_spills(arch, record_property):
    try:
        found = cuda_resources.resources(arch)
    except UnavailableError as error:
        pytest.skip(str(error))
    assert set(found) == {f"{kernel}_{width}" for kernel in KERNELS for width in WIDTHS}
    for entry, used in found.items():
        record_property(entry, f"{used.registers} registers, {used.shared_bytes} B shared")
        assert used.spill_bytes == used.stack_bytes == 0, (entry, used)
        assert 0 < used.registers <= 64, (entry, used)  # four blocks of 256 threads on a multiprocessor
        assert used.shared_bytes <= 48 << 10, (entry, used)


def test_without_a_gpu_the_error_says_what_is_missing():
    if cuda.driver.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(UnavailableError, match="need CuPy and a GPU"):
        cuda.copy_into(np.zeros(3), np.zeros(3))


@pytest.mark.gpu
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", VIEWS)
def test_each_kernel_on_a_gpu(name, width):
    if not cuda.driver.is_available():
        pytest.skip("no GPU")
    import cupy

    flat = aligned(96 * 192 * width)
    src = VIEWS[name](flat.view(f"V{width}"))
    kind = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}[width]
    on_device = cupy.asarray(flat).view(kind)
    first = (src.ctypes.data - flat.ctypes.data) // width
    base = on_device[first:] if first else on_device
    view = cupy.lib.stride_tricks.as_strided(base, src.shape, src.strides)
    for kernel in cuda.kernel_names(cupy.empty(src.shape, kind), view):
        dst = cupy.zeros(src.shape, kind)
        assert cuda.copy_into(dst, view, kernel=kernel) == kernel
        assert cupy.asnumpy(dst).tobytes() == src.tobytes(), kernel

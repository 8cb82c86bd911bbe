"""The standard cases against the NumPy views that they stand for, and what options describe."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from stridetool.bench.cases import case_of, make_case, select, standard_cases
from stridetool.bench.host_kernels import filled, source_view
from stridetool.core.layout import Layout
from stridetool.errors import UsageError

VIEWS = {
    "transpose": lambda: np.empty((2048, 2048), "f4").T,
    "transpose-skinny": lambda: np.empty((1 << 20, 8), "f4").T,
    "nchw-to-nhwc": lambda: np.empty((16, 64, 112, 112), "f4").transpose(0, 2, 3, 1),
    "attention-keys": lambda: np.empty((4, 1024, 16, 64), "f2").transpose(0, 2, 3, 1),
    "slice-columns-step-2": lambda: np.empty((2048, 4096), "f4")[:, ::2],
    "one-column": lambda: np.empty((1 << 20, 16), "f4")[:, 3],
    "windows-of-16": lambda: sliding_window_view(np.empty(1 << 20, "f4"), 16),
    "broadcast-row": lambda: np.broadcast_to(np.empty((1, 4096), "f4"), (2048, 4096)),
    "reverse-columns-uint8": lambda: np.empty((2048, 4096), "u1")[:, ::-1],
    "image-to-nchw-uint8": lambda: np.empty((16, 512, 512, 3), "u1").transpose(0, 3, 1, 2),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_standard_case_is_the_view_of_its_name(name):
    (case,) = select(standard_cases(), [name])
    view = VIEWS[name]()
    assert (case.layout.sizes, case.byte_strides, case.itemsize) == (view.shape, view.strides, view.itemsize)


@pytest.mark.parametrize("quick", [False, True])
def test_names_are_unique_and_kinds_are_all_there(quick):
    names = [case.name for case in standard_cases(quick=quick)]
    assert len(set(names)) == len(names)
    for kind in ("contiguous", "transpose", "nchw", "nhwc", "attention", "slice", "windows", "broadcast", "reverse"):
        assert any(kind in name for name in names), kind


def test_the_extent_covers_negative_strides():
    case = make_case("x", Layout((3, 4), (-10, 2), 25), "float64")
    assert case.extent() == ((2 * 10 + 3 * 2 + 1) * 8, 20 * 8)
    memory = filled(case.extent()[0])
    view = source_view(memory, case)
    flat = memory.view("u8")
    assert view.tolist() == [[flat[20 - 10 * i + 2 * j] for j in range(4)] for i in range(3)]


def test_options_describe_views_of_contiguous_tensors():
    case = case_of([8, 64, 128], [0, 2, 1], None, "f2")
    assert (case.layout.sizes, case.layout.strides, case.dtype) == ((8, 128, 64), (8192, 1, 128), "float16")
    assert case_of([], None, None, "bool").layout.numel == 1
    assert case_of([4, 4], None, [0, 1], "bfloat16").itemsize == 2
    assert case_of([2, 2], None, None, "half").dtype == "float16"


@pytest.mark.parametrize(
    ("sizes", "permute", "strides", "dtype"),
    [
        ([4, 4], [0, 0], None, "float32"),
        ([4, 4], [0], None, "float32"),
        ([4, 4], [1, 0], [1, 4], "float32"),
        ([4, 4], None, [1], "float32"),
        ([4, -1], None, None, "float32"),
        ([1 << 40, 1 << 40], None, None, "float32"),
        ([4], None, [1 << 62], "float32"),
        ([1] * 65, None, None, "float32"),
        ([4], None, None, "float33"),
    ],
)
def test_options_that_do_not_fit_are_refused(sizes, permute, strides, dtype):
    with pytest.raises(UsageError):
        case_of(sizes, permute, strides, dtype)

"""The copy plan: it visits each destination element once with the right source, and the C extension makes the same."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_views import random_pair

from stridetool.core.layout import Layout
from stridetool.core.plan import TILE_BYTES, CopyPlan, plan_bytes, plan_copy

KINDS = {"empty", "run", "rows", "splat", "transpose", "strided", "generic"}


@st.composite
def layouts(draw):
    """Sizes, strides of a destination without overlap, strides of any source; in bytes, with the item size."""
    sizes = draw(st.lists(st.integers(0, 5), max_size=5))
    itemsize = draw(st.integers(1, 32))
    dst = [0] * len(sizes)
    step = itemsize
    for dim in draw(st.permutations(range(len(sizes)))):
        step += draw(st.sampled_from([0, 0, 0, 1, itemsize]))
        dst[dim] = step * draw(st.sampled_from([1, -1]))
        step *= max(1, sizes[dim])
    src = [itemsize * draw(st.integers(-40, 40)) + draw(st.integers(-1, 1)) for _ in sizes]
    return tuple(sizes), tuple(dst), tuple(src), itemsize


def bytes_visited(plan: CopyPlan) -> list[tuple[int, int]]:
    return sorted((d + i, s + i) for d, s in plan.moves() for i in range(plan.width))


def bytes_of_layouts(sizes, dst, src, itemsize) -> list[tuple[int, int]]:
    return sorted(
        (
            sum(i * d for i, d in zip(index, dst, strict=True)) + b,
            sum(i * s for i, s in zip(index, src, strict=True)) + b,
        )
        for index in np.ndindex(*sizes)
        for b in range(itemsize)
    )


@given(layouts())
def test_each_byte_of_the_destination_is_visited_once_with_its_source(layout):
    plan = plan_bytes(*layout)
    assert bytes_visited(plan) == bytes_of_layouts(*layout)
    assert plan.kind in KINDS
    assert all(1 <= t <= d.size for t, d in zip(plan.tile, plan.dims, strict=True))


@given(layouts())
def test_the_extension_makes_the_same_plan(layout):
    extension = pytest.importorskip("stridetool.kernels._copy")
    assert as_tuple(plan_bytes(*layout)) == extension.plan(*layout)


def test_the_extension_makes_the_same_plan_of_large_views():
    extension = pytest.importorskip("stridetool.kernels._copy")
    for seed in range(300):
        pair = random_pair(random.Random(seed), 8 << 20)
        layout = (pair.dst.shape, pair.dst.strides, pair.src.strides, pair.dst.itemsize)
        assert as_tuple(plan_bytes(*layout)) == extension.plan(*layout), layout


def as_tuple(plan: CopyPlan) -> tuple:
    columns = tuple(tuple(dim[i] for dim in plan.dims) for i in range(3))
    shifts = (plan.dst_shift, plan.src_shift)
    walk = (plan.tile, plan.order, plan.across, plan.chain, int(plan.streams))
    return plan.kind, plan.width, plan.nbytes, *shifts, *columns, *walk


@pytest.mark.parametrize(
    ("sizes", "dst", "src", "kind", "dims"),
    [
        ((4, 6), (6, 1), (6, 1), "run", 0),
        ((3, 0), (1, 1), (1, 1), "empty", 0),
        ((), (), (), "run", 0),
        ((4096, 4096), (4096, 1), (1, 4096), "transpose", 2),
        ((8, 3, 100), (300, 100, 1), (300, 1, 3), "transpose", 3),
        ((64, 100), (100, 1), (128, 1), "rows", 2),
        ((64, 100), (100, 1), (1, 0), "splat", 2),
        ((1000,), (1,), (2,), "strided", 1),
        ((1000,), (1,), (-1,), "strided", 1),
        ((10, 20), (-20, -1), (20, 1), "strided", 1),
        ((1000,), (2,), (1,), "generic", 1),
        ((5, 7, 4), (28, 4, 1), (4, 20, 1), "transpose", 2),
    ],
)
def test_kinds(sizes, dst, src, kind, dims):
    plan = plan_copy(Layout(sizes, dst), Layout(sizes, src), 4)
    assert plan.kind == kind
    assert len(plan.dims) == (dims if kind not in ("run", "empty") else len(plan.dims))
    assert plan.explain()[0].startswith(kind)


def test_an_innermost_run_that_fits_a_register_is_one_element():
    plan = plan_copy(Layout((5, 7, 4), (28, 4, 1)), Layout((5, 7, 4), (4, 20, 1)), 4)
    assert plan.width == 16


def test_tiles_fit_and_runs_are_whole_lines():
    plan = plan_copy(Layout((4096, 4096), (4096, 1)), Layout((4096, 4096), (1, 4096)), 4)
    assert plan.tile_bytes <= TILE_BYTES
    assert plan.streams
    assert plan.tile[0] * plan.width % 64 == 0
    assert any("tile" in line for line in plan.explain())

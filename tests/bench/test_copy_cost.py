"""The model of lines against counting them, and the sentences that it leads to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stridetool.analysis.copy_advice import copy_cost
from stridetool.analysis.copy_cost import Cache, Machine, loop_lines, sets_used, touched_lines, walk
from stridetool.core.layout import Layout
from stridetool.core.plan import Dim

MACHINE = Machine(caches=(Cache(1, 32 << 10), Cache(2, 512 << 10)))
LINE = 64


def addresses(layout, itemsize):
    """Byte offsets of each element in the order of the destination, as NumPy's own strides give them."""
    index = np.indices(layout.sizes).reshape(len(layout.sizes), -1).T
    low, _ = layout.reach()
    return (index @ np.array(layout.strides) + layout.offset - low) * itemsize


def counted_lines(layout, itemsize):
    starts = addresses(layout, itemsize)
    return len(np.unique([starts // LINE, (starts + itemsize - 1) // LINE]))


def simulated_fetches(layout, itemsize, cache):
    """Lines that a set-associative cache with least-recently-used replacement loads."""
    sets = [[] for _ in range(cache.sets)]
    fetched = 0
    for line in addresses(layout, itemsize) // LINE:
        ways = sets[line % cache.sets]
        if line in ways:
            ways.remove(line)
        else:
            fetched += 1
            if len(ways) == cache.ways:
                ways.pop(0)
        ways.append(line)
    return fetched


def modelled(layout, itemsize=4, machine=MACHINE):
    return walk(layout, Layout.contiguous(layout.sizes).strides, itemsize, itemsize, machine)


KINDS = {
    "run": Layout.contiguous((64, 64)),
    "transpose": Layout.contiguous((60, 72)).transpose(0, 1),
    "columns": Layout.contiguous((64, 256)).slice(1, None, None, 2),
    "column": Layout.contiguous((200, 64)).select(1, 5),
    "narrow": Layout.contiguous((100, 256)).narrow(1, 16, 32),
    "windows": Layout.contiguous((500,)).unfold(0, 7, 1),
    "row": Layout.contiguous((1, 128)).expand((64, 128)),
    "nhwc": Layout.contiguous((4, 8, 20, 20)).permute((0, 2, 3, 1)),
    "planes": Layout.contiguous((8, 64, 64)).slice(0, None, None, 3),
}


@pytest.mark.parametrize("kind", KINDS)
def test_touched_lines_are_those_that_counting_finds(kind):
    assert modelled(KINDS[kind]).touched_line_bytes / LINE == pytest.approx(
        counted_lines(KINDS[kind], 4), rel=0.1, abs=2
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 3), st.integers(1, 3))
def test_touched_lines_of_any_window_are_near_the_count(rows, columns, pad, step):
    layout = Layout.contiguous((rows, columns * step + 16 * pad)).slice(1, 0, columns * step, step)
    counted = counted_lines(layout, 4)
    assert counted / 1.6 - 2 <= modelled(layout).touched_line_bytes / LINE <= counted * 1.6 + 2


@pytest.mark.parametrize(
    "layout",
    [
        Layout.contiguous((256, 256)).transpose(0, 1),  # 256 lines, in 4 of 64 sets
        Layout.contiguous((100, 120)).transpose(0, 1),  # fits
        Layout.contiguous((700, 72)).transpose(0, 1),  # 700 lines do not
        Layout.contiguous((64, 64)),
        Layout.contiguous((32, 16, 64)).permute((2, 0, 1)),
    ],
    ids=lambda layout: "x".join(map(str, layout.sizes)),
)
def test_loop_traffic_is_that_of_a_simulated_cache(layout):
    cache = Cache(1, 32 << 10, ways=8)
    want = simulated_fetches(layout, 4, cache)
    got = loop_lines(modelled(layout).plan, cache)
    assert want / 1.5 <= got <= want * 1.5


def test_powers_of_two_use_few_sets():
    cache = Cache(2, 1 << 20, ways=16)
    assert sets_used([Dim(2048, 4, 8192)], 4, cache) == 1024 // 128
    assert sets_used([Dim(2048, 4, 8196)], 4, cache) == 1024
    assert touched_lines([Dim(2048, 4, 8192)], 4, LINE) == 2048


def test_a_power_of_two_transpose_is_explained_and_padding_is_proposed():
    cost = copy_cost(Layout.contiguous((2048, 2048)).transpose(0, 1), 4, 4, Machine())
    assert cost.plan == "transpose"
    assert cost.inner_stride_bytes == 8192
    assert any("power of two" in reason for reason in cost.reasons)
    assert any("another page" in reason for reason in cost.reasons)
    assert cost.loop_traffic[-1].line_bytes_fetched == 16 * cost.touched_line_bytes
    padded = next(change for change in cost.changes if "longer" in change.text)
    assert padded.strides == (1, 2048 + 16)


def test_the_cheapest_change_of_a_permutation_keeps_the_order_and_is_one_run():
    layout = Layout.contiguous((8, 56, 56, 64)).permute((0, 3, 1, 2))
    change = copy_cost(layout, 4, 4, Machine()).changes[0]
    assert change.changes == "destination"
    assert change.strides == layout.strides
    assert "channels_last" in change.text
    assert walk(layout, change.strides, 4, 4, Machine()).plan.kind == "run"


def test_a_permute_to_nhwc_is_free_where_the_source_is_channels_last():
    layout = Layout.contiguous((8, 64, 56, 56)).permute((0, 2, 3, 1))
    change = copy_cost(layout, 4, 4, Machine()).changes[-1]
    assert "torch.channels_last" in change.text
    assert Layout(change.sizes, change.strides).permute((0, 3, 1, 2)).is_contiguous("channels_last")


def test_one_column_wastes_lines_and_says_what_is_possible():
    cost = copy_cost(Layout.contiguous((1 << 16, 16)).select(1, 3), 4, 4, Machine())
    assert cost.touched_line_bytes == 16 * cost.useful_bytes
    assert cost.attainable_fraction == pytest.approx(2 / 17)
    assert any("4 B are wanted" in reason for reason in cost.reasons)
    assert cost.changes[0].changes == "source"


@pytest.mark.parametrize(
    "layout", [KINDS["row"], Layout.contiguous((4000,)).unfold(0, 16, 1)], ids=["expand", "unfold"]
)
def test_views_that_repeat_are_not_to_be_materialised(layout):
    cost = copy_cost(layout, 4, 4, Machine())
    assert cost.changes[0].changes == "none"
    assert cost.attainable_fraction > 1.5


@pytest.mark.parametrize(
    "layout", [Layout.contiguous((1000,)), Layout((), ()), Layout.contiguous((3, 0)), KINDS["planes"]]
)
def test_what_is_fast_needs_no_change(layout):
    assert copy_cost(layout, 4, 4, Machine()).changes == ()


def test_a_gpu_is_told_about_its_warps():
    machine = Machine(caches=(Cache(2, 50 << 20, 32, 16),), page_bytes=2 << 20, warp=32)
    cost = copy_cost(Layout.contiguous((512, 512)).transpose(0, 1), 4, 4, machine)
    assert any("32 threads of a warp read 32 sectors of 32 B where 4" in reason for reason in cost.reasons)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(-30, 30)), max_size=5), st.sampled_from((1, 2, 3, 4, 8, 12, 16))
)
def test_any_layout_is_explained(dims, itemsize):
    layout = Layout(tuple(n for n, _ in dims), tuple(s for _, s in dims))
    cost = copy_cost(layout, itemsize, itemsize, MACHINE)
    assert cost.reasons
    assert cost.attainable_fraction > 0
    if layout.numel:
        assert 0 < cost.useful_bytes <= layout.numel * itemsize

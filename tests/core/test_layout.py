"""Laws of layouts: a layout is a function from indices to offsets, and every operator is a change of indices.

NumPy is the judge: `as_strided` over `arange` holds, at each index, the offset that the layout must give.
"""

from math import prod

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stridetool.core.layout import Layout
from stridetool.errors import DimensionError, TensorError

DIMS = st.lists(st.tuples(st.integers(1, 5), st.integers(-12, 12)), max_size=4)


@st.composite
def layouts(draw, dims=DIMS):
    pairs = draw(dims)
    layout = Layout(tuple(n for n, _ in pairs), tuple(s for _, s in pairs))
    return Layout(layout.sizes, layout.strides, draw(st.integers(0, 5)) - layout.reach()[0])


def offsets(layout):
    """The offset of every element, in logical order, as NumPy sees it."""
    cells = np.arange(max(layout.reach()[1], 1))
    itemsize = cells.itemsize
    byte_strides = [s * itemsize for s in layout.strides]
    start = cells[layout.offset :] if layout.offset < len(cells) else cells[:0]
    return np.lib.stride_tricks.as_strided(start, layout.sizes, byte_strides)


def same(layout, expected):
    assert layout.sizes == expected.shape
    np.testing.assert_array_equal(offsets(layout), expected)


@given(layouts())
def test_a_layout_is_the_function_that_numpy_computes(layout):
    expected = offsets(layout)
    assert all(layout(*index) == expected[index] for index in np.ndindex(layout.sizes))
    assert layout.reach() == (expected.min(), expected.max() + 1)
    assert layout.extent == expected.max() + 1 - expected.min()
    assert layout.numel == expected.size
    assert layout.ndim == expected.ndim


@given(layouts(), st.data())
def test_indices_wrap_once_and_are_checked(layout, data):
    assume(layout.sizes)
    index = tuple(data.draw(st.integers(-n, n - 1)) for n in layout.sizes)
    assert layout(*index) == offsets(layout)[index]
    dim = data.draw(st.integers(0, layout.ndim - 1))
    out = data.draw(st.sampled_from([-layout.sizes[dim] - 1, layout.sizes[dim]]))
    with pytest.raises(DimensionError, match=f"index {out} is out of bounds for dimension {dim}"):
        layout(*index[:dim], out, *index[dim + 1 :])
    with pytest.raises(DimensionError, match="expected"):
        layout(*index, 0)


@given(layouts(), st.data())
def test_permute_is_numpys_and_its_inverse_undoes_it(layout, data):
    dims = data.draw(st.permutations(range(layout.ndim)))
    permuted = layout.permute(dims)
    same(permuted, offsets(layout).transpose(dims))
    assert permuted.permute([dims.index(d) for d in range(layout.ndim)]) == layout


@given(layouts(), st.data())
def test_transpose_and_movedim_are_numpys(layout, data):
    assume(layout.ndim)
    a, b = (data.draw(st.integers(-layout.ndim, layout.ndim - 1)) for _ in range(2))
    same(layout.transpose(a, b), offsets(layout).swapaxes(a, b))
    same(layout.movedim([a], [b]), np.moveaxis(offsets(layout), a, b))


@given(layouts(), st.data())
def test_select_slice_and_narrow_are_numpys_indexing(layout, data):
    assume(layout.ndim)
    dim = data.draw(st.integers(0, layout.ndim - 1))
    size = layout.sizes[dim]
    before = (slice(None),) * dim
    index = data.draw(st.integers(-size, size - 1))
    same(layout.select(dim, index), offsets(layout)[(*before, index)])
    bound = st.none() | st.integers(-size - 2, size + 2)
    part = (data.draw(bound), data.draw(bound), data.draw(st.integers(1, 4)))
    assert layout.slice(dim, *part).sizes == offsets(layout)[(*before, slice(*part))].shape
    if layout.slice(dim, *part).numel:
        same(layout.slice(dim, *part), offsets(layout)[(*before, slice(*part))])
    start = data.draw(st.integers(0, size - 1))
    length = data.draw(st.integers(1, size - start))
    same(layout.narrow(dim, start, length), offsets(layout)[(*before, slice(start, start + length))])


@given(layouts(), st.data())
def test_squeeze_undoes_unsqueeze_and_expand_is_broadcasting(layout, data):
    dim = data.draw(st.integers(-layout.ndim - 1, layout.ndim))
    longer = layout.unsqueeze(dim)
    same(longer, np.expand_dims(offsets(layout), dim))
    assert longer.squeeze(dim) == layout
    same(layout.squeeze(), offsets(layout).squeeze())
    sizes = [*data.draw(st.lists(st.integers(1, 3), max_size=2)), *(n if n > 1 else 3 for n in layout.sizes)]
    same(layout.expand(sizes), np.broadcast_to(offsets(layout), sizes))


@given(layouts(), st.data())
def test_unfold_is_a_sliding_window_and_diagonal_is_numpys(layout, data):
    assume(layout.ndim)
    dim = data.draw(st.integers(0, layout.ndim - 1))
    size = data.draw(st.integers(1, layout.sizes[dim]))
    step = data.draw(st.integers(1, 3))
    windows = np.lib.stride_tricks.sliding_window_view(offsets(layout), size, axis=dim)
    same(layout.unfold(dim, size, step), windows[(slice(None),) * dim + (slice(None, None, step),)])
    if layout.ndim > 1:
        a, b = data.draw(st.permutations(range(layout.ndim)))[:2]
        shift = data.draw(st.integers(1 - layout.sizes[a], layout.sizes[b] - 1))
        same(layout.diagonal(shift, a, b), offsets(layout).diagonal(shift, a, b))


def shapes_of(numel):
    """Lists of sizes that multiply to `numel`."""

    @st.composite
    def draw_shape(draw):
        shape, left = [], numel
        while left > 1 and len(shape) < 5:
            size = draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0]))
            shape.append(size)
            left //= size
        return [*shape, left] if left > 1 else shape

    return draw_shape()


@given(layouts(), st.data())
def test_a_view_keeps_the_order_of_the_elements_and_exists_when_numpy_needs_no_copy(layout, data):
    shape = data.draw(shapes_of(layout.numel))
    array = offsets(layout)
    view = layout.try_view(shape)
    if view is not None:
        same(view, array.reshape(shape))
    assert (view is None) == (layout.view_blocker(shape) is not None)
    assert (view is not None) == np.may_share_memory(array, array.reshape(shape))


@given(layouts())
def test_runs_enumerate_the_same_offsets_and_no_two_of_them_merge(layout):
    runs = layout.runs()
    merged = Layout(tuple(r.size for r in runs.runs), tuple(r.stride for r in runs.runs), runs.offset)
    np.testing.assert_array_equal(offsets(merged).ravel(), offsets(layout).ravel())
    starts = Layout(tuple(r.size for r in runs.repeats), tuple(r.stride for r in runs.repeats), runs.offset)
    blocks = [int(start) + i for start in offsets(starts).flat for i in range(runs.block_numel)]
    np.testing.assert_array_equal(blocks, offsets(layout).ravel())
    assert len(merged.runs().runs) == len(runs.runs)
    assert runs.kind == {0: "one", 1: "uniform"}.get(len(runs.repeats), "nested")
    assert (runs.kind == "one") == (layout.numel == 1 or bool((np.diff(offsets(layout).ravel()) == 1).all()))


def test_runs_of_no_elements_and_of_one():
    assert (Layout((2, 0), (1, 1), 3).runs().block_numel, Layout((2, 0), (1, 1)).runs().kind) == (0, "one")
    assert (Layout((), (), 3).runs().block_numel, Layout((), ()).runs().repeats) == (1, ())


@given(layouts())
def test_overlap_is_what_counting_says(layout):
    count = len(np.unique(offsets(layout)))
    assert layout.distinct_elements() == count
    assert layout.has_internal_overlap() is (count < layout.numel)
    if layout.is_non_overlapping_and_dense():
        assert count == layout.numel == layout.extent


@given(layouts())
def test_a_preserved_layout_is_dense_and_keeps_what_is_dense(layout):
    dense = Layout.dense_like(layout)
    assert dense.is_non_overlapping_and_dense()
    assert Layout.dense_like(dense) == dense


@given(st.lists(st.integers(0, 4), max_size=5))
def test_a_contiguous_layout_is_contiguous_and_views_as_one_dimension(sizes):
    layout = Layout.contiguous(sizes)
    assert layout.is_contiguous()
    assert layout.extent == layout.numel == prod(sizes)
    assert layout.view([layout.numel]).strides == (1,)


def test_expand_refuses_what_no_tensor_can_count():
    with pytest.raises(TensorError, match="numel: integer multiplication overflow"):
        Layout((1, 1), (1, 1)).expand((2**32, 2**31))
    with pytest.raises(TensorError, match="numel: integer multiplication overflow"):
        Layout((), ()).expand((-1,))
